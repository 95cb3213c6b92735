"""Results of the theory over a grid: labelled arrays of xarray that can draw themselves."""

from __future__ import annotations

import base64
import io
from typing import TYPE_CHECKING

import xarray

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Dots per inch of the picture in a notebook.
_RESOLUTION = 70


class PhaseDiagram(xarray.Dataset):  # type: ignore[no-untyped-call]
    """What `phase_diagram` returns: an xarray Dataset, with a picture in notebooks and `plot`.

    Examples:
        >>> import spinodal as sp
        >>> problem = sp.Problem.sparse(alpha=0.5, pi=3.0, rho=0.2, eta=1.0, noise_variance=1e-6)
        >>> diagram = sp.phase_diagram(problem, rho=[0.1, 0.2], eta=[0.1, 1.0])
        >>> type(diagram).__name__, "pi_spinodal" in diagram
        ('PhaseDiagram', True)
    """

    __slots__ = ()

    def plot(self, *, highest: float | None = None) -> Figure:  # type: ignore[override]
        """The transitions in pi against rho, up to pi = `highest`, as a matplotlib figure; regions are shaded for the largest eta.

        Examples:
            >>> import spinodal as sp
            >>> problem = sp.Problem.sparse(alpha=0.5, pi=3.0, rho=0.2, eta=1.0, noise_variance=1e-6)
            >>> figure = sp.phase_diagram(problem, rho=[0.1, 0.2], eta=[0.1, 1.0]).plot()
            >>> figure.axes[0].get_xlabel()
            'density $\\\\rho$'
        """
        from ..figures.theory import phase_diagram_figure

        return phase_diagram_figure(self, highest=highest)

    def _repr_html_(self) -> str:
        whole = {"eta", "rho"} <= self.sizes.keys() and "pi_spinodal" in self
        return (_picture(self.plot(), "the phase diagram") if whole else "") + super()._repr_html_()


class ErrorCurves(xarray.Dataset):  # type: ignore[no-untyped-call]
    """What `error_curves` returns: an xarray Dataset, with a picture in notebooks and `plot`.

    Examples:
        >>> import spinodal as sp
        >>> problem = sp.Problem.sparse(alpha=0.5, pi=3.0, rho=0.2, eta=1.0, noise_variance=1e-6)
        >>> sorted(sp.error_curves(problem, pi=[2.0, 4.0], eta=[1.0]))[0]
        'amp_mse_F'
    """

    __slots__ = ()

    def plot(self) -> Figure:  # type: ignore[override]
        """Bayes-optimal and AMP errors on F and X against pi, as a matplotlib figure.

        Examples:
            >>> import spinodal as sp
            >>> problem = sp.Problem.sparse(alpha=0.5, pi=3.0, rho=0.2, eta=1.0, noise_variance=1e-6)
            >>> len(sp.error_curves(problem, pi=[2.0, 4.0], eta=[1.0]).plot().axes)
            2
        """
        from ..figures.theory import error_curves_figure

        return error_curves_figure(self)

    def _repr_html_(self) -> str:
        whole = {"eta", "pi"} <= self.sizes.keys() and "amp_mse_X" in self
        return (_picture(self.plot(), "the errors") if whole else "") + super()._repr_html_()


def _picture(figure: Figure, alternative: str) -> str:
    drawn = io.BytesIO()
    figure.savefig(drawn, format="png", dpi=_RESOLUTION)
    return f'<img alt="{alternative}" src="data:image/png;base64,{base64.b64encode(drawn.getvalue()).decode()}">'
