"""What docs/slurm.md says of warnings, arrays and dependencies, on a real Slurm."""

import time
from pathlib import Path

import pytest

from live.tests.slurm.serving import Serving, ended, running, serve_until, state
from testkit.sandbox import Sandbox, release
from weft_live.server.listing import explain_live

pytestmark = pytest.mark.engine
PREEMPTIVE = "srsf-preemptive[place=even:best-fit]"


def comment(box: Sandbox, script: Path, *options: str) -> str:
    """The comment of a job as the hook leaves it."""
    job = box.sbatch("--gpus=1", *options, str(script))
    told = box.run("squeue", "--noheader", f"--jobs={job}", "--Format=comment:200").strip()
    box.run("scancel", job)
    return told


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("#SBATCH --signal=B:USR1@120", "weft: signal=USR1 grace_s=120"),
        ("#SBATCH --time=5 --signal SIGTERM@7", "weft: signal=TERM grace_s=7"),
        ("#SBATCH --signal=12", "weft: signal=USR2 grace_s=60"),
        ("#SBATCH --signal=R:HUP@9999", "weft: signal=HUP grace_s=600"),
        ("#SBATCH --signal=KILL@10", "(null)"),  # nobody can save anything then
        ("# --signal=USR1@120", "(null)"),
        ("echo #SBATCH --signal=USR1@120", "(null)"),
    ],
)
def test_the_hook_reads_the_warning_that_a_script_asks_for(
    line: str, expected: str, box: Sandbox, tmp_path: Path
) -> None:
    if "R:" in line and release() > (23,):
        pytest.skip("this Slurm takes R: only where it preempts by itself")
    script = tmp_path / "job.sh"
    script.write_text(f"#!/bin/sh\n{line}\nsleep 1\n")
    said = comment(box, script).replace("weft: nodes=any", "").strip() or "(null)"  # it says nothing of nodes
    assert said == expected
    box.environment["SBATCH_SIGNAL"] = "B:INT@33"
    try:
        assert comment(box, script).startswith("weft: signal=INT grace_s=33"), (
            "the environment comes first, as for sbatch"
        )
    finally:
        del box.environment["SBATCH_SIGNAL"]
    own = "weft: grace_s=3"
    assert comment(box, script, f"--comment={own}").startswith(own), "what it tells weft itself comes first"


@pytest.mark.long
def test_a_script_that_asks_slurm_for_a_warning_can_save_before_it_is_stopped(
    serving: Serving, box: Sandbox, tmp_path: Path
) -> None:
    """Each has a grace of its own: one leaves within it, one is stopped when it is over; a third has none."""
    server = serving.start(PREEMPTIVE)
    jobs, at = {}, {}
    for name, line in (("saves", "B:USR1@30"), ("stays", "B:USR1@4"), ("plain", "")):
        script = tmp_path / f"{name}.sh"
        leave = f"touch {tmp_path}/{name}.saved; exit 0" if name == "saves" else f"touch {tmp_path}/{name}.warned"
        script.write_text(
            f"#!/bin/sh\n{f'#SBATCH --signal={line}' if line else ''}\ntrap '{leave}' USR1\n"
            "while true; do sleep 0.1; done\n"
        )
        jobs[name] = box.sbatch("--gpus=40", "--comment=weft: iterations=900 iteration_s=1", str(script))
    serve_until(server, running(server, *jobs.values()))
    time.sleep(1.0)
    short = serving.sbatch(128, "sleep 0.1", says="iterations=1 iteration_s=0.1")
    began = time.monotonic()

    def noted() -> bool:
        for name, job in jobs.items():
            if name not in at and job in server.core.table.waiting:
                at[name] = time.monotonic() - began
        return ended(server, short)()

    serve_until(server, noted)
    assert (tmp_path / "saves.saved").exists()
    assert (tmp_path / "stays.warned").exists()
    assert at["saves"] < 15
    assert 4.0 <= at["stays"] < 25
    serve_until(server, running(server, *jobs.values()))
    assert [server.core.table.jobs[job].preemptions for job in jobs.values()] == [1, 1, 1]


@pytest.mark.long
def test_dependencies_and_tasks_of_arrays(serving: Serving, box: Sandbox, tmp_path: Path) -> None:
    """A job comes when what it waits for has ended as it asks; one whose dependency can never be met is not started,
    and Slurm says so. A task of an array that is stopped and started again is the same task.

    Slurm looks at the dependencies of held jobs once a minute, so that all of them are met before one such look is
    waited for. Two nodes are left for those that come."""
    server = serving.start(PREEMPTIVE)
    brief = "iterations=1 iteration_s=0.1"
    fails = serving.sbatch(1, "sh -c 'sleep 0.5; exit 3'", says=brief)
    once = serving.sbatch(1, "sleep 0.1", f"--dependency=afternotok:{fails}", says=brief)
    never = serving.sbatch(1, "sleep 0.1", f"--dependency=afterok:{fails}")
    tasks, go = tmp_path / "tasks", tmp_path / "go"  # a task says that it runs, and ends when it is let go
    script = f"sh -c 'echo $SLURM_ARRAY_TASK_ID >> {tasks}; until [ -e {go}.$SLURM_ARRAY_TASK_ID ]; do sleep 0.1; done'"
    array = serving.sbatch(56, script, "--array=3,5", says="iterations=600 iteration_s=1")
    corr = serving.sbatch(1, "sleep 0.1", "--array=3,5", f"--dependency=aftercorr:{array}")
    names = [f"{array}_3", f"{array}_5"]

    def begun(times: int) -> bool:
        return running(server, *names)() and tasks.exists() and len(tasks.read_text().split()) == times

    serve_until(server, lambda: begun(2))  # a script that Slurm has started may not have written a line yet
    serve_until(server, ended(server, fails))
    short = serving.sbatch(24, "sleep 0.1", says=brief)
    serve_until(server, ended(server, short))
    serve_until(server, lambda: begun(3))  # one of them was started twice, under its own number
    assert sorted(server.core.table.jobs[name].preemptions for name in names) == [0, 1]
    assert f"{corr}_3" not in serving.statuses()
    for name in names:
        (tmp_path / f"go.{name.partition('_')[2]}").touch()
        serve_until(server, ended(server, name))
    serve_until(server, ended(server, once, f"{corr}_3", f"{corr}_5"))
    assert serving.statuses() == {fails: "failed", once: "finished", short: "finished",
                                  **dict.fromkeys([*names, f"{corr}_3", f"{corr}_5"], "finished")}  # fmt: skip
    ran = tasks.read_text().split()
    assert sorted(set(ran)) == ["3", "5"]
    assert len(ran) == 3
    assert state(box, never).startswith("PENDING")
    ends = {row.id: row.end_s or 0.0 for row in server.ledger.jobs()}
    for first, then in ((fails, once), (names[0], f"{corr}_3"), (names[1], f"{corr}_5")):
        assert server.ledger.events(then)[0].time_s >= ends[first] - 1.0
    assert "finished" in explain_live(serving.folder, server.ledger, f"{corr}_3").headline
    box.run("scancel", never)
