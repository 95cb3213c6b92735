"""The page's questions to the server, which computes numbers and refuses nonsense; colours, labels and the address are the browser's
business. What follows a moving slider is asked by assets/explorer.js itself and drawn by it: Dash hears of it when the slider rests.
"""

from __future__ import annotations

import json
from functools import lru_cache
from typing import Any

import flask
from dash import ClientsideFunction, Dash, Input, Output, State, no_update
from dash.exceptions import PreventUpdate
from werkzeug.exceptions import BadRequest

from ..errors import InputError
from ..report.phases import recovered_in_words
from ..theory import Outcome, bayes_transition, outcomes, pi_star, spinodal
from . import preview, snippets
from .data import TYPES, data_file
from .draw import curve_figure, diagram_figure, errors_figure, potential_figure
from .layout import FIGURES, layout, page_template, readout, theme_rules
from .own import serve_files
from .runs import Runs
from .state import State as Screen
from .state import from_client, from_query, nearest
from .words import SLIDERS, help_page

_OURS = "spinodal"


def make_app() -> Dash:
    """The Dash application, everything served from this package and from Dash's own."""
    app = Dash(__name__, title="Spinodal", update_title="", serve_locally=True, suppress_callback_exceptions=False, compress=False)
    app.index_string = page_template()
    app.layout = layout
    runs = Runs()
    _address(app)
    _figures(app)
    _live(app, runs)
    _downloads(app, runs)
    serve_files(app.server, runs)

    @app.server.get("/help")
    def help_me() -> str:
        return help_page(theme_rules())

    return app


def _screen(data: Any) -> Screen:
    """The state that the page sent, or an answer that says what is wrong with it."""
    try:
        return from_client(data)
    except InputError as error:
        raise BadRequest(str(error)) from None


def _together(data: Any, instance: Any) -> Any:
    """The two parts of a state in one; anything else is left for the check to refuse."""
    return {**data, **instance} if isinstance(data, dict) and isinstance(instance, dict) else data


def _ours(app: Dash, name: str, *wires: Any) -> None:
    """A callback that runs in the browser: a function of assets/explorer.js."""
    app.clientside_callback(ClientsideFunction(_OURS, name), *wires)


def _address(app: Dash) -> None:
    @app.callback(
        Output("places", "data"),
        Output("choices", "data"),
        Output("n", "value"),
        Output("seed", "value"),
        Output("message", "children"),
        Input("url", "search"),
    )
    def restore(search: Any) -> list[Any]:
        state, complaints = from_query(search if isinstance(search, str) else "")
        places = {name: nearest(name, getattr(state, name)) for name in SLIDERS}
        return [places, {"x": state.x, "f": state.f, "channel": state.channel}, state.n, state.seed, " ".join(complaints)]

    inputs = [Input("places", "data"), Input("choices", "data"), Input("n", "value"), Input("seed", "value")]
    kept = [State("state", "data"), State("instance", "data"), State("constants", "data")]
    _ours(app, "collect", Output("state", "data"), Output("instance", "data"), *inputs, *kept)
    _ours(
        app,
        "theme",
        Output("theme", "data"),
        Output("theme-kept", "data"),
        Output("toggle", "children"),
        Input("toggle", "n_clicks"),
        State("theme-kept", "data"),
    )


@lru_cache(maxsize=64)
def exact_numbers(state: Screen) -> tuple[Outcome, dict[str, float | None]]:
    """The numbers at the top of the page."""
    # A channel's own averages would be compiled for each kind; those of the tables are as good as the digits that are shown.
    problem = state.problem() if state.is_gaussian else preview.preview_problem(state)
    # Maxwell's construction takes thousands of integrals, and the digits that are shown are those of the tables.
    maxwell = bayes_transition(preview.preview_problem(state))
    counted = {"π*": pi_star(problem)} if state.is_gaussian else {}
    return outcomes([problem])[0], {**counted, "πˢ": spinodal(problem), "π_B": maxwell}


def _figures(app: Dash) -> None:
    @app.server.post("/figures")
    def figures() -> flask.Response:
        """One answer for all that depends on the place in the diagram."""
        state = _screen(flask.request.get_json(force=True, silent=True))
        point = preview.point(state)
        return _json({"potential": potential_figure(point), "curve": curve_figure(point, state), "errors": errors_figure(point)})

    @app.server.post("/diagram")
    def diagram() -> flask.Response:
        """The diagram takes longer: its answer comes while the others are drawn."""
        state = _screen(flask.request.get_json(force=True, silent=True))
        return _json(diagram_figure(preview.diagram(state), state))

    @app.callback(Output("readout", "children"), Input("state", "data"), prevent_initial_call=True)
    def tell(data: Any) -> Any:
        """When the sliders rest: the numbers, by quadrature and not from tables."""
        outcome, transitions = exact_numbers(_screen(data))
        bayes, amp = outcome.bayes.mse, outcome.amp.mse
        errors = [("Bayes E, D", f"{bayes.X:.3g}, {bayes.F:.3g}"), ("AMP E, D", f"{amp.X:.3g}, {amp.F:.3g}")]
        errors.append(("AMP recovers", recovered_in_words(outcome.amp)))
        numbers = [(name, "none" if value is None else f"{value:.4g}") for name, value in transitions.items()]
        return readout([*numbers, *errors], outcome.phase)

    @app.callback(
        Output("command", "children"),
        Output("code", "children"),
        Input("state", "data"),
        Input("instance", "data"),
        prevent_initial_call=True,
    )
    def spell(data: Any, instance: Any) -> Any:
        """The commands that print them."""
        if data is None:
            raise PreventUpdate
        state = _screen(_together(data, instance))
        return snippets.command(state), snippets.code(state)

    _ours(app, "follow", Output("page", "title"), Input("live", "data"), Input("theme", "data"))


def _json(content: Any) -> flask.Response:
    return flask.Response(json.dumps(content, separators=(",", ":")), mimetype="application/json")


def _live(app: Dash, runs: Runs) -> None:
    @app.callback(
        Output("run", "data"),
        Output("live", "data"),
        Output("clock", "disabled"),
        Input("start", "n_clicks"),
        State("state", "data"),
        State("instance", "data"),
        prevent_initial_call=True,
    )
    def start(clicks: Any, data: Any, instance: Any) -> Any:
        state = _screen(_together(data, instance))
        try:
            run = runs.start(state)
        except InputError as error:
            return None, {"refused": str(error)}, True
        return run.id, run.seen(), False

    @app.callback(Output("cancel", "title"), Input("cancel", "n_clicks"), State("run", "data"), prevent_initial_call=True)
    def cancel(clicks: Any, id: Any) -> Any:
        run = runs.get(id)
        if run is not None:
            run.cancel()
        return no_update

    @app.callback(
        Output("live", "data", allow_duplicate=True),
        Output("clock", "disabled", allow_duplicate=True),
        Input("clock", "n_intervals"),
        Input("url", "pathname"),  # once, when the page is loaded: a run that was under way is found again
        State("run", "data"),
        prevent_initial_call="initial_duplicate",
    )
    def poll(ticks: Any, path: Any, id: Any) -> Any:
        if id is None:
            return no_update, True
        run = runs.get(id)
        if run is None:
            return {"refused": "The run that this tab had started is gone."}, True
        seen = run.seen()
        return seen, seen["done"]

    _ours(
        app,
        "progress",
        Output("progress", "children"),
        Output("cancel", "disabled"),
        Output("start", "disabled"),
        Input("live", "data"),
        Input("state", "data"),
    )


def _downloads(app: Dash, runs: Runs) -> None:
    _ours(app, "save", Output("wanted", "data"), Input("save", "n_clicks"))

    @app.callback(
        Output("download", "data"), Input("wanted", "data"), State("state", "data"), State("run", "data"), prevent_initial_call=True
    )
    def send(wanted: Any, data: Any, id: Any) -> Any:
        """A file made in memory; its name is one of ours."""
        which, kind = (wanted.get(name) if isinstance(wanted, dict) else None for name in ("which", "format"))
        if not isinstance(which, str) or which not in FIGURES or not isinstance(kind, str) or kind not in TYPES:
            raise BadRequest("There is no such file.")
        return data_file(which, kind, _screen(data), runs.get(id))
