"""random: any GPUs, by lot."""

from __future__ import annotations

from typing import Self

from weft.errors import StackError
from weft.model.plan import State
from weft.model.view import ClusterView, JobView, Offer
from weft.place.base import Answer, Place
from weft.place.ledger import with_room

__all__ = ["Rand", "RandomPlace"]


class RandomPlace(Place):
    """Free GPUs drawn by lot; with `random:shared` GPUs with enough memory left (RAND of the Ada-SRSF paper).

    Each job has its own lot, so what one is given does not depend on who was asked before it.
    """

    def __init__(self, shared: bool = False) -> None:
        self.shares_gpus = shared
        self.name = "random:shared" if shared else "random"

    @classmethod
    def from_text(cls, arg: str | None) -> Self:
        """`random` or `random:shared`."""
        if arg not in (None, "shared"):
            raise StackError(f"random:{arg}: write random or random:shared")
        return cls(arg == "shared")

    def place(self, view: ClusterView, job: JobView, gpus: int, offer: Offer, state: State) -> Answer:
        """Whatever the lot says; ranks follow the numbers of the GPUs."""
        fit = with_room(job, gpus, offer, self.shares_gpus)
        if len(fit) < gpus:
            what = "have memory for it" if self.shares_gpus else "are free"
            return Answer(None, f"wants {gpus} GPUs, fewer {what}", state)
        drawn = view.rng(f"{self.name}:{job.id}").choice(fit, gpus, replace=False)
        return Answer(tuple(sorted(drawn.tolist())), "drawn by lot", state)


class Rand(RandomPlace):
    """`rand`: `random:shared` under the name it has in the Ada-SRSF paper."""

    def __init__(self) -> None:
        super().__init__(shared=True)
        self.name = "rand"

    @classmethod
    def from_text(cls, arg: str | None) -> Self:
        """`rand` takes no parameter."""
        if arg is not None:
            raise StackError(f"rand:{arg}: rand takes no parameter; write rand")
        return cls()
