"""What becomes of jobs that the controller has forgotten, and of nodes that Slurm drained for them."""

from __future__ import annotations

from pathlib import Path

import pytest

from weft.model.reason import because
from weft.testing import toy_job
from weft_live.description import Description
from weft_live.slurm.client import Snapshot
from weft_live.slurm.commands import Ended, Slurm
from weft_live.slurm.observations import recalled, to_recall, to_resume
from weft_live.slurm.reconcile import GONE, look
from weft_live.slurm.records import Node
from weft_live.slurm.states import At, Look, Over, Pin, Runs, SlurmTask, What


def test_the_accounting_is_asked_about_jobs_that_the_controller_has_forgotten(tmp_path: Path) -> None:
    """`sacct --parsable2`, as it prints them; where there is no accounting nothing is known."""
    sacct = tmp_path / "sacct"
    sacct.write_text(
        "#!/bin/sh\nprintf '17|COMPLETED|0:0\\n18|CANCELLED by 5|0:15\\n19_3|FAILED|2:0\\nodd\\n20||\\n'\n"
    )
    sacct.chmod(0o755)
    slurm = Slurm(path=f"{tmp_path}:/usr/bin:/bin")
    found = slurm.accounting(["17", "18", "19_3", "20"])
    assert found == {"17": Ended("COMPLETED", 0, 0), "18": Ended("CANCELLED", 0, 15), "19_3": Ended("FAILED", 2, 0)}
    sacct.write_text("#!/bin/sh\necho 'Slurm accounting storage is disabled' >&2\nexit 1\n")
    assert slurm.accounting(["17"]) == {}


def test_a_forgotten_job_ends_as_the_accounting_says() -> None:
    runs = Runs(At((0, 1), Pin(("n1",), 2, 1, "weft:job=17,attempt=1")), 0.0)
    task = SlurmTask(toy_job("17", 8), Description(name="17", argv=("sbatch", "x"), gpus=8), "17", runs)
    forgotten = Snapshot(1, {}, {})
    for task.missing in range(1, GONE - 1):
        assert look(task, recalled(task, forgotten), 1.0) == Look(runs)
    assert to_recall(task)
    known = recalled(task, Snapshot(1, {}, {}, recalled={"17": Ended("COMPLETED", 0, 0)}))
    assert look(task, known, 1.0).what == (What.FINISHED,)
    failed = recalled(task, Snapshot(1, {}, {}, recalled={"17": Ended("FAILED", 3, 0)}))
    assert look(task, failed, 1.0) == Look(
        Over(), (What.OVER,), because("live.failed", how=because("live.exit", status=3), restarts=0)
    )


@pytest.mark.parametrize(
    ("words", "said", "resumed"),
    [
        ("idle drain", "Duplicate jobid", True),
        ("mixed drain", "Duplicate jobid", True),
        ("idle drain completing", "Duplicate jobid", False),  # it is still ending the job
        ("idle drain not_responding", "Duplicate jobid", False),
        ("down drain", "Duplicate jobid", False),
        ("idle drain", "Duplicate jobid, and a fan is broken", False),  # an administrator's
        ("idle drain", "Prolog/Epilog failure", False),
    ],
)
def test_only_a_node_that_slurm_drained_for_a_job_that_it_had_is_resumed(words: str, said: str, resumed: bool) -> None:
    nodes = {name: Node(name, False, 8, words=words, said=said) for name in ("n1", "n9")}
    assert [one.line for one in to_resume(nodes, {"n1", "n2"})] == ["update NodeName=n1 State=RESUME"] * resumed
    assert not to_resume({"n1": Node("n1", True, 8, words="idle", said=said)}, {"n1"})
