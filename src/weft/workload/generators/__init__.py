"""Workload generators: from the [workload] table of a scenario to jobs, the same for one seed on every machine."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from itertools import accumulate
from pathlib import Path

from weft.errors import InputError
from weft.model.job import Job
from weft.workload.generators import arrivals, drawn
from weft.workload.generators.draft import Draft, Fits, IterationTime, ProfileOf, Rescaled, Times, finish
from weft.workload.generators.drawn import MARGINALS
from weft.workload.generators.spec import JobSpec, WorkloadSpec
from weft.workload.streams import Stream

__all__ = ["Draft", "IterationTime", "JobSpec", "ProfileOf", "Times", "Workload", "WorkloadSpec", "finish", "generate"]

DEFAULT_LOAD = 0.9


@dataclass(frozen=True)
class Workload:
    """Jobs in the order of their arrival, and what a reader of results must know about where they come from."""

    jobs: list[Job]
    notes: tuple[str, ...] = ()


@dataclass
class _Making:
    """What every source needs."""

    spec: WorkloadSpec
    n_gpus: int
    seed: int
    base_dir: Path
    times: Times
    notes: list[str]
    fits: Fits | None = None


def generate(
    spec: WorkloadSpec,
    n_gpus: int,
    gpu: str,
    profile_of: ProfileOf,
    seed: int,
    base_dir: Path,
    iteration_s: IterationTime | None = None,
    rescaled: Rescaled | None = None,
    others: Mapping[str, tuple[ProfileOf, IterationTime | None, Rescaled | None]] | None = None,
    fits: Fits | None = None,
) -> Workload:
    """The jobs of a scenario.

    `profile_of(model, gpus)` gives one iteration; `iteration_s(model, gpus)`, where the network is known, its time
    alone on the cluster, given a third number if its transfers send at most that through a NIC; `rescaled(model, gpus,
    asked, share)` an iteration of a job that asked for another size, with as many samples, or with that share of the
    batch per GPU. `gpu` is the GPU type these hold for; `base_dir` the folder that paths in `spec` start from; `others`
    are the same three functions for other types of GPU; `fits(each, gpus)` says whether a shape fits the cluster.
    """
    times = Times(profile_of, iteration_s, spec.reading, rescaled, spec.elastic_batch)
    times.gpu = gpu
    for name, (profile, seconds, scaled) in (others or {}).items():
        times.others[name] = Times(profile, seconds, spec.reading, scaled, spec.elastic_batch)
    making = _Making(spec, n_gpus, seed, base_dir, times, [], fits)
    drafts = _SOURCES[spec.source](making)
    jobs = finish(_unique(drafts), making.times, n_gpus)
    if making.times.converted:
        what = _READINGS[making.times.reading]
        on = f" on {gpu}" if gpu else ""
        making.notes.append(f"reading {making.times.reading!r}: a duration is {what}; iterations follow from it{on}")
    return Workload(jobs, tuple(dict.fromkeys(making.notes)))


_READINGS = {
    "alone": "time alone on its GPUs, communication included",
    "compute": "compute only; communication comes on top of it",
    "one-gpu": "the computing of one GPU, shared by those of the job; communication comes on top of it",
}


def _drawn(making: _Making) -> list[Draft]:
    """Jobs with models, sizes and lengths from the spec's distributions, not yet at any time."""
    drafts = _of_any_size(making)
    drawn.check_sizes([d.gpus for d in drafts], making.n_gpus)
    return drafts


def _of_any_size(making: _Making) -> list[Draft]:
    spec, seed = making.spec, making.seed
    n = spec.jobs or 0
    if spec.mix:
        return drawn.of_kinds(spec.mix, n, seed, making.times, making.n_gpus)
    if spec.draw_from in MARGINALS:
        return _from_marginal(making, n)
    if spec.draw_from is not None:
        from weft.workload.generators.replayed import drawn_rows, rows_to_drafts, trace_rows

        rows, format = trace_rows(spec.draw_from, spec, making.n_gpus, making.base_dir, making.notes, making.fits)
        making.notes.append(f"GPUs and lengths are drawn from {spec.draw_from}")
        chosen = drawn_rows(rows, n, seed)
        drafts = rows_to_drafts(chosen, format, spec, making.times, seed, making.notes)
        return [replace(d, id="", submit_s=0.0) for d in drafts]
    sizes = drawn.draw_sizes(n, spec.gpus or {1: 1.0}, seed)
    return _with_lengths(making, sizes, None)


def _from_marginal(making: _Making, n: int) -> list[Draft]:
    """Jobs with the published sizes and durations of a trace that is not here."""
    spec, marginal = making.spec, MARGINALS[making.spec.draw_from or ""]
    making.notes.append(f"synthetic: drawn from the published figures of {marginal.title}, not from the trace itself")
    table = spec.gpus or marginal.sizes
    if spec.gpus is None and max(table) > making.n_gpus:
        if spec.oversize == "refuse":
            raise InputError(
                f"workload.draw_from: jobs of {spec.draw_from} want up to {max(table)} GPUs, the cluster has "
                f'{making.n_gpus}; set oversize to "leave-out" or "cap", or enlarge the cluster'
            )
        done = "are not drawn" if spec.oversize == "leave-out" else f"get {making.n_gpus}"
        making.notes.append(f"jobs that want more than {making.n_gpus} GPUs {done}")
        if spec.oversize == "leave-out":
            table = {gpus: weight for gpus, weight in table.items() if gpus <= making.n_gpus}
    wanted = drawn.draw_sizes(n, table, making.seed)
    durations = marginal.durations_s(wanted, Stream(making.seed, "lengths"))
    sizes = [min(gpus, making.n_gpus) for gpus in wanted] if spec.gpus is None else wanted
    return _with_lengths(making, sizes, durations)


def _with_lengths(making: _Making, sizes: list[int], durations: list[float] | None) -> list[Draft]:
    """Drafts of these sizes: iterations from the spec's range, its log-normal, or else these durations."""
    spec, seed, n = making.spec, making.seed, len(sizes)
    models = [*drawn.draw_models(n, spec.models, seed)[: n - len(spec.arriving)], *spec.arriving]
    sizes = drawn.own_sizes(models, sizes)
    if spec.iterations is not None:
        lengths = drawn.iterations_between(n, *spec.iterations, seed)
        if spec.shortest_s is not None:
            drawn.check_sizes(sizes, making.n_gpus)
            alone = [making.times.alone_s(model, gpus) for model, gpus in zip(models, sizes, strict=True)]
            lengths = [max(k, math.ceil(spec.shortest_s / s)) for k, s in zip(lengths, alone, strict=True)]
    else:
        if spec.duration_median_s is not None:
            durations = drawn.log_normal_s(n, spec.duration_median_s, spec.duration_sigma, seed)
        drawn.check_sizes(sizes, making.n_gpus)  # before the zoo is asked for a size that cannot run
        filled = zip(models, sizes, durations or [], strict=True)
        lengths = [making.times.iterations(model, gpus, seconds) for model, gpus, seconds in filled]
    drawn_jobs = zip(models, sizes, lengths, strict=True)
    return [
        Draft(model, gpus, length, elastic=spec.elastic, app=model if spec.apps else "")
        for model, gpus, length in drawn_jobs
    ]


def _by_load(making: _Making) -> list[Draft]:
    drafts, spec = _drawn(making), making.spec
    bursts = spec.bursts if spec.source == "bursty" else None
    if bursts is not None:
        making.notes.append(
            f"bursty arrivals: {bursts.share:g} of the time {bursts.factor:g} times as fast, bursts of "
            f"{bursts.length_s:g} s on average"
        )
    return drawn.by_load(drafts, spec.load or DEFAULT_LOAD, making.n_gpus, making.times, making.seed, bursts)


def _at_zero(making: _Making) -> list[Draft]:
    drafts = _drawn(making)
    asked = sum(d.gpus for d in drafts)
    if making.spec.source == "snapshot" and asked > making.n_gpus:
        making.notes.append(
            f"snapshot: {asked} GPUs are asked for at once, the cluster has {making.n_gpus}: jobs queue"
        )
    return drafts


def _dynamic(making: _Making) -> list[Draft]:
    spec, drafts = making.spec, _drawn(making)
    usual = len(drafts) - len(spec.arriving) if spec.arriving else len(drafts) // 2
    present = min(len(drafts), usual if spec.present is None else spec.present)
    if spec.load is not None:
        asked = accumulate(draft.gpus for draft in drafts[:present])
        fit = sum(gpus <= spec.load * making.n_gpus for gpus in asked)
        drafts, present = drafts[:fit] + drafts[present:], fit
    stream = Stream(making.seed, "arrivals")
    return drawn.at_times(drafts, arrivals.dynamic(len(drafts), present, spec.arrive_s, spec.gap_s, stream))


def _ada_srsf(making: _Making) -> list[Draft]:
    drawn.check_sizes(list(drawn.ADA_SRSF_SIZES), making.n_gpus)
    return [replace(d, elastic=making.spec.elastic) for d in drawn.ada_srsf(making.seed, making.spec.models)]


def _trace(making: _Making) -> list[Draft]:
    from weft.workload.generators.replayed import rows_to_drafts, stretch, trace_rows

    spec = making.spec
    rows, format = trace_rows(spec.trace or "", spec, making.n_gpus, making.base_dir, making.notes, making.fits)
    if spec.jobs is not None and spec.jobs < len(rows):
        total = len(rows)
        if spec.pick == "random":
            order = Stream(making.seed, "pick").shuffled(range(total))[: spec.jobs]
            rows = [rows[i] for i in sorted(order)]
        else:
            rows = rows[: spec.jobs]
        making.notes.append(f"{spec.jobs} of {total} jobs of the trace, {spec.pick}")
    drafts = rows_to_drafts(rows, format, spec, making.times, making.seed, making.notes)
    return stretch(drafts, spec.load, making.n_gpus, making.times, making.notes)


def _listed(making: _Making) -> list[Draft]:
    drafts = []
    each = [(job, n) for job in making.spec.job for n in range(job.count)]
    width = len(str(len(each)))
    for i, (job, n) in enumerate(each):
        drawn.check_sizes([job.gpus], making.n_gpus)
        iterations = job.iterations
        if iterations is None:
            own = making.times.on(job.gpu)
            iterations = own.iterations(job.model, job.gpus, job.duration_s or math.nan, job.cap)
        when, name = job.submit_s + n * job.every_s, _name(job, n, f"j{i:0{width}d}")
        drafts.append(
            Draft(job.model, job.gpus, iterations, when, name, job.user, job.vc,
                  elastic=job.elastic or making.spec.elastic, priority=job.priority,
                  link_weight=job.link_weight, nic_bytes_per_s=job.cap, gpu=job.gpu)
        )  # fmt: skip
    if twice := [name for name, n in Counter(d.id for d in drafts).items() if n > 1]:
        raise InputError(f"workload.job: two jobs are called {twice[0]!r}; give them different ids")
    return drafts


def _name(job: JobSpec, n: int, otherwise: str) -> str:
    return (job.id if job.count == 1 else f"{job.id}-{n}") if job.id else otherwise


def _unique(drafts: list[Draft]) -> list[Draft]:
    """The drafts with distinct ids: a trace may list an id twice (requeued jobs), but a simulation must not."""
    seen = Counter(d.id for d in drafts if d.id)
    taken = set(seen)
    result = []
    for i, draft in enumerate(drafts):
        if seen[draft.id] > 1:
            name = f"{draft.id}#{i}"
            while name in taken:
                name += "'"
            taken.add(name)
            draft = replace(draft, id=name)
        result.append(draft)
    return result


_SOURCES: dict[str, Callable[[_Making], list[Draft]]] = {
    "poisson": _by_load, "bursty": _by_load, "batch": _at_zero, "snapshot": _at_zero, "dynamic": _dynamic,
    "ada-srsf": _ada_srsf, "trace": _trace, "jobs": _listed,
}  # fmt: skip
