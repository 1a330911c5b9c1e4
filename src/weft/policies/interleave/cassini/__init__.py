"""cassini: choose the candidate whose jobs are most compatible on the network, and shift them (CASSINI section 4.2)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import Any

from weft.model.flows import Traffic
from weft.model.plan import Candidate, Gate, Plan, State
from weft.model.policy import setting
from weft.model.reason import Why, both
from weft.model.view import ClusterView, Fact, Spread
from weft.policies.interleave.base import Interleave, Pick
from weft.policies.interleave.cassini import printed
from weft.policies.interleave.cassini.align import Alignment, align
from weft.policies.interleave.cassini.circle import Circle, common_periods
from weft.policies.interleave.cassini.layout import TOLERANCE, Layout, lay_out, score_links, traffic_of
from weft.policies.interleave.cassini.rotate import rotate, score_at, settle


@dataclass(frozen=True)
class Settings:
    """`cassini:padding=0.1,metric=tail,loops=discard`: what may be set.

    candidates: how many plans to ask the planner for. padding: relative idle time that may be added to an iteration so
    that it fits the periods of others (0: none, so that partly compatible jobs are not held to gates either). metric:
    plans are scored by the mean over links, by the worst link (tail), or, as a control, by the number of racks that
    jobs are spread over (racks). loops: groups whose links form a loop get the shifts on which the links disagree least
    (consensus), or such plans are passed over and looping groups are left unshifted (discard, the rule as printed).
    threads: for scoring. shifts: whether jobs are shifted at all (`unshifted` is another control). stay: candidates are
    passed over in which a job that has GPUs would go elsewhere than in the planner's own plan. printed: the algorithm
    to the letter of the paper (printed.py), for which only candidates counts.
    """

    candidates: int = setting(10, "candidates", within="[1, 1000]", whole=True)
    padding: float = setting(0.05, "padding", within="[0, 1]")
    metric: str = setting("mean", "metric", words=("mean", "tail", "racks"))
    loops: str = setting("consensus", "loops", words=("consensus", "discard"))
    threads: int = setting(0, "threads", within="[0, 256]", whole=True)  # 0: one per core
    shifts: bool = setting(True, words={"unshifted": False})
    stay: bool = setting(False, words={"stay": True})
    printed: bool = setting(False, words={"printed": True})


@dataclass(eq=False)
class Cassini(Interleave):
    """Algorithm 2 with exact rotations, and gates that compatible jobs are held to.

    Jobs are held to a periodic gate (re-aligned when more than 5 % off) if they are fully compatible, or if they
    are partly compatible and their periods leave room for what does not fit. The others are shifted once. All of this
    happens only where it is expected to gain more than it costs. With `loops=discard`, candidates whose affinity graph
    has loops are passed over while there are others; if all have loops, the best is taken and its looping groups are
    left unshifted.
    """

    name = "cassini"
    needs = frozenset({Fact.PROFILE})
    shifts = True
    settings: Settings = Settings()

    def __post_init__(self) -> None:
        """What every interleave says; results call it cassini, however it is set."""
        self.candidates = self.settings.candidates
        self.shifts = self.settings.shifts

    def prepare(self) -> None:
        """Load the kernels, which rotate circles, score shifts and settle loops."""
        circles, periods = [Circle(1.0, ((0.0, 0.4, 1.0),))] * 3, common_periods([1.0] * 3)
        score_at(circles, 1.0, rotate(circles, 1.0, periods).shifts_s, periods)
        settle([(["a", "b", "c"], (circles, 1.0, periods))], [{}])

    def initial_state(self) -> State:
        """No gates yet."""
        return {"version": 1, "gates": {}}

    def pick(self, view: ClusterView, candidates: Sequence[Candidate], state: State) -> Pick:
        """Score all, take the best, shift its jobs."""
        if self.settings.printed:
            chosen, alignments, traffic = printed.choice(view, candidates)
            gates, kept, reasons = _kept_gates(view, traffic, alignments, candidates[chosen], state)
            plan = Plan(candidates[chosen].plan.placements, gates)
            return Pick(replace(candidates[chosen], plan=plan), {"version": 1, "gates": kept}, reasons)
        if self.settings.stay:
            own = candidates[0].plan.placements
            same = [all(c.plan.placements.get(job) == own.get(job) for job in view.running) for c in candidates]
            candidates = [candidate for candidate, stays in zip(candidates, same, strict=True) if stays]
        plans = [candidate.plan.placements for candidate in candidates]
        layouts = self.layouts(view, plans)
        values = self._values(view, plans, layouts)
        cost = [candidate.restart_share for candidate in candidates]  # time lost, in the unit of 1 - score
        chosen = max(range(len(plans)), key=lambda i: (values[i][0], round(values[i][1] - cost[i], 9), -i))
        layout, candidate = layouts[chosen], candidates[chosen]
        if not self.settings.shifts:
            return Pick(candidate, state)
        gates, kept, reasons, left = self._gates(view, layout, candidate, state)
        words = dict(candidate.reasons)
        for job in left:
            if job in view.waiting and job in words:
                words[job] = both(words[job], "not shifted: the links of its group make a loop")
        plan = Plan(candidate.plan.placements, gates)
        return Pick(replace(candidate, plan=plan, reasons=words), {"version": 1, "gates": kept}, reasons)

    def _values(self, view: ClusterView, plans: Sequence[Any], layouts: Sequence[Layout]) -> list[tuple[bool, float]]:
        """How good each plan is: without loops first where these are passed over, then by score (or by racks)."""
        if self.settings.metric == "racks":
            spread = [sum(Spread.of(view.cluster, gpus).racks for gpus in plan.values()) for plan in plans]
            return [(True, -float(racks)) for racks in spread]
        tail, any_will_do = self.settings.metric == "tail", self.settings.loops == "consensus"
        return [(any_will_do or layout.loops == 0, round(layout.score(tail), 9)) for layout in layouts]

    def layouts(self, view: ClusterView, plans: Sequence[Any]) -> list[Layout]:
        """Which jobs meet under each plan, every link scored; links that are alike are solved once, in parallel."""
        capacity, padding = view.cluster.topology.capacity, self.settings.padding
        found = [lay_out(traffic, capacity, padding) for traffic in traffic_of(view, plans)]
        score_links(found, self.settings.threads)
        return found

    def _gates(
        self, view: ClusterView, layout: Layout, candidate: Candidate, state: State
    ) -> tuple[dict[str, Gate], dict[str, Any], dict[str, Why], set[str]]:
        """Gates, what is remembered of them, why each, and jobs that a loop leaves unshifted."""
        found: list[Alignment] = []
        left: set[str] = set()
        for group in layout.groups:
            aligned = align(layout, group, self.settings.padding, self.settings.loops == "consensus")
            left |= set(group.periods_s) - {job for a in aligned for job in a.jobs}
            found += [alignment for alignment in aligned if alignment.pays]
        return *_kept_gates(view, layout.traffic, found, candidate, state), left


def _kept_gates(
    view: ClusterView,
    traffic: Mapping[str, Traffic],
    alignments: Sequence[Alignment],
    candidate: Candidate,
    state: State,
) -> tuple[dict[str, Gate], dict[str, Any], dict[str, Why]]:
    """Gates, what is remembered of them, and why each; jobs whose alignment is the same keep theirs."""
    gates: dict[str, Gate] = {}
    kept: dict[str, Any] = {}
    reasons: dict[str, Why] = {}
    for alignment in alignments:
        key = _key(alignment, candidate)
        old = {job: state["gates"].get(job) for job in alignment.jobs}
        if all(entry is not None and entry[3] == key for entry in old.values()):
            mine = {job: Gate(e[0], e[1], e[2], TOLERANCE) for job, e in old.items()}
        else:
            mine = _new_gates(view, traffic, alignment, old)
        for job, gate in mine.items():
            gates[job] = gate
            kept[job] = [gate.epoch_s, gate.period_s, gate.task, key]
            reasons[job] = _words(alignment, job)
    return gates, kept, reasons


def _new_gates(
    view: ClusterView, traffic: Mapping[str, Traffic], alignment: Alignment, old: dict[str, Any]
) -> dict[str, Gate]:
    """Openings on a common clock: that of a job which has its openings already, or one that begins now."""
    periodic = alignment.held
    shifts = alignment.shifts_s
    anchor = next((j for j in alignment.jobs if periodic and old[j] is not None and old[j][1] > 0), None)
    if anchor is not None:
        base = old[anchor][0] - shifts[anchor]
    elif periodic:  # so that no job that starts now is late for the first opening
        base = view.now + max(traffic[j].offset_s - shifts[j] for j in alignment.jobs)
    else:  # once: late enough that no job has passed the gated task by then
        base = view.now + max(traffic[j].iteration_s for j in alignment.jobs)
    gates = {}
    for job in alignment.jobs:
        task = traffic[job].task or 0
        period = alignment.periods_s[job] if periodic else 0.0
        gates[job] = Gate(base + shifts[job], period, task, TOLERANCE)
    return gates


def _words(alignment: Alignment, job: str) -> str:
    shift, period = alignment.shifts_s[job], alignment.periods_s[job]
    how = "held to its gate" if alignment.held else "shifted once"
    loop = f", loops cost {alignment.forgone:.3f}" if alignment.looped else ""
    return f"{how}: {1e3 * shift:.1f} ms into {1e3 * period:.1f} ms, score {alignment.score:.3f}{loop}"


def _key(alignment: Alignment, candidate: Candidate) -> str:
    parts = [
        f"{job}:{candidate.plan.placements[job]}:{alignment.periods_s[job]:.9f}:{alignment.shifts_s[job]:.9f}"
        for job in sorted(alignment.jobs)
    ]
    return blake2b("/".join(parts).encode(), digest_size=12).hexdigest()
