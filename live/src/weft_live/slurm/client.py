"""Client: a thread that sends commands to Slurm and reads what Slurm says, so that nothing else in weft waits for
Slurm."""

from __future__ import annotations

import re
import socket
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

from weft.errors import InputError
from weft.network.topologies.hostlist import compress
from weft_live.slurm.commands import Ended, Slurm, Unreachable
from weft_live.slurm.notes import Aside
from weft_live.slurm.priority import Standing, read_standing
from weft_live.slurm.records import Memory, Node, Record, read_jobs, read_nodes
from weft_live.slurm.states import Do, Over, Pin, Sent, SlurmTask, Starts, Waits

_CLOCK_S = 60.0  # seconds between looks at the controller's clock
_STANDING_S = 30.0  # seconds between looks at QOS and fair shares, which Slurm computes anew every few minutes
_SOON_S = 0.1  # seconds before the next look while something is under way
ENDED_S = 30.0  # seconds until nodes have ended what a restarted controller has forgotten: a script tells its end again
# after 15 s, and a node looks every 10 s whether it is gone
_NODES_S = 0.9  # seconds between looks at nodes, which change less than jobs
_MOST = 100  # commands that are carried out between two looks: the rest wait, and nobody waits long for any of them
_ABOUT = re.compile(r"(?:\bfor job |\bJobId=|^)(\d+(?:_\d+)?)\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Command:
    """One command about one job."""

    do: Do
    key: str
    pin: Pin | None = None  # for an update or a release
    signal: str = ""  # for a warning
    go: bool = False  # for an update: release it at once if Slurm has taken the placement
    again: bool = False  # the job may have begun before, and nodes run what a restarted controller has forgotten
    begin: bool = True  # for an update: it may start from now on, by this machine's clock, since scontrol has no other

    def line(self) -> str:
        """As scontrol reads it."""
        if self.do is not Do.UPDATE or self.pin is None:
            return f"{self.do.value} {self.key}"
        pin, n = self.pin, len(self.pin.nodes)
        even = f" TasksPerNode={pin.tasks // n}" if pin.tasks % n == 0 else ""
        cpus = f"MinCPUsNode={pin.cpus_per_node} " if pin.cpus_per_node else ""
        return (
            f"update JobId={self.key} ReqNodeList={compress(sorted(pin.nodes))} NumNodes={n}-{n} "
            f"NumTasks={pin.tasks}{even} TresPerJob= TresPerTask= TresPerNode=gres:gpu:{pin.gpus_per_node} "
            f"{cpus}{'StartTime=now ' if self.begin else ''}AdminComment={pin.note}"
        )


def _placing(task: SlurmTask, record: Record | None, ahead_s: float, now: float) -> Command:
    """The command that sends a placement. A job that Slurm has put off is told that it may start now, by this machine's
    clock. If that is ahead of the controller's, only a job that has been put off is told so, and it starts later by the
    difference."""
    state, behind_s = task.state, max(0.0, -ahead_s)
    assert isinstance(state, Sent)
    put_off = record is None or record.begin_s > time.time() + ahead_s
    task.behind_s = behind_s if put_off else 0.0
    pin = state.at.pin
    if record is not None:  # so that a start which is forgotten can be told from a requeue
        pin = replace(pin, note=f"{pin.note},requeued={record.restarts}")
    begin = put_off or not behind_s
    return Command(Do.UPDATE, task.key, pin, go=now >= state.ready_s, begin=begin, again=_again(task))


def commands(
    doing: Iterable[tuple[SlurmTask, Do]], records: Mapping[str, Record], ahead_s: float, now: float
) -> tuple[list[Command], list[str]]:
    """What to do about jobs as commands, and jobs that are to be cancelled."""
    doing = list(doing)
    return [
        _placing(task, records.get(task.key), ahead_s, now) if do is Do.UPDATE else _plain(task, do)
        for task, do in doing
        if do is not Do.CANCEL
    ], [task.key for task, do in doing if do is Do.CANCEL]


def _plain(task: SlurmTask, do: Do) -> Command:
    """Any other command."""
    pin = None if isinstance(task.state, Waits | Over) else task.state.at.pin
    return Command(do, task.key, pin, task.description.env.get("signal", "TERM"), again=_again(task))


def _again(task: SlurmTask) -> bool:
    """Whether it may have been on nodes: it has been started before, or released in vain."""
    return task.starts > 1 or (isinstance(task.state, Starts) and task.state.ready_s > 0.0)


@dataclass(frozen=True)
class Snapshot:
    """What Slurm said at one moment: after all commands up to a number had been carried out, or had been tried."""

    after: int
    jobs: Mapping[str, Record]
    nodes: Mapping[str, Node]
    complaints: Mapping[str, str] = field(default_factory=dict)  # by job
    trouble: str = ""  # why there is nothing new
    on_nodes: frozenset[str] = frozenset()  # jobs that run, or whose processes are being ended
    changed: frozenset[str] = frozenset()  # jobs that are not as they were in the last snapshot that was taken
    recalled: Mapping[str, Ended] = field(default_factory=dict)  # what the accounting knows of forgotten jobs
    ahead_s: float = 0.0  # by how much the controller's clock is ahead of this machine's
    standing: Standing | None = None  # whose jobs go first, as last asked; None: there is nothing new at all


class Client:
    """Commands are carried out in batches, and after each batch, and every `poll_s` seconds, Slurm is looked at.

    Of a batch the stops go first and the releases last, since Slurm schedules after each release. `busy` looks again
    soon. Whoever waits for news watches `ready`, which becomes readable when there is a new snapshot.

    Half of its fields are what passes between two threads under one lock, the others what the thread alone saw last.
    """

    def __init__(self, slurm: Slurm, poll_s: float, *, tied: bool = False, priority: str = "off") -> None:
        self._slurm = slurm
        self._poll_s = poll_s
        self._tied = tied  # look, and do nothing
        self._priority = priority
        self._standing = Standing("off", {}, {}, {}, {})
        self._standing_at = 0.0  # when it is asked for again
        self._condition = threading.Condition()
        self._commands: list[Command] = []
        self._cancels: list[str] = []
        self._whys: dict[str, Aside] = {}
        self._asked: set[str] = set()  # jobs that the accounting is to be asked about
        self._number = 0  # commands ever given
        self._busy = False
        self._looked = False
        self._closed = False
        self._latest: Snapshot | None = None
        self._failure: BaseException | None = None  # what ended the thread
        self._ahead_s = 0.0  # by how much the controller's clock is ahead of this machine's
        self._clock_at = 0.0  # when it is compared again
        self._memory: Memory = {}
        self._jobs: dict[str, Record] = {}  # as last seen
        self._nodes: dict[str, Node] = {}
        self._nodes_at = 0.0  # when nodes are looked at again
        self._complaints: dict[str, str] = {}
        self.ready, self._waker = socket.socketpair()
        for end in (self.ready, self._waker):
            end.setblocking(False)
        self._thread = threading.Thread(target=self._work, name="slurm", daemon=True)
        self._thread.start()

    def give(self, commands: list[Command], cancels: list[str], busy: bool) -> int:
        """Take commands; returns a number that a snapshot's `after` reaches when they have been tried."""
        with self._condition:
            self._commands += commands
            self._cancels += cancels
            for key in (*cancels, *(one.key for one in commands)):  # a job that is to start has a note of its own
                self._whys.pop(key, None)
            self._number += len(commands)
            self._busy = busy
            if commands or cancels:
                self._condition.notify()
            return self._number

    def tell(self, whys: Sequence[Aside]) -> None:
        """Send words to a job's user before the next look, or the like; a later command about the job replaces them."""
        with self._condition:
            self._whys |= {why.key: why for why in whys}

    def recall(self, keys: Iterable[str]) -> None:
        """Ask the accounting about jobs that the controller has forgotten; the answers come with a snapshot."""
        with self._condition:
            self._asked |= set(keys)

    def take(self) -> Snapshot | None:
        """The newest snapshot, once; raises if there will never be another one."""
        with suppress(BlockingIOError):
            while self.ready.recv(4096):
                pass
        with self._condition:
            latest, self._latest = self._latest, None
        if self._failure is not None:
            raise RuntimeError("the thread that talks to Slurm has ended; weft serve ends with it") from self._failure
        return latest

    def close(self) -> None:
        """End the thread; a command that is under way is waited for, since it is limited."""
        with self._condition:
            self._closed = True
            self._condition.notify()
        self._thread.join()
        self.ready.close()
        self._waker.close()

    def _work(self) -> None:
        try:
            self._work_on()
        except BaseException as failure:  # whatever it was: a server that lives on and does nothing is the worst
            with self._condition:
                self._failure = failure
            with suppress(OSError):
                self._waker.send(b"!")

    def _work_on(self) -> None:
        while True:
            with self._condition:
                if self._looked and not self._commands and not self._cancels and not self._closed:
                    self._condition.wait(_SOON_S if self._busy else self._poll_s)
                self._looked = True
                if self._closed:
                    return
                commands, self._commands = self._commands[:_MOST], self._commands[_MOST:]
                cancels, self._cancels = self._cancels, []
                whys, self._whys = self._whys, {}
                asked, self._asked = self._asked, set()
                number = self._number - len(self._commands)
            began = time.monotonic()
            snapshot = self._look(number, commands, cancels, [why.line for why in whys.values()])
            if asked and not snapshot.trouble:
                snapshot = replace(snapshot, recalled=self._slurm.accounting(asked))
            with self._condition:
                if self._latest is not None:  # nobody has looked at it
                    snapshot = replace(
                        snapshot, changed=snapshot.changed | self._latest.changed,
                        complaints={**self._latest.complaints, **snapshot.complaints},
                        recalled={**self._latest.recalled, **snapshot.recalled},
                    )  # fmt: skip
                self._latest = snapshot
            with suppress(BlockingIOError):
                self._waker.send(b"!")
            if snapshot.trouble:  # not faster than it can answer
                with self._condition:
                    self._condition.wait_for(lambda: self._closed, max(0.0, min(1.0, began + 1.0 - time.monotonic())))

    def _look(self, number: int, commands: list[Command], cancels: list[str], whys: list[str]) -> Snapshot:
        try:
            if not self._tied:
                self._slurm.scontrol(whys)
                self._carry_out(commands, cancels)
            text = self._slurm.jobs()
            tells = '"COMPLETING"' in text or '"job_state": [' in text or '"job_state":[' in text
            records = read_jobs(text, None if tells else self._slurm.completing(), self._memory)
            if time.monotonic() >= self._nodes_at:
                self._nodes = {node.name: node for node in read_nodes(self._slurm.nodes())}
                self._nodes_at = time.monotonic() + _NODES_S
            if time.monotonic() >= self._clock_at:
                self._ahead_s = self._slurm.ahead_s()
                self._clock_at = time.monotonic() + _CLOCK_S
            if time.monotonic() >= self._standing_at:
                self._standing_at = time.monotonic() + _STANDING_S
                with suppress(Unreachable, InputError):  # priorities stay as they were; jobs are looked at all the same
                    self._standing = read_standing(self._slurm, self._priority, self._standing)
        except Unreachable as error:
            return Snapshot(number, {}, {}, trouble=str(error))
        jobs = {record.key: record for record in records}
        before, self._jobs = self._jobs, jobs
        changed = {key for key, record in jobs.items() if before.get(key) is not record}
        changed = {key for key in changed if before.get(key) != jobs[key]} | (before.keys() - jobs.keys())
        complaints, self._complaints = self._complaints, {}
        on_nodes = frozenset(key for key, record in jobs.items() if record.running or record.completing)
        return Snapshot(
            number, jobs, self._nodes, complaints, on_nodes=on_nodes, changed=frozenset(changed),
            ahead_s=self._ahead_s, standing=self._standing,
        )  # fmt: skip

    def _carry_out(self, commands: list[Command], cancels: list[str]) -> None:
        if cancels:
            self._slurm.cancel(cancels)
        for name in {one.signal for one in commands if one.do is Do.WARN}:
            self._slurm.signal(name, [one.key for one in commands if one.do is Do.WARN and one.signal == name])
        self._tell([one for one in commands if one.do in (Do.REQUEUE, Do.REVIVE, Do.HOLD)])
        updates = [one for one in commands if one.do is Do.UPDATE]
        self._tell(updates)
        releases = [one for one in commands if one.do is Do.RELEASE]
        waiting = {one.key: one for one in updates if one.go and one.pin is not None}
        if waiting:
            for record in read_jobs(self._slurm.jobs(), memory=self._memory):
                one = waiting.get(record.key)
                if one and one.pin and record.pending and record.held and one.pin.holds(record):
                    releases.append(Command(Do.RELEASE, record.key, one.pin, again=one.again))
        self._tell([one for one in releases if not one.again] + self._nowhere([one for one in releases if one.again]))

    def _nowhere(self, releases: list[Command]) -> list[Command]:
        """The releases of jobs that surely run nowhere: after a restart of the controller all of their nodes have
        reported, and the controller has had time to end what was left of them."""
        if not releases or self._slurm.up_s(self._ahead_s) < ENDED_S:
            return []
        silent = self._slurm.silent(node for one in releases if one.pin for node in one.pin.nodes)
        return [one for one in releases if one.pin and not silent & set(one.pin.nodes)]

    def _tell(self, batch: list[Command]) -> None:
        for line in self._slurm.scontrol([one.line() for one in batch]).splitlines():
            keys = set(_ABOUT.findall(line)) & {one.key for one in batch}
            for key in keys or ([batch[0].key] if len(batch) == 1 else []):
                self._complaints[key] = " ".join(line.split())
