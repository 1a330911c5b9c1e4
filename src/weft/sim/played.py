"""Traffic of a job under a pace that opens collectives: a few iterations are played in the engine, and the last counts.

CASSINI plans with the periods of jobs, and needs those that they really have under their pace."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from weft.model.flows import Arcs, Traffic
from weft.policies.pace.base import Pace
from weft.sim.compiled.state import TRANSFER
from weft.sim.engine import Engine, EngineSpec
from weft.sim.engine.program import NodeSpec, Program, make_program

_PLAYED = 5  # iterations, after which a pace that looks for its rate has found it
_KEPT = 4096  # results that are remembered
_Key = tuple[tuple[NodeSpec, ...], tuple[float, ...]]


class PlayedTraffic:
    """What jobs send under one pace; placements whose flows look alike are played once."""

    def __init__(self, pace: Pace, capacity: npt.NDArray[np.float64], packet_loss: float = 0.0) -> None:
        self.pace, self.capacity, self.packet_loss = pace, capacity, packet_loss
        self._known: dict[_Key, Traffic] = {}

    def of(self, profiled: Traffic, program: Program, slower: float = 1.0) -> Traffic:
        """The traffic of this program, its computing stretched by a factor; `profiled` says which task sends first."""
        number: dict[int, int] = {}
        specs = []
        for spec in program.specs:
            links = tuple((number.setdefault(k, len(number)), n) for k, n in spec.links)
            seconds = spec.amount if spec.kind == TRANSFER else spec.amount * slower
            specs.append(replace(spec, links=links, amount=seconds, gpu=-1))
        if not number:
            return profiled
        key = tuple(specs), tuple(float(self.capacity[k]) for k in number)
        if key not in self._known:
            if len(self._known) >= _KEPT:
                self._known.clear()
            self._known[key] = self._play(*key)
        alone = self._known[key]
        links_of = {link: alone.links[n] for link, n in number.items() if n in alone.links}
        return replace(alone, task=profiled.task, links=links_of)

    def _play(self, specs: tuple[NodeSpec, ...], capacity: tuple[float, ...]) -> Traffic:
        links = np.array(capacity)
        engine = Engine(
            EngineSpec(
                links, np.zeros(len(links), np.bool_), skip=False, rule=self.pace.rates,
                packet_loss=self.packet_loss,
                segments=_PLAYED * len(specs),
            )
        )  # fmt: skip
        engine.attach(0, make_program(specs, links), _PLAYED)
        seen: list[tuple[float, npt.NDArray[np.float64]]] = []
        while not engine.step():
            seen.append((engine.now, engine.link_rates()))
        sending = np.isin(engine.segments()["task"], [spec.task for spec in specs if spec.links])
        began = np.where(sending, engine.segments()["start"], np.inf).reshape(_PLAYED, len(specs)).min(axis=1)
        last, end = float(began[-1]), engine.now
        iteration_s = last - float(began[-2])
        arcs = _arcs([(when - last, load) for when, load in seen if when >= last], end - last)
        return Traffic(iteration_s, 0, iteration_s - (end - last), 0.0, arcs)


def _arcs(seen: list[tuple[float, npt.NDArray[np.float64]]], end_s: float) -> Mapping[int, Arcs]:
    """Stretches of equal rate, by link."""
    found: dict[int, list[tuple[float, float, float]]] = {}
    ends = [when for when, _ in seen[1:]] + [end_s]
    for (start, load), end in zip(seen, ends, strict=True):
        for link in np.flatnonzero(load).tolist() if end > start else ():
            arcs, rate = found.setdefault(link, []), float(load[link])
            if arcs and arcs[-1][2] == rate and abs(sum(arcs[-1][:2]) - start) <= 1e-9 * end_s:
                arcs[-1] = (arcs[-1][0], end - arcs[-1][0], rate)
            else:
                arcs.append((start, end - start, rate))
    return {link: tuple(arcs) for link, arcs in found.items()}
