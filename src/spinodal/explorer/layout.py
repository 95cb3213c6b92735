"""What is on the page."""

from __future__ import annotations

from typing import Any

from dash import dcc, html

from ..figures.palette import THEMES, phase_key
from ..figures.theory import CAVEAT
from .own import KINDS, RESULTS
from .own_data import MOST_ATOMS
from .security import LONGEST_UPLOAD, UPLOAD, too_long
from .state import CHANNELS, PRIORS_F, PRIORS_X, SEEDS, SIZES, VALUES, State, nearest
from .words import CONTROLS, OWN, PRESETS, READOUT, SLIDERS

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


def _help(name: str, label: str, text: str) -> list[Any]:
    """A question mark that shows what a control means, and links to the page of help."""
    link = html.A(
        "?", href=f"/help#{name}", className="help", target="_blank", **{"aria-label": f"Help: {label}", "aria-describedby": f"{name}-tip"}
    )
    return [link, html.Span(text, id=f"{name}-tip", className="tip", role="tooltip")]


def _slider(name: str) -> html.Div:
    """A label, a field for the number, and room for the browser's own slider: the script makes both, since one of Dash's would be set
    back by late answers."""
    letter, what, text = SLIDERS[name]
    label = html.Label(f"{letter}, {what}", htmlFor=name)
    entry = html.Span(id=f"{name}-entry", className="entry", **{"data-label": f"{letter}, as a number"})
    return html.Div(
        [html.Div([label, *_help(name, letter, text), entry], className="line"), html.Div(id=f"{name}-slider")], className="control"
    )


def _choice(name: str, options: dict[str, str]) -> html.Div:
    label, text = CONTROLS[name]
    line = html.Div([html.Label(label, htmlFor=name), *_help(name, label, text)], className="line")
    return html.Div([line, _select(name, options)], className="control")


def _select(name: str, options: dict[str, str]) -> html.Select:
    """The browser's own select, which every keyboard and screen reader knows; the page's script tells Dash of its changes."""
    return html.Select([html.Option(label, value=value) for value, label in options.items()], id=name)


def _count(name: str, bounds: tuple[int, int]) -> html.Div:
    low, high = bounds
    label, text = CONTROLS[name]
    field = dcc.Input(id=name, type="number", min=low, max=high, step=1, value=getattr(State(), name), debounce=True)
    return html.Div(
        [html.Div([html.Label(label, htmlFor=name), *_help(name, label, text)], className="line"), field], className="control short"
    )


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
    table = html.Details(
        [
            html.Summary("Numbers", **{"aria-label": f"Numbers of the figure: {name}"}),
            html.Div(id=f"{name}-numbers", tabIndex="0", role="group", **{"aria-label": f"Table of {name}"}),
        ],
        className="numbers",
    )
    return html.Figure([graph, html.Figcaption([*marks, table])], role="figure", **{"aria-label": label})


def layout() -> html.Div:
    """The whole page, in its default state."""
    written = {name: [f"{value:g}" for value in values] for name, values in VALUES.items()}
    stores = [
        dcc.Location(id="url", refresh=False),
        dcc.Store(
            id="constants", data={"values": written, "themes": THEMES, "config": {name: _config(name) for name in FIGURES}, **_told()}
        ),
        dcc.Store(id="theme"),
        dcc.Store(id="theme-kept", storage_type="local"),
        dcc.Store(id="places", data={name: nearest(name, getattr(State(), name)) for name in SLIDERS}),
        dcc.Store(id="choices", data={"x": State().x, "f": State().f, "channel": State().channel}),
        dcc.Store(id="state"),
        dcc.Store(id="instance"),
        dcc.Store(id="run", storage_type="session"),
        dcc.Store(id="live"),
        dcc.Store(id="wanted"),
        dcc.Download(id="download"),
        dcc.Interval(id="clock", interval=250, disabled=True),
    ]
    body = [*stores, _header(), html.Div([_controls(), _main()], className="columns"), own_section(), _footer()]
    return html.Div(body, id="page", lang="en")


def _told() -> dict[str, Any]:
    """What the page's script has to know besides."""
    return {
        "presets": {
            name: {key: f"{value:g}" if isinstance(value, float) else value for key, value in preset.state._asdict().items()}
            for name, preset in PRESETS.items()
        },
        "says": {name: preset.says for name, preset in PRESETS.items()},
        "without_density": [name for name, kind in PRIORS_X.items() if not kind.has_density],
        "without_noise": [name for name, channel in CHANNELS.items() if not channel.has_noise],
        "own": {"most": LONGEST_UPLOAD, "too_long": too_long(LONGEST_UPLOAD), "kinds": KINDS, "upload": UPLOAD},
    }


def _header() -> html.Header:
    return html.Header(
        [
            html.A("Skip to the figures", href="#figures", className="skip"),
            html.H1("Spinodal"),
            html.P("Y = F X/√N + noise", className="motto"),
            html.Nav([html.A("Your data", href="#own"), html.A("Help", href="/help", target="_blank")], **{"aria-label": "Page"}),
            html.Span(id="busy", role="status", hidden=True, **{"aria-live": "polite"}),
            html.Div(id="readout", role="status", **{"aria-live": "polite"}),
            html.Button("Dark", id="toggle", type="button", title="Light or dark"),
        ]
    )


def _controls() -> html.Div:
    presets = [
        html.Button(preset.label, type="button", className="preset", id=f"preset-{name}", **{"data-preset": name, "aria-pressed": "false"})
        for name, preset in PRESETS.items()
    ]
    live = [
        html.H2("Run AMP here"),
        html.Div([_count("n", SIZES), _count("seed", SEEDS)], className="pair"),
        html.Div(
            [
                html.Button("Run", id="start", type="button", className="main"),
                html.Button("Cancel", id="cancel", type="button", disabled=True),
            ],
            className="pair",
        ),
        html.P(id="progress", role="status", **{"aria-live": "polite"}),
    ]
    priors = {name: {value: kind.label for value, kind in kinds.items()} for name, kinds in (("x", PRIORS_X), ("f", PRIORS_F))}
    return html.Div(
        [
            html.Div(id="message", role="alert"),
            html.Div(presets, className="presets", role="group", **{"aria-label": "Presets"}),
            html.P(id="preset-says", role="status", **{"aria-live": "polite"}),
            *(_slider(name) for name in SLIDERS),
            *(_choice(name, options) for name, options in priors.items()),
            _choice("channel", {name: channel.label for name, channel in CHANNELS.items()}),
            *live,
        ],
        className="controls",
        role="region",
        **{"aria-label": "Controls"},
    )


def _main() -> html.Main:
    return html.Main([_graph(name, label) for name, label in FIGURES.items()], className="figures", id="figures", tabIndex="-1")


def _input(name: str, kind: str, **more: Any) -> html.Div:
    """A label, help, and room for an input of the browser's, which the page's script puts there: Dash has none."""
    label, text = OWN[name]
    room = html.Span(
        id=f"{name}-entry",
        className="entry",
        **{"data-input": kind, "data-id": name, **{f"data-{key}": str(value) for key, value in more.items()}},
    )
    parts = [html.Label(label, htmlFor=name), *_help(name, label, text)]
    inside = [room, *parts] if kind == "checkbox" else [html.Div(parts, className="line"), room]
    return html.Div(inside, className=f"control {'tick' if kind == 'checkbox' else 'short'}")


def own_section() -> html.Section:
    """Where a file of the reader's is dropped, looked at and solved."""
    reading = [
        _input("own-transpose", "checkbox"),
        _input("own-header", "checkbox"),
        _input("own-comma", "checkbox"),
        _input("own-na", "text"),
    ]
    solving = [
        _input("own-atoms", "number", min=1, max=MOST_ATOMS, step=1),
        _input("own-density", "number", min=0, max=1, step="any", placeholder="learned"),
        _input("own-noise", "number", min=0, step="any", placeholder="learned"),
        _input("own-eta", "number", min=0, step="any", placeholder="learned"),
        _input("own-channel", "text", placeholder="Gaussian noise"),
        _input("own-seed", "number", min=0, max=SEEDS[1], step=1, value=0),
        _input("own-means", "checkbox"),
    ]
    buttons = [
        html.Button("Solve", id="own-solve", type="button", className="main"),
        html.Button("Cancel", id="own-cancel", type="button", disabled=True),
    ]
    files = [html.A(f"Download {name}", id=f"own-{name.replace('.', '-')}", className="button", **{"data-file": name}) for name in RESULTS]
    drop = html.Div(
        [
            html.P(["Drop a table here, or choose it: ", ", ".join(KINDS), ". Rows are measurements, columns are signals."]),
            html.Div(
                [
                    html.Label("Your file", htmlFor="own-file"),
                    html.Span(id="own-file-entry", **{"data-input": "file", "data-id": "own-file", "data-accept": ",".join(KINDS)}),
                ],
                className="pair",
            ),
            html.Details([html.Summary("How the table is written"), html.Div(reading, className="fields")]),
        ],
        id="own-drop",
    )
    return html.Section(
        [
            html.H2("Your own data", id="own-title"),
            drop,
            html.P(id="own-message", role="alert"),
            html.P(id="own-progress", role="status", **{"aria-live": "polite"}),
            html.Div(
                [
                    html.Div(
                        [
                            html.H3("What was read"),
                            html.Div(id="own-summary", tabIndex="0", role="group", **{"aria-label": "Summary of your file"}),
                            html.Div(id="own-warnings"),
                        ],
                        className="card",
                    ),
                    html.Div(
                        [
                            html.H3("Solve it"),
                            html.Div(solving, className="fields"),
                            html.P(id="own-ratios", role="status", **{"aria-live": "polite"}),
                            html.Div(buttons, className="pair"),
                            html.H3("The same on the command line"),
                            html.Button(
                                "Copy",
                                id="copy-own-command",
                                type="button",
                                className="copy",
                                **{"data-copies": "own-command", "aria-label": "Copy the command for your file"},
                            ),
                            html.Pre(id="own-command", tabIndex="0"),
                        ],
                        className="card",
                    ),
                    html.Div(
                        [
                            html.H3("Its course"),
                            html.Div(dcc.Graph(id="own-course", config=_config("own-course")), className="graph"),
                            html.Details(
                                [
                                    html.Summary("Numbers", **{"aria-label": "Numbers of the course"}),
                                    html.Div(id="own-course-numbers", tabIndex="0", role="group", **{"aria-label": "Table of the course"}),
                                ],
                                className="numbers",
                            ),
                        ],
                        className="card",
                        role="figure",
                        **{"aria-label": "Residual, iteration by iteration"},
                    ),
                ],
                id="own-read",
                hidden=True,
            ),
            html.Div(
                [
                    html.H3("What was found"),
                    html.Div(id="own-result", role="status", tabIndex="0", **{"aria-live": "polite"}),
                    html.Div([*files, html.Button("Show in the diagram", id="own-place", type="button")], className="files"),
                    html.Iframe(id="own-report", title="Report about your data", sandbox="allow-same-origin"),
                ],
                id="own-found",
                hidden=True,
            ),
        ],
        id="own",
        **{"aria-labelledby": "own-title"},
    )


def _footer() -> html.Footer:
    return html.Footer(
        [
            _copied("On the command line", "command", "the commands"),
            _copied("In Python", "code", "the program"),
            html.Section(
                [
                    html.H2("Download"),
                    html.Label("figure", htmlFor="which"),
                    _select("which", {name: name for name in FIGURES}),
                    html.Label("as", htmlFor="format"),
                    _select("format", FORMATS),
                    html.Button("Download", id="save", type="button"),
                    html.P("The address of this page holds its whole state: share it or keep it."),
                    html.Button("Copy the address", id="copy-address", type="button", className="copy", **{"data-copies": "address"}),
                    html.P(CAVEAT, className="caveat"),
                ],
                className="download",
            ),
        ]
    )


def _copied(title: str, name: str, what: str) -> html.Section:
    """Text in a box, and a button that copies it."""
    button = html.Button("Copy", id=f"copy-{name}", type="button", className="copy", **{"data-copies": name, "aria-label": f"Copy {what}"})
    return html.Section([html.Div([html.H2(title), button], className="line"), html.Pre(id=name, tabIndex="0")])


def theme_rules() -> str:
    """The colours of both themes: the reader's choice, or else the system's."""

    def rules(name: str) -> str:
        return "".join(f"--{key}:{value};" for key, value in THEMES[name].items()) + f"color-scheme:{name};"

    style = f":root{{{rules('light')}}}:root[data-theme=dark]{{{rules('dark')}}}"
    style += f"@media (prefers-color-scheme:dark){{:root:not([data-theme]){{{rules('dark')}}}}}"
    return style + f"@media print{{:root,:root[data-theme=dark],:root:not([data-theme]){{{rules('light')}}}}}"


def page_template() -> str:
    """Dash's page with the colours of both themes in it."""
    return f"""<!DOCTYPE html>
<html lang="en"><head>{{%metas%}}<title>{{%title%}}</title>{{%favicon%}}{{%css%}}<style>{theme_rules()}</style></head>
<body>{{%app_entry%}}{{%config%}}{{%scripts%}}{{%renderer%}}</body></html>"""


def readout(items: list[tuple[str, str]], phase: str) -> list[Any]:
    """The line of numbers at the top."""
    badge = html.Strong(phase, className=f"phase {phase_key(phase)}")
    return [badge, *(html.Span([html.I(name), " ", value], title=READOUT.get(name)) for name, value in items)]
