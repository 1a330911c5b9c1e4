"""What CASSINI's text states beside its figures: pairs of jobs, shares of time, orders, the grid's precision."""

from __future__ import annotations

import time
import tomllib
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

import numpy as np

from weft_evidence.cassini.scenarios import RESNET50
from weft_evidence.cassini.snapshots import CAPACITY_GBPS, FIGURE_2, PADDING, SNAPSHOTS, played, shifted
from weft_evidence.checks import LabCheck, Rule, in_place, nearly, some_effect
from weft_evidence.claims import Kind, Measured, Verdict

if TYPE_CHECKING:
    from weft.policies.interleave.cassini.circle import Circle

Check = LabCheck[Any]
COARSE, PAPER, FINE = 45.0, 5.0, 1.0  # degrees
_STEPS = 20_000  # at which a circle is looked at


@cache
def stated() -> dict[str, dict[str, Any]]:
    """pairs.toml."""
    return tomllib.loads((files("weft_evidence.cassini") / "pairs.toml").read_text("utf-8"))


@cache
def circle_of(model: str, workers: int) -> Circle:
    """What the first worker of a job sends in an iteration alone."""
    from weft.network.estimates import run_alone
    from weft.policies.interleave.cassini.circle import Circle
    from weft.workload import zoo

    alone = run_alone(zoo.profile(model, workers, gpu="A100"), CAPACITY_GBPS * 1e9 / 8)
    arcs = ((up.start_s, up.end_s - up.start_s, up.bytes_per_s * 8e-9) for up in alone.up_phases())
    return Circle(alone.iteration_s, tuple(arcs))


def pair_score(jobs: dict[str, int]) -> float:
    """The best score of jobs on one link, iterations made up to a tenth longer."""
    from weft.policies.interleave.cassini.compat import compat

    return compat({name: circle_of(name, n) for name, n in jobs.items()}, CAPACITY_GBPS, padding=PADDING).rotation.score


def _pairs() -> dict[str, Check]:
    limits, found = stated()["limits"], {}
    for name, row in stated().items():
        if name == "limits":
            continue
        jobs = row["jobs"]
        most = row.get("below", limits["not"])
        words = f"at least {limits['compatible']:g}" if row.get("compatible") else f"at most {most:g}"
        if "below" in row:
            words = f"below {most:g}"
        rule = _from(limits["compatible"]) if row.get("compatible") else _up_to(most, "below" not in row)
        found[f"pair.{name}"] = Check(
            f"{' and '.join(each.split('[')[0] for each in jobs)} on a link: best score ({words})", None, "",
            lambda lab, jobs=jobs: Measured(pair_score(jobs)), rule, seeded=False,  # type: ignore[misc]
        )  # fmt: skip
    return found


def _from(least: float) -> Rule:
    return Rule(lambda p, m: _if(m.value is not None and m.value >= least), Kind.DIRECTION)


def _up_to(most: float, with_it: bool) -> Rule:
    return Rule(
        lambda p, m: _if(m.value is not None and (m.value <= most if with_it else m.value < most - 1e-3)),
        Kind.DIRECTION,
    )


def _if(holds: bool) -> Verdict:
    return "direction" if holds else "no"


def crowded(number: int) -> float:
    """Of the time in which jobs of a snapshot send, per cent in which they want more than the link has: at the shifts
    that are found, or over all positions where periods do not fit."""
    found = shifted(SNAPSHOTS[number])
    times, rng = (np.arange(_STEPS) + 0.5) / _STEPS * found.rotation.perimeter_s, np.random.default_rng(0)
    total = np.zeros(_STEPS)
    for circle, period, shift in zip(found.circles, found.periods.periods_s, found.rotation.shifts_s, strict=True):
        # jobs whose periods do not fit drift past each other
        phase = np.mod(times - shift, period) if found.periods.fit else rng.random(_STEPS) * circle.period_s
        for start, length, gbps in circle.arcs:
            total += np.where((phase >= start) & (phase < start + length), gbps, 0.0)
    return 100.0 * float((total > CAPACITY_GBPS * (1 + 1e-9)).sum()) / float((total > 0.0).sum())


def _figure_15() -> dict[str, Check]:
    found = {}
    for number, snapshot in SNAPSHOTS.items():
        words = "they share it" if number == 5 else "they interleave"
        found[f"figure-15.snapshot-{number}"] = Check(
            f"Figure 15, snapshot {number}: part of the time of sending in which jobs want more than there is (most "
            f"of the time {words}: {'more' if number == 5 else 'less'} than half)",
            None, "%", lambda lab, number=number: Measured(crowded(number)),  # type: ignore[misc]
            some_effect(50.0, more=number == 5), seeded=False, kind=Kind.FITTED if snapshot.fitted else None,
        )  # fmt: skip
    return found


def _gain(number: int) -> float:
    """Mean over jobs of the communication time unshifted over that shifted."""
    plain, with_shifts = (played(SNAPSHOTS[number], how)["jobs"] for how in (False, True))
    return float(np.mean([plain[name]["comm_ms"] / with_shifts[name]["comm_ms"] for name in plain]))


def _in_order(lab: Any) -> Measured:
    """Pairs of snapshots of different published scores in which the higher one gains more."""
    pairs = [(a, b) for a in SNAPSHOTS for b in SNAPSHOTS if SNAPSHOTS[a].score > SNAPSHOTS[b].score]
    return Measured(float(sum(_gain(a) > _gain(b) for a, b in pairs)))


def lost(degrees: float) -> float:
    """Mean score that a grid loses to exact rotations, over the snapshots whose periods fit."""
    from weft.policies.interleave.cassini.compat import rotate_on_grid

    found = [shifted(snapshot) for snapshot in SNAPSHOTS.values()]
    grids = [
        (each.rotation.score, rotate_on_grid(each.circles, CAPACITY_GBPS, each.periods, degrees).score)
        for each in found if each.periods.fit
    ]  # fmt: skip
    return float(np.mean([exact - grid for exact, grid in grids]))


def _grid_s(degrees: float) -> float:
    """CPU seconds of the grid on snapshot 2, whose three jobs are rotated together; the least of three times."""
    from weft.policies.interleave.cassini.compat import grid_shifts

    each, spent = shifted(SNAPSHOTS[2]), []
    for _ in range(3):
        began = time.process_time()
        grid_shifts(each.circles, CAPACITY_GBPS, each.periods, degrees)
        spent.append(time.process_time() - began)
    return min(spent)


def random_tie(draws: int = 2000) -> float:
    """Of what shifts gain on two links that one job uses with another each, per cent that is left where its shift is
    that of one link, picked at random. The jobs are those of snapshot 1; each link's shifts start anywhere."""
    from weft.policies.interleave.cassini.rotate import score_at, uniform_score

    found, rng = shifted(SNAPSHOTS[1]), np.random.default_rng(0)
    best, free = found.rotation.score, uniform_score(found.circles, CAPACITY_GBPS)
    shifts, period = found.rotation.shifts_s, found.periods.periods_s
    scores = []
    for _ in range(draws):  # the middle job keeps step with one neighbour; with the other it is anywhere
        other = (shifts[0], (shifts[1] + rng.random() * period[1]) % period[1])
        scores.append(best + score_at(found.circles, CAPACITY_GBPS, other, found.periods))
    return 100.0 * (float(np.mean(scores)) - 2.0 * free) / (2.0 * (best - free))


def loop_free_share() -> float:
    """Per cent of 50 random placements of the testbed without a loop, jobs of 2, 3, 4 and 6 workers filling it."""
    from weft_evidence.cassini.beyond import loop_free

    return 100.0 * float(np.mean([row["random"] for row in loop_free(50)]))


def _lower(stack: str) -> Check:
    """ "Consistently lower" marks, model by model."""

    def measure(lab: Any) -> Measured:
        plain, with_shifts = (lab.models("figure-13", name) for name in (stack, f"{stack}+cassini"))
        marked = [model for model, marks in plain.items() if marks > 0.0]
        share = np.mean([with_shifts.get(model, 0.0) < plain[model] for model in marked]) if marked else None
        return Measured(None if share is None else 100.0 * float(share))

    what = (
        f"Figures 13b to d: of the models with marks under {stack}, which DLRM has none of, those with fewer under "
        f"{stack}+cassini, three seeds (all)"
    )
    return Check(what, 100.0, "%", measure, in_place, slow=True)


def _resnet_marks(lab: Any) -> Measured:
    found = lab.models("figure-13", "themis")
    others = [marks for model, marks in found.items() if model != RESNET50]
    mean = float(np.mean(others)) if others else 0.0
    return Measured(found.get(RESNET50, 0.0) / mean if mean else None)


# A model that meets nobody on a link has no marks, which says nothing of its size.
_FEWER = Rule(
    lambda p, m: some_effect(1.0, more=False)(p, m) if m.value else "not judged", Kind.DIRECTION, 1.0
)  # fmt: skip
STATEMENTS: dict[str, Check] = {
    "figure-2.fair-share": Check(
        "Figure 2: bandwidth of two VGG19 jobs that start together, each (half the link)", 22.0, "Gbit/s",
        lambda lab: Measured(
            FIGURE_2.jobs[0].comm_ms * FIGURE_2.jobs[0].gbps / played(FIGURE_2, False)["jobs"]["VGG19"]["comm_ms"]
        ),
        nearly, seeded=False,
    ),
    **_pairs(),
    **_figure_15(),
    "section-5-5.gain-follows-score": Check(
        "Table 2: pairs of snapshots in which the one with the higher published score gains more (all 9)", 9.0, "pairs",
        _in_order, in_place, seeded=False,
    ),
    "section-4-1.random-tie": Check(
        "a job's shift is that of one of its links, at random: part of the gain that is left (none)", 0.0, "%",
        lambda lab: Measured(random_tie()), nearly, seeded=False,
    ),
    "appendix-a.loop-free": Check(
        "random placements of the testbed without a loop (many: more than half)", None, "%",
        lambda lab: Measured(loop_free_share()), some_effect(50.0), seeded=False,
    ),
    "figure-18.accuracy-order": Check(
        f"Figure 18: score lost by a grid of {COARSE:g} degrees less that of {PAPER:g} (more)", None, "",
        lambda lab: Measured(lost(COARSE) - lost(PAPER)), some_effect(0.0), seeded=False, kind=Kind.CONSTRUCTION,
    ),
    "figure-18.time-order": Check(
        f"Figure 18: CPU time of a grid of {FINE:g} degree over one of {PAPER:g} (more)", None, "x",
        lambda lab: Measured(_grid_s(FINE) / _grid_s(PAPER)), some_effect(1.0), seeded=False, kind=Kind.CONSTRUCTION,
    ),
    "figure-13.themis.ecn-order": _lower("themis"),
    "figure-13.pollux.ecn-order": _lower("pollux"),
    "figure-19.resnet50": Check(
        "Figure 19: marks of ResNet50 over the mean of the other models, Figure 13 under themis (lower)", None, "x",
        _resnet_marks, _FEWER, slow=True,
    ),
}  # fmt: skip
