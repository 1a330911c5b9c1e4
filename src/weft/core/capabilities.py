"""Capabilities: what a world can carry out."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What a world can do beyond starting and stopping a job on a number of GPUs of some servers."""

    gpu_indices: bool = True  # a rank runs on exactly the GPU that was named
    gpu_sharing: bool = False  # several jobs on one GPU
    resizing: bool = False  # a job started again with another number of workers
    uneven: bool = True  # different numbers of GPUs on the servers of one job
    shifts: bool = False  # gates
    pacing: bool = False  # admission rules and rates of transfers
    copies: bool = False  # a cluster of its own for each job
    routes: bool = False  # flows on paths that the stack chooses
    others: bool = False  # traffic that is not ours shares the links, on which single flows can be given rates
