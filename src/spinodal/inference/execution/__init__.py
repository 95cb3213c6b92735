"""Where and how things are computed, never what: batches, blocks, devices, files."""
