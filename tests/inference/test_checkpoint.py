"""A solve that is interrupted and goes on ends at the very numbers of one that was not."""

from __future__ import annotations

import io
import json
import zipfile
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

import spinodal as sp

# Stages: a strong hint (one run), a weak one (repairs, then the order of F'), none (annealed repairs).
CASES = {"strong": (0.05, 120), "weak": (2.0, 1500), "none": (np.inf, 300)}
N = 12


def problem_and_data(eta: float) -> tuple[sp.Problem, sp.Observed]:
    problem = sp.Problem.sparse(alpha=0.6, pi=3.0, rho=0.2, eta=eta, noise_variance=1e-4)
    return problem, sp.sample(problem, N, seed=3, batch=1).observed


class Interrupted(Exception):
    pass


def interrupt_after(calls: int) -> Any:
    left = [calls]

    def progress(stage: str, *_: Any) -> None:
        left[0] -= stage == "iterating"
        if left[0] == 0:
            raise Interrupted

    return progress


def assert_same(one: sp.Solution, other: sp.Solution) -> None:
    parts = ("mean", "variance", "trace", "status", "reason", "iterations", "residual", "free_entropy", "model")
    for a, b in zip(*(jax.tree.leaves([getattr(each, name) for name in parts]) for each in (one, other)), strict=True):
        assert np.array_equal(a, b, equal_nan=np.asarray(a).dtype.kind == "f")


@pytest.mark.parametrize("name", [name if name == "weak" else pytest.param(name, marks=pytest.mark.claims) for name in CASES])
def test_going_on_is_exact(name: str, tmp_path: Path) -> None:
    eta, limit = CASES[name]
    problem, observed = problem_and_data(eta)
    options: dict[str, Any] = {"n_atoms": N, "max_iterations": limit}
    whole = sp.solve(observed, problem, **options)
    path = tmp_path / "state.npz"
    interruptions = 0
    for calls in (2, 9, 23, 5, 40):
        try:
            sp.solve(observed, problem, checkpoint=path, every=10, progress=interrupt_after(calls), **options)
        except Interrupted:
            interruptions += 1
    assert interruptions >= 2
    assert_same(sp.solve(observed, problem, checkpoint=path, every=10, **options), whole)
    assert_same(sp.solve(observed, problem, checkpoint=path, every=10, **options), whole)  # from its end


@pytest.mark.claims
def test_going_on_is_exact_where_entries_held_out_choose_the_noise(tmp_path: Path) -> None:
    """Runs that are denied entries, that try noise variances, that are elected and that go on: each wants its own part of the file."""
    problem = sp.Problem.sparse(alpha=1.0, pi=12.0, rho=0.2, noise_variance=0.2 / 10**0.6)
    Y = sp.sample(problem, N, seed=3).observed.Y
    options: dict[str, Any] = {"n_atoms": N, "max_iterations": 400, "runs": 2}
    whole = sp.solve(Y, **options)
    path = tmp_path / "state.npz"
    interruptions = 0
    for calls in (8, 25, 15, 40, 60, 25):
        try:
            sp.solve(Y, checkpoint=path, every=50, progress=interrupt_after(calls), **options)
        except Interrupted:
            interruptions += 1
    assert interruptions >= 3
    assert_same(sp.solve(Y, checkpoint=path, every=50, **options), whole)
    assert_same(sp.solve(Y, checkpoint=path, every=50, **options), whole)  # from its end


def test_another_solve_is_refused(tmp_path: Path) -> None:
    problem, observed = problem_and_data(CASES["weak"][0])
    path = tmp_path / "state.npz"
    options: dict[str, Any] = {"checkpoint": path, "n_atoms": N, "max_iterations": CASES["weak"][1]}
    with pytest.raises(Interrupted):
        sp.solve(observed, problem, progress=interrupt_after(2), **options)
    was = path.read_bytes()
    other = observed._replace(Y=observed.Y + 1e-12)
    for changed in ((other, problem, {}), (observed, problem.replace(eta=2.1), {}), (observed, problem, {"tolerance": 1e-3})):
        with pytest.raises(sp.InputError, match="of others"):
            sp.solve(*changed[:2], **options, **changed[2])
    path.write_bytes(was[: len(was) // 2])
    with pytest.raises(sp.InputError, match="checkpoint must be a file that a solve wrote"):
        sp.solve(observed, problem, **options)
    with pytest.raises(sp.InputError, match=r"ending in \.npz"):
        sp.solve(observed, problem, checkpoint="state.pickle")
    with pytest.raises(sp.InputError, match="no iterations of ours"):
        sp.solve(observed, problem, sp.Lasso(), checkpoint=path)


def test_damaged_and_forged_files_are_refused(tmp_path: Path) -> None:
    """Bits that are flipped are noticed or change nothing; arrays that do not fit, pickles, and files that unfold are refused."""
    problem, observed = problem_and_data(CASES["strong"][0])
    path = tmp_path / "state.npz"
    options: dict[str, Any] = {"checkpoint": path, "n_atoms": N, "max_iterations": 60, "every": 10}
    with pytest.raises(Interrupted):
        sp.solve(observed, problem, progress=interrupt_after(3), **options)
    was = path.read_bytes()
    whole = sp.solve(observed, problem, n_atoms=N, max_iterations=60)
    rng, noticed = np.random.default_rng(0), 0
    for place in rng.integers(len(was), size=25):
        damaged = bytearray(was)
        damaged[place] ^= 1 << int(rng.integers(8))
        path.write_bytes(damaged)
        try:
            assert_same(sp.solve(observed, problem, **options), whole)
        except sp.InputError:
            noticed += 1
    assert noticed >= 15
    with np.load(io.BytesIO(was)) as file:
        arrays = {name: file[name] for name in file.files}
    last = max(name for name in arrays if name.startswith("leaf_"))
    about = json.loads(str(arrays["about"]))
    counters = [name for name, value in arrays.items() if name.startswith("leaf_") and value.dtype.kind == "i"][-3:]  # the loop's own
    forged: list[dict[str, Any]] = [
        {name: value for name, value in arrays.items() if name != last},
        arrays | {last: np.zeros((2, 2, 2))},
        {name: value for name, value in arrays.items() if name != "goal"},
        *(arrays | {"about": np.array(text)} for text in ("[]", "{}", "3", "[" * 100_000, "no JSON")),
        *(arrays | {"about": np.array(json.dumps(about | {key: value}))} for key, value in (("groups", "x"), ("groups", 2), ("stage", 7))),
        arrays | {"goal": np.array([Trap()], dtype=object)},
        *(arrays | {"goal": goal} for goal in (np.array([10**12]), np.array([-1]), np.array([60.0]), np.array(60), np.array(["60"]))),
        *(arrays | {name: np.array(0)} for name in arrays if name.startswith("trace_")),
        *(arrays | {name: arrays[name] + 10**9} for name in ("trace_000000", "trace_000001")),
        {name: value for name, value in arrays.items() if name != "trace_000000"},
        *(arrays | {name: value.astype("U9")} for name, value in arrays.items() if name.startswith("leaf_")),
        *(arrays | {name: arrays[name] + more} for name in counters for more in (-(10**9), 10**9)),
    ]
    for content in forged:
        np.savez(path, **content)
        refused(observed, problem, options)
    np.savez_compressed(path, **arrays)
    refused(observed, problem, options)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("about.npy", "no array")
    refused(observed, problem, options)


def test_forged_ends_of_runs_are_refused(tmp_path: Path) -> None:
    """Where runs are compared, the file has what those found that have ended."""
    problem, observed = problem_and_data(CASES["none"][0])
    path = tmp_path / "state.npz"
    options: dict[str, Any] = {"checkpoint": path, "n_atoms": N, "max_iterations": 60, "every": 10, "runs": 3}
    with pytest.raises(Interrupted):
        sp.solve(observed, problem, progress=interrupt_after(25), **options)
    with np.load(path) as file:
        arrays = {name: file[name] for name in file.files}
    ended = {name: value for name, value in arrays.items() if name.startswith("ended_0000_")}
    assert len(ended) >= 15
    for name, value in ended.items():
        for other in (np.array(0.5), value[..., None], value.astype("S9")):
            np.savez(path, **arrays | {name: other})
            refused(observed, problem, options)
    for name in ("ended_0000_instances", "ended_0000_iterations"):
        np.savez(path, **arrays | {name: arrays[name] + 10**9})
        refused(observed, problem, options)


class Trap:
    def __reduce__(self) -> Any:
        return pytest.fail, ("unpickled",)


def refused(observed: sp.Observed, problem: sp.Problem, options: dict[str, Any]) -> None:
    with pytest.raises(sp.InputError, match=r"^checkpoint must be a file that a solve wrote, but ") as complaint:
        sp.solve(observed, problem, **options)
    assert "\n" not in str(complaint.value)


@pytest.mark.claims
def test_several_numbers_of_atoms_have_a_file_each(tmp_path: Path) -> None:
    problem, observed = problem_and_data(np.inf)
    told: dict[str, Any] = {"n_atoms": [10, N], "max_iterations": 60, "runs": 1}
    plain = sp.solve(observed.Y[0], problem, **told)
    with pytest.raises(Interrupted):
        sp.solve(observed.Y[0], problem, **told, checkpoint=tmp_path / "state.npz", every=10, progress=interrupt_after(8))
    resumed = sp.solve(observed.Y[0], problem, **told, checkpoint=tmp_path / "state.npz", every=10)
    assert_same(plain, resumed)
    assert resumed.candidates == plain.candidates
    assert sorted(path.name for path in tmp_path.iterdir()) == ["state-10-atoms.npz", f"state-{N}-atoms.npz"]
    with pytest.raises(sp.InputError, match="n_atoms"):  # before the first is tried
        sp.solve(observed.Y[0], problem, **told | {"n_atoms": [10, -1]}, checkpoint=tmp_path / "other.npz")
    assert not list(tmp_path.glob("other*"))


@pytest.mark.claims
def test_offsets_are_corrected_with_a_checkpoint_too_and_kept_by_what_goes_on(tmp_path: Path) -> None:
    problem = sp.Problem.sparse(alpha=0.6, pi=20.0, rho=0.1, eta=0.05, noise_variance=1e-6)
    observed = sp.sample(problem, 10, seed=0).observed
    off = observed._replace(Y=observed.Y + 3.0)
    plain = sp.solve(off, problem)
    saved = sp.solve(off, problem, checkpoint=tmp_path / "state.npz")
    assert_same(plain, saved)
    assert np.array_equal(plain.row_means, saved.row_means)
    assert not np.allclose(plain.row_means, np.mean(off.Y, axis=1), rtol=1e-9)  # better than means
    assert np.array_equal(sp.solve(off, problem, start=plain).row_means, plain.row_means)


def test_another_search_does_not_go_on_from_it(tmp_path: Path) -> None:
    problem, observed = problem_and_data(0.05)
    sp.solve(observed, problem, checkpoint=tmp_path / "state.npz", max_iterations=20)
    with pytest.raises(sp.InputError, match="checkpoint must be of the same"):
        sp.solve(observed, problem, checkpoint=tmp_path / "state.npz", max_iterations=20, search=sp.Search(repair=False))
