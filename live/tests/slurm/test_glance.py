"""A look at a Slurm that weft does not schedule: options that are refused, and true starts beside what was said."""

import time
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from testkit.sandbox import Sandbox
from weft.advise.spread import Past
from weft.model.view import JobStatus
from weft.stacks import resolve
from weft_live.ahead import forecasts
from weft_live.answers import Answers
from weft_live.slurm.glance import STACK, look, not_simulated, past_of
from weft_live.slurm.records import Node, Record, read_jobs

NODES = [Node("n1", True, 8, "a100", partitions=frozenset({"train"})), Node("n2", True, 8, "a100")]
PLAIN = Record("7", "7", "PENDING", None, False, gpus_per_job=8)
SAMPLE = Path(__file__).with_name("squeue-24.11.json")


@pytest.mark.parametrize(
    ("what", "option"),
    [
        ({"nodes_said": "--reservation"}, "--reservation"),
        ({"nodes_said": "--constraint"}, "--constraint"),
        ({"dependency": "afterok:3"}, "--dependency"),
        ({"eligible_s": 2000.0}, "--begin"),
        ({"array_limit": 2}, "--array"),
        ({"het": True}, "heterogeneous"),
        ({"held": True}, "priority 0"),
        ({"reason": "QOSMaxGRESPerUser"}, "QOSMaxGRESPerUser"),
        ({"gpu": "h100"}, "h100"),
        ({"partition": "train"}, "--partition"),
    ],
)
def test_what_cannot_be_simulated_names_its_option(what: dict[str, object], option: str) -> None:
    assert not_simulated(PLAIN, NODES, 1000.0) == ""
    assert option in not_simulated(replace(PLAIN, **what), NODES, 1000.0)  # type: ignore[arg-type]


def test_the_past_is_what_sacct_says_of_jobs_with_gpus() -> None:
    """As sacct of 22.05 to 26.05 writes it; a limit may be no number."""
    rows = [
        ["9", "ann", "billing=8,cpu=8,gres/gpu=8,node=1", "2024-05-01T00:10:00", "2024-05-01T03:00:00", "7200", "240"],
        ["8", "bob", "billing=1,cpu=1", "2024-05-01T00:00:00", "2024-05-01T01:00:00", "3600", "60"],
        ["7", "bob", "cpu=4,gres/gpu:a100=2,gres/gpu=2", "2024-05-01T00:00:00", "2024-05-01T01:00:00", "60", "NONE"],
        ["6", "bob", "gres/gpu=2", "2024-05-01T00:00:00", "Unknown", "60", "60"],
    ]
    found = past_of(rows)
    assert [(one.user, one.gpus, one.took_s, one.claim_s) for one in found][1] == ("ann", 8, 7200.0, 14400.0)
    assert (found[0].user, found[0].claim_s, len(found)) == ("bob", None, 2)
    assert found[1].submit_s - found[0].submit_s == 600.0


def test_priorities_and_ends_are_read_from_newer_versions() -> None:
    records = read_jobs(SAMPLE.read_text(encoding="utf-8"))
    assert records
    assert all(record.end_s >= 0 and record.priority >= 0 for record in records)
    assert any(record.priority for record in records if not record.held)


@pytest.mark.engine
@pytest.mark.alone
def test_on_a_real_slurm_true_starts_lie_in_the_range(box: Sandbox, tmp_path: Path) -> None:
    """Thirty jobs of a second to six show how lengths compare with limits. Then eight jobs that want all of the GPUs
    queue up behind one. Slurm alone schedules them; starts are compared with what was said before."""
    seconds = [1 + (7 * i) % 6 for i in range(30)]
    for s in seconds:
        box.run("scontrol", "release", box.sbatch("--gpus-per-node=8", "--nodes=1", "--time=1", wrap=f"sleep {s}"))
    box.wait(lambda: not box.run("squeue", "--noheader", "--states=PD,R,CG,S,CF"))
    with closing(Answers(tmp_path)) as answers:
        first = look(box.slurm, frozenset())
        assert not first.accounting
        assert sum(one.claim_s == 60.0 for one in first.present.past) >= 25  # others ran here, too
        answers.saw(first.ended)
        jobs = []
        for s in [5, *(1 + (5 * i) % 6 for i in range(8))]:
            jobs.append(box.sbatch("--gpus-per-node=8", "--nodes=16", "--time=1", wrap=f"sleep {s}"))
            box.run("scontrol", "release", jobs[-1])
        box.wait(lambda: any(r.running for r in read_jobs(box.slurm.jobs())))
        at = look(box.slurm, frozenset(), answers.past(100)).present
        assert isinstance(at.past[0], Past)
        assert {job.id for job in at.jobs if job.status is JobStatus.RUNNING} <= set(jobs)
        assert len(at.owners) == 128
        queued = [job for job in jobs if job in at.waiting]
        assert len(queued) >= 6
        said = {one.job: one for one in forecasts(at, resolve(STACK), queued, n=60, arrivals=False)}
        starts: dict[str, float] = {}

        def all_started() -> bool:
            starts.update(look(box.slurm, frozenset()).started)
            time.sleep(0.5)
            return set(queued) <= starts.keys()

        box.wait(all_started)
    told = [(said[job].starts_in.low, starts[job] - at.now_s, said[job].starts_in.high) for job in queued]
    slack_s = [3.0 + 1.5 * i for i in range(len(told))]  # whole seconds, and what Slurm takes between two such jobs
    inside = [low - slack <= came <= high + slack for (low, came, high), slack in zip(told, slack_s, strict=True)]
    assert sum(inside) >= 0.75 * len(inside), told
