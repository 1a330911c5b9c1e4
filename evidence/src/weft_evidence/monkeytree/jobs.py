"""MonkeyTree's jobs: the types of its table, one iteration of each as a profile, and its generator made again.

The generator draws with Python's `random`, in this order for each job: type, GPUs, iterations. Then its clock advances.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from itertools import accumulate

from weft.model.job import Job
from weft.model.profile import Compute, Profile, Task, Transfer

LINE = 50e9  # bytes per second of every link
BLOCK = 8  # GPUs that are placed and moved together
ITERATIONS = 100, 1000
RING = "one-ring"  # a single ring, over one NIC of each server
MICROBATCHES = 8


@dataclass(frozen=True)
class JobType:
    """A row of the table. `compute_s` is of one iteration; of one microbatch forward and backward for a pipeline; of
    one layer for experts. `bytes` is what its ring (or rings) sums."""

    name: str
    weight: int
    sizes: tuple[int, ...]
    kind: str
    compute_s: float
    bytes: float
    stages: int = 1
    exchanged: tuple[float, ...] = ()  # all-to-all after each layer, or activations of a microbatch

    def ranks(self, n: int) -> list[list[int]]:
        """The rings: of all workers, of every eighth, or of every eighth of a pipeline stage."""
        if self.kind in ("fsdp", "moe"):
            return [list(range(n))]
        size = n // self.stages
        return [list(range(s * size + t, (s + 1) * size, BLOCK)) for s in range(self.stages) for t in range(BLOCK)]

    def ring_s(self, n: int) -> float:
        """Seconds of its rings, alone."""
        members = len(self.ranks(n)[0])
        return 2.0 * (members - 1) / members * self.bytes / LINE

    @property
    def steps(self) -> int:
        """How often it computes in an iteration: microbatches, or layers of experts."""
        return MICROBATCHES if self.kind == "pp" else max(1, len(self.exchanged))

    def nominal_s(self, n: int) -> float:
        """Seconds of an iteration by the generator's formula, which knows no bubble of a pipeline."""
        if self.kind == "pp":
            return self.steps * (self.compute_s + 2.0 * self.exchanged[0] / LINE) + self.ring_s(n)
        return self.steps * self.compute_s + sum(self.exchanged) / n / LINE + self.ring_s(n)

    def alone_s(self, n: int) -> float:
        """Seconds of an iteration alone: for a pipeline with its bubble (GPipe)."""
        if self.kind != "pp":
            return self.nominal_s(n)
        return self.piped_s + self.ring_s(n)

    @property
    def piped_s(self) -> float:
        """Seconds of a pipeline's microbatches, activations among them."""
        through = self.stages + MICROBATCHES - 1
        return through * self.compute_s + 2.0 * (through - 1) * self.exchanged[0] / LINE

    def profile(self, n: int) -> Profile:
        """One iteration on n workers, whose ranks are sorted by ToR and server."""
        return _profile(self, n)


@cache
def _profile(kind: JobType, n: int) -> Profile:
    tasks: list[Task] = []
    if kind.kind == "pp":  # activations take their time and use no link: 2 % of the bytes
        size = n // kind.stages
        for s in range(kind.stages):
            tasks.append(Compute(f"stage{s}", kind.piped_s, (), tuple(range(s * size, (s + 1) * size))))
        ends = tuple(range(kind.stages))
    elif kind.kind == "moe":
        for i, amount in enumerate(kind.exchanged):
            last = (len(tasks) - 1,) if tasks else ()
            tasks.append(Compute(f"layer{i}", kind.compute_s, last))
            tasks.append(Transfer(f"exchange{i}", amount / (n - 1), (len(tasks) - 1,), None, "all-to-all"))
        ends = (len(tasks) - 1,)
    else:
        tasks.append(Compute("step", kind.compute_s))
        ends = (0,)
    for i, members in enumerate(kind.ranks(n)):
        before = ends if len(ends) == 1 else (ends[i // BLOCK],)
        tasks.append(Transfer(f"ring{i}", kind.bytes, before, tuple(members), RING))
    return Profile(kind.name, tuple(tasks), n)


_EXPERTS = tuple(188e6 if layer == 15 else 376e6 for layer in range(24))
TYPES = (  # in the order of the draw
    JobType("llama2_70b_fsdp", 25, (16, 24, 32), "fsdp", 2.378, 137.43e9),
    JobType("gpt_oss_20b", 1, (16,), "moe", 0.133, 8.8e9, exchanged=_EXPERTS),
    JobType("llama2_70b_tp_dp", 100, (16, 32), "tp_dp", 0.341, 17.18e9),
    JobType("llama2_70b_tp_dp_pp_2", 25, (32, 48, 64), "pp", 0.171, 8.59e9, 2, (8.39e6,)),
    JobType("llama2_70b_tp_dp_pp_4", 25, (64,), "pp", 0.086, 4.295e9, 4, (8.39e6,)),
    JobType("llama3_70b_fsdp", 25, (16, 24, 32), "fsdp", 5.258, 137.43e9),
    JobType("llama3_70b_tp_dp", 100, (16, 32), "tp_dp", 0.743, 17.18e9),
    JobType("gpt_oss_120b", 1, (16,), "moe", 0.106, 11.42e9, exchanged=_EXPERTS),
    JobType("gpt_7b_dp", 25, (16, 24, 32), "fsdp", 0.113, 13e9),
    JobType("gpt_13b_dp", 25, (16, 24, 32), "fsdp", 0.215, 26e9),
)
BY_NAME = {kind.name: kind for kind in TYPES}


def mean(of: Callable[[JobType, int], float]) -> float:
    """What a job has on average over the mix."""
    weights = sum(kind.weight for kind in TYPES)
    return sum(kind.weight * sum(of(kind, n) for n in kind.sizes) / len(kind.sizes) for kind in TYPES) / weights


def gpu_s() -> float:
    """GPU seconds of a mean job, by which the generator turns a load into arrivals."""
    return mean(lambda kind, n: n * sum(ITERATIONS) / 2 * kind.nominal_s(n))


def state_s() -> float:
    """Seconds in which a moved worker sends its state: as many bytes as in one iteration. Over the mix, since a run has
    one price for all."""
    return mean(lambda kind, n: kind.nominal_s(n) - kind.steps * kind.compute_s)


@dataclass(frozen=True)
class Drawn:
    """A job as the generator draws it; its arrival in whole microseconds."""

    arrival_us: int
    kind: str
    gpus: int
    iterations: int


def draw(seed: int, load: float, gpus: int, jobs: int) -> list[Drawn]:
    """The jobs of a run."""
    chance = random.Random(seed)
    clock, rate, found = 0.0, load * gpus / gpu_s(), []
    weights = list(accumulate(kind.weight for kind in TYPES))
    for _ in range(jobs):
        (kind,) = chance.choices(TYPES, cum_weights=weights)
        n, iterations = chance.choice(kind.sizes), chance.randint(*ITERATIONS)
        found.append(Drawn(int(clock * 1e6), kind.name, n, iterations))
        clock += chance.expovariate(rate)
    return found


def seed_of(load: float, repetition: int) -> int:
    """Seeds of the released script: 1000 x (1 for a load of 0.5 ... 6 for 1.0) + repetition."""
    return 1000 * round(10 * load - 4) + repetition


def jobs_of(drawn: list[Drawn]) -> list[Job]:
    """The same as weft has them; a stopped job goes on at its last iteration."""
    return [
        Job(f"{i}", one.arrival_us / 1e6, one.gpus, one.iterations, {one.gpus: profile}, one.kind)
        for i, one in enumerate(drawn)
        for profile in [BY_NAME[one.kind].profile(one.gpus)]
    ]
