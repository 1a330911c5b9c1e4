"""The one checker: impossible decisions are refused before any world sees them, in the same words for every world."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable

from weft.core.capabilities import Capabilities
from weft.core.table import Table, memory_of
from weft.errors import DecisionError
from weft.model.job import Job
from weft.model.plan import Decision, Gate, Hold, Placement, Routes, SetGate, SetRoutes, Start, Stop
from weft.model.view import JobStatus, JobView

_NEARLY = 1e-9  # by which shares may miss their sum


def check(decisions: Iterable[Decision], table: Table, can: Capabilities, shared: bool) -> None:
    """Raise DecisionError at the first decision that cannot be carried out.

    `shared` says whether the stack may put several jobs on a GPU. Nothing is changed, whatever the outcome.
    """
    checker = _Checker(table, can, shared and can.gpu_sharing)
    for decision in decisions:
        match decision:
            case Start():
                checker.start(decision)
            case Stop():
                checker.stop(decision)
            case SetGate():
                checker.set_gate(decision)
            case SetRoutes():
                checker.set_routes(decision)
            case Hold():
                checker.hold(decision)


class _Checker:
    def __init__(self, table: Table, can: Capabilities, shared: bool) -> None:
        self.table = table
        self.can = can
        self.shared = shared
        self.decided: set[str] = set()  # jobs already started or stopped by this batch
        self.given: dict[int, float] = {}  # memory that this batch has given to jobs, by GPU

    def start(self, start: Start) -> None:
        what = f"start of job {start.job}"
        job = self._job(start.job, what)
        if job.status is not JobStatus.WAITING:
            raise DecisionError(f"{what}: it is {job.status.value}, not waiting")
        self._once(start.job, what)
        self._size(job.job, start.gpus, what)
        memory = memory_of(job.job, len(start.gpus))
        if not self._plainly_free(start.gpus, memory):
            for gpu in start.gpus:
                self._gpu(gpu, memory, what)
        if not self.table.cluster.alike:
            self._type(job.job, start.gpus, what)
        each = set(self.table.cluster.counts(start.gpus).values()) if job.job.per_server or not self.can.uneven else {0}
        if job.job.per_server and each != {job.job.per_server}:
            raise DecisionError(f"{what}: it must have {job.job.per_server} workers on each of its servers")
        if not self.can.uneven and len(each) > 1:
            raise DecisionError(f"{what}: its servers get different numbers of workers, which this world cannot do")
        if start.gate is not None:
            self._gate(job.job, len(start.gpus), start.gate, what)
        if start.routes is not None:
            self._routes(start.routes, what)
        if not all(map(math.isfinite, start.turn)):
            raise DecisionError(f"{what}: its turn {start.turn} is not finite")

    def stop(self, stop: Stop) -> None:
        what = f"stop of job {stop.job}"
        job = self._job(stop.job, what)
        if job.status is not JobStatus.RUNNING:
            raise DecisionError(f"{what}: it is {job.status.value}, not running")
        self._once(stop.job, what)

    def set_gate(self, gate: SetGate) -> None:
        what = f"gate of job {gate.job}"
        job = self._job(gate.job, what)
        if job.status is not JobStatus.RUNNING or gate.job in self.decided:
            raise DecisionError(f"{what}: it is not running")
        if gate.gate is not None:
            self._gate(job.job, len(job.gpus), gate.gate, what)

    def set_routes(self, chosen: SetRoutes) -> None:
        what = f"routes of job {chosen.job}"
        job = self._job(chosen.job, what)
        if job.status not in (JobStatus.RUNNING, JobStatus.STARTING) or chosen.job in self.decided:
            raise DecisionError(f"{what}: it is not running")
        self._routes(chosen.routes, what)

    def hold(self, hold: Hold) -> None:
        self._job(hold.job, f"hold of job {hold.job}")

    def _job(self, job_id: str, what: str) -> JobView:
        job = self.table.jobs.get(job_id)
        if job is None:
            why = f"it has {self.table.ended[job_id].value}" if job_id in self.table.ended else "there is no such job"
            raise DecisionError(f"{what}: {why}")
        return job

    def _once(self, job_id: str, what: str) -> None:
        if job_id in self.decided:
            raise DecisionError(f"{what}: this cycle already starts or stops it")
        self.decided.add(job_id)

    def _size(self, job: Job, gpus: Placement, what: str) -> None:
        n = len(gpus)
        if n != job.gpus and not (self.can.resizing and n in job.sizes):
            wants = " or ".join(map(str, job.sizes)) if self.can.resizing else str(job.gpus)
            raise DecisionError(f"{what}: it has {n} workers and wants {wants}")
        if len(set(gpus)) != n:
            twice = next(g for g, count in Counter(gpus).items() if count > 1)
            raise DecisionError(f"{what}: GPU {twice} is named twice in its placement")

    def _type(self, job: Job, gpus: Placement, what: str) -> None:
        cluster = self.table.cluster
        types = {cluster.type_of_gpu(gpu) for gpu in gpus}
        if len(types) > 1 or (job.gpu and types != {job.gpu}):
            wants = job.gpu or "GPUs of one type"
            raise DecisionError(f"{what}: it wants {wants} and is given {' and '.join(sorted(types))}")

    def _plainly_free(self, gpus: Placement, memory: float) -> bool:
        """Whether all these GPUs are empty: the common case, checked at once. If not, `_gpu` must look at each."""
        table = self.table
        if (
            self.shared
            or table.gpus.down
            or memory > table.cluster.gpu_memory_bytes
            or not table.cluster.alike
            or not 0 <= min(gpus) <= max(gpus) < table.cluster.n_gpus
            or not self.given.keys().isdisjoint(gpus)
            or any(map(table.gpus.names, gpus))
        ):
            return False
        self.given.update(dict.fromkeys(gpus, memory))
        return True

    def _gpu(self, gpu: int, memory: float, what: str) -> None:
        table = self.table
        if not 0 <= gpu < table.cluster.n_gpus:
            raise DecisionError(f"{what}: there is no GPU {gpu}; ids go from 0 to {table.cluster.n_gpus - 1}")
        server = int(table.cluster.server_of_gpu[gpu])
        if server in table.gpus.down:
            raise DecisionError(f"{what}: GPU {gpu} is on server {table.cluster.servers[server].name}, which is down")
        if not self.shared:
            there = table.gpus.names(gpu)
            if there or gpu in self.given:
                holder = f"job {there[0]} has it" if there else "this cycle gives it to another job"
                raise DecisionError(f"{what}: GPU {gpu} is given twice; {holder}")
        left = table.gpus.memory_left(gpu) - self.given.get(gpu, 0.0)
        if memory > left:
            raise DecisionError(f"{what}: it needs {memory:.0f} bytes on GPU {gpu}, which has {left:.0f} left")
        self.given[gpu] = self.given.get(gpu, 0.0) + memory

    def _gate(self, job: Job, workers: int, gate: Gate, what: str) -> None:
        tasks = len((job.profiles.get(workers) or job.profile).tasks)
        if not self.can.shifts:
            raise DecisionError(f"{what}: this world cannot gate a job")
        if not 0 <= gate.task < tasks:
            raise DecisionError(f"{what}: there is no task {gate.task}; ids go from 0 to {tasks - 1}")
        if not (math.isfinite(gate.epoch_s) and 0 <= gate.period_s < math.inf and 0 <= gate.tolerance < math.inf):
            raise DecisionError(f"{what}: epoch, period and tolerance must be finite, the last two not negative")

    def _routes(self, routes: Routes, what: str) -> None:
        if not self.can.routes:
            raise DecisionError(f"{what}: this world does not let a stack choose paths")
        for parts in routes:
            shares = [share for _, share in parts]
            if not all(0.0 < share <= 1.0 for share in shares) or abs(sum(shares) - 1.0) > _NEARLY:
                raise DecisionError(f"{what}: the shares of a flow are {shares}; give shares above 0 that sum to 1")
            if len({number for number, _ in parts}) < len(parts):
                raise DecisionError(f"{what}: a path is named twice for one flow; add its shares")
