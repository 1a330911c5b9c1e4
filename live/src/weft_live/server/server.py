"""Server: a stack that schedules a live world and can be killed at any moment; what `weft serve` runs."""

from __future__ import annotations

import fcntl
import os
import signal
import socket
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from weft.core.cycle import Core
from weft.core.loop import run
from weft.core.stack import Stack
from weft.errors import InputError
from weft.model.cluster import Cluster
from weft.model.events import Event
from weft.model.plan import Decision, Placement
from weft.model.reason import Why, because, speak, written
from weft.model.view import Spread
from weft.network.estimates import Estimates
from weft_live.attempt import Attempt
from weft_live.clock import Clock
from weft_live.description import Description, unread
from weft_live.ending import BOUNDS, Bounds
from weft_live.engine import Engine, Site
from weft_live.server.control import ControlSocket
from weft_live.server.durable import Durable
from weft_live.server.folders import own, refuse_network, remove_old
from weft_live.server.ledger import JobRow, Ledger
from weft_live.server.listing import write_trace
from weft_live.server.profiles import Profiles
from weft_live.server.snapshot import restored
from weft_live.waiting import Closing, LiveWorld
from weft_live.words import strangers

if TYPE_CHECKING:
    from weft_live.server.metrics import MetricsServer

_REMEMBERED = 2000  # attempts whose speed the next server reads again
_RECORD_S = 5.0  # the trace is written again no more often than this
_TIDY_S = 600.0  # folders of old attempts are looked for no more often than this
_NOTIFY_S = 1.0  # systemd is told that all is well no more often than this
Say = Callable[[str], None]


class Server:
    """One run in one folder: the core, the world, the ledger between them, and the socket that users talk to.

    Use it as a context. Jobs run on when it ends or dies, and the next server of the folder takes them over. `chosen`
    is kept in the ledger for that one: what it was asked to serve with. `estimates` are those of the network that jobs
    run on; without them transfers are taken to be rings that share links evenly.
    """

    def __init__(
        self,
        folder: Path,
        cluster: Cluster,
        stack: Stack,
        *,
        engine: Engine,
        seed: int = 0,
        dry_run: bool = False,
        metrics: str | None = None,
        record: Path | None = None,
        say: Say = print,
        chosen: dict[str, Any] | None = None,
        estimates: Estimates | None = None,
        bounds: Bounds = BOUNDS,
    ) -> None:
        self.folder, self.cluster, self.stack, self.dry_run, self.say = folder, cluster, stack, dry_run, say
        self.record, self.engine = record, engine
        self.needs = stack.needs
        self.profiles = Profiles(cluster, self.engine.profile_folders)
        self._next_record_s = self._next_notify = self._next_tidy_s = 0.0
        self._closed = False
        self._down: dict[int, Why] = {}  # as the ledger has it
        if estimates is not None and stack.interleave.shifts:
            estimates.check_traffic()  # told now, not when the first jobs are to be shifted
        with ExitStack() as open_now:
            alone = _enter(folder, dry_run, open_now)
            open_now.callback(self.profiles.close)
            if self.engine.profile_folders:
                self.profiles.warm()
            self.ledger = _ledger(folder, dry_run)
            self.ledger.say, self.ledger.patient = say, self._patient
            open_now.callback(self.ledger.close)
            saved = self.ledger.core()
            clock = self._clock(saved)
            stack.interleave.prepare()  # compiled before jobs wait for it
            self.world = self._world(clock, open_now)
            open_now.callback(self.world.close)
            if estimates is not None:
                self.world.speeds.alone = estimates
            self.world.alive, self.world.bounds = self._alive, bounds
            self.durable = Durable(self.world, self.ledger, lambda job_id: self.world.outcomes.get(job_id, ""))
            self._write_trace()  # a path that cannot be written is told now, not in the morning
            if saved is None:
                self.core = Core(stack, self.durable, seed, self.ledger)
            else:
                self.core = restored(saved, stack, self.durable, self.ledger)
            self.durable.core = self.core
            self.ledger.void_after(self.core.cycle)
            self.ledger.set_meta("chosen", chosen)
            self.ledger.set_meta("down", {})
            self.metrics_server: MetricsServer | None = None
            if metrics is not None:
                self._serve_metrics(metrics, open_now)
            self._take_over()
            self._remember_speeds()
            if alone:
                control = ControlSocket(folder, self.world, self._handle)
                open_now.callback(control.close)
            self._resources = open_now.pop_all()

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of everything but the jobs."""
        if not self._closed:
            self._closed = True
            with self._resources:
                self._write_trace()

    def _write_trace(self) -> None:
        if self.record is not None and not self.dry_run:
            write_trace(self.ledger, self.record)

    def run(self, until_s: float | None = None) -> None:
        """Serve until `stop` is called, or until that time."""
        notify("READY=1")
        try:
            run(self.core, self.durable, until_s, self._after_cycle)
        except Closing:
            self.durable.keep()

    def stop(self) -> None:
        """End `run` between two cycles."""
        self.world.closing = True

    @contextmanager
    def stopped_by_signals(self) -> Iterator[None]:
        """SIGINT and SIGTERM end `run` while this lasts."""
        awake, waker = socket.socketpair()
        for end in (awake, waker):
            end.setblocking(False)

        def woken() -> None:
            awake.recv(64)

        self.world.watch(awake, woken)
        before = {number: signal.signal(number, lambda *_: self.stop()) for number in (signal.SIGINT, signal.SIGTERM)}
        old = signal.set_wakeup_fd(waker.fileno(), warn_on_full_buffer=False)
        try:
            yield
        finally:
            signal.set_wakeup_fd(old)
            for number, handler in before.items():
                signal.signal(number, handler)
            self.world.forget(awake)
            awake.close()
            waker.close()

    # Beginning, or going on

    def _clock(self, saved: dict[str, Any] | None) -> Clock:
        written = self.ledger.meta("clock")
        last_s = max(saved["now"] if saved else 0.0, *(row.submit_s for row in self.ledger.jobs()), 0.0)
        clock = Clock.resume(written, last_s) if written else Clock.begin()
        self.ledger.set_meta("clock", {"began_s": clock.began_s, "boot": clock.boot, "wall_s": clock.wall_s})
        self.ledger.set_meta("cluster", [server.name for server in self.cluster.servers for _ in server.gpus])
        self.ledger.set_meta("racks", [server.rack for server in self.cluster.servers for _ in server.gpus])
        return clock

    def _world(self, clock: Clock, open_now: ExitStack) -> LiveWorld[Any]:
        folder = self.folder
        if self.dry_run:
            folder = Path(open_now.enter_context(tempfile.TemporaryDirectory(prefix="weft-dry-")))
        else:
            self.ledger.set_meta("jobs_folder", str(self.engine.jobs_folder(folder).resolve()))
        return self.engine.open(
            Site(
                self.cluster, folder, clock, self.ledger, self.needs, self.stack.planner, self.profiles,
                self.dry_run, self.say, self._why,
            )
        )  # fmt: skip

    def _take_over(self) -> None:
        """Every job that has not ended goes on where it was left."""
        self.world.begin_with(self.core.table.gpus.down)
        for row in self.ledger.jobs():
            if row.status:
                continue
            view = self.core.table.jobs.get(row.id)
            if view is None:  # accepted, and the core had not heard of it
                self._accept_again(row)
                continue
            gate = self.core.table.gates.get(row.id)
            view = replace(view, job=replace(view.job, iterations=row.description.iterations or 1))  # not as corrected
            starts, faults = self.ledger.starts(row.id), self.ledger.faults(row.id)
            self.world.take_over(view, row.description, starts, faults, row.cancelled, gate)

    def _accept_again(self, row: JobRow) -> None:
        """Report a job that an earlier server had accepted before it died, and that the core does not know."""
        try:
            job = row.description.job(row.submit_s, self.profiles.wait)
        except InputError as error:  # its profile file is gone, or another one now
            self.ledger.end(row.id, because("live.no-profile", said=str(error)), row.submit_s)
            return
        self.world.submit(job, row.description)
        if row.cancelled:
            self.world.cancel(row.id)

    def _remember_speeds(self) -> None:
        """Read what ended attempts measured from the files that they left, so that policies see the same speeds as
        before."""
        rows = {row.id: row for row in self.ledger.jobs()}
        number: Counter[str] = Counter()
        ended: list[tuple[JobRow, int, Placement]] = []
        for job_id, decision in self.ledger.decisions():
            if decision.action == "start":
                number[job_id] += 1
                ended.append((rows[job_id], number[job_id], tuple(map(int, decision.gpus.split()))))
        on_gpus = self.core.table.placements.keys()
        ended = [(row, n, gpus) for row, n, gpus in ended if row.id not in on_gpus or n < number[row.id]]
        for row, n, gpus in ended[-_REMEMBERED:]:
            progress = Attempt(self.engine.jobs_folder(self.folder) / row.id / str(n)).progress()
            if progress.iteration_s > 0:
                job = row.description.job(row.submit_s, unread)
                self.world.speeds.measured(job, len(gpus), Spread.of(self.cluster, gpus), progress.iteration_s)

    # While it runs

    def _after_cycle(self, now: float, core: Core) -> None:
        self.durable.keep()
        if self.world.down != self._down:
            self._down = dict(self.world.down)
            down = {self.cluster.servers[server].name: written(why) for server, why in self._down.items()}
            self.ledger.set_meta("down", down)
        if now >= self._next_tidy_s:
            self._next_tidy_s = now + _TIDY_S
            today_s = min(time.time(), self.world.clock.wall_s + now)  # whoever sets the clock ahead loses nothing
            remove_old(self.engine.jobs_folder(self.folder), self._attempts(), today_s - self.world.bounds.keep_s)
        if now >= self._next_record_s:
            self._next_record_s = now + _RECORD_S
            try:
                self._write_trace()
            except InputError as error:  # a full disk there is no reason to leave the cluster alone
                self.say(str(error))

    def _attempts(self) -> dict[str, int]:
        """The present attempt of every job that has not ended."""
        return {job_id: self.ledger.starts(job_id) for job_id in self.core.table.running}

    def _alive(self) -> None:
        """The world has been looked at: systemd's watchdog may rest for a while."""
        if time.monotonic() >= self._next_notify:
            self._next_notify = time.monotonic() + _NOTIFY_S
            notify("WATCHDOG=1")

    def _patient(self) -> bool:
        """Whether the ledger is to be tried again, after it could not be written; called every second."""
        notify("WATCHDOG=1")
        return not self.world.closing

    def _why(self, job_id: str) -> str:
        """Why a job waits, in words that do not change with every job that comes and goes."""
        table = self.core.table
        barred = table.jobs[job_id].barred if job_id in table.jobs else ""
        return speak(barred or table.held.get(job_id, because("live.queued")))

    def _serve_metrics(self, address: str, open_now: ExitStack) -> None:
        from weft_live.server.metrics import Estimated, Metrics, MetricsServer

        counted = Metrics(self.core.table.cluster.n_gpus, lambda: self.world.look_age_s())
        self.metrics_server = MetricsServer(address, counted)
        open_now.callback(self.metrics_server.close)
        if not self.dry_run:
            open_now.callback(Estimated(counted, self.folder).close)

        def count(events: Sequence[Event], decisions: Sequence[Decision], seconds: float) -> None:
            counted.cycle(events, decisions, seconds, self.core.view.now, self.core.table)
            counted.down.set(len(self.world.down))
            counted.strangers.set(len(strangers(self.world.down.values())))

        self.durable.on_decided = count

    def _handle(self, request: dict[str, Any]) -> dict[str, Any]:
        """What users ask for."""
        match request:
            case {"do": "submit", "job": dict(job)}:
                return {"job": self.submit(job)}
            case {"do": "cancel", "job": str(job_id)}:
                self.cancel(job_id)
                return {}
            case _:
                raise InputError(
                    f"weft serve does not know {request.get('do')!r:.40}; it may be older than this command"
                )

    def submit(self, said: dict[str, Any]) -> str:
        """Accept a job, or raise with the reason; returns its name. When this returns the job is not forgotten."""
        if self.engine.submits:
            raise InputError(f"submit: {self.engine.submits}")
        description = Description.from_json({**said, "name": said.get("name") or f"job-{self.ledger.next_number()}"})
        description.refuse(self.cluster, self.needs, self.stack.planner)
        now = self.world.now()
        job = description.job(now, self.profiles.wait)
        self.ledger.submit(description, now)
        self.world.submit(job, description)
        return description.name

    def cancel(self, job_id: str) -> None:
        """End a job for good."""
        if not any(row.id == job_id and not row.status for row in self.ledger.jobs()):
            raise InputError(f"cancel: there is no job {job_id} that has not ended; weft queue lists them")
        self.ledger.cancel(job_id)
        self.world.cancel(job_id)


def _enter(folder: Path, dry_run: bool, open_now: ExitStack) -> bool:
    """Lock the folder. A dry run only looks whether a server is there: then the server is who answers requests."""
    if not dry_run:
        open_now.enter_context(_locked(folder))
        return True
    try:
        with _locked(folder):
            return True
    except Taken:
        return False


class Taken(InputError):  # noqa: N818 - for a dry run it is none
    """Another server has the folder."""


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """One server per folder; the lock goes with the process, however it ends."""
    own(folder)  # whoever writes the ledger has commands run
    refuse_network(folder)
    try:
        lock = os.open(folder / "serve.lock", os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise InputError(f"{folder}: cannot be used ({error.strerror}); name another folder with --dir") from None
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise Taken(f"{folder}: another weft serve runs there; stop it, or choose a folder with --dir") from None
        yield
    finally:
        os.close(lock)


def _ledger(folder: Path, dry_run: bool) -> Ledger:
    """The folder's ledger; a dry run has a copy that is forgotten."""
    if not dry_run:
        return Ledger(folder)
    ledger = Ledger(None)
    ledger.copy_from(folder)
    return ledger


def notify(words: str) -> None:
    """`READY=1`, `WATCHDOG=1`, ...; nothing where systemd did not start this process."""
    address = os.environ.get("NOTIFY_SOCKET", "")
    if not address:
        return
    address = "\0" + address[1:] if address.startswith("@") else address
    with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK) as out:
        out.sendto(words.encode(), address)
