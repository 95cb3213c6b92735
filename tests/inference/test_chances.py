"""Chances in elementary functions against SciPy's."""

import numpy as np
import pytest
from scipy import special, stats

from spinodal.inference.suspicious_data import chi_square_beyond, share_beyond


@pytest.mark.parametrize("number", [3, 10, 100, 1000])
def test_the_chance_of_a_share_is_bounded_and_near_its_value_where_it_is_small(number: int) -> None:
    share = np.linspace(0, 1, 1001)
    exact = special.betainc((number - 1) / 2, 0.5, 1 - share)
    bound = share_beyond(share, number)
    assert np.all(bound >= exact * (1 - 1e-9))
    small = (exact < 1e-3) & (exact > 0)
    assert np.all(bound[small] < 1.3 * exact[small])


@pytest.mark.parametrize("number", [1.0, 2.5, 20.0, 400.0])
@pytest.mark.parametrize("chance", [1e-2, 1e-4, 1e-7])
def test_the_sum_of_squares_that_is_exceeded(number: float, chance: float) -> None:
    assert chi_square_beyond(chance, number) == pytest.approx(stats.chi2.isf(chance, number), rel=0.25 / number**0.5)
