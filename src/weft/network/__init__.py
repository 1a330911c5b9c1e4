"""How long communication takes: one iteration alone on given GPUs, and cost models that stand in for links."""
