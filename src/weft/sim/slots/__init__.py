"""GPUs beside a network that is simulated slot by slot."""
