from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import polars as pl
import pytest

from weft.stacks import resolve
from weft_evidence.cassini import CONTROLS
from weft_evidence.cassini.beyond import RULES, _with, leases_ended, loop_free, loops, many_jobs, published_shifts
from weft_evidence.cassini.snapshots import CAPACITY_GBPS, Snapshot, Traced, played


def test_consensus_is_never_worse_than_no_shift() -> None:
    rows = loops()
    for row in rows:
        assert row["unshifted"] - 1e-9 <= row["consensus"] <= row["best_alone"] + 1e-9
        if row["jobs"] % 2 == 0:
            assert row["consensus"] == pytest.approx(1.0)  # an even ring can take turns
    # three jobs of half a circle: 1.5 circles of demand on one: overlaps of 0.5 x 0.8 over three links
    (tight,) = [row for row in rows if (row["jobs"], row["duty"]) == (3, 0.5)]
    assert tight["consensus"] == pytest.approx(1.0 - 0.5 * 0.8 / 3)


def test_shifts_help_until_the_circle_is_full() -> None:
    """Jobs that send 30 % of the time: three fit, four do not."""
    rows = {(row["duty"], row["jobs"]): row for row in many_jobs(4)}
    assert rows[0.3, 3]["score"] == pytest.approx(1.0)
    assert rows[0.3, 4]["score"] == pytest.approx(1.0 - 0.2 * 0.8)
    assert rows[0.3, 3]["shifted"] < 1.01 < 1.1 < rows[0.3, 3]["unshifted"]


def test_packed_placements_are_free_of_loops_and_random_ones_are_not() -> None:
    for row in loop_free(20):
        assert row["packed"] == 1.0
        assert row["random"] == 0.0
        assert row["swaps_4"] <= row["swaps_2"] < 1.0


def test_published_scores_are_those_of_the_published_shifts_and_there_are_better_ones() -> None:
    """By hand, snapshot 4: arcs of 133 of 259 ms at 45 of 50 Gbit/s. Shifted by 60 ms they overlap for 73 ms, in which
    40 Gbit/s are too much; at best for 2 x 133 - 259 ms."""
    rows = {row["snapshot"]: row for row in published_shifts()}
    assert rows[4]["as_published"] == pytest.approx(1 - 73 / 259 * 0.8)
    assert rows[4]["best"] == pytest.approx(1 - 7 / 259 * 0.8)
    for row in rows.values():
        assert row["as_published"] == pytest.approx(row["published"], abs=0.03)
        assert row["unshifted"] - 0.02 < row["as_published"] <= row["best"]


def test_rules_are_stacks_and_controls_keep_what_is_changed() -> None:
    for stack in RULES.values():
        resolve(stack)
    for control in CONTROLS.values():
        assert _with("cassini", control) == control
        assert resolve(f"themis+{_with('cassini:stay', control)}").interleave.settings == replace(
            resolve(f"themis+{control}").interleave.settings, stay=True
        )


def test_leases_that_end_by_hand() -> None:
    """Leases of 100 s, as in `test_by_hand_leases_end_at_their_own_times` of Themis, here by what was held and when.

    b has GPUs 0 and 1 from 0 to 100 s, when their leases end. Beside them it has 2 and 3 from 20 to 330 s, and the
    leases of these end at 120, 220 and 320 s. Those of 0 and 1, which it has again from 140 s on, end at 240 s.
    """
    spans = pl.DataFrame(
        [
            ("b", 0.0, 20.0, [0, 1], ""), ("b", 20.0, 100.0, [0, 1, 2, 3], ""), ("b", 100.0, 140.0, [2, 3], ""),
            ("b", 140.0, 330.0, [0, 1, 2, 3], ""), ("a", 0.0, 20.0, [2, 3], ""), ("c", 100.0, 140.0, [0, 1], ""),
        ],
        schema=["job_id", "start_s", "end_s", "gpus", "why"], orient="row",
    )  # fmt: skip
    run: Any = SimpleNamespace(spans=spans)
    assert leases_ended(run, 100.0) == 2 + 3 * 2 + 2


@pytest.mark.parametrize("n", [2, 3, 4])
def test_equal_jobs_gain_at_most_two_less_one_nth(n: int) -> None:
    """c + n s in step against c + s alone, and n s <= c + s: at most 2 - 1/n, where the link is full."""
    jobs = tuple(Traced(f"j{i}", 300 - 300 / n, 300 / n, CAPACITY_GBPS) for i in range(n))
    together = played(Snapshot(jobs, 0.0, False), False, iterations=40)["jobs"]
    assert together["j0"]["iteration_ms"] / 300 == pytest.approx(2 - 1 / n, rel=1e-6)
