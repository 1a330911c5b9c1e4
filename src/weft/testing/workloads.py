"""Small random workloads on which policies are tried: one number, one workload."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from weft.model.cluster import Cluster
from weft.model.events import NodeDown, NodeUp, Withdrawn
from weft.model.job import Job
from weft.model.view import Fact
from weft.testing.toy import EVERYTHING, ToyWorld, toy_cluster, toy_job

__all__ = ["Workload", "workload"]


@dataclass(frozen=True)
class Workload:
    """A cluster, jobs that all fit on it, and what goes wrong."""

    number: int
    cluster: Cluster
    jobs: tuple[Job, ...]
    script: tuple[NodeDown | NodeUp | Withdrawn, ...]
    latency_s: float
    failure_rate: float

    def world(self, facts: frozenset[Fact] = frozenset(Fact), *, uneven: bool = True) -> ToyWorld:
        """A toy world about to begin it; what is not in `facts` is kept from policies as far as that can be done."""
        jobs = self.jobs if Fact.MODEL in facts else tuple(replace(job, model="") for job in self.jobs)
        return ToyWorld(
            self.cluster, jobs, latency_s=self.latency_s, failure_rate=self.failure_rate, seed=self.number,
            script=self.script, capabilities=replace(EVERYTHING, uneven=uneven), facts=facts,
        )  # fmt: skip


def workload(number: int, jobs: int = 24) -> Workload:
    """The workload of that number: sizes, lengths, memory, arrivals, latency, failures, lost servers, withdrawals."""
    rng = np.random.default_rng(number)
    cluster = toy_cluster(int(rng.integers(1, 4)), int(rng.integers(2, 5)), int(rng.integers(1, 6)))
    sizes = [n for n in (1, 2, 3, 4, 6, 8, 16) if _fits(n, len(cluster.servers) - 1, len(cluster.servers[0].gpus))]
    made: list[Job] = []
    for i in range(jobs):
        gpus = int(rng.choice(sizes))
        made.append(
            toy_job(
                f"job{i}",
                gpus,
                iterations=int(rng.integers(1, 40)),
                compute_s=float(rng.choice([0.25, 0.5, 1.0])),
                message_bytes=float(rng.choice([0.0, 1e8, 1e9])),
                submit_s=float(rng.integers(0, 60)),  # some at the same instant
                memory_bytes=float(rng.choice([1e9, 5e9, 12e9])),
                sizes=[n for n in sizes if n <= gpus] if rng.random() < 0.3 else (),
                checkpoint_every=int(rng.choice([1, 4])),
            )
        )
    lost = int(rng.integers(len(cluster.servers)))
    script = (NodeDown(20.0, lost, "lost"), NodeUp(45.0, lost), Withdrawn(30.0, made[int(rng.integers(jobs))].id))
    slow = number % 2 == 1
    return Workload(number, cluster, tuple(made), script, 2.0 if slow else 0.0, 0.2 if slow else 0.0)


def _fits(gpus: int, servers: int, each: int) -> bool:
    """True if a job fits, evenly too, on so many servers of `each` GPUs: also when one is lost."""
    return any(gpus % k == 0 and gpus // k <= each for k in range(1, servers + 1))
