"""What `weft when` and its like say of a live run."""

import json
import time
from pathlib import Path

import pytest
from prometheus_client import generate_latest

from live.tests.jobs import python
from live.tests.serving import said, serve_until, server
from weft.advise.forward import samples
from weft.cli.main import run
from weft_live.server.ledger import Ledger
from weft_live.server.metrics import Estimated, Metrics
from weft_live.server.present import present_of

SLEEPS = "import time; time.sleep(600)"
CLAIM = {"iterations": 600, "iteration_s": 1.0, "user": "u"}


def asked(capsys: pytest.CaptureFixture[str], *argv: str) -> dict[str, object]:
    capsys.readouterr()
    assert run([*argv, "--json"]) == 0
    found: dict[str, object] = json.loads(capsys.readouterr().out)
    return found


def test_what_a_ledger_tells_of_now_and_later(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Two jobs hold four GPUs for ten minutes, as they claim; what waits starts when they end."""
    folder = tmp_path / "run"
    with server(folder, gpus=4) as serving:
        for name, gpus in (("x", 2), ("y", 2), ("a", 4), ("b", 1)):
            serving.submit(said(name, python(SLEEPS), gpus=gpus, **CLAIM))
        table = serving.core.table
        serve_until(serving, lambda: sum(job.started_s is not None for job in table.running.values()) == 2)
        serving.durable.keep()
        ledger = Ledger(folder, read_only=True)
        at, stack, zero_s = present_of(ledger)
        ledger.close()
        assert stack.name == "fifo-backfill"
        assert {job.id: job.gpus for job in at.jobs} == {
            name: tuple(table.placements.get(name, ())) for name in ("x", "y", "a", "b")
        }
        assert zero_s + at.now_s == pytest.approx(time.time(), abs=60.0)
        assert at.claims == dict.fromkeys(("x", "y", "a", "b"), 600.0)
        one = samples(at, stack, ["a", "b"], 1)[0]
        begun = max(job.started_s or 0.0 for job in table.running.values())
        assert one.starts["b"] <= begun + 1200.0 + 1e-6  # before or behind a, by which of the two ends first
        assert one.starts["a"] > begun

        where = ("--dir", str(folder))
        answer = asked(capsys, "when", "a", *where)
        assert (answer["gpus"], answer["free_gpus"], answer["stack"]) == (4, 0, "fifo-backfill")
        assert {one["job"] for one in answer["waits_for"]} == {"x", "y"}  # type: ignore[attr-defined]
        assert 0 < answer["starts_in_s"]["p10"] <= answer["starts_in_s"]["p50"]  # type: ignore[index]
        assert answer["fewer"]["gpus"] == 2  # type: ignore[index]
        new = asked(capsys, "when", "--gpus", "1", "--length", "30m", "--stack", "srsf", *where)
        assert (new["job"], list(new["stacks"])) == ("new", ["srsf"])  # type: ignore[call-overload]
        for argv in (("when", "x"), ("when", "nobody"), ("when",), ("when", "--gpus", "9"), ("what-if",)):
            assert run([*argv, *where]) == 2
        capsys.readouterr()
        effect = asked(capsys, "what-if", "--add-nodes", "1", *where)
        assert effect["by_job"]["a"] < -100.0  # type: ignore[index]
        assert asked(capsys, "defrag", *where)["moves"] == []
        assert asked(capsys, "when", "--accuracy", *where) == {"answers": 1, "known": 0}
        rows = asked(capsys, "queue", "--when", *where)["jobs"]
        told = {row["job"]: row["starts_in_s"] for row in rows}  # type: ignore[attr-defined]
        assert told["x"] is None
        assert told["a"]["p50"] > 0
        metrics = Metrics(4)
        gauge = Estimated(metrics, folder, every_s=3600.0)
        gauge.ask()
        gauge.close()
        lines = generate_latest(metrics.registry).decode().splitlines()
        series = {line.partition(" ")[0] for line in lines if line.startswith("weft_job_estimated_start_seconds{")}
        assert series == {f'weft_job_estimated_start_seconds{{job="{name}"}}' for name in ("a", "b")}
        serving.cancel("x")
        serving.cancel("y")
        serve_until(serving, lambda: "a" in table.running or "b" in table.running)
        serving.durable.keep()
        for name in ("a", "b"):
            serving.cancel(name)
        serve_until(serving, lambda: not table.jobs)
    known = asked(capsys, "when", "--accuracy", *where)
    assert known["answers"] == 2
    assert known["known"] in (1, 2)
