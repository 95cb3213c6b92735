"""The command line and the Python that give what is on screen."""

from __future__ import annotations

from .state import MOST_ITERATIONS, PRIORS_F, PRIORS_X, State, written

_ONLY_PYTHON = "# The command line knows the paper's priors only (Gauss–Bernoulli X, Gaussian F): use the Python."


def command(state: State) -> str:
    """Commands for the numbers of the point, the diagram around it, and the live run."""
    if (state.x, state.f) != ("gauss-bernoulli", "gaussian"):
        return _ONLY_PYTHON
    alpha, pi, rho, eta, delta = (written(value) for value in (state.alpha, state.pi, state.rho, state.eta, state.delta))
    noise = f"--delta {delta}" if state.is_gaussian else f"--channel {state.channel_words()}"
    problem = f"--alpha {alpha} --pi {pi} --rho {rho} --eta {eta} {noise}"
    told = "" if state.is_gaussian else f"{noise} "
    return "\n".join(
        [
            f"spinodal theory {problem}",
            *([f"spinodal diagram --alpha {alpha} --eta {eta} {noise} --rho 0.02:0.98:33 --out out"] if state.is_gaussian else []),
            f"spinodal sample --n {state.n} {problem} --seed {state.seed} --out instance.npz",
            f"spinodal solve instance.npz {told}--max-iter {MOST_ITERATIONS} --seed {state.seed} --out solution.npz",
        ]
    )


def code(state: State) -> str:
    """A program that prints the numbers of the point and solves the instance of the live run."""
    rho = written(state.rho)
    X, F = PRIORS_X[state.x].code.format(rho=rho), PRIORS_F[state.f].code
    knowledge = "sp.Nothing()" if state.eta == float("inf") else "sp.Known()" if state.eta == 0 else f"sp.Hint({written(state.eta)})"
    errors = "mse_aligned" if state.eta == float("inf") else "mse_scaled"
    channel = f"sp.GaussianNoise({written(state.delta)})" if state.is_gaussian else f'named_channel("{state.channel_words()}")'
    named = "" if state.is_gaussian else "from spinodal.model.channels import named_channel\n"
    atoms = f"n_atoms={state.n}, " if state.eta == float("inf") else ""
    return f"""\
import numpy as np
import spinodal as sp
{named}
problem = sp.Problem(
    alpha={written(state.alpha)},
    pi={written(state.pi)},
    prior=sp.Pair(F={F}, X={X}),
    channel={channel},
    knowledge={knowledge},
)
print(sp.phase(problem), sp.pi_star(problem), sp.spinodal(problem), sp.bayes_transition(problem))
print(sp.bayes_mmse(problem).mse, sp.amp_mse(problem).mse)
print(sp.amp_mse(problem).recovered)  # the shares of F and X
trajectory = sp.state_evolution(problem)  # the errors, iteration by iteration
curve = sp.fixed_point_curve(problem)  # the S-curve
potential, _ = sp.effective_potential(problem, np.geomspace(1e-6, 0.99, 100) * problem.prior.X.moments().variance)

instance = sp.sample(problem, {state.n}, seed={state.seed})
solution = sp.solve(instance.observed, problem, {atoms}max_iterations={MOST_ITERATIONS}, seed={state.seed})
print(solution.status, solution.iterations, sp.score(solution.mean, instance.truth).{errors})
"""
