"""first-fit: the first GPUs in order of their numbers."""

from __future__ import annotations

from typing import Self

from weft.errors import StackError
from weft.model.plan import State
from weft.model.view import ClusterView, JobView, Offer
from weft.place.base import Answer, Place
from weft.place.ledger import with_room

__all__ = ["FF", "FirstFit"]


class FirstFit(Place):
    """The lowest-numbered free GPUs; with `first-fit:shared` the lowest-numbered GPUs with enough memory left.

    The latter is FF of the Ada-SRSF paper (section V), where a GPU may have several jobs.
    """

    def __init__(self, shared: bool = False) -> None:
        self.shares_gpus = shared
        self.name = "first-fit:shared" if shared else "first-fit"

    @classmethod
    def from_text(cls, arg: str | None) -> Self:
        """`first-fit` or `first-fit:shared`."""
        if arg not in (None, "shared"):
            raise StackError(f"first-fit:{arg}: write first-fit or first-fit:shared")
        return cls(arg == "shared")

    def place(self, view: ClusterView, job: JobView, gpus: int, offer: Offer, state: State) -> Answer:
        """The first that will do."""
        fit = with_room(job, gpus, offer, self.shares_gpus)
        if len(fit) < gpus:
            what = "have memory for it" if self.shares_gpus else "are free"
            return Answer(None, f"wants {gpus} GPUs, fewer {what}", state)
        return Answer(tuple(fit[:gpus].tolist()), "first GPUs that will do", state)


class FF(FirstFit):
    """`ff`: `first-fit:shared` under the name it has in the Ada-SRSF paper."""

    def __init__(self) -> None:
        super().__init__(shared=True)
        self.name = "ff"

    @classmethod
    def from_text(cls, arg: str | None) -> Self:
        """`ff` takes no parameter."""
        if arg is not None:
            raise StackError(f"ff:{arg}: ff takes no parameter; write ff")
        return cls()
