import pytest

from weft.core.layered import Layered
from weft.stacks.registry import make
from weft.testing import check_planner


@pytest.mark.parametrize("place", ["best-fit", "first-fit:shared", "random", "lwf:1,whole"])
@pytest.mark.parametrize("order", ["fifo", "srsf", "srsf:preemptive"])
def test_conforms(order: str, place: str) -> None:
    check_planner(lambda: Layered(make("order", order), make("place", place)), workloads=range(2))
