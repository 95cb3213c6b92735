"""The equations of message passing, and nothing else."""
