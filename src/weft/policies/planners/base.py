"""Planner: order and place at once. `order + place` is one planner (core/layered/); Themis and Pollux are others."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING

from weft.errors import StackError
from weft.model.cluster import Cluster
from weft.model.job import Job
from weft.model.plan import Candidate, State
from weft.model.policy import Policy, turn_of_0_1
from weft.model.profile import Profile
from weft.model.view import ClusterView, Estimate, JobView, Spread

if TYPE_CHECKING:
    from weft.policies.order.limited import Limits


class Planner(Policy):
    """Whole-cluster plans, best first. Stateless itself: its memory is the `state` it is given and returns.

    A plan is a wish, carried out as far as it can be: a job that is to move or change size is stopped now, and
    started when the planner proposes it again after the stop is confirmed; a job whose GPUs others are still leaving
    waits until they have left. STARTING and STOPPING jobs are left alone whatever the plan says about them.
    """

    shares_gpus: bool = False  # may put several jobs on one GPU
    names_gpus: bool = False  # which GPU of a server it is matters (sharing implies it)
    uneven: bool = True  # may put more workers of a job on one of its servers than on another
    keeps_shapes: bool = False  # gives a job as many workers on each server as it must have; else no such job is taken
    unequal: bool = False  # gives each job GPUs of one type, the one that it asks for if it does; else it is refused
    dedicated: bool = False  # wants a whole cluster for each job (a copy, where the world can make one)
    resizes: bool = False  # may run a job on another number of GPUs than it asked for
    shortest_stay_s: float = math.inf  # how soon a job may lose its GPUs to another
    idle_without_jobs: bool = False  # while no job waits, it proposes what is: it need not be asked

    def __init_subclass__(cls) -> None:
        turn_of_0_1(cls)

    @abstractmethod
    def propose(self, view: ClusterView, state: State, n: int) -> list[Candidate]:
        """Up to n whole-cluster candidates, best first; at least one."""

    def adapted(self, job: Job, cluster: Cluster, alone: Callable[[Profile, str, Spread], Estimate]) -> Job:
        """The job as it runs under this planner: with another batch at each size, if it adapts batches.

        `alone(profile, model, spread)` is the speed of an iteration alone on the network. Only a world that makes up
        its jobs' iterations asks.
        """
        return job

    def cap_preemptions(self, gpu_s: float, window_s: float) -> None:
        """Limit the GPU seconds that the jobs of one user take from running jobs within a window of time.

        A job's length is what its user says it is, and a false one would displace others. A planner that does not use
        lengths to decide who gives way ignores the limit.
        """

    def limited(self, limits: Limits) -> Planner:
        """The planner within limits of users and queues; raises an error if it has none."""
        raise StackError(
            f"limits belong to an order, and {self.name} decides order and place at once; leave one of them out"
        )

    def notes(self, state: State) -> tuple[str, ...]:
        """What the results of a run should say about it, from its memory at the end."""
        return ()

    def refuse_priorities(self) -> None:
        """Raise an error with the reason if this planner does not put jobs of higher priority first. Order + place
        does."""
        raise StackError(f"--priority: {self.name} weighs jobs by itself; choose a stack that has an order")

    def refusal(self, per_server: int) -> str:
        """Why this planner cannot give a job that many workers on each of its servers; empty if it can."""
        if not per_server or self.keeps_shapes:
            return ""
        return (
            f"it wants {per_server} GPUs on each node, which {self.name} cannot promise; choose a stack with an order"
        )

    def turn(self, view: ClusterView, job: JobView) -> tuple[float, float]:
        """Key (p0, p1) for shared GPUs: smallest p0 + p1 x iterations left first."""
        return (job.job.submit_s, 0.0)
