"""Transfers as an admission rule in Python sees them, read from the engine's memory; reading changes nothing."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from weft.model.transfer import TransferView
from weft.sim.compiled import state
from weft.sim.compiled.state import Arrays

__all__ = ["questions"]


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
