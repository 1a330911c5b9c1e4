"""EngineSpec, Usage: the physics that an engine is given, and what it tells of a job that leaves."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from weft.model.flows import Ask
from weft.policies.pace.rates import RateRule

BUDGET = 1_200_000  # see EngineSpec


@dataclass(frozen=True)
class EngineSpec:
    """The physics of a run."""

    capacity: npt.NDArray[np.float64]  # bytes per second of each link
    ports: npt.NDArray[np.bool_]  # links that are a server's own: where admission counts transfers
    n_gpus: int = 0
    sharing: str = "max-min"
    finest: int = 1  # parts of a flow in which programs count what links carry
    b_s_per_byte: float = 0.0
    eta_s_per_byte: float = 0.0
    admission: str = "all"
    admission_k: int = 0
    admission_ratios: tuple[float, ...] = ()
    ask: Ask | None = None  # for admission "ask"; jobs are named by their uid
    rule: Callable[[], RateRule | None] | None = None  # makes the rule that sets limits, if any (see `Pace.rates`)
    packet_loss: float = 0.0  # share of packets lost at random, which a rule may notice
    seed: int = 0
    jitter: float = 0.0
    straggle_p: float = 0.0
    straggle_x: float = 1.0
    task_jitter: float = 0.0
    uneven: bool = False  # see random_kernel.py
    skip: bool = True
    exact: bool = True
    window: float = 320.0  # iterations of the longest measuring window when exact is False
    budget: int = BUDGET  # tasks that windows may simulate when exact is False, before jobs leave
    segments: int = 0  # record this many first tasks


@dataclass(frozen=True, slots=True)
class Usage:
    """What a job did while attached."""

    iterations: int  # full iterations
    comm_s: float  # its GPUs waited for the network
    gate_s: float  # they waited for a gate
    gpu_s: float  # GPU seconds computed, unfinished tasks included
    finish_s: float  # when the last iteration ended, if it finished
    adjusted: int = 0  # openings of the gate missed
