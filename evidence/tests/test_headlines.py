"""What `weft reproduce` prints first."""

import io
import tomllib
from dataclasses import replace
from importlib.resources import files

import pytest
from rich.console import Console

from weft_evidence import claims_of, constants
from weft_evidence.claims import Reproduction
from weft_evidence.headlines import cells, headlines
from weft_evidence.pages import as_reproduction
from weft_evidence.report import claims_text, headline_picture, headline_text, render

KNOWN = tomllib.loads((files("weft_evidence") / "headlines.toml").read_text("utf-8"))


def _shown(result: Reproduction) -> list[str]:
    console = Console(width=80, file=io.StringIO(), highlight=False)
    console.print(headline_text(result))
    return console.file.getvalue().splitlines()  # type: ignore[attr-defined, no-any-return]


@pytest.mark.parametrize("paper", KNOWN)
def test_headlines_are_claims_and_marked_in_a_quick_run_too(paper: str) -> None:
    known, claims = headlines(paper), claims_of(paper)
    assert known is not None
    assert 8 <= len(known.words) <= 16
    assert set(known.words) <= set(claims)
    assert {name: check.headline for name, check in claims.items() if check.headline} == known.words
    assert any(check.headline and not check.slow for check in claims_of(paper, quick=True).values())
    assert all(len(cause.split()) <= 6 for cause in known.causes.values())


@pytest.mark.parametrize("paper", KNOWN)
def test_a_sentence_and_a_line_for_each_headline_fit_80_columns(paper: str) -> None:
    result = as_reproduction(paper)
    lines = _shown(result)
    assert lines[0].startswith(f"{KNOWN[paper]['name']}: ")
    assert "\N{HORIZONTAL ELLIPSIS}" not in "".join(lines)
    for claim in result.headlines:
        assert sum(line.startswith(claim.headline) and line.rstrip().endswith(claim.verdict) for line in lines) == 1
    assert lines[-1].endswith("--all")


def test_the_sentence_counts_and_says_how_large() -> None:
    whole = as_reproduction("cassini")
    one, other = (replace(c, published=2.0, measured=m) for c, m in zip(whole.headlines[:2], (1.25, 1.5), strict=True))
    claims = (replace(one, verdict="reproduced"), replace(other, verdict="no"))
    total, surely = len(KNOWN["cassini"]["claims"]), constants.surely("cassini") or set()
    assert Reproduction("cassini", claims).sentence == (
        "CASSINI: 1 of 2 headline claims hold, 1 in size and 0 in direction only "
        f"({total - 2} of {total} were not run); {int(one.id in surely)} of those that hold are stable; "
        "gains are 1.2 to 1.5 times (2.0 published)."
    )
    assert Reproduction("cassini", tuple(replace(c, headline="") for c in claims)).sentence.startswith("1 of 2 claims")


def test_what_repeats_others_elsewhere_is_counted_beside() -> None:
    result = as_reproduction("ada-srsf")
    again = [claim for claim in result.claims if claim.id.startswith("16gb.")]
    assert len(again) > 40
    assert not {claim.id for claim in result.published} & {claim.id for claim in again}
    assert f"with 16 GB {sum(claim.holds for claim in again)} of {len(again)}; " in result.counts
    every = len(result.published) + sum(claim.id.startswith(("16gb.", "no-limit.")) for claim in result.claims)
    assert every + sum(claim.verdict == "by construction" for claim in result.claims) == len(result.claims)


def test_a_bound_is_shown_as_one_and_groups_have_their_own_sizes() -> None:
    result = as_reproduction("flows")
    shown = {claim.id: cells("flows", claim)[1] for claim in result.headlines}
    assert shown["figure-8.saving-over-tcp-cubic"] == "≥ 15 %"
    assert shown["figure-15.latency-p90"] == "≤ 1.5 ms"
    assert shown["figure-14b.gpt2"] == "15 %"
    (tree,) = (part for part in result.sentence.split(", ") if part.startswith("the tree "))
    assert tree == "the tree -41 to -33 % (23 to 34 published)."


def test_all_and_the_report_begin_with_the_sentence_too() -> None:
    result = as_reproduction("titan")
    console = Console(width=120, file=io.StringIO(), highlight=False)
    console.print(claims_text(result))
    out = console.file.getvalue()  # type: ignore[attr-defined]
    assert out.startswith("Titan: ")
    assert "exact.titan" in out
    page = render(result)
    assert page.index(result.sentence) < page.index("machines saved, Tiresias") < page.index("All claims")
    assert result.to_dict()["sentence"] == result.sentence


@pytest.mark.parametrize("paper", KNOWN)
def test_the_report_draws_every_headline_claim_and_colours_verdicts(paper: str) -> None:
    """A row of the picture for each claim with a published number above 0."""
    result = as_reproduction(paper)
    drawn = [c for c in result.headlines if c.published is not None and c.published > 0 and c.measured is not None]
    axes = headline_picture(result).axes[0]
    assert [label.get_text() for label in axes.get_yticklabels()] == [claim.headline for claim in drawn]
    page = render(result)
    tones = {"reproduced": "good", "direction": "fair", "no": "bad"}
    for claim in result.headlines:
        if claim.verdict in tones:
            assert f'<td class="words {tones[claim.verdict]}">{claim.verdict}' in page
    assert '<th class="words">what</th>' in page
