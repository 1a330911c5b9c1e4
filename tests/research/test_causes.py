"""Every claim that fails has its cause, and every cause is on the paper's page."""

from __future__ import annotations

import json
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import Path

import pytest

from weft.research import PAPERS, claims_of
from weft.research.causes import cause_of, causes, why_claims_fail
from weft.research.claims import Claim, Reproduction
from weft.research.report import render

DOCS = Path(__file__).parents[2] / "docs" / "papers"
PAGES = {paper: DOCS / f"{'flow-scheduling' if paper == 'flows' else paper}.md" for paper in PAPERS if paper != "weft"}
FAILS = Claim(
    "exp-3.place", "Titan's place", 2.0, 1.0, (1.0, 1.0), "place", "no", "titan", "weft reproduce titan", (0,)
)


def _recorded(paper: str) -> list[dict[str, object]]:
    found: list[dict[str, object]] = json.loads((PAGES[paper].with_suffix("") / "claims.json").read_text("utf-8"))
    return found


@pytest.mark.parametrize("paper", PAGES)
def test_every_claim_that_fails_in_the_recorded_run_has_a_cause(paper: str) -> None:
    failing = [claim["id"] for claim in _recorded(paper) if claim["verdict"] == "no"]
    without = [name for name in failing if cause_of(paper, replace(FAILS, id=str(name))) is None]
    assert failing
    assert not without


@pytest.mark.parametrize("paper", PAGES)
def test_every_cause_is_on_the_page_and_about_a_claim_that_there_is(paper: str) -> None:
    page = " ".join(PAGES[paper].read_text("utf-8").split())
    names = {*claims_of(paper), *claims_of(paper, quick=True)}
    for cause in causes(paper):
        assert cause.see in page
        assert cause.found in ("measured", "in part", "open")
        assert cause.why[0].isupper()
        assert cause.why.endswith(".")
        for pattern in cause.claims:
            assert any(fnmatchcase(name, pattern) for name in names), pattern


@pytest.mark.parametrize("paper", ["ada-srsf", "dally"])
def test_figures_of_the_authors_programs_are_recorded_as_they_are_in_the_code(paper: str) -> None:
    claims = claims_of(paper)
    for row in _recorded(paper):
        told = claims[str(row["id"])].released
        assert row.get("released") == (
            told and pytest.approx(dict(zip(("as_released", "repaired"), told, strict=True)), rel=1e-4)
        )


def test_a_cause_is_shown_only_where_the_claim_fails() -> None:
    holds = replace(FAILS, id="exp-3.place", verdict="reproduced")
    unknown = replace(FAILS, id="nothing-of-the-kind")
    result = Reproduction("titan", (FAILS, holds, unknown))
    rank_order, not_recorded = why_claims_fail(result)
    assert rank_order.startswith("The order of ranks")
    assert rank_order.endswith("(exp-3.place)")
    assert not_recorded == "No cause is recorded. (nothing-of-the-kind)"
    first, second, third = result.to_dict()["claims"]
    assert first["cause"]["found"] == "measured"
    assert second["cause"] is None
    assert third["cause"] is None
    assert "The order of ranks" in render(result)


def test_what_is_explained_in_part_says_so() -> None:
    claim = replace(FAILS, id="figure-12.accuracy-elasticflow")
    (line,) = why_claims_fail(Reproduction("titan", (claim,)))
    assert line.startswith("In part: ")
