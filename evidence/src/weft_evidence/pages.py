"""What experiments write into the pages of papers: the claims as they were measured, numbers, figures.

`python -m weft_evidence.pages` brings recorded verdicts and generated parts of pages up to date."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any

from weft.errors import near
from weft_evidence import claims_of, papers
from weft_evidence.checks import FEWEST_SEEDS, judge, verdict_of
from weft_evidence.claims import Measured, Reproduction
from weft_evidence.constants import ROOT as ROOT
from weft_evidence.constants import cell, ends_table, sentence
from weft_evidence.constants import folder_of as folder_of
from weft_evidence.constants import known as stable_rows
from weft_evidence.coverage import counted
from weft_evidence.headlines import cells, headlines
from weft_evidence.told import told

if TYPE_CHECKING:
    from weft_evidence.claims import Claim


def rounded(value: Any) -> Any:
    """Numbers to six significant digits: more would be noise, and change with every rounding."""
    if isinstance(value, list):
        return [rounded(v) for v in value]
    if isinstance(value, dict):
        return {k: rounded(v) for k, v in value.items()}
    return float(f"{value:.6g}") if isinstance(value, float) else value


KEPT = ("id", "published", "measured", "ci95", "unit", "verdict", "holds", "released")


def recorded(paper: str) -> list[dict[str, Any]]:
    """The claims as the whole reproduction measured them."""
    rows: list[dict[str, Any]] = json.loads((folder_of(paper) / "claims.json").read_text(encoding="utf-8"))
    return rows


def judged(paper: str, rows: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Recorded claims with what the paper gives and the rules say now; nothing is run."""
    checks, found = claims_of(paper), []
    for row in rows:
        check = checks[row["id"]]
        measured = Measured(row.get("measured"), (row["ci95"][0], row["ci95"][1]))
        verdict = verdict_of(check, measured, FEWEST_SEEDS)
        holds = verdict in ("reproduced", "direction")
        found.append({**row, "published": check.published, "verdict": verdict, "holds": holds})
    return found


def real_rows(paper: str) -> list[dict[str, Any]]:
    """What `weft reproduce PAPER --real --json` found, where that is recorded."""
    path = folder_of(paper) / "real.json"
    rows: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))["rows"] if path.is_file() else []
    return rows


def _in_words(row: Mapping[str, Any], key: str) -> str:
    """A number of such a row with its unit."""
    if row[key] is None:
        return f"not judged: {row['disturbed']}" if key == "real" and row.get("disturbed") else "-"
    return f"{row[key]:.3g}{' %' if row['unit'] == '%' else ' x' if row['unit'] == 'times' else ''}"


def _between(row: Mapping[str, Any]) -> str:
    low, high = row["ci95"]
    return "" if low is None or high is None else f"[{low:.3g}, {high:.3g}]"


def real_table(paper: str) -> str:
    """The rows on real TCP."""
    lines = ["| on real TCP | published | simulated | real | 95 % interval |", "|---|---:|---:|---:|---|"]
    for row in real_rows(paper):
        cells = (row["what"], *(_in_words(row, key) for key in ("published", "simulated", "real")), _between(row))
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def as_reproduction(paper: str) -> Reproduction:
    """The recorded claims as if they had just been measured."""
    checks, claims = claims_of(paper), []
    for row in recorded(paper):
        check = checks[row["id"]]
        command = f"weft reproduce {paper} --claim {row['id']}"
        measured = Measured(row.get("measured"), (row["ci95"][0], row["ci95"][1]))
        claims.append(judge(row["id"], check, measured, paper, command, range(FEWEST_SEEDS)))
    return Reproduction(paper, tuple(claims))


def blocks(paper: str) -> dict[str, str]:
    """What stands on pages between <!-- NAME --> and <!-- /NAME -->."""
    found = as_reproduction(paper)
    causes = (
        {claim.headline: known.causes[claim.id] for claim in found.headlines} if (known := headlines(paper)) else {}
    )
    stable = {one.headline: one for one in stable_rows(paper)}
    real = {
        row["claim"]: f"{_in_words(row, 'real')} {_between(row)} ({_in_words(row, 'simulated')})"
        for row in real_rows(paper)
        if "claim" in row
    }
    more = f" {known.real if known else ''} |" * bool(real) + " stability |" * bool(stable)
    lines = [
        f"| headline claim | published | simulated | 95 % interval | verdict | cause |{more}",
        f"|---|---:|---:|---|---|---|{'---|' * (bool(real) + bool(stable))}",
    ]
    for claim in found.headlines:
        cause = "" if claim.verdict == "reproduced" else causes[claim.headline]
        beside = [real.get(claim.id, "")] * bool(real) + ([cell(claim, stable, paper)] if stable else [])
        row = (*cells(paper, claim), cause, *beside)
        lines.append(f"| {' | '.join(row)} |")
    waiting = len(claims_of(paper)) - len(found.claims)
    return {
        f"counts {paper}": f"{found.counts}{f'; {waiting} more wait for their runs' if waiting else ''}.",
        f"stated {paper}": counted(paper, [row["id"] for row in recorded(paper)]),
        f"sentence {paper}": f"**{found.sentence}**",
        f"headlines {paper}": "\n".join(lines),
        **({f"stability {paper}": sentence(paper), f"ends {paper}": ends_table(paper)} if stable else {}),
        **({f"real {paper}": real_table(paper)} if real_rows(paper) else {}),
        **({"loops": loops_table()} if paper == "cassini" else {}),
        **({"numbers": numbers_sentence()} if paper == "ada-srsf" else {}),
        **told(paper, recorded(paper)),
    }


def summary() -> str:
    """How many claims of each paper hold, a line for each."""
    lines = [
        "| paper | of its headline claims hold | in size | of all its claims hold | in size |",
        "|---|---:|---:|---:|---:|",
    ]
    for paper in sorted(set(papers()) - {"weft"}):
        known, found = headlines(paper), as_reproduction(paper)
        name = known.name if known else paper
        cells = [f"[{name}](papers/{folder_of(paper).name}/README.md)"]
        for claims in (found.headlines, found.published):
            same = sum(claim.verdict == "reproduced" for claim in claims)
            cells += [f"{sum(claim.holds for claim in claims)} of {len(claims)}", str(same)]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def asked_for(known: Iterable[str]) -> list[str]:
    """Studies named on the command line (none: all). One that does not exist is refused first."""
    names = list(known)
    for name in sys.argv[1:]:
        if name not in names:
            raise SystemExit(f"there is no study {name}{near(name, get_close_matches(name, names), ', '.join(names))}")
    return sys.argv[1:] or names


def loops_table() -> str:
    """Rings of jobs in docs/papers/cassini.md, a line for each number of jobs."""
    rows = json.loads((folder_of("cassini") / "studies.json").read_text(encoding="utf-8"))["loops"]
    lines = ["| jobs | part of the iteration sent | each link alone | consensus | unshifted |", "|---|---|---|---|---|"]
    for jobs in dict.fromkeys(row["jobs"] for row in rows):
        mine = [row for row in rows if row["jobs"] == jobs]
        cells = [
            " / ".join(f"{row[key]:.3g}" for row in mine) for key in ("duty", "best_alone", "consensus", "unshifted")
        ]
        lines.append(f"| {jobs} | {' | '.join(cells)} |")
    return "\n".join(lines)


def numbers_sentence() -> str:
    """How many cells of Ada-SRSF's tables do not hold, and by how much the worst are off."""
    rows = [row for row in recorded("ada-srsf") if re.match(r"table-i?v\..*\.(gpu-utilisation|jct-\w+)$", row["id"])]
    mean, p95 = (
        max(row["measured"] / row["published"] for row in rows if row["id"].endswith(metric))
        for metric in ("jct-mean", "jct-p95")
    )
    return (
        f"Of the {len(rows)} numbers in Tables IV and V {sum(not row['holds'] for row in rows)} do not hold: "
        f"mean JCT is up to {mean:.1f} times the published one, its 95th percentile (P95) up to {p95:.1f} times."
    )


def filled(text: str) -> str:
    """A page with its blocks as the records say."""
    for name, block in everything().items():
        if f"<!-- {name} -->" in text:
            between = re.compile(f"<!-- {name} -->\n.*?<!-- /{name} -->", re.DOTALL)
            text = between.sub(lambda _, new=f"<!-- {name} -->\n{block}\n<!-- /{name} -->": new, text)  # type: ignore[misc]
    return text


def everything() -> dict[str, str]:
    """All blocks, by name."""
    mine = [blocks(paper) for paper in sorted(set(papers()) - {"weft"})]
    return {name: block for each in mine for name, block in each.items()} | {"summary": summary()}


def pages() -> list[Path]:
    """The pages that have such blocks."""
    found = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    return [page for page in found if "<!-- /" in page.read_text(encoding="utf-8")]


def write_claims(claims: Iterable[Claim], folder: Path) -> None:
    """What a whole reproduction measured, beside its page: a line for each claim."""
    write_rows([{k: v for k, v in claim.to_dict().items() if k in KEPT} for claim in claims], folder)


def write_rows(found: Iterable[Mapping[str, Any]], folder: Path) -> None:
    """The same, of rows."""
    rows = [rounded({k: row[k] for k in KEPT if row.get(k) is not None or k == "published"}) for row in found]
    text = ",\n".join(f" {json.dumps(row)}" for row in rows)
    (folder / "claims.json").write_text(f"[\n{text}\n]\n", encoding="utf-8")


def save_figure(figure: Any, path: Path) -> None:
    from matplotlib import rc_context

    with rc_context({"svg.hashsalt": path.stem, "svg.fonttype": "none"}):
        figure.savefig(path, format="svg", facecolor="white", metadata={"Date": None, "Creator": None})
    print(f"wrote {path.relative_to(ROOT)}", file=sys.stderr)


def main() -> None:
    """Judge the recorded claims of papers (all, if none are named) by the rules as they are now, draw their headlines
    and fill in the pages; nothing is run."""
    from weft_evidence.report import headline_picture

    for paper in sys.argv[1:] or sorted(set(papers()) - {"weft"}):
        write_rows(judged(paper, recorded(paper)), folder_of(paper))
        if rows := real_rows(paper):
            text = ",\n".join(f"  {json.dumps(rounded(row))}" for row in rows)
            (folder_of(paper) / "real.json").write_text(f'{{"rows": [\n{text}\n]}}\n', encoding="utf-8")
        if "](headlines.svg)" in (folder_of(paper) / "README.md").read_text(encoding="utf-8"):
            save_figure(headline_picture(as_reproduction(paper)), folder_of(paper) / "headlines.svg")
    for page in pages():
        page.write_text(filled(page.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
