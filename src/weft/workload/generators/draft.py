"""Drafts of jobs: what is known before profiles are attached, and how long an iteration of each takes."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from typing import Literal

from weft.errors import InputError
from weft.model.job import Job
from weft.model.profile import Profile

ProfileOf = Callable[[str, int], Profile]  # (model, GPUs) -> one iteration
IterationTime = Callable[..., float]  # (model, GPUs, perhaps the cap of a NIC) -> seconds of an iteration alone
# (model, GPUs, GPUs asked for, batch per GPU relative to the one asked for) -> an iteration; None keeps the samples
Rescaled = Callable[[str, int, int, float | None], Profile]
Fits = Callable[[int, int], bool]  # (workers on each server, GPUs) -> whether the empty cluster has room for that
Reading = Literal["alone", "compute", "one-gpu"]
MAX_ITERATIONS = 10**15
_BATCHES = 6  # batches from the smallest to the largest, evenly spaced


@dataclass(frozen=True, slots=True)
class Draft:
    """A job without its profile."""

    model: str
    gpus: int
    iterations: int
    submit_s: float = 0.0
    id: str = ""
    user: str = ""
    vc: str = ""
    batch: int = 0
    elastic: tuple[int, int] | None = None
    app: str = ""
    priority: int = 0
    link_weight: int = 1
    nic_bytes_per_s: float | None = None
    gpu: str = ""  # the type of GPU that it asks for
    per_server: int = 0


class Times:
    """Profiles and iteration times by model and size, each asked for once."""

    def __init__(
        self,
        profile_of: ProfileOf,
        iteration_s: IterationTime | None,
        reading: Reading | None,
        rescaled: Rescaled | None = None,
        batches: tuple[float, float] | None = None,
    ) -> None:
        if reading == "alone" and iteration_s is None:
            raise InputError(
                "workload.reading: 'alone' needs the time of an iteration with its network, which is not known here; "
                'use reading = "compute"'
            )
        self._profile_of, self._iteration_s = cache(profile_of), iteration_s and cache(iteration_s)
        self._rescaled, self._span = rescaled, batches
        self.reading: Reading = reading or ("compute" if iteration_s is None else "alone")
        self.others: dict[str, Times] = {}  # on other types of GPU
        self.gpu = ""  # the type of GPU that these hold for
        self.converted = False  # whether any iterations were computed from a duration

    def on(self, gpu: str) -> Times:
        """The same on that type of GPU; empty: any."""
        if gpu in ("", self.gpu):
            return self
        if gpu not in self.others:
            there = ", ".join(filter(None, (self.gpu, *self.others)))
            raise InputError(f"workload: a job asks for GPUs of type {gpu!r}; the cluster has {there or 'one type'}")
        return self.others[gpu]

    def profile(self, model: str, gpus: int) -> Profile:
        """One iteration of a model at a size."""
        return self._profile_of(model, gpus)

    def resized(self, model: str, gpus: int, asked: int) -> Profile:
        """One iteration of a job that asked for another size: with as many samples, where that is known."""
        if gpus == asked or self._rescaled is None:
            return self.profile(model, gpus)
        return self._rescaled(model, gpus, asked, None)

    def batches(self, model: str, gpus: int, asked: int) -> tuple[Profile, ...]:
        """Iterations with other batches, between the smallest and the largest per GPU; none where no limits are set."""
        if self._rescaled is None or self._span is None:
            return ()
        low, high = self._span
        shares = {1.0, *(low + (high - low) * i / (_BATCHES - 1) for i in range(_BATCHES))}
        found = [self._rescaled(model, gpus, asked, share) for share in sorted(shares)]
        return tuple({profile.batch: profile for profile in found}.values())

    def alone_s(self, model: str, gpus: int, cap: float | None = None) -> float:
        """Seconds of an iteration alone on its GPUs: with the network where that is known, else compute only. `cap` is
        the most that a transfer sends through a NIC, in bytes per second."""
        known, capped = self._iteration_s, () if cap is None else (cap,)
        seconds = self.profile(model, gpus).compute_s if known is None else known(model, gpus, *capped)
        if not 0 < seconds < math.inf:
            raise InputError(f"model {model} on {gpus} GPUs: an iteration takes {seconds} s; that must be more than 0")
        return seconds

    def iterations(self, model: str, gpus: int, duration_s: float, cap: float | None = None) -> int:
        """Iterations that fill a duration, under the reading chosen; at least one."""
        self.converted = True
        seconds = self.alone_s(model, gpus, cap) if self.reading == "alone" else self._computing_s(model, gpus)
        if self.reading == "one-gpu":  # the job's GPUs share the computing evenly
            duration_s /= gpus
        return max(1, min(MAX_ITERATIONS, round(duration_s / seconds)))

    def _computing_s(self, model: str, gpus: int) -> float:
        seconds = self.profile(model, gpus).compute_s
        if not 0 < seconds < math.inf:
            raise InputError(f"model {model} on {gpus} GPUs computes for {seconds} s; that must be more than 0")
        return seconds

    def gpu_seconds(self, draft: Draft) -> float:
        """GPU time of a job alone."""
        own = self.on(draft.gpu)
        return draft.gpus * draft.iterations * own.alone_s(draft.model, draft.gpus, draft.nic_bytes_per_s)


@lru_cache(maxsize=1024)  # so that jobs of a kind have one profile between them
def sharing(profile: Profile, link_weight: int, nic_bytes_per_s: float | None) -> Profile:
    """The profile of a job whose flows have this weight and this cap."""
    if (link_weight, nic_bytes_per_s) == (profile.link_weight, profile.nic_bytes_per_s):
        return profile
    return replace(profile, link_weight=link_weight, nic_bytes_per_s=nic_bytes_per_s)


def finish(drafts: Sequence[Draft], times: Times, n_gpus: int) -> list[Job]:
    """Jobs in the order of their arrival; those without a name get one that sorts in this order."""
    width = len(str(len(drafts)))
    ordered = sorted(drafts, key=lambda d: d.submit_s)  # stable: equal times keep their order
    return [_job(draft, draft.id or f"j{i:0{width}d}", times, n_gpus) for i, draft in enumerate(ordered)]


def _job(draft: Draft, name: str, times: Times, n_gpus: int) -> Job:
    if draft.gpus > n_gpus:
        raise InputError(
            f"workload: job {name} wants {draft.gpus} GPUs, the cluster has {n_gpus}; make the job smaller or the "
            "cluster larger"
        )
    low, high = draft.elastic or (draft.gpus, draft.gpus)
    low, high = min(low, draft.gpus), min(max(high, draft.gpus), n_gpus)
    share = draft.link_weight, draft.nic_bytes_per_s
    any_type, times = {} if draft.gpu else times.others, times.on(draft.gpu)

    def all_sizes(own: Times) -> dict[int, Profile]:
        return {n: sharing(own.resized(draft.model, n, draft.gpus), *share) for n in range(low, high + 1)}

    profiles, on = all_sizes(times), {gpu: all_sizes(there) for gpu, there in any_type.items()}
    rigid = low == high
    batches: dict[int, tuple[Profile, ...]] = {}
    for n in () if rigid else profiles:
        batches[n] = tuple([sharing(profile, *share) for profile in times.batches(draft.model, n, draft.gpus)])
    return Job(
        name, draft.submit_s, draft.gpus, draft.iterations, profiles, draft.model,
        min_gpus=0 if rigid else low, max_gpus=0 if rigid else high,
        batch=draft.batch or profiles[draft.gpus].batch, user=draft.user, vc=draft.vc,
        app=draft.app, priority=draft.priority, per_server=draft.per_server, gpu=draft.gpu, on=on,
        batches={n: found for n, found in batches.items() if found},
    )  # fmt: skip
