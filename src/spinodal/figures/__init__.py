"""Figures: of the theory, of results, of sweeps."""
