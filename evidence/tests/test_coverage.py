"""What papers state, and the claims that judge it, name each other."""

import json

import pytest

from weft.cli.main import run
from weft_evidence import claims_of, papers
from weft_evidence.claims import NO_CLAIM, Kind
from weft_evidence.coverage import Needs, Stated, counted, stated
from weft_evidence.pages import ROOT, real_rows

APART = {Kind.OWN, *NO_CLAIM}
LISTED = [paper for paper in sorted(papers()) if stated(paper)]


def test_all_papers_have_a_list() -> None:
    assert set(LISTED) == {*papers()} - {"weft"}


@pytest.mark.parametrize("paper", LISTED)
def test_a_statement_names_claims_that_there_are(paper: str) -> None:
    known = list(claims_of(paper))
    gone = [
        one.id for one in stated(paper) for name in one.claims if not Stated("", "", "", "", (name,)).judged_by(known)
    ]
    assert gone == []
    for one in stated(paper):  # what is no claim, or is our own, judges nothing
        kinds = {claims_of(paper)[name].kind or claims_of(paper)[name].rule.kind for name in one.judged_by(known)}
        assert not kinds or kinds - APART, one.id
    ids = [one.id for one in stated(paper)]
    assert len(set(ids)) == len(ids)
    assert [one.id for one in stated(paper) if one.status in ("judged", "fitted") and one.needs] == []


@pytest.mark.parametrize("paper", LISTED)
def test_a_statement_names_tests_that_there_are(paper: str) -> None:
    for name in (name for one in stated(paper) for name in one.tests):
        file, _, function = name.partition("::")
        assert f"def {function}(" in (ROOT / file).read_text(encoding="utf-8"), name


@pytest.mark.parametrize("paper", LISTED)
def test_a_statement_names_rows_on_real_tcp_that_there_are(paper: str) -> None:
    rows = [row["what"] for row in real_rows(paper)]
    named = [begins for one in stated(paper) for begins in one.real]
    assert [begins for begins in named if sum(what.startswith(begins) for what in rows) != 1] == []
    assert bool(named) == (paper == "ada-srsf")
    assert {row["claim"] for row in real_rows(paper) if "claim" in row} <= set(claims_of(paper))


@pytest.mark.parametrize("paper", LISTED)
def test_a_published_claim_is_something_that_the_paper_states(paper: str) -> None:
    known = claims_of(paper)
    judged = {name for one in stated(paper) for name in one.judged_by(known)}
    unstated = [
        name
        for name, check in known.items()
        if check.published is not None and (check.kind or check.rule.kind) not in APART and name not in judged
    ]
    assert unstated == []


def test_the_sentence_counts() -> None:
    assert counted("titan").startswith(f"The paper states {len(stated('titan'))} numbers and orders")
    assert "wait for their runs" not in counted("ada-srsf", [*claims_of("ada-srsf")])
    one = Stated("a", "", "", "", ("x.*",))
    assert [one.state(None), one.state(["x.1"]), one.state(["y"])] == ["judged", "judged", "waits"]
    assert Stated("a", "", "", "", ("x.*",), ("t",)).state([]) == "judged"
    assert Stated("a", "", "", "", real=("r",)).state([]) == "judged"
    every = sum(bool(one.claims) and not one.tests for one in stated("titan"))
    assert f"and of {every} the claims are written and wait for their runs." in counted("titan", [])
    assert Stated("a", "", "", "").status == "open"
    assert Stated("a", "", "", "", needs=Needs.HARDWARE).status == "not run"
    assert Stated("a", "", "", "", ("x",)).status == "judged"
    assert Stated("a", "", "", "", fitted=True).status == "fitted"
    assert Stated("a", "", "", "", ("x",), fitted=True).status == "judged"
    told = sum(one.fitted for one in stated("cassini"))
    assert f" {told} fitted, told to the run or by construction, " in counted("cassini")


def test_the_command_lists_what_is_stated(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["reproduce", "titan", "--stated", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["stated"]
    assert {row["id"] for row in found} == {one.id for one in stated("titan")}
    assert {row["status"] for row in found} <= {"judged", "fitted", "not run", "open", "waits"}
    assert run(["reproduce", "titan", "--stated"]) == 0
    assert "open" in capsys.readouterr().out
    assert run(["reproduce", "weft", "--stated"]) == 2
