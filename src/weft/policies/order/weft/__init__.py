"""weft: least expected service first, with a bound on waiting, and sizes by what one more GPU would gain."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush, merge
from itertools import chain, takewhile
from math import floor, inf, log2

from weft.model.plan import State
from weft.model.policy import setting
from weft.model.view import ClusterView, Fact, JobStatus, JobView, Spread, measured_s
from weft.policies.order.base import Claim, Order, Ranking
from weft.policies.order.weft.sizes import WORTH, shared_out

BOUND = 20.0  # a job may wait this many times its own length, alone on the closest place, while later ones run,
LEAST_BOUND_S = 3600.0  # or this long, if that is longer
NEAR = 0.9  # fraction of its bound after which a waiting job goes to the front, so that it is served in time
_GUESS_S = 60.0  # run time that a job of unknown length is first expected to need

Entry = tuple[float, int, JobView]  # key, 1 if it waits, the job


@dataclass(eq=False)
class Weft(Order):
    """Jobs by the GPU seconds that they are expected to need still, least first; running jobs give way.

    If a job's length is known, that is what is left of it, alone on the closest place. A job of unknown length is
    expected to run for as long again as it has run, counted in doublings (a minute, two, four, ...), so that it is
    passed over once per doubling and not continuously. The cost of stopping a running job is deducted from its key: the
    GPU seconds of its restart and of the work since its last checkpoint. It gives way only to a job that would
    otherwise wait for longer than that job's own run time (`Outlook`). A job that cannot resume never gives way.

    Jobs of a higher priority come first. Among those of one priority nobody starves: a job that has waited for nine
    tenths of its bound (20 times its length, at least an hour) goes to the front, those submitted first first, and
    gives way to nobody behind it until it ends. If its length is not known, that holds until it has run for as long
    again as it had when it got there, and for at least an hour.

    A running job is placed anew where being closer together would save it more than moving costs. Its present speed is
    the measured one.

    Where jobs are elastic, sizes come from `sizes.py`. `weft:rigid` never resizes, `weft:attained` takes no length for
    known; `weft:rigid,attained` both.
    """

    name = "weft"
    resizes: bool = setting(True, words={"rigid": False})
    lengths: bool = setting(True, words={"attained": False})

    def __post_init__(self) -> None:
        """What it must know."""
        super().__post_init__()
        self.needs = frozenset({Fact.ITERATIONS_LEFT, Fact.PROFILE}) if self.lengths else frozenset()

    def suited(self, facts: frozenset[Fact], resizing: bool) -> tuple[Order, list[str]]:
        """The same order for a world that knows and can do only so much, and what is left out."""
        known = {Fact.ITERATIONS_LEFT, Fact.PROFILE} <= facts
        left_out = [] if known or not self.lengths else ["lengths of jobs are not known: it goes by attained service"]
        left_out += [] if resizing or not self.resizes else ["jobs run at the size they ask for"]
        return Weft(self.resizes and resizing, self.lengths and known), left_out

    def initial_state(self) -> State:
        """No job is at the front, no sizes are decided, no job moves."""
        return {"front": {}, "jobs": [], "sizes": {}, "moving": []}

    def rank(self, view: ClusterView, state: State) -> Ranking:
        """The front, then least expected service first."""
        front = self._front(view, state["front"])
        state = {**state, "front": front}
        if self.resizes and any(map(_is_elastic, chain(view.running.values(), view.waiting.values()))):
            return self._elastic(view, state)
        moving = [name for name in state["moving"] if name in view.waiting or _stops(view, name)]
        scattered = {job.id for job in _running(view) if self._scattered(view, job)}
        state = {**state, "moving": sorted({*moving, *scattered})}
        wake_s = self._wake_s(view) if view.waiting else None
        wanted = sum(gpus * jobs for (gpus, _), jobs in view.demand.items())
        if wanted <= view.offer.n_free and not (moving or scattered or front.keys() & view.waiting.keys()):
            free = (
                Claim(j.id, j.job.gpus, self._words(self._waiting(view, j), j))
                for j in view.waiting_by(_By(view, self._waiting))
            )
            return Ranking(free, state, wake_s=wake_s)  # nobody has to give way
        claims = self._claims(view, self._entries(view, front, moving), scattered)
        return Ranking(claims, state, preemptive=True, wake_s=wake_s)

    def turn(self, view: ClusterView, job: JobView) -> tuple[float, float]:
        """The same key, as it shrinks with every iteration."""
        return (0.0, self._per_iteration(view, job)) if self._knows(job) else (self._waiting(view, job), 0.0)

    # The key

    def _knows(self, job: JobView) -> bool:
        return self.lengths and job.job.known

    def _per_iteration(self, view: ClusterView, job: JobView) -> float:
        """GPU seconds of one iteration at the size asked for, alone on the closest place."""
        return job.job.gpus * self._iteration_s(view, job)

    def _iteration_s(self, view: ClusterView, job: JobView) -> float:
        """Seconds of such an iteration. Communication counts, because the job holds its GPUs meanwhile."""
        closest = Spread.closest(view.cluster.shaped(job.job.per_server), job.job.gpus)
        return view.estimate(job.job, job.job.gpus, closest).iteration_s

    def _waiting(self, view: ClusterView, job: JobView) -> float:
        """GPU seconds that a waiting job is expected to need: nothing about it changes until it starts."""
        if self._knows(job):
            return self._per_iteration(view, job) * (job.job.iterations - job.saved_iterations)
        return job.job.gpus * _doubling_s(job.run_s)

    def _of_running(self, view: ClusterView, job: JobView) -> float:
        """The same for a running job, less what stopping it would cost."""
        gpus = len(job.gpus) or job.job.gpus
        cost = view.restart_s * gpus
        if not self._knows(job):
            return job.job.gpus * _doubling_s(job.run_time_s(view.now)) - cost
        done = self._iterations(view, job)
        lost = done % max(1, job.job.checkpoint_every)
        return self._per_iteration(view, job) * (job.job.iterations - done - lost) - cost

    def _entries(self, view: ClusterView, front: dict[str, float], moving: Sequence[str] = ()) -> Iterator[Entry]:
        """All jobs in order: running jobs that cannot resume; then, for each priority, the front by submission and the
        others by key.

        Jobs that were stopped to be moved keep the key that they had while they ran, so that no other job takes the
        place that they move to.
        """
        running = list(_running(view))
        fixed = [(-inf, 0, job) for job in running if not job.job.resumes and job.id not in front]
        first = [view.running.get(name) or view.waiting.get(name) for name in front]
        ahead = sorted(
            ((-inf, int(job.id in view.waiting), job) for job in first if job is not None),
            key=lambda entry: (-entry[2].job.priority, entry[2].job.submit_s, entry[2].id),
        )
        held = {job.id for _, _, job in fixed} | front.keys()
        moved = [view.waiting[name] for name in moving if name in view.waiting and name not in front]
        running_keys = [(self._of_running(view, j), 0, j) for j in running if j.id not in held]
        moved_keys = [(self._waiting(view, j) - view.restart_s * j.job.gpus, 1, j) for j in moved]
        rest = sorted([*running_keys, *moved_keys], key=_key)
        held |= {job.id for job in moved}
        waits = ((self._waiting(view, j), 1, j) for j in view.waiting_by(_By(view, self._waiting)) if j.id not in held)
        return chain(fixed, merge(ahead, rest, waits, key=_key))

    def _claims(self, view: ClusterView, entries: Iterator[Entry], scattered: set[str]) -> Iterator[Claim]:
        outlook = Outlook(view, {job.id: self._rest_s(view, job) for job in view.running.values()})
        lowest = min((job.job.priority for job in view.running.values()), default=0)
        for key, waits, job in entries:
            if waits:
                pays = outlook.pays(job, self._rest_s(view, job))
                urgent = pays or key == -inf or job.job.priority > lowest
                yield Claim(job.id, job.job.gpus, self._words(key, job), urgent=urgent)
            else:
                moves = job.id in scattered
                yield Claim(job.id, len(job.gpus), "closer together" if moves else "", anew=moves)

    def _rest_s(self, view: ClusterView, job: JobView) -> float:
        """Seconds that a job is expected to run still."""
        if job.status is JobStatus.STOPPING:
            return 0.0
        if not self._knows(job):
            return _doubling_s(job.run_time_s(view.now))
        alone_s = self._iteration_s(view, job)
        if job.gpus:
            measured = measured_s(view, job, self._iterations(view, job))
            alone_s = measured or view.estimate(job.job, len(job.gpus), Spread.of(view.cluster, job.gpus)).iteration_s
        return self._left(view, job) * alone_s

    def _words(self, key: float, job: JobView) -> str:
        if key == -inf:
            return "has waited nearly as long as it may: goes first"
        if self._knows(job):
            return f"least service left first: {key:.4g} GPU s"
        return f"length unknown, as long again as it has run: {key:.4g} GPU s"

    # The bound on waiting

    def _due_s(self, view: ClusterView, job: JobView) -> float:
        """When a waiting job goes to the front."""
        length_s = job.job.iterations * self._iteration_s(view, job) if self._knows(job) else job.run_s
        return job.job.submit_s + job.run_s + NEAR * max(LEAST_BOUND_S, BOUND * length_s)

    def _front(self, view: ClusterView, before: dict[str, float]) -> dict[str, float]:
        """Jobs at the front, and the run time up to which each stays there (-1: to its end)."""
        after: dict[str, float] = {}
        for name, until_s in before.items():
            job = view.running.get(name) or view.waiting.get(name)
            if job is not None and (until_s < 0.0 or job.run_time_s(view.now) < until_s):
                after[name] = until_s
        waiting = view.waiting_by(_By(view, self._due_s), priorities=False)
        due = takewhile(lambda job: self._due_s(view, job) <= view.now * (1 + 1e-12), waiting)
        for job in due:
            after.setdefault(job.id, -1.0 if self._knows(job) else job.run_s + max(job.run_s, LEAST_BOUND_S))
        return after

    def _wake_s(self, view: ClusterView) -> float | None:
        """When the next waiting job goes to the front, or the next running one is expected to need longer."""
        waiting = view.waiting_by(_By(view, self._due_s), priorities=False)
        due = next((due_s for due_s in (self._due_s(view, job) for job in waiting) if due_s > view.now), inf)
        for job in _running(view):
            if not self._knows(job) and job.job.resumes:
                run_s = job.run_time_s(view.now)
                due = min(due, view.now + 2.0 * _doubling_s(run_s) - run_s)
        return due if due < inf else None

    # Sizes

    def _elastic(self, view: ClusterView, state: State) -> Ranking:
        """Sizes are decided when jobs come, go or reach the front, and kept in between, whatever is being restarted."""
        jobs = [job for _, _, job in self._entries(view, state["front"])]
        names = sorted([*(job.id for job in jobs), *state["front"]])
        sizes: dict[str, int] = state["sizes"]
        if names != state["jobs"]:
            sizes = shared_out(view, jobs, self._left)
            state = {**state, "jobs": names, "sizes": sizes}
        claims, released = [], set()
        for job in jobs:
            size = sizes.get(job.id, 0)
            if job.id in view.waiting:
                if size:
                    claims.append(Claim(job.id, size, f"{size} GPUs: one more would gain it less than it gains others"))
            elif job.status is JobStatus.RUNNING and size != len(job.gpus):
                released.add(job.id)
                if size:
                    claims.append(Claim(job.id, size, f"{size} GPUs instead of {len(job.gpus)}", anew=True))
            elif job.status is JobStatus.RUNNING and self._scattered(view, job):
                released.add(job.id)
                claims.append(Claim(job.id, size, "closer together", anew=True))
        wake_s = self._wake_s(view) if view.waiting else None
        return Ranking(claims, state, wake_s=wake_s, pooled=True, released=frozenset(released))

    def _scattered(self, view: ClusterView, job: JobView) -> bool:
        """Whether a running job would gain more by being closer together than moving it costs."""
        n = len(job.gpus)
        if n < 2 or job.status is not JobStatus.RUNNING or not job.job.resumes or not self._knows(job):
            return False
        own = Spread.of(view.cluster, job.gpus)
        best = Spread.closest(view.cluster.shaped(job.job.per_server), n)
        if (own.racks, own.servers) <= (best.racks, best.servers):
            return False
        slow_s, fast_s = (view.estimate(job.job, n, spread).iteration_s for spread in (own, best))
        slow_s = max(slow_s, measured_s(view, job, self._iterations(view, job)))
        return self._left(view, job) * (slow_s - fast_s) > 2.0 * view.restart_s + WORTH * self._left(view, job) * slow_s

    def _left(self, view: ClusterView, job: JobView) -> float:
        """Iterations that a job is expected still to do."""
        done = self._iterations(view, job)
        return float(job.job.iterations - done) if self._knows(job) else max(1.0, float(done))

    def _iterations(self, view: ClusterView, job: JobView) -> int:
        """Iterations that a job has done; 0 where the world does not know."""
        return view.iterations_done(job.id) if Fact.ITERATIONS_LEFT in view.facts else 0


@dataclass(frozen=True, slots=True)
class _By:
    """A key of waiting jobs that asks the view. Those of one rule and view are equal, so a view keeps its queue."""

    view: ClusterView
    of: Callable[[ClusterView, JobView], float]

    def __call__(self, job: JobView) -> float:
        return self.of(self.view, job)


def _is_elastic(job: JobView) -> bool:
    return len(job.job.profiles) > 1 and len(job.job.sizes) > 1


def _running(view: ClusterView) -> Iterator[JobView]:
    return (job for job in view.running.values() if job.status is not JobStatus.STOPPING)


def _stops(view: ClusterView, name: str) -> bool:
    return name in view.running and view.running[name].status is JobStatus.STOPPING


def _doubling_s(run_s: float) -> float:
    """The largest doubling of a minute that a run time has reached; a minute at least."""
    return float(_GUESS_S * 2.0 ** floor(log2(max(1.0, run_s / _GUESS_S * (1 + 1e-12)))))


def _key(entry: Entry) -> tuple[int, float, bool]:
    value, waits, job = entry
    return -job.job.priority, value, value > -inf and bool(waits)  # at a tie the running job stays


class Outlook:
    """Whether it pays to stop running jobs for one that waits, from when GPUs are expected to come free.

    Waiting jobs are asked about in the order in which they will be served.
    """

    def __init__(self, view: ClusterView, rest_s: Mapping[str, float]) -> None:
        self._view = view
        self._free = view.offer.n_free
        self._ends = [(rest_s[job.id], len(job.gpus)) for job in view.running.values()]
        heapify(self._ends)

    def pays(self, job: JobView, run_s: float) -> bool:
        """Whether a job would wait for longer than the jobs that stop for it would lose: its own run time, and a
        restart.

        The GPUs that it takes, now or later, are not there for the next job.
        """
        gpus, wait_s = job.job.gpus, 0.0
        while self._free < gpus and self._ends:
            wait_s, more = heappop(self._ends)
            self._free += more
        if wait_s > 0.0 and self._free > gpus:  # GPUs left over come free only then
            heappush(self._ends, (wait_s, self._free - gpus))
        self._free = 0 if wait_s > 0.0 else self._free - gpus
        heappush(self._ends, (wait_s + run_s, gpus))
        return wait_s > run_s + self._view.restart_s
