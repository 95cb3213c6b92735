"""A page about a result."""
