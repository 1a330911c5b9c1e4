"""Jobs drawn at random: models, sizes and lengths from distributions or from published summaries of traces.

The stand-in for Acme (NSDI '24) is drawn from its published summary and labelled synthetic. Over GPU jobs the summary
gives the median and mean duration, the median (1), mean and maximum (1,024) number of GPUs, and the total GPU time. We
take sizes 2^k: half the jobs have one GPU (the least that the median allows), the rest fall off geometrically with the
ratio that gives the mean. Durations are m g^c exp(s z), log-normal given the size g, with m, c and s such that median,
mean and mean GPU time are the published ones. So large jobs are longer, as in the trace; all else about them is ours.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from weft.errors import InputError
from weft.workload.generators import arrivals
from weft.workload.generators.draft import Draft, Times
from weft.workload.generators.spec import MixSpec
from weft.workload.streams import Stream
from weft.workload.zoo.names import split

ADA_SRSF_SIZES = {1: 80, 2: 14, 4: 26, 8: 30, 16: 8, 32: 2}  # GPUs: jobs
ADA_SRSF_ITERATIONS = (1000, 6000)
ADA_SRSF_SPAN_S = 1200


def draw_models(n: int, models: Sequence[str] | Mapping[str, float], seed: int) -> list[str]:
    """Models of n jobs, equally likely or by weight."""
    weights = list(models.values()) if isinstance(models, Mapping) else None
    return Stream(seed, "models").choices(n, list(models), weights)


def draw_sizes(n: int, gpus: Mapping[int, float], seed: int) -> list[int]:
    """GPUs of n jobs, by weight; the order of the table does not matter."""
    sizes = sorted(gpus)
    return Stream(seed, "sizes").choices(n, sizes, [gpus[g] for g in sizes])


def own_sizes(models: Sequence[str], sizes: Sequence[int]) -> list[int]:
    """Those sizes, except that a model whose name gives its workers (`vgg16[workers=2]`) has that many."""
    own = {model: split(model)[1].get("workers") for model in set(models)}
    return [own[model] or size for model, size in zip(models, sizes, strict=True)]


def iterations_between(n: int, low: int, high: int, seed: int) -> list[int]:
    """Iterations of n jobs, uniform in [low, high]."""
    return Stream(seed, "lengths").integers(n, low, high)


def log_normal_s(n: int, median_s: float, sigma: float, seed: int) -> list[float]:
    """Log-normal durations of n jobs."""
    return [median_s * math.exp(sigma * z) for z in Stream(seed, "lengths").normal(n).tolist()]


def of_kinds(kinds: Sequence[MixSpec], n: int, seed: int, times: Times, n_gpus: int) -> list[Draft]:
    """n jobs of a mix, kind by kind in the order drawn; each kind has streams of its own, so that changing one leaves
    the jobs of the others as they are."""
    chosen = Stream(seed, "mix").choices(n, range(len(kinds)), [kind.weight for kind in kinds])
    drafts = {i: iter(_of_kind(kind, chosen.count(i), f"mix {i}", seed, times, n_gpus)) for i, kind in enumerate(kinds)}
    return [next(drafts[i]) for i in chosen]


def _of_kind(kind: MixSpec, n: int, name: str, seed: int, times: Times, n_gpus: int) -> list[Draft]:
    table = sorted(kind.gpus)
    sizes = Stream(seed, f"{name} sizes").choices(n, table, [kind.gpus[size] for size in table])
    sizes = own_sizes([kind.model] * n, sizes)
    check_sizes(sizes, n_gpus)
    stream = Stream(seed, f"{name} lengths")
    if kind.iterations is not None:
        lengths = stream.integers(n, *kind.iterations)
    else:
        seconds = [(kind.duration_median_s or 0.0) * math.exp(kind.duration_sigma * z) for z in stream.normal(n)]
        own = times.on(kind.gpu)
        lengths = [own.iterations(kind.model, gpus, s, kind.cap) for gpus, s in zip(sizes, seconds, strict=True)]
    return [
        Draft(kind.model, gpus, length, user=kind.user, vc=kind.vc, elastic=kind.elastic, priority=kind.priority,
              link_weight=kind.link_weight, nic_bytes_per_s=kind.cap, gpu=kind.gpu)
        for gpus, length in zip(sizes, lengths, strict=True)
    ]  # fmt: skip


def check_sizes(sizes: Sequence[int], n_gpus: int) -> None:
    """Refuse a size that the cluster cannot hold, before the zoo is asked for it."""
    if sizes and max(sizes) > n_gpus:
        raise InputError(f"workload.gpus: a job wants {max(sizes)} GPUs, the cluster has {n_gpus}; drop that size")


def ada_srsf(seed: int, models: Sequence[str] | Mapping[str, float]) -> list[Draft]:
    """The 160 jobs of the Ada-SRSF paper (section V-A): numbers of GPUs exact, all else drawn."""
    sizes = [gpus for gpus, count in ADA_SRSF_SIZES.items() for _ in range(count)]
    n = len(sizes)
    sizes = Stream(seed, "sizes").shuffled(sizes)
    times = arrivals.uniform_seconds(n, ADA_SRSF_SPAN_S, Stream(seed, "arrivals"))
    lengths = iterations_between(n, *ADA_SRSF_ITERATIONS, seed)
    drawn = zip(draw_models(n, models, seed), sizes, lengths, times, strict=True)
    return [Draft(model, gpus, length, time) for model, gpus, length, time in drawn]


def at_times(drafts: Sequence[Draft], times_s: Sequence[float]) -> list[Draft]:
    """The drafts, submitted at these times."""
    return [replace(draft, submit_s=t) for draft, t in zip(drafts, times_s, strict=True)]


def by_load(
    drafts: Sequence[Draft], load: float, n_gpus: int, times: Times, seed: int, bursts: arrivals.Bursts | None = None
) -> list[Draft]:
    """The drafts, arriving at random so that they keep a fraction `load` of the GPUs busy; in bursts if given."""
    if load <= 0 or n_gpus < 1:
        raise InputError(f"workload.load: {load} of {n_gpus} GPUs; both must be above 0")
    gap = arrivals.mean_gap_s([times.gpu_seconds(d) for d in drafts], load, n_gpus)
    stream = Stream(seed, "arrivals")
    if bursts is None:
        return at_times(drafts, arrivals.poisson(len(drafts), gap, stream))
    return at_times(drafts, arrivals.bursty(len(drafts), gap, bursts, stream, Stream(seed, "switches")))


LARGEST = 10  # 2^10 = 1,024 GPUs


@dataclass(frozen=True)
class Marginal:
    """Published figures of a trace and the parameters fitted to them."""

    title: str
    jobs: int  # GPU jobs, its weight in a mixture
    median_s: float
    mean_s: float
    mean_gpus: float
    mean_gpu_s: float
    ratio: float  # share of jobs with 2^(k+1) GPUs over that with 2^k
    base_s: float
    exponent: float
    sigma: float

    @property
    def sizes(self) -> dict[int, float]:
        """Share of each number of GPUs."""
        tail = [self.ratio**k for k in range(1, LARGEST + 1)]
        return {1: 0.5} | {2**k: 0.5 * w / math.fsum(tail) for k, w in enumerate(tail, 1)}

    def durations_s(self, sizes: Sequence[int], stream: Stream) -> list[float]:
        """Seconds of jobs with these numbers of GPUs."""
        drawn = zip(sizes, stream.normal(len(sizes)).tolist(), strict=True)
        return [self.base_s * gpus**self.exponent * math.exp(self.sigma * z) for gpus, z in drawn]


MARGINALS = {
    "acme-seren": Marginal(
        "Acme Seren", 663_813, 122.0, 1414.335, 5.68, 32_404.6,
        ratio=0.50488, base_s=92.572, exponent=0.40222, sigma=2.16483,
    ),
    "acme-kalos": Marginal(
        "Acme Kalos", 19_907, 124.0, 1259.689, 26.77, 267_904.8,
        ratio=0.72938, base_s=70.121, exponent=0.54425, sigma=1.84697,
    ),
}  # fmt: skip
