"""Description: what a user says about a job when submitting it: the command, and what policies want to know."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from functools import lru_cache
from typing import Any

from weft.errors import InputError
from weft.model.cluster import Cluster
from weft.model.job import Job
from weft.model.profile import Phase, Profile
from weft.model.view import Fact
from weft.policies.planners.base import Planner

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_UNKNOWN_S = 1.0  # an iteration of a job that says nothing about it; no policy that needs to know is asked
_OPTION = {Fact.ITERATIONS_LEFT: "--iterations", Fact.MODEL: "--model", Fact.PROFILE: "--model or --iteration-s"}

ProfileOf = Callable[[str, int], Profile]


@lru_cache(maxsize=1)
def _known() -> dict[str, Any]:
    """Every field and its type."""
    return {f.name: f.type for f in fields(Description)}


@dataclass(frozen=True)
class Description:
    """A job as submitted.

    The command is started once, on all its GPUs, or (`per_rank`) once for each. `restarts` is how often it is started
    again after it failed by itself; preemptions do not count. `grace_s` is the time between SIGTERM and SIGKILL.
    """

    name: str
    argv: tuple[str, ...]
    gpus: int = 1
    min_gpus: int = 0  # 0: same as gpus
    max_gpus: int = 0
    per_node: int = 0  # GPUs that it must have on each node; 0: as it comes
    iterations: int = 0  # 0: not known
    model: str = ""
    iteration_s: float = 0.0  # alone on its GPUs, for jobs without a model; 0: not known
    checkpoint_every: int = 1
    resumes: bool = False  # it goes on where it was when it is stopped and started again
    restarts: int = 0
    grace_s: float = 5.0
    per_rank: bool = False
    user: str = ""
    cwd: str = "/"
    env: dict[str, str] = field(default_factory=dict)

    @staticmethod
    def from_json(value: dict[str, Any]) -> Description:
        """Checked: what it is made of may have come from anywhere."""
        known = _known()
        for key, given in value.items():
            if key not in known:
                raise InputError(f"submit: there is no field {key}; fields are {', '.join(known)}")
            if not _is(known[key], given):
                raise InputError(f"submit: {key} is {given!r:.60}; it must be {known[key]}")
        if not {"name", "argv"} <= value.keys():
            raise InputError("submit: name or argv is missing; give a name and a command")
        made = Description(**{**value, "argv": tuple(value["argv"])})
        made._check()
        return made

    def to_json(self) -> dict[str, Any]:
        """A JSON-able value that `from_json` takes."""
        return {**vars(self), "argv": list(self.argv), "env": dict(self.env)}

    def _check(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise InputError(
                f"submit: {self.name!r:.80} cannot name a job; use letters, digits, '.', '_' and '-', at most 64"
            )
        if not self.argv or not self.argv[0] or any("\0" in part for part in self.argv):
            raise InputError("submit: there is no command; write it after --")
        least_of = {
            "gpus": 1,
            "min_gpus": 0,
            "max_gpus": 0,
            "per_node": 0,
            "iterations": 0,
            "checkpoint_every": 1,
            "restarts": 0,
        }
        for name, least in least_of.items():
            if not least <= getattr(self, name) < 2**53:
                raise InputError(f"submit: {name} is {getattr(self, name)}; it must be at least {least}")
        for name in ("iteration_s", "grace_s"):
            if not 0 <= getattr(self, name) < 1e9:
                raise InputError(f"submit: {name} is {getattr(self, name)}; it must be 0 or more seconds")

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


def _is(kind: Any, value: Any) -> bool:
    """Whether a JSON value is of a field's type."""
    match kind:
        case "int":
            return isinstance(value, int) and not isinstance(value, bool)
        case "float":
            return isinstance(value, int | float) and not isinstance(value, bool)
        case "bool":
            return isinstance(value, bool)
        case "str":
            return isinstance(value, str)
        case "tuple[str, ...]":
            return isinstance(value, list | tuple) and all(isinstance(part, str) for part in value)
        case _:
            return isinstance(value, dict) and all(isinstance(k, str) and isinstance(v, str) for k, v in value.items())
