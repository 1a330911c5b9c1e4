"""Numbers and pictures of docs/papers/ada-srsf.md: python -m tools.ada_srsf [SWEEP...] runs the sweeps and draws them.

Without names all sweeps are run (about half an hour on two cores), and `weft reproduce` as well (by the name figures).
The numbers go to docs/papers/ada-srsf/sweeps.json and claims.json; sweeps that are not named keep theirs.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from weft.research.claims import Claim

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "docs" / "papers" / "ada-srsf"
NUMBERS = FOLDER / "sweeps.json"
SEEDS = 10


def main() -> None:
    """Run what is asked for and draw everything there are numbers of."""
    from weft.research.ada_srsf.sweeps import SWEEPS, run_sweep

    FOLDER.mkdir(parents=True, exist_ok=True)
    numbers: dict[str, Any] = json.loads(NUMBERS.read_text(encoding="utf-8")) if NUMBERS.exists() else {}
    asked = sys.argv[1:]
    for name in [n for n in asked if n in SWEEPS] or ([] if asked else list(SWEEPS)):
        with TemporaryDirectory() as folder:
            numbers[name] = rounded(run_sweep(SWEEPS[name], Path(folder), SEEDS))
        NUMBERS.write_text(json.dumps(numbers, indent=1) + "\n", encoding="utf-8")
        print(f"ran {name}", file=sys.stderr)
    if not asked or "figures" in asked:
        _figures()
    for name, rows in numbers.items():
        _draw(name, rows)
        print(f"\n{SWEEPS[name].title}\n{table(rows)}")


def rounded(value: Any) -> Any:
    """Numbers to five significant digits: more would be noise, and change with every rounding."""
    if isinstance(value, list):
        return [rounded(v) for v in value]
    if isinstance(value, dict):
        return {k: rounded(v) for k, v in value.items()}
    return float(f"{value:.5g}") if isinstance(value, float) else value


def table(rows: list[dict[str, Any]]) -> str:
    """A Markdown table: mean JCT of the first stack, ratios of the others with their intervals."""
    stacks = list(dict.fromkeys(row["stack"] for row in rows))
    lines = ["| | " + " | ".join([f"{stacks[0]}, mean JCT", *stacks[1:]]) + " |", "|---" * (len(stacks) + 1) + "|"]
    for point in dict.fromkeys(row["point"] for row in rows):
        mine = {row["stack"]: row for row in rows if row["point"] == point}
        cells = [f"{mine[stacks[0]]['jct_s'][0]:,.0f} s"]
        cells += ["{:.3f} [{:.3f}, {:.3f}]".format(*mine[stack]["ratio"]) for stack in stacks[1:]]
        lines.append(f"| {point} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _draw(name: str, rows: list[dict[str, Any]]) -> None:
    from weft.research.ada_srsf.sweeps import SWEEPS
    from weft.results.pictures.style import DASHES, MUTED, PALETTE, house_style, new_figure, tidy_axes

    with house_style():
        figure, (axes,) = new_figure(6.4, 3.4)
        stacks = list(dict.fromkeys(row["stack"] for row in rows))
        points = list(dict.fromkeys(row["point"] for row in rows))
        for i, stack in enumerate(stacks):
            mine = [row["ratio"] for row in rows if row["stack"] == stack]
            place = [points.index(row["point"]) + 0.06 * (i - len(stacks) / 2) for row in rows if row["stack"] == stack]
            colour = PALETTE[i % len(PALETTE)]
            axes.plot(place, [r[0] for r in mine], color=colour, linestyle=DASHES[i % len(DASHES)], label=stack, marker="o", markersize=3.5)  # fmt: skip # noqa: E501
            for at, (_, low, high) in zip(place, mine, strict=True):
                if low is not None:
                    axes.plot([at, at], [low, high], color=colour, linewidth=1.2)
        axes.axhline(1.0, color=MUTED, linewidth=0.8)
        axes.set_xticks(range(len(points)), points)
        axes.legend(fontsize=8)
        tidy_axes(axes, SWEEPS[name].title, SWEEPS[name].x, f"mean JCT over {stacks[0]}")
        save_figure(figure, FOLDER / f"{name}.svg")


def _figures() -> None:
    from weft.research.ada_srsf import MEMORY, reproduce
    from weft.research.claims import Request

    result = reproduce(Request())
    write_claims(result.claims, FOLDER)
    for picture in result.pictures:
        number = picture.caption.split(":")[0].split()[-1]
        limit = next((f"-{name}" for name, _, words in MEMORY if words in picture.caption), "")
        save_figure(picture.draw(), FOLDER / f"figure-{number}{limit}.svg")


def write_claims(claims: Iterable[Claim], folder: Path) -> None:
    """What a whole reproduction measured, beside its page: a line for each claim."""
    kept = ("id", "published", "measured", "ci95", "unit", "verdict", "holds", "released")
    rows = [rounded({k: v for k, v in claim.to_dict().items() if k in kept and v is not None}) for claim in claims]
    text = ",\n".join(f" {json.dumps(row)}" for row in rows)
    (folder / "claims.json").write_text(f"[\n{text}\n]\n", encoding="utf-8")


def save_figure(figure: Any, path: Path) -> None:
    from matplotlib import rc_context

    with rc_context({"svg.hashsalt": path.stem, "svg.fonttype": "none"}):
        figure.savefig(path, format="svg", facecolor="white", metadata={"Date": None, "Creator": None})
    print(f"wrote {path.relative_to(ROOT)}", file=sys.stderr)


if __name__ == "__main__":
    main()
