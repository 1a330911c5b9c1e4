from dataclasses import replace
from pathlib import Path

import pytest

from weft.advise.jobs import read_jobs


def test_a_window_begins_with_what_was_running_and_waiting(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text(
        "job_id,submit_s,gpus,duration_s,wait_s\ndone,0,1,50,0\nruns,10,2,500,20\nwaits,20,4,9,90\nfirst,100,1,8,0\n"
        "inside,150,1,7,0\nlater,300,1,7,0\n"
    )
    window = read_jobs(path, {}).window(100.0, 200.0)
    assert window.select("job_id", "submit_s", "gpus", "duration_s").rows() == [
        ("runs", 100.0, 2, 430.0), ("waits", 100.0, 4, 9.0), ("first", 100.0, 1, 8.0), ("inside", 150.0, 1, 7.0)
    ]  # fmt: skip


def test_a_window_begins_with_the_queue_of_the_replay_where_no_wait_is_recorded(tmp_path: Path) -> None:
    """Two jobs of 1,000 s come at 0 and 10 s to one GPU. At 500 s one has 500 s left, and the other still waits."""
    path = tmp_path / "log.csv"
    path.write_text("job_id,submit_s,gpus,duration_s\na,0,1,1000\nb,10,1,1000\nc,2000,1,10\n")
    log = read_jobs(path, {})
    assert log.window(500.0, 600.0)["duration_s"].to_list() == [500, 510]
    queued = replace(log, replayed_s={"a": 0.0, "b": 990.0})
    assert queued.window(500.0, 600.0)["duration_s"].to_list() == [500, 1000]
    assert log.load_by_day(1) == [pytest.approx(2010 / 86_400)]


def test_work_counts_on_the_days_on_which_it_is_done(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text(f"job_id,submit_s,gpus,duration_s\na,0,2,{2 * 86_400}\nb,{3 * 86_400},1,60\n")
    assert read_jobs(path, {}).load_by_day(2) == [1.0, 1.0, 0.0, pytest.approx(30 / 86_400)]
