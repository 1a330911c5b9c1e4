"""Jobs whose collectives are opened into single flows, by hand, and engines that run them under any pace.

Four servers hang on two switches, two on each. Links 0 to 3 are the servers' outputs, 4 to 7 their inputs, 8 and 9 the
core in both directions: 10 bytes per second each, and 6 in the core.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, cast

import numpy as np
import numpy.typing as npt
from hypothesis import strategies as st

from weft.model.flows import FlowSet, flow_set
from weft.policies.pace.admission import Fair
from weft.policies.pace.base import Pace
from weft.policies.pace.ccml import Ccml
from weft.policies.pace.crux import Crux
from weft.policies.pace.flow import Flow, FlowRule, FlowSpec
from weft.policies.pace.mcs import Mcs
from weft.policies.pace.mltcp import Mltcp
from weft.policies.pace.pcc import Pcc
from weft.policies.pace.rates import RateRule
from weft.policies.pace.shortest import Shortest
from weft.policies.pace.tcp import Equal, Tcp
from weft.sim.compiled.state import ACTIVE, DONE
from weft.sim.engine import Engine, EngineSpec
from weft.sim.engine.limits import EngineBody
from weft.sim.engine.program import NodeSpec, Program, compute_node, make_program, transfer_node
from weft.sim.engine.ruled import flow_rows

CAPACITY = np.array([10.0, 10.0, 10.0, 10.0, 10.0, 10.0, 10.0, 10.0, 6.0, 6.0])
SLOT_S = 0.06  # of flow and mcs

Flows = tuple[NodeSpec, ...]  # the transfers of one collective; `leads` count from its first
Job = tuple[Flows, float, int]  # what it sends after computing for so long, and how often
Rule = Callable[[], RateRule]
Path = Callable[[int, int], Sequence[int]]

PACES: dict[str, Callable[[], Pace]] = {
    "flow": Flow, "flow late": lambda: Flow(FlowSpec(delay_s=0.07)),
    "flow lossy": lambda: Flow(FlowSpec(delay_s=0.02, message_loss=0.2)),
    "flow host-only": lambda: Flow(FlowSpec(host_only=True)), "flow fill": lambda: Flow(FlowSpec(fill=True)),
    "flow quantised": lambda: Flow(FlowSpec(quantised=True)), "mcs": Mcs, "ccml": Ccml, "pcc": Pcc, "tcp": Tcp,
    "shortest": Shortest, "crux": lambda: Crux(2), "mltcp": Mltcp,
    "shortest:patient": lambda: Shortest.from_text("patient"),
    "equal": Equal, "fair": Fair,
}  # fmt: skip


def path(a: int, b: int) -> tuple[int, ...]:
    """Over which links server a sends to server b."""
    middle = () if a // 2 == b // 2 else (8,) if a < b else (9,)
    return (a, *middle, 4 + b)


def _flow(size: float, links: Sequence[int], leads: tuple[int, ...] = (), chunk: float = 0.0) -> NodeSpec:
    return transfer_node(1, size, [(link, 1) for link in links], leads=leads, chunk=chunk)


def ring(servers: Sequence[int], size: float, route: Path = path) -> Flows:
    """A flow from each server to the next, `size` bytes each: 2 (n - 1) chunks, of which the first may go at once."""
    n = len(servers)
    pairs = [(servers[i], servers[(i + 1) % n]) for i in range(n)]
    return tuple(_flow(size, route(a, b), ((i - 1) % n,), size / (2 * (n - 1))) for i, (a, b) in enumerate(pairs))


def servers(ps: int, workers: Sequence[int], size: float, route: Path = path) -> Flows:
    """A push of `size` bytes from each worker, and a broadcast back to each that never is ahead of any push."""
    pushes = tuple(range(len(workers)))
    back = [_flow(size, route(ps, w), pushes) for w in workers]
    return (*[_flow(size, route(w, ps)) for w in workers], *back)


def program(
    compute_s: float, flows: Flows, capacity: npt.NDArray[np.float64] = CAPACITY, *, start_after: bool = False,
    gpu: int = -1,
) -> Program:  # fmt: skip
    """One iteration: computing, then these flows (task 1). With `start_after` broadcasts wait for their pushes."""
    nodes = [compute_node(0, compute_s, gpu=gpu)]
    for spec in flows:
        leads = tuple(1 + lead for lead in spec.leads)
        if start_after and spec.chunk <= 0.0 and leads:
            nodes.append(replace(spec, after=leads, leads=(), continued=True))
        else:
            nodes.append(replace(spec, after=(0,), leads=leads))
    return make_program(nodes, capacity)


def spec_of(rule: Rule | None, capacity: npt.NDArray[np.float64] = CAPACITY, **more: Any) -> EngineSpec:
    """An engine without skipping whose transfers are under a rule."""
    return EngineSpec(capacity, np.zeros(len(capacity), np.bool_), rule=rule, skip=False, **more)


def rule_of(pace: Pace) -> Rule | None:
    """What makes the rule of a run under this pace, if it has one."""
    return None if pace.rates() is None else cast(Rule, pace.rates)


def ends(
    pace: Pace, jobs: Sequence[Flows], compute_s: float = 0.0, loss: float = 0.0, line: float = 1.0
) -> list[float]:  # fmt: skip
    """When each of several jobs that start at 0 has ended its one iteration; links are `line` times as fast."""
    capacity, transport = CAPACITY * line, pace.transport(loss)
    engine = Engine(spec_of(rule_of(pace), capacity, packet_loss=loss))
    good = transport.goodput * (1.0 - loss)
    for uid, flows in enumerate(jobs):
        most = transport.loss_limit
        sent = tuple(replace(f, amount=f.amount / good, chunk=f.chunk / good, demand=most) for f in flows)
        engine.attach(uid, program(compute_s, sent, capacity, start_after=transport.start_after), 1)
    run_all(engine, len(jobs))
    return [engine.finish_s(row) for row in range(len(jobs))]


def run_all(engine: Any, jobs: int, until: float = 1e4) -> None:
    """Run until so many jobs have finished, or fail."""
    finished = 0
    while finished < jobs:
        new = engine.run(until)
        assert new, f"stuck at {engine.now}"
        finished += len(new)


def steps(engine: Engine, jobs: int, until: float = 600.0) -> Iterator[list[int]]:
    """From change to change until so many jobs have finished; says who finishes at each."""
    finished = 0
    while finished < jobs:
        assert engine.now < until, f"stuck at {engine.now}"
        new = engine.step(until)
        finished += len(new)
        yield new


def sent_by(engine: Engine, row: int) -> npt.NDArray[np.float64]:
    """Bytes that each task of a job has sent in this iteration (computing counts as nothing)."""
    a, job = engine.arrays, engine.arrays.jobs[row]
    nodes = np.arange(int(job["node0"]), int(job["node1"]), dtype=np.int64)
    moving = EngineBody(engine).sent(nodes)
    state, amount = a.nodes["state"][nodes], a.nodes["amount"][nodes]
    sent: npt.NDArray[np.float64] = np.where(state == DONE, amount, np.where(state == ACTIVE, moving, 0.0))
    return sent


def check_physics(engine: Engine, programs: dict[int, Program]) -> None:
    """At this moment: no link carries more than it can, and nobody is ahead of those that feed it."""
    assert (engine.link_rates() <= engine.spec.capacity).all()
    for row, made in programs.items():
        sent = sent_by(engine, row)
        for i, spec in enumerate(made.specs):
            if spec.leads:
                assert sent[i] <= spec.chunk + min(sent[k] for k in spec.leads) + 1e-9 * spec.amount, (row, i)


def carried_bytes(jobs: Sequence[Job], n_links: int = len(CAPACITY)) -> npt.NDArray[np.float64]:
    """What all iterations of these jobs put on each link."""
    total = np.zeros(n_links)
    for flows, _, n in jobs:
        for spec in flows:
            for link, count in spec.links:
                total[link] += n * count * spec.amount
    return total


class Watched(FlowRule):
    """`flow`, looking at its own plans after every decision: no link is planned above what it has in any slot, and the
    plans themselves run no broadcast ahead of its pushes. (In a ring a flow that is cut back does not cut the next
    one in its turn, as in Algorithm 2; there only the network keeps them in order.)"""

    asked = 0

    def decide(self, when, flows, live):  # type: ignore[no-untyped-def]
        """The rule's answer."""
        limits = super().decide(when, flows, live)
        self.asked += len(live)
        assert (self.table <= self.capacity[:, None] * (1 + 1e-9)).all()
        assert (self.table >= -1e-9 * self.capacity[:, None]).all()
        reach = flows.sent + when.part * self.slot_s * self.plans[:, when.slot % self.spec.slots]
        reach = np.minimum(reach, flows.size)  # who ends within the slot may go as fast as it can
        for i in live.tolist():
            feeders = reach[flows.feed0[i] : flows.feed1[i]]
            if len(feeders) and flows.chunk[i] == 0.0:
                assert reach[i] <= flows.chunk[i] + feeders.min() + 1e-9 * flows.size[i]
        return limits

    def carried(self, slot, flows, live, came):  # type: ignore[no-untyped-def]
        """What it is told that links carried: never less than nothing, nor more than they can."""
        assert (came.link >= -1e-9 * self.capacity).all()
        assert (came.link <= (1 + 1e-9) * self.capacity).all()
        super().carried(slot, flows, live, came)


def jobs_on(route: Path, sizes: st.SearchStrategy[float], most: int = 5) -> st.SearchStrategy[list[Job]]:
    """Rings and parameter servers on some of four servers."""
    some = st.permutations(range(4)).flatmap(lambda p: st.integers(2, 4).map(lambda n: tuple(p[:n])))
    return st.lists(
        st.tuples(
            st.one_of(
                st.builds(lambda who, size: ring(who, size, route), some, sizes),
                st.builds(lambda who, size: servers(who[0], who[1:], size, route), some, sizes),
            ),
            st.floats(0.0, 0.5),
            st.integers(1, 4),
        ),
        min_size=1, max_size=most,
    )  # fmt: skip


JOBS = jobs_on(path, st.floats(0.5, 8.0))


def slowest_s(job: Job) -> float:
    """The least time of an iteration: computing, then the flow that takes longest at the rate of its own path."""
    flows, compute_s, _ = job
    return compute_s + max(spec.amount / min(float(CAPACITY[k]) for k, _ in spec.links) for spec in flows)


def partly_sent(jobs: Sequence[Job], data: st.DataObject) -> FlowSet:
    """The flows of these jobs, each of which has sent nothing, some or all of its bytes."""
    rows = [flow_rows(make_program(flows, CAPACITY)) for flows, _, _ in jobs]
    flows = flow_set(sum(map(len, rows)), 3)
    at = 0
    for job, mine in enumerate(rows):
        flows.put(at, job, mine, CAPACITY)
        at += len(mine)
    flows.sent[:] = [data.draw(st.sampled_from([0.0, 0.3, 1.0])) * size for size in flows.size]
    return flows
