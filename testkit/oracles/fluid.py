"""The fluid model in plain words: readable twin of fluid_kernel.py, solved to the end from the start."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from weft.sim.compiled.state import COMPUTE
from weft.sim.engine.program import NodeSpec, Program


def fluid_paces(
    programs: Sequence[Program],
    capacity: npt.NDArray[np.float64],
    rounds: int = 200,
    kway: tuple[float, float] | None = None,
) -> list[float]:
    """Iterations per second of jobs that run side by side: each link sees the others for the share of time they send.

    `kway` is b and eta of k-way sharing, None under max-min. Links that all jobs together cannot fill never limit.
    """
    b = kway[0] if kway else None
    alone = [program.nodes["alone"].tolist() for program in programs]
    takes = [
        [spec.latency + spec.amount / rate for spec, rate in zip(program.specs, rates, strict=True)]
        for program, rates in zip(programs, alone, strict=True)
    ]
    paces = [1.0 / path_s(p.specs, t) for p, t in zip(programs, takes, strict=True)]
    binding = _binding(programs, capacity, b)
    for _ in range(rounds):
        for i, program in enumerate(programs):
            load = np.zeros(len(capacity))
            for k, other in enumerate(programs):
                for spec, seconds in zip(other.specs, takes[k], strict=True):
                    for link, n in spec.links if k != i else ():
                        load[link] += n * spec.claim * seconds * paces[k]
            for t, spec in enumerate(program.specs):
                if spec.kind == COMPUTE:
                    continue
                rate = alone[i][t]
                for link, n in spec.links:
                    if kway and binding[link]:
                        rate = min(rate, 1.0 / ((1.0 + load[link]) * kway[0] + load[link] * kway[1]))
                    elif binding[link]:
                        rate = min(rate, spec.claim * capacity[link] / (n * spec.claim + load[link]))
                takes[i][t] = spec.latency + spec.amount / rate
            paces[i] = 1.0 / path_s(program.specs, takes[i])
    return paces


def path_s(specs: Sequence[NodeSpec], takes: Sequence[float]) -> float:
    """Time of one iteration: the longest path, a job's own transfers one after the other."""
    ends: list[float] = []
    net_free = 0.0
    for spec, seconds in zip(specs, takes, strict=True):
        start = max((ends[p] for p in spec.after), default=0.0)
        if spec.kind == COMPUTE:
            ends.append(start + spec.amount)
        else:
            net_free = max(start, net_free) + seconds
            ends.append(net_free)
    return max(ends)


def _binding(programs: Sequence[Program], capacity: npt.NDArray[np.float64], b: float | None) -> npt.NDArray[np.bool_]:
    """Links that the jobs on them could fill together; under k-way sharing those with more than one job."""
    wanted, jobs = np.zeros(len(capacity)), np.zeros(len(capacity))
    for program in programs:
        mine = np.zeros(len(capacity))
        for spec, rate in zip(program.specs, program.nodes["alone"].tolist(), strict=True):
            for link, n in spec.links:
                want = n * rate
                mine[link] = max(mine[link], want) if program.serial else mine[link] + want
        wanted += mine
        jobs += mine > 0
    return jobs > 1 if b is not None else wanted > capacity * (1.0 - 1e-9)
