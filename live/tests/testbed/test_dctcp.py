import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import pytest

from live.tests.testbed.needs import need_testbed, within
from testkit.engines import required
from weft.cli.main import run
from weft.errors import InputError
from weft.network.topologies import Machine, leaf_spine
from weft_live.testbed import dctcp
from weft_live.testbed.build import BURST_BYTES, QUEUE_BYTES, Links, Testbed, controls, no_dctcp
from weft_live.testbed.keeper import standing
from weft_live.testbed.packets import Marks
from weft_live.testbed.plan import blueprint

need_testbed()
pytestmark = pytest.mark.testbed
OURS = "dctcp" not in controls()
if OURS and (lacking := dctcp.lacking()):
    if required() and "is missing" in lacking:
        pytest.fail(f"dctcp: {lacking}", pytrace=False)
    pytest.skip(f"dctcp: {lacking}", allow_module_level=True)
if refused := no_dctcp():  # a kernel may forbid programs of this kind
    pytest.skip(refused, allow_module_level=True)

SCENARIO = Path(__file__).parents[3] / "examples" / "ddp" / "two-racks.toml"
# Two racks of two servers; 400 Mbit/s at the edges and 25 MB/s between the racks.
PLAN = blueprint(leaf_spine(2, 2, Machine(nic_gbps=50.0), oversubscription=4.0, spines=1), 125.0)
LINK = ("leaf0", "spine0")
RATE = 25e6
# Both ends say their TCP_CONGESTION. One then notes how many bytes have come, the other its TCP_INFO: the threshold of
# slow start, which is the window after a cut, and the window.
SERVES = """
import socket, time
end = socket.create_server(("0.0.0.0", 5000)).accept()[0]
print(end.getsockopt(6, 13, 16).rstrip(b"\\0").decode(), flush=True)
room, came, log, noted = bytearray(1 << 18), 0, open(%r, "w", buffering=1), 0.0
while n := end.recv_into(room):
    came += n
    if time.monotonic() > noted + 0.02:
        noted = time.monotonic()
        print(noted, came, file=log)
"""
SENDS = """
import socket, struct, sys, time
while True:
    try:
        end = socket.create_connection((sys.argv[1], 5000))
        break
    except ConnectionRefusedError:
        time.sleep(0.02)
print(end.getsockopt(6, 13, 16).rstrip(b"\\0").decode(), flush=True)
data, log = bytes(1 << 16), open(%r, "w", buffering=1)
while True:
    end.send(data)
    print(time.monotonic(), *struct.unpack("II", end.getsockopt(6, 11, 84)[76:]), file=log)
"""


def _registered() -> set[str]:
    """Names that testbeds have registered; others may be up beside this one."""
    names = Path("/proc/sys/net/ipv4/tcp_available_congestion_control").read_text().split()
    return {name for name in names if name.startswith(dctcp.PREFIX)}


@dataclass
class Seen:
    """The link between the racks for some seconds, after a second for flows to find their rates."""

    names: set[str]  # TCP_CONGESTION of all ends
    goodput: list[float]  # of each flow, as a share of the link
    backlog: float  # median of the bytes that waited
    drops: int
    left: float  # of a long window after a cut


def _watched(links: Links, flows: int, folder: Path, seconds: float = 3.0) -> Seen:
    """So many flows, each from a server of the first rack to one of the second. Where others keep the processors busy
    the link is idle at times, whoever sends: of four attempts the one with the best goodput counts."""
    tried: list[Seen] = []
    while len(tried) < 4 and not any(sum(seen.goodput) > 0.93 for seen in tried):
        tried.append(_once(links, flows, folder, seconds))
    return max(tried, key=lambda seen: sum(seen.goodput))


def _once(links: Links, flows: int, folder: Path, seconds: float) -> Seen:
    with Testbed(PLAN, links) as bed:
        logs, children = [folder / f"came {n}" for n in range(flows)], []
        for n, log in enumerate(logs):
            children.append(bed.start(f"s{n + 2}", [sys.executable, "-c", SERVES % str(log)], output=-1))
            to = bed.blueprint.host(n + 2).address
            sends = SENDS % str(folder / f"windows {n}")
            children.append(bed.start(f"s{n}", [sys.executable, "-c", sends, to], output=-1))
        names = {child.stdout.readline().decode().strip() for child in children if child.stdout}
        time.sleep(1.0)
        drops, start, waiting = bed.queued(*LINK)["drops"], time.monotonic(), []
        while time.monotonic() < start + seconds:
            waiting.append(bed.queued(*LINK)["backlog"])
            time.sleep(0.01)
        end = time.monotonic()
        goodput = [_bytes(log, start, end) / (end - start) / RATE for log in logs]
        windows = np.concatenate([_rows(folder / f"windows {n}") for n in range(flows)])
        _, after, window = windows[windows[:, 0] > start].T
        left = float(np.median(after) / np.quantile(window, 0.95))
        seen = Seen(names, goodput, median(waiting), bed.queued(*LINK)["drops"] - drops, left)
        for child in children:
            child.kill()
            child.communicate()
    return seen


def _rows(log: Path) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Numbers, line by line; the last line may not be complete."""
    return np.array([line.split() for line in log.read_text().split("\n")[:-1]], float)


def _bytes(log: Path, start: float, end: float) -> float:
    """That came between two moments."""
    times, came = _rows(log).T
    return float(np.interp(end, times, came) - np.interp(start, times, came))


@pytest.mark.long
def test_one_flow_keeps_the_queue_at_the_marks_where_cubic_fills_the_buffer(tmp_path: Path) -> None:
    """Marks count the bytes that an ideal link would have waiting, and 64 kB pass the real one without: the rest waits.
    Of 1,514 bytes on the wire 1,448 are payload, 0.956."""
    marked = _watched(Links(control="dctcp", marks=Marks(dctcp.MARK_BYTES)), 1, tmp_path)
    (name,) = marked.names
    assert name.startswith(dctcp.PREFIX) if OURS else name == "dctcp"
    assert name not in _registered()
    threshold = dctcp.MARK_BYTES - BURST_BYTES
    assert 0.6 * threshold < marked.backlog < 1.2 * threshold
    assert marked.goodput[0] == pytest.approx(0.956, rel=0.04)
    assert marked.drops == 0
    cubic = _watched(Links(), 1, tmp_path)
    assert cubic.names == {"cubic"}
    assert cubic.backlog > 0.5 * QUEUE_BYTES > 2.0 * marked.backlog


@pytest.mark.long
def test_a_sender_that_keeps_its_rate_loses_nothing_but_what_is_lost(tmp_path: Path) -> None:
    """At 1 % loss the window stays where it is, and CUBIC cuts its own again and again."""
    kept, cut = (_once(Links(control=control, loss=0.01), 1, tmp_path, 2.0) for control in ("fixed", "cubic"))
    (name,) = kept.names
    assert name.startswith("weft_fixed_")
    assert name not in controls()
    assert kept.left == 1.0
    assert cut.left < 1.0
    assert kept.goodput[0] > 1.3 * cut.goodput[0]


@pytest.mark.long
def test_two_flows_share_evenly(tmp_path: Path) -> None:
    seen = _watched(Links(control="dctcp", marks=Marks(dctcp.MARK_BYTES)), 2, tmp_path)
    assert sum(seen.goodput) == pytest.approx(0.956, rel=0.04)
    assert seen.goodput[0] / sum(seen.goodput) == pytest.approx(0.5, abs=0.08)
    assert seen.drops == 0


@pytest.mark.long
def test_without_marks_it_is_reno(tmp_path: Path) -> None:
    """A loss halves the window (RFC 8257, 3.5), so a flow fills the buffer and does not collapse."""
    seen = _watched(Links(control="dctcp"), 1, tmp_path)
    assert seen.drops > 0
    assert 0.4 < seen.left < 0.66  # CUBIC has 0.7
    assert seen.goodput[0] == pytest.approx(0.956, rel=0.06)
    assert seen.backlog > 2.0 * (dctcp.MARK_BYTES - BURST_BYTES)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["dctcp@s0-s2"], "--control dctcp@s0-s2: the other end has to be DCTCP's, too; add --control dctcp@s2-s0"),
        (["dctcp@s0", "reno"], "--control dctcp@s0: the other end has to be DCTCP's, too; add --control dctcp@s1-s0"),
    ],
)
def test_one_end_alone_is_refused(given: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Linux accepts no ECN from a DCTCP sender on other sockets, so it would be Reno without marks."""
    words = [word for control in given for word in ("--control", control)]
    assert run(["testbed", "run", str(SCENARIO), "--job", "vgg16@s0,s2", *words]) == 2
    assert said in capsys.readouterr().err


@pytest.mark.long
def test_two_ends_have_it_where_all_others_have_another(tmp_path: Path) -> None:
    routes = {("s0", "s2"): "dctcp", ("s2", "s0"): "dctcp"}
    seen = _watched(Links(marks=Marks(dctcp.MARK_BYTES), routes=routes), 1, tmp_path)
    assert len(seen.names) == 1
    assert seen.drops == 0


@pytest.mark.skipif(not OURS, reason="the kernel has its own dctcp, so none is registered")
def test_each_of_two_testbeds_has_its_own_and_takes_it_away() -> None:
    before = _registered()
    with Testbed(PLAN, Links(control="dctcp")):
        (one,) = _registered() - before
        with Testbed(PLAN, Links(routes={("s0", "s2"): "dctcp"})):
            assert len(_registered() - before) == 2
        assert _registered() - before == {one}
        assert "dctcp" not in " ".join(controls())
    assert _registered() == before


@pytest.mark.skipif(not OURS, reason="the kernel has its own dctcp, so none is registered")
def test_kill_9_takes_it_away(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Of the process that holds a testbed, and of its warden."""
    before = _registered()
    up = [sys.executable, "-m", "weft", "testbed", "up", str(SCENARIO), "--dir", str(tmp_path), "--control", "dctcp"]
    said = subprocess.run(up, check=True, capture_output=True, text=True)
    assert "dctcp: packets that find 110000 bytes waiting are marked (--marks changes that)" in said.stderr
    bed = standing(tmp_path)
    assert bed is not None
    assert len(_registered() - before) == 1
    for process in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(process.read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
        if parent == bed.pid:  # the warden
            os.kill(int(process.parent.name), signal.SIGKILL)
    os.kill(bed.pid, signal.SIGKILL)
    assert within(60.0, lambda: _registered() == before)
    assert run(["testbed", "down", "--dir", str(tmp_path)]) == 2  # nothing runs there
    assert "no testbed is up there" in capsys.readouterr().err


@pytest.mark.skipif(not OURS, reason="the kernel has its own dctcp, so none is compiled")
def test_without_clang_one_line_says_what_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A compiled program that is kept needs none."""
    monkeypatch.setenv("WEFT_CACHE_DIR", str(tmp_path))
    with Testbed(PLAN, Links(control="dctcp")):
        assert len(list((tmp_path / "weft").glob("dctcp-*.o"))) == 1
    monkeypatch.setenv("PATH", str(tmp_path))
    with Testbed(PLAN, Links(control="dctcp")):
        pass
    monkeypatch.setenv("WEFT_CACHE_DIR", str(tmp_path / "empty"))
    with pytest.raises(InputError, match=r"^testbed: this kernel has no dctcp, and ours .* clang is missing \(.*\)$"):
        Testbed(PLAN, Links(control="dctcp"))
