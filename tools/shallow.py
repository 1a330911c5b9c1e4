"""Two CUBIC flows through one link with a shallow buffer, on the kernel's own TCP: sudo python -m tools.shallow

Two racks share a link of 200 Mbit/s. Each line changes one thing: the buffer, bundles of packets that the sender's
kernel makes, or the least time after which it gives a packet up for lost. `wire` is the part of the link that was used,
`goodput` the part that was payload. The load average says how busy the machine was.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
import time
from functools import partial
from pathlib import Path

from weft.agent.namespaces import inside
from weft.scenario import Scenario
from weft.scenario.build import build_cluster
from weft.testbed.build import Links, Testbed
from weft.testbed.jobs import foreign
from weft.testbed.plan import blueprint

SCENARIO = Path(__file__).resolve().parent.parent / "examples" / "ddp" / "two-racks.toml"
SCALE, RATE = 125.0, 25e6
SHALLOW, DEEP = 43_750, 262_144  # bytes: 1.75 and 10.5 ms


def single_packets() -> None:
    """No bundles."""
    subprocess.run(["ip", "link", "set", "eth0", "gso_max_segs", "1"], check=True)


def early_timeouts() -> None:
    """5 ms instead of 200 ms at least."""
    (route,) = subprocess.run(
        ["ip", "route", "show", "10.77.0.0/16"], check=True, capture_output=True, text=True
    ).stdout.splitlines()
    subprocess.run(["ip", "route", "replace", *route.split(), "rto_min", "5ms"], check=True)


CASES = (
    ("1.75 ms", SHALLOW, None), ("1.75 ms, single packets", SHALLOW, single_packets),
    ("1.75 ms, early timeouts", SHALLOW, early_timeouts), ("3.5 ms", 2 * SHALLOW, None), ("10.5 ms", DEEP, None),
)  # fmt: skip


def measure(queue_bytes: int, change: object, seconds: float = 8.0) -> tuple[float, float]:
    """The parts of the link that carried payload and that carried anything."""
    plan = blueprint(build_cluster(Scenario.load(SCENARIO)), SCALE)
    names = {host.name for host in plan.hosts}
    with Testbed(plan, Links(queue_bytes=queue_bytes)) as bed, tempfile.TemporaryDirectory() as folder:
        if callable(change):
            for name in names:
                inside(bed._files[name], partial(change))
        logs = [Path(folder, str(k)) for k in range(2)]
        for k, log in enumerate(logs):
            foreign(bed, k, k + 2, log=log)
        shared = [pair for pair in bed._interfaces if not names & {*pair}]

        def look() -> tuple[float, int, int]:
            carried = max(bed.queued(*pair)["bytes"] for pair in shared)
            return time.monotonic(), carried, sum(int(log.read_text().split()[-1]) for log in logs)

        time.sleep(2.0)
        began = look()
        time.sleep(seconds)
        passed, carried, handed = (b - a for a, b in zip(began, look(), strict=True))
    return handed / passed / RATE, carried / passed / RATE


def main() -> None:
    """One line for each case."""
    for words, queue_bytes, change in CASES:
        goodput, wire = measure(queue_bytes, change)
        print(f"{words:26s} goodput {goodput:.2f}  wire {wire:.2f}  load average {os.getloadavg()[0]:.1f}", flush=True)


if __name__ == "__main__":
    main()
