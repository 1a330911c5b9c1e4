"""Table I and Figures 1 and 6 of the Dally paper: what a placement costs, by the analytical hierarchy."""

from __future__ import annotations

from weft.network.cost import THEMIS, Shape, TierTable, tier
from weft_evidence.dally.shapes import calibrated_profile, share_of

TIERS = ("machine", "rack", "network")
# 8 GPUs: on one machine, four on each of two machines of a rack, four in each of two racks.
SHAPES: dict[str, Shape] = {"machine": ((8,),), "rack": ((4, 4),), "network": ((4,), (4,))}
# Figure 6 follows six jobs through placements; these are ours: model, then shapes it has one after another.
SIX_JOBS: tuple[tuple[str, tuple[Shape, ...]], ...] = (
    ("resnet50", (((8,),), ((4, 4),), ((8,),))),
    ("bert-large", (((4,), (4,)), ((8,),))),
    ("mobilenet-v3", (((2, 2, 2, 2),), ((8,),))),
    ("alexnet", (((1,),) * 8, ((4, 4),))),
    ("vgg11", (((8,),), ((2, 2), (2, 2)))),
    ("resnet18", (((8, 8),), ((8,), (8,)), ((8, 8),))),
)


def share(model: str, where: str) -> float:
    """Table I: exposed communication over compute time, 8 GPUs on one machine, in one rack or over racks."""
    return share_of(model, SHAPES[where])


def latencies() -> list[tuple[str, int, float, float]]:
    """Figure 6: model, tier, exposed communication by Themis' penalties and by the hierarchy, for each placement."""
    static = TierTable(THEMIS)
    rows = []
    for model, shapes in SIX_JOBS:
        for shape in shapes:
            profile = calibrated_profile(model, sum(map(sum, shape)))
            exact_s = share_of(model, shape) * profile.compute_s
            rows.append((model, tier(shape), static.exposed_s(profile, model, shape), exact_s))
    return rows
