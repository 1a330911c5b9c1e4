import os
import signal
from pathlib import Path

from live.tests.jobs import python
from live.tests.serving import all_ended, said, serve_until, server
from weft_live import family

# Starts a worker in a session of its own, which ignores SIGTERM and outlives its parent; notes both.
LAUNCHER = """
import os, signal, subprocess, sys, time
code = "import signal,sys,time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)"
worker = subprocess.Popen([sys.executable, "-S", "-c", code], start_new_session=True, env=ENV)
with open(sys.argv[1], "a") as file: print(os.environ["WEFT_ATTEMPT"], worker.pid, file=file)
if sys.argv[2] == "leaves": sys.exit(0)
time.sleep(600)
"""


def alive(pid: int) -> bool:
    """Whether a process runs, and is not only waiting to be buried."""
    return family.processes().get(pid, (0, "Z"))[1] not in "ZX"


def workers(log: Path) -> dict[int, int]:
    """The worker of each attempt."""
    rows = (line.split() for line in log.read_text().splitlines()) if log.exists() else ()
    return {int(attempt): int(pid) for attempt, pid in rows}


def job(log: Path, how: str, clean: bool = False) -> tuple[str, ...]:
    """A launcher; `clean`: its worker has an empty environment."""
    return python(LAUNCHER.replace("ENV", "{}" if clean else "None"), log, how)


def test_a_stopped_job_leaves_nothing_running(tmp_path: Path) -> None:
    """A preempted job starts again only when the worker of its first start is gone."""
    log = tmp_path / "log"
    with server(tmp_path / "run", "srsf-preemptive", 2) as serving:
        told = {"gpus": 2, "grace_s": 0.3, "iterations": 1000, "iteration_s": 1.0}
        serving.submit(said("long", job(log, "stays", clean=True), **told))
        serve_until(serving, lambda: 1 in workers(log))
        ends = tmp_path / "ends"
        until = ["sh", "-c", f"until [ -e {ends} ]; do sleep 0.05; done"]
        serving.submit(said("short", until, gpus=2, iterations=1, iteration_s=0.1))
        seen = []

        def again() -> bool:
            if serving.core.table.jobs.get("short") is not None and "short" in serving.core.table.placements:
                seen.append(alive(workers(log)[1]))
                ends.touch()
            return 2 in workers(log)

        serve_until(serving, again)
        assert seen
        assert not any(seen), "its GPUs were given away while a worker of it ran"
        serving.cancel("long")
        serve_until(serving, all_ended(serving))
        assert not any(alive(pid) for pid in workers(log).values())


def test_what_a_finished_job_leaves_behind_is_ended(tmp_path: Path) -> None:
    log = tmp_path / "log"
    with server(tmp_path / "run") as serving:
        serving.submit(said("a", job(log, "leaves")))
        serve_until(serving, all_ended(serving))
        assert [row.status for row in serving.ledger.jobs()] == ["finished"]
        assert not alive(workers(log)[1])


def test_a_killed_runner_leaves_nothing_running(tmp_path: Path) -> None:
    """Its GPUs are free when what it left behind is gone, and then the job starts again."""
    log = tmp_path / "log"
    with server(tmp_path / "run") as serving:
        serving.submit(said("a", job(log, "stays"), restarts=1))
        serve_until(serving, lambda: 1 in workers(log))
        attempt = serving.world.tasks["a"].attempt
        assert attempt is not None
        os.kill(attempt.pid, signal.SIGKILL)
        serve_until(serving, lambda: 2 in workers(log))
        assert not alive(workers(log)[1])
        serving.cancel("a")
        serve_until(serving, all_ended(serving))
