"""A file of the reader's: what is refused, what is read, and that its solution is `solve`'s. No browser, and workers' work done here."""

from __future__ import annotations

import base64
import io
import json
import time
from typing import Any

import numpy as np
import pytest

import spinodal as sp
from spinodal.errors import InputError
from spinodal.explorer import own, worker
from spinodal.explorer.app import make_app
from spinodal.explorer.own_data import place
from spinodal.explorer.runs import Job
from spinodal.explorer.security import LONGEST_UPLOAD, UPLOAD, protect
from spinodal.explorer.state import VALUES, State

PORT = 8050
HERE = {"Host": f"127.0.0.1:{PORT}"}
PROBLEM = sp.Problem.sparse(alpha=1.0, pi=12.0, rho=0.2, eta=0.02, noise_variance=1e-3)
INSTANCE = sp.sample(PROBLEM, 12, seed=2)
HOSTILE = [
    "../../etc/passwd.csv",
    "..\\..\\x.csv",
    "a\0b.csv",
    "<img src=x onerror=alert(1)>.csv",
    "; rm -rf $HOME; .csv",
    "x" * 5000 + ".csv",
    "\u202egnp.csv",
    "con.csv",
    "%2e%2e%2f.csv",
    "'\"`.csv",
    ".csv",
]


def table(Y: np.ndarray) -> bytes:
    lines = ["sensor," + ",".join(f"day {k}" for k in range(Y.shape[1]))]
    return "\n".join([*lines, *(f"s{m}," + ",".join("" if np.isnan(v) else f"{v:.8g}" for v in row) for m, row in enumerate(Y))]).encode()


def packed() -> bytes:
    """The instance with its F', as an .npz file."""
    file = io.BytesIO()
    np.savez(file, Y=INSTANCE.observed.Y, F_prime=INSTANCE.observed.F_prime)
    return file.getvalue()


def question(content: bytes, do: str = "read", name: str = "mine.csv", **given: Any) -> dict[str, Any]:
    kind = "." + name.rsplit(".", 1)[1]
    return {"do": do, "name": name, "kind": kind, "content": base64.b64encode(content).decode(), "options": own.options(given)}


def told(asked: dict[str, Any]) -> list[dict[str, Any]]:
    said: list[dict[str, Any]] = []
    worker.tell(asked, said.append)
    json.dumps(said, allow_nan=False)
    return said


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(Job, "_solve", lambda self: self.hear(worker_of(self._question)) or setattr(self, "status", "read"))
    app = make_app()
    protect(app, "127.0.0.1", PORT)
    return app.server.test_client()


def worker_of(asked: dict[str, Any]) -> dict[str, Any]:
    return told(asked)[-1]


def test_a_summary_says_what_is_there() -> None:
    Y = INSTANCE.observed.Y.copy()
    Y[2, 5] = np.nan
    [said] = told(question(table(Y)))
    found = said["result"]
    assert said["ended"] == "read"
    assert (found["M"], found["P"], found["n_atoms"], found["f_prime"]) == (12, 144, 12, False)
    rows = {name: value for name, value, _ in found["rows"]}
    assert rows["observed"] == f"{100 * (1 - 1 / Y.size):.4g}%"
    assert float(rows["standard deviation"]) == pytest.approx(np.nanstd(Y), rel=1e-3)
    assert found["corner"]["rows"][0] == "s0"
    assert found["corner"]["columns"][:2] == ["day 0", "day 1"]
    assert found["corner"]["cells"][2][5] == "missing"
    assert found["warnings"] == []


def test_warnings_of_the_data_are_those_of_solve() -> None:
    Y = INSTANCE.observed.Y + 5.0
    [said] = told(question(table(Y)))
    mine = said["result"]["warnings"]
    solution = sp.solve(Y, F_prime=INSTANCE.observed.F_prime, eta=0.02, max_iterations=2)
    assert any("mean" in each for each in mine)
    assert {each.lower().removesuffix(".") for each in mine} <= {each.lower().removesuffix(".") for each in solution.warnings}


@pytest.mark.parametrize(
    ("content", "given", "words"),
    [
        (b"a,b\n1,x\n2,3\n", {}, "'x'"),
        (b"1,2\n3\n", {}, "mine.csv"),
        (b"\x00\x01\x02", {}, "mine.csv"),
        (b"1,2\n3,inf\n", {}, "finite"),
        (b"1 2\n3 4\n", {"transpose": 1}, "transpose must be true or false"),
        (b"1,2\n3,4\n", {"n_atoms": 0}, "n_atoms must be"),
        (b"1,2\n3,4\n", {"n_atoms": 10**9}, "n_atoms must be"),
        (b"1,2\n3,4\n", {"density": 2.0}, "density must be"),
        (b"1,2\n3,4\n", {"seed": "x"}, "seed must be a number"),
        (b"1,2\n3,4\n", {"na": "x" * 1000}, "na must be a word"),
        (b"1,2\n3,4\n", {"what": 1}, "options must have the fields"),
    ],
)
def test_what_is_wrong_is_said_in_a_sentence(content: bytes, given: dict[str, Any], words: str) -> None:
    try:
        [said] = told(question(content, **given))
    except InputError as error:
        text = str(error)
    else:
        text = said["ended"]
        assert text.startswith("refused: ")
    assert words in text
    assert "spinodal-" not in text  # the folder that it was read in
    assert len(text.splitlines()) == 1
    assert text.endswith(".")


def test_large_tables_and_many_atoms_are_refused() -> None:
    wide = b"\n".join(b",".join([b"%d" % k, b"-7"] * 501) for k in range(1000))
    [said] = told(question(wide))
    assert "at most 1,000,000 entries" in said["ended"]
    assert "`spinodal solve` has no such limit" in said["ended"]


@pytest.mark.claims
def test_a_solution_is_the_one_of_solve_with_its_files() -> None:
    *progress, said = told(question(packed(), "solve", "mine.npz", eta=0.02, noise_variance=1e-3))
    direct = sp.solve(INSTANCE.observed, eta=0.02, noise_variance=1e-3, n_atoms=None)
    assert {each["progress"][0] for each in progress} >= {"compiling", "report"}
    assert said["ended"] == str(direct.status) == "converged"
    assert said["result"]["trusted"]
    made = {name: base64.b64decode(content) for name, content in said["files"].items()}
    assert set(made) == set(own.RESULTS)
    with np.load(io.BytesIO(made["solution.npz"])) as arrays:
        np.testing.assert_array_equal(arrays["F_mean"], direct.mean.F)
        np.testing.assert_array_equal(arrays["X_var"], direct.variance.X)
    assert made["solution.csv"].startswith(b"matrix,row,column,mean,variance")
    assert b"<!DOCTYPE html>" in made["report.html"]
    assert b"90% interval" in made["report.html"]
    near = said["result"]["place"]
    assert (near["alpha"], near["pi"], near["eta"]) == ("1", "12", "0.02")
    assert float(near["delta"]) == pytest.approx(1e-3 / float(direct.model.prior.X.variance), rel=0.1)


def test_the_place_is_in_the_units_of_the_sliders() -> None:
    """Data in other units, with a part of them missing, lie where the same data do."""

    class Told:
        problem = sp.Problem(alpha=1.0, pi=10.0, prior=sp.Pair(F=sp.Gaussian(), X=sp.GaussBernoulli(0.2, 0.0, 100.0)),
                             channel=sp.GaussianNoise(1e-2), knowledge=sp.Nothing(), observed_fraction=0.5)  # fmt: skip

    assert place(Told()) == {"alpha": "0.5", "rho": "0.2", "eta": "inf", "delta": "0.0001", "pi": "5"}
    assert all(float(word) in VALUES[name] for name, word in place(Told()).items())
    other = Told.problem.replace(channel=sp.OneBit())
    assert place(type("Other", (), {"problem": other})()) is None


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_are_only_shown(client: Any, name: str) -> None:
    answer = client.post(UPLOAD, query_string={"name": name}, data=b"1,2,3\n4,5,7\n2,9,1\n", headers=HERE)
    assert answer.status_code == 200, answer.text
    file = answer.get_json()
    assert len(file["name"]) <= 100
    seen = client.post("/data/read", json={"file": file["file"], "options": {}}, headers=HERE)
    assert seen.status_code == 200
    deadline = time.monotonic() + 60
    job: dict[str, Any] = {"done": False}
    while not job["done"] and time.monotonic() < deadline:
        time.sleep(0.01)
        job = client.post("/job", json={"id": seen.get_json()["id"]}, headers=HERE).get_json()
    assert job["result"]["P"] == 3, job


def test_files_that_are_none_and_long_ones_get_a_sentence(client: Any) -> None:
    for name, content in (("x.exe", b"MZ"), ("", b"1"), ("x.csv", b""), ("x.pkl", b"cos\nsystem\n")):
        answer = client.post(UPLOAD, query_string={"name": name}, data=content, headers=HERE)
        assert answer.status_code == 400
        assert answer.text.startswith("The file must")
        assert len(answer.text.splitlines()) == 1
    long = client.post(UPLOAD, query_string={"name": "x.csv"}, data=b"1" * (LONGEST_UPLOAD + 1), headers=HERE)
    assert long.status_code == 413
    assert long.text == "A file must have at most 20 MB on this page; `spinodal solve` on the command line has no such limit."
    for path in ("/data/read", "/data/solve", "/job", "/job/cancel"):
        for body in ({}, [], {"file": "no such"}, {"id": 7}, {"file": None, "options": 3}):
            answer = client.post(path, json=body, headers=HERE)
            assert answer.status_code == 400, (path, body)
            assert len(answer.text.splitlines()) == 1
    assert client.post("/data/burn", json={}, headers=HERE).status_code == 404
    assert client.get("/job/none/report.html", headers=HERE).status_code == 400


def test_the_report_in_the_page_runs_nothing(client: Any) -> None:
    """What is shown of a solution is another page, which nobody else can show and in which nothing runs."""
    policy = client.get("/job/none/page", headers=HERE).headers["Content-Security-Policy"]
    assert "sandbox allow-same-origin" in policy
    assert "script" not in policy
    assert "frame-ancestors 'self'" in policy
    help_page = client.get("/help", headers=HERE)
    assert help_page.status_code == 200
    assert 'id="alpha"' in help_page.text
    assert "script-src" in help_page.headers["Content-Security-Policy"]


def test_files_and_results_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    files = own.Files()
    kept = [files.put("x.csv", b"1") for _ in range(6)]
    with pytest.raises(InputError, match="choose it again"):
        files.get(kept[0].id)
    assert files.get(kept[-1].id).content == b"1"
    with pytest.raises(InputError):
        files.get(["a", "list"])


def test_the_default_state_is_a_preset() -> None:
    from spinodal.explorer.words import PRESETS

    assert PRESETS["badly-known"].state == State()
    for preset in PRESETS.values():
        for name in VALUES:
            assert getattr(preset.state, name) in VALUES[name]
