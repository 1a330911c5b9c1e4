"""The rules of verdicts, held over the claims of all papers."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from importlib import import_module
from pathlib import Path

import pytest

from weft_evidence import claims_of, papers
from weft_evidence.checks import Check, LabCheck, near, on_that_side, similar, verdict_of
from weft_evidence.claims import NO_CLAIM, VERDICTS, Claim, Kind, Measured, Reproduction
from weft_evidence.pages import ROOT, filled, folder_of, judged, pages, recorded

PAPERS = sorted(papers())
PAGES = [paper for paper in PAPERS if paper != "weft"]
AnyCheck = Check | LabCheck[object]


def _all() -> Iterator[tuple[str, AnyCheck]]:
    for paper in PAPERS:
        for quick in (False, True):
            yield from ((f"{paper} {name}", check) for name, check in claims_of(paper, quick).items())


def _kind(check: AnyCheck) -> Kind:
    return check.kind or check.rule.kind


def _measurements(check: AnyCheck) -> Iterator[Measured]:
    """What would please any rule, and what lies around it."""
    about = [0.0, 0.5, 1.0, 2.0, 100.0] if check.published is None else [check.published]
    for value in about:
        for factor in (0.5, 0.95, 1.0, 1.05, 2.0):
            for width in (0.0, 0.01, 0.3):
                yield Measured(value * factor, (value * factor * (1 - width), value * factor * (1 + width)))


def _verdicts(check: AnyCheck) -> set[str]:
    return {verdict_of(check, measured, 5) for measured in _measurements(check)}


def test_without_a_published_number_nothing_is_reproduced() -> None:
    found = [name for name, check in _all() if check.published is None and "reproduced" in _verdicts(check)]
    assert found == []


def test_a_bound_is_a_direction_at_most_and_so_is_what_nobody_published() -> None:
    mine = {name: check for name, check in _all() if _kind(check) in (Kind.DIRECTION, Kind.OWN)}
    assert len(mine) > 100
    assert [name for name, check in mine.items() if "reproduced" in _verdicts(check)] == []


def test_what_is_no_claim_has_its_own_word_whatever_is_measured() -> None:
    mine = {name: check for name, check in _all() if _kind(check) in NO_CLAIM}
    assert {name: _verdicts(check) for name, check in mine.items()} == {
        name: {str(_kind(check))} for name, check in mine.items()
    }
    assert {_kind(check) for check in mine.values()} >= {Kind.FITTED, Kind.CONSTRUCTION, Kind.CONTROL}


def test_a_tolerance_that_reaches_no_effect_reproduces_nothing() -> None:
    """Were the very value of no effect published and measured, and were what was measured a little beside it."""
    effects = {name: check for name, check in _all() if _kind(check) is Kind.EFFECT}
    for name, check in effects.items():
        of = check.rule.of
        assert of is not None, name
        beside = [Measured(of), Measured(1.02 * of), Measured(0.98 * of), Measured(of, (0.95 * of, 1.05 * of))]
        assert "reproduced" not in {verdict_of(check, measured, 5) for measured in beside}, name
    assert len(effects) > 50


def test_a_ratio_or_a_saving_has_a_value_of_no_effect() -> None:
    """So the rule above sees all of them. Shares that say how large a thing is, not how it changes, are named here."""
    shares = (
        "exp-2.fragmentation",
        "example-1.",
        "figure-10.",
        "figure-11b.",
        "figure-18.",
        "table-i.",
        "gpu-utilisation",
        "optimum.",
        "random-tie",
    )
    for name, check in _all():
        if _kind(check) is Kind.NUMBER and check.unit in ("x", "%"):
            assert any(word in name for word in shares), name


@pytest.mark.parametrize(
    ("claim", "measured", "verdict"),
    [
        ("titan exp-6.near-elasticflow", 97.97, "direction"),
        ("titan exp-6.near-elasticflow", 100.0, "no"),
        ("titan exp-6.near-elasticflow", 106.0, "no"),
        ("titan figure-12.accuracy-elasticflow", 1.02, "direction"),
        ("titan figure-12.accuracy-elasticflow", 1.2, "reproduced"),
        ("titan exp-7.near-elasticflow-dealt", 2.75, "no"),
        ("cassini figure-11.ideal.p99", 1.0, "direction"),
        ("cassini figure-19.pollux.ecn", 2.0, "direction"),
        ("cassini figure-17.snapshot-1", 0.2, "direction"),
        ("cassini table-2.snapshot-1.vgg16.shift", 150.0, "fitted"),
        ("cassini figure-2.shift", 120.0, "fitted"),
        ("cassini table-2.snapshot-5.bert.themis", 221.5, "no"),
        ("cassini figure-18.time-order", 42.6, "by construction"),
        ("cassini figure-19.resnet50", 0.0, "not judged"),
        ("dally figure-1.growth", 6.0, "fitted"),
        ("titan exact.titan.bound-broken", 0.0, "direction"),
        ("titan figure-10a.throughput.hived", 2492.0, "control"),
        ("dally table-i.resnet18.network", 2749.0, "fitted"),
        ("dally table-i.order.network", 15.0, "fitted"),
        ("flows figure-11a.crowded", 0.0, "by construction"),
        ("flows figure-9.resnet50-10", 1.0, "direction"),
        ("ada-srsf table-v.srsf-3-over-srsf-2", 1.03, "direction"),
    ],
)
def test_cases_that_once_passed(claim: str, measured: float, verdict: str) -> None:
    paper, name = claim.split()
    assert verdict_of(claims_of(paper)[name], Measured(measured), 0) == verdict


def test_near_and_similar() -> None:
    assert near(1.0)(1.3, Measured(1.25)) == "reproduced"
    assert near(1.0)(1.05, Measured(1.05)) == "reproduced"  # the number itself, without any tolerance
    assert near(1.0)(1.05, Measured(1.04)) == "direction"
    assert near(1.0)(1.05, Measured(2.0)) == "no"
    assert similar(1.0)(None, Measured(1.02, (0.95, 1.08))) == "direction"
    assert similar(1.0)(None, Measured(1.02, (0.85, 1.2))) == "not judged"
    assert similar(1.0)(None, Measured(1.3, (1.2, 1.4))) == "no"


def test_what_is_apart_is_not_counted() -> None:
    one = Claim("a", "", 1.0, 1.0, (1.0, 1.0), "", "reproduced", "", "", ())
    own = replace(one, id="b", kind=Kind.OWN, verdict="direction")
    fitted = replace(one, id="c", kind=Kind.FITTED, verdict="fitted")
    result = Reproduction("titan", (one, own, fitted, replace(own, verdict="no")))
    assert result.to_dict()["verdicts"] == {"reproduced": 1, "direction": 0, "no": 0, "not judged": 0}
    assert result.to_dict()["own"] == {"reproduced": 0, "direction": 1, "no": 1, "not judged": 0}
    assert result.published == [one]
    assert result.counts.count("; ") == 2


@pytest.mark.parametrize("paper", PAGES)
def test_recorded_verdicts_are_those_of_the_rules(paper: str) -> None:
    rows = recorded(paper)
    now = judged(paper, rows)
    assert {row["id"]: row["verdict"] for row in rows} == {row["id"]: row["verdict"] for row in now}
    assert {row["id"] for row in rows} <= set(claims_of(paper))
    assert folder_of(paper).is_dir()
    assert {row["verdict"] for row in rows} <= {*VERDICTS, *NO_CLAIM.values()}


def test_pages_say_what_the_records_say() -> None:
    """`python -m weft_evidence.pages` fills them in."""
    shown = pages()
    assert {folder_of(paper) / "README.md" for paper in PAGES} < set(shown)
    for page in shown:
        assert filled(page.read_text("utf-8")) == page.read_text("utf-8"), page.name


SHORT = sorted((ROOT / "docs" / "papers").glob("*/README.md"))


@pytest.mark.parametrize("page", SHORT, ids=lambda page: page.parent.name)
def test_a_page_of_five_minutes_is_short_and_has_its_parts(page: Path) -> None:
    text = page.read_text("utf-8")
    assert len(text.split()) <= 1200
    assert re.findall(r"^## (What holds|Run it|What was set up|What is missing)$", text, re.MULTILINE) == [
        "What holds", "Run it", "What was set up", "What is missing",
    ]  # fmt: skip
    assert len(re.findall(r"^!\[", text, re.MULTILINE)) == 1
    assert all(text.count(f"<!-- {part} ") == 1 for part in ("sentence", "headlines", "counts"))
    assert text.index("<!-- sentence") < text.index("## What holds") < text.index("<!-- headlines")


def _words(text: str) -> int:
    return sum(any(sign.isalnum() for sign in word) for word in text.split())


def test_the_page_about_everything_fits_one_page() -> None:
    text = (ROOT / "docs" / "summary.md").read_text("utf-8")
    assert _words(text) <= 400
    assert re.findall(r"papers/([a-z-]+)/README", text) == [folder_of(paper).name for paper in PAGES]


ROOMS = ["cassini", "ada_srsf", "flows", "titan", "dally"]


@pytest.mark.parametrize("room", ROOMS)
def test_the_page_behind_the_claims_can_be_read_and_names_every_study(
    room: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = folder_of(room.replace("_", "-")).with_suffix(".md").read_text("utf-8")
    studies: list[str] = []

    def asked(known: Iterable[str]) -> list[str]:
        studies.extend(known)
        raise SystemExit

    module = import_module(f"weft_evidence.{room}.experiments")
    monkeypatch.setattr(module, "asked_for", asked)
    monkeypatch.setattr("sys.argv", ["experiments", "lops"])
    with pytest.raises(SystemExit):
        module.main()
    assert len(studies) > 2
    assert [name for name in studies if not re.search(rf"[`.] ?(\w+ )?{name}`", page)] == []
    assert _words(re.sub("<!-- ends .*<!-- /ends", "", page, flags=re.DOTALL)) <= 1500  # but for a table of numbers


@pytest.mark.parametrize("room", ROOMS)
def test_a_misspelt_study_is_refused_before_anything_is_run_or_written(
    room: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = {path: path.read_bytes() for path in (ROOT / "docs" / "papers").rglob("*.json")}
    monkeypatch.setattr("sys.argv", ["experiments", "lops"])
    with pytest.raises(SystemExit, match="there is no study lops"):
        import_module(f"weft_evidence.{room}.experiments").main()
    assert before == {path: path.read_bytes() for path in (ROOT / "docs" / "papers").rglob("*.json")}


def test_an_effect_needs_its_side() -> None:
    assert on_that_side(100.0)(99.3, Measured(106.0)) == "no"
