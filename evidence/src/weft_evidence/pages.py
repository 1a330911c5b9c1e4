"""What experiments write into the pages of papers: the claims as they were measured, numbers, figures."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from weft_evidence.claims import Claim

ROOT = Path(__file__).resolve().parents[3]  # of a checkout


def rounded(value: Any) -> Any:
    """Numbers to six significant digits: more would be noise, and change with every rounding."""
    if isinstance(value, list):
        return [rounded(v) for v in value]
    if isinstance(value, dict):
        return {k: rounded(v) for k, v in value.items()}
    return float(f"{value:.6g}") if isinstance(value, float) else value


def write_claims(claims: Iterable[Claim], folder: Path) -> None:
    """What a whole reproduction measured, beside its page: a line for each claim."""
    kept = ("id", "published", "measured", "ci95", "unit", "verdict", "holds", "released")
    found = [{k: claim.to_dict()[k] for k in kept if k in claim.to_dict()} for claim in claims]
    rows = [rounded({k: v for k, v in row.items() if v is not None or k == "published"}) for row in found]
    text = ",\n".join(f" {json.dumps(row)}" for row in rows)
    (folder / "claims.json").write_text(f"[\n{text}\n]\n", encoding="utf-8")


def save_figure(figure: Any, path: Path) -> None:
    from matplotlib import rc_context

    with rc_context({"svg.hashsalt": path.stem, "svg.fonttype": "none"}):
        figure.savefig(path, format="svg", facecolor="white", metadata={"Date": None, "Creator": None})
    print(f"wrote {path.relative_to(ROOT)}", file=sys.stderr)
