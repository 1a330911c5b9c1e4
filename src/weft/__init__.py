"""weft: schedules distributed deep-learning jobs on GPU clusters whose network is the bottleneck."""

__version__ = "0.1.0"
