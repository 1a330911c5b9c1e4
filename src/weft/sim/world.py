"""SimWorld: the simulated world. It carries out decisions in the engine and reports what happens, in virtual time.

It can be told to be slow (start latency, restart cost) and to fail (starts that do not come up, servers that are lost).
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import count

import numpy as np
import numpy.typing as npt

from weft.core.capabilities import Capabilities
from weft.core.world import World
from weft.errors import EngineError
from weft.model.cluster import Cluster
from weft.model.events import Event, Failed, Finished, NodeDown, NodeUp, Started, Stopped, Submitted
from weft.model.flows import Traffic
from weft.model.job import Job
from weft.model.plan import Decision, Placement, Routes, SetGate, SetRoutes, Start, Stop
from weft.model.reason import Why, because, speak
from weft.model.routes import Flow
from weft.model.view import Estimate, Fact, Spread
from weft.network.estimates import Estimates
from weft.policies.pace.base import Pace
from weft.policies.route.base import Route
from weft.sim.engine import BUDGET, Engine, EngineSpec, Usage
from weft.sim.engine.program import Program
from weft.sim.failures import Losses
from weft.sim.foreign import Others, refuse_unequal, refuse_without_links, there_are_others
from weft.sim.lower import Lowering
from weft.sim.paths import Paths, has_paths
from weft.sim.played import PlayedTraffic
from weft.sim.records import JobRecord, Span, by_id
from weft.sim.spec import NetworkSpec, RunSpec, estimates

_SAMPLES, _TRAFFIC = 400, 50_000  # most moments with link loads, most placements whose traffic is remembered
_PROBE = 0.01  # relative stretch of computing, used to see how an iteration responds to it


class SimWorld(World):
    """See the module."""

    name = "simulated"
    capabilities = Capabilities(
        gpu_indices=True, gpu_sharing=True, resizing=True, uneven=True, shifts=True, pacing=True, copies=True
    )
    facts = frozenset(Fact)

    def __init__(
        self,
        cluster: Cluster,
        jobs: Sequence[Job],
        network: NetworkSpec,
        run: RunSpec,
        *,
        shared_gpus: bool = False,
        record: bool = False,
    ) -> None:
        self.cluster, self.network, self.spec = cluster, network, run
        links = has_paths(network)
        others = links and there_are_others(network)
        self.capabilities = replace(type(self).capabilities, others=others, routes=links)
        self.paths = Paths(cluster, network)
        self.lowering = Lowering(cluster, network, shared_gpus)
        self._alone = estimates(cluster, network)
        self._ids = [job.id for job in jobs]
        self.records = {job.id: JobRecord(job, uid) for uid, job in enumerate(jobs)}
        self.n_finished, self.spans = 0, list[Span]()
        self.samples: list[tuple[float, npt.NDArray[np.float64]]] = []
        self._arrivals, self._next = sorted(jobs, key=lambda job: job.submit_s), 0
        self._later: list[tuple[float, int, str, str, int]] = []  # own work: time, number, action, job, ticket
        self._numbers = count()
        self._losses = Losses(cluster, run.outages, run.failures, run.seed)
        self._by_row: dict[int, JobRecord] = {}
        self._record = record
        self._sample_every = max((self._arrivals[-1].submit_s if jobs else 0.0) / 100, 1.0)
        self._next_sample = 0.0 if record else math.inf
        self._engine: Engine | None = None
        self.foreign: Others | None = None
        self.why_exact = ""  # why nothing is skipped or estimated, if that is so
        self._traffic: dict[tuple[str, Placement, Routes | None], Traffic] = {}
        self._played: PlayedTraffic | None = None  # where a pace opens collectives

    @property
    def estimates(self) -> Estimates:
        """How fast jobs run alone on this network."""
        return self._alone

    @property
    def restart_s(self) -> float:
        """Seconds that a job loses when it starts again, including the wait for its start."""
        return self.spec.restart_s + self.spec.start_latency_s

    @property
    def engine(self) -> Engine:
        """The physics; made when the pace is known."""
        if self._engine is None:
            raise EngineError("the simulated world was asked to run before its pace was set")
        return self._engine

    def now(self) -> float:
        return self._engine.now if self._engine else 0.0

    def set_route(self, route: Route) -> None:
        if self._engine is None:
            self.paths.route = route

    def set_pace(self, pace: Pace) -> None:
        """Build the engine with the pace's rules, for the whole run."""
        if self._engine is not None:
            return
        network, run = self.network, self.spec
        transport = pace.transport(network.packet_loss)
        ruled = pace.rates() is not None
        refuse_without_links(network, pace.name, transport.opened or ruled)
        refuse_unequal(network, pace.name, transport.opened or ruled, self._arrivals)
        self.paths.refuse(pace)
        self.lowering = Lowering(self.cluster, network, self.lowering.shared_gpus, transport, self.paths.finest)
        if transport.opened:
            self._played = PlayedTraffic(pace, self.lowering.capacity, network.packet_loss)
        if there_are_others(network):
            self.foreign = Others(self.cluster, network, run.seed, transport)
        if ruled or self.foreign is not None:
            self.why_exact = (
                f"the rates of pace {pace.name} have a memory" if ruled else "foreign traffic never repeats"
            )
        k_way = network.sharing == "k-way"
        b = network.b_s_per_byte
        rule = pace.admission(b, network.eta_s_per_byte if k_way else 0.0)
        self._engine = Engine(
            EngineSpec(
                self.lowering.capacity, self.lowering.ports, n_gpus=self.cluster.n_gpus, sharing=network.sharing,
                finest=self.paths.finest, b_s_per_byte=b, eta_s_per_byte=network.eta_s_per_byte if k_way else 0.0,
                admission=rule.kind, admission_k=rule.k, admission_ratios=rule.ratios,
                ask=by_id(rule.ask, self._ids) if rule.ask else None, rule=pace.rates, packet_loss=network.packet_loss,
                seed=run.seed, **run.chance, skip=run.skip and not self.why_exact,
                exact=run.exact or bool(self.why_exact), budget=int(run.effort * BUDGET),
                segments=20_000 if self._record else 0,
            )
        )  # fmt: skip

    def iterations_done(self, job_id: str) -> int:
        record = self.records[job_id]
        return record.progress(self.engine.iterations_done(record.row)) if record.row >= 0 else record.saved

    def estimate(self, job: Job, workers: int, spread: Spread) -> Estimate:
        """Speed of a job alone on the network."""
        return self._alone.of(job.profiles[workers], job.model, spread, job.gpu)

    def flows(self, job: Job, gpus: Placement) -> tuple[Flow, ...]:
        profile = job.profile_on(len(gpus), self.cluster.type_of(gpus))
        return self.paths.flows(profile, gpus, self.records[job.id].uid)

    def carried(self) -> npt.NDArray[np.float64]:
        return self.engine.carried()

    def traffic(self, job: Job, gpus: Placement) -> Traffic:
        """What a job sends over each link on these GPUs, alone; jitter and stragglers as a profile would show them. A
        job whose paths are not chosen yet is taken to have ECMP's."""
        record = self.records[job.id]
        routes = record.routes if record.span is not None and record.span.gpus == gpus else None
        key = (job.id, self.cluster.ends(gpus), routes)
        if key not in self._traffic:
            if len(self._traffic) >= _TRAFFIC:
                self._traffic.clear()
            self._traffic[key] = self._measured(job, gpus, routes)
        return self._traffic[key]

    def _measured(self, job: Job, gpus: Placement, routes: Routes | None) -> Traffic:
        profile, uid = job.profile_on(len(gpus), self.cluster.type_of(gpus)), self.records[job.id].uid
        chosen = self.paths.chosen(profile, gpus, uid, routes)
        found = self._alone.traffic(profile, gpus, uid, chosen=chosen)
        noisy, mean, spread = self.spec.slowest(len(gpus))
        if self._played is not None:
            program = self.lowering.program(profile, gpus, job.model, uid, chosen)
            return replace(self._played.of(found, program, mean), spread_s=profile.compute_s * spread)
        if not noisy:
            return found
        slower = self._alone.seconds(profile, gpus, job.model, uid, 1.0 + _PROBE) - found.iteration_s
        return replace(
            found,
            iteration_s=found.iteration_s + slower / _PROBE * (mean - 1.0),
            spread_s=slower / _PROBE * spread,
        )

    def apply(self, decisions: Sequence[Decision]) -> list[Event]:
        events: list[Event] = []
        for decision in decisions:
            record = self.records[decision.job]
            if isinstance(decision, Start):
                events += self._start(record, decision)
            elif isinstance(decision, Stop):
                events.append(self._stop(record, decision.reason))
            elif isinstance(decision, SetGate):
                record.gate = decision.gate
                if record.row >= 0:
                    self.engine.set_gate(record.row, decision.gate)
            elif isinstance(decision, SetRoutes):
                record.routes = decision.routes
                if record.row >= 0:
                    self.engine.reroute(record.row, self._program(record))
        return events

    def next_events(self, until_s: float | None) -> list[Event]:
        engine = self.engine
        limit = math.inf if until_s is None else until_s
        while True:
            arrival = self._arrivals[self._next].submit_s if self._next < len(self._arrivals) else math.inf
            own = self._later[0][0] if self._later else math.inf
            target = min(limit, arrival, own, self._losses.known_s)
            if (target == math.inf and not self._by_row) or self.n_finished == len(self.records):
                return []
            target = min(target, self._losses.next_s)  # last, because failures never end
            others = self.foreign.next_s if self.foreign is not None else math.inf
            if others <= engine.now and self.foreign is not None:
                self.foreign.change(engine)
                continue
            sample = max(self._next_sample, engine.now) if self._by_row else math.inf
            if engine.ruled is not None:
                engine.ruled.rule.waiting = self._next - len(self._by_row) - self.n_finished
            finished = engine.run(min(target, sample, others))
            if finished:
                return [self._finish(self._by_row[row]) for row in finished]
            if target == math.inf:
                engine.check_rule()
            if others <= min(target, sample):
                continue
            if sample < target:
                self._take_sample()
                continue
            if target == math.inf:
                return []
            events = [*self._lost(engine.now), *self._due(engine.now), *self._arrived(engine.now)]
            if events or engine.now >= limit:
                return events

    def _arrived(self, now: float) -> list[Event]:
        events: list[Event] = []
        while self._next < len(self._arrivals) and self._arrivals[self._next].submit_s <= now:
            events.append(Submitted(now, self._arrivals[self._next]))
            self._next += 1
        return events

    def _do_later(self, when: float, action: str, job: str, ticket: int) -> None:
        heapq.heappush(self._later, (when, next(self._numbers), action, job, ticket))

    def _due(self, now: float) -> list[Event]:
        events: list[Event] = []
        while self._later and self._later[0][0] <= now:
            _, _, action, job_id, ticket = heapq.heappop(self._later)
            record = self.records[job_id]
            if ticket != record.ticket:
                continue
            if action == "come up":
                events.append(self._come_up(record))
            else:
                self._attach(record)
        return events

    def _lost(self, now: float) -> list[Event]:
        events: list[Event] = []
        for server, lost in self._losses.due(now):
            events += self._lose(server, now) if lost else [NodeUp(now, server)]
        return events

    def _lose(self, server: int, now: float) -> list[Event]:
        """A server is lost with all that runs there: what jobs have not saved is lost, too."""
        gone = set(self.cluster.servers[server].gpus)
        why = because("weft.lost-server", server=self.cluster.servers[server].name)
        coming = {job for _, _, action, job, ticket in self._later
                  if action == "come up" and self.records[job].ticket == ticket}  # fmt: skip
        events: list[Event] = [NodeDown(now, server, why)]
        for record in self.records.values():
            if record.span is None or gone.isdisjoint(record.span.gpus):
                continue
            if record.job.id in coming:
                record.ticket += 1
                record.span = None
                events.append(Failed(now, record.job.id, why))
            else:
                record.stops -= 1  # no decision caused this stop
                events.append(self._stop(record, why))
        return events

    def _start(self, record: JobRecord, decision: Start) -> list[Event]:
        record.ticket += 1
        record.starts += 1
        record.gate, record.turn, record.gpu = decision.gate, decision.turn, self.cluster.type_of(decision.gpus)
        record.routes = decision.routes
        record.span = Span(record.job.id, self.now(), decision.gpus)
        if self.spec.start_latency_s > 0:
            when = self.now() + self.spec.start_latency_s
            self._do_later(when, "come up", record.job.id, record.ticket)
            return []
        return [self._come_up(record)]

    def _come_up(self, record: JobRecord) -> Event:
        now = self.now()
        if self.spec.failure_rate > 0 and self._fails(record):
            record.ticket += 1
            record.span = None
            return Failed(now, record.job.id, because("weft.failed-start"))
        restart = self.spec.restart_s if record.start_s is not None else 0.0
        if record.start_s is None:
            record.start_s = now
        if restart > 0:
            self._do_later(now + restart, "attach", record.job.id, record.ticket)
        else:
            self._attach(record)
        return Started(now, record.job.id)

    def _fails(self, record: JobRecord) -> bool:
        draw = np.random.Generator(np.random.Philox(key=[self.spec.seed, record.uid], counter=record.starts))
        return bool(draw.random() < self.spec.failure_rate)

    def _program(self, record: JobRecord) -> Program:
        """One iteration of a job where it runs, on its paths."""
        job, span, profile = record.job, record.span, record.profile
        if span is None:
            raise EngineError(f"job {job.id} was started on no GPU")
        chosen = self.paths.chosen(profile, span.gpus, record.uid, record.routes)
        return self.lowering.program(profile, span.gpus, job.model, record.uid, chosen)

    def _attach(self, record: JobRecord) -> None:
        program = self._program(record)
        left = math.ceil((record.job.iterations - record.saved) / record.profile.worth - 1e-9)
        record.row = self.engine.attach(
            record.uid, program, left, base=record.saved, gate=record.gate, turn=record.turn
        )
        self._by_row[record.row] = record

    def _stop(self, record: JobRecord, reason: Why) -> Event:
        record.ticket += 1
        record.stops += 1
        if record.row >= 0:
            usage = self._detach(record)
            every = max(record.job.checkpoint_every, self.spec.checkpoint_every)
            done = record.progress(usage.iterations)
            kept = max(record.saved, done - done % every)
            record.lost_gpu_s += usage.gpu_s * (1.0 - record.kept_part(usage, kept))
            record.iterations += usage.iterations
            record.saved = kept
        self._close(record, speak(reason) or "stopped")
        return Stopped(self.now(), record.job.id, record.saved, reason)

    def _finish(self, record: JobRecord) -> Event:
        usage = self._detach(record)
        record.iterations += usage.iterations
        record.saved = record.job.iterations
        record.finish_s = usage.finish_s
        self.n_finished += 1
        self._close(record, "finished")
        return Finished(usage.finish_s, record.job.id)

    def _detach(self, record: JobRecord) -> Usage:
        usage = self.engine.detach(record.row)
        del self._by_row[record.row]
        record.row = -1
        record.comm_s += usage.comm_s
        record.gate_s += usage.gate_s
        record.gpu_s += usage.gpu_s
        record.adjusted += usage.adjusted
        return usage

    def _close(self, record: JobRecord, end: str) -> None:
        span = record.span
        if span is not None:
            span.end_s, span.end = self.now(), end
            record.run_s += span.end_s - span.start_s
            record.last_gpus = span.gpus
            self.spans.append(span)
            record.span = None

    def _take_sample(self) -> None:
        """Note what every link has carried; keep at most _SAMPLES moments, evenly spaced."""
        carried = self.engine.carried()
        if self.samples:  # parked jobs are taken to send evenly, so bytes may be booked a little early
            carried = np.maximum(carried, self.samples[-1][1])
        self.samples.append((self.engine.now, carried))
        if len(self.samples) >= _SAMPLES:
            self.samples = self.samples[::2]
            self._sample_every *= 2
        self._next_sample = self.engine.now + self._sample_every

    def close(self) -> None:
        """Book what still runs when the simulation is cut short."""
        self.engine.catch_up_all()
        if self._record:
            self.samples.append((self.engine.now, self.engine.links()["bytes"].copy()))
        if self.foreign is not None:
            self.foreign.end_all(self.engine)
        for record in list(self._by_row.values()):
            record.iterations += self._detach(record).iterations
        for record in self.records.values():
            self._close(record, "running")
