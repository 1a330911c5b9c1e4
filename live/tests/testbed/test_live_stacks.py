"""Stacks that shift and pace, at work on unmodified jobs over real TCP: `weft serve --world testbed`.

Two jobs of three ranks on three servers with two GPUs each: both have a rank on the server in the middle, and its NIC.
"""

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from live.tests.jobs import ENVIRONMENT
from live.tests.serving import all_ended, serve_until
from live.tests.testbed.needs import need_testbed
from weft.core.stack import Stack
from weft.network.topologies import Machine, leaf_spine
from weft.stacks import resolve
from weft_live.agent.sockets import UNLIMITED, Process
from weft_live.engine import find
from weft_live.server.server import Server
from weft_live.testbed import replay
from weft_live.testbed.build import Testbed
from weft_live.testbed.jobs import Timing
from weft_live.testbed.keeper import announce
from weft_live.testbed.plan import blueprint
from weft_live.testbed.world import TestbedWorld

need_testbed()
pytestmark = pytest.mark.testbed

SCALE = 125.0  # 25 Gbit/s are 200 Mbit/s
HELD = 500_000  # a fiftieth of that
CLUSTER = leaf_spine(1, 3, Machine(gpus_per_server=2, nic_gbps=25.0))
WIRE = 2_500_000  # bytes that each rank sends: 100 ms of a NIC
SEEN = 6  # iterations at the end that count


@pytest.fixture(scope="module")
def bed() -> Iterator[Testbed]:
    with Testbed(blueprint(CLUSTER, SCALE)) as made:
        yield made


def _profile(folder: Path) -> str:
    """The model of both jobs on the cluster that is not scaled down; a ring in Python takes its time, too."""
    message = WIRE * SCALE / (2 * 2 / 3)  # a ring of three sends four thirds of it
    tasks = [
        {"type": "compute", "name": "compute", "seconds": 0.168},
        {"type": "transfer", "name": "gradients", "bytes": message, "after": [0]},
    ]
    file = folder / "model.json"
    said = {"format": "weft-profile", "version": 1, "kind": "graph", "name": "small", "workers": 3, "tasks": tasks}
    file.write_text(json.dumps(said))
    return str(file)


def _limits(folder: Path) -> set[int]:
    """What the kernel allows the sockets of all jobs that write their logs there."""
    found: set[int] = set()
    for process in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            told = process.read_bytes()
            if b"trainer.py" in told and str(folder).encode() in told:
                there = Process(int(process.parent.name))
                found |= {socket.paced() for socket in there.sockets({}).values() if not socket.near}
                there.close()
        except OSError:
            continue
    return found


class Ran:
    """Two jobs under a stack, to their end."""

    def __init__(self, bed: Testbed, folder: Path, stack: Stack, iterations: int = 10) -> None:
        folder.mkdir(exist_ok=True)
        self.said: list[str] = []
        self.limits: set[int] = set()
        self.gates: set[str] = set()
        announce(folder, bed)
        model = _profile(folder)
        with Server(folder, CLUSTER, stack, engine=find("testbed", {}), say=self.said.append) as serving:
            world = serving.world
            assert isinstance(world, TestbedWorld)
            world.plane.tells_s = 1.0
            serving.run(world.now() + 0.02)
            world.plane.open().wait()  # an agent for each host: starting them may take longer than these jobs last
            for name in "ab":
                code = [str(Path(__file__).with_name("trainer.py")), str(Path(replay.__file__).parent)]
                argv = [sys.executable, "-S", *code, str(folder / name), str(iterations), str(WIRE)]
                job = {"name": name, "argv": argv, "env": ENVIRONMENT, "cwd": "/", "grace_s": 2.0, "per_rank": True}
                serving.submit({**job, "gpus": 3, "iterations": iterations, "model": model})

            def over() -> bool:
                self.limits |= _limits(folder)
                self.gates |= serving.core.table.gates.keys()
                return all_ended(serving)()

            serve_until(serving, over, 90.0)
            assert world.control is not None
            assert world.control.switches is not None
            self.messages = world.control.switches.messages
            assert {row.id: row.status for row in serving.ledger.jobs()} == {"a": "finished", "b": "finished"}
        self.timings = [Timing(name, np.loadtxt(folder / f"{name}.0", ndmin=2)) for name in "ab"]

    @property
    def both(self) -> float:
        """Part of the time on the network in which both jobs sent, over the last iterations. A job that is held
        waits before its bytes go, so it sent in the last tenth of a second of what it took."""
        a, b = (t.rows[-SEEN:, 2] for t in self.timings)
        return float(np.maximum(0.1 - np.abs(a[:, None] - b[None, :]), 0.0).sum() / (0.1 * len(a)))


def test_dally_with_cassini_shifts_jobs_that_nobody_edited(bed: Testbed, tmp_path: Path) -> None:
    ran = Ran(bed, tmp_path, resolve("dally+cassini"), 18)
    slowest = max(np.median(t.iterations_s[-SEEN:]) for t in ran.timings)
    assert ran.gates == {"a", "b"}
    assert HELD in ran.limits  # held at their gates
    assert ran.both < 0.2
    assert slowest < 1.2 * 0.268


@pytest.mark.long
def test_ada_srsf_gives_whole_gpus_and_lets_one_of_two_equal_transfers_wait(bed: Testbed, tmp_path: Path) -> None:
    ran = Ran(bed, tmp_path, resolve("ada-srsf-whole"))
    assert any(line.startswith("a: its TCP sockets are paced on 2 servers; RDMA") for line in ran.said)
    assert ran.limits == {HELD, UNLIMITED}
    assert ran.both < 0.2


def test_flow_plans_rates_on_every_host_over_the_tables_of_switches(bed: Testbed, tmp_path: Path) -> None:
    ran = Ran(bed, tmp_path, resolve("fifo", pace="flow:slot=20ms"), 7)
    planned = ran.limits - {HELD, UNLIMITED}
    assert planned
    assert max(planned) <= 25e6  # no more than the NIC has
    assert ran.messages > 50
