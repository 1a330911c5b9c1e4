"""Switch tables: hosts that plan over them share a link, and go on when answers are late.

Time is what the tests say it is. Hosts ask switches of the same process, but for one test over gRPC, whose slots are so
long that no answer is late.
"""

import json
import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from live.tests.agent.moments import wait
from live.tests.agent.stand_in import connected, watched
from weft import __version__
from weft.errors import InputError
from weft.network.topologies import Machine, leaf_spine
from weft.stacks.registry import make
from weft_live.agent.conductor import HELD_BYTES_PER_S as HELD
from weft_live.agent.conductor import Conductor
from weft_live.agent.fabric import Fabric, Keepers, addresses
from weft_live.agent.flowing import PAYLOAD, FlowHost, PlannedFlow
from weft_live.agent.host import Agent
from weft_live.agent.processes import may_trace
from weft_live.agent.sockets import UNLIMITED
from weft_live.agent.switch import SwitchService, links_of
from weft_live.agent.wire import Line, LostError, Message

CLUSTER = leaf_spine(2, 2, Machine(nic_gbps=10.0), oversubscription=2.0, spines=1)
SHARED = next(link for link in CLUSTER.topology.links if (link.src, link.dst) == ("leaf0", "spine0"))
WHOLE = SHARED.bytes_per_s * PAYLOAD
SLOT_S = 0.02


class Near(Line):
    """A line to a service in this process; `late` are the addresses whose answers come too late."""

    def __init__(self, service: SwitchService, late: set[str]) -> None:
        self.address, self.service, self.late = service.address, service, late

    def ask(self, name: str, message: Message, timeout_s: float = 1.0) -> Message:
        answer: Message = json.loads(json.dumps(getattr(self.service, name)(json.loads(json.dumps(message)))))
        if self.address in self.late:
            raise LostError("late")
        return answer

    def begin(self, name: str, message: Message, timeout_s: float = 1.0) -> Callable[[], Message]:
        return lambda: self.ask(name, message)

    def tell(self, name: str, message: Message) -> None:
        self.service.slot(json.loads(json.dumps(message)))

    def close(self) -> None:
        pass


class Counted(Fabric):
    """Lines by gRPC; counts what is sent."""

    sent = 0

    def _parts(self, message: Message) -> dict[str, Message]:
        parts = super()._parts(message)
        self.sent += len(parts)
        return parts


class Switches:
    """Services of switches: one for all of them, or each for some."""

    def __init__(self, *only: Sequence[str]) -> None:
        self.services = [SwitchService(links_of(CLUSTER, names), "127.0.0.1:0", "secret") for names in only]
        self.late: set[str] = set()

    @property
    def kept(self) -> dict[str, list[int]]:
        return {there.address: [k for links in there.keeps({})["switches"].values() for k in links] for there in self}

    @property
    def messages(self) -> int:
        return sum(there.messages for there in self)

    def near(self, address: str, secret: str) -> Line:
        return next(Near(there, self.late) for there in self if there.address == address)

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


def _host(name: str, switches: Switches, lines: Fabric | None = None, slot_s: float = SLOT_S) -> FlowHost:
    conductor = Conductor(CLUSTER, make("pace", "flow"))
    conductor.add("a", (0, 2))
    conductor.add("b", (1, 3))
    said = conductor.planned(slot_s, 10, None)
    capacity = {int(link): rate for link, rate in said["capacity"].items()}
    lines = lines or Fabric("secret", switches.near)
    lines.keep(switches.kept)
    host = FlowHost(name, capacity, lines, slot_s)
    host.jobs = {job: tuple(map(PlannedFlow.of, flows)) for job, flows in said["jobs"].items()}
    return host


@pytest.mark.parametrize("wire", [False, True], ids=["near", "wire"])
def test_two_hosts_never_plan_more_than_the_link_has(switches: Switches, wire: bool) -> None:
    """Two jobs over the link between the racks: the second has what the first leaves, until the first is done."""
    slot_s = 200.0 if wire else SLOT_S  # a host waits for an answer for a part of its slot
    lines = [Counted("secret") if wire else Fabric("secret", switches.near) for _ in range(2)]
    first, second = (_host(f"s{n}", switches, line, slot_s) for n, line in enumerate(lines))
    volume = 4 * slot_s * WHOLE  # four slots of the link
    now, sent, loads = 100.1 * slot_s, {"a": 0.0, "b": 0.0}, []
    first.begin("a", volume)
    second.begin("b", volume)
    for _ in range(12):
        rates: dict[str, float] = {}
        for late, host in enumerate((first, second)):
            rates |= host.decide(now + 1e-3 * late * slot_s, sent)
            if wire:  # hosts do not wait until what they post has come
                wait(lambda: switches.messages == sum(line.sent for line in lines if isinstance(line, Counted)))
        loads.append(sum(rates.values()))
        for job, rate in rates.items():
            sent[job] = min(sent[job] + rate * slot_s, volume)
        for host, job in ((first, "a"), (second, "b")):
            if host.sending(job) and sent[job] >= volume * 0.999:
                host.end(job)
        now += slot_s
    assert max(loads[:7]) <= WHOLE * 1.001
    assert sent["a"] >= volume * 0.999
    assert sent["b"] >= volume * 0.999
    assert first.lost == second.lost == 0
    for line in lines:
        line.keep({})


def test_a_job_that_waits_for_its_other_hosts_leaves_the_link_to_others(switches: Switches) -> None:
    """A ring's host that has sent its chunk has nothing to send until another host has. What it had planned for the
    link between the racks is free at once, and it plans again when there is something to send."""
    first, second = _host("s0", switches), _host("s1", switches)
    sent = {"a": 0.0, "b": 0.0}
    first.begin("a", 20 * SLOT_S * WHOLE)
    second.begin("b", 20 * SLOT_S * WHOLE)
    assert first.decide(100.1 * SLOT_S, sent)["a"] == pytest.approx(WHOLE)
    assert second.decide(100.2 * SLOT_S, sent)["b"] == pytest.approx(0.0, abs=1e-6 * WHOLE)
    assert first.decide(101.1 * SLOT_S, sent, resting=["a"])["a"] == math.inf
    assert second.decide(101.2 * SLOT_S, sent)["b"] == pytest.approx(WHOLE)
    assert first.decide(102.1 * SLOT_S, sent)["a"] == pytest.approx(0.0, abs=1e-6 * WHOLE)
    assert first.lost == second.lost == 0


@pytest.mark.parametrize(("slot_s", "kept"), [(0.02, 10), (0.1, 8), (0.6, 3)])
def test_a_plan_counts_for_three_quarters_of_a_second_without_an_answer(
    switches: Switches, slot_s: float, kept: int
) -> None:
    """Or for its ten slots, or for three, if these are longer. After that nothing is known, and the job is let go."""
    host = _host("s0", switches, slot_s=slot_s)
    host.begin("a", 20 * slot_s * WHOLE)
    now, rate = 10.1 * slot_s, host.decide(10.1 * slot_s, {"a": 0.0})["a"]
    assert rate == pytest.approx(WHOLE, rel=0.01)
    switches.late.add(min(switches.kept))  # one that is late is enough
    rates = []
    for n in range(1, 12):
        rates.append(host.decide(now + n * slot_s, {"a": n * rate * slot_s})["a"])
    assert rates[: kept - 1] == pytest.approx([rate] * (kept - 1))
    assert rates[kept - 1 :] == [math.inf] * (12 - kept)
    assert host.lost == 11
    switches.late.clear()
    assert host.decide(now + 12 * slot_s, {"a": 12 * rate * slot_s})["a"] == pytest.approx(rate)


def test_a_host_that_stood_still_goes_on_with_what_is_left_of_its_plan(switches: Switches) -> None:
    """For 0.1 s, at slots of 20 ms; the first answer after that is late, too. The link is its own for five more."""
    host = _host("s0", switches)
    host.begin("a", 9.9 * SLOT_S * WHOLE)
    rate = host.decide(10.1 * SLOT_S, {"a": 0.0})["a"]
    switches.late.update(switches.kept)
    assert host.decide(15.1 * SLOT_S, {"a": rate * SLOT_S})["a"] == pytest.approx(rate, rel=0.01)
    switches.late.clear()
    assert host.decide(16.1 * SLOT_S, {"a": 2 * rate * SLOT_S})["a"] == pytest.approx(rate, rel=0.01)


def test_bytes_that_wait_are_sent_after_a_plan_has_ended(switches: Switches) -> None:
    """What was lost has to be sent again, so that a phase lasts longer than its plan of two slots."""
    host = _host("s0", switches)
    host.begin("a", 1.9 * SLOT_S * WHOLE)
    rate = host.decide(10.01 * SLOT_S, {"a": 0.0})["a"]
    assert rate == pytest.approx(WHOLE, rel=0.02)
    switches.late.update(switches.kept)
    rates = [host.decide((10.01 + n) * SLOT_S, {"a": 0.4 * n * SLOT_S * rate})["a"] for n in (1, 2)]
    assert rates == [pytest.approx(0.91 * WHOLE, rel=0.02), math.inf]


@pytest.mark.parametrize(("sent", "rate"), [(0.5, 0.5), (0.9, 0.1), (1.0, 1.0), (1.2, 1.0)])
def test_a_host_that_has_sent_more_than_its_feeder_told_is_not_held_back(
    switches: Switches, sent: float, rate: float
) -> None:
    """In a ring of two a host may send half of its bytes, one slot of the link here, and then what has come in. The
    other told in the last slot that it has sent nothing and plans nothing. Bytes that wait beyond the half have come,
    whatever it told: after a loss the two may not count the same iteration."""
    here, there = _host("s0", switches), _host("s2", switches)
    for host in (here, there):
        host.begin("a", 2 * SLOT_S * WHOLE)
    there.decide(10.01 * SLOT_S, {"a": 0.0}, resting=["a"])
    here.decide(10.02 * SLOT_S, {"a": 0.0})
    found = here.decide(11.01 * SLOT_S, {"a": sent * SLOT_S * WHOLE})["a"]
    assert found == pytest.approx(rate * WHOLE, rel=0.02)


@pytest.mark.parametrize("before", ["nothing", "rest"])
def test_a_phase_that_begins_without_an_answer_is_held_back_by_nobody(switches: Switches, before: str) -> None:
    """Neither is a job that has waited for its other hosts. These are told nothing of it, since it has no plan: the
    next host of the ring would hold itself back."""
    here, there = _host("s0", switches), _host("s2", switches)
    sent, volume = {"a": 0.0}, SLOT_S * WHOLE
    here.begin("a", volume)
    if before == "rest":
        here.decide(9.1 * SLOT_S, sent)
        here.decide(10.1 * SLOT_S, sent, resting=["a"])
    switches.late.update(switches.kept)
    assert here.decide(12.1 * SLOT_S, sent)["a"] == math.inf
    switches.late.clear()
    there.begin("a", volume)
    assert there.decide(12.2 * SLOT_S, sent)["a"] == pytest.approx(WHOLE, rel=0.01)
    assert here.decide(13.1 * SLOT_S, sent)["a"] == pytest.approx(WHOLE, rel=0.01)


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


class Gone(Line):
    """A line on which nothing is heard, for a reason."""

    def __init__(self, address: str, kind: str) -> None:
        self.address, self.kind = address, kind

    def ask(self, name: str, message: Message, timeout_s: float = 1.0) -> Message:
        raise LostError("gone", self.kind)


class Older(SwitchService):
    """As it was before it said which weft it is."""

    def keeps(self, message: Message) -> Message:
        return {name: told for name, told in super().keeps(message).items() if name != "version"}


def test_a_switch_of_another_version_is_not_used_and_said_to_be_one() -> None:
    links, found, said = links_of(CLUSTER), list[dict[str, list[int]]](), list[str]()
    older, late = Older(links, "127.0.0.1:0", "secret"), set[str]()
    keepers = Keepers([Near(older, late)], links, found.append, said.append)
    for now in (100.0, 106.0):
        keepers.look(now)
    assert found == [{}]
    assert f"the weft switch at {older.address} is weft 0.0, not {__version__}: install the same on both" in said
    older.close()


def test_who_keeps_what_is_found_out_and_what_is_wrong_for_five_seconds_is_said() -> None:
    links, found, said = links_of(CLUSTER), list[dict[str, list[int]]](), list[str]()
    strange, other = SwitchService({"leaf1": [0]}, "127.0.0.1:0", "secret"), Gone("other:1", "secret")
    mine, late = Switches(["leaf0"], ["leaf1", "spine0"]), set[str]()
    near, far = (Near(there, mine.late) for there in mine)
    keepers = Keepers([near, far, Near(strange, late), other], links, found.append, said.append)
    mine.late.add(far.address)
    for now in (100.0, 105.0):
        keepers.look(now)
    assert said == []
    keepers.look(105.1)
    assert found == [{near.address: links["leaf0"]}]
    assert set(said) == {
        f"no weft switch answers at {far.address}",
        "the weft switch at other:1 has another secret; give it the folder of this server with --dir",
        f"the weft switch at {strange.address} keeps leaf1 of another cluster: give it this one's",
        "nobody keeps the tables of leaf1, spine0: flows over them are not paced",
    }
    mine.late.clear()
    keepers.look(106.0)
    assert found[-1] == {near.address: links["leaf0"], far.address: [*links["leaf1"], *links["spine0"]]}
    said.clear()
    mine.late.update((near.address, far.address))
    keepers.look(200.0)  # an answer that is late for once is not worth a word
    assert not [words for words in said if "no weft switch" in words]
    for there in (strange, mine):
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
    agent = Agent("local", tmp_path, near=True, patience_s=600.0, wall=lambda: 7.0)
    conductor = Conductor(CLUSTER, make("pace", "flow"), alias="local")
    conductor.add("a", (0, 2))
    said = conductor.planned(SLOT_S, 10, None)
    with connected() as ends:
        job = agent.jobs["a"] = watched("a", ends)
        limits = []
        for plan, orders in (
            (True, {"a": (HELD, HELD, 1)}), (True, {"a": (HELD, None, 1)}),
            (True, {"a": (HELD, HELD, 2)}), (False, {}),
        ):  # fmt: skip
            agent.hear({"flow": said if plan else {**said, "jobs": {}}, "orders": orders}, 100.0)
            agent.look(-1.0)  # before its first scan, which would find no process of the job
            limits.append({remote.paced() for remote in job.sockets.values()})
        assert limits == [{HELD}, {UNLIMITED}, {HELD}, {UNLIMITED}]
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
