"""Description: what a user says about a job when submitting it: the command, and what policies want to know."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from weft.errors import InputError
from weft.model.cluster import Cluster
from weft.model.job import Job
from weft.model.profile import Phase, Profile
from weft.model.view import Fact
from weft.scenario.problems import explain, problem

if TYPE_CHECKING:
    from weft.policies.planners.base import Planner

_UNKNOWN_S = 1.0  # an iteration of a job that says nothing about it; no policy that needs to know is asked
_OPTION = {Fact.ITERATIONS_LEFT: "--iterations", Fact.MODEL: "--model", Fact.PROFILE: "--model or --iteration-s"}

ProfileOf = Callable[[str, int], Profile]
Count = Annotated[int, Field(ge=0, lt=2**53)]
AtLeastOne = Annotated[int, Field(ge=1, lt=2**53)]
Seconds = Annotated[float, Field(ge=0, lt=1e9, allow_inf_nan=False)]


class Description(BaseModel):
    """A job as submitted.

    The command is started once, on all its GPUs, or (`per_rank`) once for each. `restarts` is how often it is started
    again after it failed by itself; preemptions do not count. `grace_s` is the time between SIGTERM and SIGKILL.
    """

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid")

    name: str
    argv: Annotated[tuple[str, ...], Field(strict=False)]  # JSON has lists
    gpus: AtLeastOne = 1
    min_gpus: Count = 0  # 0: same as gpus
    max_gpus: Count = 0
    per_node: Count = 0  # GPUs that it must have on each node; 0: as it comes
    iterations: Count = 0  # 0: not known
    model: str = ""
    iteration_s: Seconds = 0.0  # alone on its GPUs, for jobs without a model; 0: not known
    checkpoint_every: AtLeastOne = 1
    resumes: bool = False  # it goes on where it was when it is stopped and started again
    restarts: Count = 0
    grace_s: Seconds = 5.0
    per_rank: bool = False
    user: str = ""
    cwd: str = "/"
    env: dict[str, str] = {}

    @field_validator("name")
    @classmethod
    def _can_name(cls, name: str) -> str:
        if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", name):
            raise problem(f"is {name!r:.80}; use letters, digits, '.', '_' and '-', at most 64")
        return name

    @field_validator("argv")
    @classmethod
    def _can_be_run(cls, argv: tuple[str, ...]) -> tuple[str, ...]:
        if not argv or not argv[0] or any("\0" in part for part in argv):
            raise problem("is no command; write one after --")
        return argv

    @staticmethod
    def from_json(value: dict[str, Any]) -> Description:
        """Checked: what it is made of may have come from anywhere."""
        try:
            return Description.model_validate(value)
        except ValidationError as error:
            raise InputError(explain(error, Description, "submit")) from None

    @staticmethod
    def known(value: dict[str, Any]) -> Description:
        """One that was checked before it was written down."""
        return Description.model_construct(**{**value, "argv": tuple(value["argv"])})

    def to_json(self) -> dict[str, Any]:
        """A JSON-able value that `from_json` takes."""
        return self.model_dump(mode="json")

    @property
    def lacks(self) -> frozenset[Fact]:
        """What it does not tell."""
        known = {
            Fact.ITERATIONS_LEFT: self.iterations > 0,
            Fact.MODEL: bool(self.model),
            Fact.PROFILE: bool(self.model) or self.iteration_s > 0,
        }
        return frozenset(fact for fact, there in known.items() if not there)

    def refuse(self, cluster: Cluster, needs: frozenset[Fact], planner: Planner) -> None:
        """Raise if this cluster can never run it, or if the stack must know more about it."""
        missing = [fact for fact in Fact if fact in needs & self.lacks]
        if missing:
            raise InputError(
                f"submit: {planner.name} must know the job's {missing[0].value}; give {_OPTION[missing[0]]}, or run "
                "weft serve with a stack that needs less"
            )
        if words := planner.refusal(self.per_node):
            raise InputError(f"submit: {words}")
        each = self.per_node
        if each and (self.gpus % each or sum(len(s.gpus) >= each for s in cluster.servers) < self.gpus // each):
            raise InputError(
                f"submit: {self.name} wants {self.gpus} GPUs, {each} on each server, and there are no such servers; "
                "ask for another number"
            )
        if self.gpus > cluster.n_gpus:
            there = cluster.n_gpus
            raise InputError(f"submit: {self.name} wants {self.gpus} GPUs, the cluster has {there}; ask for fewer")

    def job(self, submit_s: float, profile_of: ProfileOf) -> Job:
        """The job as policies see it."""
        if self.model:
            profile = profile_of(self.model, self.gpus)
        else:
            profile = _plain(self.iteration_s or _UNKNOWN_S, self.gpus)
        return Job(
            self.name, submit_s, self.gpus, self.iterations or 1, {self.gpus: profile}, self.model, self.min_gpus,
            self.max_gpus, user=self.user, checkpoint_every=self.checkpoint_every,
            per_server=self.per_node, known=not self.lacks & {Fact.ITERATIONS_LEFT, Fact.PROFILE},
            resumes=self.resumes,
        )  # fmt: skip


@lru_cache(maxsize=1024)
def _plain(iteration_s: float, gpus: int) -> Profile:
    """Iterations of which only the length is known; one object for all jobs alike, since snapshots keep each once."""
    return Profile.from_phases("unknown", [Phase(iteration_s)], gpus)


def unread(model: str, gpus: int) -> Profile:
    """A stand-in for a profile that does not matter."""
    return _plain(_UNKNOWN_S, gpus)
