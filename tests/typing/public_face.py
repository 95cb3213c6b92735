"""Code as users write it, which type checkers must accept in strict mode: every line that asserts a type fails if the type is lost."""

from typing import assert_type

import numpy as np
from matplotlib.figure import Figure

import spinodal as sp

problem = sp.Problem.sparse(alpha=0.5, pi=5.0, rho=0.1, eta=0.1, noise_variance=1e-8)
assert_type(problem, sp.Problem)
instance = sp.sample(problem, 20, seed=1)
assert_type(instance, sp.Instance)
solution = sp.solve(instance.observed, problem)
assert_type(solution, sp.Solution)
assert_type(solution.plot(), Figure)
assert_type(sp.score(solution.mean, instance.truth), sp.Score)
assert_type(sp.phase(problem), str)
assert_type(sp.spinodal(problem), float | None)
assert_type(sp.pi_star(problem), float)
learner = sp.DictionaryLearner(n_components=3).fit(np.zeros((6, 4)))
assert_type(learner, sp.DictionaryLearner)
assert_type(sp.read_measurements("measurements.csv"), sp.Measurements)
model: sp.Model = problem
prior: sp.Prior = sp.GaussBernoulli(0.1)
channel: sp.Channel = sp.OneBit()
