"""Processes that compute live runs and solve files. Each serves one shape and ends, so that what is compiled for many does not add up."""

from __future__ import annotations

import atexit
import json
import os
import subprocess
import sys
import threading
from collections.abc import Hashable, Iterator
from pathlib import Path
from typing import Any

_PACKAGE = str(Path(__file__).resolve().parents[2])
# -P: nothing is imported from the folder that the server was started in.
_COMMAND = (sys.executable, "-P", "-c", f"import sys; sys.path.append({_PACKAGE!r}); from spinodal.explorer.worker import main; main()")
# On a GPU each process would else take most of the memory for itself; and XLA would write to the terminal.
_SETTINGS = {"XLA_PYTHON_CLIENT_PREALLOCATE": "false", "TF_CPP_MIN_LOG_LEVEL": "3"}


class Worker:
    """One process, and the shape that it has programs for."""

    def __init__(self, shape: Hashable) -> None:
        self.shape = shape
        self._process = subprocess.Popen(
            _COMMAND,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            encoding="utf-8",
            env={**_SETTINGS, **os.environ},
            start_new_session=True,  # Ctrl-C is the server's to hear
        )
        atexit.register(self.end)

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    def ask(self, question: dict[str, Any]) -> Iterator[dict[str, Any]]:
        """What the process says of its work, until it has ended; fewer lines if the process is lost or ended by another thread."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.write(json.dumps(question) + "\n")
            self._process.stdin.flush()
            for line in self._process.stdout:
                said = json.loads(line)
                yield said
                if "ended" in said:
                    return
        except (OSError, ValueError):  # a pipe that was closed, or half a line
            return

    def end(self) -> None:
        """End the process now, whatever it is at."""
        atexit.unregister(self.end)
        self._process.kill()
        self._process.wait()


class Workers:
    """Hands out processes, and keeps one that has nothing to do."""

    def __init__(self) -> None:
        self._idle: Worker | None = None
        self._lock = threading.Lock()

    def take(self, shape: Hashable) -> Worker:
        """A process for work of this shape: the one that is kept, if it has programs for it. None needs no programs."""
        with self._lock:
            kept, self._idle = self._idle, None
        if kept is not None and kept.alive and shape in (None, kept.shape):
            return kept
        if kept is not None and kept.alive and kept.shape is None:
            kept.shape = shape
            return kept
        if kept is not None:
            kept.end()
        return Worker(shape)

    def give(self, worker: Worker) -> None:
        """Take a process back: to be kept, if it is sound and no other is."""
        with self._lock:
            keep = self._idle is None and worker.alive
            if keep:
                self._idle = worker
        if not keep:
            worker.end()

    def end(self) -> None:
        """End the process that is kept."""
        with self._lock:
            kept, self._idle = self._idle, None
        if kept is not None:
            kept.end()
