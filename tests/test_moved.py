import subprocess
import sys
from pathlib import Path

POLICY = '''
from weft.model.view import ClusterView, Fact
from weft.order.base import Claim, Order, Ranking
from weft.model.topologies import leaf_spine
import weft.place.base
import weft.policies.order.base
from weft.registry import register


class Mine(Order):
    """As fifo."""

    name = "mine"

    def rank(self, view, jobs, state):
        return Ranking({job.id: Claim((job.submit_s,)) for job in jobs}, state)


assert Order is weft.policies.order.base.Order
assert weft.place.base.Place.__module__ == "weft.policies.place.base"
assert weft.policies.order.base.__spec__.name == "weft.policies.order.base"
register("order", "mine", Mine)
'''


def test_a_policy_of_0_1_is_loaded_with_a_warning_for_each_old_name(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(POLICY)
    done = subprocess.run(
        [sys.executable, "-W", "always::DeprecationWarning", "mine.py"], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    told = [line for line in done.stderr.splitlines() if "is now" in line]
    for old in ("weft.order.base", "weft.model.topologies", "weft.place.base", "weft.registry"):
        assert any(f"{old} is now" in line for line in told)
    assert not any("weft.model.view is" in line for line in told)
