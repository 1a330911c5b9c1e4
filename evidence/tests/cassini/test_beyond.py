"""ECN estimate: the model's own equations, and that overlap is what marks."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import polars as pl
import pytest

import weft
from weft.policies.interleave.cassini.rotate import score_at
from weft.scenario import Scenario
from weft.scenario.build import build_cluster, build_workload
from weft.stacks import resolve
from weft_evidence.cassini import CONTROLS
from weft_evidence.cassini.beyond import RULES, _with, leases_ended, loop_free, loops, many_jobs, published_shifts
from weft_evidence.cassini.contention import contention
from weft_evidence.cassini.ecn import Ecn, ecn_marks, marked_share
from weft_evidence.cassini.readings import CHANGES, READINGS, changed
from weft_evidence.cassini.real import _dctcp, _met, _quarters
from weft_evidence.cassini.snapshots import CAPACITY_GBPS, Snapshot, Traced, played, shifted
from weft_evidence.cassini.table_2 import told_from
from weft_evidence.claims import Measured
from weft_live.testbed.build import controls
from weft_live.testbed.jobs import Timing


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


PAIR: dict[str, Any] = {
    "cluster": {
        "topology": "leaf-spine", "racks": 2, "servers_per_rack": 6, "nic_gbps": 50, "spines": 1,
        "oversubscription": 6, "gpu": "A100", "gpu_memory_gb": 40,
    },
    "workload": {
        "source": "jobs",
        "job": [{"id": f"j{i}", "model": "vgg16@cassini", "gpus": 4, "iterations": 200} for i in range(2)],
    },
}  # fmt: skip


def test_a_pair_on_one_uplink() -> None:
    """255 ms, 114 of them at 45 of 50 Gbit/s. In step each has 25: 114 x 45 / 25 = 205, so 346 of 255 ms; shifted, 1.

    By chance they overlap for 114^2 / 255^2 of the time, at 40 of 50 too much.
    """
    plain, shifted = contention(PAIR, ["fifo[place=random]", "fifo+cassini[place=random]"], 1)
    assert plain["alone_mean"] == pytest.approx((141 + 114 * 45 / 25) / 255, rel=0.01)
    assert shifted["alone_mean"] == pytest.approx(1.0, abs=0.005)
    for row in (plain, shifted):
        assert row["meets"] == pytest.approx(1.0, abs=0.01)  # one ends before the other
        assert row["workers"] == pytest.approx(4.0)
        assert row["score_best"] == pytest.approx(1.0)
        assert row["score_free"] == pytest.approx(1.0 - (114 / 255) ** 2 * 0.8, rel=1e-3)


def test_share_by_hand() -> None:
    """90 Gbit/s offered to 50 for 50 us: 250 kB = 3,125 cells of 80 bytes, all marked; 62 Gbit/s: 937 cells, none."""
    gbps = 1e9 / 8
    assert marked_share(90 * gbps, 50 * gbps, Ecn()) == 1.0
    assert marked_share(62 * gbps, 50 * gbps, Ecn()) == 0.0
    assert marked_share((50 + 19.2) * gbps, 50 * gbps, Ecn()) == pytest.approx(0.5)


def marks(stack: str) -> dict[str, float]:
    scenario: dict[str, Any] = {
        "cluster": {
            "topology": "leaf-spine", "racks": 2, "servers_per_rack": 4, "nic_gbps": 50, "spines": 1,
            "oversubscription": 4, "gpu": "A100", "gpu_memory_gb": 40,
        },
        "workload": {
            "source": "jobs",
            "job": [{"id": f"j{i}", "model": "vgg16@cassini", "gpus": 4, "iterations": 100} for i in range(2)],
        },
    }  # fmt: skip
    run = weft.simulate(scenario, stack=stack, seed=1, record=True)
    given = Scenario.load(scenario)
    cluster = build_cluster(given, 1)
    return ecn_marks(run, cluster, build_workload(given, cluster, 1).jobs)


def test_interleaved_jobs_are_not_marked() -> None:
    """Together: all packets, 114 ms at 45 Gbit/s in packets of 1,024 bytes. Apart: none but at first."""
    together, apart = marks("fifo[place=random]"), marks("fifo+cassini[place=random]")
    for job in ("j0", "j1"):
        assert together[job] == pytest.approx(0.114 * 45e9 / 8 / 1024, rel=0.05)
        assert apart[job] < 0.05 * together[job]


def test_jobs_that_move_apart_meet_in_the_first_quarter_and_not_in_the_last() -> None:
    """Iterations of 1 s with 0.4 s of communication; the other job's begins 0.05 s later each time, so that of n
    iterations the part that both share is 1 - 0.125 n, and nothing from the eighth on."""
    n = np.arange(18.0)
    one = Timing("one", np.stack([n, n + 0.5, n + 0.9, n + 1.0], axis=1))
    other = Timing("other", one.rows + 0.05 * np.minimum(n, 9.0)[:, None])
    parts = _quarters(18)
    assert parts == {"first quarter": slice(2, 6), "last quarter": slice(14, 18)}
    assert _met([one, other], parts["first quarter"]) == pytest.approx(100.0 * (1.0 - 0.125 * 3.5))
    assert _met([one, other], parts["last quarter"]) == 0.0


@pytest.mark.skipif("dctcp" in controls(), reason="the kernel has its own dctcp")
def test_figure_19_says_that_reno_stands_in_for_dctcp(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WEFT_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))  # no clang
    said: list[str] = []
    assert _dctcp(said.append) == ("reno", "Reno + ECN for DCTCP")
    assert len(said) == 1
    assert said[0].startswith("testbed: this kernel has no dctcp, and ours cannot be had: ")
    assert said[0].endswith("; figure 19 is run with reno, which halves its window for a mark")


def test_readings_of_snapshot_4_by_hand() -> None:
    """Equal jobs that compute for c and send for s lose (s - c) of c + s, times the rate above capacity, at any shift
    between: 60 and 140 ms at 37.5 of 50 Gbit/s score 1 - 80/200 x 25/50, from 60 ms on, and not before."""
    found = READINGS["computes 60 ms, sends 140 at 37.5 Gbit/s (shift, score, Themis' time fitted)"][0]
    best = shifted(found)

    def at(ms: float) -> float:
        return score_at(best.circles, CAPACITY_GBPS, [0.0, ms / 1e3], best.periods)

    assert [at(60), at(100), at(140)] == pytest.approx([0.8] * 3)
    assert at(50) == pytest.approx(0.8 - 10 / 200 * 0.5)
    assert best.rotation.score == pytest.approx(0.8)
    ours = shifted(READINGS["as the claims have it"][0])
    assert score_at(ours.circles, CAPACITY_GBPS, [0.0, 0.06], ours.periods) < ours.unshifted


def test_changes_of_models_are_scenarios_and_change_what_they_say() -> None:
    for change, (unlimited, instead) in CHANGES.items():
        made = changed("figure-13", change)
        Scenario.load(made)
        named = {model.partition("[")[0]: model for key in ("models", "arriving") for model in made["workload"][key]}
        assert all(named.get(other.partition("[")[0]) == (other or None) for other in instead.values() if other)
        assert ("gpt2-medium" in named) is ("gpt2-medium" not in instead)
        assert (made["cluster"].get("gpu_memory_gb") == 1000) is unlimited


def test_a_tenth_that_reaches_no_effect_reproduces_nothing() -> None:
    rule = told_from(lambda: 176.0)
    assert rule(166.0, Measured(168.0)) == "no"
    assert rule(166.0, Measured(150.0)) == "no"  # more than a tenth from what is published
    assert rule(150.0, Measured(151.0)) == "reproduced"  # and 25 from 176, more than a tenth
