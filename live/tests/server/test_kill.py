import os
import random
import signal
import sqlite3
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from live.tests.jobs import LOOP, STAYS, python
from live.tests.serving import (
    WITNESS,
    all_ended,
    ended_for_good,
    fork_server,
    said,
    serve_until,
    server,
    statuses,
    wait_for,
)
from weft.errors import InputError
from weft.model.plan import Decision
from weft_live.server.control import call

KILLS = int(os.environ.get("WEFT_KILLS", "20"))


class _KilledError(Exception):
    """Stands for kill -9."""


def _killed(*_: object) -> None:
    raise _KilledError


@pytest.mark.parametrize("moment", ["before the state is kept", "before it is carried out", "after it is carried out"])
def test_a_start_survives_a_kill(moment: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same job is started once, whether the server died before or after it did so."""
    folder, log = tmp_path / "run", tmp_path / "log"
    first = server(folder)
    first.submit(said("a", python(WITNESS, log, 5)))
    real_apply = first.world.apply
    if moment == "before the state is kept":
        monkeypatch.setattr(first.ledger, "keep", _killed)
    elif moment == "before it is carried out":
        monkeypatch.setattr(first.world, "apply", _killed)
    else:

        def apply(decisions: Sequence[Decision]) -> None:
            real_apply(decisions)
            raise _KilledError

        monkeypatch.setattr(first.world, "apply", apply)
    with pytest.raises(_KilledError):
        first.run()
    first.close()  # the lock and the sockets go with the process
    with server(folder) as second:
        serve_until(second, all_ended(second))
        assert second.ledger.starts("a") == 1
        assert [row.action for _, row in second.ledger.decisions("a")] == ["start"]
    assert log.read_text().splitlines() == ["start a 1", "end a 1"]
    with sqlite3.connect(folder / "ledger.sqlite") as db:
        void = db.execute("SELECT count(*) FROM decisions WHERE void").fetchone()[0]
    db.close()
    assert void == (moment == "before the state is kept")


def test_what_happens_while_no_server_is_there_is_heard_of_later(tmp_path: Path) -> None:
    """One job ends, one goes on, one waits; the next server takes all three over."""
    folder, log = tmp_path / "run", tmp_path / "log"
    goes = {name: tmp_path / name for name in ("ends", "goes-on")}
    with server(folder, gpus=2) as first:
        for name, go in goes.items():
            first.submit(said(name, python(WITNESS, log, 5, go)))
        first.submit(said("waits", python(WITNESS, log, 5), gpus=2))
        serve_until(first, lambda: len([j for j in first.core.table.running.values() if j.started_s]) == 2)
    goes["ends"].touch()
    wait_for(lambda: log.exists() and "end ends 1" in log.read_text())
    with server(folder, gpus=2) as second:
        assert {j.id: j.status.value for j in second.core.table.jobs.values()} == {
            "ends": "running", "goes-on": "running", "waits": "waiting"
        }  # fmt: skip
        goes["goes-on"].touch()
        serve_until(second, all_ended(second))
    lines = log.read_text().splitlines()
    assert Counter(lines) == Counter(f"{word} {job} 1" for word in ("start", "end") for job in statuses(folder))
    assert set(statuses(folder).values()) == {"finished"}


def test_a_stop_that_was_decided_is_carried_out_by_the_next_server(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    first = server(folder, "srsf-preemptive", gpus=2)
    first.submit(said("long", python(STAYS), gpus=2, iterations=300, iteration_s=0.01))
    serve_until(first, lambda: bool(first.core.table.running) and first.world.iterations_done("long") > 5)
    first.submit(said("short", python(LOOP, 0.01, 5), gpus=2, iterations=5, iteration_s=0.01))
    first.world.apply = _killed  # type: ignore[method-assign, assignment]
    with pytest.raises(_KilledError):
        first.run()
    first.close()
    with server(folder, "srsf-preemptive", gpus=2) as second:
        assert second.core.table.jobs["long"].status.value == "stopping"
        serve_until(second, all_ended(second))
        actions = [(job, row.action) for job, row in second.ledger.decisions() if row.action != "hold"]
    assert actions == [("long", "start"), ("long", "stop"), ("short", "start"), ("long", "start")]


@pytest.mark.alone
def test_kill_9_at_random_moments(tmp_path: Path) -> None:
    """Jobs of different lengths under a preemptive stack, servers that live for 0 to 0.25 s (on a busy machine up to
    twice what the first needs to start something); in the end every job has finished once, and no two processes of a
    job ever ran at a time. Twenty kills, or `WEFT_KILLS`; with `-s` the sum is told."""
    folder, log = tmp_path / "run", tmp_path / "log"
    lot = random.Random(7)
    steps = {f"job{i}": lot.choice((10, 30, 60)) for i in range(KILLS // 2)}
    to_submit = [
        said(name, python(WITNESS, log, n), gpus=1 + i % 3, iterations=n, iteration_s=0.01)
        for i, (name, n) in enumerate(steps.items())
    ]
    longest_s = 0.25
    for kill in range(KILLS):
        began, given = time.monotonic(), 0
        child = fork_server(folder, "srsf-preemptive")
        try:
            until = began + lot.uniform(0.0, longest_s)
            while time.monotonic() < until or (kill == 0 and not log.exists()):
                if to_submit and given < 2 and accepted(folder, to_submit[0]):
                    to_submit.pop(0)
                    given += 1
                time.sleep(0.005)
            if kill == 0:
                longest_s = max(longest_s, 2 * (time.monotonic() - began))
        finally:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
    with server(folder, "srsf-preemptive") as last:
        for job in to_submit:
            if job["name"] not in statuses(folder):
                last.submit(job)
        serve_until(last, all_ended(last), within_s=120.0 + KILLS)
        stops = sum(row.action == "stop" for _, row in last.ledger.decisions())
    lines = [line.split() for line in log.read_text().splitlines()]
    starts = Counter((job, attempt) for word, job, attempt in lines if word == "start")
    print(
        f"{KILLS} kills, {len(steps)} jobs, {len(to_submit)} of them given at the end, "
        f"{len(starts)} starts, {stops} stops"
    )
    assert statuses(folder) == dict.fromkeys(steps, "finished")
    assert not [line for line in lines if line[0] == "doubled"]
    assert ended_for_good(folder, lines) == set(steps)
    assert set(starts.values()) == {1}, "no attempt was started twice"


def accepted(folder: Path, job: dict[str, Any]) -> bool:
    """Try to submit a job to a server that may be dead, or die."""
    try:
        call(folder, {"do": "submit", "job": job})
    except InputError as error:
        return "already" in str(error)  # it was taken before the answer could come
    return True
