"""One file for each solver."""
