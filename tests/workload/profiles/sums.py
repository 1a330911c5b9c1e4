"""What a layer file adds up to."""

from weft.workload.profiles.layers import CYCLE_S, LayerFile


def totals(file: LayerFile) -> tuple[float, float, float]:
    """Seconds of all forward passes and of all backward passes, and bytes of all weight-gradient collectives."""
    forward = sum(x.forward for x in file.layers)
    backward = sum(x.input_gradient + x.weight_gradient for x in file.layers)
    return CYCLE_S * forward, CYCLE_S * backward, sum(x.weight_comm.bytes for x in file.layers if x.weight_comm)
