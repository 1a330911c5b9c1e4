"""Ada-SRSF: the claims are the paper's, one of them can be run alone, and no byte is made up on the way."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

import weft
from weft.papers import reproduce
from weft.papers.ada_srsf import CLAIMS, TABLE_IV, TABLE_V, four_at_once
from weft.papers.ada_srsf_sweeps import SWEEPS, drawn, paper_scenario, run_sweep
from weft.papers.claims import Request
from weft.papers.figures import gpu_shares
from weft.papers.report import claims_table, render
from weft.results.metrics import summary
from weft.scenario import Scenario
from weft.scenario.shipped import scenario_path
from weft.workload import zoo


def test_the_published_numbers_agree_with_each_other() -> None:
    """Savings of the text from the means of the tables: 61.9 (RAND), 42.8 (FF), 51.9 (LS), 20.1, 36.7 %."""
    ours = TABLE_IV["LWF-1"][2]
    assert ours == TABLE_V["Ada-SRSF"][2]
    for name, row in (("rand", TABLE_IV["RAND"]), ("ff", TABLE_IV["FF"]), ("ls", TABLE_IV["LS"])):
        assert CLAIMS[f"table-iv.saving-over-{name}"].published == pytest.approx(100 * (1 - ours / row[2]), abs=0.1)
    for name in ("SRSF(1)", "SRSF(2)"):
        published = CLAIMS[f"table-v.saving-over-srsf-{name[5]}"].published
        assert published == pytest.approx(100 * (1 - ours / TABLE_V[name][2]), abs=0.1)


def test_one_claim_alone_moves_with_the_seed() -> None:
    name = "table-v.srsf-1.jct-mean"
    found = [reproduce("ada-srsf", Request(claims=(name,), seed=s, seeds=1, workers=1)) for s in (0, 1)]
    first, second = (result.claims[0] for result in found)
    assert [c.id for c in found[0].claims] == [name]
    assert first.published == second.published == 1374.84
    assert first.measured != second.measured
    assert first.command == f"weft reproduce ada-srsf --claim {name} --seeds 1 --seed 0 --json"
    alone = weft.simulate(first.scenario, stack="srsf-1", seed=1)
    assert summary(alone)["jct_s"]["mean"] == second.measured
    assert set(first.to_dict()) == {
        "id", "what", "published", "measured", "ci95", "unit", "holds", "scenario", "command", "seeds",
    }  # fmt: skip


def test_no_iteration_is_faster_than_the_line() -> None:
    """On several servers at least t_f + t_b + b M (Eq. 2 with a = 0); the published simulator is faster than that."""
    scenario = paper_scenario()
    scenario["workload"] = {**drawn(scenario["workload"]["models"], 3.0)["workload"], "jobs": 40}
    run = weft.simulate(scenario, stack="ada-srsf", seed=2)
    fastest = dict(run.iterations.group_by("job_id").agg(pl.col("duration_s").min()).iter_rows())
    several = run.jobs.filter(pl.col("servers") > 1)
    assert several.height > 5
    for job in run.jobs.iter_rows(named=True):
        profile = zoo.profile(job["model"], job["gpus"])
        line = 8.56e-10 * profile.message_bytes if job["servers"] > 1 else 0.0
        assert fastest[job["job_id"]] >= (profile.compute_s + line) * (1 - 1e-9)


def test_four_at_once() -> None:
    """(C + (4 b + 3 eta) M) / (C + b M) with M = 103 MB and C + b M = 295 ms: 632 s, where 675 s were measured."""
    b, eta, message = 8.56e-10, 2.35e-10, 103e6
    assert four_at_once() == pytest.approx((0.295 + 3 * (b + eta) * message) / 0.295)
    assert four_at_once(eta=0.0) == pytest.approx((0.295 + 3 * b * message) / 0.295)


def test_report_has_the_figures_and_every_claim() -> None:
    names = tuple(name for name in CLAIMS if name.startswith("table-v") and name.endswith("jct-mean"))
    names = (*names, "table-iv.lwf-1.jct-mean")
    result = reproduce("ada-srsf", Request(claims=names, seeds=1, workers=1))
    page = render(result, "weft reproduce ada-srsf")
    assert page.count("<svg") == 1  # figure 6; the others need other stacks
    assert all(name in page for name in names)
    assert claims_table(result).row_count == len(names)


def test_shares_of_gpus_add_up() -> None:
    """Mean busy share = GPU utilisation of the run."""
    run = weft.simulate(scenario_path("ada-srsf"), stack="srsf-1", seed=0)
    assert gpu_shares(run).mean() == pytest.approx(summary(run)["gpu_utilisation"])


def test_sweeps_are_made_of_scenarios_that_run(tmp_path: Path) -> None:
    for sweep in SWEEPS.values():
        points = list(sweep.points(tmp_path))
        assert len({p.label for p in points}) == len(points) > 1
        for point in points:
            Scenario.load(point.scenario)
    rows = run_sweep(SWEEPS["limit"], tmp_path, 1, workers=1, most=1)
    assert [row["stack"] for row in rows] == list(SWEEPS["limit"].stacks)
    assert rows[0]["ratio"][0] == 1.0
    assert rows[1]["jct_s"][0] != rows[2]["jct_s"][0]  # a third transfer is let in at times
