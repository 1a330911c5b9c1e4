"""SlurmEngine: a Slurm cluster, as `weft serve --world slurm` finds it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from weft.live.engine import Site
from weft.live.slurm.commands import Slurm, Unreachable
from weft.live.slurm.dry import DrySlurmWorld
from weft.live.slurm.intake import Intake
from weft.live.slurm.notes import refuse_folder, refuse_giving, refuse_hook
from weft.live.slurm.priority import read_standing
from weft.live.slurm.topology import gpu_nodes, read_cluster, refuse_cluster
from weft.live.slurm.world import SlurmWorld
from weft.model.cluster import Cluster

__all__ = ["SlurmEngine"]


@dataclass(frozen=True)
class SlurmEngine:
    """Jobs come by sbatch. `shared` is a folder that the nodes see, for progress and shifts; None: the run's own."""

    slurm: Slurm
    partitions: frozenset[str] = frozenset()  # empty: all
    poll_s: float = 0.5
    shared: Path | None = None
    profile_folders: list[Path] = field(default_factory=list)
    take: bool = False  # take over from a server of another folder
    priority: str = "off"  # what of Slurm's priorities counts in the order (priority.py)

    name = "slurm"
    submits = "jobs of a Slurm cluster come by sbatch; weft serve takes them from its queue"

    @classmethod
    def from_options(cls, options: Mapping[str, Any]) -> SlurmEngine:
        """From the options of `weft serve`."""
        return cls(
            Slurm(), options["partitions"], options["poll_s"], options["shared"], list(options["profiles"]),
            options["take"], options["priority"],
        )  # fmt: skip

    def cluster(self, seed: int, say: Callable[[str], None]) -> Cluster:
        """Slurm's GPU nodes and switches."""
        return read_cluster(self.slurm, self.partitions, seed=seed, say=say)

    def refuse(self, cluster: Cluster, folder: Path) -> None:
        """Raise if the nodes are others, or if what must be installed is not."""
        refuse_folder(self.jobs_folder(folder).parent)
        refuse_cluster(cluster, gpu_nodes(self.slurm, self.partitions))
        with suppress(Unreachable):
            refuse_hook(self.slurm.config())
            read_standing(self.slurm, self.priority)

    def layers(
        self, layers: tuple[str | None, ...], default: str, say: Callable[[str], None]
    ) -> tuple[str | None, ...]:
        """Slurm gives every node of a job the same number of GPUs: the place of a stack keeps to that unless one is
        named."""
        from weft.stacks import describe, resolve

        stack, order, place, interleave, pace = layers
        if place is not None:
            return layers
        stack = stack if any(layers) else default
        planner = resolve(stack, order, None, interleave, pace).planner
        own = describe(stack or default).get("place")
        if own is None or not planner.uneven or planner.shares_gpus:
            return layers  # if Slurm cannot do it, it is refused in words
        say(f"place even:{own} instead of {own}: Slurm gives every node of a job the same number of GPUs")
        return (stack, order, f"even:{own}", interleave, pace)

    def jobs_folder(self, folder: Path) -> Path:
        """Where nodes see it."""
        return (self.shared or folder) / "jobs"

    def open(self, site: Site) -> SlurmWorld:
        """The world, and who takes jobs from Slurm's queue for it."""
        kind = DrySlurmWorld if site.dry_run else SlurmWorld
        folder = site.folder if site.dry_run else self.jobs_folder(site.folder).parent
        world = kind(
            site.cluster, folder, self.slurm, site.clock, poll_s=self.poll_s, open=True, say=site.say,
            tied=site.dry_run, take=self.take, priority=self.priority,
        )  # fmt: skip
        if not site.dry_run:
            folder.chmod(folder.stat().st_mode | 0o011)  # jobs reach the files that are theirs, and no others
            refuse_giving(folder)
        world.why = site.why
        world.taker = Intake(world, site.ledger, site.needs, site.policy, site.profiles, self.partitions, site.say)
        return world
