"""Threads of LAPACK while small matrices are decomposed."""

from __future__ import annotations

import pytest

from spinodal.inference.execution import lapack


def test_there_is_one_thread_meanwhile_and_as_many_as_before_afterwards(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [4]
    monkeypatch.setattr(lapack, "_threads", lambda: lapack._Threads(lambda: now[0], lambda count: now.__setitem__(0, count)))
    with lapack.one_thread():
        with lapack.one_thread():
            assert now == [1]
        assert now == [1]  # the other caller still wants it
    assert now == [4]
    with pytest.raises(ValueError, match="anything"), lapack.one_thread():
        raise ValueError("anything")
    assert now == [4]


def test_nothing_happens_where_the_library_is_not_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lapack, "_threads", lambda: None)
    with lapack.one_thread():
        pass


def test_a_library_that_is_known_obeys() -> None:
    threads = lapack._threads()
    if threads is None:
        pytest.skip("SciPy has another LAPACK here")
    before = threads.get()
    with lapack.one_thread():
        assert threads.get() == 1
    assert threads.get() == before
