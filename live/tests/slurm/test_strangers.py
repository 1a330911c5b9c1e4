"""Jobs that have GPUs of weft's nodes, and that weft has not started, or not so."""

from __future__ import annotations

from urllib.request import urlopen

import pytest

from live.tests.slurm.serving import Serving, ended, running, serve_until, state
from testkit.sandbox import Sandbox, release
from weft.model.reason import because, code_of
from weft.network.topologies.hostlist import expand

pytestmark = pytest.mark.engine


def test_what_weft_did_not_start_is_left_alone(serving: Serving, box: Sandbox) -> None:
    """A job that an administrator let pass has GPUs of n1: weft stays away from that node until it is over."""
    stray = serving.sbatch(2, "sleep 600")
    box.run("scontrol", "update", f"JobId={stray}", "ReqNodeList=n1")
    box.run("scontrol", "release", stray)
    box.wait(lambda: state(box, stray).startswith("RUNNING"))
    server = serving.start(metrics="0")
    job = serving.sbatch(8, "sleep 600")
    serve_until(server, running(server, job))
    assert state(box, job) == "RUNNING None n2"
    assert server.world.down[0] == because("slurm.stranger", jobs=(stray,))
    told = urlopen(f"http://127.0.0.1:{server.metrics_server.port}/metrics").read().decode()  # type: ignore[union-attr]
    assert "weft_strangers 1.0" in told
    box.run("scancel", stray)
    serve_until(server, lambda: not server.core.table.gpus.down)


def test_what_weft_did_not_start_waits_in_its_queue_if_the_operator_says_so(serving: Serving, box: Sandbox) -> None:
    """It is held, and comes in when Slurm, which puts off what is requeued, lets it. One without GPUs, and one that
    cannot be requeued, run on."""
    stray, plain, fixed = serving.sbatch(8, "sleep 600"), box.sbatch(wrap="sleep 600"), serving.sbatch(8, "sleep 600")
    box.run("scontrol", "update", f"JobId={fixed}", "Requeue=0")
    box.run("scontrol", "release", stray, fixed)
    box.wait(lambda: all(state(box, job).startswith("RUNNING") for job in (stray, plain, fixed)))
    server = serving.start(strangers="requeue")
    serve_until(server, lambda: server.ledger.meta("later", []) == [stray])
    assert list(server.world.down.values()) == [because("slurm.stranger", jobs=(fixed,))]
    assert [state(box, job).split()[0] for job in (stray, plain, fixed)] == ["PENDING", "RUNNING", "RUNNING"]


def test_a_job_that_is_shrunk_while_it_runs_is_left_to_slurm(serving: Serving, box: Sandbox) -> None:
    """What Slurm says is taken counts: the node that it gave back is used at once, the other one when it has ended."""
    if release() > (23,):
        pytest.skip("this Slurm takes no nodes from a job that runs")
    server = serving.start()
    job = serving.sbatch(16, "sleep 600", "--nodes=2")
    serve_until(server, running(server, job))
    first, second = expand(state(box, job).split()[2])
    box.run("scontrol", "update", f"JobId={job}", "NumNodes=1")
    serve_until(server, ended(server, job))
    assert code_of(next(row.why for row in server.ledger.jobs() if row.id == job)) == "slurm.shrunk"
    serve_until(server, lambda: bool(server.world.down))
    large = serving.sbatch(120, "sleep 600")
    serve_until(server, running(server, large))
    assert second in expand(state(box, large).split()[2])
    box.run("scancel", job)
    serve_until(server, lambda: not server.world.down)
    assert state(box, job).split()[2] == first
