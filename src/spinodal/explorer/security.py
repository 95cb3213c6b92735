"""Who may talk to the page: the browser that shows it, and nobody through it; and what is answered to all others."""

from __future__ import annotations

import ipaddress
import socket
from typing import Any
from urllib.parse import urlsplit

from ..errors import InputError
from .questions import check_question, read_body

# A callback's question is a few hundred bytes; only a file may be longer.
LONGEST_REQUEST, LONGEST_UPLOAD = 64 * 1024, 20_000_000
# Where a file is sent.
UPLOAD = "/data"
# The report inside the page: pictures and styles of its own, and nothing that runs.
_REPORT = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; frame-ancestors 'self'; sandbox allow-same-origin"
_EVERYWHERE = ("0.0.0.0", "::", "")
_NAMES = ("localhost", "127.0.0.1", "::1")
# Where Dash puts the questions of its callbacks.
_QUESTIONS = "/_dash-update-component"
# For files whose address changes with their content, a year; anything else is asked for again, and not sent if it is the same.
_KEPT, _ASKED_AGAIN = "public, max-age=31536000, immutable", "no-cache"


def is_loopback(host: str) -> bool:
    """Whether only this computer can reach a server on `host`."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _host_and_port(text: str) -> tuple[str, int | None]:
    try:
        parts = urlsplit(f"//{text}")
        return (parts.hostname or "").lower(), parts.port
    except ValueError:
        return "", None


def host_allowed(header: str, host: str, port: int) -> bool:
    """Whether a Host header names this server. A name that someone else's DNS could point here does not.

    On all interfaces any address written in numbers will do, and this computer's own name.
    """
    name, given = _host_and_port(header)
    if (given or 80) != port:
        return False
    if name in _NAMES or name == host.lower():
        return True
    if host not in _EVERYWHERE:
        return False
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return name == socket.gethostname().lower()
    return True


def origin_allowed(origin: str | None, host_header: str) -> bool:
    """Whether a request comes from the page itself (or from no page at all)."""
    return origin is None or origin.lower() == f"http://{host_header.lower()}"


def protect(app: Any, host: str, port: int) -> None:
    """Refuse requests with a foreign Host or Origin, and long ones; tell browsers to load nothing from elsewhere."""
    import flask

    server = app.server
    server.config["MAX_CONTENT_LENGTH"] = LONGEST_UPLOAD
    scripts = " ".join(f"{value}" for value in app.csp_hashes())
    policy = "; ".join(
        [
            "default-src 'self'",
            f"script-src 'self' {scripts}",
            "style-src 'self' 'unsafe-inline'",  # plotly writes styles
            "img-src 'self' data: blob:",
            "connect-src 'self'",
            "frame-ancestors 'none'",
            "base-uri 'none'",
            "form-action 'none'",
        ]
    )

    @server.before_request
    def check_sender() -> None:
        header = flask.request.headers.get("Host", "")
        if not host_allowed(header, host, port):
            flask.abort(403, "The Host of this request is not this server's.")
        if not origin_allowed(flask.request.headers.get("Origin"), header):
            flask.abort(403, "This request comes from another page.")

    @server.before_request
    def check_body() -> None:
        if flask.request.method != "POST":
            return
        most = longest(flask.request.path)
        if (flask.request.content_length or 0) > most:
            flask.abort(413, too_long(most))
        if flask.request.path == UPLOAD:
            return
        try:
            question = read_body(flask.request.get_data(cache=True))
            if flask.request.path == _QUESTIONS:
                check_question(question, app.callback_map)
        except InputError as error:
            flask.abort(400, str(error))

    _answer_in_sentences(server)

    @server.after_request
    def close_doors(response: Any) -> Any:
        response.headers["Content-Security-Policy"] = _REPORT if flask.request.path.endswith("/page") else policy
        response.headers["X-Content-Type-Options"] = "nosniff"
        response.headers["Referrer-Policy"] = "no-referrer"
        response.headers["Cross-Origin-Resource-Policy"] = "same-origin"
        response.headers["Cache-Control"] = _cached(flask.request, response)
        return response


def longest(path: str) -> int:
    """The most bytes that a request for this path may have."""
    return LONGEST_UPLOAD if path == UPLOAD else LONGEST_REQUEST


def too_long(most: int) -> str:
    """What is said of a longer request."""
    what = f"A file must have at most {most // 10**6} MB" if most == LONGEST_UPLOAD else f"A request must have at most {most} bytes"
    return f"{what}." if most != LONGEST_UPLOAD else f"{what} on this page; `spinodal solve` on the command line has no such limit."


def _cached(request: Any, response: Any) -> str:
    """How long a browser may keep an answer."""
    dated = request.path.startswith("/assets/") and "m" in request.args  # Dash adds the time of the file
    fingerprinted = request.path.startswith("/_dash-component-suites/") and response.cache_control.max_age
    return _KEPT if response.status_code in (200, 304) and (dated or fingerprinted) else _ASKED_AGAIN


def _answer_in_sentences(server: Any) -> None:
    """A refusal is one sentence of plain text."""
    from dash.exceptions import DependencyException
    from werkzeug.exceptions import HTTPException

    def told(sentence: str, code: int) -> Any:
        return sentence, code, {"Content-Type": "text/plain; charset=utf-8"}

    @server.errorhandler(HTTPException)
    def refuse(error: Any) -> Any:
        return told(str(error.description), error.code)

    @server.errorhandler(InputError)
    def say_why(error: Any) -> Any:
        return told(str(error), 400)

    @server.errorhandler(DependencyException)
    def unknown_file(_: Any) -> Any:
        return told("There is no such file.", 404)
