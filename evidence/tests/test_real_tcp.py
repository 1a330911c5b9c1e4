from collections.abc import Sequence
from typing import Any

import pytest

from live.tests.testbed.needs import need_testbed
from weft_evidence.flows.real import OTHERS, THREE
from weft_evidence.real_tcp import APART, main, read_socket

SAID = """State Recv-Q Send-Q Local Address:Port Peer Address:Port
ESTAB 0      572000 10.77.0.1:56440 10.77.0.2:19000
\t cubic wscale:7,7 rto:216 rtt:13.457/1.172 mss:1448 cwnd:30 ssthresh:30 unacked:12 retrans:0/77 notsent:555608
ESTAB 0      0      10.77.0.1:40000 10.77.0.2:19000
\t cubic wscale:7,7 rto:204 rtt:0.2/0.1 mss:1448 cwnd:10 bytes_sent:4
"""


def test_the_first_flow_is_read():
    assert read_socket(SAID) == [30.0, 12.0, 13.457]


def test_a_flow_with_nothing_under_way_and_no_flow_at_all():
    assert read_socket("ESTAB" + SAID.split("ESTAB")[2]) == [10.0, 0.0, 0.2]
    assert read_socket("State Recv-Q\n") == [0.0, 0.0, 0.0]


def meet_two(others: Sequence[tuple[int, int]]) -> list[int]:
    """How many flows of each ring meet one of these at their own NIC and another at their receiver's link."""
    sources, targets = {src for src, _ in others}, {dst for _, dst in others}
    rings = [zip(where, (*where[1:], where[0]), strict=True) for _, where in THREE]
    return [sum(src in sources and dst in targets for src, dst in ring) for ring in rings]


def test_where_flows_meet_two_others():
    assert meet_two(OTHERS) == [1, 1, 1]
    assert meet_two(APART) == [0, 0, 0]


@pytest.mark.parametrize(
    ("words", "says"),
    [([], "required"), (["x"], "choose from"), (["jobs", "x"], "invalid int"), (["jobs", "0"], "1 or")],
)
def test_what_cannot_be_measured(words: list[str], says: str, monkeypatch: Any, capsys: Any):
    monkeypatch.setattr("sys.argv", ["real_tcp", *words])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    assert says in capsys.readouterr().err


@pytest.mark.testbed
@pytest.mark.alone
def test_who_meets_others_on_two_links_gets_least():
    """Max-min sharing would give each of the three flows half a link of 25 MB/s."""
    need_testbed()
    from weft_evidence.real_tcp import meeting
    from weft_live.testbed.build import Links

    (both, sender, receiver), (window, _, rtt_ms) = meeting(((0, 1), (0, 3), (4, 1)), Links(), 6.0)
    assert both < 0.6 * sender
    assert both < 0.6 * receiver
    assert max(both + sender, both + receiver) < 1.1 * 25e6
    assert window > 0.0
    assert rtt_ms > 0.0
