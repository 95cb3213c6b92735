"""`spinodal explore`: the page served to this computer."""

from __future__ import annotations

import logging
import socket
import sys
import threading
import webbrowser
from typing import Any

from ..errors import InputError
from .security import is_loopback, protect

_LARGEST_PORT = 65_535


def make_server(host: str = "127.0.0.1", port: int = 8050) -> Any:
    """A server, bound to its port and not yet serving; port 0 takes a free one."""
    if not isinstance(port, int) or not 0 <= port <= _LARGEST_PORT:
        raise InputError(f"port must be a whole number from 0 to {_LARGEST_PORT}, but {port!r} was given.")
    try:
        import dash  # noqa: F401
    except ImportError:
        raise InputError("explore needs Dash, which is not installed: pip install 'spinodal[explorer]'.") from None
    from werkzeug.serving import WSGIRequestHandler
    from werkzeug.serving import make_server as serve

    from .app import make_app

    listening = _bound(host, port)
    port = listening.getsockname()[1]
    app = make_app()
    protect(app, host, port)
    logging.getLogger("werkzeug").setLevel(logging.ERROR)

    class Handler(WSGIRequestHandler):
        protocol_version = "HTTP/1.1"  # connections are kept: a slider asks often
        disable_nagle_algorithm = True  # and answers do not wait for more to send

    server = serve(host, port, app.server, threaded=True, request_handler=Handler, fd=listening.detach())
    server.daemon_threads = True
    return server


def _bound(host: str, port: int) -> socket.socket:
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        listening = socket.socket(family, kind, protocol)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(address)
        listening.listen(128)
    except OSError as error:
        raise InputError(f"host and port must be free to listen on, but {host}:{port} is not ({error.strerror or error}).") from None
    return listening


def explore(host: str, port: int, open_browser: bool) -> None:
    """Serve until interrupted."""
    import jax

    # A run and the sliders compute at the same time: each in its own thread, or together they could occupy all of XLA's, which then wait
    # for each other.
    jax.config.update("jax_cpu_enable_async_dispatch", False)
    server = make_server(host, port)
    shown = f"[{server.host}]" if ":" in server.host else server.host
    address = f"http://{shown}:{server.port}/"
    if not is_loopback(host):
        print(
            f"spinodal: warning: {host} can be reached from other computers; anyone there can use this page and its runs.", file=sys.stderr
        )
    print(f"The explorer is at {address} (Ctrl-C ends it).", flush=True)
    from .preview import warm_up

    threading.Thread(target=warm_up, name="warm-up", daemon=True).start()
    if open_browser:
        webbrowser.open(address)
    try:
        server.serve_forever()
    finally:
        server.server_close()
