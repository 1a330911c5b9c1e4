"""Compiling the engine's kernels before a run needs them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from weft.model.plan import Gate
from weft.policies.pace.rates import RateRule
from weft.sim.engine import Engine, EngineSpec
from weft.sim.engine.program import compute_node, make_program, transfer_node


def compile_all(rule: Callable[[], RateRule | None] | None = None) -> None:
    """Compile every kernel that a run needs, by running a small case of each kind; with a rule for rates, those that
    carry out what it says, too."""
    spec = EngineSpec(np.ones(1), np.ones(1, np.bool_), n_gpus=1)
    engine = Engine(spec)
    program = make_program([compute_node(0, 1.0), transfer_node(1, 1.0, [(0, 1)], (0,))], spec.capacity)
    rows = [engine.attach(i, program, 9) for i in range(2)]
    engine.run(3.0)
    engine.set_gate(rows[0], Gate(0.0))
    engine.catch_up_all()
    engine.detach(rows[0])
    engine.run()
    if rule is not None:
        engine = Engine(replace(spec, rule=rule))
        engine.attach(0, program, 3)
        engine.detach(engine.run()[0])
