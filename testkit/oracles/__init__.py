"""What tests hold the compiled kernels against: the same, written to be read. Nothing else uses them."""
