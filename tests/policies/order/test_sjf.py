import pytest

from weft.core.cycle import Core
from weft.errors import StackError
from weft.model import Hold, Start, Submitted
from weft.model.view import JobView
from weft.policies.order.sjf import ShortestJobFirst
from weft.stacks import resolve
from weft.testing import ToyWorld, toy_cluster, toy_job


def test_shortest_first_and_the_rest_as_they_fit() -> None:
    """Lengths 30, 10 (wide) and 20 s; 16 GPUs: the wide one first, then the 30 s job waits for room."""
    core = Core(resolve("sjf"), ToyWorld(toy_cluster(), []))
    jobs = [toy_job("long", 8, 30), toy_job("wide", 12, 10), toy_job("middle", 4, 20)]
    decisions = core.step(0.0, [Submitted(0.0, job) for job in jobs])
    assert [(type(d), d.job) for d in decisions] == [(Start, "wide"), (Start, "middle"), (Hold, "long")]


def test_turn_is_the_length_of_the_job() -> None:
    view = Core(resolve("fifo"), ToyWorld(toy_cluster(), [])).view
    assert ShortestJobFirst().turn(view, JobView(toy_job("a", 4, 10, 0.5))) == (5.0, 0.0)


def test_takes_no_parameter() -> None:
    with pytest.raises(StackError, match="sjf takes no parameter; write sjf"):
        ShortestJobFirst.from_text("x")
