"""Algorithms 1 to 3 of the Ada-SRSF paper in plain Python, from the paper and nothing of weft: a second opinion.

Everything is looked at anew at every moment. Readings where the paper leaves a choice are those of its page in docs.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass(eq=False)
class Job:
    """Section III-B; computing and message of one iteration."""

    arrival: float
    workers: int
    iterations: int
    forward: float
    backward: float
    message: float
    memory: float
    left: int = 0
    gpus: list[int] = field(default_factory=list)
    stage: list[str] = field(default_factory=list)  # per worker: forward, backward (each waits or runs), done
    sending: str = "no"  # no, ready, running
    bytes_left: float = 0.0
    end: float = math.nan

    def service(self) -> tuple[float, float]:
        """SRSF, with E = 0 (section IV-A, Job Priority); who came first goes first at a tie."""
        return ((self.forward + self.backward) * self.left * self.workers, self.arrival)


@dataclass(eq=False)
class Cluster:
    """Servers of equal size, and Eq. 5 with a = 0."""

    servers: int
    gpus_each: int
    memory: float
    b: float
    eta: float

    def server(self, gpu: int) -> int:
        return gpu // self.gpus_each

    def used(self, job: Job) -> set[int]:
        return {self.server(g) for g in job.gpus}

    def workload(self, job: Job) -> float:
        """L_J (Eqs. 7 and 8) of what is left."""
        send = self.b * job.message if len(self.used(job)) > 1 else 0.0
        return (job.forward + job.backward + send) * job.left * job.workers


Admit = Callable[[Job, "list[list[Job]]", Cluster], bool]


def at_most(n: int) -> Admit:
    """SRSF(n)."""
    return lambda job, others, cluster: max(len(there) for there in others) < n


def adadual(job: Job, others: list[list[Job]], cluster: Cluster) -> bool:
    """Algorithm 2; the strictest answer of all servers counts."""
    if max(len(there) for there in others) > 1:
        return False
    limit = cluster.b / (2.0 * (cluster.b + cluster.eta))
    return all(job.message / there[0].bytes_left < limit for there in others if there)


def lwf(kappa: float) -> Callable[[Job, list[int], list[float], Cluster], list[int]]:
    """Algorithm 1 (kappa infinite is LS)."""

    def choose(job: Job, fit: list[int], load: list[float], cluster: Cluster) -> list[int]:
        if job.workers <= kappa:
            return sorted(fit, key=lambda g: load[g])[: job.workers]
        each = cluster.gpus_each
        total = [sum(load[s * each : (s + 1) * each]) for s in range(cluster.servers)]
        servers = sorted(range(cluster.servers), key=lambda s: total[s])
        available = [g for s in servers for g in sorted(fit, key=lambda g: load[g]) if cluster.server(g) == s]
        return available[: job.workers]

    return choose


def first_fit(job: Job, fit: list[int], load: list[float], cluster: Cluster) -> list[int]:
    """FF."""
    return fit[: job.workers]


class AdaSrsf:
    """Algorithm 3, from event to event instead of second by second."""

    def __init__(self, cluster: Cluster, jobs: list[Job], place: Callable[..., list[int]], admit: Admit) -> None:
        self.cluster, self.jobs, self.place, self.admit = cluster, jobs, place, admit
        self.running: list[Job] = []
        n = cluster.servers * cluster.gpus_each
        self.busy: list[tuple[float, Job, int] | None] = [None] * n  # until when, whose, which worker
        self.now = 0.0

    def run(self) -> list[float]:
        """Completion times, by job."""
        queue: list[Job] = []
        todo = sorted(self.jobs, key=lambda j: j.arrival)
        for job in todo:
            job.left = job.iterations
        while todo or queue or self.running:
            self.advance(min(self.next_end(), todo[0].arrival if todo else math.inf))
            while todo and todo[0].arrival <= self.now:
                queue.append(todo.pop(0))
            self.compute()
            self.communicate()
            queue.sort(key=Job.service)
            queue = [job for job in queue if not self.placed(job)]
            self.compute()
        return [job.end for job in self.jobs]

    def senders(self, server: int | None = None) -> list[Job]:
        going = [j for j in self.running if j.sending == "running"]
        return going if server is None else [j for j in going if server in self.cluster.used(j)]

    def seconds_per_byte(self, job: Job) -> float:
        """Eq. 5: k is the largest number of transfers on a server of the job."""
        k = max(len(self.senders(s)) for s in self.cluster.used(job))
        return k * self.cluster.b + (k - 1) * self.cluster.eta

    def next_end(self) -> float:
        computing = [entry[0] for entry in self.busy if entry is not None]
        sending = [self.now + j.bytes_left * self.seconds_per_byte(j) for j in self.senders()]
        return min([*computing, *sending], default=math.inf)

    def advance(self, to: float) -> None:
        """Move the transfers on, then end what has ended."""
        paces = {j: self.seconds_per_byte(j) for j in self.senders()}
        ended = [j for j, pace in paces.items() if self.now + j.bytes_left * pace <= to * (1 + 1e-13)]
        for job, pace in paces.items():
            job.bytes_left -= (to - self.now) / pace
        self.now = to
        for gpu, entry in enumerate(self.busy):
            if entry is not None and entry[0] <= to * (1 + 1e-13):
                self.busy[gpu] = None
                _, job, worker = entry
                job.stage[worker] = "backward" if job.stage[worker] == "forward" else "done"
                if all(stage == "done" for stage in job.stage):
                    job.sending = "ready"
        for job in ended:
            self.iterated(job)
        for job in [j for j in self.running if j.sending == "ready" and len(self.cluster.used(j)) == 1]:
            self.iterated(job)

    def iterated(self, job: Job) -> None:
        job.left -= 1
        job.sending = "no"
        job.stage = ["forward"] * job.workers
        if job.left == 0:
            job.end = self.now
            self.running.remove(job)

    def placed(self, job: Job) -> bool:
        load, free = [0.0] * len(self.busy), [self.cluster.memory] * len(self.busy)
        for other in self.running:
            for gpu in other.gpus:
                load[gpu] += self.cluster.workload(other)
                free[gpu] -= other.memory
        fit = [g for g in range(len(self.busy)) if free[g] >= job.memory]
        if len(fit) < job.workers:
            return False
        job.gpus = self.place(job, fit, load, self.cluster)
        job.stage = ["forward"] * job.workers
        self.running.append(job)
        return True

    def compute(self) -> None:
        """Algorithm 3, lines 22 to 30."""
        for gpu, entry in enumerate(self.busy):
            waiting = [j for j in self.running if gpu in j.gpus and j.stage[j.gpus.index(gpu)] != "done"]
            if entry is None and waiting:
                job = min(waiting, key=Job.service)
                worker = job.gpus.index(gpu)
                time = job.forward if job.stage[worker] == "forward" else job.backward
                self.busy[gpu] = (self.now + time, job, worker)

    def communicate(self) -> None:
        """Algorithm 3, lines 14 to 21."""
        for job in sorted(self.running, key=Job.service):
            if job.sending == "ready":
                others = [self.senders(s) for s in self.cluster.used(job)]
                if self.admit(job, others, self.cluster):
                    job.sending, job.bytes_left = "running", job.message
