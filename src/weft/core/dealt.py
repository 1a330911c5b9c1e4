"""Dealt: any place, its ranks dealt out by who talks to whom."""

from __future__ import annotations

from dataclasses import replace

from weft.model.plan import Placement, State
from weft.model.profile import Profile
from weft.model.view import ClusterView, Fact, JobView, Offer
from weft.place.base import Answer, Place
from weft.place.pattern import Kind, bytes_across, divide, kind_of, pattern_of

__all__ = ["Dealt"]

_KEEP = 1024  # profiles whose kind is remembered
HD = "halving-doubling"


class Dealt(Place):
    """The place inside chooses the GPUs; here ranks are put on them so that fewer bytes cross between servers.

    That is Titan's way to divide workers among machines (`place/pattern.py`), for any place: `dealt:best-fit`. Where a
    profile does not name its collective it is taken to be halving-doubling (`dealt/ring:best-fit`: another). An order
    of ranks that is as good already is left as it is.
    """

    def __init__(self, inner: Place, collective: str = HD) -> None:
        self.inner = inner
        self.collective = collective
        self.name = f"dealt{'' if collective == HD else '/' + collective}:{inner.name}"
        self.needs = inner.needs | {Fact.PROFILE}
        self.names_gpus = inner.names_gpus
        self.shares_gpus = inner.shares_gpus
        self.uneven = inner.uneven
        self._kinds: dict[int, tuple[Profile, Kind]] = {}  # by identity: most jobs of a trace share their profiles

    def initial_state(self) -> State:
        """That of the place inside."""
        return self.inner.initial_state()

    def place(self, view: ClusterView, job: JobView, gpus: int, offer: Offer, state: State) -> Answer:
        """The same GPUs, ranks in another order where that saves bytes."""
        answer = self.inner.place(view, job, gpus, offer, state)
        if answer.gpus is None or len(answer.gpus) < 3:
            return answer
        return replace(answer, gpus=self._order(view, job.job.profiles[gpus], answer.gpus))

    def observe(self, view: ClusterView, started: tuple[str, ...], state: State) -> State:
        """Passed on."""
        return self.inner.observe(view, started, state)

    def _order(self, view: ClusterView, profile: Profile, gpus: Placement) -> Placement:
        where = view.cluster.server_of_gpu[list(gpus)].tolist()
        on: dict[int, list[int]] = {}
        for gpu, server in zip(gpus, where, strict=True):
            on.setdefault(server, []).append(gpu)
        if len(on) < 2:
            return gpus
        kind = self._kind(profile)
        shares = sorted(on.values(), key=len, reverse=True)  # the largest first, as Titan's machines are
        division = divide(kind, tuple(map(len, shares)))
        if division.across >= bytes_across(pattern_of(kind), where) * (1 - 1e-9):
            return gpus
        dealt = [0] * len(gpus)
        for ids, ranks in zip(shares, division.ranks, strict=True):
            for rank, gpu in zip(ranks, ids, strict=True):
                dealt[rank] = gpu
        return tuple(dealt)

    def _kind(self, profile: Profile) -> Kind:
        known = self._kinds.get(id(profile))
        if known is None:
            if len(self._kinds) >= _KEEP:
                self._kinds.clear()
            known = self._kinds[id(profile)] = (profile, kind_of(profile, self.collective))
        return known[1]
