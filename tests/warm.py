"""Compiles the kernels that few tests need, so that no two worker processes do so side by side: python -m tests.warm"""

from __future__ import annotations

from tests.sim.test_slotted import CAPACITY, ring
from weft.model.traffic import Traffic
from weft.pace.flow import Flow
from weft.pace.mcs import Mcs
from weft.sim.program import compute_node, make_program
from weft.sim.slotted import Iteration, SlottedEngine
from weft.sim.slotted_gpus import Gpus
from weft.sim.slotted_traffic import PlayedTraffic
from weft.stacks import resolve


def main() -> None:
    """CASSINI's kernel, and those of paces that set rates, with GPUs that are shared."""
    for pace in (Flow(), Mcs()):
        PlayedTraffic(pace, CAPACITY).of(Traffic(0.25, 3, 0.1), Iteration(0.1, 1.0, ring((0, 1), 1.5)))
    engine = SlottedEngine(CAPACITY, Flow().rates(), gpus=Gpus(1))
    tasks = make_program([compute_node(0, 0.1, gpu=0)], CAPACITY)
    engine.detach(engine.attach(0, Iteration(0.1, 1.0, ring((0, 1), 1.5), tasks), 1))
    engine.attach(0, Iteration(0.1, 1.0, ring((0, 1), 1.5), tasks), 1)
    engine.run()
    resolve("fifo+cassini").interleave.prepare()


if __name__ == "__main__":
    main()
