"""Compiles the kernels that few tests need, so that no two worker processes do so side by side: python -m tests.warm"""

from __future__ import annotations

from tests.sim.paced import CAPACITY, program, ring, rule_of, run_all, spec_of
from weft.model.flows import Traffic
from weft.pace.flow import Flow, FlowSpec
from weft.pace.mcs import Mcs
from weft.sim.engine import Engine
from weft.sim.played import PlayedTraffic
from weft.stacks import resolve


def main() -> None:
    """CASSINI's kernel, and those of paces that set rates, with weights and levels and with GPUs that are shared."""
    for pace in (Flow(), Flow(FlowSpec(fill=True)), Mcs()):
        PlayedTraffic(pace, CAPACITY).of(Traffic(0.25, 3, 0.1), program(0.1, ring((0, 1), 1.5)))
    engine = Engine(spec_of(rule_of(Flow()), n_gpus=1))
    engine.detach(engine.attach(0, program(0.1, ring((0, 1), 1.5), gpu=0), 1))
    engine.attach(0, program(0.1, ring((0, 1), 1.5), gpu=0), 1)
    run_all(engine, 1)
    resolve("fifo+cassini").interleave.prepare()


if __name__ == "__main__":
    main()
