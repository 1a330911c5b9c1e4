"""The pictures in README, tutorial and on Titan's page, from real runs: python -m tools.pictures

The last needs the public ElasticFlow trace under WEFT_TRACES; without it that picture stays as it is.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ROOT = Path(__file__).resolve().parent.parent


def main() -> None:
    """Write docs/images from the demo comparison, the same pictures that its report has."""
    import weft
    from weft.results.pictures import plots
    from weft.results.pictures.style import house_style, plain_numbers

    folder = ROOT / "docs" / "images"
    folder.mkdir(exist_ok=True)
    result = weft.compare(ROOT / "examples" / "demo.toml", record=True)
    first = {run.stack: run for run in reversed(result.runs)}
    end_s = max(float(first[stack].jobs["finish_s"].max()) for stack in ("fifo-backfill", "weft"))  # type: ignore[arg-type]
    with house_style():
        figures = {
            **_titan(),
            "jct.png": plots.jct_cdf(result.runs),
            "links-backfill.png": plots.link_utilisation(first["fifo-backfill"], end_s, "fifo-backfill", most=8),
            "links-weft.png": plots.link_utilisation(first["weft"], end_s, "weft", most=8),
            "timeline.png": plots.cluster_timeline(first["weft"], None, "weft, seed 1"),
        }
        for name, figure in figures.items():
            plain_numbers(figure)
            figure.savefig(folder / name, dpi=110)
            print(f"wrote docs/images/{name}", file=sys.stderr)


def _titan() -> dict[str, Figure]:
    """All placers: used machines against bytes across machines, as in the report of `weft reproduce titan`."""
    from weft_evidence.claims import Request
    from weft_evidence.titan.figures import pareto
    from weft_evidence.titan.runs import FEW_JOBS, SHOWN_JOBS, all_placers, is_synthetic

    if is_synthetic("trace-1"):
        print(
            "elasticflow/raw is not under WEFT_TRACES: docs/images/titan-placers*.png stay as they are", file=sys.stderr
        )
        return {}
    request = Request(quick=True)
    return {
        "titan-placers.png": pareto(all_placers(request, SHOWN_JOBS)),
        "titan-placers-shared.png": pareto(all_placers(request, FEW_JOBS)),
    }


if __name__ == "__main__":
    main()
