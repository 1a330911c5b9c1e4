"""Flow scheduling on real TCP: Figures 1, 7(a) and 8 to 13, scaled down, agents and switches included.

Rates and bytes are divided by one factor, packets and round trips are not: what depends on windows of few packets, or
on the loss of single ones (Figure 10), is not the same on a slower network. All jobs are rings. Hosts see the volume of
a phase after three of them, so the first iterations of a job do not count.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, cast

import numpy as np

from weft.model.cluster import Cluster
from weft.network.topologies import build_cluster
from weft.policies.pace.base import Pace
from weft.sim.spec import Foreign
from weft.stacks.registry import make
from weft.workload import zoo
from weft_evidence import claims
from weft_evidence.flows.lab import GPU, NIC_GBPS, beside_foreign, mean_iterations, play
from weft_evidence.real import Say, judged, row
from weft_live.agent.control import Control, cpu_s
from weft_live.agent.flowing import PAYLOAD
from weft_live.agent.host import Agent
from weft_live.testbed.build import Links, Testbed, no_dctcp
from weft_live.testbed.dctcp import MARK_BYTES
from weft_live.testbed.jobs import Replay, Timing
from weft_live.testbed.jobs import foreign as send_foreign
from weft_live.testbed.jobs import play as play_real
from weft_live.testbed.packets import Marks
from weft_live.testbed.plan import blueprint
from weft_live.testbed.stillness import Undisturbed

PUBLISHED = claims.published("flows")
SCALE = 125.0  # 25 Gbit/s are 200 Mbit/s
_LEARN = 5  # iterations of a job before it counts
_SLOT_S = 0.06
_FIXED = ", senders that keep their rate"
TWO = (("vgg19[batch=64]", (0, 1)), ("resnet50[batch=64]", (0, 1)))
THREE = (("vgg19[batch=64]", (0, 1, 2)), ("vgg16[batch=64]", (2, 3, 4)), ("resnet50[batch=64]", (4, 5, 0)))
OTHERS = ((2, 5), (4, 1), (0, 3))  # foreign flows beside THREE, on the NICs that jobs share
Jobs = Sequence[tuple[str, tuple[int, ...]]]


@dataclass(frozen=True)
class Ran:
    """What a run on the testbed came to."""

    timings: tuple[Timing, ...]
    foreign: tuple[np.ndarray[Any, np.dtype[np.float64]], ...] = ()  # by foreign flow: times, and bytes handed over
    drops_per_s: float = 0.0  # at the NIC of the first server
    costs: Mapping[str, list[float]] = field(default_factory=dict)
    agent_cpu: float = 0.0  # the mean over the agents, as a fraction of a core
    switch_mbps: float = 0.0

    @property
    def iteration_s(self) -> tuple[float, ...]:
        """Mean iteration of each job, those left out in which its volume is learned."""
        return tuple(float(np.mean(timing.iterations_s[_LEARN - 1 :])) for timing in self.timings)

    @property
    def jct_s(self) -> float:
        """Mean time of the jobs for their iterations after those."""
        return float(np.mean([timing.rows[-1, 3] - timing.rows[_LEARN, 0] for timing in self.timings]))

    @property
    def others(self) -> float:
        """Bytes per second that foreign flows handed over while all jobs ran."""
        end = min(timing.rows[-1, 3] for timing in self.timings)
        begin = max(timing.rows[_LEARN, 0] for timing in self.timings)
        moved = [np.interp(end, *log.T) - np.interp(begin, *log.T) for log in self.foreign]
        return float(sum(moved) / (end - begin))


class RealFlows:
    """A testbed of servers under one switch."""

    def __init__(
        self, servers: int, nic_gbps: float = NIC_GBPS, links: Links | None = None, still: Undisturbed | None = None
    ) -> None:
        self.still = still or Undisturbed()
        self.cluster: Cluster = build_cluster(
            "single-switch", servers=servers, gpus_per_server=3, nic_gbps=nic_gbps / PAYLOAD
        )
        self.bed = Testbed(blueprint(self.cluster, SCALE), links)

    def run(self, jobs: Jobs, pace: str, iterations: int, others: Sequence[tuple[int, int]] = ()) -> Ran:
        """Jobs and foreign flows side by side; a pace of TCP's own needs no agents. Once more where the machine stood
        still meanwhile."""
        return self.still.run(lambda: self._run(jobs, pace, iterations, others))

    def _run(self, jobs: Jobs, pace: str, iterations: int, others: Sequence[tuple[int, int]]) -> Ran:
        bed, names = self.bed, [f"{j} {model}" for j, (model, _) in enumerate(jobs)]
        with ExitStack() as beside, tempfile.TemporaryDirectory(dir=bed.folder) as made:
            folder, control = Path(made), None
            logs = [folder / f"foreign.{n}" for n in range(len(others))]
            if not pace.startswith("tcp:"):
                hosts = {host.name: bed.namespace(host.name) for host in bed.blueprint.hosts}
                chosen = cast(Pace, make("pace", pace))
                control = beside.enter_context(
                    Control(self.cluster, chosen, folder / "control", hosts, SCALE, slot_s=_SLOT_S, watch_s=0.02)
                )
                control.wait()
                for j, (name, (_, servers)) in enumerate(zip(names, jobs, strict=True)):
                    control.add(name, [self.cluster.servers[server].gpus[j] for server in servers])
            for n, ((src, dst), log) in enumerate(zip(others, logs, strict=True)):
                for child in send_foreign(bed, src, dst, log=log, number=n):
                    beside.callback(child.wait)
                    beside.callback(child.kill)
            replays = [
                Replay(name, zoo.profile(model, len(servers), gpu=GPU), servers, iterations)
                for name, (model, servers) in zip(names, jobs, strict=True)
            ]
            before, began, used = self._drops(), time.monotonic(), _agents_cpu_s(control)
            found = play_real(bed, replays, folder / "jobs", 60.0 + 20.0 * iterations)
            took = time.monotonic() - began
            timings = tuple(found[name] for name in names)
            ran = Ran(timings, tuple(np.loadtxt(log, ndmin=2) for log in logs), (self._drops() - before) / took)
            if control is None:
                return ran
            assert control.switches is not None
            cpu = (_agents_cpu_s(control) - used) / took / len(control.agents)
            mbps = control.switches.bytes * 8e-6 / took
            return Ran(timings, ran.foreign, ran.drops_per_s, dict(control.service.costs), cpu, mbps)

    def _drops(self) -> int:
        host = self.bed.blueprint.hosts[0].name
        return self.bed.queued(host, self.bed.blueprint.switches[0])["drops"]

    def __enter__(self) -> RealFlows:
        return self

    def __exit__(self, *_: object) -> None:
        self.bed.close()


def _agents_cpu_s(control: Control | None) -> float:
    return sum(cpu_s(agent.pid) for agent in control.agents.values()) if control is not None else 0.0


def _simulated(
    jobs: Jobs, pace: str, iterations: int, *, servers: int, others: bool = False, **more: float
) -> tuple[list[float], float]:
    """Seconds of an iteration of each job, as simulated, and bytes per second of foreign flows while all jobs ran."""
    foreign = [Foreign(f"s{src}", f"s{dst}") for src, dst in OTHERS] if others else ()
    played = play(
        [model for model, _ in jobs], [where for _, where in jobs], pace, iterations, n_servers=servers,
        foreign=foreign, **more,
    )  # fmt: skip
    return list(mean_iterations(played.engine, len(jobs))), played.others


def table(quick: bool, say: Say) -> list[dict[str, Any]]:
    """Published, simulated and real, with intervals over repetitions."""
    repetitions, iterations = (2, 14) if quick else (5, 40)
    rows: list[dict[str, Any]] = []
    still = Undisturbed(say)
    for part in (_on_one_nic, _rates, _throughput, _speeds, _loss, _beside):
        rows += judged(part(repetitions, iterations, still), still)
    return rows


def _told(still: Undisturbed, what: str, n: int, repetitions: int) -> None:
    still.say(f"on the testbed: {what}, repetition {n + 1} of {repetitions}")


def _on_one_nic(repetitions: int, iterations: int, still: Undisturbed) -> list[dict[str, Any]]:
    """Figures 1 and 11(a), and of the same runs the overhead: Figures 12 and 13."""
    ran: dict[str, list[Ran]] = {"tcp:cubic": [], "flow": []}
    with RealFlows(2, still=still) as lab:
        for n in range(repetitions):
            _told(still, "figures 1, 11(a), 12 and 13", n, repetitions)
            for pace, found in ran.items():
                found.append(lab.run(TWO, pace, iterations))
    rows = []
    for pace, found in ran.items():
        figure, simulated = "1" if pace == "tcp:cubic" else "11(a)", _simulated(TWO, pace, 60, servers=2)[0]
        for j, model in enumerate(("VGG19", "ResNet50")):
            seen = [1e3 * each.iteration_s[j] for each in found]
            rows.append(row(f"figure {figure}: {model} on a shared NIC, {pace}", "ms", None, 1e3 * simulated[j], seen))
        drops = [each.drops_per_s for each in found]
        rows.append(row(f"figure {figure}: packets dropped at the NIC, {pace}", "a second", None, None, drops, 0.0))
    waits, decided = ([_p90_ms(each.costs[key]) for each in ran["flow"]] for key in ("waited_s", "decided_s"))
    cpu, mbps = [100 * each.agent_cpu for each in ran["flow"]], [each.switch_mbps for each in ran["flow"]]
    costs = PUBLISHED["section-vi-g"]
    return [
        *rows,
        row("figure 12(a): negotiation with switches, p90 (at most)", "ms", costs["negotiation"], None, waits, 0.0),
        row("figure 12(b): decisions of a host in a slot, p90", "ms", None, None, decided, 0.0),
        row("figure 13(a): traffic of a switch (below)", "Mbit/s", costs["traffic"], None, mbps, 0.0),
        row("figure 13(b): an agent's CPU", "% of a core", costs["agent"], None, cpu, 0.0),
    ]


def _p90_ms(seconds: Sequence[float]) -> float:
    return 1e3 * float(np.quantile(seconds, 0.9)) if len(seconds) else 0.0


def _rates(repetitions: int, iterations: int, still: Undisturbed) -> list[dict[str, Any]]:
    """Figure 7(a): another rate every 50 ms, and what the kernel makes of it."""
    medians, p90s = [], []
    for n in range(repetitions):
        _told(still, "figure 7(a)", n, repetitions)
        with RealFlows(2, still=still) as lab, tempfile.TemporaryDirectory(dir=lab.bed.folder) as folder:
            children = send_foreign(lab.bed, 0, 1, env={"WEFT_JOB": "stream"})
            host = lab.bed.blueprint.hosts[0].name
            agent = Agent(host, Path(folder), netns=lab.bed.namespace(host))
            try:
                errors = still.run(partial(rate_errors, agent, "stream", 0.05, 40))
            finally:
                agent.close()
                for child in children:
                    child.kill()
        medians.append(100 * float(np.median(errors)))
        p90s.append(100 * float(np.quantile(errors, 0.9)))
    return [
        row("figure 7(a): error of a rate, slots of 50 ms, median", "%", None, 0.0, medians, 0.0),
        row("figure 7(a): error of a rate, slots of 50 ms, p90", "%", None, 0.0, p90s, 0.0),
    ]


def rate_errors(agent: Agent, job: str, slot_s: float, slots: int) -> list[float]:
    """By slot, how far what one connection sent was from the rate that it was given, relative."""
    until = time.monotonic() + 10
    while time.monotonic() < until and not (job in agent.jobs and agent.jobs[job].sockets):
        agent.scan()
        time.sleep(0.1)
    errors = []
    for k in range(slots):
        rate = (5e6, 20e6, 10e6, 15e6)[k % 4]
        agent.order(job, rate)
        before, start = agent.moved(job), time.monotonic()
        agent.beat(start)
        time.sleep(slot_s)
        sent, took = agent.moved(job) - before, time.monotonic() - start
        errors.append(abs(sent / took / rate - 1))
    return errors


def _throughput(repetitions: int, iterations: int, still: Undisturbed) -> list[dict[str, Any]]:
    """Figure 8: three jobs that share NICs, with and without flows of others; and what these lose."""
    ran: dict[tuple[str, bool], list[Ran]] = {}
    with RealFlows(6, still=still) as lab:
        for n in range(repetitions):
            _told(still, "figure 8", n, repetitions)
            for pace in ("tcp:cubic", "flow"):
                for others in (False, True):
                    ran.setdefault((pace, others), []).append(
                        lab.run(THREE, pace, iterations, OTHERS if others else ())
                    )
    rows = []
    for others in (True, False):
        pairs = list(zip(ran["flow", others], ran["tcp:cubic", others], strict=True))
        played = [_simulated(THREE, pace, 60, servers=6, others=others) for pace in ("flow", "tcp:cubic")]
        means = [np.mean(iterations_s) for iterations_s, _ in played]
        beside = "with cross traffic" if others else "without"
        saved = [100 * (1 - ours.jct_s / theirs.jct_s) for ours, theirs in pairs]
        rows.append(
            row(
                f"figure 8: flow saves of the mean JCT over tcp:cubic, {beside}{' (at least)' * others}", "%",
                PUBLISHED["figure-8"]["saving"] if others else None,
                100 * float(1 - means[0] / means[1]), saved,
            )
        )  # fmt: skip
        if others:
            loss = [100 * (ours.others / theirs.others - 1) for ours, theirs in pairs]
            rows.append(
                row(
                    "figure 8: what cross traffic gets through beside flow, more than beside tcp:cubic",
                    "%",
                    None,
                    100 * (played[0][1] / played[1][1] - 1),
                    loss,
                )
            )
    return rows


def _speeds(repetitions: int, iterations: int, still: Undisturbed) -> list[dict[str, Any]]:
    """Figure 9: two jobs on one NIC of 10 and of 24 Gbit/s."""
    rows = []
    for nic, speed in ((float(nic), speed) for nic, speed in PUBLISHED["figure-9"].items()):
        faster: list[tuple[float, ...]] = []
        with RealFlows(2, nic, still=still) as lab:
            for n in range(repetitions):
                _told(still, f"figure 9, {nic:g} Gbit/s", n, repetitions)
                ours, theirs = (lab.run(TWO, pace, iterations).iteration_s for pace in ("flow", "tcp:cubic"))
                faster.append(tuple(100 * (b / a - 1) for a, b in zip(ours, theirs, strict=True)))
        played = [_simulated(TWO, pace, 60, servers=2, nic_gbps=nic)[0] for pace in ("flow", "tcp:cubic")]
        for j, model in enumerate(("VGG19", "ResNet50")):
            rows.append(
                row(
                    f"figure 9: {model} with flow faster than with tcp:cubic, {nic:g} Gbit/s", "%",
                    speed if j == 0 else None, 100 * (played[1][j] / played[0][j] - 1), [x[j] for x in faster],
                )
            )  # fmt: skip
    return rows


def _loss(repetitions: int, iterations: int, still: Undisturbed) -> list[dict[str, Any]]:
    """Figure 10: one VGG16 job whose packets are lost at random."""
    told = PUBLISHED["figure-10"]
    paces: list[tuple[str, float, float | None]] = [
        ("tcp:cubic", 0.002, told["tcp"]), ("tcp:reno", 0.002, told["tcp"]), ("tcp:bbr", 0.002, None),
        ("tcp:dctcp", 0.002, None), ("tcp:cubic", 0.01, None), ("flow", 0.01, told["flow"]), ("tcp:fixed", 0.01, None),
        (f"flow{_FIXED}", 0.01, told["flow"]),
    ]  # fmt: skip
    for control, own in (("dctcp", "tcp:dctcp"), ("fixed", "fixed")):
        if refused := no_dctcp(control):
            still.say(f"{refused}; figure 10 is run without it")
            paces = [each for each in paces if own not in each[0]]
    job, rows = (("vgg16[batch=64]", (0, 1)),), []
    for pace, loss, published in paces:
        by = pace.removesuffix(_FIXED)
        control = by.removeprefix("tcp:") if by.startswith("tcp:") else "fixed" if by != pace else "cubic"
        slower = []
        for n in range(repetitions):
            _told(still, f"figure 10, {pace}, {100 * loss:g} % lost", n, repetitions)
            seconds = []
            for share in (loss, 0.0):
                marks = Marks(MARK_BYTES) if control == "dctcp" else None
                links = Links(control=control, loss=share, marks=marks)
                with RealFlows(2, links=links, still=still) as lab:
                    seconds.append(lab.run(job, by, max(_LEARN + 4, iterations // 2)).iteration_s[0])
            slower.append(100 * (1 - seconds[1] / seconds[0]))
        simulated = None
        if by != "tcp:fixed":
            played = [_simulated(job, by, 30, servers=2, loss=share)[0][0] for share in (loss, 0.0)]
            simulated = 100 * (1 - played[1] / played[0])
        what = f"figure 10: VGG16 trains slower, {100 * loss:g} % lost, {pace}"
        rows.append(row(what, "%", published, simulated, slower))
    return rows


def _beside(repetitions: int, iterations: int, still: Undisturbed) -> list[dict[str, Any]]:
    """Figure 11(b): what a foreign flow has of a NIC while VGG19 has bytes to send."""
    rows = []
    with RealFlows(2, still=still) as lab:
        for pace in ("flow", "tcp:cubic"):
            shares = []
            for n in range(repetitions):
                _told(still, f"figure 11(b), {pace}", n, repetitions)
                ran = lab.run(TWO[:1], pace, iterations, ((0, 1),))
                talks = ran.timings[0].rows[_LEARN:, 1:3]
                theirs = (np.interp(talks[:, 1], *ran.foreign[0].T) - np.interp(talks[:, 0], *ran.foreign[0].T)).sum()
                message = zoo.profile(TWO[0][0], 2, gpu=GPU).message_bytes
                shares.append(100 * float(theirs / (theirs + len(talks) * message / SCALE)))
            what = f"figure 11(b): a foreign flow's share of the NIC beside VGG19, {pace}"
            rows.append(row(what, "%", None, 100 * beside_foreign(pace), shares, 0.0))
    return rows
