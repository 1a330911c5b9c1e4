"""Looking at a run without touching it: transfers as rules see them, and the progress of components that are parked."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from weft.model.flows import TransferView
from weft.sim.compiled import state
from weft.sim.compiled.state import Arrays


def questions(
    arrays: Arrays, ports: npt.NDArray[np.bool_]
) -> Iterator[tuple[int, TransferView, tuple[TransferView, ...]]]:
    """Each waiting transfer in its turn: (node, itself, those that have started and use one of its ports, now)."""
    for x in arrays.held[: int(arrays.scalars["n_held"])].tolist():
        waiting = _view(arrays, ports, x)
        nodes = {y for k in waiting.ports for y in _admitted_on(arrays, k)}
        beside = sorted((_view(arrays, ports, y) for y in nodes), key=lambda view: (int(view.job), view.task))
        yield x, waiting, tuple(beside)


def _admitted_on(arrays: Arrays, k: int) -> list[int]:
    link = arrays.links[k]
    return [int(y) for y in arrays.seats["node"][link["seat0"] : link["seat0"] + link["count"]]]


def _view(arrays: Arrays, ports: npt.NDArray[np.bool_], x: int) -> TransferView:
    node = arrays.nodes[x]
    job = arrays.jobs[node["job"]]
    left = float(node["amount"])
    if node["state"] == state.ACTIVE and node["rate"] >= 0.0:
        left = float(node["remaining"] - node["rate"] * (arrays.scalars["now"] - node["mark"]))
    links = arrays.flows["link"][node["flow0"] : node["flow1"]]
    turn = float(job["p0"] + job["p1"] * (job["total"] - job["done"]))
    return TransferView(
        str(job["uid"]), int(node["task"]) & (state.CONTINUED - 1), left, frozenset(links[ports[links]].tolist()), turn
    )


def iterations_done(arrays: Arrays, row: int) -> int:
    """Full iterations of an attached job up to now."""
    job = arrays.jobs[row]
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
    return done + whole * per + int(np.searchsorted(_ends(arrays, comp, row), into, side="right"))


def all_iterations_done(arrays: Arrays) -> list[int]:
    """Full iterations of the jobs in all rows up to now."""
    jobs, now = arrays.jobs, float(arrays.scalars["now"])
    done = jobs["done"].astype(np.int64)
    parked = np.flatnonzero(jobs["state"] == state.PARKED)
    if len(parked):
        comps = arrays.comps[jobs["comp"][parked]]
        exact = comps["parked"] == state.PARK_EXACT
        rows, since_s = parked[~exact], now - comps["park_time"][~exact]
        done[rows] += (since_s * jobs["per"][rows] + jobs["carry"][rows]).astype(np.int64)
        single = exact & (jobs["per"][parked].astype(np.int64) == 1)
        rows = parked[single]
        done[rows] += ((now - jobs["iter_start"][rows]) / comps["period"][single]).astype(np.int64)
        for row in parked[exact & ~single].tolist():
            done[row] = iterations_done(arrays, row)
    found: list[int] = done.tolist()
    return found


def _ends(arrays: Arrays, comp: Any, row: int) -> npt.NDArray[np.float64]:
    """When the iterations of a period end, counted from the start of the one under way; they end as in the last
    period."""
    records = arrays.records[int(comp["record0"]) : int(comp["record1"])]
    mine = records[(records["row"] == row) & (records["uid"] == arrays.jobs[row]["uid"])]
    return np.cumsum(np.repeat(mine["duration"], mine["count"].astype(np.int64)))


def carried(arrays: Arrays, n_links: int, rows: Iterable[int]) -> npt.NDArray[np.float64]:
    """Bytes that each link has carried up to now; a parked job is taken to send evenly."""
    total = arrays.links["bytes"][:n_links].copy()
    now = float(arrays.scalars["now"])
    for row in rows:
        job = arrays.jobs[row]
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
