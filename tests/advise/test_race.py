from dataclasses import replace
from pathlib import Path

import pytest

from tests.advise.logs import outcome, small
from weft.advise import Flags
from weft.advise.jobs import read_jobs
from weft.advise.race import Entrant, _drop, ratios, score, windows
from weft.advise.report import race_plot
from weft.advise.site import site_of
from weft.advise.verdict import interval
from weft.results.compare import mean_and_interval


def test_windows_are_drawn_from_all_over_the_log(tmp_path: Path) -> None:
    log = small(tmp_path, n=2000)
    site = site_of(log, None, Flags(gpus=16), [])
    drawn = windows(log, 12)
    assert drawn.side_by_side == int(log.span_s // drawn.counted_s) > 5
    assert len(set(drawn.spans)) == 12
    assert [guess for _, guess in drawn.in_turn(site)[:3]] == list(site.guesses)
    assert windows(log, 12).spans == drawn.spans  # one seed, one result
    assert drawn.words() == (
        "Windows: 12, drawn with replacement from the whole log (a moving-block bootstrap). Each begins at the "
        "submission of a job and counts the jobs of up to 12.5 h, after 3.12 h in which the queue settles; 13 fit side "
        "by side."
    )
    whole = windows(small(tmp_path, n=40), 3)
    assert "too short to draw any, so all of it is run, 3 times" in whole.words()
    whole.parts[0, site.middle_guess] = {}
    assert (whole.side_by_side, whole.under(site, (0, site.middle_guess)).count_from_s) == (1, 0.0)


def test_busy_times_are_drawn_as_often_as_they_concern_jobs(tmp_path: Path) -> None:
    """Nine of ten jobs come in the first tenth of the log, so that about nine of ten windows begin there."""
    path = tmp_path / "log.csv"
    times = [i * 10 for i in range(9000)] + [90_000 + i * 810 for i in range(1000)]
    path.write_text("submit_s,gpus,duration_s\n" + "".join(f"{t},1,60\n" for t in times))
    starts = [start for start, _ in windows(read_jobs(path, {}), 200).spans]
    assert 0.83 < sum(start < 90_000 for start in starts) / 200 < 0.97


def test_a_log_with_room_for_one_window_is_one_window_and_all_of_it_counts(tmp_path: Path) -> None:
    """Jobs last for 0.6 of the log on average: a second window would not fit beside the first."""
    path = tmp_path / "log.csv"
    path.write_text("job_id,submit_s,gpus,duration_s\n" + "".join(f"j{i},{i},1,600\n" for i in range(1001)))
    drawn = windows(read_jobs(path, {}), 3)
    assert (drawn.side_by_side, drawn.counted_s) == (1, 1000.0)
    assert drawn.spans == ((0.0, 1000.0),) * 3


def test_the_worse_half_drops_out_but_for_the_best_of_each_kind() -> None:
    def entrant(stack: str, jct: float, stops: float = 0.0, blind: bool = False) -> Entrant:
        return Entrant(stack, blind, [outcome(jct + k, stops) for k in range(3)])

    field = [entrant("today", 100.0), entrant("a", 50.0, 1.0), entrant("b", 51.0, 1.0), entrant("c", 52.0, 1.0),
             entrant("d", 60.0), entrant("e", 70.0, 1.0, blind=True), entrant("f", 80.0),
             entrant("g", 90.0)]  # fmt: skip
    _drop(field, last=False)
    assert [one.stack for one in field if not one.out] == ["today", "a", "b", "c", "d", "e"]
    assert score(field[1], field[0]) == pytest.approx(51 / 101, rel=0.01)
    assert ratios(field[1], field[0]) == pytest.approx([0.5, 51 / 101, 52 / 102])
    assert "worse half" in field[-1].out


def test_windows_of_one_log_put_nobody_behind_with_confidence() -> None:
    """Three windows that are all the same log say no more than one."""
    for independent, out in ((None, ["today", "a", "b", "c"]), (1, ["today", "a", "b", "c", "d"])):
        lengths = {"today": 100.0, "a": 50.0, "b": 51.0, "c": 52.0, "d": 60.0} | dict.fromkeys("efghi", 110.0)
        field = [Entrant(stack, False, [outcome(jct + k, 1.0) for k in range(3)]) for stack, jct in lengths.items()]
        _drop(field, last=False, independent=independent)
        assert [one.stack for one in field if not one.out] == out


def test_overlapping_windows_do_not_narrow_the_interval() -> None:
    values = [0.8, 0.9, 1.0, 1.1] * 3
    assert interval(values, 100)["ci95"] == pytest.approx(mean_and_interval(values)["ci95"])
    few = interval(values, 4)["ci95"]
    assert few[1] - few[0] > 1.5 * (interval(values, 100)["ci95"][1] - interval(values, 100)["ci95"][0])
    assert interval(values, 1)["ci95"] == [None, None]


def test_the_shortlist_takes_what_the_registry_has(tmp_path: Path) -> None:
    from weft.advise.race import SHORTLIST, entrants
    from weft.stacks import names, resolve

    site = site_of(small(tmp_path, n=40), None, Flags(gpus=16), [])
    running, refused = entrants(site, SHORTLIST, ["fifo"])
    stacks = [one.stack for one in running]
    assert SHORTLIST[0] == "weft"
    assert ("weft" in stacks) == ("weft" in names())
    assert stacks[0] == "fifo"
    assert not set(stacks) & set(refused)
    assert next(one for one in running if one.stack == "las/delay").blind
    assert not any(resolve(stack).planner.shares_gpus for stack in stacks)  # a run would take minutes
    assert not next(one for one in running if one.stack == "srsf").blind
    assert not next(one for one in running if one.stack == "weft").blind  # it goes by lengths where they are known


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


def test_the_picture_of_the_race_shows_small_ratios_beside_large_ones() -> None:
    """0.8 and 17 stand on one logarithmic axis; an interval that reaches down to 0 does not stretch it."""
    stacks = [("a", 0.8, (0.5, 1.1)), ("fifo", 1.0, (None, None)), ("t", 17.0, (0.0, 40.0))]
    entries = [{"stack": name, "dropped": "", "over_today": {"mean": m, "ci95": ends}} for name, m, ends in stacks]
    axes = race_plot({"race": {"reference": "fifo", "stacks": entries}}).axes[0]
    assert axes.get_xscale() == "log"
    assert axes.get_xlim() == pytest.approx((0.5 / 1.1, 44.0))


def test_the_log_is_sorted_once_for_all_windows(tmp_path: Path) -> None:
    """And once more where the replay's waits are known, which change what waits at a window's start."""
    log = small(tmp_path, n=40)
    assert log.frame is log.frame
    assert log.frame["submit_s"].is_sorted()
    log.window(0.0, 600.0)
    waits = dict.fromkeys(log.frame["job_id"], 1e6)
    assert log.window(3000.0, 3600.0).height < replace(log, replayed_s=waits).window(3000.0, 3600.0).height
