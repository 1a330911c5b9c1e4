"""Fitting: places that only ask which GPUs have room; with `NAME:shared` a GPU may have several jobs."""

from __future__ import annotations

from abc import abstractmethod
from typing import Self

import numpy as np
import numpy.typing as npt

from weft.errors import StackError
from weft.model.plan import Placement, State
from weft.model.view import ClusterView, JobView, Offer
from weft.place.base import Answer, Place
from weft.place.ledger import with_room


class Fitting(Place):
    """Some of the free GPUs or, with `shared`, of those with enough memory left."""

    kind: str
    why: str

    def __init__(self, shared: bool = False) -> None:
        self.shares_gpus = shared
        self.name = f"{self.kind}:shared" if shared else self.kind

    @classmethod
    def from_text(cls, arg: str | None) -> Self:
        """`NAME` or `NAME:shared`."""
        if arg not in (None, "shared"):
            raise StackError(f"{cls.kind}:{arg}: write {cls.kind} or {cls.kind}:shared")
        return cls(arg == "shared")

    def place(self, view: ClusterView, job: JobView, gpus: int, offer: Offer, state: State) -> Answer:
        """Those that `choose` takes, if there are enough."""
        fit = with_room(job, gpus, offer, self.shares_gpus)
        if len(fit) < gpus:
            what = "have memory for it" if self.shares_gpus else "are free"
            return Answer(None, f"wants {gpus} GPUs, fewer {what}", state)
        return Answer(self.choose(view, job, gpus, fit), self.why, state)

    @abstractmethod
    def choose(self, view: ClusterView, job: JobView, gpus: int, fit: npt.NDArray[np.int64]) -> Placement:
        """So many of these."""


class AlwaysShared(Fitting):
    """A place that shares GPUs, under a name of its own that takes no parameter."""

    def __init__(self) -> None:
        super().__init__(shared=True)
        self.name = type(self).name

    @classmethod
    def from_text(cls, arg: str | None) -> Self:
        """The name alone."""
        return super(Fitting, cls).from_text(arg)
