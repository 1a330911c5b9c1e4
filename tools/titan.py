"""Numbers of docs/papers/titan.md: python -m tools.titan [claims|inside]

`claims` runs the whole reproduction over three seeds and writes docs/papers/titan/claims.json. `inside` prints what
Exp#7 is with limits on what devices of one server exchange.
"""

from __future__ import annotations

import sys

from tools.ada_srsf import ROOT, write_claims
from weft.kept import kept
from weft.research import reproduce
from weft.research.claims import Request
from weft.research.titan.runs import DEALT, on_testbed

FOLDER = ROOT / "docs" / "papers" / "titan"
INSIDE_GBPS = (None, 400.0, 200.0, 100.0, 80.0, 70.0, 60.0, 50.0, 25.0)


def inside() -> str:
    """A Markdown table: communication times of VGG-16 on 8 workers, one row for each limit."""
    lines = [
        "| Gbit/s inside a server | Titan over ElasticFlow in rank order | over ElasticFlow dealt | HiveD over Titan |",
        "|---|---:|---:|---:|",
    ]
    for gbps in INSIDE_GBPS:
        titan, plain, dealt, hived = (
            on_testbed(placer, "vgg16", 8, gbps).comm_s for placer in ("titan", "elasticflow", DEALT, "hived")
        )
        what = "no limit" if gbps is None else f"{gbps:g}"
        lines.append(f"| {what} | {titan / plain:.2f} | {titan / dealt:.2f} | {hived / titan:.2f} |")
    return "\n".join(lines)


def main() -> None:
    """Do what is asked for, or print the table."""
    if sys.argv[1:] == ["claims"]:
        FOLDER.mkdir(parents=True, exist_ok=True)
        with kept():  # a reproduction that is interrupted goes on from the runs that it had finished
            write_claims(reproduce("titan", Request(seeds=3, workers=1)).claims, FOLDER)
        return
    print(inside())


if __name__ == "__main__":
    main()
