"""Profile: one training iteration as a small graph of tasks, repeated until the job is done.

A Compute task runs once on each of its workers; a Transfer is one collective operation that starts when the tasks
before it are done on all its workers. The iteration itself is a barrier: the next one starts when every task of this
one is done. A list of phases (compute, then communication) is shorthand for a chain.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from weft.errors import InputError

Workers = tuple[int, ...] | None  # ranks; None means all workers of the job
APART = "parameter-server-apart"  # the collective with a parameter server that has no GPU of the job


@dataclass(frozen=True, slots=True)
class Compute:
    """Work of `seconds` on the GPU of each of its workers, once the tasks `after` (indices) are done."""

    name: str
    seconds: float
    after: tuple[int, ...] = ()
    workers: Workers = None


@dataclass(frozen=True, slots=True)
class Transfer:
    """One collective among its workers: `bytes` is the message (a gradient bucket, an activation), not the wire bytes.

    `collective` is one of the names in `weft.network.collectives` ("ring", "halving-doubling", "recursive-doubling",
    "tree", "parameter-server", "all-to-all", "point-to-point"); None leaves the choice to the scenario's default.
    `demand_bytes_per_s` caps each flow (None: as fast as the links allow).
    """

    name: str
    bytes: float
    after: tuple[int, ...] = ()
    workers: Workers = None
    collective: str | None = None
    demand_bytes_per_s: float | None = None
    servers: int = 1  # parameter servers, for the collective of that name


Task = Compute | Transfer


@dataclass(frozen=True, slots=True)
class Phase:
    """Shorthand: compute and transfer side by side; the phase ends when both are done."""

    compute_s: float = 0.0
    bytes: float = 0.0
    collective: str | None = None
    demand_bytes_per_s: float | None = None


@dataclass(frozen=True)
class Profile:
    """One iteration of a job with a given number of workers, batch size and GPU type.

    Tasks are in topological order (each comes after those it names in `after`). Two Compute tasks that share a worker
    must be ordered by the graph: a GPU runs one task of a job at a time.
    """

    name: str
    tasks: tuple[Task, ...]
    workers: int
    memory_bytes: float = 0.0  # per worker
    batch: int = 0  # samples per worker and iteration; 0 if unknown
    gpu: str = ""
    source: str = ""  # where the times come from
    memory_source: str = ""  # where `memory_bytes` comes from
    worth: float = 1.0  # iterations as submitted that this one is worth: not 1 if a planner changed the batch
    link_weight: int = 1  # what each of its flows weighs where links are shared: sockets, channels
    nic_bytes_per_s: float | None = None  # the most that one of its transfers sends through a NIC

    def __post_init__(self) -> None:
        _check(self)

    @staticmethod
    def from_phases(name: str, phases: Sequence[Phase], workers: int, memory_bytes: float = 0.0) -> Profile:
        """A chain of phases as a graph."""
        tasks: list[Task] = []
        before: tuple[int, ...] = ()
        for i, phase in enumerate(phases):
            ends: list[int] = []
            if phase.compute_s > 0 or phase.bytes <= 0:
                tasks.append(Compute(f"compute{i}", phase.compute_s, before))
                ends.append(len(tasks) - 1)
            if phase.bytes > 0:
                tasks.append(
                    Transfer(f"transfer{i}", phase.bytes, before, None, phase.collective, phase.demand_bytes_per_s)
                )
                ends.append(len(tasks) - 1)
            before = tuple(ends)
        return Profile(name, tuple(tasks), workers, memory_bytes)

    def as_json(self) -> dict[str, Any]:
        """The profile as a JSON-able value; `type` says what a task is."""
        kinds = ("compute" if isinstance(task, Compute) else "transfer" for task in self.tasks)
        return {
            **{each.name: getattr(self, each.name) for each in fields(self)},
            "tasks": [{"type": kind, **asdict(task)} for kind, task in zip(kinds, self.tasks, strict=True)],
        }

    @staticmethod
    def from_json(saved: Mapping[str, Any]) -> Profile:
        """The profile that `as_json` was asked for."""
        return Profile(**{**saved, "tasks": tuple(_task(**task) for task in saved["tasks"])})

    @cached_property
    def compute_s(self) -> float:
        """Longest compute path of one iteration: the iteration time on an infinitely fast network."""
        ends = [0.0] * len(self.tasks)
        for i, task in enumerate(self.tasks):
            start = max((ends[p] for p in task.after), default=0.0)
            ends[i] = start + (task.seconds if isinstance(task, Compute) else 0.0)
        return max(ends, default=0.0)

    @property
    def gpu_s(self) -> float:
        """GPU seconds of one iteration, summed over workers."""
        return sum(t.seconds * self.n_workers(t) for t in self.tasks if isinstance(t, Compute))

    @property
    def message_bytes(self) -> float:
        """Bytes of all messages of one iteration, before any collective turns them into wire bytes."""
        return sum(t.bytes for t in self.tasks if isinstance(t, Transfer))

    @cached_property
    def grouped(self) -> bool:
        """Whether some workers talk without the others, as in a pipeline: then it matters who stands beside whom."""
        return any(isinstance(task, Transfer) and task.workers is not None for task in self.tasks)

    @cached_property
    def sent(self) -> tuple[tuple[int, ...], npt.NDArray[np.intp]]:
        """The first transfer of each kind, and the kind of each transfer: those of one kind differ in their place in
        the graph only."""
        kinds, firsts = dict[object, int](), list[int]()
        lists, known = dict[Workers, int](), dict[int, int]()  # a number for each list of workers; by identity
        of_task = []
        for i, task in enumerate(self.tasks):
            if isinstance(task, Transfer):
                if (workers := known.get(id(task.workers))) is None:
                    workers = known[id(task.workers)] = lists.setdefault(task.workers, len(lists))
                way = (task.collective, workers, task.servers, task.bytes, task.demand_bytes_per_s)
                of_task.append(kinds.setdefault(way, len(kinds)))
                if len(kinds) > len(firsts):
                    firsts.append(i)
        return tuple(firsts), np.array(of_task, np.intp)

    @cached_property
    def stages(self) -> int:
        """Pipeline stages: how many equal stretches of ranks compute apart from each other; 1 if all do the same."""
        lists = sorted({tuple(self.ranks(task)) for task in self.tasks if isinstance(task, Compute)})
        size = len(lists[0]) if lists else self.workers
        return len(lists) if lists == [tuple(range(a, a + size)) for a in range(0, self.workers, size)] else 1

    def n_workers(self, task: Task) -> int:
        """Number of workers that take part in a task."""
        return self.workers if task.workers is None else len(task.workers)

    def ranks(self, task: Task) -> Iterable[int]:
        """Ranks that take part in a task."""
        return range(self.workers) if task.workers is None else task.workers


def _task(
    after: Sequence[int], workers: Sequence[int] | None = None, type: str = "", kind: str = "", **values: Any
) -> Task:
    """A task by its fields; snapshots of earlier versions call its type `kind`."""
    made = Compute if (type or kind) == "compute" else Transfer
    return made(after=tuple(after), workers=None if workers is None else tuple(workers), **values)


def _check(profile: Profile) -> None:
    if profile.workers < 1:
        raise InputError(f"profile {profile.name}: workers is {profile.workers}; it must be at least 1")
    if not profile.tasks:
        raise InputError(f"profile {profile.name}: it has no tasks; give at least one compute or transfer")
    last = profile.workers - 1
    sound = {id(None)}  # few lists of workers are those of many tasks
    for i, task in enumerate(profile.tasks):
        for p in task.after:
            if not 0 <= p < i:
                raise InputError(f"profile {profile.name}: task {i} ({task.name}) comes after {p}; list tasks in order")
        if id(task.workers) not in sound:
            if not task.workers or not all(0 <= w <= last for w in task.workers):
                raise InputError(f"profile {profile.name}: task {task.name} names a worker outside 0..{last}")
            sound.add(id(task.workers))
        amount = task.seconds if isinstance(task, Compute) else task.bytes
        if not 0 <= amount < float("inf"):
            raise InputError(f"profile {profile.name}: task {task.name} has size {amount}; it must be finite and >= 0")
    _check_one_at_a_time(profile)


def _check_one_at_a_time(profile: Profile) -> None:
    """Refuse two computations that one worker would run at once: each must come after the one before it.

    Workers in the same lists run the same tasks, so that one of them stands for all."""
    lists = {id(task.workers): task.workers for task in profile.tasks if isinstance(task, Compute)}
    number = {workers: k for k, workers in enumerate(dict.fromkeys(lists.values()))}
    of_list = {identity: number[workers] for identity, workers in lists.items()}
    tasks_of: list[list[int]] = [[] for _ in number]
    for i, task in enumerate(profile.tasks):
        if isinstance(task, Compute):
            tasks_of[of_list[id(task.workers)]].append(i)
    among: list[list[int]] = [[] for _ in range(profile.workers)]
    for workers, k in number.items():
        for w in range(profile.workers) if workers is None else workers:
            among[w].append(k)
    one: dict[tuple[int, ...], int] = {}
    for w, numbers in enumerate(among):
        one.setdefault(tuple(numbers), w)
    for numbers_, w in one.items():
        for before, i in pairwise(sorted(i for k in numbers_ for i in tasks_of[k])):
            if not _after(profile.tasks, i, before):
                both = f"{profile.tasks[before].name} and {profile.tasks[i].name}"
                raise InputError(f"profile {profile.name}: worker {w} would run {both} at once; order them")


def _after(tasks: Sequence[Task], i: int, before: int) -> bool:
    """Whether a task comes after an earlier one, however many others are between."""
    open_, seen = [i], {i}
    while open_:
        for p in tasks[open_.pop()].after:
            if p == before:
                return True
            if p > before and p not in seen:
                seen.add(p)
                open_.append(p)
    return False
