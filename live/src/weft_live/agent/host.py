"""Agent: watches and paces the sockets of jobs on one host.

Every few milliseconds it reads how much the sockets of each job have sent. When a job begins to communicate, the agent
tells the server, which answers how fast the job may send. A job that the server takes care of is held until then, so
that its first bytes wait as well. The agent forgets its orders, and lets go of every socket, when it does not hear from
the server.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import queue
import select
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from weft import __version__
from weft.errors import InputError
from weft_live.agent.caller import Caller
from weft_live.agent.fabric import Fabric
from weft_live.agent.flowing import FlowHost, PlannedFlow
from weft_live.agent.guardian import SILENCE_S as GUARDED_S
from weft_live.agent.guardian import release, remember
from weft_live.agent.phases import Phases
from weft_live.agent.processes import belongs, jobs_here, namespace_of
from weft_live.agent.sockets import Process, Remote
from weft_live.agent.watched import Reader, Watched
from weft_live.agent.wire import Line, Message

FLOOR_BYTES_PER_S = 125_000  # slower than this wedges a connection
SCAN_S = 0.5  # seconds between looks for new sockets; every other look is for new processes, too
SILENCE_S = 0.75  # without a word from the server all sockets are let go
_BEAT_S = 0.1  # seconds between signs of life to the guardian
REPORT_S = 0.25  # seconds between reports to the server, unless it asks for more
_GUARDIAN = Path(__file__).with_name("guardian.py")
_PATIENT_S = 3.0  # that another agent has to end


class Agent:
    """See the module. `netns` is a file that is the host's network namespace; by default it is this process's own.

    `near`: connections that do not leave the host are paced, too, because the hosts of the cluster are pretended.
    `say` is told, once, what is wrong with the server; the server is told to what the agent is `blind`, if to anything.
    Its guardian takes it for dead after `patience_s`. `wall` is the clock that all hosts share.
    """

    def __init__(
        self,
        host: str,
        folder: Path,
        server: str = "",
        secret: str = "",
        *,
        slot_s: float = 0.06,
        watch_s: float = 0.02,
        netns: str = "",
        near: bool = False,
        say: Callable[[str], None] = lambda text: None,
        blind: str = "",
        patience_s: float = GUARDED_S,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self.host, self.folder, self.slot_s, self.watch_s = host, folder, slot_s, min(watch_s, slot_s)
        self.near, self._patience_s, self._wall = near, patience_s, wall
        self.namespace = os.stat(netns).st_ino if netns else namespace_of("self")
        folder.mkdir(parents=True, exist_ok=True)
        if host != Path(host).name:
            raise InputError(f"agent: {host!r} cannot be the name of a host")
        self.state = folder / f"paced.{host}"
        self._file = _own(self.state, f"another agent serves {host} with {folder}; end that one first")
        self.let_go = release(str(self.state))  # what an agent before us left behind
        os.ftruncate(self._file, 0)
        self._reader = Reader(netns)
        self.jobs: dict[str, Watched] = {}
        self._seen: dict[int, str | None] = {}
        self._pids: dict[int, str] = {}
        self.owners: dict[str, tuple[int, str]] | None = {} if server else None  # by job: its user, and Slurm's number
        self._scans = 0
        self._next_scan = self._next_beat = self._next_report = 0.0
        self._woken, self._wake = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._inbox: queue.SimpleQueue[Message] = queue.SimpleQueue()
        self._heard, self._report_s = 0.0, REPORT_S
        self.stopping = False
        self.flow: FlowHost | None = None
        self._resting: set[str] = set()  # jobs in a phase that wait for their other hosts
        self._secret = secret
        self._guardian = self._guard()
        self._caller: Caller | None = None
        if server:
            first = {"host": host, "slot_s": slot_s, "blind": blind, "version": __version__}
            self._caller = Caller(Line(server, secret), first, self._arrived, say)
            self._caller.start()

    # The server

    def renew(self, secret: str) -> None:
        """Another secret from the next call on."""
        self._secret = secret
        if self._caller is not None:
            self._caller.line.renew(secret)
        if self.flow is not None and self.flow.switches is not None:
            self.flow.switches.renew(secret)

    def _arrived(self, message: Message) -> None:
        """What the server says goes to the loop."""
        self._inbox.put(message)
        with contextlib.suppress(BlockingIOError):
            os.write(self._wake, b"w")

    def _read_inbox(self, now: float) -> None:
        """Messages that have come."""
        os.read(self._woken, 4096)
        with contextlib.suppress(queue.Empty):
            while True:
                self.hear(self._inbox.get_nowait(), now)

    def hear(self, message: Message, now: float) -> None:
        """Do what the server says."""
        self._heard = now
        if "owners" in message:
            self.owners = {job: (int(uid), str(slurm)) for job, (uid, slurm) in message["owners"].items()}
            self._next_scan = now
        if "flow" in message:
            self._plan(message["flow"])
        if "orders" in message:
            self._report_s = message.get("report_s", REPORT_S)
            self._obey(message["orders"])

    def _obey(self, orders: Message) -> None:
        """Orders are complete: a job that they do not name is no longer paced, and is let go."""
        for name, job in self.jobs.items():
            held, rate, _ = orders.get(name, (0.0, None, 0))
            planned = self.flow is not None and name in self.flow.jobs
            job.held, job.waits = held, planned and rate is not None
            if not planned:
                job.rate = rate
                self._apply(job)

    def _plan(self, said: Message) -> None:
        """How jobs are to be paced slot by slot: their flows, the links, and where the switches are."""
        if self.flow is None or self.flow.slot_s != said["slot_s"]:
            fabric = Fabric(self._secret) if said["switches"] is not None else None
            links = {int(link): rate for link, rate in said["capacity"].items()}
            self.flow = FlowHost(self.host, links, fabric, said["slot_s"], said["slots"])
            self.slot_s, self.watch_s = said["slot_s"], min(self.watch_s, said["slot_s"])
        if self.flow.switches is not None:
            self.flow.switches.keep(said["switches"])
        self.flow.jobs = {name: tuple(map(PlannedFlow.of, flows)) for name, flows in said["jobs"].items()}

    def _tell(self, message: Message) -> None:
        if self._caller is not None:
            self._caller.tell(message)

    # The loop

    def run(self) -> None:
        """Until `stopping` is set."""
        next_slot, ready = time.monotonic(), False
        while not self.stopping:
            now = time.monotonic()
            self.beat(now)
            if ready:
                self._read_inbox(now)
            if now >= next_slot:
                self.look(now)
                next_slot = max(next_slot + self.watch_s, now)
            self.mind_silence(now)
            pause_s = max(0.0, min(next_slot, now + _BEAT_S) - time.monotonic())
            ready = _readable(self._woken, pause_s)
        self.close()

    def mind_silence(self, now: float) -> None:
        """Let go of everything when the server has been silent for too long."""
        if self._heard and now - self._heard > SILENCE_S:
            self._heard = 0.0
            self.free()

    def look(self, now: float) -> None:
        """One look: who is here, how far they are, what that means."""
        if now >= self._next_scan:
            self._next_scan = now + SCAN_S
            self.scan()
        jobs = list(self.jobs.values())
        for job, readings in zip(jobs, self._reader.read(jobs), strict=True):
            event = job.phases.look(now, *job.count(readings))
            if event:
                if event == "ends" and job.held:
                    job.rate, job.waits = job.held, True
                self._tell(job.report(event))
            if event or (job.rate is not None and now >= job.share_s):
                job.share_s = now + self.slot_s
                self._apply(job)
        if self.flow is not None and self._heard:
            self._pace_flows(self.flow)
        if now >= self._next_report:
            self._next_report = now + self._report_s
            news = [report for job in self.jobs.values() if (report := job.report("")) != job.told]
            if news:
                self._tell({"jobs": news, **self._cost()})
            for report in news:
                self.jobs[report["job"]].told = report

    def _pace_flows(self, flow: FlowHost) -> None:
        """Rates from the host's own scheduler, of jobs whose volume is known; the others send as they like. A phase
        begins at once, as in the simulator: nobody is held before it but by a gate. A job in whose sockets nothing
        waits is waiting for its other hosts."""
        planned = {name: job for name, job in self.jobs.items() if name in flow.jobs}
        begun: set[str] = set()
        for name, job in planned.items():
            sends = job.phases.talking and not job.waits
            if sends and job.phases.volume > 0 and not flow.sending(name):
                flow.begin(name, max(job.phases.volume, job.phases.sent + job.phases.left))
                begun.add(name)
            elif not sends and flow.sending(name):
                flow.end(name)
            if not flow.sending(name):
                job.rate = job.held if job.waits else None
                self._apply(job)
        resting = {name for name, job in planned.items() if flow.sending(name) and not job.busy}
        begun |= {name for name in self._resting - resting if flow.sending(name)}
        self._resting = resting
        slots = self._wall()  # hosts count slots by the clock that they share, not each from its own start
        if begun or flow.passed(slots):
            rates = flow.decide(slots, {name: job.phases.sent for name, job in planned.items()}, begun, resting)
            for name, rate in rates.items():
                self.jobs[name].rate = rate if rate < float("inf") else None
                self._apply(self.jobs[name])

    def _cost(self) -> Message:
        """What planning has taken since the last report: seconds for answers, and for decisions."""
        if self.flow is None:
            return {}
        cost = {"waited_s": self.flow.waited_s, "decided_s": self.flow.decided_s}
        self.flow.waited_s, self.flow.decided_s = [], []
        return cost

    def scan(self) -> None:
        """Processes and connections that have come or gone."""
        found: dict[str, set[int]] = {}
        self._scans += 1
        if self._scans % 2:
            self._pids = jobs_here(self.namespace, self._seen, self.host, str(self.folder.resolve()))
        for pid, name in self._pids.items():
            found.setdefault(name, set()).add(pid)
        for name in [name for name in self.jobs if name not in found]:
            self._tell({"job": name, "event": "gone"})
            for process in self.jobs.pop(name).processes.values():
                process.close()
        for name, pids in found.items():
            job = self.jobs.get(name) or self.jobs.setdefault(name, Watched(name, Phases(look_s=self.watch_s)))
            for pid in [pid for pid in job.processes if pid not in pids]:
                job.processes.pop(pid).close()
            for pid in pids - job.processes.keys():
                with contextlib.suppress(ProcessLookupError):
                    process = Process(pid)  # held first: what is read of it now is not about another of that number
                    if self.owners is None or belongs(pid, *self.owners.get(name, (-1, ""))):
                        job.processes[pid] = process
                    else:
                        process.close()
            known, found_here = job.sockets, dict[int, Remote]()
            for process in job.processes.values():
                there = process.sockets(known)
                found_here |= {inode: remote for inode, remote in there.items() if self.near or not remote.near}
            if found_here.keys() != known.keys():
                job.take(found_here)
            if job.sockets.keys() - known.keys() and job.rate is not None:
                self._apply(job)

    def moved(self, name: str) -> float:
        """Bytes of a job that have arrived since the agent knows it."""
        job = self.jobs[name]
        return job.count(*self._reader.read([job]))[0]

    # Rates

    def _apply(self, job: Watched) -> None:
        """Set the rates of a job's sockets: those with something to send share what it may have."""
        if job.rate is None:
            for remote in job.sockets.values():
                if remote.original is not None:
                    remote.pace(remote.original)
            return
        if self._guardian.poll() is not None:  # nobody would let go of them
            self._guard_anew()
            return
        sharing = len(job.busy) or 1
        for inode, remote in job.sockets.items():
            if remote.original is None:
                remember(self._file, remote)
            part = job.rate / sharing if inode in job.busy else job.rate
            remote.pace(max(int(part), FLOOR_BYTES_PER_S))

    def order(self, name: str, rate: float | None, held: float = 0.0) -> None:
        """An order, as if the server had given it."""
        job = self.jobs[name]
        job.held, job.rate = held, rate
        self._apply(job)

    def free(self) -> None:
        """Forget all orders and let go of every socket; the server is asked for them again."""
        self._tell({"again": True})
        for job in self.jobs.values():
            job.held, job.waits, job.rate = 0.0, False, None
            self._apply(job)
            if self.flow is not None:
                self.flow.end(job.name)

    def forget(self) -> None:
        """Somebody else has set the rates of sockets: forget what we believe they are, too."""
        for job in self.jobs.values():
            for remote in job.sockets.values():
                remote.rate = None
        self.free()

    # Signs of life

    def _guard(self) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [sys.executable, "-I", "-S", str(_GUARDIAN), str(self.state), str(self._patience_s)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, bufsize=0,
        )  # fmt: skip

    def _guard_anew(self) -> None:
        """In the place of a guardian that has ended."""
        self.free()
        self._dismiss()
        self._guardian = self._guard()

    def _dismiss(self) -> None:
        """The guardian ends when nobody talks to it any more."""
        guardian: Any = self._guardian
        guardian.stdin.close()
        guardian.stdout.close()
        guardian.wait()

    def beat(self, now: float) -> None:
        """A sign of life to the guardian."""
        if now < self._next_beat:
            return
        self._next_beat = now + _BEAT_S
        assert self._guardian.stdin is not None
        assert self._guardian.stdout is not None
        try:
            self._guardian.stdin.write(b".")
            if _readable(self._guardian.stdout.fileno(), 0.0) and self._guardian.stdout.read(1):
                self.forget()  # we hung, and it has let go of everything
        except BrokenPipeError:
            self._guard_anew()

    def close(self) -> None:
        """Let go of everything."""
        self.free()
        if self._caller is not None:
            self._caller.close()
        self._reader.close()
        self._dismiss()
        for job in self.jobs.values():
            for process in job.processes.values():
                process.close()
        self.state.unlink(missing_ok=True)  # while it is ours
        for file in (self._file, self._woken, self._wake):
            os.close(file)


def _readable(file: int, within_s: float) -> bool:
    """Whether there is something to read. (select() knows no file with a number of 1,024 or more.)"""
    poll = select.poll()
    poll.register(file, select.POLLIN)
    return bool(poll.poll(1e3 * within_s))


def _own(path: Path, refusal: str) -> int:
    """The file with this agent's notes, which no other agent has while this one lives; one that is about to end has
    some seconds for it."""
    until = time.monotonic() + _PATIENT_S
    while True:
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if path.exists() and os.fstat(file).st_ino == path.stat().st_ino:  # not one that its owner has removed
                return file
        except BlockingIOError:
            if time.monotonic() > until:
                os.close(file)
                raise InputError(f"agent: {refusal}") from None
        os.close(file)
        time.sleep(0.05)
