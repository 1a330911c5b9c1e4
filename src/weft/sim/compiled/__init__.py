"""The engine's memory and the compiled kernels that work on it."""
