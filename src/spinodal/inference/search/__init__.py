"""Around a solver: annealing, diagnostics, repair and learning."""
