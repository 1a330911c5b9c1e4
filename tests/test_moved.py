import subprocess
import sys
from pathlib import Path

POLICIES = '''
import numpy as np

import weft.place.base
import weft.policies.order.base
from weft.executors import using
from weft.model.flows import TransferView
from weft.model.topologies import leaf_spine
from weft.model.view import ClusterView, Fact, JobView
from weft.order.base import Claim, Order, Ranking
from weft.pace.base import Admission, Pace
from weft.place.base import Answer, Place
from weft.registry import register


class Longest(Order):
    """Most left to do first."""

    name = "longest"
    needs = frozenset({Fact.ITERATIONS_LEFT})

    def rank(self, view, state):
        left = {job.id: view.iterations_left(job.id) for job in view.waiting.values()}
        longest = sorted(left, key=left.get, reverse=True)
        return Ranking([Claim(job, view.waiting[job].job.gpus, "longest") for job in longest], state)

    def turn(self, job: JobView) -> tuple[float, float]:
        return (-job.job.submit_s, 0.0)


class RoomiestRack(Place):
    """From the guide."""

    name = "roomiest-rack"

    def place(self, view, job, gpus, offer, state):
        cluster = view.cluster
        free = np.bincount(cluster.rack_of_server, weights=offer.free_per_server)
        rack = int(np.argmax(free))
        if free[rack] < gpus:
            return Answer(None, f"no rack has {gpus} GPUs free", state)
        inside = cluster.rack_of_server[cluster.server_of_gpu] == rack
        return Answer(tuple(np.flatnonzero(offer.free & inside)[:gpus].tolist()), "most room", state)


def no_two_of_a_team(waiting: TransferView, beside: tuple[TransferView, ...]) -> bool:
    return all(other.job.split("-")[0] != waiting.job.split("-")[0] for other in beside)


class Teams(Pace):
    """From the guide."""

    name = "teams"
    holds_back = True
    steers = True

    def admission(self, b_s_per_byte, eta_s_per_byte):
        return Admission("ask", ask=no_two_of_a_team)


assert Order is weft.policies.order.base.Order
assert weft.place.base.Place.__module__ == "weft.policies.place.base"
assert weft.policies.order.base.__spec__.name == "weft.policies.order.base"
register("order", "mine", Longest)
'''
POINTS = """
[weft.order]
longest = strangers:Longest
[weft.place]
roomiest-rack = strangers:RoomiestRack
[weft.pace]
teams = strangers:Teams
"""
RUN = """
from weft.core.cycle import Core
from weft.core.loop import run
from weft.stacks import resolve
from weft.testing import ToyWorld, toy_cluster, toy_job

jobs = [toy_job("a", gpus=4), toy_job("b", gpus=8, iterations=20), toy_job("c", gpus=6)]
world = ToyWorld(toy_cluster(racks=2, servers_per_rack=2, gpus_per_server=4), jobs)
core = Core(resolve("fifo", order="longest", place="roomiest-rack", pace="teams"), world)
run(core, world)
for _, time_s, decision in core.journal.entries:
    print(f"{time_s:g} {type(decision).__name__} {decision.job}")
"""


def test_a_package_of_0_1_runs_with_a_warning_for_each_old_name(tmp_path: Path) -> None:
    """As pip would have installed it. Its order has a `turn` that is asked about the job alone."""
    about = tmp_path / "strangers-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: strangers\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(POINTS)
    (tmp_path / "strangers.py").write_text(POLICIES)
    (tmp_path / "run.py").write_text(RUN)
    done = subprocess.run(
        [sys.executable, "-W", "always::DeprecationWarning", "run.py"], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["0 Start b", "0 Start a", "0 Hold c", "10 Start c"]
    warned = [line for line in done.stderr.splitlines() if "is now" in line]
    old = ("weft.order.base", "weft.model.topologies", "weft.place.base", "weft.registry", "weft.executors")
    for name in (*old, "Longest.turn(self, job)"):
        assert any(f"{name} is now" in line for line in warned), name
    assert not any("weft.model.view is" in line for line in warned)
