"""A sweep that is cheap: one shape, one solver, a few iterations."""

TINY = """
instances = 12
N = 8
batch = 2
max_iterations = 20
[grid]
alpha = 0.5
rho = [0.1, 0.2]
pi = 2.0
eta = 0.05
noise_variance = 1e-4
[solver]
method = "mu-amp"
"""
POINTS = 24
