"""What priors, channels and kinds of knowledge have in common: objects of a few parameters that JAX can trace and batch."""

from __future__ import annotations

from typing import Any, Self

import jax


class Parametric:
    """An object whose attributes are its parameters. Every subclass is a JAX pytree by itself.

    Numbers and arrays are traced; words, truth values and functions are part of the structure.
    """

    def __init_subclass__(cls, **options: Any) -> None:
        # The class is in the structure: dataclasses registered by JAX's own helper compare equal across types.
        super().__init_subclass__(**options)
        jax.tree_util.register_pytree_with_keys(cls, _flatten, _unflatten)

    def replace(self, **parameters: Any) -> Self:
        """A copy with some parameters changed. Unlike the constructor, it does not know which values are allowed.

        Examples:
            >>> import spinodal as sp
            >>> sp.GaussBernoulli(0.1).replace(rho=0.2)
            GaussBernoulli(rho=0.2, mean=0.0, variance=1.0)
        """
        copy = object.__new__(type(self))
        vars(copy).update({**vars(self), **parameters})
        return copy


def _flatten(thing: Parametric) -> tuple[list[Any], Any]:
    traced = {name: value for name, value in vars(thing).items() if not _is_static(value)}
    static = tuple((name, value) for name, value in vars(thing).items() if _is_static(value))
    return [(jax.tree_util.GetAttrKey(name), value) for name, value in traced.items()], (type(thing), tuple(traced), static)


def _unflatten(structure: Any, values: Any) -> Parametric:
    cls, names, static = structure
    thing = object.__new__(cls)  # no __init__: the values may be tracers, and were checked when the user built the object
    vars(thing).update(zip(names, values, strict=True))
    vars(thing).update(static)
    return thing


def _is_static(value: Any) -> bool:
    return value is None or isinstance(value, (str, bool)) or (callable(value) and not isinstance(value, Parametric))
