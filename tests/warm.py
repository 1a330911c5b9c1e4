"""Compiles the kernels that few tests need, so that no two worker processes do so side by side: python -m tests.warm"""

from __future__ import annotations

from tests.sim.test_slotted import CAPACITY, ring
from weft.model.traffic import Traffic
from weft.pace.flow import Flow
from weft.pace.mcs import Mcs
from weft.sim.slotted import Iteration
from weft.sim.slotted_traffic import PlayedTraffic
from weft.stacks import resolve


def main() -> None:
    """CASSINI's kernel, and those of paces that set rates."""
    for pace in (Flow(), Mcs()):
        PlayedTraffic(pace, CAPACITY).of(Traffic(0.25, 3, 0.1), Iteration(0.1, 1.0, ring((0, 1), 1.5)))
    resolve("fifo+cassini").interleave.prepare()


if __name__ == "__main__":
    main()
