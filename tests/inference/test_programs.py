"""Programs compiled ahead of time are those that a call would have compiled."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import monitoring

import spinodal as sp
from spinodal.inference.execution.machine import OneDevice, computing
from spinodal.inference.execution.programs import compiled, often

LOWERED = "/jax/core/compile/jaxpr_to_mlir_module_duration"


class Plan(NamedTuple):
    power: int
    dtype: str = "float64"
    N: int = 1


def raised(plan: Plan, values: Any, offset: Any) -> Any:
    """values^power + offset."""
    return values**plan.power + offset


def programs_made(call: Any) -> int:
    seen: list[str] = []

    def listen(event: str, duration: float, **_: Any) -> None:
        seen.append(event)

    monitoring.register_event_duration_secs_listener(listen)
    try:
        call()
    finally:
        monitoring.unregister_event_duration_listener(listen)
    return seen.count(LOWERED)


def test_a_call_after_it_was_compiled_ahead_compiles_nothing_and_computes_the_same() -> None:
    plan, values = Plan(3), np.arange(7.0)
    function, plain = compiled()(raised), jax.jit(raised, static_argnums=0)
    with computing("float64", OneDevice()):
        expected = plain(plan, values, 2.0)
        shape = function.shape(plan, jax.ShapeDtypeStruct((7,), float), 0.0)
        assert (shape.shape, shape.dtype) == ((7,), np.float64)
        function.ahead(plan, jax.ShapeDtypeStruct((7,), float), 0.0)
        for coming in list(function._coming.values()):
            coming.result()
        assert programs_made(lambda: function(plan, values, 2.0)) == 0
        assert programs_made(lambda: function(plan, values[:5], 2.0)) == 1  # somebody counts
        np.testing.assert_array_equal(function(plan, values, 2.0), expected)


def test_what_can_not_be_compiled_ahead_fails_where_it_is_called() -> None:
    def wrong(plan: Plan, values: Any) -> Any:
        return values @ jnp.ones(plan.power)

    function = compiled()(wrong)
    with computing("float64", OneDevice()):
        function.ahead(Plan(3), np.ones(4))
        with pytest.raises(TypeError, match="dot_general"):
            function(Plan(3), np.ones(4))


def test_a_version_of_XLA_without_our_options_compiles_as_ever() -> None:
    function = compiled()(raised)
    function.little = jax.jit(raised, static_argnums=0, compiler_options={"xla_of_another_age": True})
    with computing("float64", OneDevice()):
        np.testing.assert_array_equal(function(Plan(2), np.arange(3.0), 0.0), [0.0, 1.0, 4.0])


def iterated(plan: Plan, observed: Any, values: Any) -> Any:
    return values**plan.power + observed.Y.sum()


def test_iterations_of_many_solves_are_worth_full_effort_and_compute_the_same() -> None:
    function, observed = compiled(donate=2)(iterated), sp.Observed(np.ones((2, 3)), None, None)
    arguments = Plan(2, N=4), observed, np.arange(7.0)
    with computing("float64", OneDevice()):
        alone = function._chosen(arguments)
        with often():
            assert function._chosen(arguments) is function.full is not alone
            many = function(*arguments)
        assert function._chosen(arguments) is alone
        np.testing.assert_allclose(many, function(*arguments), rtol=1e-14)
    with pytest.raises(RuntimeError, match="stop"), often():
        raise RuntimeError("stop")
    with computing("float64", OneDevice()):
        assert function._chosen(arguments) is alone
