"""The reader's own file, on the server's side: kept in memory, read and solved by a worker, and given back as results and a report."""

from __future__ import annotations

import base64
import secrets
import threading
import zlib
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any, NamedTuple

import flask

from ..errors import InputError, check, check_count, check_nonnegative, check_seed, shown
from .own_data import MOST_ATOMS
from .runs import Job, Runs
from .security import UPLOAD
from .state import SEEDS

# How many files are kept, and how many solutions.
_MOST_FILES, _MOST_SOLUTIONS = 4, 2
# Kinds of files, by the ends of their names.
KINDS = (".csv", ".tsv", ".txt", ".npz", ".npy")
# What is not binary may be said in so many characters.
_LONGEST_NAME, _LONGEST_WORD = 100, 200
# What can be taken home of a solution.
RESULTS = {"report.html": "text/html", "solution.npz": "application/octet-stream", "solution.csv": "text/csv"}
# What may be said of a file, and of how it is to be solved.
_FLAGS, _NUMBERS = ("transpose", "comma", "header", "keep_means"), ("density", "noise_variance", "eta")
_WORDS, _COUNTS = ("na", "channel"), ("n_atoms", "seed")


class File(NamedTuple):
    """What someone dropped on the page."""

    id: str
    name: str
    kind: str
    content: bytes


class Files:
    """The last few files, by ids that cannot be guessed."""

    def __init__(self) -> None:
        self._files: OrderedDict[str, File] = OrderedDict()
        self._lock = threading.Lock()

    def put(self, name: str, content: bytes) -> File:
        """Keep a file, or say what is wrong with it. Its name is shown and never used."""
        kind = next((end for end in KINDS if name.lower().endswith(end)), None)
        if kind is None:
            raise InputError(f"The file must end in one of {', '.join(KINDS)}, but {shown(name)} was given.")
        if not content:
            raise InputError(f"The file must have something in it, but {shown(name)} is empty.")
        file = File(secrets.token_urlsafe(12), name, kind, content)
        with self._lock:
            self._files[file.id] = file
            while len(self._files) > _MOST_FILES:
                self._files.popitem(last=False)
        return file

    def get(self, id: Any) -> File:
        """The file of that id, if it is still there."""
        with self._lock:
            found = self._files.get(id) if isinstance(id, str) else None
        if found is None:
            raise InputError("The file is gone from the server: choose it again.")
        return found


class Reading(Job):
    """A file that is read, and solved if there is more to it than a look."""

    def __init__(self, runs: Runs, file: File, do: str, options: dict[str, Any]) -> None:
        content = base64.b64encode(file.content).decode()
        question = {"do": do, "name": file.name, "kind": file.kind, "content": content, "options": options}
        # A look compiles nothing; what a solve compiles depends on sizes that only the worker knows.
        super().__init__(runs.workers, None if do == "read" else (file.id, str(sorted(options.items()))), question)
        self.name = file.name
        self.solves = do != "read"
        self.progress: list[list[Any]] = []
        self.files: dict[str, bytes] = {}

    def hear(self, said: dict[str, Any]) -> None:
        if "progress" in said:
            self.progress.append(said["progress"])
            self.started()
        made = {name: zlib.compress(base64.b64decode(content), 1) for name, content in said.get("files", {}).items()}
        self.files = made or self.files
        super().hear(said)

    def seen(self) -> dict[str, Any]:
        return {**super().seen(), "name": self.name, "progress": self.progress[:], "files": sorted(self.files) if self.done else []}


def options(given: Any) -> dict[str, Any]:
    """What the page says of a file, checked again whoever sent it; what it does not say is left to `solve`."""
    names = (*_FLAGS, *_NUMBERS, *_WORDS, *_COUNTS)
    if not isinstance(given, Mapping) or not set(given) <= set(names):
        raise InputError(f"options must have the fields {', '.join(names)} only.")
    said: dict[str, Any] = dict.fromkeys(_FLAGS, False) | dict.fromkeys((*_NUMBERS, *_WORDS)) | {"n_atoms": 1, "seed": 0}
    for name, value in given.items():
        if value is None or value == "":
            continue
        if name in _FLAGS and not isinstance(value, bool):
            raise InputError(f"{name} must be true or false.")
        if name in _WORDS and (not isinstance(value, str) or len(value) > _LONGEST_WORD or not value.isprintable()):
            raise InputError(f"{name} must be a word of at most {_LONGEST_WORD} printable letters.")
        if name in (*_NUMBERS, *_COUNTS) and (isinstance(value, bool) or not isinstance(value, int | float)):
            raise InputError(f"{name} must be a number, but {shown(value)} was given.")
        said[name] = float(value) if name in _NUMBERS else value
    if said["density"] is not None:
        check("density", said["density"], 0.0, 1.0, low_open=True, high_open=True)
    for name in ("noise_variance", "eta"):
        if said[name] is not None:
            check_nonnegative(name, said[name])
    check_count("n_atoms", said["n_atoms"], 1, MOST_ATOMS)
    check_seed("seed", said["seed"])
    check_count("seed", said["seed"], *SEEDS)
    return said


def serve_files(server: Any, runs: Runs) -> None:
    """The page's questions about a file."""
    files = Files()

    @server.post(UPLOAD)
    def upload() -> flask.Response:
        """A file as it is, with its name in the query."""
        file = files.put(flask.request.args.get("name", "")[-_LONGEST_NAME:], flask.request.get_data(cache=False))
        return flask.jsonify({"file": file.id, "name": file.name})

    @server.post("/data/<do>")
    def start(do: str) -> flask.Response:
        asked = _object()
        if do not in ("read", "solve"):
            flask.abort(404, "There is no such question.")
        job = Reading(runs, files.get(asked.get("file")), do, options(asked.get("options", {})))
        runs.begin(job)
        _forget(runs)
        return flask.jsonify(job.seen())

    @server.post("/job")
    def look() -> flask.Response:
        return flask.jsonify(_job(runs, _object().get("id")).seen())

    @server.post("/job/cancel")
    def cancel() -> flask.Response:
        job = _job(runs, _object().get("id"))
        job.cancel()
        return flask.jsonify(job.seen())

    @server.get("/job/<id>/<name>")
    def take_home(id: str, name: str) -> flask.Response:
        """A result as a file; the report also as a page to be looked at."""
        wanted = "report.html" if name == "page" else name
        content = _job(runs, id).files.get(wanted)
        if content is None:
            return flask.abort(404, "There is no such file.")
        answer = flask.Response(zlib.decompress(content), mimetype=RESULTS[wanted])
        if name != "page":
            answer.headers["Content-Disposition"] = f'attachment; filename="spinodal-{wanted}"'
        return answer


def _object() -> dict[str, Any]:
    asked = flask.request.get_json(force=True, silent=True)
    if not isinstance(asked, dict):
        raise InputError("A question must be a JSON object.")
    return asked


def _job(runs: Runs, id: Any) -> Reading:
    job = runs.job(id)
    if not isinstance(job, Reading):
        raise InputError("There is no such work: the server has forgotten it.")
    return job


def _forget(runs: Runs) -> None:
    """Results of all solutions but the last few go: they may be large."""
    for old in [each for each in runs.of_kind(Reading) if each.files][:-_MOST_SOLUTIONS]:
        old.files = {}
