import pytest

from weft.core.cycle import Core
from weft.errors import StackError
from weft.model import Hold, Start, Submitted
from weft.policies.order.fifo import Fifo
from weft.stacks import resolve
from weft.testing import ToyWorld, toy_cluster, toy_job


def test_by_submission_then_by_arrival() -> None:
    core = Core(resolve("fifo"), ToyWorld(toy_cluster(), []))
    jobs = [toy_job("late", 8, submit_s=2.0), toy_job("early", 8, submit_s=1.0), toy_job("also", 8, submit_s=1.0)]
    decisions = core.step(2.0, [Submitted(2.0, job) for job in jobs])
    assert [(type(d), d.job) for d in decisions] == [(Start, "early"), (Start, "also"), (Hold, "late")]


def test_parameter() -> None:
    assert Fifo.from_text(None).name == "fifo"
    assert Fifo.from_text("backfill").name == "fifo:backfill"
    with pytest.raises(StackError, match="not known"):
        Fifo.from_text("easy")
