"""Every public name, and every public method of what they are, has a docstring with an example, and the examples are true."""

from __future__ import annotations

import doctest
import inspect
from collections.abc import Iterator
from typing import Any

import pytest

import spinodal
from spinodal import inference, theory

# What users meet as results, beside the names of the package itself.
RESULTS = (theory.FixedPoint, theory.FixedPointCurve, theory.Trajectory, inference.Trace)


def documented() -> Iterator[tuple[str, str]]:
    """Names of public objects and of their public methods, with their docstrings: an override without one has that of its base."""
    found = {name: getattr(spinodal, name) for name in spinodal.__all__ if name != "__version__"}
    for name, value in (found | {each.__name__: each for each in RESULTS}).items():
        yield name, inspect.getdoc(value) or ""
        if inspect.isclass(value):
            yield from ((f"{name}.{method}", inspect.getdoc(getattr(value, method)) or "") for method in methods(value))


def methods(value: Any) -> list[str]:
    """Public methods that are ours: not those of tuples, exceptions and scikit-learn's base classes."""
    names = [name for name in dir(value) if not name.startswith("_") and inspect.isroutine(getattr(value, name))]
    return [name for name in names if (getattr(getattr(value, name), "__module__", None) or "").startswith("spinodal")]


DOCUMENTED = dict(documented())
# A docstring that many classes inherit is run once.
EXAMPLES = {text: name for name, text in reversed(DOCUMENTED.items())}


def test_the_public_names_are_all_looked_at() -> None:
    assert {
        "AMP",
        "AMP.step",
        "Problem.sparse",
        "Laplace.mmse",
        "DictionaryLearner.transform",
        "BlindCalibration.save",
    } <= DOCUMENTED.keys()
    assert set(spinodal.__all__) - {"__version__"} <= DOCUMENTED.keys()


@pytest.mark.parametrize("name", DOCUMENTED)
def test_it_is_documented_with_an_example(name: str) -> None:
    about, *examples = DOCUMENTED[name].split("\nExamples:\n")
    assert about.strip(), f"{name} has no docstring"
    assert len(examples) == 1, f"{name} has no section of examples"
    assert doctest.DocTestParser().get_examples(examples[0]), f"the examples of {name} hold no code"
    assert "+SKIP" not in examples[0]


@pytest.mark.parametrize("name", EXAMPLES.values())
@pytest.mark.claims
def test_its_examples_are_true(name: str, tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    test = doctest.DocTestParser().get_doctest(DOCUMENTED[name], {}, name, None, None)
    told: list[str] = []
    doctest.DocTestRunner(verbose=False).run(test, out=told.append)
    assert not told, "".join(told)
