"""Places that wrap another place: Even, Shaped and Dealt.

Even holds any place to the same number of workers on every server of a job, for worlds that cannot do otherwise
(Slurm). Shaped does so where the job itself says how many. Dealt lets the place choose the GPUs and then assigns ranks
to them by which workers talk to each other.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from weft.core.returned import expect, expect_gpus
from weft.errors import StackError
from weft.model.cluster import Cluster
from weft.model.plan import Placement, State
from weft.model.view import ClusterView, Fact, JobView, Offer, Spread
from weft.policies.place.base import Answer, Place
from weft.policies.place.pattern import HD, Dealing

Flags = npt.NDArray[np.bool_]


class _Around(Place):
    """A place that asks another one, the place inside, and changes its answers. The rest it takes from that place."""

    def __init__(self, inner: Place) -> None:
        self.inner = inner
        self.name, self.needs = inner.name, inner.needs
        self.shares_gpus, self.names_gpus = inner.shares_gpus, inner.names_gpus
        self.uneven, self.reserves = inner.uneven, inner.reserves

    def initial_state(self) -> State:
        return self.inner.initial_state()

    def withheld(self, view: ClusterView, job: JobView, offer: Offer, state: State) -> Offer:
        return self.inner.withheld(view, job, offer, state)

    def alike(self, job: JobView) -> str | None:
        return self.inner.alike(job)

    def observe(self, view: ClusterView, started: tuple[str, ...], state: State) -> State:
        return self.inner.observe(view, started, state)


class Even(_Around):
    """Asks the place inside first about all that is free, then about servers that have exactly an equal share free.

    The second question is repeated for 1, 2, 3, ... servers in turn. The place inside decides as always: it may wait
    for something better, and it takes what it likes best among what it sees. The first even answer on as few servers as
    possible counts; if there is none, the first refusal counts.
    """

    def __init__(self, inner: Place) -> None:
        if inner.shares_gpus:
            raise StackError(
                f"even:{inner.name}: {inner.name} shares GPUs, and only whole ones can be dealt out evenly; "
                "choose a place that shares none"
            )
        super().__init__(inner)
        self.name, self.uneven = f"even:{inner.name}", False

    def alike(self, job: JobView) -> str | None:
        """Each job decides for itself: it is shown other parts of an offer than the next one."""
        return None

    def place(self, view: ClusterView, job: JobView, gpus: int, offer: Offer, state: State) -> Answer:
        """The first even answer, over as few servers as possible."""
        refusal: Answer | None = None
        for shown, servers in self._looks(view, job, gpus, offer):
            answer = self.inner.place(view, job, gpus, shown, state)
            if answer.gpus is not None and self._is_even(view, answer.gpus, servers):
                return answer
            refusal = refusal or (answer if answer.gpus is None else None)
        return refusal or Answer(None, f"wants {gpus} GPUs, as many on each server; no servers have them free", state)

    def _looks(self, view: ClusterView, job: JobView, gpus: int, offer: Offer) -> Iterator[tuple[Offer, int | None]]:
        """Offers to try in turn, and how many servers the answer must have (None: any number).

        The first is the whole offer, in which the place inside sees how full servers are.
        """
        able = [
            n for n in range(1, gpus + 1) if gpus % n == 0 and np.count_nonzero(offer.free_per_server >= gpus // n) >= n
        ]
        if able:
            yield offer, able[0]
        for servers in able:
            yield _shares(view, job, offer, gpus // servers), None

    def _is_even(self, view: ClusterView, gpus: Placement, servers: int | None) -> bool:
        counts = view.cluster.counts(gpus)
        return len(set(counts.values())) == 1 and servers in (None, len(counts))


class Shaped(_Around):
    """A job that must have a given number of workers on each server is shown a cluster of servers with exactly that
    many GPUs, so the place inside neither takes nor waits for anything else. It handles any other job itself.

    A job of one server sees servers as they are, if they have room for it. Where an answer still has another shape, the
    place is asked again about as many servers as the job needs: those of which it took most.
    """

    def place(self, view: ClusterView, job: JobView, gpus: int, offer: Offer, state: State) -> Answer:
        """The answer of the place inside, in the job's shape and on GPUs of one type: of several types that have room,
        the one on which its iterations are expected to be shortest, or where that is not known, which is closest."""
        if view.cluster.alike:
            return self._in_shape(view, job, gpus, offer, state)
        found: list[tuple[tuple[float, int, int], Answer]] = []
        refused: list[Answer] = []
        for asked, seen, shown in self._by_type(view, job, gpus, offer):
            answer = self._in_shape(seen, asked, gpus, shown, state)
            if answer.gpus is None:
                refused.append(answer)
                continue
            spread = Spread.of(view.cluster, answer.gpus)
            known = Fact.PROFILE in view.facts
            lasts_s = view.estimate(asked.job, gpus, spread).iteration_s if known else 0.0
            found.append(((lasts_s, spread.servers, spread.racks), answer))
        if found:
            return min(found, key=lambda one: one[0])[1]
        again = [answer.ask_again_s for answer in refused if answer.ask_again_s is not None]
        return replace(refused[0], ask_again_s=min(again, default=None))

    def _in_shape(self, view: ClusterView, job: JobView, gpus: int, offer: Offer, state: State) -> Answer:
        each = job.job.per_server
        if not each:
            return self._asked(view, job, gpus, offer, state)
        servers, rest = divmod(gpus, each)
        offer = self.inner.withheld(view, job, offer, state)
        fits = offer.free
        if self.shares_gpus and _roomy(view, fits, each).sum() < servers:
            fits = offer.usable & (offer.memory >= job.job.profiles[gpus].memory_bytes)
        roomy = _roomy(view, fits, each)
        if rest or roomy.sum() < servers:
            return Answer(None, f"wants {servers} servers with {each} GPUs each; fewer have them free", state)
        seen = view if servers == 1 else cast(ClusterView, _Seen(view, view.cluster.shaped(each)))
        most = view.cluster.largest_server if servers == 1 else each
        answer = self._asked(seen, job, gpus, self._shown(view, job, offer, fits, roomy, most), state)
        if answer.gpus is None or _has_shape(view, answer.gpus, each):
            return answer
        taken = [server for server, _ in view.cluster.counts(answer.gpus).most_common(servers)]
        chosen = np.isin(np.arange(len(roomy)), taken) & roomy
        answer = self._asked(seen, job, gpus, self._shown(view, job, offer, fits, chosen, each), state)
        if answer.gpus is None or _has_shape(view, answer.gpus, each):
            return answer
        return Answer(None, f"wants {each} GPUs on each server; {self.inner.name} found others", state)

    def _by_type(
        self, view: ClusterView, job: JobView, gpus: int, offer: Offer
    ) -> Iterator[tuple[JobView, ClusterView, Offer]]:
        """The job as one that asks for a type, and the cluster and the offer without GPUs that it could not use then.
        These are the types of which there are enough, or where there are of none, the first that could hold it. One
        that runs is shown its own type if that has room."""
        cluster = view.cluster
        types = [job.job.gpu] if job.job.gpu else list(cluster.gpu_types)
        if job.gpus:
            types.sort(key=lambda name: name != cluster.type_of(job.gpus))
        asked = [replace(job, job=job.job.as_on(name)) for name in types]
        able = [one for one in asked if np.count_nonzero(_suited(cluster, one, gpus)) >= gpus] or asked
        enough = [one for one in able if self._room(cluster, one, gpus, offer) >= gpus] or able[:1]
        for one in enough[:1] if job.gpus else enough:
            usable = offer.usable & _suited(cluster, one, gpus)
            free = cluster.server_of_gpu[usable & (offer.residents == 0)]
            per_server = np.bincount(free, minlength=len(cluster.servers))
            shown = Offer(offer.residents, offer.memory, usable, per_server, len(free))
            yield one, cast(ClusterView, _Seen(view, cluster.of_type(one.job.gpu))), shown

    def _room(self, cluster: Cluster, job: JobView, gpus: int, offer: Offer) -> int:
        memory = job.job.profiles[gpus].memory_bytes
        room = offer.usable & (offer.memory >= memory) if self.shares_gpus else offer.free
        return int(np.count_nonzero(room & _suited(cluster, job, gpus)))

    def _asked(self, view: ClusterView, job: JobView, gpus: int, offer: Offer, state: State) -> Answer:
        """What the place inside answers, if it is an answer."""
        answer = self.inner.place(view, job, gpus, offer, state)
        expect(self.inner, "place", "place", answer, Answer, "an Answer")
        expect_gpus(self.inner, answer.gpus)
        return answer

    def alike(self, job: JobView) -> str | None:
        """The kind that the place inside names, unless the job has a shape. Jobs that can run on other GPUs are of
        another kind."""
        kind = None if job.job.per_server else self.inner.alike(job)
        if kind is None or not (job.job.gpu or job.job.on):
            return kind
        return f"{kind}/{job.job.gpu}/{job.job.memory_bytes:g}"

    def _shown(self, view: ClusterView, job: JobView, offer: Offer, fits: Flags, servers: Flags, most: int) -> Offer:
        """The offer with that many of the fitting GPUs of these servers. A place that shares GPUs sees no others; any
        other place sees that there are others, and that they are taken."""
        hidden = np.ones_like(fits) if self.shares_gpus else offer.free
        return _shown(view, job, offer, fits & servers[view.cluster.server_of_gpu], hidden, most)


class _Seen:
    """A view of another cluster."""

    def __init__(self, view: ClusterView, cluster: Cluster) -> None:
        self._view, self.cluster = view, cluster

    def __getattr__(self, name: str) -> Any:
        return getattr(self._view, name)


def _suited(cluster: Cluster, job: JobView, gpus: int) -> Flags:
    """The GPUs of the type that a job asks for on which it can run."""
    return cluster.suited(job.job.gpu, job.job.profiles[gpus].memory_bytes)


def _roomy(view: ClusterView, fits: Flags, each: int) -> Flags:
    """Servers on which so many GPUs fit."""
    server_of = view.cluster.server_of_gpu
    roomy: Flags = np.bincount(server_of[fits], minlength=len(view.cluster.servers)) >= each
    return roomy


def _has_shape(view: ClusterView, gpus: Placement, each: int) -> bool:
    return set(view.cluster.counts(gpus).values()) == {each}


def _shares(view: ClusterView, job: JobView, offer: Offer, each: int) -> Offer:
    """The offer as if every server with at least `each` free GPUs had just that many, and the others none."""
    fits = offer.free & (offer.free_per_server >= each)[view.cluster.server_of_gpu]
    return _shown(view, job, offer, fits, offer.free, each)


def _shown(view: ClusterView, job: JobView, offer: Offer, fits: Flags, hidden: Flags, most: int) -> Offer:
    """The offer with at most so many of these GPUs on each server, and without the rest of the hidden ones.

    The job's own GPUs are left first, then those that are idle now.
    """
    server_of = view.cluster.server_of_gpu
    own = np.zeros(len(server_of), dtype=np.bool_)
    own[list(job.gpus)] = True
    among = np.flatnonzero(fits)
    taken = offer.residents[among], ~view.offer.free[among]
    order = among[np.lexsort((among, taken[1], taken[0], ~own[among], server_of[among]))]
    servers = server_of[order]
    number = np.arange(len(order)) - np.searchsorted(servers, servers)  # among those of its server
    left = order[number < most]
    usable = offer.usable & ~hidden
    usable[left] = True
    free = left[offer.residents[left] == 0]
    per_server = np.bincount(server_of[free], minlength=len(offer.free_per_server))
    return Offer(offer.residents, offer.memory, usable, per_server, len(free))


class Dealt(_Around):
    """The place inside chooses the GPUs; here ranks are put on them so that fewer bytes cross between servers. That is
    Titan's way to divide workers among machines (`place/pattern.py`), for any place: `dealt:best-fit`. Where a profile
    does not name its collective it is taken to be halving-doubling (`dealt/ring:best-fit`: another). An order of ranks
    that is already as good is left as it is."""

    def __init__(self, inner: Place, collective: str = HD) -> None:
        super().__init__(inner)
        self.name = f"dealt{'' if collective == HD else '/' + collective}:{inner.name}"
        self.needs = inner.needs | {Fact.PROFILE}
        self._dealing = Dealing(collective)

    def place(self, view: ClusterView, job: JobView, gpus: int, offer: Offer, state: State) -> Answer:
        """The same GPUs, ranks in another order where that saves bytes."""
        answer = self.inner.place(view, job, gpus, offer, state)
        if answer.gpus is None or len(answer.gpus) < 3:
            return answer
        return replace(answer, gpus=self._dealing.order(view.cluster, job.job.profiles[gpus], answer.gpus))
