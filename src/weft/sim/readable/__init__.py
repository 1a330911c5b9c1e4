"""The engine once more, to be read: the same results as the compiled kernels, bit for bit."""
