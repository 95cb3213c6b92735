"""pandas in, pandas out: what `set_output` chooses holds for everything that has a row for each sample, and names are kept."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn import get_config
from sklearn.utils.validation import check_is_fitted

if TYPE_CHECKING:
    import pandas as pd

# Methods that return arrays with a row for each sample, or several of them, and whether their columns are codes or features. scikit-learn
# itself does this for `transform`.
_FRAMED = {
    "transform_std": "codes",
    "transform_support": "codes",
    "transform_interval": "codes",
    "inverse_transform": "features",
    "restore": "features",
}


class Framed:
    """For estimators with `components_`: frames where `set_output` asks for them, and `components_frame`."""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        for name, columns in _FRAMED.items():
            method = getattr(cls, name, None)
            if method is not None and not hasattr(method, "__wrapped__"):
                setattr(cls, name, _framing(method, columns))

    def components_frame(self) -> pd.DataFrame:
        """The components as a pandas DataFrame: a row for each, named as the columns of `transform`, and a column for each feature.

        Examples:
            >>> import pandas as pd
            >>> import spinodal as sp
            >>> problem = sp.Problem.sparse(alpha=2.0, pi=40.0, rho=0.3, noise_variance=1e-2)
            >>> data = pd.DataFrame(sp.sample(problem, 4, seed=1).observed.Y.T, columns=list("abcdefgh"))
            >>> model = sp.DictionaryLearner(4, max_iter=0, random_state=0).set_output(transform="pandas").fit(data)
            >>> frame = model.components_frame()
            >>> frame.columns.tolist() == data.columns.tolist(), frame.index[0]
            (True, 'dictionarylearner0')
            >>> bool((model.transform(data).columns == frame.index).all())
            True
        """
        import pandas as pd

        check_is_fitted(self)
        return pd.DataFrame(self.components_, index=_names(self, "codes"), columns=_names(self, "features"))  # type: ignore[attr-defined]


def _names(model: Any, columns: str) -> list[str]:
    """Names of the codes, or of the features: those of the data that the model was fitted to, or x0, x1, ..., as scikit-learn has them."""
    if columns == "codes":
        return list(model.get_feature_names_out())
    known = getattr(model, "feature_names_in_", None)
    return [f"x{k}" for k in range(model.components_.shape[1])] if known is None else list(known)


def _framing(method: Callable[..., Any], columns: str) -> Callable[..., Any]:
    @wraps(method)
    def framed(self: Any, X: Any, *words: Any, **more: Any) -> Any:
        found = method(self, X, *words, **more)
        chosen = getattr(self, "_sklearn_output_config", {}).get("transform", get_config()["transform_output"])
        if chosen == "default":
            return found
        wrapped = tuple(
            _frame(chosen, np.asarray(each), _names(self, columns), X) for each in (found if isinstance(found, tuple) else [found])
        )
        return wrapped if isinstance(found, tuple) else wrapped[0]

    return framed


def _frame(kind: str, values: np.ndarray, names: list[str], X: Any) -> Any:
    if kind == "polars":
        polars: Any = import_module("polars")
        return polars.DataFrame(values, schema=names, orient="row")
    import pandas as pd

    return pd.DataFrame(values, columns=names, index=X.index if isinstance(X, pd.DataFrame) else None, copy=False)
