"""Traffic of a job under a pace that sets rates: a few iterations alone, played slot by slot; the last one counts.

Such a job computes, waits for a slot, and sends in slots; its iterations are longer than those of its profile, and who
plans with the latter (CASSINI's periods) plans for what cannot be kept.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from weft.model.flow_set import FlowRows
from weft.model.traffic import Arcs, Traffic
from weft.pace.base import Pace
from weft.sim.slotted import Iteration, SlottedEngine, SlotView

__all__ = ["PlayedTraffic"]

_PLAYED = 5  # iterations; a pace that looks for its rate has found it then
_KEPT = 4096  # results that are remembered
_Seen = list[tuple[float, dict[int, float]]]  # start of a slot, rate of each link


class PlayedTraffic:
    """What jobs send under one pace; placements whose flows look alike are played once."""

    def __init__(self, pace: Pace, capacity: npt.NDArray[np.float64], packet_loss: float = 0.0) -> None:
        self.pace, self.capacity, self.packet_loss = pace, capacity, packet_loss
        self._known: dict[tuple[FlowRows, float, tuple[float, ...]], Traffic] = {}

    def of(self, profiled: Traffic, work: Iteration) -> Traffic:
        """The traffic of this work; `profiled` says which task is the first to send."""
        if not len(work.flows):
            return profiled
        number: dict[int, int] = {}
        paths = tuple(tuple(number.setdefault(k, len(number)) for k in path) for path in work.flows.paths)
        nobody = (0,) * len(paths)
        rows = replace(work.flows, paths=paths, src=nobody, dst=nobody)
        key = rows, work.compute_s, tuple(float(self.capacity[k]) for k in number)
        if key not in self._known:
            if len(self._known) >= _KEPT:
                self._known.clear()
            self._known[key] = self._play(*key)
        alone = self._known[key]
        links = {link: alone.links[n] for link, n in number.items() if n in alone.links}
        return replace(alone, task=profiled.task, links=links)

    def _play(self, rows: FlowRows, compute_s: float, capacity: tuple[float, ...]) -> Traffic:
        rule = self.pace.rates()
        assert rule is not None
        seen: _Seen = []

        def watch(view: SlotView) -> None:
            load = np.zeros(len(capacity))
            view.engine.kernel.demand(view.live, view.engine.flows.path, view.engine.flows.rate, load)
            seen.append((view.start_s, {n: float(rate) for n, rate in enumerate(load) if rate > 0.0}))

        engine = SlottedEngine(np.array(capacity), rule, packet_loss=self.packet_loss, watch=watch)
        engine.attach(0, Iteration(compute_s, 1.0, rows), _PLAYED)
        engine.run()
        ends = np.cumsum(engine.records()["duration"])
        starts = [next(start for start, _ in seen if start >= end - 1e-9) for end in (0.0, *ends[:-1])]
        last = [(start - starts[-1], load) for start, load in seen if start >= starts[-1]]
        iteration_s = float(starts[-1] - starts[-2])
        return Traffic(iteration_s, 0, iteration_s - float(ends[-1] - starts[-1]), 0.0, _arcs(last, rule.slot_s))


def _arcs(seen: _Seen, slot_s: float) -> Mapping[int, Arcs]:
    """Slots of equal rate are one arc."""
    found: dict[int, list[tuple[float, float, float]]] = {}
    for start, load in seen:
        for link, rate in load.items():
            arcs = found.setdefault(link, [])
            if arcs and arcs[-1][2] == rate and abs(sum(arcs[-1][:2]) - start) < 1e-6 * slot_s:
                arcs[-1] = (arcs[-1][0], arcs[-1][1] + slot_s, rate)
            else:
                arcs.append((start, slot_s, rate))
    return {link: tuple(arcs) for link, arcs in found.items()}
