"""What is on the page."""

from __future__ import annotations

from typing import Any

from dash import dcc, html

from ..figures.palette import THEMES, phase_key
from ..figures.theory import CAVEAT
from .state import PRIORS_F, PRIORS_X, SEEDS, SIZES, VALUES, Kind, State, nearest

SLIDERS = {
    "alpha": "α = M/N, measurements",
    "rho": "ρ, density of X",
    "eta": "η, error of the matrix",
    "delta": "Δ, noise variance",
    "pi": "π = P/N, signals",
}
FIGURES = {
    "diagram": "Phase diagram: impossible, hard and easy regions, and that with nothing to gain, over density and number of signals. "
    "Click to select a point.",
    "potential": "Potential along the error on X, with its maxima and the state evolution climbing it",
    "curve": "Fixed points: the number of signals at which each signal-to-noise ratio is a fixed point",
    "errors": "Errors iteration by iteration: predicted, and measured in a live run",
    "recovered": "Recovered X against the true X",
    "atoms": "Angle of every atom to the true one",
}
# What is what, beneath each figure: the kind of mark, its colour, its name. Plotly's own legends would cost a third of a redraw.
LEGENDS = {
    "diagram": [
        ("line", "bound", "π*"),
        ("dot", "spinodal", "πˢ (AMP)"),
        ("dash", "matrix", "π_B (Bayes)"),
        ("dot", "muted", "2nd spinodal"),
    ],
    "potential": [("line", "signals", "Φ(E)"), ("disc", "muted", "state evolution"), ("disc", "bayes", "Bayes"), ("disc", "amp", "AMP")],
    "curve": [
        ("line", "signals", "stable"),
        ("dot", "signals", "unstable"),
        ("line", "muted", "π now"),
        ("disc", "bayes", "Bayes"),
        ("disc", "amp", "AMP"),
    ],
    "errors": [
        ("line", "signals", "E theory"),
        ("line", "matrix", "D theory"),
        ("disc", "signals", "E run"),
        ("ring", "signals", "E, median signal"),
        ("square", "matrix", "D run"),
    ],
    "recovered": [("disc", "amp", "entries of X"), ("line", "muted", "perfect")],
    "atoms": [("disc", "matrix", "atoms"), ("dot", "muted", "recovered below")],
}
FORMATS = {"svg": "SVG", "png": "PNG", "csv": "CSV", "json": "JSON", "nc": "NetCDF"}


def _slider(name: str, label: str) -> html.Div:
    """A label, and room for the browser's own slider: the page's script makes it, since one of Dash's would be set back by late answers."""
    value = html.Output(id=f"{name}-value", className="value")
    return html.Div([html.Label([label, value], htmlFor=name), html.Div(id=f"{name}-slider")], className="control")


def _choice(name: str, label: str, kinds: dict[str, Kind]) -> html.Div:
    options = {value: kind.label for value, kind in kinds.items()}
    return html.Div([html.Label(label, htmlFor=name), _select(name, options)], className="control")


def _select(name: str, options: dict[str, str]) -> html.Select:
    """The browser's own select, which every keyboard and screen reader knows; the page's script tells Dash of its changes."""
    return html.Select([html.Option(label, value=value) for value, label in options.items()], id=name)


def _count(name: str, label: str, bounds: tuple[int, int]) -> html.Div:
    low, high = bounds
    field = dcc.Input(id=name, type="number", min=low, max=high, step=1, value=getattr(State(), name), debounce=True)
    return html.Div([html.Label(label, htmlFor=name), field], className="control short")


def _config(name: str) -> dict[str, Any]:
    """Plotly's options of a figure."""
    return {
        "displaylogo": False,
        "responsive": True,
        "modeBarButtonsToRemove": ["select2d", "lasso2d", "autoScale2d"],
        "scrollZoom": False,
        "toImageButtonOptions": {"format": "svg", "filename": f"spinodal-{name}"},
    }


def _graph(name: str, label: str) -> html.Figure:
    marks = [
        html.Span([html.I(className=f"mark {kind}", style={"color": f"var(--{colour})"}), text]) for kind, colour, text in LEGENDS[name]
    ]
    graph = html.Div(dcc.Graph(id=name, config=_config(name)), className="graph")
    return html.Figure([graph, html.Figcaption(marks)], role="figure", **{"aria-label": label})


def layout() -> html.Div:
    """The whole page, in its default state."""
    written = {name: [f"{value:g}" for value in values] for name, values in VALUES.items()}
    stores = [
        dcc.Location(id="url", refresh=False),
        dcc.Store(id="constants", data={"values": written, "themes": THEMES, "config": {name: _config(name) for name in FIGURES}}),
        dcc.Store(id="theme"),
        dcc.Store(id="theme-kept", storage_type="local"),
        dcc.Store(id="places", data={name: nearest(name, getattr(State(), name)) for name in SLIDERS}),
        dcc.Store(id="choices", data={"x": State().x, "f": State().f}),
        dcc.Store(id="state"),
        dcc.Store(id="instance"),
        dcc.Store(id="run", storage_type="session"),
        dcc.Store(id="live"),
        dcc.Store(id="wanted"),
        dcc.Download(id="download"),
        dcc.Interval(id="clock", interval=250, disabled=True),
    ]
    body = [*stores, _header(), html.Div([_controls(), _main()], className="columns"), _footer()]
    return html.Div(body, id="page", lang="en")


def _header() -> html.Header:
    return html.Header(
        [
            html.H1("Spinodal"),
            html.P("Y = F X/√N + noise", className="motto"),
            html.Div(id="readout", role="status", **{"aria-live": "polite"}),
            html.Button("Dark", id="toggle", type="button", title="Light or dark"),
        ]
    )


def _controls() -> html.Div:
    live = [
        html.H2("Run AMP here"),
        html.Div([_count("n", "N", SIZES), _count("seed", "seed", SEEDS)], className="pair"),
        html.Div(
            [
                html.Button("Run", id="start", type="button", className="main"),
                html.Button("Cancel", id="cancel", type="button", disabled=True),
            ],
            className="pair",
        ),
        html.P(id="progress", role="status", **{"aria-live": "polite"}),
    ]
    return html.Div(
        [
            html.Div(id="message", role="alert"),
            *(_slider(name, label) for name, label in SLIDERS.items()),
            _choice("x", "prior of X", PRIORS_X),
            _choice("f", "prior of F", PRIORS_F),
            *live,
        ],
        className="controls",
        role="group",
        **{"aria-label": "Controls"},
    )


def _main() -> html.Main:
    return html.Main([_graph(name, label) for name, label in FIGURES.items()], className="figures")


def _footer() -> html.Footer:
    return html.Footer(
        [
            html.Section([html.H2("On the command line"), html.Pre(id="command", tabIndex="0")]),
            html.Section([html.H2("In Python"), html.Pre(id="code", tabIndex="0")]),
            html.Section(
                [
                    html.H2("Download"),
                    html.Label("figure", htmlFor="which"),
                    _select("which", {name: name for name in FIGURES}),
                    html.Label("as", htmlFor="format"),
                    _select("format", FORMATS),
                    html.Button("Download", id="save", type="button"),
                    html.P("The address of this page holds its whole state: share it or keep it."),
                    html.P(CAVEAT, className="caveat"),
                ],
                className="download",
            ),
        ]
    )


def page_template() -> str:
    """Dash's page with the colours of both themes in it: the reader's choice, or else the system's."""

    def rules(name: str) -> str:
        return "".join(f"--{key}:{value};" for key, value in THEMES[name].items()) + f"color-scheme:{name};"

    style = f":root{{{rules('light')}}}:root[data-theme=dark]{{{rules('dark')}}}"
    style += f"@media (prefers-color-scheme:dark){{:root:not([data-theme]){{{rules('dark')}}}}}"
    return f"""<!DOCTYPE html>
<html lang="en"><head>{{%metas%}}<title>{{%title%}}</title>{{%favicon%}}{{%css%}}<style>{style}</style></head>
<body>{{%app_entry%}}{{%config%}}{{%scripts%}}{{%renderer%}}</body></html>"""


def readout(items: list[tuple[str, str]], phase: str) -> list[Any]:
    """The line of numbers at the top."""
    badge = html.Strong(phase, className=f"phase {phase_key(phase)}")
    return [badge, *(html.Span([html.I(name), " ", value]) for name, value in items)]
