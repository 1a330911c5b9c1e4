"""Intake: which of Slurm's jobs are weft's, under what name, and what users are told about jobs it cannot take."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import replace
from functools import partial

from weft.errors import InputError
from weft.model.job import Job
from weft.model.reason import Why, speak
from weft.model.view import Fact
from weft.policies.planners.base import Planner
from weft_live.description import Description
from weft_live.server.ledger import Ledger
from weft_live.server.profiles import Profiles, Reading
from weft_live.slurm.client import Snapshot
from weft_live.slurm.notes import foreign
from weft_live.slurm.records import Node, Record, printable
from weft_live.slurm.request import describe, on_fewest_nodes
from weft_live.slurm.states import SlurmTask
from weft_live.slurm.world import SlurmWorld

_TOGETHER_S = 2.0  # seconds to wait for the models of jobs that came together


class Intake:
    """Batch jobs with GPUs, of the partitions that weft serves.

    A job is called as Slurm calls it. One that has ended and comes again (an administrator requeued it, or Slurm's
    numbers began anew) is another job to weft: 17, then 17-2. One that makes no sense stays held, is listed with the
    reason, and is looked at again when its request changes.
    """

    def __init__(
        self, world: SlurmWorld, ledger: Ledger, needs: frozenset[Fact], planner: Planner, profiles: Profiles,
        partitions: Set[str], say: Callable[[str], None],
    ) -> None:  # fmt: skip
        self._world, self._ledger, self._needs, self._planner = world, ledger, needs, planner
        self._profiles, self._partitions, self._say = profiles, partitions, say
        self._strangers: set[str] = set()  # jobs in Slurm's queue that are not weft's, or not yet
        self._lives: dict[str, int] = {}
        self._reading: set[str] = set()  # jobs whose model is being read
        self._waited: set[str] = set()  # those that others have been held up for
        self._since_s: float | None = None  # since when they are
        self._described: dict[str, Description] = {}  # as last taken, by Slurm's name
        for row in ledger.jobs():
            key, _, life = row.id.partition("-")
            self._lives[key] = max(self._lives.get(key, 0), int(life or 1))
            self._described[key] = row.description
        # Words, and the request they are about; "" is the one that it has when it is seen next.
        self._refused: dict[str, list[str]] = ledger.meta("refused", {})
        self._unkept = False  # whether the ledger has others
        self._later: list[str] = ledger.meta("later", [])  # jobs and arrays of which some may not run yet

    def look(self, snapshot: Snapshot, known: Set[str], now: float) -> None:
        """Take what is to be scheduled from now on: jobs that are not known and wait for nothing but GPUs."""
        self._strangers = {key for key in self._strangers | snapshot.changed if key not in known}
        self._strangers &= snapshot.jobs.keys()
        self.tidy(snapshot.jobs)
        soon = time.time() + snapshot.ahead_s + 1
        unknown = [
            snapshot.jobs[key]
            for key in sorted(self._strangers, key=_submission)
            if snapshot.jobs[key].pending and not snapshot.jobs[key].completing
        ]
        ready = [r for r in unknown if not r.dependency and r.begin_s <= soon and not r.user_hold]
        new = within_limits(ready, known)
        taken = {record.key for record in new}
        later = {record.key for record in unknown if record.key not in taken}
        self.accept(new, later, snapshot.nodes, now, snapshot.ahead_s)

    def refuse_another(self, snapshot: Snapshot) -> None:
        """Two servers of one Slurm would take each other's jobs back: the one whose run is younger ends with a
        message."""
        for key in snapshot.changed:
            record = snapshot.jobs.get(key)
            other = foreign(record.admin_comment, self._world.clock) if record and not record.ended else ""
            if record and other and self.wants(record):
                raise InputError(
                    f"job {key} is served by the weft serve of {other}, which was here first; stop that one, and take "
                    "its jobs over with --take, or serve other partitions (--partition)"
                )

    def wants(self, record: Record) -> bool:
        """Whether it is of the partitions that weft serves."""
        return not self._partitions or bool(self._partitions & set(record.partition.split(",")))

    def accept(
        self, records: Sequence[Record], later: Set[str], nodes: Mapping[str, Node], now: float, ahead_s: float = 0.0
    ) -> None:
        """Jobs that wait in Slurm's queue and that weft does not know; kept together.

        Those that may not run yet (`later`: a dependency, a time, the limit of their array) come in when they may.
        """
        self._accept_all(records, nodes, now, ahead_s)
        self._keep_refused()
        waits = sorted({_family(key) for key in later})
        if waits != self._later:
            self._later = waits
            self._ledger.set_meta("later", waits)

    def _accept_all(self, records: Sequence[Record], nodes: Mapping[str, Node], now: float, ahead_s: float) -> None:
        """Write the accepted jobs down together, and only then give them to the world. Jobs that come together wait for
        each other's models, but only for a moment, so that a slow model holds up no other user's job."""
        self._reading = set()
        served = (
            [nodes[server.name] for server in self._world.cluster.servers if server.name in nodes] if records else []
        )
        made = [(record, *taken) for record in records if (taken := self._accept(record, served, now, ahead_s))]
        if self._reading - self._waited:
            self._since_s = now if self._since_s is None else self._since_s
            if now - self._since_s < _TOGETHER_S:
                return
        self._since_s = None
        self._waited = (self._waited | self._reading) & {record.key for record in records}
        if not made:
            return
        self._ledger.submit_all([(description, job.submit_s) for _, description, job in made])
        for record, description, job in made:
            self._lives[record.key] = self._lives.get(record.key, 0) + 1
            self._described[record.key] = description
            self._world.submit(job, description)
        said = self._refused.keys() & {record.key for record, _, _ in made}
        if said:
            self._refused = {key: words for key, words in self._refused.items() if key not in said}
            self._unkept = True

    def _accept(
        self, record: Record, served: Sequence[Node], now: float, ahead_s: float
    ) -> tuple[Description, Job] | None:
        """One job as weft takes it, or None. `served` are the nodes that it may be given."""
        if not (self.wants(record) and record.batch and (record.gpus or record.gpus_per_socket)):
            return None
        record = on_fewest_nodes(record, served)
        request = (
            f"{record.comment} {record.gpus} {record.tasks} {record.time_limit_s} {record.partition} {record.gpu} "
            f"{record.nodes_said} {record.account} {record.qos}"
        )
        before = self._refused.get(record.key)
        if before is not None and before[1] in ("", request):
            before[1] = request
            return None
        profile_of = partial(self._profiles, user=record.user or str(record.uid))
        life = self._lives.get(record.key, 0) + 1
        name = record.key if life == 1 else f"{record.key}-{life}"
        try:
            if record.het:
                raise InputError("it is part of a heterogeneous job; submit it as one job, or to another partition")
            if record.gpus_per_socket:
                raise InputError("it says --gpus-per-socket, which weft does not plan; use --gpus-per-node")
            refuse_wishes(record, served)
            description = self._as_asked(describe(self._as_before(record), name, profile_of), record)
            description.refuse(self._world.cluster, self._needs, self._planner)
            sizes = [len(server.gpus) for server in self._world.cluster.servers]
            refuse_uneven(description.gpus, sizes)
            job = description.job(self._eligible_s(record, now, ahead_s), profile_of)
        except Reading:
            self._reading.add(record.key)
            return None  # asked again at the next look
        except InputError as error:
            self._refuse(record.key, str(error).removeprefix("submit: "), request)
            return None
        return description, job

    def _as_before(self, record: Record) -> Record:
        """The request as its user made it. Where weft has started the job before, Slurm shows weft's own placement."""
        said = self._described.get(record.key)
        if said is None or not record.admin_comment.startswith("weft:"):
            return record
        return replace(
            record, gpus_per_job=said.gpus, gpus_per_node=0, gpus_per_task=0, nodes_at_most=0, tasks_per_node=0,
            tasks=int(said.env.get("tasks", "1")), cpus_per_task=int(said.env.get("cpus", "1")),
        )  # fmt: skip

    def _as_asked(self, description: Description, record: Record) -> Description:
        said = self._described.get(record.key)
        if said is None or not record.admin_comment.startswith("weft:"):
            return description
        return description.model_copy(update={"per_node": said.per_node})

    def _eligible_s(self, record: Record, now: float, ahead_s: float) -> float:
        """When it could run first: its submission, or the end of what it had to wait for, which may be just ahead.

        Slurm tells both by the clock of its controller."""
        zero_s = self._world.clock.wall_s + ahead_s
        begin_s = min(max(record.eligible_s, record.begin_s) - zero_s, now + 1.0)
        if _family(record.key) in self._later:
            return max(now, begin_s)
        return max(0.0, begin_s, min(now, record.submit_s - zero_s))

    def refused(self) -> Mapping[str, str]:
        """Jobs that stay held, and why."""
        return {key: said[0] for key, said in self._refused.items()}

    def set_aside(self, task: SlurmTask, why: Why) -> None:
        """A job that Slurm will not start stays held until its request, which weft has changed itself, changes."""
        self._refuse(task.key, speak(why), "")
        self._keep_refused()

    def tidy(self, jobs: Mapping[str, Record]) -> None:
        """Forget what was said about jobs that do not wait any more."""
        gone = {key for key in self._refused if key not in jobs or not jobs[key].pending}
        if gone:
            self._refused = {key: said for key, said in self._refused.items() if key not in gone}
            self._unkept = True
            self._keep_refused()

    def _refuse(self, key: str, words: str, request: str) -> None:
        words = printable(words)  # a profile file may have any name in it
        self._refused[key] = [words, request]
        self._unkept = True
        self._say(f"job {key} stays held: {words}")

    def _keep_refused(self) -> None:
        """To the ledger, once for all that have been refused at a look: a user may submit thousands of them."""
        if self._unkept:
            self._ledger.set_meta("refused", self._refused)
            self._unkept = False


def _submission(key: str) -> tuple[int, int]:
    """Slurm numbers jobs as they are submitted, and the tasks of an array after it."""
    number, _, task = key.partition("_")
    return int(number), int(task or 0)


def _family(key: str) -> str:
    """A job, or the array that it is a task of."""
    return key.partition("_")[0]


def refuse_uneven(gpus: int, sizes: Sequence[int]) -> None:
    """Raise if nodes of these sizes can never give it that many GPUs, the same number on each."""
    if not any(gpus % n == 0 and sum(size >= gpus // n for size in sizes) >= n for n in range(1, len(sizes) + 1)):
        raise InputError(
            f"it wants {gpus} GPUs, and no nodes can give it the same number on each; ask for another number"
        )


def within_limits(records: Sequence[Record], known: Set[str]) -> list[Record]:
    """Without the tasks of an array (`--array=0-99%4`) that may not run beside those that are known already."""
    if not any(record.array_limit for record in records):
        return list(records)
    live = Counter(key.partition("_")[0] for key in known)
    found = []
    for record in records:
        array = record.key.partition("_")[0]
        if not record.array_limit or live[array] < record.array_limit:
            live[array] += 1
            found.append(record)
    return found


def refuse_wishes(record: Record, nodes: Sequence[Node]) -> None:
    """Raise if the job may not run on every node that weft serves: policies choose among all of them."""
    if record.nodes_said:
        raise InputError(f"it says {record.nodes_said}, and nodes are weft's choice; submit it without")
    told = [node for node in nodes if node.partitions]
    partitions = set(record.partition.split(","))
    if not any(all(name in node.partitions for node in told) for name in partitions):
        lacks = next((node.name for node in told if not partitions & node.partitions), "some node")
        raise InputError(
            f"its partition {record.partition} lacks {lacks}, which weft serves too; run a weft serve for that "
            "partition alone (--partition)"
        )
    other = next((node for node in nodes if record.gpu and node.gpu and node.gpu != record.gpu), None)
    if other is not None:
        raise InputError(
            f"it wants GPUs of type {record.gpu}, and {other.name} has {other.gpu}; run a weft serve for a partition "
            "of one type"
        )
