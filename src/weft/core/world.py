"""World: what carries decisions out and reports events: a simulation, local processes, Slurm, ..."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from weft.core.capabilities import Capabilities
from weft.model.cluster import Cluster
from weft.model.events import Event
from weft.model.flows import Traffic
from weft.model.job import Job
from weft.model.plan import Decision, Placement
from weft.model.routes import Flow
from weft.model.view import Estimate, Fact, Spread
from weft.network.estimates import Estimates
from weft.policies.pace.base import Pace
from weft.policies.route.base import Route


class World(ABC):
    """A cluster, simulated or real. The core asks it questions; the loop lets it act and listens.

    Decisions are requests. A start is answered by Started or Failed, a stop by Stopped - or by Finished, if the job
    was done before the stop reached it. Until then the job holds its GPUs. Events come in the order in which they
    happened, each once.
    """

    name: str  # one word for messages: "simulated", "slurm"
    cluster: Cluster
    capabilities: Capabilities
    facts: frozenset[Fact]  # what it can tell about jobs; a stack that needs more is refused

    @property
    def estimates(self) -> Estimates:
        """How fast jobs run alone; a world that cannot say is taken to use rings and to share links max-min."""
        return Estimates(self.cluster)

    @property
    def restart_s(self) -> float | None:
        """What stopping a job and starting it again costs; None if it cannot say."""
        return None

    def traffic(self, job: Job, gpus: Placement) -> Traffic | None:
        """What the job would send over each link in one iteration on these GPUs, alone, if the world knows it (from
        its routes, or from port counters); None: as its estimates say."""
        return None

    def flows(self, job: Job, gpus: Placement) -> tuple[Flow, ...]:
        """What the job would send between NICs on these GPUs, for the stack's route policy."""
        raise NotImplementedError(f"the {self.name} world lets a stack choose paths and does not name the flows")

    def carried(self) -> npt.NDArray[np.float64]:
        """Bytes that each link has carried so far, for the stack's route policy."""
        raise NotImplementedError(f"the {self.name} world lets a stack choose paths and does not count bytes")

    @abstractmethod
    def now(self) -> float:
        """Seconds since this world began."""

    @abstractmethod
    def iterations_done(self, job_id: str) -> int:
        """Full iterations a running job has done up to now, those of earlier assignments included."""

    @abstractmethod
    def estimate(self, job: Job, workers: int, spread: Spread) -> Estimate:
        """Speed of a job alone on the network, at some size and spread."""

    def set_route(self, route: Route) -> None:  # noqa: B027 - most leave paths to the network
        """Called once, before `set_pace`: this policy chooses paths. What cannot go with it is refused in words."""

    @abstractmethod
    def set_pace(self, pace: Pace) -> None:
        """Called once, before anything else: this rule decides which transfers run.

        The world asks it for its admission rule with its own constants: `pace.admission(b, eta)`.
        """

    @abstractmethod
    def apply(self, decisions: Sequence[Decision]) -> list[Event]:
        """Carry out what was decided (Hold needs nothing done); returns what is confirmed at once.

        What is not confirmed here arrives later from `next_events`. A world that stops a job in no time says Stopped
        here, and the loop plans again at the same instant.
        """

    @abstractmethod
    def next_events(self, until_s: float | None) -> list[Event]:
        """Go on until something happens, and return all events of that instant; [] when `until_s` comes first.

        With `until_s` None, [] means that nothing can happen any more without a decision.
        """


class Around(World):
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
        return self._world.estimates

    def flows(self, job: Job, gpus: Placement) -> tuple[Flow, ...]:
        return self._world.flows(job, gpus)

    def carried(self) -> npt.NDArray[np.float64]:
        return self._world.carried()

    def set_route(self, route: Route) -> None:
        self._world.set_route(route)

    def set_pace(self, pace: Pace) -> None:
        self._world.set_pace(pace)
