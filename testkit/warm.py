"""Compiles the kernels that few tests need, so that no two worker processes do so side by side: python -m testkit.warm

One half here, one half (`second`) in the process that starts this one, when it has compiled the engine and closed our
standard input: all paces stand on the engine."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from tests.sim.paced import CAPACITY, program, ring, rule_of, run_all, spec_of
from weft.model.flows import Traffic
from weft.policies.pace.base import Pace
from weft.policies.pace.flow import Flow, FlowSpec
from weft.policies.pace.mcs import Mcs
from weft.policies.pace.shortest import Shortest
from weft.policies.pace.tcp import Tcp
from weft.sim.engine import Engine
from weft.sim.played import PlayedTraffic
from weft.stacks import resolve


def main() -> None:
    """CASSINI's kernels, with and without loops, and those of flow, with GPUs that are shared."""
    resolve("fifo+cassini").interleave.prepare()
    sys.stdin.read()
    _play([Flow(), Flow(FlowSpec(fill=True))])
    engine = Engine(spec_of(rule_of(Flow()), n_gpus=1))
    engine.detach(engine.attach(0, program(0.1, ring((0, 1), 1.5), gpu=0), 1))
    engine.attach(0, program(0.1, ring((0, 1), 1.5), gpu=0), 1)
    run_all(engine, 1)


def second() -> None:
    """Those of the other paces that set rates."""
    _play([Mcs(), Shortest(), Tcp()])


def _play(paces: Sequence[Pace]) -> None:
    for pace in paces:
        PlayedTraffic(pace, CAPACITY).of(Traffic(0.25, 3, 0.1), program(0.1, ring((0, 1), 1.5)))


if __name__ == "__main__":
    main()
