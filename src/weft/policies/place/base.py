"""Place: on which GPUs?"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass

from weft.model.plan import Placement, State
from weft.model.policy import Policy
from weft.model.reason import Why
from weft.model.view import ClusterView, JobView, Offer


@dataclass(frozen=True)
class Answer:
    """GPUs for a job (rank r on gpus[r]), or None with when to ask again; in both cases why, and the next state.

    A refusal is written down when its reason changes, so a reason should not contain numbers that change by themselves.
    A running job that is asked about again and gets None keeps what it has; with `leaves` it gives it up.
    """

    gpus: Placement | None
    reason: Why
    state: State
    ask_again_s: float | None = None
    leaves: bool = False


class Place(Policy):
    """One answer to "on which GPUs". Stateless itself: its memory is the `state` it is given and returns."""

    shares_gpus: bool = False  # may put several jobs on one GPU
    names_gpus: bool = False  # which GPU of a server it is matters (sharing implies it)
    reserves: bool = False  # keeps GPUs free for jobs that others pass; it need not where nobody passes (`observe`)
    uneven: bool = True  # may put more workers of a job on one of its servers than on another

    @abstractmethod
    def place(self, view: ClusterView, job: JobView, gpus: int, offer: Offer, state: State) -> Answer:
        """Answer one offer (the GPUs as they are, or as they would be) for one job of `gpus` workers.

        Look for room in `offer`, not in `view`: earlier answers of the same cycle are in it, and so are GPUs that
        others would leave. The arrays of an offer are valid during the call only. For a job that must have a number of
        workers on each of several servers, servers have that many GPUs, in `view.cluster` as in `offer`.
        """

    def withheld(self, view: ClusterView, job: JobView, offer: Offer, state: State) -> Offer:
        """The offer without the GPUs that this place keeps for other jobs. The core calls it before it shows `place` a
        part of an offer."""
        return offer

    def alike(self, job: JobView) -> str | None:
        """The kind of a job. When one job has declined an offer, waiting jobs of its kind and size would decline that
        offer and any part of it, so they need not be asked about. None: each job decides for itself; "": all are of one
        kind."""
        return None

    def observe(self, view: ClusterView, started: tuple[str, ...], state: State) -> State:
        """Called once per cycle after the plan is settled, with the jobs that start; returns the next state.

        A place that `reserves` is not called under a strict order: under such an order no job could use GPUs that are
        kept for a job behind the first that does not fit."""
        return state
