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


def interleaved(stage: int, stages: int, micro_batches: int, chunks: int) -> list[tuple[str, int, int]]:
    """The same for a stage that holds several chunks of layers: ("forward" or "backward", micro-batch, chunk).

    Each group of as many micro-batches as there are stages goes through the first chunk, then through the next one;
    backward passes begin with the last chunk. So many forward passes are ahead that no stage waits for its neighbours
    (Narayanan et al. 2021, section 2.2).
    """

    def step(way: str, k: int) -> tuple[str, int, int]:
        group, within = divmod(k, stages * chunks)
        chunk, i = divmod(within, stages)
        return way, group * stages + i, chunk if way == "forward" else chunks - 1 - chunk

    total = micro_batches * chunks
    ahead = total if micro_batches == stages else min(total, 2 * (stages - stage - 1) + (chunks - 1) * stages + 1)
    steps = [step("forward", k) for k in range(ahead)]
    for k in range(total):
        steps.append(step("backward", k))
        if ahead + k < total:
            steps.append(step("forward", ahead + k))
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
    chunks: int = 1,
    overlap: bool = False,
    tensor_overlap: bool = False,
    tensor_demand_bytes_per_s: float | None = None,
) -> Profile:
    """One iteration on tensor x pipeline x data workers.

    Each micro-batch of a stage computes, then its tensor-parallel workers sum their activations (all layers of the
    stage in one transfer, as many bytes as layer by layer), then the result goes to the next stage, shard by shard.
    At the end the two copies of a tied embedding are summed (DeepSpeed does this first), then gradients over the
    replicas, shard by shard, then the optimiser runs. Without a pipeline there is one micro-batch.

    With several `chunks` (virtual stages) each stage holds so many runs of layers, in turn with the other stages, which
    makes a pipeline fill and drain sooner. `overlap` sends the gradients of a chunk as soon as its last backward pass
    is done, beside the passes of other chunks. `tensor_overlap` sums activations while they are computed, piece by
    piece, as libraries with fused kernels do: the next step waits for both.
    `tensor_demand_bytes_per_s` caps the flows of the activation sums, which in reality alternate with computing.
    """
    counts = {"tensor": tensor, "pipeline": pipeline, "data": data, "micro_batches": micro_batches, "virtual": chunks}
    for name, count in counts.items():
        if count < 1:
            raise InputError(f"model {work.name!r}: {name} is {count}; it must be at least 1")
    if chunks > 1:
        _check_chunks(work.name, pipeline, micro_batches, schedule)
    grid = _Grid(
        work, tensor, pipeline, data, micro_batches if pipeline > 1 else 1, tensor_demand_bytes_per_s, chunks,
        overlap, tensor_overlap,
    )  # fmt: skip
    for replica in range(data):
        grid.run_pipeline(replica, schedule)
    grid.sum_gradients()
    workers = tensor * pipeline * data
    parts = tensor * pipeline
    note = f"shared by {parts} workers" if parts > 1 else ""
    return work.profile(grid.tasks, workers, work.memory_bytes / parts, note)


def _check_chunks(model: str, pipeline: int, micro_batches: int, schedule: str) -> None:
    if pipeline == 1 or schedule != "1f1b":
        raise InputError(f"model {model!r}: virtual stages need a pipeline and its order; add schedule=1f1b")
    if micro_batches % pipeline:
        raise InputError(
            f"model {model!r}: with virtual stages micro_batches is a multiple of the {pipeline} stages; "
            f"{micro_batches} is not"
        )


@dataclass
class _Grid:
    """The task list while it is being written."""

    work: Work
    tensor: int
    pipeline: int
    data: int
    micro_batches: int
    demand: float | None
    chunks: int
    overlap: bool
    tensor_overlap: bool
    tasks: list[Task] = field(default_factory=list)
    last: dict[tuple[int, int], tuple[int, ...]] = field(default_factory=dict)  # (replica, stage) -> its last tasks
    ready: dict[tuple[int, int], tuple[int, ...]] = field(default_factory=dict)  # (replica, part) -> last backward pass
    # Runs of layers, in the order in which a micro-batch meets them: stage p has parts p, p + pipeline, ...
    parts: tuple[Stage, ...] = ()

    def __post_init__(self) -> None:
        self.parts = cut(self.work, self.pipeline * self.chunks)

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
        queues = [self._turns(schedule, p) for p in range(self.pipeline)]
        arrived: dict[tuple[str, int, int], int | None] = {}  # (pass, micro-batch, part) -> transfer that brought it
        for i in range(self.micro_batches):
            arrived["forward", i, 0] = None
        while any(queues):
            for queue in queues:
                while queue and queue[0] in arrived:
                    way, i, part = queue.pop(0)
                    self._step(replica, part, way, i, arrived)

    def _turns(self, schedule: str, p: int) -> list[tuple[str, int, int]]:
        """What a stage does in turn: (pass, micro-batch, part)."""
        if self.chunks == 1:
            return [(way, i, p) for way, i in order(schedule, p, self.pipeline, self.micro_batches)]
        steps = interleaved(p, self.pipeline, self.micro_batches, self.chunks)
        return [(way, i, chunk * self.pipeline + p) for way, i, chunk in steps]

    def _step(self, replica: int, part: int, way: str, i: int, arrived: dict[tuple[str, int, int], int | None]) -> None:
        stage, p, m = self.parts[part], part % self.pipeline, self.micro_batches
        label = f".d{replica}p{part}m{i}"
        brought = arrived[way, i, part]
        after = tuple(sorted({*self.last.get((replica, p), ()), *(() if brought is None else (brought,))}))
        seconds = (stage.forward_s if way == "forward" else stage.backward_s) / (m * self.tensor)
        mine = self.shards(replica, p)
        done = [self.add(Compute(f"{way}{label}", seconds, after, mine))]
        if self.tensor > 1 and stage.summed_bytes > 0:
            before = after if self.tensor_overlap else (done[0],)
            sums = Transfer(f"tensor-{way}{label}", stage.summed_bytes / m, before, mine, None, self.demand)
            done = [*done * self.tensor_overlap, self.add(sums)]
        self.last[replica, p] = tuple(done)
        if way == "backward":
            self.ready[replica, part] = tuple(done)
        if way == "forward" and part == len(self.parts) - 1:
            arrived["backward", i, part] = None
            return
        there = part + 1 if way == "forward" else part - 1
        if there < 0:
            return
        size = self.parts[min(part, there)].output_bytes / m
        name = f"{'activation' if way == 'forward' else 'gradient'}{label}"
        pair = mine + self.shards(replica, there % self.pipeline)
        arrived[way, i, there] = self.add(Transfer(name, size, tuple(done), pair, "point-to-point"))

    def sum_gradients(self) -> None:
        """Tied embeddings, then gradients over replicas, then the optimiser."""
        ends: dict[int, list[int]] = {}  # rank -> its last tasks
        for (replica, p), tasks in self.last.items():
            for rank in self.shards(replica, p):
                ends[rank] = list(tasks)
        tied = self.work.tied_bytes
        if self.pipeline > 1 and tied > 0:
            for replica in range(self.data):
                for t in range(self.tensor):
                    pair = (self.rank(replica, 0, t), self.rank(replica, self.pipeline - 1, t))
                    self._sum(f"embedding.d{replica}t{t}", tied / self.tensor, pair, ends)
        if self.data > 1:
            self._sum_over_replicas(ends)
        if self.work.optimiser_s > 0:
            share = self.work.optimiser_s / (self.tensor * self.pipeline)
            for rank, before in sorted(ends.items()):
                self.add(Compute(f"optimiser.{rank}", share, tuple(before), (rank,)))

    def _sum_over_replicas(self, ends: dict[int, list[int]]) -> None:
        early = self.overlap and self.chunks > 1
        for p in range(self.pipeline):
            mine = range(p, len(self.parts), self.pipeline)
            for t in range(self.tensor):
                group = tuple(self.rank(d, p, t) for d in range(self.data))
                if not early:
                    size = sum(self.parts[part].gradient_bytes for part in mine)
                    self._sum(f"all-reduce.p{p}t{t}", size / self.tensor, group, ends)
                    continue
                sent: list[int] = []  # one after the other, the last chunk first
                for part in reversed(mine):
                    after = tuple(sorted({*sent, *(task for d in range(self.data) for task in self.ready[d, part])}))
                    size = self.parts[part].gradient_bytes / self.tensor
                    sent = [self.add(Transfer(f"all-reduce.p{part}t{t}", size, after, group))]
                for rank in group:
                    ends[rank] = [*ends[rank], *sent]

    def _sum(self, name: str, size: float, group: tuple[int, ...], ends: dict[int, list[int]]) -> None:
        after = tuple(sorted({task for rank in group for task in ends[rank]}))
        done = self.add(Transfer(name, size, after, group))
        for rank in group:
            ends[rank] = [done]
