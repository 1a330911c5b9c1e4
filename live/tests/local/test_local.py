import json
import os
import signal
import socket
import time
from collections.abc import Iterator, Sequence
from itertools import count
from pathlib import Path

import pytest

from live.tests.jobs import ENVIRONMENT, describe, local_world, python
from weft.core.cycle import Core
from weft.core.loop import run
from weft.core.stack import Stack
from weft.core.world import World
from weft.errors import StackError
from weft.model.events import Event
from weft.model.job import Job
from weft.model.reason import because, speak
from weft.stacks import resolve
from weft.testing import check_world, toy_cluster, toy_job
from weft.testing.probes import OneAtATime, plain_planner
from weft.testing.watch import Recorder
from weft_live.clock import Clock
from weft_live.description import Description
from weft_live.local import LocalWorld


@pytest.fixture
def worlds() -> Iterator[list[LocalWorld]]:
    """Worlds whose sockets are closed in the end, and whose processes are gone."""
    made: list[LocalWorld] = []
    yield made
    for world in made:
        for task in world.tasks.values():
            if task.attempt is not None:
                task.attempt.stop(0.0)
        world.close()


@pytest.mark.alone
def test_it_is_a_world(tmp_path: Path, worlds: list[LocalWorld]) -> None:
    number = count()

    def make(jobs: Sequence[Job], *, latency_s: float, failure_rate: float, seed: int) -> World:
        worlds.append(local_world(tmp_path / str(next(number)), jobs))
        return worlds[-1]

    check_world(make, iteration_s=0.1, deterministic=False)  # jobs last until they are stopped


def live(tmp_path: Path, worlds: list[LocalWorld], *descriptions: Description) -> LocalWorld:
    """A world with these jobs, all there at the beginning."""
    world = LocalWorld(toy_cluster(1, 1, 2), tmp_path / "run", Clock.begin())
    worlds.append(world)
    for said in descriptions:
        world.submit(toy_job(said.name, said.gpus, said.iterations or 1, 0.01), said)
    return world


def play(world: LocalWorld, stack: str = "fifo-backfill") -> list[Event]:
    """Let it go on until nothing is left; what it reported."""
    recorder = Recorder(world)
    run(Core(resolve(stack), recorder), recorder)
    return recorder.log


def kinds(log: Sequence[Event], job: str) -> list[str]:
    """What happened to one job."""
    return [type(event).__name__ for event in log if getattr(event, "job", None) == job]


def test_a_stack_that_paces_is_refused(tmp_path: Path, worlds: list[LocalWorld]) -> None:
    world = live(tmp_path, worlds)
    with pytest.raises(StackError, match="leaves that to the network"):
        Core(Stack("paced", plain_planner(world), pace=OneAtATime()), world)


def test_a_failing_job_is_started_again_as_often_as_it_says(tmp_path: Path, worlds: list[LocalWorld]) -> None:
    once = describe("once", ["sh", "-c", "exit 3"])
    twice = describe("twice", ["sh", "-c", '[ "$WEFT_ATTEMPT" = 3 ] || exit 4'], restarts=2)
    world = live(tmp_path, worlds, once, twice)
    log = play(world)
    assert kinds(log, "once") == ["Started", "Withdrawn"]
    again = ["Stopped", "Barred", "Cleared", "Started"]
    assert kinds(log, "twice") == ["Started", *again, *again, "Finished"]
    assert world.outcomes == {
        "once": because("live.failed", how=because("live.exit", status=3), restarts=0),
        "twice": because("live.exit", status=0),
    }


def test_a_command_that_is_not_there(tmp_path: Path, worlds: list[LocalWorld]) -> None:
    world = live(tmp_path, worlds, describe("a", ["/no/such/thing"], restarts=1), describe("b", ["true"], cwd="/no"))
    log = play(world)
    # On a busy machine a runner that is still trying may be seen first: then the job has started, and stops.
    assert [kind for kind in kinds(log, "a") if kind != "Started"] in (
        ["Failed", "Barred", "Cleared", "Withdrawn"],
        ["Stopped", "Barred", "Cleared", "Withdrawn"],
    )
    assert speak(world.outcomes["a"]) == "failed after 1 restart: cannot run /no/such/thing: No such file or directory"
    assert speak(world.outcomes["b"]) == "failed: cannot run /no: No such file or directory"


def test_the_environment_of_each_rank(tmp_path: Path, worlds: list[LocalWorld]) -> None:
    show = ["sh", "-c", 'echo "$RANK $LOCAL_RANK/$WORLD_SIZE $CUDA_VISIBLE_DEVICES $MASTER_ADDR:$MASTER_PORT"']
    world = live(
        tmp_path, worlds, describe("ranks", show, gpus=2, per_rank=True), describe("one", show, gpus=2)
    )  # fmt: skip
    play(world)
    folder = world.folder / "jobs"
    assert (folder / "ranks/1/output.0").read_text() == "0 0/2 0,1 127.0.0.1:29500\n"
    assert (folder / "ranks/1/output.1").read_text() == "1 1/2 0,1 127.0.0.1:29500\n"
    assert (folder / "one/1/output").read_text() == "0 0/1 0,1 127.0.0.1:29500\n"


def test_one_failing_rank_ends_the_others(tmp_path: Path, worlds: list[LocalWorld]) -> None:
    said = describe("a", ["sh", "-c", '[ "$RANK" = 0 ] || exit 5; sleep 600'], gpus=2, per_rank=True)
    world = live(tmp_path, worlds, said)
    assert kinds(play(world), "a") == ["Started", "Withdrawn"]


def test_what_a_job_leaves_running_is_ended_with_it(tmp_path: Path, worlds: list[LocalWorld]) -> None:
    world = live(tmp_path, worlds, describe("a", ["sh", "-c", "sleep 600 & echo $!"]))
    assert kinds(play(world), "a") == ["Started", "Finished"]
    pid = int((world.folder / "jobs/a/1/output").read_text())
    assert gone(pid)


def test_a_job_that_ignores_a_stop_is_killed(tmp_path: Path, worlds: list[LocalWorld]) -> None:
    stubborn = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True)\n"
    world = live(tmp_path, worlds, describe("a", python(stubborn + "time.sleep(600)"), grace_s=0.2))
    core = Core(resolve("fifo"), world)
    run(core, world, until=settled(core, world, lambda: output(world, "a") == "up\n"))
    world.cancel("a")
    run(core, world)
    assert speak(world.outcomes["a"]) == "cancelled; ended by SIGKILL"
    assert not core.table.jobs


def test_a_job_is_cancelled_while_it_waits(tmp_path: Path, worlds: list[LocalWorld]) -> None:
    world = live(tmp_path, worlds, describe("a", ["sleep", "0.3"], gpus=2), describe("b", ["true"], gpus=2))
    world.cancel("b")
    log = play(world)
    assert kinds(log, "b") == ["Withdrawn"]
    assert kinds(log, "a") == ["Started", "Finished"]


def test_a_runner_that_is_killed_takes_its_job_along(tmp_path: Path, worlds: list[LocalWorld]) -> None:
    """Nobody would ever hear of the job's end; so it is ended, and started again from its checkpoint."""
    script = "[ $WEFT_ATTEMPT = 2 ] || { echo $$; sleep 600; }"
    world = live(tmp_path, worlds, describe("a", ["sh", "-c", script]))
    core = Core(resolve("fifo"), world)
    run(core, world, until=settled(core, world, lambda: bool(output(world, "a"))))
    os.kill(json.loads((world.folder / "jobs/a/1/child").read_text())["runner"], signal.SIGKILL)
    run(core, world)
    assert gone(int((world.folder / "jobs/a/1/output").read_text()))
    assert core.table.ended["a"].value == "finished"
    assert world.tasks == {}


def test_a_job_that_leaves_politely_is_not_done(tmp_path: Path, worlds: list[LocalWorld]) -> None:
    """It saves its state at SIGTERM and exits with 0; it reported 7 of 50 iterations, so it is started again at 7."""
    polite = """
import signal, sys, time, weft
signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
if weft.resume_step() == 7: sys.exit(0)
weft.progress(7, saved=True); weft.progress(9)
print("up", flush=True); time.sleep(600)
"""
    world = live(tmp_path, worlds, describe("a", python(polite), iterations=50))
    core = Core(resolve("fifo"), world)
    run(core, world, until=settled(core, world, lambda: output(world, "a") == "up\n"))
    assert core.view.iterations_done("a") == 9
    task = world.tasks["a"]
    assert task.attempt is not None
    task.stopping = True
    core.table.stopping("a")
    task.attempt.stop(5.0)
    run(core, world)
    assert core.table.ended["a"].value == "finished"
    assert task.saved >= 7
    assert task.starts == 2


@pytest.mark.long  # it keeps both processors busy for as long as the flood keeps its own process from speaking
def test_a_flood_of_nonsense_does_not_keep_a_job_from_ending(tmp_path: Path, worlds: list[LocalWorld]) -> None:
    """Sixty connections that send garbage as fast as they can; the job is still heard, stopped and reported."""
    flood = """
import os, socket, threading, time, weft
path = os.environ["WEFT_PROGRESS_SOCKET"]
def shout(junk):
    while True:
        try:
            with socket.socket(socket.AF_UNIX) as s:
                s.connect(path)
                while True: s.sendall(junk)
        except OSError: time.sleep(0.01)
for junk in (b"x" * 5000, b"{}\\n" * 100, b'{"step": -1}\\n', b'{"step": true}\\n', b'{"step": 1e9}\\n', b"[[[[\\n",
             b'{"stop": 0.0}\\n', b'{"gate": null}\\n', b"\\xff\\xfe\\n", b'{"step": 3, "rank": 1}\\n'):
    threading.Thread(target=shout, args=(junk,), daemon=True).start()
while weft.progress(5) == 0.0 and not os.path.exists(os.environ["FLAG"]): time.sleep(0.01)
os._exit(0)
"""
    flag = tmp_path / "flag"
    said = describe("a", python(flood), iterations=100, env={**ENVIRONMENT, "FLAG": str(flag)})
    world = live(tmp_path, worlds, said)
    core = Core(resolve("fifo"), world)
    run(core, world, until=settled(core, world, lambda: core.view.iterations_done("a") == 5))
    flag.touch()
    run(core, world)
    assert core.table.ended["a"].value == "finished"


def test_pokes_of_strangers_do_no_harm(tmp_path: Path, worlds: list[LocalWorld]) -> None:
    world = live(tmp_path, worlds, describe("a", ["true"]))
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as stranger:
        stranger.connect(str(world.folder / "events.sock"))
        for junk in (b"", b"\xff" * 300, b"nobody", b"a"):
            stranger.send(junk)
    assert kinds(play(world), "a") == ["Started", "Finished"]


def settled(core: Core, world: LocalWorld, ready: object, within_s: float = 120.0) -> float:
    """Run until something is so; the present time."""
    until = time.monotonic() + within_s
    while not ("a" in core.table.running and core.table.jobs["a"].started_s is not None and ready()):  # type: ignore[operator]
        assert time.monotonic() < until, "it takes too long"
        run(core, world, until=world.now() + 0.05)
    return world.now()


def output(world: LocalWorld, job: str) -> str:
    """What the first attempt of a job printed."""
    path = world.folder / "jobs" / job / "1" / "output"
    return path.read_text() if path.exists() else ""


def gone(pid: int, within_s: float = 120.0) -> bool:
    """True when a process has ended (it may wait for somebody to collect it)."""
    until = time.monotonic() + within_s
    while time.monotonic() < until:
        try:
            if "\nState:\tZ" in Path(f"/proc/{pid}/status").read_text():
                return True
        except OSError:
            return True
        time.sleep(0.02)
    return False
