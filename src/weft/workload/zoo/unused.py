"""Settings that a way of parallelising does not carry out, and that are refused for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from weft.errors import InputError

SERVERS = ("servers", "apart")  # of parameter servers
STAGES = ("schedule", "micro_batches", "virtual", "tensor_overlap")
# By setting the factor of a layout that it is about, and its size's name. Settings about factors that follow from the
# number of workers are not here: jobs of one model come in several sizes.
OF_FACTOR = {
    "schedule": ("pp", "pipeline"), "tensor_overlap": ("tp", "tensor"), "sequence_parallel": ("tp", "tensor"),
    "context_overlap": ("cp", "context"), "expert_overlap": ("ep", "expert"),
}  # fmt: skip


def refuse_unused(whose: str, scheme: str, given: Sequence[str], sizes: Mapping[str, int] | None = None) -> None:
    """Refuse what was `given` and means nothing under a scheme, or on a layout of such sizes."""
    for key in given:
        if key in SERVERS and scheme != "parameter-server":
            raise InputError(f"{whose}{key} is for parameter servers; leave it out, or write parallel=parameter-server")
        if key in STAGES and scheme in ("data", "parameter-server", "embedding"):
            raise InputError(f"{whose}{key} is for pipeline, tensor and hybrid parallelism; leave it out")
        factor, size = OF_FACTOR.get(key, ("", ""))
        if sizes is not None and factor and sizes[size] == 1:
            raise InputError(f"{whose}{key} has no meaning without {factor}; leave it out, or add {factor}N")
