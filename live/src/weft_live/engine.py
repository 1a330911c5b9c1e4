"""Engines: where the jobs of a server run. A new one is a class and an entry point, as ours are:

[project.entry-points."weft.worlds"]
mine = "my_package.my_engine:MyEngine"
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, Protocol

from weft.errors import InputError
from weft.model.cluster import Cluster
from weft.model.view import Fact
from weft.policies.planners.base import Planner
from weft_live.clock import Clock
from weft_live.server.ledger import Ledger
from weft_live.server.profiles import Profiles
from weft_live.waiting import LiveWorld

Say = Callable[[str], None]


@dataclass(frozen=True)
class Site:
    """What a server gives to the engine that makes its world."""

    cluster: Cluster
    folder: Path  # the world's own; in a dry run, one that is removed afterwards
    clock: Clock
    ledger: Ledger
    needs: frozenset[Fact]  # what the stack must know about a job
    planner: Planner  # what it can promise
    profiles: Profiles
    dry_run: bool
    say: Say
    why: Callable[[str], str]  # why a job waits


class Engine(Protocol):
    """What `weft serve` knows about a kind of cluster."""

    @classmethod
    def from_options(cls, options: Mapping[str, Any]) -> Engine:
        """An engine made from the options of `weft serve`; it takes those that it knows."""
        ...

    @property
    def name(self) -> str:
        """One word."""
        ...

    @property
    def submits(self) -> str:
        """Empty if jobs come by `weft submit`; else how they come, for the message to a user who tries it."""
        ...

    @property
    def profile_folders(self) -> Sequence[Path] | None:
        """Where profile files may lie; None: anywhere, since one user owns all."""
        ...

    def cluster(self, seed: int, say: Say) -> Cluster:
        """The cluster as the engine itself describes it."""
        ...

    def refuse(self, cluster: Cluster, folder: Path) -> None:
        """Raise an error with the reason if this cluster or this folder of a run cannot be served."""
        ...

    def layers(self, layers: tuple[str | None, ...], default: str, say: Say) -> tuple[str | None, ...]:
        """The layers of a stack as the engine can carry them out, where the user left the choice."""
        ...

    def jobs_folder(self, folder: Path) -> Path:
        """Where the folders of attempts lie, for a run in this folder."""
        ...

    def open(self, site: Site) -> LiveWorld[Any]:
        """The world. In a dry run it carries nothing out."""
        ...


def names() -> list[str]:
    """The engines that there are."""
    return sorted({point.name for point in entry_points(group="weft.worlds")})


def refuse_own(world: str, options: Mapping[str, Any]) -> None:
    """Raise an error if `weft serve` was given an --option: a world without options of its own would ignore it."""
    if own := options.get("own"):
        raise InputError(f"--option {next(iter(own))}: the {world} world has no options of its own")


def find(name: str, options: Mapping[str, Any]) -> Engine:
    """The engine of that name; it takes the options that it knows. `own` are those that only an installed world has."""
    for point in entry_points(group="weft.worlds"):
        if point.name == name:
            try:
                engine = point.load()
            except Exception as error:  # importing somebody else's module may fail in any way
                raise InputError(
                    f"--world {name}: its package names {point.value}, which cannot be loaded "
                    f"({type(error).__name__}: {error}); mend or remove it"
                ) from error
            found: Engine = engine.from_options(options)
            return found
    raise InputError(f"--world {name}: there is no such world; there are {', '.join(names())}")
