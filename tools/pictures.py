"""The pictures in README and tutorial, from a real run of the demo: python -m tools.pictures"""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def main() -> None:
    """Write docs/images from the demo comparison, the same pictures that its report has."""
    import weft
    from weft.results import gantt, plots
    from weft.results.style import house_style

    folder = ROOT / "docs" / "images"
    folder.mkdir(exist_ok=True)
    result = weft.compare(ROOT / "examples" / "demo.toml", record=True)
    first = {run.stack: run for run in reversed(result.runs)}
    end_s = max(float(first[stack].jobs["finish_s"].max()) for stack in ("srsf", "srsf-first-fit"))  # type: ignore[arg-type]
    with house_style():
        figures = {
            "jct.png": plots.jct_cdf(result.runs),
            "links-best-fit.png": plots.link_utilisation(first["srsf"], end_s, "srsf, best-fit", most=8),
            "links-first-fit.png": plots.link_utilisation(first["srsf-first-fit"], end_s, "srsf, first-fit", most=8),
            "timeline.png": gantt.cluster_timeline(first["srsf"], None, "srsf, seed 1"),
        }
        for name, figure in figures.items():
            figure.savefig(folder / name, dpi=110)
            print(f"wrote docs/images/{name}", file=sys.stderr)


if __name__ == "__main__":
    main()
