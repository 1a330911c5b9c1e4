import math

import numpy as np
import pytest

from testkit.paced import ends, ring, servers
from weft.errors import StackError
from weft.model.flows import FlowRows, FlowSet, flow_set
from weft.policies.pace.ccml import Ccml
from weft.policies.pace.flow import Flow
from weft.policies.pace.mcs import Mcs
from weft.policies.pace.pcc import Pcc
from weft.policies.pace.rates import Carried, Demand, Moment
from weft.policies.pace.tcp import (
    CONTROLS,
    FIRST_WINDOW,
    RTT_S,
    SEGMENT_BYTES,
    VARIANTS,
    Equal,
    Tcp,
    TcpRule,
    loss_limit,
    missed_bytes,
)
from weft.testing import check_pace


def test_two_jobs_on_one_nic_by_hand() -> None:
    """docs/baselines/flow.md: two pushes of 6 bytes from server 0 to 1 at 10 bytes/s, and their broadcasts."""
    jobs = [servers(1, (0,), 6.0), servers(1, (0,), 6.0)]
    assert ends(Equal(), jobs) == pytest.approx([1.2, 1.2])
    assert ends(Tcp("ideal"), jobs) == pytest.approx([1.2, 1.2])
    # neither computes, so their communication cannot be moved apart: they share fairly
    assert ends(Ccml(), jobs) == pytest.approx([1.2, 1.2])
    # A's push, then A's broadcast beside B's push, then B's broadcast
    assert ends(Mcs(), jobs) == pytest.approx([1.2, 1.8], rel=1e-4)


def test_mcs_waits_where_flow_pipelines() -> None:
    """A push and its broadcast alone: start-after takes twice the time (section VII of the paper); a ring does not."""
    alone = [servers(1, (0,), 6.0)]
    assert ends(Flow(), alone) == pytest.approx([0.6])
    assert ends(Mcs(), alone) == pytest.approx([1.2])
    assert ends(Mcs(), [ring((0, 1), 6.0)]) == pytest.approx([0.6])
    assert ends(Flow(), [ring((0, 1), 6.0)]) == pytest.approx([0.6])


def test_loss() -> None:
    """p = 0.002, RTT 0.2 ms: Reno reaches 1460 / 0.0002 x sqrt(1.5 / 0.002) = 199.9 MB/s, CUBIC the same."""
    assert loss_limit("reno", 0.002) == pytest.approx(199.9e6, rel=1e-3)
    assert loss_limit("cubic", 0.002) == loss_limit("dctcp", 0.002) == loss_limit("reno", 0.002)
    assert loss_limit("cubic", 1e-13) > loss_limit("reno", 1e-13)  # beyond its Reno-friendly region
    assert loss_limit("bbr", 0.01) == loss_limit("reno", 0.0) == float("inf")
    assert loss_limit("dctcp-ecn", 0.002) == float("inf")  # no mark, no reaction
    big, fast = [servers(1, (0,), 6e8)], 3.125e8  # 25 Gbit/s
    clean, lossy = (ends(Tcp("ideal"), big, loss=loss, line=fast)[0] for loss in (0.0, 0.002))
    assert clean == pytest.approx(6e8 / 3.125e9)
    assert lossy == pytest.approx(6e8 / 0.998 / loss_limit("cubic", 0.002))
    flow, flow_lossy = (ends(Flow(), big, loss=loss, line=fast)[0] for loss in (0.0, 0.002))
    assert flow_lossy == pytest.approx(flow / 0.998, rel=1e-6)
    bbr = ends(Tcp("ideal-bbr"), big, loss=0.002, line=fast)[0]
    assert bbr == pytest.approx(clean / 0.998 / 0.98)  # a fiftieth of its time it drains its queue


def test_a_shorter_round_trip() -> None:
    """Half of it: Reno's limit under loss is twice as high, and slow start misses less than half."""
    near, usual = Tcp.from_text("reno,rtt=0.1ms"), Tcp("reno")
    assert near.transport(0.002).loss_limit == pytest.approx(2.0 * usual.transport(0.002).loss_limit)
    assert Tcp.from_text("cubic,rtt=0.2ms").name == "tcp:cubic"
    big = [servers(1, (0,), 6e8)]
    fast, slow = (ends(Tcp("cubic", rtt_s=rtt_s), big, line=3.125e9)[0] for rtt_s in (1e-4, 2e-3))
    assert fast < ends(Tcp("cubic"), big, line=3.125e9)[0] < slow


LINE = 3.125e9  # 25 Gbit/s
CAPACITY = np.array([LINE] * 3)  # two NICs that send, and the port of the server that both send to
PIPE = LINE * RTT_S
# As docs/baselines/tcp.md states them, and not as the code does: a port's buffer, and the queue that marks packets.
BUFFER_BYTES, MARK_S = 1e6, 7.6e-5


def two_flows(uids: tuple[int, int] = (0, 1)) -> FlowSet:
    flows = flow_set(2, 2)
    for row, uid in enumerate(uids):
        flows.put(row, row, FlowRows(((row, 2),), (1e12,), (0.0,), ((0, 0),), ((0, 0),)), CAPACITY, uid)
    return flows


def play(rule: TcpRule, flows: FlowSet, slots: int, first: int = 0) -> list[list[float]]:
    """Rates slot by slot, where all that is asked for is carried."""
    seen = []
    for slot in range(first, first + slots):
        live = np.flatnonzero(flows.active)
        caps = rule.decide(Moment(slot), flows, live).caps
        flows.rate[live] = caps[live]
        flows.sent[live] += caps[live] * rule.slot_s
        seen.append(caps.tolist())
        link = np.array([flows.rate[0], flows.rate[1], flows.rate[live].sum()])
        rule.carried(slot, flows, live, Carried(link, np.zeros(3, np.bool_)))
    return seen


def started(variant: str = "cubic", buffer_bytes: float | None = None) -> TcpRule:
    rule = TcpRule(variant) if buffer_bytes is None else TcpRule(variant, buffer_bytes)
    rule.begin(Demand(CAPACITY))
    return rule


def test_slow_start_by_hand() -> None:
    """docs/baselines/tcp.md: from ten segments to 428 (625 kB in flight) takes log2(42.8) = 5.42 round trips, in which
    418 segments are sent and not 2,320: 2.78 MB are missing, 0.9 ms at 25 Gbit/s."""
    pipe = PIPE / SEGMENT_BYTES
    trips = math.log2(pipe / 10)
    missed = missed_bytes(np.array([LINE]))[0]
    assert missed == pytest.approx((trips * pipe - (pipe - 10)) * SEGMENT_BYTES)
    assert missed / LINE == pytest.approx(0.89e-3, rel=0.01)
    assert missed_bytes(np.array([0.5 * FIRST_WINDOW / RTT_S]))[0] == 0.0  # what ten segments do anyway


def test_a_flow_alone_has_its_link_but_for_slow_start_and_its_overshoot() -> None:
    """The first window is twice what a pipe of 0.625 MB and a buffer of 1 MB hold: half of it, 1.625 MB, is lost and
    sent again."""
    rule, flows = started(), two_flows()
    flows.active[0] = True
    first, second = (rates[0] for rates in play(rule, flows, 2))
    lost = PIPE + BUFFER_BYTES
    assert first == pytest.approx(LINE - (missed_bytes(np.array([LINE]))[0] + lost) / rule.slot_s)
    assert second == pytest.approx(LINE)
    assert rule.window[0] < PIPE + BUFFER_BYTES


@pytest.mark.parametrize(
    ("variant", "top", "gained"),
    [("cubic", 1000, 450 / 17), ("cubic", 109, 42), ("cubic", 50, 50), ("reno", 1000, 50), ("reno", 50, 50)],
)
def test_windows_grow_as_fast_as_reno_above_the_last_peak(variant: str, top: int, gained: float) -> None:
    """docs/baselines/tcp.md: a window of 100 segments fits into a pipe of 428, so a round trip takes 0.2 ms and a slot
    has 50 of them. CUBIC gains 3 x 0.3 / 1.7 = 9 / 17 segments in each while it is below its last peak: 450 / 17 =
    26.5. With its last peak at 109 segments it is there after 17 round trips, and gains 1 in each of the other 33: 9 +
    33 = 42. Above its last peak it gains 50, as Reno always does."""
    rule, flows = started(variant), two_flows()
    flows.active[0] = True
    play(rule, flows, 1)
    rule.window[0], rule.top[0] = 100 * SEGMENT_BYTES, top * SEGMENT_BYTES
    play(rule, flows, 1, 1)
    assert rule.window[0] / SEGMENT_BYTES == pytest.approx(100 + gained)


def saw_law(keeps: float, b: float) -> float:
    """docs/baselines/tcp.md: the share of a link that is used with a buffer of b pipes, if all windows fall to `keeps`
    at once. From u = keeps (1 + b) up to one pipe the link carries what the windows are and a round trip takes 1; from
    there on it is full, and a round trip takes as long as the windows are large."""
    u = keeps * (1.0 + b)
    full_s = ((1.0 + b) ** 2 - 1.0) / 2.0
    return 1.0 if u >= 1.0 else ((1.0 - u**2) / 2.0 + full_s) / (1.0 - u + full_s)


@pytest.mark.parametrize("line", [3.125e9, 25e6])  # a tooth takes several slots, and a tenth of one
@pytest.mark.parametrize(("variant", "keeps"), [("cubic", 0.7), ("reno", 0.5)])
def test_the_saw_of_two_flows_is_that_of_its_equation(variant: str, keeps: float, line: float) -> None:
    """No buffer: CUBIC has 0.85 of its link and Reno 0.75; a fifth of a pipe: 0.966 and 0.871."""
    assert (saw_law(0.7, 0.0), saw_law(0.5, 0.0)) == pytest.approx((0.85, 0.75))
    for b in (0.0, 0.1, 0.2, 0.4, 0.9, 1.2):
        rule, flows = TcpRule(variant, b * line * RTT_S), two_flows()
        rule.begin(Demand(np.array([line] * 3)))
        flows.active[:], flows.line[:] = True, line
        play(rule, flows, 50)
        rates = [sum(row) / line for row in play(rule, flows, 350, 50)]
        assert max(rates) <= 1.0 + 1e-9
        assert float(np.mean(rates)) == pytest.approx(saw_law(keeps, b), abs=2e-3), b
        assert rule.window[0] == pytest.approx(rule.window[1])


def test_a_saw_by_hand() -> None:
    """No buffer: CUBIC falls to 0.7 of 625 kB and gains 0.529 segments in 0.2 ms, so it is back after 0.3 x 428 / 0.529
    = 243 round trips, 48.5 ms; Reno falls to half, and is back after 214 round trips."""
    pipe = PIPE / SEGMENT_BYTES
    for variant, trips in (("cubic", 243), ("reno", 214)):
        control = CONTROLS[variant]
        gain = control.gains * SEGMENT_BYTES
        kernel = TcpRule(variant).kernel
        seconds, sent = kernel.climb(control.keeps * PIPE, PIPE, PIPE, gain, RTT_S)
        assert seconds / RTT_S == pytest.approx((1.0 - control.keeps) * pipe / control.gains)
        assert seconds / RTT_S == pytest.approx(trips, rel=0.01)
        assert sent / seconds / LINE == pytest.approx((1.0 + control.keeps) / 2.0)
        assert kernel.climbed(control.keeps * PIPE, PIPE, gain, RTT_S, seconds) == pytest.approx(PIPE)
        above_s, _ = kernel.climb(0.9 * PIPE, 1.3 * PIPE, PIPE, gain, RTT_S)  # through the knee, and back
        assert kernel.climbed(0.9 * PIPE, PIPE, gain, RTT_S, above_s) == pytest.approx(1.3 * PIPE)
        rule, flows = started(variant, 0.0), two_flows()
        flows.active[0] = True
        rates = [row[0] / LINE for row in play(rule, flows, 400)][10:]
        assert min(rates) >= control.keeps - 1e-9
        assert max(rates) > 0.93  # a slot is a quarter of a tooth


def test_a_buffer_of_finite_size_that_is_large_enough() -> None:
    """1.6 pipes of buffer: 0.7 of 2.6 pipes are still more than one, so the link never idles. Nor does it with 1.75 ms
    of buffer at 200 Mbit/s, which are 8.75 pipes; two real CUBIC flows on an idle machine do not either."""
    rule, flows = started(), two_flows()
    flows.active[:] = True
    play(rule, flows, 5)
    assert [sum(row) / LINE for row in play(rule, flows, 100, 5)] == pytest.approx([1.0] * 100)
    slow = np.array([25e6] * 3)
    shallow = TcpRule("cubic", 25e6 * 1.75e-3)
    shallow.begin(Demand(slow))
    flows.line[:] = 25e6
    play(shallow, flows, 5)
    assert [sum(row) / 25e6 for row in play(shallow, flows, 100, 5)] == pytest.approx([1.0] * 100)


def test_rates_follow_windows_and_windows_even_out() -> None:
    """A flow that comes later finds little room, so it starts with less; losses take parts and growth is alike for
    both, so they draw level. DCTCP's windows follow its marks and even out too; BBR's are even at once."""
    for variant, soon, later in (("cubic", 0.45, 0.48), ("dctcp", 0.45, 0.48), ("bbr", 0.5, 0.5)):
        rule, flows = started(variant), two_flows()
        flows.active[0] = True
        play(rule, flows, 20)
        flows.active[1] = True
        shares = [row[1] / LINE for row in play(rule, flows, 300, 20)]
        if variant == "bbr":
            assert shares[1:] == pytest.approx([0.5] * 299)
            continue
        assert shares[1] < soon, variant
        assert later < float(np.mean(shares[-50:])) < 0.52, variant


def test_bbr_keeps_two_pipes() -> None:
    """Two pipes of 625 kB are 1.25 MB in flight: alone it has all of its link, but for a slow start; beside a window
    as large it has half."""
    rule, flows = started("bbr"), two_flows()
    flows.active[0] = True
    assert play(rule, flows, 2)[1][0] == pytest.approx(LINE)
    flows.active[1] = True
    assert play(rule, flows, 2, 2)[1] == pytest.approx([0.5 * LINE] * 2)
    assert rule.window.tolist() == pytest.approx([1.25e6] * 2)


def test_an_idle_window_starts_anew() -> None:
    """Within 200 ms (50 ms, 190 ms) a flow goes on with its window, after more (210 ms, 300 ms) with a slow start up to
    three quarters of it; the next job on the same row knows nothing."""
    rule, flows = started(), two_flows()
    flows.active[0] = True
    play(rule, flows, 30)
    window = rule.window[0]
    for pause, fresh in ((5, False), (19, False), (21, True), (30, True)):
        rule, flows = started(), two_flows()
        flows.active[0] = True
        play(rule, flows, 30)
        flows.active[0], flows.sent[0] = False, 0.0
        rule.over(np.array([0]), flows)
        flows.active[0] = True
        caps = rule.decide(Moment(29 + pause), flows, np.array([0])).caps
        assert (caps[0] < 0.95 * LINE) == fresh
        assert rule.window[0] == pytest.approx(max(0.75 * window, rule.threshold[0]) if fresh else window, rel=0.1)
    flows.put(0, 0, FlowRows(((0, 2),), (1e12,), (0.0,), ((0, 0),), ((0, 0),)), CAPACITY, 9)
    flows.active[0] = True
    rule.decide(Moment(70, 0.5, begins=False), flows, np.array([0]))
    assert rule.threshold[0] == math.inf


def test_a_slow_start_after_a_pause_ends_at_three_quarters() -> None:
    """A flow that was alone for long has a large window, and its last loss lies below three quarters of it: it starts
    anew up to these three quarters, and not up to twice what there is room for."""
    rule, flows = started(), two_flows()
    flows.active[0] = True
    play(rule, flows, 3)
    rule.window[0], rule.threshold[0] = 1.2e6, 1e5
    flows.active[0] = False
    rule.over(np.array([0]), flows)
    flows.active[0] = True
    rule.decide(Moment(40), flows, np.array([0]))
    assert rule.window[0] == pytest.approx(0.75 * 1.2e6)
    assert rule.window[0] < 2.0 * (PIPE + BUFFER_BYTES)


def test_a_senders_own_nic_drops_nothing() -> None:
    """A flow that crosses no link but its sender's NIC has the line, however large its window is."""
    rule, flows = started(buffer_bytes=0.0), flow_set(1, 2)
    flows.put(0, 0, FlowRows(((0,),), (1e12,), (0.0,), ((0, 0),), ((0, 0),)), CAPACITY)
    flows.active[0] = True
    for slot in range(3):
        rule.decide(Moment(slot), flows, np.array([0]))
        rule.window[0] = 10.0 * PIPE
        rule.carried(slot, flows, np.array([0]), Carried(np.zeros(3), np.zeros(3, np.bool_)))
        assert rule.rate[0] == LINE


def test_a_link_is_what_foreign_traffic_leaves_of_it() -> None:
    """The port was full and carried two fifths of its line for us: that is what both share from then on; once it is
    not full any more they share all of it."""
    rule, flows = started(), two_flows()
    flows.active[:] = True
    play(rule, flows, 5)
    for full, ours in ((True, 0.4), (False, 1.0)):
        rule.carried(5, flows, np.arange(2), Carried(np.array([0.2, 0.2, 0.4]) * LINE, np.array([False, False, full])))
        rule.decide(Moment(6), flows, np.arange(2))
        assert rule.rate.sum() == pytest.approx(ours * LINE, rel=1e-3)


def test_dctcp_keeps_its_queue_at_the_marks() -> None:
    """Windows of two DCTCP flows come to a pipe and the queue from which on packets are marked (76 us of it), slot by
    slot, and the link never idles; a loss would have halved them."""
    rule, flows = started("dctcp"), two_flows()
    flows.active[:] = True
    play(rule, flows, 10)
    for slot in range(10, 40):
        (rates,) = play(rule, flows, 1, slot)
        assert sum(rates) == pytest.approx(LINE)
        assert rule.window.sum() == pytest.approx(PIPE + MARK_S * LINE, rel=0.15)


def test_dctcp_marks_by_hand() -> None:
    """docs/baselines/tcp.md: the pipe holds 625,000 bytes, and a queue of 0.076 ms at 25 Gbit/s 237,500 more. Two
    windows of a megabyte are marked and shrink to 862,500 bytes together; two that come to less stay as they are."""
    for windows, left in ((1e6, 862_500.0), (4.3e5, 860_000.0)):
        rule, flows = started("dctcp"), two_flows()
        flows.active[:] = True
        play(rule, flows, 1)
        rule.window[:] = windows
        rule.decide(Moment(1), flows, np.arange(2))
        assert rule.window.sum() == pytest.approx(left)


def test_a_window_that_is_not_used_makes_room() -> None:
    """A flow that sends a tenth of what its window allows keeps twice that; the other has the rest."""
    rule, flows = started(), two_flows()
    flows.active[:] = True
    play(rule, flows, 3)
    flows.rate[0] = 0.05 * LINE
    before = rule.window[0]
    used = flows.rate[0] / rule.rate[0]
    rule.carried(3, flows, np.arange(2), Carried(np.zeros(3), np.zeros(3, np.bool_)))
    assert rule.window[0] == pytest.approx(before * 2.0 * used)
    assert rule.decide(Moment(4), flows, np.arange(2)).caps[1] > 0.75 * LINE


def test_variants() -> None:
    """RFC 9438, 4.3: CUBIC keeps 0.7 and gains 3 (1 - 0.7) / (1 + 0.7) segments in its Reno-friendly region."""
    assert set(CONTROLS) == set(VARIANTS)
    assert CONTROLS["cubic"].gains == pytest.approx(0.5294, rel=1e-4)


@pytest.mark.parametrize(
    "make",
    [Equal, Mcs, Ccml, Pcc, lambda: Pcc("vivace"), lambda: Tcp("ideal"), *(lambda v=v: Tcp(v) for v in VARIANTS)],
)
def test_conforms(make: type[Equal]) -> None:
    check_pace(make)
    assert make().transport().opened
    assert (make().rates() is None) == (make().name in ("fair-flows", "tcp:ideal"))


def test_parameters() -> None:
    for name in ("cubic", "ideal", "ideal-reno", "bbr", "cubic,buffer=200kB", "cubic,rtt=0.1ms"):
        assert Tcp.from_text(name).name == f"tcp:{name}"
    assert Tcp.from_text(None).name == "tcp:cubic"
    assert Tcp.from_text("reno,buffer=1000kB").name == "tcp:reno"  # a megabyte is what it has anyway
    for tcp, buffer_bytes in ((Tcp(), 1e6), (Tcp.from_text("reno"), 1e6), (Tcp.from_text("cubic,buffer=200kB"), 2e5)):
        rule = tcp.rates()
        assert isinstance(rule, TcpRule)
        assert rule.buffer_bytes == buffer_bytes
    for text in ("vegas", "ideal-vegas", "", "ideal-"):
        with pytest.raises(StackError, match="is not known"):
            Tcp.from_text(text)
    for text in ("bbr,goodput=90%", "cubic,buffer=2kB,goodput=90%", "cubic,goodput=90%,buffer=2kB"):
        assert Tcp.from_text(text).goodput == 0.9


BUFFER = "buffer takes a whole number from 0kB to 999999999kB"
GOODPUT = "goodput takes a whole number from 1% to 100%"
NO_SETTING = "is not known; behind the colon write cubic|reno|"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("cubic,buffer=2", f"buffer=2: {BUFFER}"),
        ("cubic,buffer=-1", f"buffer=-1: {BUFFER}"),
        ("cubic,buffer=1MB", f"buffer=1MB: {BUFFER}"),
        ("cubic,buffer=", f"buffer=: {BUFFER}"),
        ("cubic,goodput=0%", f"goodput=0%: {GOODPUT}"),
        ("cubic,buffer=200kB,goodput=101%", f"goodput=101%: {GOODPUT}"),
        ("cubic,size=2kB", f"'size=2kB' {NO_SETTING}"),
        ("cubic,", f"'an empty setting' {NO_SETTING}"),
        ("cubic,goodput=90%,", f"'an empty setting' {NO_SETTING}"),
        ("cubic,buffer=1kB,buffer=2kB", "buffer is there twice"),
        ("bbr,buffer=2kB", "bbr loses nothing to a full buffer here; only cubic and reno take buffer="),
        ("dctcp,buffer=2kB,goodput=90%", "dctcp loses nothing to a full buffer here; only cubic and reno take buffer="),
        ("ideal,buffer=2kB", "tcp:ideal has no buffer and no goodput to set; write tcp:ideal"),
        ("ideal-reno,goodput=10%", "tcp:ideal has no buffer and no goodput to set; write tcp:ideal-reno"),
    ],
)
def test_the_setting_that_is_wrong_is_named(text: str, said: str) -> None:
    with pytest.raises(StackError) as raised:
        Tcp.from_text(text)
    assert str(raised.value).startswith(f"tcp:{text}: {said}")
