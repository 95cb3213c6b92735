"""What exists for both factors is a pair with fields F and X."""

from __future__ import annotations

from typing import Generic, NamedTuple, TypeVar

from .short import in_short

Value = TypeVar("Value")


class Pair(NamedTuple, Generic[Value]):
    """Two things of one kind: one for the matrix F, one for the signals X.

    Examples:
        >>> import spinodal as sp
        >>> prior = sp.Pair(F=sp.Gaussian(), X=sp.Laplace())
        >>> prior.X
        Laplace(scale=1.0)
    """

    F: Value
    X: Value

    def __repr__(self) -> str:
        return in_short(self)
