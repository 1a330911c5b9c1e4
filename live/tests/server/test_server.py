import json
import os
import select
import signal
import socket
import time
from pathlib import Path
from typing import Any

import pytest

from live.tests.jobs import LOOP, STAYS, python
from live.tests.serving import WITNESS, all_ended, fork_server, said, serve_until, server, statuses, wait_for
from weft.errors import InputError, StackError
from weft.model.view import Spread
from weft_live.server.control import call
from weft_live.server.ledger import Ledger
from weft_live.server.listing import explain_live, queue
from weft_live.server.server import Server


def test_a_short_job_preempts_a_long_one_which_goes_on_later(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    with server(folder, "srsf-preemptive", gpus=2) as serving:
        long = said("long", python(STAYS), gpus=2, iterations=80, iteration_s=0.01)
        serving.submit(long)
        serve_until(serving, lambda: bool(serving.core.table.running) and serving.world.iterations_done("long") > 5)
        serving.submit(said("short", python(LOOP, 0.01, 5), gpus=2, iterations=5, iteration_s=0.01))
        serve_until(serving, all_ended(serving))
        told = [line.text for line in explain_live(folder, serving.ledger, "long").lines]
        assert "decided to stop: gives way to short" in told
        assert sum(text.startswith("decided to start") for text in told) == 2
        actions = [(job, row.action) for job, row in serving.ledger.decisions() if row.action != "hold"]
    assert actions == [("long", "start"), ("long", "stop"), ("short", "start"), ("long", "start")]
    assert statuses(folder) == {"long": "finished", "short": "finished"}
    spec = json.loads((folder / "jobs/long/2/spec.json").read_text())
    assert int(spec["env"]["WEFT_RESUME_STEP"]) > 5, "it went on from its checkpoint"


@pytest.mark.parametrize("resumes", [True, False])
def test_weft_stops_only_who_said_that_it_can_resume(tmp_path: Path, resumes: bool) -> None:
    """`long` has minutes to go, far more than a restart costs. It gives way to `short` if it can resume, and goes on
    where it was; otherwise `short` waits until it is gone. In between another server takes over."""
    folder = tmp_path / "run"
    with server(folder, "weft", gpus=2) as serving:
        long = python(LOOP, 0.02, 9000)
        serving.submit(said("long", long, gpus=2, iterations=9000, iteration_s=0.02, resumes=resumes))
        serve_until(serving, lambda: bool(serving.core.table.running) and serving.world.iterations_done("long") > 5)
        serving.submit(said("short", python(LOOP, 0.01, 5), gpus=2, iterations=5, iteration_s=0.01))
        serve_until(serving, lambda: "short" in serving.core.table.jobs)
    with server(folder, "weft", gpus=2) as serving:
        if resumes:
            serve_until(serving, lambda: statuses(folder)["short"] == "finished")
            serve_until(serving, lambda: (folder / "jobs/long/2/spec.json").exists())
        else:
            serving.run(serving.world.now() + 0.1)
            assert "short" in serving.core.table.waiting
        serving.cancel("long")
        serve_until(serving, all_ended(serving))
        stops = [job for job, row in serving.ledger.decisions() if row.action == "stop"]
    assert stops == (["long"] if resumes else [])
    assert statuses(folder) == {"long": "cancelled", "short": "finished"}
    if resumes:
        spec = json.loads((folder / "jobs/long/2/spec.json").read_text())
        assert int(spec["env"]["WEFT_RESUME_STEP"]) > 5


def test_a_dry_run_carries_nothing_out(tmp_path: Path) -> None:
    folder, mark = tmp_path / "run", tmp_path / "mark"
    with server(folder) as first:
        first.submit(said("a", ["touch", str(mark)]))
    before = (folder / "ledger.sqlite").read_bytes()
    words: list[str] = []
    with server(folder, dry_run=True, say=words.append) as dry:
        dry.submit(said("b", ["touch", str(mark)], gpus=4))
        for _ in range(5):
            dry.run(dry.world.now() + 0.05)
    assert words[0].startswith("would start a on GPUs 0: first come, first served; ")
    assert words[1] == "would hold b: wants 4 GPUs; fewer are free"
    assert not mark.exists()
    assert not (folder / "jobs").exists()
    assert (folder / "ledger.sqlite").read_bytes() == before
    assert statuses(folder) == {"a": ""}


def test_a_dry_run_goes_on_beside_a_server(tmp_path: Path) -> None:
    """Neither keeps the other out, whichever came first, and requests go to the server."""
    folder, words = tmp_path / "run", list[str]()
    with server(folder, dry_run=True), server(folder) as real:
        real.submit(said("a", ["sleep", "600"]))
        real.run(real.world.now() + 0.1)
        with server(folder, dry_run=True, say=words.append) as dry:
            dry.submit(said("b", ["true"], gpus=1))
            dry.run(dry.world.now() + 0.1)
        assert words[0].startswith("would start b on GPUs 1: ")
        assert (folder / "control.sock").exists()
        assert statuses(folder) == {"a": ""}
        real.cancel("a")
        serve_until(real, all_ended(real))


def test_what_a_stack_must_know_is_asked_of_each_job(tmp_path: Path) -> None:
    with server(tmp_path / "run", "srsf") as serving:
        with pytest.raises(InputError, match="must know the job's iterations left; give --iterations"):
            serving.submit(said("a", ["true"]))
        with pytest.raises(InputError, match="must know the job's profile; give --model or --iteration-s"):
            serving.submit(said("a", ["true"], iterations=3))
        with pytest.raises(InputError, match="'resnet51' is not in the zoo"):
            serving.submit(said("a", ["true"], iterations=3, model="resnet51"))
        assert serving.submit(said("a", ["true"], iterations=3, model="resnet50")) == "a"
        with pytest.raises(InputError, match="there is a job a already"):
            serving.submit(said("a", ["true"], iterations=3, model="resnet50"))


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"gpus": 5}, "wants 5 GPUs, the cluster has 4"),
        ({"gpus": 0}, "gpus is 0"),
        ({"colour": "red"}, "colour is not a known key"),
    ],
)
def test_wrong_submissions_are_refused(wrong: dict[str, Any], words: str, tmp_path: Path) -> None:
    with server(tmp_path / "run") as serving:
        with pytest.raises(InputError, match=words):
            serving.submit({**said("a", ["true"]), **wrong})
        assert serving.ledger.jobs() == []


def test_one_server_per_folder_and_one_stack_per_run(tmp_path: Path) -> None:
    with server(tmp_path / "run") as serving:
        with pytest.raises(InputError, match="another weft serve runs there"):
            server(tmp_path / "run")
        serving.submit(said("a", ["true"]))
        serve_until(serving, all_ended(serving))
    with pytest.raises(StackError, match="resume with that stack"):
        server(tmp_path / "run", "srsf")
    with pytest.raises(InputError, match="cluster of 4 GPUs, this one has 2"):
        server(tmp_path / "run", gpus=2)


def test_only_the_owner_of_the_token_changes_anything(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    child = fork_server(folder, "fifo")
    try:
        wait_for(lambda: (folder / "control.sock").exists())
        for name in ("token", "control.sock", "ledger.sqlite"):
            assert (folder / name).stat().st_mode & 0o077 == 0
        true = (folder / "token").read_text()
        (folder / "token").write_text("0" * 64)
        with pytest.raises(InputError, match="only its owner may change things"):
            call(folder, {"do": "submit", "job": said("a", ["true"])})
        (folder / "token").write_text(true)
        with pytest.raises(InputError, match="weft serve does not know 'dance'"):
            call(folder, {"do": "dance"})
        call(folder, {"do": "submit", "job": said("a", ["true"])})
        wait_for(lambda: statuses(folder) == {"a": "finished"})
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    with pytest.raises(InputError, match="no weft serve runs there"):
        call(folder, {"do": "cancel", "job": "a"})


def test_waiting_jobs_are_explained(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    with server(folder, "fifo") as serving:
        for name in ("first", "second", "third"):
            serving.submit(said(name, ["sleep", "600"], gpus=4))
        serve_until(serving, lambda: bool(serving.core.table.running))
        rows = {row["job"]: row for row in queue(folder, serving.ledger)}
        assert rows["first"]["where"] == "s0: 0 1 2 3"
        assert rows["second"]["reason"] == "wants 4 GPUs; 0 are free"
        assert rows["third"]["reason"] == "stands behind second, which wants 4 GPUs; fewer are free"
        for name in ("third", "second", "first"):
            serving.cancel(name)
        serve_until(serving, all_ended(serving))
        assert explain_live(folder, serving.ledger, "second").headline.startswith("cancelled while it waited")
        assert explain_live(folder, serving.ledger, "first").headline.startswith("cancelled; ended by SIGTERM")
        with pytest.raises(InputError, match="no job nobody; jobs are first, second, third"):
            explain_live(folder, serving.ledger, "nobody")
        with pytest.raises(InputError, match="no job first that has not ended"):
            serving.cancel("first")


def test_a_link_of_somebody_else_is_refused(tmp_path: Path) -> None:
    """They could let it lead elsewhere once it has been looked at."""
    (tmp_path / "real").mkdir(mode=0o700)
    (tmp_path / "link").symlink_to("real")
    with server(tmp_path / "link"):
        pass
    try:
        os.lchown(tmp_path / "link", 65534, -1)
    except PermissionError:
        pytest.skip("needs root")
    for name in ("link", "link/below"):
        with pytest.raises(InputError, match="link of somebody else"):
            server(tmp_path / name)


def test_who_sets_the_clock_ahead_loses_no_output(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Folders of ended attempts are removed after thirty days: by a clock that nobody can set, too."""
    with server(tmp_path / "run") as first:
        first.submit(said("a", ["true"]))
        serve_until(first, all_ended(first))
    real = time.time
    monkeypatch.setattr(time, "time", lambda: real() + 40 * 86400.0)
    with server(tmp_path / "run") as second:
        second.run(second.world.now() + 0.2)
    assert (tmp_path / "run" / "jobs" / "a" / "1" / "output").exists()


def test_a_request_that_is_too_long_is_refused_in_words(tmp_path: Path) -> None:
    with server(tmp_path / "run"), pytest.raises(InputError, match="4 MiB"):
        call(tmp_path / "run", {"do": "submit", "job": said("a", ["true"], env={"A": "x" * (5 << 20)})})


def test_a_token_that_is_damaged_is_made_anew(tmp_path: Path) -> None:
    with server(tmp_path / "run"):
        pass
    (tmp_path / "run" / "token").write_bytes(b"\xff" * 64)
    with server(tmp_path / "run"):
        assert (tmp_path / "run" / "token").read_text().isalnum()


def test_a_request_of_nonsense_does_not_end_the_server(tmp_path: Path) -> None:
    with server(tmp_path / "run", "fifo") as serving:
        for line in (b"[]", b"x", b"\xff", '{"token": "é"}'.encode(), b'{"token": "\\ud800"}'):
            caller = socket.socket(socket.AF_UNIX)
            with caller:
                caller.connect(str(tmp_path / "run" / "control.sock"))
                caller.sendall(line + b"\n")
                serve_until(serving, lambda caller=caller: bool(select.select([caller], [], [], 0)[0]))  # type: ignore[misc]
                assert json.loads(caller.recv(4096))["ok"] is False


def test_a_trace_that_cannot_be_written_is_told_at_the_start_and_stops_nobody_later(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot write the trace"):
        server(tmp_path / "run", record=tmp_path / "absent" / "trace.csv")
    said_so: list[str] = []
    (tmp_path / "there").mkdir()
    with server(tmp_path / "run", record=tmp_path / "there" / "trace.csv", say=said_so.append) as serving:
        (tmp_path / "there").rename(tmp_path / "gone")
        serving.submit(said("a", ["true"]))
        serve_until(serving, all_ended(serving))
        assert "cannot write the trace" in said_so[0]
        (tmp_path / "gone").rename(tmp_path / "there")
    assert "a,0" in (tmp_path / "there" / "trace.csv").read_text()


def test_a_submission_that_cannot_be_written_is_refused_at_once(tmp_path: Path) -> None:
    """SQLite's own limit on pages stands for the disk."""
    folder = tmp_path / "run"
    with server(folder) as serving:
        serving.submit(said("first", ["true"]))
        pages = serving.ledger._db.execute("PRAGMA page_count").fetchone()[0]
        serving.ledger._db.execute(f"PRAGMA max_page_count = {pages}")
        with pytest.raises(InputError, match=r"the ledger cannot be written \(database or disk is full\); make room"):
            serving.submit(said("large", ["true", "x" * 50000]))
    with server(folder) as serving:
        serving.submit(said("last", ["true"]))
        serve_until(serving, all_ended(serving))
    assert statuses(folder) == {"first": "finished", "last": "finished"}


def test_a_folder_that_others_may_write_is_refused_and_left_as_it_is(tmp_path: Path) -> None:
    tmp_path.chmod(0o1777)
    with pytest.raises(InputError, match="others may write there"):
        server(tmp_path)
    assert tmp_path.stat().st_mode & 0o7777 == 0o1777


def test_a_model_that_could_be_read_for_ever_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.json")
    with server(tmp_path / "run") as serving:
        for name in (str(tmp_path / "pipe.json"), "/dev/zero", f"{tmp_path}/pipe.json[batch=2]"):
            with pytest.raises(InputError, match="is no profile file; name a file of at most 16 MiB"):
                serving.submit(said("a", ["true"], model=name, iterations=3))
        with pytest.raises(InputError, match="No such file"):
            serving.submit(said("a", ["true"], model="/nowhere/model.json", iterations=3))


def test_the_ledger_of_somebody_else_is_not_read(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("needs root, to be somebody else for a moment")
    server(tmp_path / "run").close()
    for path in (tmp_path, tmp_path.parent, tmp_path.parent.parent):
        path.chmod(0o755)
    for mode in (0o700, 0o711):  # as the local world leaves it, and as the Slurm world does
        (tmp_path / "run").chmod(mode)
        os.seteuid(65534)
        try:
            with pytest.raises(InputError, match="belongs to somebody else"):
                Ledger(tmp_path / "run", read_only=True)
        finally:
            os.seteuid(0)


def test_measured_speeds_survive_the_server(tmp_path: Path) -> None:
    folder, log = tmp_path / "run", tmp_path / "log"
    told = {"model": "resnet50", "iterations": 20}

    def estimate(serving: Server) -> float:
        job = serving.core.table.jobs["waits"].job
        return serving.world.estimate(job, 1, Spread.of(serving.cluster, (0,))).iteration_s

    with server(folder, "fifo", 1) as serving:
        serving.submit(said("waits", ["sleep", "600"], gpus=1, **told))
        serve_until(serving, lambda: bool(serving.core.table.running))
        by_formula = estimate(serving)
        serving.cancel("waits")
        serve_until(serving, all_ended(serving))
    with server(tmp_path / "other", "fifo", 1) as serving:
        serving.submit(said("measured", python(WITNESS, log, 20), gpus=1, **told))
        serving.submit(said("waits", ["sleep", "600"], gpus=1, **told))
        serve_until(serving, lambda: "waits" in serving.core.table.running)
        measured = estimate(serving)
    assert measured != by_formula
    with server(tmp_path / "other", "fifo", 1) as serving:
        assert estimate(serving) == measured
        serving.cancel("waits")
        serve_until(serving, all_ended(serving))
