import io
import json
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import Path

import pytest
from rich.console import Console

from weft_evidence import claims_of, papers
from weft_evidence.causes import cause_of, causes, why_claims_fail
from weft_evidence.claims import Claim, Kind, Reproduction
from weft_evidence.headlines import headlines
from weft_evidence.pages import as_reproduction
from weft_evidence.report import claims_text, render

DOCS = Path(__file__).parents[2] / "docs" / "papers"
PAGES = {
    paper: DOCS / f"{'flow-scheduling' if paper == 'flows' else paper}.md" for paper in papers() if paper != "weft"
}
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
    assert failing or paper == "monkeytree"  # what is recorded of it holds, or is not judged
    assert not without


@pytest.mark.parametrize("paper", PAGES)
def test_every_cause_is_about_a_claim_that_there_is(paper: str) -> None:
    names = {*claims_of(paper), *claims_of(paper, quick=True)}
    for cause in causes(paper):
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
    (rank_order, first_names), (not_recorded, other_names) = why_claims_fail(result).items()
    assert rank_order.startswith("The order of ranks")
    assert first_names == ["exp-3.place"]
    assert not_recorded.endswith("so nothing was looked for.")
    assert other_names == ["nothing-of-the-kind"]
    first, second, third = result.to_dict()["claims"]
    assert first["cause"]["found"] == "measured"
    assert second["cause"] is None
    assert third["cause"] is None
    assert "The order of ranks" in render(result)


@pytest.mark.parametrize("width", [80, 120])
def test_the_verdict_of_a_claim_that_fails_points_to_its_cause(width: int) -> None:
    """In the terminal and in the report; a name breaks between its parts, so that it can be read."""
    long = "no-such-thing.at-all.of-this-length.gpu-utilisation"
    result = Reproduction("titan", (replace(FAILS, verdict="reproduced"), FAILS, replace(FAILS, id=long)))
    console = Console(width=width, file=io.StringIO(), highlight=False)
    console.print(claims_text(result))
    lines = [line.rstrip() for line in console.file.getvalue().splitlines()]  # type: ignore[attr-defined]
    verdicts = [line.split("  ")[-1].strip() for line in lines[1:]]
    assert [each for each in verdicts if each in ("reproduced", "no (1)", "no (2)")] == [
        "reproduced",
        "no (1)",
        "no (2)",
    ]
    assert any(line.startswith("1. The order of ranks") for line in lines)
    assert any(line.startswith("2. These claims do not fail in the whole run") for line in lines)
    start = next(i for i, line in enumerate(lines) if line.startswith("no-such-thing."))
    assert [line.split("  ")[0] for line in lines[start : start + 3]] == [
        "no-such-thing.",
        "at-all.",
        "of-this-length.",
    ]
    assert lines[start + 3] == "gpu-utilisation"
    assert "no (1)" in render(result)


def test_what_has_no_page_of_causes_says_nothing() -> None:
    assert why_claims_fail(Reproduction("weft", (FAILS,))) == {}


@pytest.mark.parametrize("paper", PAGES)
def test_every_cause_is_the_first_that_matches_some_claim(paper: str) -> None:
    names = {*claims_of(paper), *claims_of(paper, quick=True)}
    used = {cause_of(paper, replace(FAILS, id=name)) for name in names}
    assert [each.why for each in causes(paper) if each not in used] == []


def test_what_is_explained_in_part_says_so() -> None:
    claim = replace(FAILS, id="figure-12.accuracy-elasticflow")
    (line,) = why_claims_fail(Reproduction("titan", (claim,)))
    assert line.startswith("In part: ")


@pytest.mark.parametrize("paper", PAGES)
def test_what_a_headline_says_is_the_cause_was_found_by_an_experiment_or_is_open(paper: str) -> None:
    """Also of effects of another size than the published one. Of a bound there is no size to explain."""
    known = headlines(paper)
    assert known is not None
    argued = []
    for claim in as_reproduction(paper).headlines:
        sized = claim.published is not None and claim.kind in (Kind.EFFECT, Kind.NUMBER)
        if claim.verdict == "no" or (claim.verdict == "direction" and sized):
            found = cause_of(paper, replace(claim, verdict="no"))
            if (found is None or found.found == "open") and "open" not in known.causes[claim.id]:
                argued.append(claim.id)
    assert argued == []
