"""World: what carries decisions out and reports events: a simulation, local processes, Slurm, ..."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from weft.core.capabilities import Capabilities
from weft.model.cluster import Cluster
from weft.model.events import Event
from weft.model.flows import Traffic
from weft.model.job import Job
from weft.model.plan import Decision, Placement
from weft.model.view import Estimate, Fact, Spread
from weft.network.estimates import Estimates
from weft.policies.pace.base import Pace


class World(Protocol):
    """A cluster, simulated or real. The core asks it questions; the loop lets it act and listens.

    Decisions are requests. A start is answered by Started or Failed, a stop by Stopped - or by Finished, if the job
    was done before the stop reached it. Until then the job holds its GPUs. Events come in the order in which they
    happened, each once.
    """

    @property
    def name(self) -> str:
        """One word for messages: "simulated", "slurm"."""
        ...

    @property
    def cluster(self) -> Cluster: ...

    @property
    def capabilities(self) -> Capabilities: ...

    @property
    def facts(self) -> frozenset[Fact]:
        """What it can tell about jobs; a stack that needs more is refused."""
        ...

    def now(self) -> float:
        """Seconds since this world began."""
        ...

    def iterations_done(self, job_id: str) -> int:
        """Full iterations a running job has done up to now, those of earlier assignments included."""
        ...

    def estimate(self, job: Job, workers: int, spread: Spread) -> Estimate:
        """Speed of a job alone on the network, at some size and spread."""
        ...

    def set_pace(self, pace: Pace) -> None:
        """Called once, before anything else: this rule decides which transfers run.

        The world asks it for its admission rule with its own constants: `pace.admission(b, eta)`.
        """
        ...

    def apply(self, decisions: Sequence[Decision]) -> list[Event]:
        """Carry out what was decided (Hold needs nothing done); returns what is confirmed at once.

        What is not confirmed here arrives later from `next_events`. A world that stops a job in no time says Stopped
        here, and the loop plans again at the same instant.
        """
        ...

    def next_events(self, until_s: float | None) -> list[Event]:
        """Go on until something happens, and return all events of that instant; [] when `until_s` comes first.

        With `until_s` None, [] means that nothing can happen any more without a decision.
        """
        ...


@runtime_checkable
class KnowsTraffic(Protocol):
    """A world that can say which links a job's traffic takes, and when: from its routes, or from port counters."""

    def traffic(self, job: Job, gpus: Placement) -> Traffic:
        """What the job would send over each link in one iteration on these GPUs, alone."""
        ...


@runtime_checkable
class KnowsNetwork(Protocol):
    """A world that can say how transfers are carried out and share links."""

    @property
    def estimates(self) -> Estimates:
        """How fast jobs run alone; a world that cannot say is taken to use rings and to share links max-min."""
        ...


@runtime_checkable
class KnowsRestart(Protocol):
    """A world that can say what stopping a job and starting it again costs."""

    @property
    def restart_s(self) -> float: ...


def estimates_of(world: World) -> Estimates:
    """What a world says about its network; rings and max-min sharing where it says nothing."""
    return world.estimates if isinstance(world, KnowsNetwork) else Estimates(world.cluster)


class Around:
    """Passes everything on to another world; the base of a world that stands between that one and the core."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.name, self.cluster = world.name, world.cluster
        self.capabilities, self.facts = world.capabilities, world.facts

    def now(self) -> float:
        return self._world.now()

    def iterations_done(self, job_id: str) -> int:
        return self._world.iterations_done(job_id)

    def estimate(self, job: Job, workers: int, spread: Spread) -> Estimate:
        return self._world.estimate(job, workers, spread)

    @property
    def estimates(self) -> Estimates:
        return estimates_of(self._world)

    def set_pace(self, pace: Pace) -> None:
        self._world.set_pace(pace)
