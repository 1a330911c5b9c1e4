"""The engine, to be read: no arenas, no skipping, everything looked at anew at every instant.

The compiled kernel must agree with it bit for bit when skipping is off; tests hold one against the other.
"""

import math

from testkit.oracles.job import RefBody, RefJob, RefNode, slow_factor, task_factor
from testkit.oracles.sharing import Sharer, k_way, max_min
from weft.model.flows import TransferView
from weft.model.plan import Gate
from weft.policies.pace.rates import Demand
from weft.sim.compiled.state import FOREIGN, MISSED, rate_unit
from weft.sim.engine import EngineSpec, Usage
from weft.sim.engine.layout import Pool
from weft.sim.engine.program import LinkUnits, Program
from weft.sim.engine.ruled import Ruled


class ReferenceEngine:
    """Same interface and same physics as Engine."""

    def __init__(self, spec: EngineSpec) -> None:
        self.spec = spec
        self.now = 0.0
        self.jobs: dict[int, RefJob] = {}
        self.running: dict[int, RefNode] = {}  # on each shared GPU
        self.bytes = [0.0] * len(spec.capacity)
        self.busy = [0.0] * len(spec.capacity)
        self._busy_since: dict[int, float] = {}
        self._job_rows = 0
        self._finished: list[int] = []
        self._ended: list[RefNode] = []  # nodes that end at this instant
        self._ready: list[RefNode] = []  # nodes that are released at this instant
        self._moved = False  # some transfer began, ended or met its lead: rates must be found anew
        self.exact = True
        self.horizon = math.inf  # by this time a rule will have been asked again
        self._rows = Pool()
        self._stirred = False  # transfers under a rule have started, or ended if it wants to know
        self.ruled_bytes = [0.0] * len(spec.capacity)  # link: bytes of transfers under the rule that have ended
        self.ruled: Ruled | None = None
        rule = spec.rule() if spec.rule is not None else None
        if rule is not None:
            self.ruled = Ruled(rule, Demand(spec.capacity, spec.seed, spec.packet_loss), RefBody(self))

    def attach(
        self, uid: int, program: Program, iterations: int, *, base: int = 0, gate: Gate | None = None,
        turn: tuple[float, float] = (0.0, 0.0),
    ) -> int:  # fmt: skip
        row, self._job_rows = self._job_rows, self._job_rows + 1
        job = RefJob(uid, program, iterations, base, gate, turn, mark=self.now)
        row0 = self._rows.take(len(program.specs))
        for i, (spec, laid) in enumerate(zip(program.specs, program.nodes, strict=True)):
            node = RefNode(job, spec, i, float(laid["alone"]), row=row0 + i, claim=spec.claim, level=spec.level)
            node.demand = node.limit = int(laid["limit"])
            job.nodes.append(node)
        self.jobs[row] = job
        if self.ruled is not None:
            self.ruled.attach(row0, row, uid, program)
        self._begin_iteration(job)
        return row

    def detach(self, row: int) -> Usage:
        job = self.jobs[row]
        if job.done < job.total:
            self._book(job)
            for node in job.nodes:
                if not node.is_transfer and node.state == "active":
                    job.gpu_s += node.spec.weight * (self.now - node.began)
                if self.running.get(node.spec.gpu) is node:
                    del self.running[node.spec.gpu]
                if node.is_transfer and node.state in ("latency", "active"):
                    flowing = node.state == "active"
                    sent = node.spec.amount - node.bytes_left(self.now) if flowing else 0.0
                    self._end_transfer(node, sent)
                node.state = "done"
            self._ready = [node for node in self._ready if node.job is not job]
        del self.jobs[row]
        if self.ruled is not None:
            self.ruled.detach(row)
        self._rows.give(job.nodes[0].row, len(job.nodes))
        return Usage(job.done, job.comm_s, job.gate_s, job.gpu_s, job.finish, job.adjusted)

    def limits_changed(self) -> None:
        """A rule has changed what transfers may have: rates are found anew at the end of this instant."""
        self._moved = True

    def flowing(self) -> list[RefNode]:
        """Transfers that are sending."""
        return [n for n in self._admitted() if n.state == "active"]

    def set_gate(self, row: int, gate: Gate | None) -> None:
        self.jobs[row].gate, self.jobs[row].gate_last = gate, math.inf

    def reroute(self, row: int, program: Program) -> None:
        """A running job goes over other links. What a transfer has sent stays booked where it went, so its new links
        begin with as much less."""
        job, now = self.jobs[row], self.now
        left = {n.index: max(n.bytes_left(now), 0.0) for n in job.nodes if n.sends}
        for n in job.nodes:
            if n.sends:
                self._end_transfer(n, n.spec.amount - left[n.index])
        for n, spec, laid in zip(job.nodes, program.specs, program.nodes, strict=True):
            n.spec, n.alone, n.demand, n.limit = spec, float(laid["alone"]), int(laid["limit"]), int(laid["limit"])
            if n.index in left:
                n.state, n.remaining, n.mark, n.rate = "active", left[n.index], now, 0.0
                n.event = math.inf
                self._occupy(n)
                for link, count in spec.links:
                    self.bytes[link] -= (spec.amount - left[n.index]) * count
        job.program, self._moved = program, True

    def iterations_done(self, row: int) -> int:
        return self.jobs[row].done

    def durations(self, row: int) -> list[float]:
        """Iteration times of a job so far."""
        return self.jobs[row].durations

    def link_busy(self) -> list[float]:
        """Seconds with at least one transfer on each link, up to now."""
        return [b + (self.now - self._busy_since[k] if k in self._busy_since else 0.0) for k, b in enumerate(self.busy)]

    def run(self, until: float = math.inf) -> list[int]:
        self._finished = []
        if self.ruled is not None:
            self.ruled.meet(self.now)
        self._settle([])
        while not self._finished:
            nodes = [n for job in self.jobs.values() for n in job.nodes]
            when = min((n.event for n in nodes), default=math.inf)
            stop = until if self.ruled is None else min(until, self.ruled.due)
            if self.ruled is not None and when > stop and stop < until:
                self.now = stop
                self.ruled.renew(self.now)
                if self.ruled.stuck and until == math.inf and when == math.inf:
                    return []
                self._settle([])
                continue
            if when > until or when == math.inf:
                self.now = until if until < math.inf else self.now
                return []
            self.now = when
            self._settle([n for n in nodes if n.event == when])
        return sorted(self._finished)

    def _settle(self, due: list[RefNode]) -> None:
        """One instant: completions and what they release, GPU hand-over, admissions; then one solve."""
        for node in sorted(due, key=lambda n: (n.job.uid, n.index)):
            node.event = math.inf
            if node.state == "gated":
                self._book(node.job, gated=-1)
                self._begin(node)
            elif node.state == "latency":
                self._first_byte(node)
            elif node.catches >= 0:
                node.tight[node.catches] = True
                self._moved = True
            else:
                self._ended.append(node)
        while True:
            while self._ended or self._ready:
                if self._ended:
                    self._finish(self._ended.pop(0))
                else:
                    self._release(self._ready.pop(0))
            self._hand_over_gpus()
            if not self._ended:
                self._admit()
            if not self._ended:
                break
        if self.ruled is not None and self._stirred:
            self._stirred = False
            self.ruled.stirred(self.now)
        if self._moved:
            self._moved = False
            self._solve()

    def _begin_iteration(self, job: RefJob) -> None:
        job.iter_start = self.now
        for node in job.nodes:
            node.state, node.left = "pending", len(node.spec.after)
            node.tight = dict.fromkeys(node.spec.leads, node.spec.chunk <= 0.0)
        self._ready += [node for node in job.nodes if node.left == 0]

    def _release(self, node: RefNode) -> None:
        job = node.job
        if job.gate is not None and job.gate.task == node.spec.task and not node.spec.continued:
            opens = self._gate_opens(job, job.gate)
            if opens > self.now:
                node.state, node.event = "gated", opens
                self._book(job, gated=1)
                return
        self._begin(node)

    def _gate_opens(self, job: RefJob, gate: Gate) -> float:
        if gate.period_s <= 0.0:
            return max(self.now, gate.epoch_s)
        opening = float(math.floor((self.now - gate.epoch_s) / gate.period_s))
        opens = self.now
        if self.now - (gate.epoch_s + opening * gate.period_s) > gate.tolerance * gate.period_s:
            opens = max(self.now, gate.epoch_s + (opening + 1.0) * gate.period_s)
        if opens - job.gate_last > MISSED * gate.period_s:
            job.adjusted += 1
        job.gate_last = opens
        return opens

    def _begin(self, node: RefNode) -> None:
        node.state = "queued"
        if node.is_transfer:
            self._book(node.job, sending=1)
            if self.spec.admission == "all":
                self._start_transfer(node)
        else:
            self._book(node.job, computing=1)
            if node.spec.gpu < 0:
                self._start_compute(node)

    def _start_compute(self, node: RefNode) -> None:
        job, spec = node.job, self.spec
        node.seconds = node.spec.amount
        if spec.jitter > 0.0 or spec.straggle_p > 0.0 or spec.task_jitter > 0.0:
            key = spec, job.uid, job.base + job.done
            factors = [slow_factor(*key, r) * task_factor(*key, r, node.spec.task) for r in node.spec.ranks]
            node.seconds *= max(factors, default=0.0)
        node.state, node.began = "active", self.now
        if node.seconds <= 0.0:
            self._ended.append(node)
        else:
            node.event = self.now + node.seconds

    def _start_transfer(self, node: RefNode) -> None:
        node.began, node.rate, node.state = self.now, None, "latency"
        self._moved = True
        if node.spec.latency > 0.0:
            node.event = self.now + node.spec.latency
        else:
            self._first_byte(node)

    def _first_byte(self, node: RefNode) -> None:
        node.state, node.remaining, node.mark, node.rate = "active", node.spec.amount, self.now, None
        self._moved = True
        self._occupy(node)
        if node.spec.amount <= 0.0 or node.alone == math.inf:
            self._ended.append(node)
        elif self.ruled is not None and node.spec.links and node.job.uid < FOREIGN:
            node.ruled, node.since, node.demand, node.units = True, self.now, 0, -1
            self._stirred = True

    def _occupy(self, node: RefNode) -> None:
        for link in dict(node.spec.links):
            if not any(link in dict(n.spec.links) for n in self.flowing() if n is not node):
                self._busy_since[link] = self.now

    def _end_transfer(self, node: RefNode, sent: float) -> None:
        was_flowing = node.state == "active"
        node.state = "done"
        self._moved = True
        if not was_flowing:
            return
        if node.ruled and self.ruled is not None:
            node.ruled = False
            self._stirred |= self.ruled.rule.everyone
            for link, n in node.spec.links:
                self.ruled_bytes[link] += sent * n
        for link, n in node.spec.links:
            self.bytes[link] += sent * n
            if not any(link in dict(other.spec.links) for other in self.flowing()):
                self.busy[link] += self.now - self._busy_since.pop(link)

    def _finish(self, node: RefNode) -> None:
        job = node.job
        node.event = math.inf
        if node.is_transfer:
            self._book(job, sending=-1)
            self._end_transfer(node, node.spec.amount)
        else:
            self._book(job, computing=-1)
            job.gpu_s += node.spec.weight * node.seconds
            if node.spec.gpu >= 0:
                del self.running[node.spec.gpu]
        node.state = "done"
        for other in job.nodes:
            if node.index in other.spec.after:
                other.left -= other.spec.after.count(node.index)
                if other.left == 0:
                    self._ready.append(other)
        if all(n.state == "done" for n in job.nodes):
            self._end_iteration(job)

    def _end_iteration(self, job: RefJob) -> None:
        job.done += 1
        job.durations.append(self.now - job.iter_start)
        if job.done >= job.total:
            job.finish = self.now
            self._finished += [row for row, j in self.jobs.items() if j is job]
        else:
            self._begin_iteration(job)

    def _hand_over_gpus(self) -> None:
        """Each idle GPU takes the waiting task whose job's turn it is."""
        waiting: dict[int, list[RefNode]] = {}
        for job in self.jobs.values():
            for node in job.nodes:
                if not node.is_transfer and node.state == "queued" and node.spec.gpu not in self.running:
                    waiting.setdefault(node.spec.gpu, []).append(node)
        for gpu, nodes in waiting.items():
            first = min(nodes, key=lambda n: (n.job.key, n.job.uid, n.index))
            self.running[gpu] = first
            self._start_compute(first)

    def _admit(self) -> None:
        """Start waiting transfers that the rule lets through, in order of their jobs' turns."""
        held = [n for job in self.jobs.values() for n in job.nodes if n.is_transfer and n.state == "queued"]
        for node in sorted(held, key=lambda n: (n.job.key, n.job.uid, n.index)):
            if self._may_start(node):
                self._start_transfer(node)

    def _may_start(self, node: RefNode) -> bool:
        spec = self.spec
        if spec.ask is not None:
            ports = self._view(node).ports
            beside = [n for n in self._admitted() if self._view(n).ports & ports]
            views = sorted(map(self._view, beside), key=lambda view: (int(view.job), view.task))
            return spec.ask(self._view(node), tuple(views))
        for link, _ in node.spec.links:
            if not spec.ports[link]:
                continue
            there = [n for n in self._admitted() if link in dict(n.spec.links)]
            if len(there) >= spec.admission_k and there:
                return False
            if there and spec.admission == "ratio":
                need = spec.admission_ratios[len(there) - 1] * node.spec.amount
                if not all(n.bytes_left(self.now) > need for n in there):
                    return False
        return True

    def _view(self, node: RefNode) -> TransferView:
        ports = frozenset(k for k, _ in node.spec.links if self.spec.ports[k])
        left = node.bytes_left(self.now) if node.state == "active" else node.spec.amount
        return TransferView(str(node.job.uid), node.spec.task, left, ports, node.job.key)

    def _admitted(self) -> list[RefNode]:
        return [n for j in self.jobs.values() for n in j.nodes if n.is_transfer and n.state in ("latency", "active")]

    def _solve(self) -> None:
        """Find every rate; a transfer whose rate stays the same is left alone, to the last bit."""
        nodes = self.flowing()
        units = LinkUnits.of(self.spec.capacity, self.spec.finest)
        sharers = {id(n): Sharer(dict(n.spec.links), n.demand, n.claim, n.level) for n in nodes}
        for n in nodes:
            leads = [n.job.nodes[lead] for lead, tight in n.tight.items() if tight]
            sharers[id(n)].level_with = [sharers[id(x)] for x in leads if x.state == "active"]
            sharers[id(n)].stalled = any(x.state not in ("active", "done") for x in leads)
        if self.spec.sharing == "max-min":
            max_min(list(sharers.values()), units.of_link)
        for n in nodes:
            rate = self._rate(n, sharers[id(n)])
            if rate != n.rate:
                if n.rate is not None:
                    n.remaining = max(n.remaining - n.rate * (self.now - n.mark), 0.0)
                n.mark, n.rate = self.now, rate
                n.event = self.now + n.remaining / rate if rate > 0.0 else math.inf
        for n in nodes:
            for i in n.tight:
                lead = n.job.nodes[i]
                if lead.state == "done" or (lead.state == "active" and (lead.rate or 0.0) > (n.rate or 0.0)):
                    n.tight[i] = False
        for n in nodes:
            if n.spec.leads:
                self._find_meeting(n)

    def _rate(self, node: RefNode, sharer: Sharer) -> float:
        if self.spec.sharing == "max-min":
            node.units = sharer.rate
            return sharer.rate * rate_unit(self.spec.capacity, self.spec.finest)
        if self.spec.sharing == "k-way" and node.spec.links:
            there = [dict(n.spec.links) for n in self._admitted()]
            k = max(sum(link in links for links in there) for link, _ in node.spec.links)
            return min(k_way(max(k, 1), self.spec.b_s_per_byte, self.spec.eta_s_per_byte), node.spec.demand)
        return node.alone

    def _find_meeting(self, node: RefNode) -> None:
        """When a follower ends, or catches up with a transfer that it may not overtake."""
        rate = node.rate or 0.0
        node.event = node.mark + node.remaining / rate if rate > 0.0 else math.inf
        node.catches = -1
        for i, tight in node.tight.items():
            lead = node.job.nodes[i]
            if lead.state == "done" or tight:
                continue
            lead_rate = (lead.rate or 0.0) if lead.state == "active" else 0.0
            if rate > lead_rate:
                # both transfers as they were when their rates last changed, so that looking again later changes nothing
                ahead = node.spec.amount - node.remaining - rate * node.mark - node.spec.chunk
                if lead.state == "active":
                    ahead -= lead.spec.amount - lead.remaining - lead_rate * lead.mark
                meets = max(self.now, -ahead / (rate - lead_rate))
                if meets < node.event and (meets < self.horizon or not node.ruled):
                    node.event, node.catches = meets, i

    def _book(self, job: RefJob, computing: int = 0, sending: int = 0, gated: int = 0) -> None:
        """Change what a job is busy with; the time since the last change was exposed communication, or a gate's."""
        if job.computing == 0:
            if job.sending > 0:
                job.comm_s += self.now - job.mark
            elif job.gated > 0:
                job.gate_s += self.now - job.mark
        job.mark = self.now
        job.computing += computing
        job.sending += sending
        job.gated += gated
