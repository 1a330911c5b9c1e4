"""Flow scheduling (Zhao, Wu and Zhu): Figures 8, 14 and 15 as far as they are savings of mean JCT.

The readings are those of docs/papers/flow-scheduling.md.
"""

from __future__ import annotations

from dataclasses import replace

from weft.papers.checks import Check, saving, test
from weft.papers.claims import Reproduction, Request

__all__ = ["CLAIMS", "reproduce"]

PAPER = "flows"
SEEDS, QUICK_SEEDS = 5, 2


def _bed(pace: str) -> str:
    return f"fifo[place=first-fit,pace={pace}]"


def _tree(pace: str) -> str:
    return f"fifo[place=random,pace={pace}]"


CLAIMS: dict[str, Check] = {
    **{
        f"figure-8.saving-over-{pace.replace(':', '-')}": saving(
            f"6 servers, 25 Gbit/s: flow saves average JCT over {pace}", 15.0, _bed("flow"), _bed(pace)
        )
        for pace in ("tcp:cubic", "tcp:reno", "tcp:bbr", "tcp:dctcp", "pcc")
    },
    "figure-14.host-only-over-tcp-cubic": saving(
        "6 servers: flow without switches saves average JCT over tcp:cubic", 8.5, _bed("flow:host-only"),
        _bed("tcp:cubic"),
    ),
    **{
        f"figure-15.saving-over-{pace}": replace(
            saving(f"three-tier tree: flow saves average JCT over {pace}", published, _tree("flow"), _tree(pace)),
            scenario="flows-tree",
        )
        for pace, published in (("mcs", 33.6), ("ccml", 23.3))
    },
}  # fmt: skip

NOTES = (
    "The paper's job set was never published; ours is drawn anew for each seed. Figure 15 is run at a tenth of its "
    "scale; `weft bench flows` runs the whole.",
    "A saving holds if our whole interval is above 0.",
    "The TCP models leave out everything shorter than 10 ms, so they waste less than real ones do.",
)


def reproduce(request: Request) -> Reproduction:
    """Figures 8, 14 and 15."""
    claims, _, notes = test(PAPER, CLAIMS, request, SEEDS, QUICK_SEEDS)
    return Reproduction(PAPER, claims, (*NOTES, *notes))
