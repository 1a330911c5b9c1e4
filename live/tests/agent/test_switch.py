"""Switch tables by gRPC: hosts that plan over them share a link, and go on when messages are lost."""

from __future__ import annotations

import math
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from weft.errors import InputError
from weft.network.topologies import Machine, leaf_spine
from weft.stacks.registry import make
from weft_live.agent import fabric
from weft_live.agent.conductor import HELD_BYTES_PER_S as HELD
from weft_live.agent.conductor import Conductor
from weft_live.agent.fabric import Fabric, Keepers, addresses
from weft_live.agent.flowing import PAYLOAD, FlowHost, PlannedFlow
from weft_live.agent.host import Agent
from weft_live.agent.processes import may_trace
from weft_live.agent.sockets import UNLIMITED
from weft_live.agent.switch import SwitchService, links_of

CLUSTER = leaf_spine(2, 2, Machine(nic_gbps=10.0), oversubscription=2.0, spines=1)
SHARED = next(link for link in CLUSTER.topology.links if (link.src, link.dst) == ("leaf0", "spine0"))
SLOT_S = 0.6  # long, since a host waits for an answer for a part of its slot only, and this machine may be busy


class Switches:
    """Services of switches: one for all of them, or each for some."""

    def __init__(self, *only: Sequence[str]) -> None:
        self.services = [SwitchService(links_of(CLUSTER, names), "127.0.0.1:0", "secret") for names in only]

    @property
    def kept(self) -> dict[str, list[int]]:
        return {there.address: [k for links in there.keeps({})["switches"].values() for k in links] for there in self}

    @property
    def messages(self) -> int:
        return sum(there.messages for there in self)

    def __iter__(self) -> Iterator[SwitchService]:
        return iter(self.services)

    def close(self) -> None:
        for there in self:
            there.close()


@pytest.fixture(params=[[()], [["leaf0"], ["leaf1", "spine0"]]], ids=["one", "two"])
def switches(request: pytest.FixtureRequest) -> Iterator[Switches]:
    made = Switches(*request.param)
    yield made
    made.close()


def _host(name: str, switches: Switches) -> FlowHost:
    conductor = Conductor(CLUSTER, make("pace", "flow"))
    conductor.add("a", (0, 2))
    conductor.add("b", (1, 3))
    said = conductor.planned(SLOT_S, 10, None)
    capacity = {int(link): rate for link, rate in said["capacity"].items()}
    lines = Fabric("secret")
    lines.keep(switches.kept)
    host = FlowHost(name, capacity, lines, SLOT_S)
    host.jobs = {job: tuple(map(PlannedFlow.of, flows)) for job, flows in said["jobs"].items()}
    return host


def _settle(switches: Switches) -> None:
    """Until what was posted has come: hosts do not wait for it."""
    seen = -1
    while seen != switches.messages:
        seen = switches.messages
        time.sleep(0.05)


def test_two_hosts_never_plan_more_than_the_link_has(switches: Switches) -> None:
    """Two jobs over the link between the racks: the second has what the first leaves, until the first is done."""
    first, second = _host("s0", switches), _host("s1", switches)
    whole = SHARED.bytes_per_s * PAYLOAD
    volume = 4 * SLOT_S * whole  # four slots of the link
    now, sent, loads = 100.1 * SLOT_S, {"a": 0.0, "b": 0.0}, []
    first.begin("a", volume)
    second.begin("b", volume)
    for _ in range(12):
        rates = first.decide(now, sent)
        _settle(switches)
        rates |= second.decide(now + 1e-3, sent)
        _settle(switches)
        loads.append(sum(rates.values()))
        for job, rate in rates.items():
            sent[job] = min(sent[job] + rate * SLOT_S, volume)
        for host, job in ((first, "a"), (second, "b")):
            if host.sending(job) and sent[job] >= volume * 0.999:
                host.end(job)
        now += SLOT_S
    assert max(loads[:7]) <= whole * 1.001
    assert sent["a"] >= volume * 0.999
    assert sent["b"] >= volume * 0.999
    assert first.lost == second.lost == 0


def test_a_job_that_waits_for_its_other_hosts_leaves_the_link_to_others(switches: Switches) -> None:
    """A ring's host that has sent its chunk has nothing to send until another host has. What it had planned for the
    link between the racks is free at once, and it plans again when there is something to send."""
    first, second = _host("s0", switches), _host("s1", switches)
    whole, sent = SHARED.bytes_per_s * PAYLOAD, {"a": 0.0, "b": 0.0}
    first.begin("a", 20 * SLOT_S * whole)
    second.begin("b", 20 * SLOT_S * whole)
    assert first.decide(100.1 * SLOT_S, sent)["a"] == pytest.approx(whole)
    _settle(switches)
    assert second.decide(100.2 * SLOT_S, sent)["b"] == pytest.approx(0.0, abs=1e-6 * whole)
    assert first.decide(101.1 * SLOT_S, sent, resting=["a"])["a"] == math.inf
    _settle(switches)
    assert second.decide(101.2 * SLOT_S, sent)["b"] == pytest.approx(whole)
    _settle(switches)
    assert first.decide(102.1 * SLOT_S, sent)["a"] == pytest.approx(0.0, abs=1e-6 * whole)
    assert first.lost == second.lost == 0


def test_a_lost_answer_leaves_the_plan_as_it_was(switches: Switches) -> None:
    host = _host("s0", switches)
    whole = SHARED.bytes_per_s * PAYLOAD
    host.begin("a", 5 * SLOT_S * whole)
    before = host.decide(10.1 * SLOT_S, {"a": 0.0})["a"]
    assert before == pytest.approx(whole, rel=0.01)
    switches.close()
    after = host.decide(11.1 * SLOT_S, {"a": before * SLOT_S})["a"]
    assert host.lost == 1
    assert after == pytest.approx(before, rel=0.01)  # as planned for this slot a slot ago
    host.decide(12.1 * SLOT_S, {"a": before * SLOT_S})
    assert host.decide(13.1 * SLOT_S, {"a": before * SLOT_S})["a"] == float("inf")  # nobody answers: let go


def test_a_flow_over_a_switch_that_nobody_keeps_is_not_paced_and_others_are() -> None:
    switches = Switches(["leaf0"])
    host = _host("s0", switches)
    (flow,) = (flow for flow in host.jobs["a"] if flow.sender == "s0")
    (kept,) = switches.kept.values()
    host.jobs["near"] = (replace(flow, id=1000, path=(flow.path[0], kept[0]), feeders=(), followers=()),)
    for job in ("a", "near"):
        host.begin(job, 1e9)
    rates = host.decide(10.1 * SLOT_S, {"a": 0.0, "near": 0.0})
    assert rates["a"] == math.inf
    assert rates["near"] < math.inf
    assert host.lost == 0
    switches.close()


def _wait(true: Callable[[], bool], patience_s: float = 20.0) -> None:
    until = time.monotonic() + patience_s
    while not true():
        assert time.monotonic() < until
        time.sleep(0.02)


def test_who_keeps_what_is_found_out_and_what_is_wrong_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fabric, "_PATIENT_S", 0.5)
    monkeypatch.setattr(fabric, "_LOOK_S", 0.1)
    links, found, said = links_of(CLUSTER), list[dict[str, list[int]]](), list[str]()
    strange = SwitchService({"leaf1": [0]}, "127.0.0.1:0", "secret")
    other = SwitchService(links, "127.0.0.1:0", "another")
    mine = Switches(["leaf0"])
    with socket.create_server(("127.0.0.1", 0)) as free:
        silent = f"127.0.0.1:{free.getsockname()[1]}"
    (near,) = (there.address for there in mine)
    keepers = Keepers([near, strange.address, other.address, silent], "secret", links, found.append, said.append)
    _wait(lambda: len(set(said)) == 4)
    assert found[-1] == {near: links["leaf0"]}
    assert set(said) == {
        f"no weft switch answers at {silent}",
        f"the weft switch at {other.address} has another secret; give it the folder of this server with --dir",
        f"the weft switch at {strange.address} keeps leaf1 of another cluster: give it this one's",
        "nobody keeps the tables of leaf1, spine0: flows over them are not paced",
    }
    late = SwitchService(links_of(CLUSTER, ["leaf1", "spine0"]), silent, "secret")
    _wait(lambda: found[-1] == {near: links["leaf0"], silent: [*links["leaf1"], *links["spine0"]]})
    keepers.close()
    for there in (strange, other, mine, late):
        there.close()


def test_addresses_of_switches_are_read_from_a_line() -> None:
    assert addresses("") == ()
    assert addresses("a:1, unix:b") == ("a:1", "unix:b")
    for text in ("nonsense", "a:1,b", "a:0", "a:x", ":1"):
        with pytest.raises(InputError, match="write HOST:PORT, or unix:FILE"):
            addresses(text)


def test_many_switches_in_one_process_or_some_of_them() -> None:
    assert set(links_of(CLUSTER)) == {"leaf0", "leaf1", "spine0"}
    assert links_of(CLUSTER, ["spine0"]).keys() == {"spine0"}


@pytest.mark.skipif(not may_trace(), reason="looking into other processes needs root, or ptrace_scope = 0")
def test_where_a_host_plans_its_rates_a_gate_holds_them_back(tmp_path: Path) -> None:
    """The order of a gate, then its end, then a server that knows the job no longer."""
    stream = Path(__file__).with_name("stream.py")
    job = subprocess.Popen([sys.executable, str(stream)], env={**os.environ, "WEFT_JOB": "a"})
    agent = Agent("local", tmp_path, near=True)
    conductor = Conductor(CLUSTER, make("pace", "flow"), alias="local")
    conductor.add("a", (0, 2))
    try:
        until = time.monotonic() + 20.0
        while not ("a" in agent.jobs and len(agent.jobs["a"].sockets) == 2) and time.monotonic() < until:
            agent.scan()
            time.sleep(0.05)
        limits = []
        for plan, orders in (
            (True, {"a": (HELD, HELD, 1)}), (True, {"a": (HELD, None, 1)}),
            (True, {"a": (HELD, HELD, 2)}), (False, {}),
        ):  # fmt: skip
            said = conductor.planned(SLOT_S, 10, None)
            agent.hear({"flow": said if plan else {**said, "jobs": {}}, "orders": orders}, time.monotonic())
            agent.beat(time.monotonic())
            agent.look(time.monotonic())
            limits.append({remote.paced() for remote in agent.jobs["a"].sockets.values()})
        assert limits == [{HELD}, {UNLIMITED}, {HELD}, {UNLIMITED}]
    finally:
        job.kill()
        job.wait()
        agent.close()


def test_hosts_count_slots_by_the_clock_that_they_share(tmp_path: Path) -> None:
    """Monotonic clocks count from the start of each machine, so hosts would mean different slots by one number."""
    agent = Agent("local", tmp_path, near=True)
    try:
        plan = Conductor(CLUSTER, make("pace", "flow"), alias="local").planned(1e6, 10, None)
        agent.hear({"flow": plan}, time.monotonic())
        agent.look(time.monotonic())
        assert agent.flow is not None
        assert not agent.flow.passed(time.time())
        assert agent.flow.passed(time.monotonic())
    finally:
        agent.close()
