"""Dealt: any place, its ranks dealt out by who talks to whom."""

from __future__ import annotations

from dataclasses import replace

from weft.model.plan import State
from weft.model.view import ClusterView, Fact, JobView, Offer
from weft.place.base import Answer, Place
from weft.place.pattern import HD, Dealing

__all__ = ["Dealt"]


class Dealt(Place):
    """The place inside chooses the GPUs; here ranks are put on them so that fewer bytes cross between servers.

    That is Titan's way to divide workers among machines (`place/pattern.py`), for any place: `dealt:best-fit`. Where a
    profile does not name its collective it is taken to be halving-doubling (`dealt/ring:best-fit`: another). An order
    of ranks that is as good already is left as it is.
    """

    def __init__(self, inner: Place, collective: str = HD) -> None:
        self.inner = inner
        self.name = f"dealt{'' if collective == HD else '/' + collective}:{inner.name}"
        self.needs = inner.needs | {Fact.PROFILE}
        self.names_gpus = inner.names_gpus
        self.shares_gpus = inner.shares_gpus
        self.uneven = inner.uneven
        self._dealing = Dealing(collective)

    def initial_state(self) -> State:
        """That of the place inside."""
        return self.inner.initial_state()

    def place(self, view: ClusterView, job: JobView, gpus: int, offer: Offer, state: State) -> Answer:
        """The same GPUs, ranks in another order where that saves bytes."""
        answer = self.inner.place(view, job, gpus, offer, state)
        if answer.gpus is None or len(answer.gpus) < 3:
            return answer
        return replace(answer, gpus=self._dealing.order(view.cluster, job.job.profiles[gpus], answer.gpus))

    def observe(self, view: ClusterView, started: tuple[str, ...], state: State) -> State:
        """Passed on."""
        return self.inner.observe(view, started, state)
