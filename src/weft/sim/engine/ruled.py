"""Ruled: asks a pace's rule what transfers may have, at every slot and when transfers start or end.

Both engines use it: the compiled one and its readable twin in testkit/oracles/ tell it through `Body` what their
transfers have done, and it tells them what these may have. A slot is a stretch of `rule.slot_s` seconds; slot 0 begins
at time 0.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Protocol

import numpy as np

from weft.errors import EngineError
from weft.model.flows import FlowRows, flow_set
from weft.policies.pace.rates import MOST_RANK, Bools, Carried, Demand, Floats, Ints, Limits, Moment, Others, RateRule
from weft.sim.compiled.load import kernel
from weft.sim.compiled.state import FOREIGN, TRANSFER
from weft.sim.engine.program import Program, named_in

_NEARLY = 1e-9  # fraction of a slot: what starts this shortly before the next slot starts with it
_DUST = 1e-9  # fraction of a flow: such a remainder comes from rounding, is not worth a slot and is sent at once
_STILL = 1000  # slots in a row without a byte moving, after which a rule is not expected to change its mind


class Body(Protocol):
    """What an engine tells of its transfers, by row, and what it can be told."""

    def stirred(self) -> tuple[Ints, Bools, Floats]:
        """Rows that came under the rule or left it since this was last asked, in order; whether each has bytes left
        now, and since when."""
        ...

    def sent(self, rows: Ints) -> Floats:
        """Bytes that each has sent in this iteration."""
        ...

    def carried(self, rows: Ints, sent: Floats) -> Floats:
        """Bytes that transfers under the rule have sent over each link so far, given the rows under way and what each
        of them has sent."""
        ...

    def full(self, rows: Ints) -> Bools:
        """Links that keep some of these transfers below their caps."""
        ...

    def limit(self, rows: Ints, limits: Limits) -> None:
        """From now on these rows have these limits."""
        ...

    def look_to(self, horizon_s: float, due_s: float) -> None:
        """From now on look for transfers that catch up with another before the horizon, and for transfers that end by
        `due_s`, when the rule is asked again."""
        ...

    def look_again(self, rows: Ints) -> None:
        """Look again at these transfers, which have bytes left."""
        ...


class Ruled:
    """See the module."""

    def __init__(self, rule: RateRule, demand: Demand, body: Body) -> None:
        self.rule, self.body, self.demand = rule, body, demand
        self.flows = flow_set(64, 1)
        self.due = math.inf  # when the next slot begins, while anything is sent
        self.decisions = 0  # limits that were set
        self._still = 0  # slots in a row in which no byte has moved
        self._slot = 0
        self._rows: dict[int, tuple[int, int]] = {}  # by job
        self._since = np.full(64, math.nan)  # when each row began, of those that the rule was asked about
        self._sent = np.zeros(64)  # by each row when the slot began
        self._caps = np.full(64, math.nan)  # what each row was told last
        self._going = np.zeros(64, np.bool_)  # rows that may send, or have sent in this slot or the one before
        self._carried = np.zeros(len(demand.capacity))
        self._dust: Ints = np.zeros(0, np.int64)  # rows of which only dust is left
        self._kernel = kernel("limits")
        self._ranked = False  # the rule has given weights or levels; rows without any now get plain ones
        # links of foreign flows, what each asks for, and since when it has been there (not a number: since now)
        self._foreign: dict[int, tuple[tuple[int, ...], float, float]] = {}
        self._ended: list[float] = []  # since when those had been there that ended since the rule was last told
        self._met = True  # the rule knows them all
        self._bare: dict[int, list[int]] = {}  # transfers without links: the rows that each may keep step with
        rule.begin(demand)

    def attach(self, row0: int, job: int, uid: int, program: Program) -> None:
        """The rows of a job from `row0` on, as the rule is to see them."""
        rows = flow_rows(program)
        width, end = max(map(len, rows.paths), default=1), row0 + len(rows)
        if end > len(self.flows) or width > self.flows.path.shape[1]:
            room = max(2 * len(self.flows), end) if end > len(self.flows) else len(self.flows)
            more = room - len(self.flows)
            self.flows = self.flows.grown(room, width)
            self._since = np.concatenate([self._since, np.full(more, math.nan)])
            self._sent = np.concatenate([self._sent, np.zeros(more)])
            self._caps = np.concatenate([self._caps, np.full(more, math.nan)])
            self._going = np.concatenate([self._going, np.zeros(more, np.bool_)])
        self.flows.put(row0, job, rows, self.demand.capacity, uid)
        self._since[row0:end] = math.nan
        self._rows[job] = (row0, end)
        if uid >= FOREIGN:
            self._foreign[job] = (rows.paths[0], program.specs[0].demand, math.nan)
            self._met = not self.rule.minds_others
        self.rule.came(np.arange(row0, end), self.flows)
        self._bare |= {row0 + i: [row0 + j for j in bound] for i, bound in _bare(program).items()}

    def reroute(self, row0: int, program: Program) -> None:
        """The rows of a job go over other links from now on; those that send are taken to start anew."""
        rows = flow_rows(program)
        width = max(map(len, rows.paths), default=1)
        if width > self.flows.path.shape[1]:
            self.flows = self.flows.grown(len(self.flows), width)
        self.flows.reroute(row0, rows, self.demand.capacity)

    def detach(self, job: int) -> None:
        """The rows of a job are free again."""
        self._end(self._live_of(job))
        low, high = self._rows.pop(job)
        if (foreign := self._foreign.pop(job, None)) is not None:
            self._ended.append(foreign[2])
            self._met = not self.rule.minds_others
        self.rule.gone(np.arange(low, high), self.flows)
        self._dust = self._dust[(self._dust < low) | (self._dust >= high)]
        self._bare = {row: bound for row, bound in self._bare.items() if not low <= row < high}

    def meet(self, now: float) -> None:
        """Tell a rule that takes foreign flows into account which of them have started or ended, and let it decide
        again."""
        if self._met:
            return
        self._met = True
        self._foreign = {
            job: (links, most, now if math.isnan(since) else since)
            for job, (links, most, since) in self._foreign.items()
        }
        width = max((len(links) for links, _, _ in self._foreign.values()), default=1)
        path = [(*links, *[-1] * (width - len(links))) for links, _, _ in self._foreign.values()]
        most, since = (np.array([flow[i] for flow in self._foreign.values()], np.float64) for i in (1, 2))
        lasted = now - np.array([began for began in self._ended if not math.isnan(began)], np.float64)
        self._ended.clear()
        self.rule.others(Others(np.array(path, np.int64).reshape(len(path), width), most, since, lasted))
        if self.flows.active.any():
            self.stirred(now)

    def _live_of(self, job: int) -> Ints:
        low, high = self._rows[job]
        rows: Ints = low + np.flatnonzero(self.flows.active[low:high])
        return rows

    def stirred(self, now: float) -> None:
        """Transfers have started or ended at this instant."""
        if now >= self.due:
            self.renew(now)
            return
        new, self._still = self._look(), 0
        idle = self.due == math.inf
        if idle:
            self._begin(now)
        if not self.flows.active.any():
            self.due = math.inf
            self._look_to()
            self._look_again(self._dust[:0])
            return
        slots = self.rule.slot_s < math.inf
        part = min((self.due - now) / self.rule.slot_s, 1.0) if slots else 1.0
        jobs = {*self.flows.job[new].tolist()}
        if self.rule.everyone:
            live = np.flatnonzero(self.flows.active)
        else:
            parts = [self._live_of(job) for job in jobs]
            live = parts[0] if len(parts) == 1 else np.sort(np.concatenate(parts)) if parts else new
        begins = idle and part > 1.0 - _NEARLY  # the rule has not been asked in this slot
        self._count(live[self._going[live]])
        self._ask(Moment(self._slot, part, begins, now), live[self.flows.active[live]])
        if not slots:
            self._due_again(now)

    def _begin(self, now: float) -> None:
        """Something is sent after nothing was."""
        self._carried = self.body.carried(self._dust, self.body.sent(self._dust))
        if self.rule.slot_s < math.inf:
            self._slot = math.floor(now / self.rule.slot_s + _NEARLY)
            self.due = (self._slot + 1) * self.rule.slot_s
            self._look_to()

    @property
    def stuck(self) -> bool:
        """Whether nothing has moved for so long that it never will, unless something else happens."""
        return self._still >= _STILL

    def renew(self, now: float) -> None:
        """A slot begins: tell the rule what the last one carried, then ask for limits of all that have bytes left."""
        if self.rule.slot_s == math.inf:
            self._renew_early(now)
            return
        passed, self._slot = self._slot, self._slot + 1
        self._look()
        slot_s, f = self.rule.slot_s, self.flows
        going = self._count(np.flatnonzero(f.active & self._going))
        moved = self._kernel.note_rates(going, f.sent, slot_s, self._sent, f.rate, self._caps, self._going)
        self._still = 0 if moved else self._still + 1
        rows = np.flatnonzero(f.active & (f.sent > 0.0))
        sent = f.sent[rows]
        if len(self._dust):
            rows, sent = np.concatenate([rows, self._dust]), np.concatenate([sent, self.body.sent(self._dust)])
        carried = self.body.carried(rows, sent)
        came = Carried((carried - self._carried) / slot_s, self.body.full(going), self.demand.loss)
        self._carried = carried
        live = np.flatnonzero(f.active)
        self.rule.carried(passed, f, live, came)
        self.due = (self._slot + 1) * slot_s if len(live) else math.inf
        self._look_to()
        self._ask(Moment(self._slot, now_s=now), live)
        self._look_again(np.flatnonzero(f.active & self._going))

    def _renew_early(self, now: float) -> None:
        """A rule without slots is asked again because it wanted to be."""
        self._look()
        self._count(np.flatnonzero(self.flows.active & self._going))
        self._ask(Moment(self._slot, now_s=now), np.flatnonzero(self.flows.active))
        self._due_again(now)

    def _due_again(self, now: float) -> None:
        """When a rule without slots is asked next, if nothing starts or ends before."""
        self.due = now + self.rule.again_s if self.flows.active.any() else math.inf

    def _look_to(self) -> None:
        self.body.look_to(self.due - _NEARLY * self.rule.slot_s if self.due < math.inf else math.inf, self.due)

    def _look_again(self, live: Ints) -> None:
        self.body.look_again(np.concatenate([live, self._dust]) if len(self._dust) else live)

    def _ask(self, when: Moment, live: Ints) -> None:
        if not len(live):
            return
        self.decisions += len(live)
        limits = self.rule.decide(when, self.flows, live)
        if len(limits.caps) != len(self.flows):
            raise self._refused(f"has {len(limits.caps)} caps for {len(self.flows)} rows")
        ranked = self._ranked = self._ranked or limits.weights is not None or limits.levels is not None
        if ranked:
            n, weights, levels = len(self.flows), limits.weights, limits.levels
            weights = np.ones(n, np.int64) if weights is None else weights
            levels = np.zeros(n, np.int64) if levels is None else levels
            self._check_ranks(live, weights, "weight", 1)
            self._check_ranks(live, levels, "level", 0)
            limits = Limits(limits.caps, weights, levels)
        changed, wrong = self._kernel.note_caps(live, limits.caps, self._caps, self._going)
        if wrong >= 0:
            raise self._refused(f"gives a flow a cap of {limits.caps[wrong]}; give 0 or more bytes per second")
        self.body.limit(live if ranked else changed, limits)
        if ranked and (len(self._dust) or self._bare):
            self._rank_others(live, limits)

    def _check_ranks(self, live: Ints, ranks: Ints, what: str, least: int) -> None:
        """Refuse weights or levels that the engine cannot count in; flows that keep step have one rate, so they must
        have one weight and one level."""
        if len(ranks) != len(self.flows):
            raise self._refused(f"has {len(ranks)} {what}s for {len(self.flows)} rows")
        given = ranks[live]
        if given.dtype.kind not in "iu" or given.min() < least or given.max() > MOST_RANK:
            raise self._refused(f"gives a flow a {what} that is no whole number from {least} to {MOST_RANK}")
        f = self.flows
        if self._kernel.differ(live, ranks, f.active, f.feed0, f.feed1):
            raise self._refused("gives flows of a job that keep step different weights or levels")

    def _refused(self, why: str) -> EngineError:
        return EngineError(f"the rule {type(self.rule).__name__} {why}")

    def _rank_others(self, live: Ints, limits: Limits) -> None:
        """Transfers that the rule is not asked about get the weight and the level of those they may keep step with. A
        remainder of a flow takes those of its job's other flows, and a transfer without links those of a row that it is
        bound to."""
        jobs, first = np.unique(self.flows.job[live], return_index=True)
        dust = self._dust[np.isin(self.flows.job[self._dust], jobs)]
        asked = set(live.tolist()) if self._bare else set()
        bare = [(row, next(j for j in bound if j in asked)) for row, bound in self._bare.items() if asked & {*bound}]
        rows = np.array([*dust.tolist(), *(row for row, _ in bare)], np.int64)
        as_dust = live[first[np.searchsorted(jobs, self.flows.job[dust])]]
        like = np.array([*as_dust.tolist(), *(row for _, row in bare)], np.int64)
        ranks = [None if given is None else given.copy() for given in (limits.weights, limits.levels)]
        for given in ranks:
            if given is not None:
                given[rows] = given[like]
        self.body.limit(rows, Limits(np.full(len(self.flows), math.inf), *ranks))

    def _look(self) -> Ints:
        """Rows that have begun to send since the last look; tell the rule which have ended."""
        rows, live, since = self.body.stirred()
        if not len(rows):
            return rows
        f = self.flows
        begun = live & (since != self._since[rows])
        if len(self._dust):
            over = {*rows[~live | begun].tolist()}
            self._dust = np.array([row for row in self._dust.tolist() if row not in over], np.int64)
        self._end(rows[f.active[rows] & (~live | begun)])
        new: Ints = rows[begun]
        f.active[new], f.sent[new] = True, 0.0
        self._since[new], self._sent[new] = since[begun], 0.0
        self._caps[new], self._going[new] = math.nan, False
        return new

    def _count(self, going: Ints) -> Ints:
        """Note the bytes of rows that may have sent. Rows with only dust left are uncapped and count as ended for the
        rule; the others are returned."""
        if not len(going):
            return going
        f = self.flows
        f.sent[going] = sent = self.body.sent(going)
        size = f.size[going]
        dust = size - sent <= _DUST * size
        if not dust.any():
            return going
        self.body.limit(going[dust], Limits(np.full(len(f), math.inf)))
        self._end(going[dust])
        self._dust = np.concatenate([self._dust, going[dust]])
        return going[~dust]

    def _end(self, rows: Ints) -> None:
        """These rows have ended; the next iteration starts without their last rates."""
        if len(rows):
            f = self.flows
            f.active[rows], f.rate[rows], f.sent[rows] = False, 0.0, f.size[rows]
            self.rule.over(rows, f)


def flow_rows(program: Program) -> FlowRows:
    """The transfers of a program as rows, one for each of its tasks; computing has no path."""
    specs = program.specs
    return FlowRows(
        tuple(tuple(link for link, _ in spec.links) if spec.kind == TRANSFER else () for spec in specs),
        tuple(spec.amount if spec.kind == TRANSFER else 0.0 for spec in specs),
        tuple(spec.chunk for spec in specs),
        tuple(_stretch(spec.leads) for spec in specs),
        tuple(map(_stretch, named_in(specs, "leads"))),
        _computing_s(program),
        math.fsum(spec.weight * spec.amount for spec in specs if spec.kind != TRANSFER),
    )


def _computing_s(program: Program) -> float:
    """Seconds of the longest chain of computing in an iteration."""
    done: list[float] = []
    for spec in program.specs:
        mine = 0.0 if spec.kind == TRANSFER else spec.amount
        done.append(mine + max((done[i] for i in spec.after), default=0.0))
    return max(done, default=0.0)


def _bare(program: Program) -> dict[int, list[int]]:
    """Transfers that use no link, each with the rows that do use links and that it may never be ahead of."""
    specs = program.specs
    bound = [{*spec.leads, *followers} for spec, followers in zip(specs, named_in(specs, "leads"), strict=True)]
    linked = {i for i, spec in enumerate(specs) if spec.links and spec.amount > 0.0}
    found: dict[int, list[int]] = {}
    for i, spec in enumerate(specs):
        if spec.kind == TRANSFER and not spec.links:
            seen, todo = {i}, [i]
            while todo:
                new = bound[todo.pop()] - seen
                seen |= new
                todo += new - linked
            if seen & linked:
                found[i] = sorted(seen & linked)
    return found


def _stretch(rows: Sequence[int]) -> tuple[int, int]:
    """Rows that lie side by side, as a range; an empty range if they do not (which no collective produces)."""
    if not rows or max(rows) - min(rows) + 1 != len(rows):
        return (0, 0)
    return (min(rows), max(rows) + 1)
