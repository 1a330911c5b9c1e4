"""A node is lost in the middle of a job: what is kept of its work is the same in the simulated and in real worlds.

Of `done` iterations those up to the last checkpoint are kept, `done // every * every`; without a checkpoint nothing is.
The job goes on from there, on other GPUs, and its user loses nothing else.
"""

import json
import os
import re
import signal
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from live.tests.jobs import python
from live.tests.serving import said, serve_until, server
from live.tests.slurm.serving import SOURCE, Serving, ended, running, state
from live.tests.slurm.serving import serve_until as slurm_until
from testkit.sandbox import Sandbox
from weft.errors import ScenarioError
from weft.scenario import Scenario
from weft.scenario.build import build_workload
from weft.sim import NetworkSpec, RunSpec, simulate
from weft.stacks import resolve
from weft.testing import toy_cluster, toy_job
from weft_live.server.listing import explain_live

EVERY = {"saves": 10, "never": 10**6}  # iterations between checkpoints

# Says where it begins, and reports.
BEGINS = """
import sys, time, weft
with open(sys.argv[1], "a") as file: print(weft.resume_step(), file=file)
for step in range(weft.resume_step(), int(sys.argv[2])):
    weft.progress(step)
    time.sleep(0.05)
weft.progress(int(sys.argv[2]))
"""

# The same, but the first start reports one iteration over and over until it is stopped, and later ones do not linger.
STAYS = """
import sys, time, weft
with open(sys.argv[1], "a+") as file:
    first = not file.tell()
    print(weft.resume_step(), file=file)
for step in range(weft.resume_step(), 60):
    weft.progress(step)
    while first and step == 25:
        time.sleep(0.01)
        weft.progress(step)
weft.progress(60)
"""


def kept(done: int, every: int) -> int:
    """The statement that holds in every world."""
    return done // every * every


@pytest.mark.parametrize("name", EVERY)
@pytest.mark.parametrize("spare", [True, False])
def test_simulated(name: str, spare: bool) -> None:
    """Iterations of a second; the server of a job is lost at 35.5 s for 20 s. It goes on at once where there is another
    server, else when its own is back; of 35 iterations 30 or none are kept."""
    servers = 2 if spare else 1
    job = toy_job("a", 4, 100, checkpoint_every=EVERY[name])
    lost = toy_cluster(1, servers, 4).servers[0].name
    run = RunSpec(outages=((lost, 35.5, 20.0), (lost, 500.0, 1.0)))
    result = simulate(toy_cluster(1, servers, 4), [job], resolve("fifo"), NetworkSpec(), run)
    found = result.jobs.row(0, named=True)
    begins_s = 35.5 if spare else 55.5
    assert found["finish_s"] == pytest.approx(begins_s + 100 - kept(35, EVERY[name]))
    assert found["preemptions"] == 0, "nobody decided it"
    spans = [(row["start_s"], row["end_s"], row["end"]) for row in result.spans.iter_rows(named=True)]
    assert spans == [
        (0.0, 35.5, f"server {lost} was lost"), (begins_s, pytest.approx(found["finish_s"]), "finished")
    ]  # fmt: skip


def test_a_server_that_is_lost_while_a_job_is_starting_there() -> None:
    """The start fails and is tried elsewhere; the results say nothing of a run."""
    lost = toy_cluster(1, 2, 4).servers[0].name
    run = RunSpec(outages=((lost, 5.0, 100.0),), start_latency_s=10.0)
    result = simulate(toy_cluster(1, 2, 4), [toy_job("a", 4, 20)], resolve("fifo"), NetworkSpec(), run)
    assert result.jobs.row(0, named=True)["finish_s"] == pytest.approx(5.0 + 10.0 + 20.0)
    assert [row["start_s"] for row in result.spans.iter_rows(named=True)] == [5.0]


def test_a_scenario_says_which_servers_are_lost(tmp_path: Path) -> None:
    demo = Path(__file__).parents[3] / "examples" / "demo.toml"
    file = tmp_path / "lost.toml"
    file.write_text(
        re.sub(r"(?m)^\[run\]$", '[run]\noutages = [{ server = "mars", at_s = 1.0, for_s = 2.0 }]', demo.read_text())
    )
    with pytest.raises(ScenarioError, match=r"run.outages: there is no server mars; there are \w+"):
        build_workload(Scenario.load(file), toy_cluster(), 0)


@pytest.mark.parametrize("name", EVERY)
def test_local(name: str, tmp_path: Path) -> None:
    """What stands for a node here is the job's runner: it is killed, and its processes with it."""
    log, every = tmp_path / "begins", EVERY[name]
    with server(tmp_path / "run") as serving:
        serving.submit(said("a", python(STAYS, log), gpus=4, iterations=60, checkpoint_every=every))
        attempt = tmp_path / "run" / "jobs" / "a" / "1"
        first = serving.world.attempt("a", 1)  # type: ignore[attr-defined]
        serve_until(serving, lambda: first.progress().step == 25)
        os.kill(json.loads((attempt / "child").read_text())["runner"], signal.SIGKILL)
        serve_until(serving, lambda: all(row.status for row in serving.ledger.jobs()))
        assert [row.status for row in serving.ledger.jobs()] == ["finished"]
    assert [int(line) for line in log.read_text().split()] == [0, kept(25, every)]


@pytest.mark.long
@pytest.mark.engine
def test_on_slurm(serving: Serving, box: Sandbox, tmp_path: Path) -> None:
    """Two nodes at a time, since Slurm needs a while to notice. Of one the slurmd is killed: Slurm requeues its job,
    and weft starts it on another node. Two jobs share the other one, of which one saves its state: that node dies with
    all that runs there. A third has a job that is left alone."""
    live = serving.start()
    plain, other = serving.sbatch(8, "sleep 90"), serving.sbatch(8, "sleep 90")
    slurm_until(live, running(live, plain, other))
    jobs = {}
    for name, every in EVERY.items():
        script = tmp_path / f"{name}.py"
        script.write_text(BEGINS)
        command = f"env PYTHONPATH={SOURCE} /usr/bin/python3 {script} {tmp_path / name} 600"
        jobs[name] = serving.sbatch(4, command, says=f"iterations=600 checkpoint_every={every}")
    firsts = {name: live.world.attempt(job, 1) for name, job in jobs.items()}  # type: ignore[attr-defined]
    slurm_until(live, lambda: all(first.progress().step >= 25 for first in firsts.values()))
    assert [state(box, job) for job in (plain, other, *jobs.values())] == [
        f"RUNNING None {node}" for node in ("n1", "n2", "n3", "n3")
    ]
    box.kill("n1")
    die(box, "n3", set(jobs.values()))
    try:
        begun: Callable[[str], list[str]] = lambda name: (tmp_path / name).read_text().split()  # noqa: E731
        slurm_until(live, lambda: all(len(begun(name)) == 2 for name in jobs))
        slurm_until(live, lambda: live.world.tasks[plain].starts == 2 and running(live, plain)())  # type: ignore[attr-defined]
        assert state(box, plain) in {f"RUNNING None {node}" for node in box.names if node not in ("n1", "n2", "n3")}
        assert live.core.table.gpus.down == {0, 2}
        assert live.world.tasks[other].starts == 1, "its neighbour was left alone"  # type: ignore[attr-defined]
        told = [line.text for line in explain_live(serving.folder, live.ledger, plain).lines]
        assert any(text.startswith("off its GPUs: requeued by Slurm") for text in told)
    finally:
        for node in ("n1", "n3"):
            box.start_node(node)
    for name, every in EVERY.items():
        done = firsts[name].progress().step
        assert done >= 25
        assert [int(word) for word in begun(name)] == [0, kept(done, every)]
        assert live.core.table.jobs[jobs[name]].failures == 1
    slurm_until(live, lambda: not live.core.table.gpus.down)
    box.run("scancel", *jobs.values())
    slurm_until(live, ended(live, *jobs.values()))


def die(box: Sandbox, node: str, jobs: set[str]) -> None:
    """As a machine does whose power fails: its slurmd, then those who watch over jobs, then the jobs."""
    box.kill(node)
    mine = os.fsencode(str(box.folder)) + b"/"
    steps, rest = [], []
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            words, environment = (process / "cmdline").read_bytes(), (process / "environ").read_bytes()
            if words.startswith(b"slurmstepd") and any(f"[{job}.".encode() in words for job in jobs):
                steps.append(int(process.name))
            elif mine in environment and f"SLURMD_NODENAME={node}\0".encode() in environment:
                rest.append(int(process.name))
    assert steps
    for pid in (*steps, *rest):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
