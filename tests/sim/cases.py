"""Random cases for the engine, with all its features drawn together; driver.py runs them.

A case is drawn from any `random.Random`: a seeded one, or one that Hypothesis controls and shrinks. Times and bytes are
small round numbers about half of the time, so that many events fall on one instant, and odd ones otherwise.
"""

import math
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from itertools import combinations, product

import numpy as np

from tests.sim.rules import Drawn, Nothing
from weft.model.plan import Gate
from weft.policies.pace.rates import RateRule
from weft.sim.compiled.state import TRANSFER
from weft.sim.engine import EngineSpec
from weft.sim.engine.program import NodeSpec, compute_node, transfer_node

FEATURES: dict[str, tuple[str, ...]] = {  # drawn in this order; the first value is the absence of the feature
    "skip": ("off", "exact", "estimate"),
    "graph": ("chain", "overlap", "opened"),
    "sharing": ("ideal", "max-min", "k-way"),
    "admission": ("all", "at-most", "ratio"),
    "gate": ("none", "one-off", "periodic", "changed"),
    "gpus": ("own", "shared"),
    "stops": ("none", "stopped", "resized"),
    "chance": ("none", "jitter", "stragglers", "tasks"),
    "latency": ("none", "some"),
    "demand": ("none", "some"),
    "rule": ("none", "nothing", "caps", "ranks"),
    "weights": ("none", "some"),
}


def admissible(a: tuple[str, str], b: tuple[str, str]) -> bool:
    """Whether two features can be had at once.

    Opened transfers exist under max-min sharing only: the other models know no rate of a single flow. What is random,
    or has followers, never repeats exactly, so nothing is skipped there but by estimate. Rules set caps of flows, so
    they exist under max-min sharing only, and nothing is skipped there at all. Jobs have weights under max-min sharing
    only, and where no rule gives them others.
    """
    pair = {a, b}
    if ("weights", "some") in pair and pair & {("sharing", "ideal"), ("sharing", "k-way")}:
        return False
    if any(name == "rule" and value != "none" for name, value in pair):
        return not pair & {
            ("sharing", "ideal"), ("sharing", "k-way"), ("skip", "exact"), ("skip", "estimate"), ("weights", "some"),
        }  # fmt: skip
    if ("graph", "opened") in pair and pair & {("sharing", "ideal"), ("sharing", "k-way")}:
        return False
    random_or_opened = {("chance", "jitter"), ("chance", "stragglers"), ("chance", "tasks"), ("graph", "opened")}
    return not (("skip", "exact") in pair and pair & random_or_opened)


def all_pairs() -> set[frozenset[tuple[str, str]]]:
    """Every admissible pair of values of two features."""
    return {
        frozenset(((f, v), (g, w)))
        for f, g in combinations(FEATURES, 2)
        for v, w in product(FEATURES[f], FEATURES[g])
        if admissible((f, v), (g, w))
    }


def draw_features(rng: random.Random, **fixed: str) -> dict[str, str]:
    """One admissible value of every feature."""
    chosen: dict[str, str] = dict(fixed)
    for name, values in FEATURES.items():
        if name not in chosen:
            allowed = [v for v in values if all(admissible((name, v), other) for other in chosen.items())]
            chosen[name] = rng.choice(allowed)
    return {name: chosen[name] for name in FEATURES}


@dataclass(frozen=True)
class Stay:
    """One assignment of a job: attached at `start_s`, detached at `stop_s` unless it finishes before."""

    specs: tuple[NodeSpec, ...]
    start_s: float
    stop_s: float = math.inf


@dataclass(frozen=True)
class JobCase:
    """A job; of several stays the later ones go on with the iterations that are left."""

    iterations: int
    stays: tuple[Stay, ...]
    turn: tuple[float, float] = (0.0, 0.0)
    gate: Gate | None = None
    regate: tuple[float, Gate | None] | None = None  # when the gate is changed, and to what


@dataclass(frozen=True)
class Case:
    """An engine's physics and what is to run on it."""

    spec: EngineSpec
    jobs: tuple[JobCase, ...]
    features: Mapping[str, str] = field(default_factory=dict)


def amount(rng: random.Random) -> float:
    """Seconds or bytes: often one of a few round numbers, so that events coincide."""
    return rng.choice([0.5, 1.0, 1.0, 2.0, round(rng.uniform(0.1, 2.0), 3)])


def draw_case(rng: random.Random, features: Mapping[str, str], iterations: int = 8) -> Case:
    """A case with these features."""
    n_links, n_gpus = rng.randint(1, 4), rng.randint(1, 3)
    k = rng.randint(1, 3)
    chance = features["chance"]
    spec = EngineSpec(
        np.array([rng.choice([1.0, 2.0, 3.0]) for _ in range(n_links)]),
        np.array([rng.random() < 0.8 for _ in range(n_links)], np.bool_),
        n_gpus=n_gpus,
        sharing=features["sharing"],
        b_s_per_byte=0.5 if features["sharing"] == "k-way" else 0.0,
        eta_s_per_byte=0.1 if features["sharing"] == "k-way" else 0.0,
        admission=features["admission"],
        admission_k=k,
        # rising: under a rule that asks less beside two than beside one, a second would let in a third
        admission_ratios=tuple(sorted(rng.choice([0.5, 1.0, 2.5]) for _ in range(k))),
        seed=rng.randint(0, 99),
        jitter=0.1 if chance == "jitter" else 0.0,
        straggle_p=0.3 if chance == "stragglers" else 0.0,
        straggle_x=2.5,
        task_jitter=rng.choice([0.1, 0.4]) if chance == "tasks" else 0.0,
        uneven=chance == "tasks" and rng.random() < 0.5,
        skip=features["skip"] != "off",
        exact=features["skip"] != "estimate",
        window=2.0,  # few iterations are to be enough for an estimate
        budget=rng.choice([0, 1_000_000]),  # paces are computed, or measured
        segments=1 << 14,
        rule=_draw_rule(rng, features["rule"]),
    )
    jobs = tuple(_draw_job(rng, features, spec, iterations) for _ in range(rng.randint(2, 5)))
    return Case(spec, jobs, features)


def _draw_rule(rng: random.Random, kind: str) -> Callable[[], RateRule] | None:
    slot_s, everyone = rng.choice([0.25, 0.5, 1.0, 0.37, math.inf]), rng.random() < 0.5
    seed = rng.randint(0, 99)
    if kind == "none":
        return None
    if kind == "nothing":
        return lambda: Nothing(slot_s, everyone)
    return lambda: Drawn(seed, slot_s if slot_s < math.inf else 0.5, everyone, kind == "ranks")


def _draw_job(rng: random.Random, features: Mapping[str, str], spec: EngineSpec, iterations: int) -> JobCase:
    specs = _draw_graph(rng, features, spec)
    start = rng.choice([0.0, 0.0, 1.0, amount(rng)])
    stays = [Stay(specs, start)]
    if features["stops"] != "none" and rng.random() < 0.8:
        after = rng.choice([0.0, 3.0, 6.0, rng.uniform(1.0, 12.0), rng.uniform(1.0, 12.0)])
        stays = [Stay(specs, start, start + after)]
        if features["stops"] == "resized":
            again = stays[0].stop_s + rng.choice([0.0 if stays[0].stop_s > start else 1.0, 1.0, amount(rng)])
            stays.append(Stay(_draw_graph(rng, features, spec), again))
    task = rng.randrange(len(specs))
    gates = {
        "none": None,
        "one-off": Gate(rng.choice([1.0, 2.5, rng.uniform(0, 4)]), 0.0, task),
        "periodic": Gate(rng.choice([0.0, 0.5, rng.uniform(0, 4)]), rng.choice([2.0, 4.0, rng.uniform(1, 5)]), task),
    }
    kind = rng.choice(["none", "one-off", "periodic"]) if features["gate"] == "changed" else features["gate"]
    gate = gates[kind] if rng.random() < 0.8 else None
    regate = None
    if features["gate"] == "changed":
        regate = (start + rng.choice([0.0, 2.0, rng.uniform(0, 6)]), rng.choice([None, gates["periodic"]]))
    turn = (rng.choice([0.0, 1.0, 2.0]), rng.choice([0.0, 1.0, -0.5]))
    if features["weights"] == "some" and rng.random() < 0.7:
        claim = rng.choice([2, 3, 7, 1000])
        stays = [replace(stay, specs=tuple([replace(spec, claim=claim) for spec in stay.specs])) for stay in stays]
    return JobCase(rng.randint(max(1, iterations // 2), iterations), tuple(stays), turn, gate, regate)


def _draw_graph(rng: random.Random, features: Mapping[str, str], spec: EngineSpec) -> tuple[NodeSpec, ...]:
    """One iteration: a chain, or a graph in which tasks overlap; opened transfers follow earlier ones."""
    specs: list[NodeSpec] = []
    last_on: dict[int, int] = {}  # a GPU runs one task of a job at a time: the graph must order them
    opened = features["graph"] == "opened"
    for i in range(rng.randint(2, 5)):
        after = set(range(max(0, i - 1), i))
        if opened and i and rng.random() < 0.7:
            after = {0}  # flows of one group start together
        elif features["graph"] != "chain" and i:
            after = {rng.randrange(i) for _ in range(rng.randint(0, 2))}
        if i == 0 or rng.random() < (0.2 if opened else 0.4):
            gpu = rng.randrange(spec.n_gpus) if features["gpus"] == "shared" and rng.random() < 0.8 else -1
            if gpu in last_on and gpu >= 0:
                after.add(last_on[gpu])
            last_on[gpu] = i
            seconds = amount(rng) if i == 0 else rng.choice([0.0, amount(rng), amount(rng)])
            ranks = tuple(range(rng.randint(1, 3)))
            weight = float(len(ranks)) if gpu < 0 else 1.0
            specs.append(compute_node(i, seconds, tuple(sorted(after)), gpu=gpu, weight=weight, ranks=ranks))
        else:
            specs.append(_draw_transfer(rng, features, spec, i, tuple(sorted(after)), specs))
    return tuple(specs)


def _draw_transfer(
    rng: random.Random,
    features: Mapping[str, str],
    spec: EngineSpec,
    i: int,
    after: tuple[int, ...],
    before: list[NodeSpec],
) -> NodeSpec:
    n_links = rng.choice([0, 1, 1, 2, 2, 3])
    links = sorted(rng.sample(range(len(spec.capacity)), min(n_links, len(spec.capacity))))
    leads: tuple[int, ...] = ()
    if features["graph"] == "opened":
        leads = tuple(x for x, s in enumerate(before) if s.kind == TRANSFER and rng.random() < 0.7)
    demand = math.inf
    if features["demand"] == "some" and rng.random() < 0.5:
        demand = rng.choice([1.0, 0.4, rng.uniform(0.2, 2.0)])
    latency = rng.choice([0.0, 0.1, 0.5]) if features["latency"] == "some" else 0.0
    chunk = rng.choice([0.0, 0.3]) if leads else 0.0
    size = rng.choice([0.0, *(amount(rng) for _ in range(7))])
    counted = [(k, rng.choice([1, 1, 2])) for k in links]
    return transfer_node(i, size, counted, after, demand=demand, latency=latency, leads=leads, chunk=chunk)


def plain(case: Case) -> Case:
    """The same without skipping."""
    return replace(case, spec=replace(case.spec, skip=False, exact=True))


def map_nodes(case: Case, change: Callable[[NodeSpec], NodeSpec]) -> Case:
    """The same with every task changed."""
    jobs = tuple(
        replace(job, stays=tuple(replace(stay, specs=tuple(map(change, stay.specs))) for stay in job.stays))
        for job in case.jobs
    )
    return replace(case, jobs=jobs)


def without(case: Case, feature: str) -> Case:
    """The same case with one feature taken away."""
    spec = case.spec
    if feature == "sharing":
        return replace(case, spec=replace(spec, sharing="ideal"))
    if feature == "admission":
        return replace(case, spec=replace(spec, admission="all"))
    if feature == "gate":
        return replace(case, jobs=tuple(replace(job, gate=None, regate=None) for job in case.jobs))
    if feature == "stops":
        jobs = tuple(replace(job, stays=(replace(job.stays[0], stop_s=math.inf),)) for job in case.jobs)
        return replace(case, jobs=jobs)
    if feature == "chance":
        return replace(case, spec=replace(spec, jitter=0.0, straggle_p=0.0, task_jitter=0.0))
    if feature == "skip":
        return plain(case)
    if feature == "rule":
        return replace(case, spec=replace(case.spec, rule=None))
    changes: dict[str, Callable[[NodeSpec], NodeSpec]] = {
        "gpus": lambda s: replace(s, gpu=-1),
        "graph": lambda s: replace(s, leads=(), chunk=0.0),
        "latency": lambda s: replace(s, latency=0.0),
        "weights": lambda s: replace(s, claim=1),
        "demand": lambda s: replace(s, demand=math.inf) if s.links else s,
    }
    return map_nodes(case, changes[feature])


def jostled(case: Case, rng: random.Random, by: float = 1e-13) -> Case:
    """The same with every amount, latency and gate changed a little, each by its own amount."""

    def moved(x: float) -> float:
        return x * (1.0 + by * rng.uniform(-1.0, 1.0))

    case = map_nodes(case, lambda s: replace(s, amount=moved(s.amount), latency=moved(s.latency)))
    jobs = [
        replace(job, gate=replace(job.gate, epoch_s=moved(job.gate.epoch_s), period_s=moved(job.gate.period_s)))
        if job.gate is not None else job
        for job in case.jobs
    ]  # fmt: skip
    return replace(case, jobs=tuple(jobs))
