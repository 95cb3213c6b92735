"""Compiled code kept from one process to the next: where, by whom it can be written, and how it is turned off."""

from __future__ import annotations

import os
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import jax
import pytest

import spinodal as sp
from conftest import Done
from spinodal import cache

Run = Callable[..., Done]

SETTINGS = tuple(cache.settings(Path("anywhere")))


@pytest.fixture(autouse=True)
def _a_home_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No cache is set, and the user's cache directory is in the test's own; JAX's settings come back after the test."""
    from jax.experimental.compilation_cache import compilation_cache

    before = {name: getattr(jax.config, name) for name in SETTINGS}
    jax.config.update("jax_compilation_cache_dir", None)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv(cache.VARIABLE, raising=False)
    yield
    for name, value in before.items():
        jax.config.update(name, value)
    compilation_cache.reset_cache()


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


def test_the_directory_is_the_users_own(tmp_path: Path) -> None:
    usual = os.umask(0)
    try:
        directory = sp.enable_cache()
    finally:
        os.umask(usual)
    assert directory == tmp_path / "cache" / "spinodal" / "jax"
    assert mode(directory) == mode(directory.parent) == 0o700
    assert jax.config.jax_compilation_cache_dir == str(directory)
    assert jax.config.jax_persistent_cache_min_compile_time_secs == 0
    assert jax.config.jax_persistent_cache_min_entry_size_bytes == -1


def test_what_is_compiled_after_it_is_kept(tmp_path: Path) -> None:
    jax.jit(lambda x: 2 * x)(1.0)  # JAX has decided by now that there is no cache
    directory = sp.enable_cache(tmp_path / "here")
    assert directory is not None
    assert list(directory.iterdir()) == []
    jax.jit(lambda x: 3 * x)(1.0)
    assert any(path.name.endswith("-cache") for path in directory.iterdir())


def test_a_cache_that_JAX_has_already_stays_unless_another_is_named(tmp_path: Path) -> None:
    jax.config.update("jax_compilation_cache_dir", str(tmp_path / "mine"))
    assert sp.enable_cache() == tmp_path / "mine"
    assert sp.enable_cache(tmp_path / "other") == tmp_path / "other"
    assert jax.config.jax_compilation_cache_dir == str(tmp_path / "other")


def test_processes_of_ours_share_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert cache.for_children() == {}
    sp.enable_cache(tmp_path / "here")
    monkeypatch.setenv("TF_CPP_MIN_LOG_LEVEL", "1")  # as JAX sets it
    shared = {"JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0.0", "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1"}
    shared["JAX_COMPILATION_CACHE_DIR"] = str(tmp_path / "here")
    assert cache.for_children() == {"TF_CPP_MIN_LOG_LEVEL": "3", **shared}
    monkeypatch.setenv("TF_CPP_MIN_LOG_LEVEL", "0")  # as a user does who wants to see everything
    assert cache.for_children()["TF_CPP_MIN_LOG_LEVEL"] == "0"


@pytest.mark.parametrize("word", ["0", "off", "OFF"])
def test_the_variable_turns_it_off(word: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(cache.VARIABLE, word)
    assert sp.enable_cache() is None
    assert list(tmp_path.iterdir()) == []


def test_the_variable_moves_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(cache.VARIABLE, str(tmp_path / "there"))
    assert sp.enable_cache() == tmp_path / "there"


def test_a_directory_that_others_can_write_is_refused_with_a_warning(tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    for bits in (0o770, 0o777):
        shared.chmod(bits)
        with pytest.warns(UserWarning, match="others can write"):
            assert sp.enable_cache(shared) is None
    with pytest.warns(UserWarning, match="others can replace"):
        assert sp.enable_cache(shared / "inside") is None
    assert jax.config.jax_compilation_cache_dir is None


@pytest.mark.skipif(os.name != "posix" or os.geteuid() != 0, reason="only root can give a directory away")
def test_a_directory_of_someone_else_is_refused_with_a_warning(tmp_path: Path) -> None:
    foreign = tmp_path / "foreign"
    foreign.mkdir(mode=0o700)
    os.chown(foreign, 12345, 12345)
    with pytest.warns(UserWarning, match="belongs to someone else"):
        assert sp.enable_cache(foreign) is None


@pytest.mark.parametrize("where", ["a file/jax", "/proc/nowhere/jax"])
def test_where_nothing_can_be_written_there_is_no_cache_and_no_error(where: str, tmp_path: Path) -> None:
    (tmp_path / "a file").write_text("in the way")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert sp.enable_cache(tmp_path / where) is None


def test_no_home_no_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XDG_CACHE_HOME")

    def homeless() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", homeless)
    assert sp.enable_cache() is None


def test_the_oldest_files_go_when_there_are_too_many(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "_MOST_BYTES", 1000)
    folder = tmp_path / "full"
    folder.mkdir(mode=0o700)
    for k in range(12):
        (folder / f"{k:02}-cache").write_bytes(bytes(100))
        os.utime(folder / f"{k:02}-cache", (1000 + k, 1000 + k))
    sp.enable_cache(folder)
    assert sorted(path.name for path in folder.iterdir()) == [f"{k:02}-cache" for k in range(5, 12)]


DRAW = ("sample", "--n", "4", "--alpha", "0.5", "--pi", "2", "--rho", "0.2", "--out", "i.npz")


@pytest.mark.parametrize(
    ("option", "said", "made"),
    [
        ([], None, "cache/spinodal/jax"),
        (["--no-cache"], None, None),
        ([], "0", None),
        ([], "moved", "moved"),
        (["--no-cache"], "moved", None),
    ],
)
def test_the_switches_of_the_command_line(
    option: list[str], said: str | None, made: str | None, run_cli: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("JAX_COMPILATION_CACHE_DIR", raising=False)
    if said is not None:
        monkeypatch.setenv(cache.VARIABLE, said)
    assert run_cli(*option, *DRAW) == Done(0, "i.npz\n", "")
    directory = jax.config.jax_compilation_cache_dir
    assert directory == (None if made is None else str(tmp_path / made))
    assert len(list(tmp_path.iterdir())) == (1 if made is None else 2)


def test_the_command_line_warns_in_a_sentence(run_cli: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAX_COMPILATION_CACHE_DIR", raising=False)
    monkeypatch.setenv(cache.VARIABLE, "shared")
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared").chmod(0o777)
    done = run_cli(*DRAW)
    assert done.code == 0
    assert done.err.startswith("spinodal: Compiled code is not kept, since others can write")
    assert done.err.count("\n") == 1


def test_a_second_process_compiles_nothing(tmp_path: Path) -> None:
    unset = {"JAX_COMPILATION_CACHE_DIR", "TF_CPP_MIN_LOG_LEVEL", *(name.upper() for name in SETTINGS)}
    here = {name: value for name, value in os.environ.items() if name not in unset}
    here["PYTHONPATH"] = os.pathsep.join(map(str, sys.path))
    directory = tmp_path / "cache" / "spinodal" / "jax"
    kept = []
    for _ in range(2):
        command = [sys.executable, "-m", "spinodal", *DRAW]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300, check=True, env=here)
        assert done.stdout == "i.npz\n"
        assert done.stderr == ""  # XLA has nothing to say about loaded code either
        kept.append({path.name for path in directory.iterdir()})
    assert mode(directory) == 0o700
    assert any(name.endswith("-cache") for name in kept[0])
    assert kept[1] == kept[0]


@pytest.mark.claims
def test_what_is_loaded_is_loaded_quietly(tmp_path: Path) -> None:
    """XLA has lines to say about the processor when it loads what another process compiled."""
    script = "import spinodal as sp; sp.enable_cache(); import jax; print(float(jax.jit(lambda x: x.sum())(jax.numpy.ones(8))))"
    wanted = {name: value for name, value in os.environ.items() if not name.startswith(("JAX_", "XLA_", "TF_CPP"))}
    for _ in range(2):
        ended = subprocess.run([sys.executable, "-c", script], env=wanted, capture_output=True, text=True, check=True)
        assert (ended.stdout, ended.stderr) == ("8.0\n", "")
    assert any((tmp_path / "cache").rglob("*"))
