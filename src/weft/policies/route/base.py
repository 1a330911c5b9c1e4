"""Route: over which links? Also `ecmp`, under which a hash of each flow chooses, and nobody is asked."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field

from weft.model.plan import Parts, Routes, State
from weft.model.policy import Policy, setting
from weft.model.reason import Why
from weft.model.routes import RouteView


@dataclass(frozen=True)
class Routing:
    """New routes by job, each job's in the order of its `flows`, the policy's next state, and why by job.

    A job that is not named keeps its routes; one that starts and is not named gets ECMP's. The reason of a job that
    starts is written behind the planner's. `wake_s` asks for another call then, though nothing else happens.
    """

    routes: Mapping[str, Routes]
    state: State
    reasons: Mapping[str, Why] = field(default_factory=dict)
    wake_s: float | None = None


class Route(Policy):
    """One answer to "over which links". Stateless itself: its memory is the `state` it is given and returns.

    It is asked when jobs start, and after they have come or gone."""

    steers: bool = True  # chooses paths: the world must be able to carry that out
    splits: bool = False  # may send parts of one flow over several paths at once
    moves: bool = False  # may change the paths of jobs that run

    @abstractmethod
    def route(self, view: RouteView, state: State) -> Routing:
        """The routes of jobs that start, and new ones of jobs that run."""


def whole(number: int) -> Parts:
    """All of a flow on one path."""
    return ((number, 1.0),)


def together(numbers: list[int]) -> Parts:
    """A flow in equal parts on these paths; a path that is named twice gets two parts."""
    return tuple((number, numbers.count(number) / len(numbers)) for number in sorted(set(numbers)))


@dataclass
class Ecmp(Route):
    """`ecmp`: a hash of each flow chooses its path. `ecmp:8` splits a flow over eight queue pairs in equal parts, each
    hashed on its own."""

    name = "ecmp"
    pairs: int = setting(1, within="[1, 1024]", whole=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.steers = self.splits = self.pairs > 1

    def route(self, view: RouteView, state: State) -> Routing:
        """The paths that the hash chooses; they stay."""
        new = [job for job in view.jobs.values() if job.id not in view.routes]
        lanes = range(self.pairs)
        routes = {
            job.id: tuple(together([view.hashed(flow, lane) for lane in lanes]) for flow in job.flows) for job in new
        }
        return Routing(routes, state)
