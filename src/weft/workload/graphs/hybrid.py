"""Tensor, pipeline and data parallelism together (and each of the first two alone).

Workers form a grid: replica d, stage p, shard t is rank (d P + p) T + t, so that the workers that talk most (tensor,
then pipeline) are neighbours. A replica works on `work.batch` samples in micro-batches.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import accumulate

from weft.errors import InputError
from weft.model.profile import Compute, Profile, Task, Transfer
from weft.workload.graphs.work import LayerWork, Work

SCHEDULES = ("gpipe", "1f1b")


@dataclass(frozen=True, slots=True)
class Stage:
    """Consecutive layers on one group of workers. Bytes and seconds are of the whole batch on one GPU."""

    forward_s: float
    backward_s: float
    gradient_bytes: float
    summed_bytes: float  # activations that tensor-parallel workers sum in one forward pass (as many in the backward)
    output_bytes: float  # what it hands to the next stage


def cut(work: Work, count: int) -> tuple[Stage, ...]:
    """`count` stages of consecutive layers whose slowest is as fast as possible.

    A stage hands on the output of its last layer; in models with branches (ResNet, Inception) that is an approximation
    where a cut falls inside a block. The last stage of a model whose embedding is tied keeps a copy of it.
    """
    layers = work.layers
    if not 1 <= count <= len(layers):
        raise InputError(f"model {work.name!r}: {count} pipeline stages for {len(layers)} layers; use at most as many")
    summed = summed_layers(layers)
    stages = []
    for first, last in _balanced([x.forward_s + x.backward_s for x in layers], count):
        part = layers[first:last]
        stages.append(
            Stage(
                sum(x.forward_s for x in part),
                sum(x.backward_s for x in part),
                sum(x.gradient_bytes for x in part) + (work.tied_bytes if count > 1 and last == len(layers) else 0.0),
                sum(x.activation_bytes for i, x in enumerate(part, first) if i in summed),
                part[-1].activation_bytes,
            )
        )
    return tuple(stages)


def summed_layers(layers: tuple[LayerWork, ...]) -> frozenset[int]:
    """Layers after which tensor-parallel workers sum their parts.

    The halves of transformer blocks (Megatron-LM). In other models layers are paired, the first split by outputs and
    the second by inputs, so the sum comes after every second layer.
    """
    marked = frozenset(i for i, layer in enumerate(layers) if layer.summed)
    return marked or frozenset(range(1, len(layers), 2))


def order(schedule: str, stage: int, stages: int, micro_batches: int) -> list[tuple[str, int]]:
    """What one stage does in turn: ("forward" or "backward", micro-batch).

    gpipe: all forward passes, then all backward passes (Huang et al. 2019). 1f1b: as many forward passes ahead as there
    are stages to the end, then one backward, one forward (PipeDream with a flush, Narayanan et al. 2021).
    """
    if schedule not in SCHEDULES:
        raise InputError(f"pipeline schedule {schedule!r} is not known; use one of {', '.join(SCHEDULES)}")
    ahead = micro_batches if schedule == "gpipe" else min(micro_batches, stages - stage)
    steps = [("forward", i) for i in range(ahead)]
    for i in range(micro_batches):
        steps.append(("backward", i))
        if ahead + i < micro_batches:
            steps.append(("forward", ahead + i))
    return steps


def _balanced(times: list[float], count: int) -> list[tuple[int, int]]:
    """Cut a list into `count` runs so that the largest sum is smallest (dynamic programming over ends)."""
    n = len(times)
    prefix = list(accumulate(times, initial=0.0))
    best = [[float("inf")] * (n + 1) for _ in range(count + 1)]
    back = [[0] * (n + 1) for _ in range(count + 1)]
    best[0][0] = 0.0
    for k in range(1, count + 1):
        for end in range(k, n - (count - k) + 1):
            for start in range(k - 1, end):
                slowest = max(best[k - 1][start], prefix[end] - prefix[start])
                if slowest < best[k][end]:
                    best[k][end], back[k][end] = slowest, start
    cuts, end = [], n
    for k in range(count, 0, -1):
        cuts.append((back[k][end], end))
        end = back[k][end]
    return cuts[::-1]


def hybrid(
    work: Work,
    *,
    tensor: int = 1,
    pipeline: int = 1,
    data: int = 1,
    micro_batches: int = 3,
    schedule: str = "gpipe",
    tensor_demand_bytes_per_s: float | None = None,
) -> Profile:
    """One iteration on tensor x pipeline x data workers.

    Each micro-batch of a stage computes, then its tensor-parallel workers sum their activations (all layers of the
    stage in one transfer, as many bytes as layer by layer), then the result goes to the next stage, shard by shard.
    At the end the two copies of a tied embedding are summed (DeepSpeed does this first), then gradients over the
    replicas, shard by shard, then the optimiser runs. Without a pipeline there is one micro-batch.
    `tensor_demand_bytes_per_s` caps the flows of the activation sums, which in reality alternate with computing.
    """
    for name, count in (("tensor", tensor), ("pipeline", pipeline), ("data", data), ("micro_batches", micro_batches)):
        if count < 1:
            raise InputError(f"model {work.name!r}: {name} is {count}; it must be at least 1")
    grid = _Grid(work, tensor, pipeline, data, micro_batches if pipeline > 1 else 1, tensor_demand_bytes_per_s)
    for replica in range(data):
        grid.run_pipeline(replica, schedule)
    grid.sum_gradients()
    workers = tensor * pipeline * data
    parts = tensor * pipeline
    note = f"shared by {parts} workers" if parts > 1 else ""
    return work.profile(grid.tasks, workers, work.memory_bytes / parts, note)


@dataclass
class _Grid:
    """The task list while it is being written."""

    work: Work
    tensor: int
    pipeline: int
    data: int
    micro_batches: int
    demand: float | None
    tasks: list[Task] = field(default_factory=list)
    last: dict[tuple[int, int], int] = field(default_factory=dict)  # (replica, stage) -> its last task
    stages: tuple[Stage, ...] = ()

    def __post_init__(self) -> None:
        self.stages = cut(self.work, self.pipeline)

    def rank(self, replica: int, stage: int, shard: int) -> int:
        """The worker at a place of the grid."""
        return (replica * self.pipeline + stage) * self.tensor + shard

    def shards(self, replica: int, stage: int) -> tuple[int, ...]:
        """The tensor-parallel workers of a stage."""
        return tuple(self.rank(replica, stage, t) for t in range(self.tensor))

    def add(self, task: Task) -> int:
        """Append a task; returns its index."""
        self.tasks.append(task)
        return len(self.tasks) - 1

    def run_pipeline(self, replica: int, schedule: str) -> None:
        """All micro-batches of one replica, forward and backward, each task after its causes."""
        queues = [order(schedule, p, self.pipeline, self.micro_batches) for p in range(self.pipeline)]
        arrived: dict[tuple[str, int, int], int | None] = {}  # (pass, micro-batch, stage) -> transfer that brought it
        for i in range(self.micro_batches):
            arrived["forward", i, 0] = None
        while any(queues):
            for p, queue in enumerate(queues):
                while queue and (queue[0][0], queue[0][1], p) in arrived:
                    way, i = queue.pop(0)
                    self._step(replica, p, way, i, arrived)

    def _step(self, replica: int, p: int, way: str, i: int, arrived: dict[tuple[str, int, int], int | None]) -> None:
        stage, m, label = self.stages[p], self.micro_batches, f".d{replica}p{p}m{i}"
        causes = {self.last.get((replica, p)), arrived[way, i, p]} - {None}
        seconds = (stage.forward_s if way == "forward" else stage.backward_s) / (m * self.tensor)
        mine = self.shards(replica, p)
        done = self.add(Compute(f"{way}{label}", seconds, tuple(sorted(c for c in causes if c is not None)), mine))
        if self.tensor > 1 and stage.summed_bytes > 0:
            done = self.add(Transfer(f"tensor-{way}{label}", stage.summed_bytes / m, (done,), mine, None, self.demand))
        self.last[replica, p] = done
        if way == "forward" and p == self.pipeline - 1:
            arrived["backward", i, p] = None
            return
        there = p + 1 if way == "forward" else p - 1
        if there < 0:
            return
        size = self.stages[min(p, there)].output_bytes / m
        name = f"{'activation' if way == 'forward' else 'gradient'}{label}"
        pair = mine + self.shards(replica, there)
        arrived[way, i, there] = self.add(Transfer(name, size, (done,), pair, "point-to-point"))

    def sum_gradients(self) -> None:
        """Tied embeddings, then gradients over replicas, then the optimiser."""
        ends: dict[int, list[int]] = {}  # rank -> its last tasks
        for (replica, p), task in self.last.items():
            for rank in self.shards(replica, p):
                ends[rank] = [task]
        tied = self.work.tied_bytes
        if self.pipeline > 1 and tied > 0:
            for replica in range(self.data):
                for t in range(self.tensor):
                    pair = (self.rank(replica, 0, t), self.rank(replica, self.pipeline - 1, t))
                    self._sum(f"embedding.d{replica}t{t}", tied / self.tensor, pair, ends)
        if self.data > 1:
            for p, stage in enumerate(self.stages):
                for t in range(self.tensor):
                    group = tuple(self.rank(d, p, t) for d in range(self.data))
                    self._sum(f"all-reduce.p{p}t{t}", stage.gradient_bytes / self.tensor, group, ends)
        if self.work.optimiser_s > 0:
            share = self.work.optimiser_s / (self.tensor * self.pipeline)
            for rank, before in sorted(ends.items()):
                self.add(Compute(f"optimiser.{rank}", share, tuple(before), (rank,)))

    def _sum(self, name: str, size: float, group: tuple[int, ...], ends: dict[int, list[int]]) -> None:
        after = tuple(sorted({task for rank in group for task in ends[rank]}))
        done = self.add(Transfer(name, size, after, group))
        for rank in group:
            ends[rank] = [done]
