"""The thread that talks to Slurm is bounded in what it does between two looks; and taking over from another server."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import pytest

from live.tests.slurm.serving import Serving, ended, running, serve_until, until_there
from testkit.sandbox import Sandbox
from weft.errors import InputError
from weft.stacks import resolve
from weft_live.server.server import Server
from weft_live.slurm.client import Client, Command
from weft_live.slurm.commands import Slurm, Unreachable
from weft_live.slurm.engine import SlurmEngine
from weft_live.slurm.states import Do, Pin

pytestmark = pytest.mark.engine


class Counted(Slurm):
    """The real commands, with a note of how many lines went to scontrol between two looks."""

    def __init__(self, conf: str) -> None:
        super().__init__(conf)
        self.lines = [0]

    def jobs(self) -> str:
        text = super().jobs()
        self.lines.append(0)
        return text

    def scontrol(self, lines: Sequence[str]) -> str:
        self.lines[-1] += len(lines)
        return super().scontrol(lines)


def test_nothing_is_released_while_nodes_may_run_what_a_new_controller_has_forgotten(
    box: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor while a node of it has not told the new controller what it runs. Slurm goes on for half a minute to show a
    node as it was before."""
    up_s = 10.0
    monkeypatch.setattr("weft_live.slurm.client.ENDED_S", up_s)
    box.pause("n2")
    box.kill("slurmctld")
    box.start_controller()
    here, there = (box.sbatch("--gpus=1", "--begin=tomorrow", wrap="true") for _ in range(2))
    slurm = Slurm(str(box.conf))
    client = Client(slurm, 0.1)

    def held_after_a_release(job: str, node: str) -> bool:
        pin = Pin((node,), 1, 1, "")
        number = client.give([Command(Do.RELEASE, job, pin, again=True)], [], busy=True)
        until = time.monotonic() + 60
        while time.monotonic() < until:
            snapshot = client.take()
            if snapshot is not None and not snapshot.trouble and snapshot.after >= number:
                return snapshot.jobs[job].held
            time.sleep(0.01)
        raise TimeoutError

    try:
        young = slurm.up_s(0.0)
        assert held_after_a_release(here, "n1") or young > up_s - 3.0, "it would run beside what its nodes end"
        box.wait(lambda: slurm.up_s(0.0) > up_s + 1.0 and slurm.silent(box.names) == {"n2"})
        assert not held_after_a_release(here, "n1")
        assert held_after_a_release(there, "n2")
        box.pause("n2", False)
        box.wait(lambda: not slurm.silent(box.names))
        assert not held_after_a_release(there, "n2")
    finally:
        box.pause("n2", False)
        client.close()
        box.run("scancel", here, there)


@pytest.mark.long
def test_a_flood_of_orders_does_not_keep_anybody_from_looking(box: Sandbox) -> None:
    """Of 350 commands at most a hundred are carried out between two looks, and all of them in the end."""
    job = box.sbatch("--gpus=1", wrap="true")
    slurm = Counted(str(box.conf))
    client = Client(slurm, 0.1)
    try:
        number = client.give([Command(Do.HOLD, job)] * 350, [], busy=True)
        seen, until = [0], time.monotonic() + 60
        while seen[-1] < number and time.monotonic() < until:
            snapshot = client.take()
            if snapshot is not None and not snapshot.trouble:
                seen.append(snapshot.after)
            time.sleep(0.01)
        assert seen[-1] == number == 350
        assert sum(slurm.lines) == 350
        assert max(slurm.lines) <= 100
        assert len(set(seen)) > 3, "there were looks in between"
        assert client.give([Command(Do.HOLD, job)], [], busy=False) == 351
    finally:
        client.close()


@pytest.mark.long
def test_the_watchdog_hears_nothing_of_a_server_that_does_not_look(
    serving: Serving, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is told that all is well while Slurm is looked at, and while Slurm says that it cannot answer; it is told
    nothing while a look does not come back, whatever else the server does."""
    asked, go_on = serving.box.slurm.jobs, threading.Event()
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as heard:
        heard.bind(str(tmp_path / "n"))
        heard.setblocking(False)
        monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "n"))
        server = serving.start()

        def alive(seconds: float = 3.0) -> bool:
            """Whether it was said in so long, but for the first time: that is said when it begins to run."""
            server.run(server.world.now() + seconds)
            found = []
            with suppress(BlockingIOError):
                while True:
                    found.append(heard.recv(100))
            return found.count(b"WATCHDOG=1") > 1

        def hang() -> str:
            go_on.wait()
            return asked()

        def away() -> str:
            raise Unreachable("squeue: nobody is there")

        try:
            serve_until(server, lambda: server.world.looks > 0)
            assert any(alive() for _ in range(20)), "a busy machine needs its time"
            monkeypatch.setattr(serving.box.slurm, "jobs", away)
            assert any(alive() for _ in range(20))
            assert server.world.look_age_s() > 2.0
            monkeypatch.setattr(serving.box.slurm, "jobs", hang)
            alive(2.5)
            assert not alive(3.0)
        finally:
            go_on.set()
        assert any(alive() for _ in range(20))


def test_the_jobs_of_a_server_that_has_ended_can_be_taken_over(serving: Serving, box: Sandbox, tmp_path: Path) -> None:
    """A second folder yields in words as long as there is a job of the first. With --take what waits is scheduled, what
    runs is left alone, and its GPUs are not given away."""
    first = serving.start()
    runs, waits = serving.sbatch(64, until_there(tmp_path / "go")), serving.sbatch(128, "sleep 0.2")
    serve_until(first, running(first, runs))
    serve_until(first, lambda: waits in first.core.table.waiting)
    first.close()

    def another(take: bool) -> Server:
        engine = SlurmEngine(box.slurm, poll_s=0.2, take=take)
        stack = resolve("fifo-backfill[place=even:best-fit]")
        return Server(tmp_path / f"other{take}", serving.cluster, stack, engine=engine, say=lambda _: None)

    with another(False) as server, pytest.raises(InputError, match=r"is served by the weft serve of .*/run, which was"):
        serve_until(server, lambda: False)
    assert box.run("squeue", "--noheader", f"--jobs={runs}", "--format=%T").strip() == "RUNNING"
    with another(True) as server:
        more = serving.sbatch(64, "sleep 0.2")
        serve_until(server, ended(server, more))
        assert set(server.core.table.jobs) == {waits}, "it wants GPUs of the job that runs, and waits for them"
        assert len(server.world.down) == 8
        (tmp_path / "go").touch()
        serve_until(server, ended(server, waits))
        assert {row.id: row.status for row in server.ledger.jobs()} == {more: "finished", waits: "finished"}
    told = box.run("scontrol", "--oneliner", "show", "job", runs)
    assert "JobState=COMPLETED" in told
    assert "Restarts=0" in told
