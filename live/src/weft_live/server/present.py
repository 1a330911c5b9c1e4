"""The state of a live run as its ledger has it, to simulate it forward (weft_live/ahead.py). No server need run."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from weft.advise.forward import Present
from weft.advise.spread import Past
from weft.core.stack import Stack
from weft.core.table import Table
from weft.errors import InputError
from weft.model.cluster import Cluster
from weft.model.view import JobView
from weft.stacks import resolve
from weft_live.ahead import cluster_of
from weft_live.clock import Clock
from weft_live.description import Description, unread
from weft_live.server.ledger import Ledger
from weft_live.server.snapshot import load_table

MOST_PAST = 5000  # ended jobs that are read


def present_of(ledger: Ledger) -> tuple[Present, Stack, float]:
    """The state, the stack that serves, and the wall time of the world's zero."""
    clock, saved = ledger.meta("clock"), ledger.core()
    if clock is None or saved is None:
        raise InputError("no weft serve has decided anything in this folder yet; name another one with --dir")
    known, names = Clock(**clock), ledger.meta("cluster", [])
    racks = ledger.meta("racks") or [0] * len(names)  # servers of earlier versions did not write them down
    counts = Counter(names)
    cluster = cluster_of([(name, counts[name], rack) for name, rack in dict(zip(names, racks, strict=True)).items()])
    table = Table(cluster)
    load_table(saved["table"], table)
    views = [table.jobs[name] for name in sorted(table.jobs, key=lambda name: table.number[name])]
    views = [replace(view, gpus=tuple(_gpus(cluster, names, view.gpus))) for view in views]
    said = {row.id: row.description for row in ledger.jobs(ended=False)}
    new = [row for row in ledger.jobs(ended=False) if row.id not in table.jobs]  # accepted, not yet considered
    views += [JobView(row.description.job(row.submit_s, unread), waiting_since_s=row.submit_s) for row in new]
    lost = set(ledger.meta("down", {}))
    present = Present(
        cluster, known.now(), tuple(views), {name: claim for name, of in said.items() if (claim := claim_of(of))},
        {name: float(of.env["limit_s"]) for name, of in said.items() if "limit_s" in of.env},
        _past(ledger), frozenset(server.id for server in cluster.servers if server.name in lost),
        memory=(saved["stack"], saved["planner_state"]),
    )  # fmt: skip
    return present, resolve(saved["stack"]), known.wall_s


def _gpus(cluster: Cluster, names: Sequence[str], gpus: Sequence[int]) -> list[int]:
    """GPUs of the ledger's cluster in this one, where racks may come in another order."""
    at = {server.name: server.gpus for server in cluster.servers}
    return [at[names[gpu]][gpu - names.index(names[gpu])] for gpu in gpus]


def claim_of(said: Description) -> float | None:
    """Seconds that a job is said to take: by its user, else by its time limit; None if nothing is said."""
    return _claim(said.iterations, said.iteration_s, said.env.get("limit_s"))


def _claim(iterations: int, iteration_s: float, limit_s: str | None) -> float | None:
    if iterations and iteration_s:
        return iterations * iteration_s
    return float(limit_s) if limit_s else None


def _past(ledger: Ledger) -> list[Past]:
    """Jobs that have ended and ran, in the order of their ends."""
    rows = ledger.ended(
        "json_extract(description, '$.user', '$.gpus', '$.iterations', '$.iteration_s', '$.env.limit_s')", MOST_PAST
    )
    found = []
    for submit_s, run_s, text in rows:
        user, gpus, iterations, iteration_s, limit_s = json.loads(text)
        found.append(Past(user, gpus, submit_s, _claim(iterations, iteration_s, limit_s), run_s))
    return found[::-1]
