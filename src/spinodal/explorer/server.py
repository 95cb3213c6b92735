"""`spinodal explore`: the page served to this computer."""

from __future__ import annotations

import logging
import os
import signal
import socket
import sys
import threading
import webbrowser
from typing import Any

from ..errors import INTERRUPTED, InputError, shown
from .security import LONGEST_UPLOAD, is_loopback, protect, too_long

_LARGEST_PORT = 65_535
# Threads that answer. Questions wait for the processor, not for each other, so more would only share it.
_THREADS = 8
# Connections that are open at a time; further ones wait. Seconds until one that says nothing is closed, and between looks for such.
_CONNECTIONS, _SILENCE, _LOOKS = 500, 30, 5
# Headers of a browser are a few hundred bytes.
_LONGEST_HEADERS = 16 * 1024


class Server:
    """A page on a port. `serve_forever` returns when it is closed."""

    def __init__(self, serving: Any, host: str, port: int) -> None:
        self._serving, self.host, self.port = serving, host, port

    def serve_forever(self) -> None:
        """Answer until Ctrl-C, which is passed on."""
        from waitress import wasyncore

        settings = self._serving.adj
        # The server's own `run` swallows Ctrl-C, and waits for answers that nobody wants any more.
        wasyncore.loop(timeout=settings.asyncore_loop_timeout, map=self._serving._map, use_poll=settings.asyncore_use_poll)

    def server_close(self) -> None:
        """Close the port and all connections."""
        from waitress import wasyncore

        self._serving.task_dispatcher.shutdown(timeout=0)
        wasyncore.close_all(self._serving._map)


def make_server(host: str = "127.0.0.1", port: int = 8050) -> Server:
    """A server, bound to its port and not yet serving; port 0 takes a free one."""
    if not isinstance(port, int) or not 0 <= port <= _LARGEST_PORT:
        raise InputError(f"port must be a whole number from 0 to {_LARGEST_PORT}, but {port!r} was given.")
    try:
        import dash  # noqa: F401
        import waitress
    except ImportError:
        raise InputError("explore needs Dash and waitress, which are not installed: pip install 'spinodal[explorer]'.") from None

    from .app import make_app

    listening = _bound(host, port)
    port = listening.getsockname()[1]
    app = make_app()
    protect(app, host, port)
    logging.getLogger("waitress").setLevel(logging.CRITICAL)  # it tells of every connection that a browser drops
    serving = waitress.create_server(
        app.server,
        sockets=[listening],
        threads=_THREADS,
        connection_limit=_CONNECTIONS,
        channel_timeout=_SILENCE,
        cleanup_interval=_LOOKS,
        max_request_header_size=_LONGEST_HEADERS,
        max_request_body_size=LONGEST_UPLOAD,
        asyncore_use_poll=True,
        ident=None,
    )
    serving.channel_class = _channel_class()
    return Server(serving, host, port)


def _channel_class() -> Any:
    """Waitress's connections, with what is refused before it is read answered in a sentence of ours."""
    from waitress.channel import HTTPChannel
    from waitress.task import ErrorTask

    class Refusal(ErrorTask):
        def execute(self) -> None:
            error = self.request.error
            body = (too_long(LONGEST_UPLOAD) if error.code == 413 else f"{error.reason}: {error.body}").encode("utf-8", "replace")
            self.status = f"{error.code} {error.reason}"
            self.response_headers.append(("Content-Type", "text/plain; charset=utf-8"))
            self.set_close_on_finish()
            self.content_length = len(body)
            self.write(body)

    return type("Channel", (HTTPChannel,), {"error_task_class": Refusal})


def _bound(host: str, port: int) -> socket.socket:
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        listening = socket.socket(family, kind, protocol)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(address)
        listening.listen(128)
    except (OSError, ValueError) as error:  # ValueError: a name that no host can have
        why = error.strerror or error if isinstance(error, OSError) else "it can't be the name of a computer"
        raise InputError(f"host and port must be free to listen on, but port {port} of {shown(host)} is not ({why}).") from None
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
    from .preview import warm_up

    # Not by the usual way out, which waits for threads that compile. Workers end with their server.
    before = signal.signal(signal.SIGINT, lambda *_: os._exit(INTERRUPTED))
    try:
        print(f"The explorer is at {address} (Ctrl-C ends it).", flush=True)
        threading.Thread(target=warm_up, name="warm-up", daemon=True).start()
        if open_browser:
            webbrowser.open(address)
        server.serve_forever()
    finally:
        server.server_close()
        signal.signal(signal.SIGINT, before)
