"""What the Dally paper says of its six models (section III-B, Table I) and of tuned timers, beside its numbers."""

from __future__ import annotations

from functools import partial
from itertools import combinations, pairwise

import numpy as np

from weft.network.cost import DALLY_TABLE_I
from weft.policies.place.skew import skew_of
from weft_evidence.checks import Check, in_place, some_effect
from weft_evidence.claims import Kind, Measured, Runs
from weft_evidence.dally.latency import TIERS, latencies, share
from weft_evidence.dally.runs import timers_over_time

SEEDS = 3


def _ordered(where: str, runs: Runs) -> Measured:
    """Pairs of models whose shares are in the order of the published ones."""
    published = {model: getattr(row, where) for model, row in DALLY_TABLE_I.items()}
    pairs = [(a, b) if published[a] > published[b] else (b, a) for a, b in combinations(published, 2)]
    return Measured(float(sum(share(a, where) > share(b, where) for a, b in pairs)))


def _correlation(runs: Runs) -> Measured:
    """Between skew and the logarithm of communication over computing across racks, without its sign."""
    skews, shares = zip(*((skew_of(model), np.log(share(model, "network"))) for model in DALLY_TABLE_I), strict=True)
    return Measured(abs(float(np.corrcoef(skews, shares)[0, 1])))


def _over(runs: Runs) -> Measured:
    return Measured(share("resnet18", "network") / share("vgg11", "network"))


def _both_ways(runs: Runs) -> Measured:
    """Of the changes of the rack timer of jobs of 16 GPUs, the part that is rarer, up or down, in percent."""
    found = []
    for seed in range(SEEDS):
        steps = [later[2] - row[2] for row, later in pairwise(timers_over_time(8, 16, seed)) if later[2] != row[2]]
        ups = sum(step > 0.0 for step in steps)
        found.append(100.0 * min(ups, len(steps) - ups) / len(steps) if steps else None)
    return Measured.over_seeds(found)


def _monotone() -> Check:
    def measure(runs: Runs) -> Measured:
        rows = [[share(model, where) for where in TIERS] for model in DALLY_TABLE_I]
        return Measured(float(sum(row[0] <= row[1] <= row[2] for row in rows)))

    return Check(
        "Figure 1: models whose iteration grows from machine to rack to network (all 6 must)", 6.0, "models", (),
        measure, in_place, seeded=False, kind=Kind.FITTED,
    )  # fmt: skip


def _own_latency() -> Check:
    def measure(runs: Runs) -> Measured:
        return Measured(float(len({round(exact, 9) for _, _, _, exact in latencies() if exact > 0})))

    return Check(
        "Figure 6: different latencies of the placements of six jobs, where Themis has one share for each tier "
        "(more than 6; with the models of Table I)",
        6.0, "latencies", (), measure, some_effect(6.0), seeded=False,
    )  # fmt: skip


def checks() -> dict[str, Check]:
    """By name."""
    return {
        "figure-1.growth": _monotone(),
        "figure-6.own-latency": _own_latency(),
        **{
            f"table-i.order.{where}": Check(
                f"models by communication over computing, {words}: pairs in the published order (all 15 must be)",
                15.0, "pairs", (), partial(_ordered, where), in_place, seeded=False, kind=Kind.FITTED,
            )
            for where, words in (("rack", "in a rack"), ("network", "across racks"))
        },
        "section-iii-b.skew": Check(
            "six models: correlation of skew with communication over computing across racks (weak: below 0.5)", None,
            "correlation", (), _correlation, some_effect(0.5, more=False), seeded=False,
            kind=Kind.FITTED,
        ),
        "section-iii-b.resnet18-over-vgg11": Check(
            "communication over computing across racks, ResNet18 (low skew) over VGG11 (high; more than 1)", None,
            "times", (), _over, some_effect(1.0), seeded=False, kind=Kind.FITTED,
        ),
        "figure-4.up-and-down": Check(
            f"Figure 4: of the changes of the rack timer of 16 GPUs, 8 racks, those that go the rarer way, seeds 0 to "
            f"{SEEDS - 1} (more than 0 %)", None, "%", (), _both_ways, some_effect(0.0), slow=True,
        ),
    }  # fmt: skip
