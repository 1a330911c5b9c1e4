"""What the fluid model of TCP leaves out, measured on the kernel's own TCP (root; a testbed of network namespaces).

`python -m weft_evidence.real_tcp buffers` sends two CUBIC flows through one link of 200 Mbit/s. Each line changes one
thing: the buffer, bundles of packets that the sender's kernel makes, the least time after which it gives a packet up
for lost, or how many other processes keep the machine busy. `wire` is the part of the link that was used, `goodput` the
part that was payload (2 minutes).

`python -m weft_evidence.real_tcp twice` looks at one long flow that meets another one at its own NIC, at its receiver's
link, or at both. It prints what each flow gets, and of the first flow the window, the packets under way and the round
trip (2 minutes).

`python -m weft_evidence.real_tcp jobs` runs the three jobs of Figure 8 beside three foreign flows: as `weft reproduce
flows --real` has them, where one flow of each job meets two foreign ones, and so that none does. Simulated times stand
first. A number after it is how many repetitions to run (4 minutes each).

`taken` is the part of the processor that other machines took meanwhile: with more than a few percent, measure again.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from weft.errors import InputError
from weft.scenario import Scenario
from weft.scenario.build import build_cluster
from weft.sim.spec import Foreign
from weft_evidence.flows.lab import mean_iterations, play
from weft_evidence.flows.real import OTHERS, THREE, RealFlows
from weft_live.agent.namespaces import inside
from weft_live.testbed.build import Links, Testbed, refuse
from weft_live.testbed.jobs import FOREIGN_PORT, foreign
from weft_live.testbed.plan import blueprint
from weft_live.testbed.stillness import processor_time, stolen_share

SCENARIO = Path(__file__).resolve().parent.parent / "examples" / "ddp" / "two-racks.toml"
SCALE, RATE = 125.0, 25e6
SHALLOW, DEEP = 43_750, 262_144  # bytes: 1.75 and 10.5 ms
APART = ((0, 5), (3, 2), (5, 3))  # foreign flows such that no flow of THREE leaves one's sender for another's receiver
KEYS = ("cwnd", "unacked", "rtt")  # as ss calls them
Pairs = Sequence[tuple[int, int]]


def as_it_is() -> None:
    """Nothing is changed."""


def single_packets() -> None:
    """No bundles."""
    subprocess.run(["ip", "link", "set", "eth0", "gso_max_segs", "1"], check=True)


def early_timeouts() -> None:
    """5 ms instead of 200 ms at least."""
    (route,) = subprocess.run(
        ["ip", "route", "show", "10.77.0.0/16"], check=True, capture_output=True, text=True
    ).stdout.splitlines()
    subprocess.run(["ip", "route", "replace", *route.split(), "rto_min", "5ms"], check=True)


# Words, bytes of the buffer, what is changed in hosts, and how many processes compute beside it.
BUFFERS: tuple[tuple[str, int, Callable[[], None], int], ...] = (
    ("1.75 ms", SHALLOW, as_it_is, 0), ("1.75 ms, single packets", SHALLOW, single_packets, 0),
    ("1.75 ms, early timeouts", SHALLOW, early_timeouts, 0), ("3.5 ms", 2 * SHALLOW, as_it_is, 0),
    ("10.5 ms", DEEP, as_it_is, 0), ("1.75 ms, 4 processes", SHALLOW, as_it_is, 4),
    ("1.75 ms, 8 processes", SHALLOW, as_it_is, 8), ("10.5 ms, 8 processes", DEEP, as_it_is, 8),
)  # fmt: skip
# Words, flows as (sender, receiver), and the links.
MEETINGS: tuple[tuple[str, Pairs, Links], ...] = (
    ("another at the sender", ((0, 1), (0, 3)), Links()), ("another at the receiver", ((0, 1), (4, 1)), Links()),
    ("one at each", ((0, 1), (0, 3), (4, 1)), Links()),
    ("one at each, 3.5 ms", ((0, 1), (0, 3), (4, 1)), Links(queue_bytes=2 * SHALLOW)),
    ("one at each, Reno", ((0, 1), (0, 3), (4, 1)), Links(control="reno")),
    ("one at each, BBR", ((0, 1), (0, 3), (4, 1)), Links(control="bbr")),
)  # fmt: skip


@contextmanager
def taken() -> Iterator[Callable[[], str]]:
    """Says how much of the processor other machines have taken since its beginning."""
    before = processor_time()
    yield lambda: f"taken {stolen_share(before, processor_time()):.0%}"


def _ended(stack: ExitStack, children: Sequence[subprocess.Popen[Any]]) -> None:
    """They are killed, and waited for, when the stack is left."""
    for child in children:
        stack.callback(child.wait)
        stack.callback(child.kill)


def through(queue_bytes: int, change: Callable[[], None], busy: int, seconds: float = 8.0) -> tuple[float, float]:
    """The parts of the shared link that carried payload and that carried anything."""
    plan = blueprint(build_cluster(Scenario.load(SCENARIO)), SCALE)
    names = {host.name for host in plan.hosts}
    with ExitStack() as stack:
        bed = stack.enter_context(Testbed(plan, Links(queue_bytes=queue_bytes)))
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        for _ in range(busy):
            _ended(stack, [subprocess.Popen([sys.executable, "-c", "while True: pass"])])
        for name in names:
            inside(bed._files[name], change)
        logs = [Path(folder, str(k)) for k in range(2)]
        for k, log in enumerate(logs):
            _ended(stack, foreign(bed, k, k + 2, log=log))
        shared = [pair for pair in bed._interfaces if not names & {*pair}]

        def look() -> tuple[float, int, int]:
            carried = max(bed.queued(*pair)["bytes"] for pair in shared)
            return time.monotonic(), carried, sum(_handed(logs))

        time.sleep(2.0)
        began = look()
        time.sleep(seconds)
        passed, carried, handed = (b - a for a, b in zip(began, look(), strict=True))
    return handed / passed / RATE, carried / passed / RATE


def _handed(logs: Sequence[Path]) -> list[int]:
    """Bytes that each flow has handed over, when all of them have begun."""
    until = time.monotonic() + 30.0
    while not all(log.exists() and log.read_text().endswith("\n") for log in logs):
        if time.monotonic() > until:
            sys.exit("error: a flow did not begin within 30 s")
        time.sleep(0.1)
    return [int(log.read_text().split()[-1]) for log in logs]


def read_socket(text: str) -> list[float]:
    """Window, packets under way and round trip in milliseconds of the first flow that `ss -ti` names; zeros where it
    names none."""
    found = [
        [float(each[1]) if (each := re.search(rf"\b{key}:([0-9.]+)", line)) else 0.0 for key in KEYS]
        for line in text.splitlines()
        if "cwnd:" in line
    ]
    return found[0] if found else [0.0] * len(KEYS)


def _ask(address: str) -> str:
    """What the kernel says of the first of our flows to an address, in the namespace where it is asked."""
    command = ["ss", "-tin", "dst", f"{address}:{FOREIGN_PORT}"]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def meeting(flows: Pairs, links: Links, seconds: float = 16.0) -> tuple[list[float], list[float]]:
    """Bytes per second of each flow after 4 s, and what the first flow's socket says, in the mean over seconds."""
    with RealFlows(6, links=links) as lab, ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        logs = [Path(folder, str(k)) for k in range(len(flows))]
        for k, ((src, dst), log) in enumerate(zip(flows, logs, strict=True)):
            _ended(stack, foreign(lab.bed, src, dst, log=log, number=k))
        time.sleep(4.0)
        began, before, seen = time.monotonic(), _handed(logs), []
        first, last = (lab.bed.blueprint.host(server) for server in flows[0])
        for _ in range(int(seconds)):
            time.sleep(1.0)
            seen.append(read_socket(inside(lab.bed._files[first.name], partial(_ask, last.address))))
        after, passed = _handed(logs), time.monotonic() - began
    return [(b - a) / passed for a, b in zip(before, after, strict=True)], np.mean(seen, axis=0).tolist()


def buffers() -> None:
    """Two flows through one link."""
    for words, queue_bytes, change, busy in BUFFERS:
        with taken() as stolen:
            goodput, wire = through(queue_bytes, change, busy)
            print(f"{words:26s} goodput {goodput:.2f}  wire {wire:.2f}  {stolen()}", flush=True)


def twice() -> None:
    """A flow that meets others on one link, or on two."""
    for words, flows, links in MEETINGS:
        with taken() as stolen:
            rates, (window, under_way, rtt) = meeting(flows, links)
            each = ", ".join(f"{src}-{dst} {1e-6 * rate:.1f}" for (src, dst), rate in zip(flows, rates, strict=True))
            socket = f"0-1: window {window:.0f}, under way {under_way:.0f} packets, round trip {rtt:.1f} ms"
            print(f"{words:26s} MB/s: {each}; {socket}; {stolen()}", flush=True)


def jobs(repetitions: int = 1) -> None:
    """The jobs of Figure 8 beside foreign flows."""
    for words, others in (("one flow of each job meets two", OTHERS), ("no flow meets two", APART)):
        print(f"{words}: ms of an iteration, and MB/s of foreign flows")
        beside = [Foreign(f"s{src}", f"s{dst}") for src, dst in others]
        for pace in ("tcp:cubic", "flow"):
            played = play([m for m, _ in THREE], [where for _, where in THREE], pace, 60, n_servers=6, foreign=beside)
            _say(f"  {pace}, simulated", mean_iterations(played.engine, len(THREE)), played.others / SCALE)
        with RealFlows(6) as lab:
            for _ in range(repetitions):
                for pace in ("tcp:cubic", "flow"):
                    with taken() as stolen:
                        ran = lab.run(THREE, pace, 14, others)
                        _say(f"  {pace}", ran.iteration_s, ran.others, stolen())


def _say(words: str, iteration_s: Sequence[float], others: float, more: str = "") -> None:
    times = "; ".join(f"{1e3 * each:,.0f}" for each in iteration_s)
    print(f"{words:26s} {times}  foreign {1e-6 * others:.0f}  {more}", flush=True)


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser("python -m weft_evidence.real_tcp", description=__doc__.split("\n")[0])
    parser.add_argument("what", choices=("buffers", "twice", "jobs"), help="what to measure; needs root")
    parser.add_argument("repetitions", type=int, nargs="?", default=1, help="of jobs; example: jobs 3")
    given = parser.parse_args()
    if given.repetitions < 1:
        parser.error("repetitions: give 1 or more")
    try:
        refuse()
    except InputError as error:
        sys.exit(f"error: {error}")
    if given.what == "jobs":
        jobs(given.repetitions)
    else:
        (buffers if given.what == "buffers" else twice)()


if __name__ == "__main__":
    main()
