"""`weft testbed up`, a server whose jobs run on it, `weft testbed down`."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from live.tests.jobs import ENVIRONMENT
from live.tests.serving import all_ended, serve_until
from live.tests.testbed.needs import need_testbed
from weft.cli.main import run
from weft.scenario import Scenario
from weft.scenario.build import build_cluster
from weft.stacks import resolve
from weft_live.engine import find
from weft_live.server.server import Server
from weft_live.testbed.keeper import standing
from weft_live.testbed.world import TestbedWorld

need_testbed()
pytestmark = pytest.mark.testbed

SCENARIO = Path(__file__).parents[3] / "examples" / "ddp" / "two-racks.toml"
# Each rank says where it is, and reaches the address of rank 0.
JOB = """
import os, socket, time
rank, port = int(os.environ["RANK"]), int(os.environ["MASTER_PORT"])
print(os.stat("/proc/self/ns/net").st_ino, flush=True)
if rank == 0:
    listener = socket.create_server((os.environ["MASTER_ADDR"], port))
    listener.accept()[0].sendall(b"x" * 100)
else:
    for _ in range(500):
        try:
            socket.create_connection((os.environ["MASTER_ADDR"], port)).recv(100)
            break
        except ConnectionRefusedError:
            time.sleep(0.02)
    else:
        raise SystemExit("nobody there")
"""


def test_jobs_of_a_server_run_in_the_namespaces_of_their_servers(tmp_path: Path) -> None:
    assert run(["testbed", "down", "--dir", str(tmp_path)]) == 2
    up = [sys.executable, "-m", "weft", "testbed", "up", str(SCENARIO), "--dir", str(tmp_path), "--scale", "125"]
    came = subprocess.run(up, capture_output=True, text=True)  # a process of its own: it leaves a child behind
    assert came.returncode == 0, came.stderr
    assert "divided by 125" in came.stdout
    bed = standing(tmp_path)
    assert bed is not None
    try:
        inodes = {os.stat(host["netns"]).st_ino for host in bed.hosts.values()}
        cluster, engine = build_cluster(Scenario.load(SCENARIO), None), find("testbed", {})
        engine.refuse(cluster, tmp_path)
        with Server(tmp_path, cluster, resolve("fifo"), engine=engine) as serving:
            job = {"name": "two", "argv": [sys.executable, "-c", JOB], "env": ENVIRONMENT, "cwd": "/", "grace_s": 2.0}
            serving.submit({**job, "gpus": 2, "per_rank": True})
            serve_until(serving, all_ended(serving), 60.0)
            assert isinstance(serving.world, TestbedWorld)
            assert [row.status for row in serving.ledger.jobs()] == ["finished"]
        seen = {int(file.read_text().split()[0]) for file in (tmp_path / "jobs" / "two" / "1").glob("output.*")}
        assert len(seen) == 2
        assert seen <= inodes
    finally:
        assert run(["testbed", "down", "--dir", str(tmp_path)]) == 0
    assert standing(tmp_path) is None
    assert not Path(f"/proc/{bed.pid}/ns/net").exists() or os.stat(f"/proc/{bed.pid}/ns/net").st_ino not in inodes
