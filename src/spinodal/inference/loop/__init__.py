"""Iterations: the loop, when it stops, and its trace."""
