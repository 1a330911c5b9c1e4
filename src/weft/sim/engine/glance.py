"""Looking at a run without touching it: what parked components have done since they were parked is worked out."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

from weft.sim.compiled import state
from weft.sim.compiled.state import Arrays

__all__ = ["carried", "iterations_done"]


def iterations_done(arrays: Arrays, slot: int) -> int:
    """Full iterations of an attached job up to now."""
    job = arrays.jobs[slot]
    done = int(job["done"])
    if job["state"] != state.PARKED:
        return done
    comp = arrays.comps[int(job["comp"])]
    now = float(arrays.scalars["now"])
    if comp["parked"] != state.PARK_EXACT:
        return done + int((now - float(comp["park_time"])) * float(job["per"]) + float(job["carry"]))
    period, per = float(comp["period"]), int(job["per"])
    if per == 1:
        return done + int((now - float(job["iter_start"])) / period)
    whole = int((now - float(comp["park_time"])) / period)
    into = now - whole * period - float(job["iter_start"])
    return done + whole * per + int(np.searchsorted(_ends(arrays, comp, slot), into, side="right"))


def _ends(arrays: Arrays, comp: Any, slot: int) -> npt.NDArray[np.float64]:
    """When the iterations of a period end, from the start of the one that is under way: as in the period before."""
    records = arrays.records[int(comp["record0"]) : int(comp["record1"])]
    mine = records[(records["slot"] == slot) & (records["uid"] == arrays.jobs[slot]["uid"])]
    return np.cumsum(np.repeat(mine["duration"], mine["count"].astype(np.int64)))


def carried(arrays: Arrays, n_links: int, slots: Iterable[int]) -> npt.NDArray[np.float64]:
    """Bytes that each link has carried up to now; a parked job is taken to send evenly."""
    total = arrays.links["bytes"][:n_links].copy()
    now = float(arrays.scalars["now"])
    for slot in slots:
        job = arrays.jobs[slot]
        parked = job["state"] == state.PARKED
        comp = arrays.comps[int(job["comp"])] if parked else None
        until = float(comp["park_time"]) if comp is not None else now
        nodes = arrays.nodes[int(job["node0"]) : int(job["node1"])]
        for node in nodes[nodes["kind"] == state.TRANSFER]:
            sent = 0.0
            if node["state"] in (state.ACTIVE, state.FROZEN) and node["rate"] >= 0.0:
                sent = float(node["amount"] - (node["remaining"] - node["rate"] * (until - node["mark"])))
            if comp is not None:
                each = float(comp["period"]) if comp["parked"] == state.PARK_EXACT else 1.0
                sent += (now - until) * float(job["per"]) / each * float(node["amount"])
            if sent:
                flows = arrays.flows[node["flow0"] : node["flow1"]]
                total[flows["link"]] += sent * flows["n"]
    return total
