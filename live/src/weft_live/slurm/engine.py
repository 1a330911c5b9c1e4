"""SlurmEngine: a Slurm cluster, as `weft serve --world slurm` finds it; and a world that only looks at it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from weft.errors import InputError
from weft.model.cluster import Cluster
from weft.model.events import Event, Started, Stopped
from weft.model.plan import Decision, Start, Stop
from weft_live.engine import Site, refuse_own
from weft_live.server.folders import own
from weft_live.slurm.commands import Slurm, Unreachable
from weft_live.slurm.intake import Intake
from weft_live.slurm.notes import no_hook, refuse_folder, refuse_giving, refuse_hook
from weft_live.slurm.priority import read_standing
from weft_live.slurm.reconcile import look
from weft_live.slurm.records import Record
from weft_live.slurm.states import Look, Runs, SlurmTask, Waits
from weft_live.slurm.topology import gpu_nodes, read_cluster, refuse_cluster, shown_topology
from weft_live.slurm.world import SlurmWorld
from weft_live.waiting import would


@dataclass(frozen=True)
class SlurmEngine:
    """Jobs come by sbatch. `shared` is a folder that the nodes see, for progress and shifts; None: the run's own."""

    slurm: Slurm
    partitions: frozenset[str] = frozenset()  # empty: all
    poll_s: float = 0.5
    shared: Path | None = None
    profile_folders: list[Path] = field(default_factory=list)
    take: bool = False  # take over from a server of another folder
    priority: str = "off"  # which of Slurm's priorities count in the order (priority.py)
    strangers: str = "leave"  # or "requeue": what runs on weft's GPUs without weft
    drained: str = "resume"  # or "leave": nodes that Slurm drained because they had a job already

    name = "slurm"
    submits = "jobs of a Slurm cluster come by sbatch; weft serve takes them from its queue"

    @classmethod
    def from_options(cls, options: Mapping[str, Any]) -> SlurmEngine:
        """From the options of `weft serve`."""
        refuse_own("slurm", options)
        for name, default, other in (("strangers", "leave", "requeue"), ("drained", "resume", "leave")):
            if options[name] not in (default, other):
                raise InputError(f"--{name} {options[name]}: it is {default} (the default) or {other}")
        return cls(
            Slurm(), options["partitions"], options["poll_s"], options["shared"], list(options["profiles"]),
            options["take"], options["priority"], options["strangers"], options["drained"],
        )  # fmt: skip

    def cluster(self, seed: int, say: Callable[[str], None]) -> Cluster:
        """Slurm's GPU nodes and switches."""
        return read_cluster(self.slurm, self.partitions, seed=seed, say=say)

    def refuse(self, cluster: Cluster, folder: Path) -> None:
        """Raise if the nodes are others, or if what must be installed is not."""
        refuse_folder(self.jobs_folder(folder).parent)
        nodes = gpu_nodes(self.slurm, self.partitions)
        refuse_cluster(cluster, nodes)
        with suppress(Unreachable):
            refuse_hook(self.slurm.config(), self.partitions)
            shown_topology(self.slurm, self.partitions, nodes)
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
        with suppress(Unreachable):
            config = self.slurm.config()
            if words := no_hook(config):
                if not site.dry_run:
                    raise InputError(words)
                site.say(f"note: {words}")
            if config.get("TaskProlog") == "(null)":
                site.say("note: Slurm has no TaskProlog, so no job can report its progress; weft serve --setup has one")
            if config.get("TaskEpilog") == "(null)":
                site.say("note: Slurm has no TaskEpilog: it may drain nodes after a kill of its controller (--setup)")
        folder = site.folder if site.dry_run else self.jobs_folder(site.folder).parent
        if not site.dry_run:
            own(
                folder, "--shared" if self.shared else "--dir"
            )  # what weft makes there it gives to users, wherever a name in it may lead
            folder.chmod(folder.stat().st_mode | 0o011)  # jobs reach the files that are theirs, and no others
            refuse_giving(folder)
        world = self.make(
            site, folder, poll_s=self.poll_s, open=True, say=site.say, tied=site.dry_run, take=self.take,
            priority=self.priority, requeue=self.strangers == "requeue", resume=self.drained == "resume",
        )  # fmt: skip
        world.why = site.why
        world.taker = Intake(world, site.ledger, site.needs, site.planner, site.profiles, self.partitions, site.say)
        return world

    def make(self, site: Site, folder: Path, **more: Any) -> SlurmWorld:
        """The world itself, or one that only speaks."""
        kind = DrySlurmWorld if site.dry_run else SlurmWorld
        return kind(site.cluster, folder, self.slurm, site.clock, **more)


class DrySlurmWorld(SlurmWorld):
    """Every start and stop succeeds at once, in words only; jobs end when they do in Slurm."""

    def judge(self, task: SlurmTask, record: Record | None, now: float) -> Look:
        """What the real job does matters only when it is over."""
        seen = look(task, record, now) if record is None or record.ended else Look(task.state)
        return Look(seen.state, seen.what, seen.why)

    def apply(self, decisions: Sequence[Decision]) -> list[Event]:
        """Say what would be done."""
        events: list[Event] = []
        now = self.now()
        for decision in decisions:
            task, where = self.tasks[decision.job], ""
            if isinstance(decision, Start):
                task.state = Runs(self._at(task, decision.gpus), now)
                where = ", ".join(f"{name}: {n}" for name, n in self.on_nodes(decision.gpus).items())
                events.append(Started(now, decision.job))
            elif isinstance(decision, Stop):
                task.state = Waits(now, 0.0)
                events.append(Stopped(now, decision.job, task.saved, decision.reason))
            self.say(would(decision, where))
        return events
