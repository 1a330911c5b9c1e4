"""Real TCP between namespaces: rates, loss, and what two jobs cost each other."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.testbed.needs import need_testbed
from weft.errors import InputError
from weft.model.profile import Phase, Profile
from weft.model.topologies import Machine, leaf_spine
from weft.testbed.build import Links, Testbed
from weft.testbed.jobs import Replay, overlap, play
from weft.testbed.packets import Marks
from weft.testbed.plan import blueprint

need_testbed()
pytestmark = pytest.mark.testbed

# Two racks of two servers; 400 Mbit/s at the edges and 200 Mbit/s between the racks.
PLAN = blueprint(leaf_spine(2, 2, Machine(nic_gbps=50.0), oversubscription=4.0, spines=1), 125.0)
PROFILE = Profile.from_phases("five megabytes", [Phase(compute_s=0.3), Phase(bytes=5e6 * 125)], 2)


@pytest.fixture(scope="module")
def testbed() -> Iterator[Testbed]:
    with Testbed(PLAN) as made:
        yield made


def test_two_jobs_slow_each_other_down_and_shifted_ones_do_not(testbed: Testbed, tmp_path: Path) -> None:
    for _ in range(2):  # one retry: others may use this machine
        alone = play(testbed, [Replay("a", PROFILE, (0, 2), 5)], tmp_path)["a"].median_s
        assert 0.48 < alone < 0.62  # 300 ms, and 5 MB at 200 Mbit/s
        both = [Replay(name, PROFILE, (k, k + 2), 6) for k, name in enumerate("ab")]
        together = play(testbed, both, tmp_path)
        epoch, period = time.monotonic() + 0.5, 1.03 * alone
        gates = [{"epoch": epoch + k * period / 2, "period": period, "tolerance": 0.06} for k in range(2)]
        shifted = play(
            testbed,
            [Replay(n, PROFILE, (k, k + 2), 7, gate=gates[k], jitter=0.02) for k, n in enumerate("ab")],
            tmp_path,
        )
        slower = max(t.median_s for t in together.values()) / alone
        apart = max(t.median_s for t in shifted.values()) / alone
        if slower >= 1.1 and apart <= 1.08:
            break
    assert slower >= 1.1
    assert apart <= 1.08
    assert overlap(shifted["a"], shifted["b"]) < 0.1 < overlap(together["a"], together["b"])


def test_a_parameter_server_receives_from_all_at_once(testbed: Testbed, tmp_path: Path) -> None:
    """Three pushes of 2.5 MB meet on the server's NIC of 400 Mbit/s: two of them crossed the 200 Mbit/s spine."""
    small = Profile.from_phases("small", [Phase(compute_s=0.05), Phase(bytes=2.5e6 * 125)], 4)
    timing = play(testbed, [Replay("ps", small, (0, 1, 2, 3), 4, "parameter-server")], tmp_path)["ps"]
    assert timing.median_s > 0.05 + 2 * 2 * 2.5e6 / 25e6 * 0.9  # the spine's two pushes, then two broadcasts


def test_loss_and_marks_are_what_the_option_says(tmp_path: Path) -> None:
    with Testbed(PLAN, Links(loss=0.05)) as lossy:
        small = Profile.from_phases("small", [Phase(bytes=1.2e6 * 125)], 2)
        play(lossy, [Replay("a", small, (0, 1), 1)], tmp_path)
        sent, came = lossy.queued("s0", "leaf0")["packets"], lossy.queued("leaf0", "s1")["packets"]
        assert came < sent
        assert 1 - came / sent == pytest.approx(0.05, abs=0.03)
    with Testbed(PLAN, Links(control="reno", marks=Marks(20_000))) as marked:
        play(marked, [Replay("a", PROFILE, (0, 2), 2)], tmp_path)
        assert marked.queued("leaf0", "spine0")["drops"] == 0  # senders slow down for marks before the queue is full
        counters = marked.start("s2", ["cat", "/proc/net/netstat"], output=subprocess.PIPE, text=True)
        names, values = (line.split() for line in counters.communicate()[0].splitlines() if line.startswith("IpExt"))
        assert int(values[names.index("InCEPkts")]) > 0


def test_what_the_kernel_lacks_is_refused_in_words() -> None:
    with pytest.raises(InputError, match="this kernel has no vegas-xyz; it has"):
        Testbed(PLAN, Links(control="vegas-xyz"))
