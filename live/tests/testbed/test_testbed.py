import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from live.tests.testbed.needs import need_testbed
from weft.errors import InputError
from weft.model.profile import Phase, Profile
from weft.network.topologies import Machine, leaf_spine
from weft.workload import zoo
from weft_live.testbed.build import Links, Testbed
from weft_live.testbed.jobs import Replay, overlap, play
from weft_live.testbed.packets import Marks
from weft_live.testbed.plan import blueprint

need_testbed()
pytestmark = pytest.mark.testbed

# Two racks of two servers; 400 Mbit/s at the edges and 200 Mbit/s between the racks.
PLAN = blueprint(leaf_spine(2, 2, Machine(nic_gbps=50.0), oversubscription=4.0, spines=1), 125.0)
PROFILE = Profile.from_phases("five megabytes", [Phase(compute_s=0.3), Phase(bytes=5e6 * 125)], 2)

# Congestion control (TCP_CONGESTION) of an accepted and of a connecting socket, and how long connecting takes.
LISTENS = """
import socket
listener = socket.create_server(("0.0.0.0", 5000))
while True:
    print(listener.accept()[0].getsockopt(6, 13, 16).rstrip(b"\\0").decode(), flush=True)
"""
ASKS = """
import socket, sys
print(socket.create_connection((sys.argv[1], 5000)).getsockopt(6, 13, 16).rstrip(b"\\0").decode())
"""
TOOK = """
import socket, sys, time
start = time.monotonic()
socket.socket().connect_ex((sys.argv[1], 5000))
print(time.monotonic() - start)
"""


@pytest.fixture(scope="module")
def testbed() -> Iterator[Testbed]:
    with Testbed(PLAN) as made:
        yield made


def test_two_jobs_slow_each_other_down_and_shifted_ones_do_not(testbed: Testbed, tmp_path: Path) -> None:
    alone = play(testbed, [Replay("a", PROFILE, (0, 2), 3)], tmp_path)["a"].median_s
    assert 0.48 < alone < 0.62  # 300 ms, and 5 MB at 200 Mbit/s
    both = [Replay(name, PROFILE, (k, k + 2), 4) for k, name in enumerate("ab")]
    together = play(testbed, both, tmp_path)
    epoch, period = time.monotonic() + 0.5, 1.05 * alone
    gates = [{"epoch": epoch + k * period / 2, "period": period, "tolerance": 0.06} for k in range(2)]
    shifted = play(
        testbed, [Replay(n, PROFILE, (k, k + 2), 5, gate=gates[k], jitter=0.02) for k, n in enumerate("ab")], tmp_path
    )
    slower = max(t.median_s for t in together.values()) / alone
    apart = max(t.median_s for t in shifted.values()) / alone
    assert slower >= 1.1
    assert apart <= 1.08
    assert overlap(shifted["a"], shifted["b"]) < 0.1 < overlap(together["a"], together["b"])


def _sent(testbed: Testbed, model: str, folder: Path) -> list[float]:
    """By server, how often it sent the model's gradients in an iteration."""
    profile = zoo.profile(model, 4)
    before = [testbed.queued(f"s{n}", f"leaf{n // 2}")["bytes"] for n in range(4)]
    play(testbed, [Replay("a", profile, (0, 1, 2, 3), 3)], folder)
    after = [testbed.queued(f"s{n}", f"leaf{n // 2}")["bytes"] for n in range(4)]
    message = 3 * profile.message_bytes / testbed.blueprint.scale
    return [(b - a) / message for a, b in zip(before, after, strict=True)]


def test_a_model_communicates_as_its_name_says(testbed: Testbed, tmp_path: Path) -> None:
    """With n workers every one of a ring sends 2 (n - 1) / n of the gradients. A parameter server on the first sends
    them to all others, which send them once. Headers, acknowledgements and packets that are lost come on top."""
    assert _sent(testbed, "resnet50", tmp_path) == pytest.approx([1.5] * 4, rel=0.2)
    assert _sent(testbed, "resnet50[parallel=parameter-server]", tmp_path) == pytest.approx([3, 1, 1, 1], rel=0.25)
    assert _sent(testbed, "resnet50[parallel=parameter-server,servers=2]", tmp_path) == pytest.approx(
        [2, 2, 1, 1], rel=0.25
    )


@pytest.mark.long
def test_loss_and_marks_are_what_the_option_says(tmp_path: Path) -> None:
    with Testbed(PLAN, Links(loss=0.05)) as lossy:
        small = Profile.from_phases("small", [Phase(bytes=1.2e6 * 125)], 2)
        play(lossy, [Replay("a", small, (0, 1), 1)], tmp_path)
        sent, came = lossy.queued("s0", "leaf0")["packets"], lossy.queued("leaf0", "s1")["packets"]
        assert came < sent
        assert 1 - came / sent == pytest.approx(0.05, abs=0.03)
    with Testbed(PLAN, Links(control="reno", marks=Marks(20_000))) as marked:
        play(marked, [Replay("a", PROFILE, (0, 2), 1)], tmp_path)
        assert marked.queued("leaf0", "spine0")["drops"] == 0  # senders slow down for marks before the queue is full
        counters = marked.start("s2", ["cat", "/proc/net/netstat"], output=subprocess.PIPE, text=True)
        names, values = (line.split() for line in counters.communicate()[0].splitlines() if line.startswith("IpExt"))
        assert int(values[names.index("InCEPkts")]) > 0


def test_every_route_has_its_own_congestion_control(tmp_path: Path) -> None:
    """What sockets on both ends say, of those that connected and of those that were accepted."""
    links = Links(routes={("s0", "s2"): "bbr", ("s1", ""): "reno"})
    with Testbed(PLAN, links) as bed:

        def control(src: int, dst: int) -> str:
            child = bed.start(f"s{src}", [sys.executable, "-c", ASKS, bed.blueprint.host(dst).address], output=-1)
            return str(child.communicate()[0].decode().strip())

        servers = {n: bed.start(f"s{n}", [sys.executable, "-c", LISTENS], output=-1) for n in (0, 2, 3)}
        time.sleep(0.3)
        assert [control(0, 2), control(0, 3), control(1, 2), control(1, 3)] == ["bbr", "cubic", "reno", "reno"]
        assert [control(2, 0), control(3, 0)] == ["cubic", "cubic"]
        answers = servers[0].stdout
        assert answers is not None
        assert [answers.readline().decode().strip() for _ in range(2)] == ["bbr", "cubic"]
        for server in servers.values():
            server.kill()
            server.communicate()
        small = Profile.from_phases("small", [Phase(compute_s=0.05), Phase(bytes=2.5e6 * 125)], 2)
        assert play(bed, [Replay("a", small, (0, 2), 3)], tmp_path)["a"].median_s == pytest.approx(0.15, abs=0.04)


def test_a_delay_is_that_of_every_link_or_the_kernel_is_said_to_have_none() -> None:
    """Four links of 5 ms there and four back."""
    try:
        bed = Testbed(PLAN, Links(delay_s=0.005))
    except InputError:
        with pytest.raises(InputError, match=r"this kernel cannot delay packets .*; leave --delay-ms out"):
            Testbed(PLAN, Links(delay_s=0.005))
        return
    with bed:
        child = bed.start("s0", [sys.executable, "-c", TOOK, bed.blueprint.host(2).address], output=-1)
        assert float(child.communicate()[0]) == pytest.approx(0.04, abs=0.02)
