"""Opening: a collective on a placement as single flows between servers, with what each of them waits for.

A ring is one flow from each server to the next: 2(N-1)/N of the message each. Before anything has come in, a server can
send the first chunks (1/N of the message each) of all of its workers; after that it is never ahead of the flow that
comes in. A parameter server gets a push from every worker on another server, and its broadcasts back are never ahead of
the least advanced push. Any other collective goes stage by stage, each pair of workers a flow of its own.

What stays inside a server is no flow: it caps those of its stage as it caps a lock-step group (lowering.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from weft.collectives.lowering import PlacedStage, placed_stages
from weft.collectives.parameter_server import host_ranks
from weft.model.cluster import Cluster

__all__ = ["OpenFlow", "open_collective"]

_NOBODY = (0, 0)


@dataclass(frozen=True, slots=True)
class OpenFlow:
    """One flow, per byte of message. `feed` are the flows that it may not be ahead of, but for its first `chunk`;
    `after` those that must have ended before it starts (both as ranges of the list it stands in)."""

    path: tuple[int, ...]
    share: float
    demand_bytes_per_s: float
    latency_s: float
    chunk: float = 0.0
    feed: tuple[int, int] = _NOBODY
    after: tuple[int, int] = _NOBODY


def open_collective(
    collective: str, placement: Sequence[int], cluster: Cluster, *, n_ps: int = 1, flow_key: int = 0
) -> tuple[OpenFlow, ...]:
    """The flows of a collective on these GPUs; none if nothing leaves a server."""
    rounds = placed_stages(collective, placement, cluster, n_ps)
    if not any(stage.between for stage in rounds):
        return ()
    if collective == "ring":
        return _ring(rounds[0], len(placement), cluster, flow_key)
    if collective == "parameter-server":
        return _servers(rounds[0], rounds[-1], len(placement), cluster, n_ps, flow_key)
    flows: list[OpenFlow] = []
    last = _NOBODY
    for stage in rounds:
        paths = [tuple(stage.path(cluster, pair, flow_key)) for pair in stage.between]
        if not paths and stage.latency_s <= 0.0 and stage.demand_bytes_per_s == float("inf"):
            continue
        flows += [_flow(stage, path, after=last) for path in paths or [()]]
        last = (last[1], len(flows))
    return tuple(flows)


def _flow(
    stage: PlacedStage, path: tuple[int, ...], *, share: float | None = None, chunk: float = 0.0,
    feed: tuple[int, int] = _NOBODY, after: tuple[int, int] = _NOBODY,
) -> OpenFlow:  # fmt: skip
    part = stage.share if share is None else share
    return OpenFlow(path, part, stage.demand_bytes_per_s, stage.latency_s, chunk, feed, after)


def _ring(stage: PlacedStage, n: int, cluster: Cluster, flow_key: int) -> tuple[OpenFlow, ...]:
    """Messages between neighbours in the ring that stand on two servers, in the order of the ring."""
    pairs = sorted(stage.between)
    flows = []
    for i, (a, b) in enumerate(pairs):
        before = (i - 1) % len(pairs)
        workers = (a - pairs[before][0]) % n  # on the server that it leaves
        path = tuple(stage.path(cluster, (a, b), flow_key))
        flows.append(_flow(stage, path, share=2.0 * (n - 1) / n, chunk=workers / n, feed=(before, before + 1)))
    return tuple(flows)


def _servers(
    push: PlacedStage, pull: PlacedStage, n: int, cluster: Cluster, n_ps: int, flow_key: int
) -> tuple[OpenFlow, ...]:
    flows: list[OpenFlow] = []
    for host in host_ranks(n, n_ps):
        far = [r for r in range(n) if push.servers[r] != push.servers[host]]
        pushes = (len(flows), len(flows) + len(far))
        flows += [_flow(push, tuple(push.path(cluster, (r, host), flow_key))) for r in far]
        flows += [_flow(pull, tuple(pull.path(cluster, (host, r), flow_key)), feed=pushes) for r in far]
    return tuple(flows)
