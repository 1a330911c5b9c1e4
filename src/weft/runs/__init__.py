"""The grid of runs: what is run, where, and what is kept of it."""
