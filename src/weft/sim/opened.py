"""Opening: a job's communication as single flows between servers, with what each of them waits for.

This is the model of the flow scheduling paper: an iteration computes, then sends its whole message, then the next one
begins. A profile with several transfers is one that sends their sum after its longest compute path. Flows inside a
server take no time and are left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from weft.collectives import ring_order
from weft.collectives.parameter_server import host_ranks
from weft.collectives.registry import stages
from weft.errors import InputError
from weft.model.cluster import Cluster
from weft.model.flow_set import FlowRows
from weft.model.plan import Placement
from weft.model.profile import Profile, Transfer

__all__ = ["open_flows"]

_SPREAD = 1_000_003  # keeps (flow key, source rank, destination rank) apart in one number, as lowering does
_NOTHING = FlowRows((), (), (), (), (), (), ())

Rows = tuple[list[tuple[int, int]], list[float], list[float], list[tuple[int, int]], list[tuple[int, int]]]


def open_flows(profile: Profile, gpus: Placement, cluster: Cluster, collective: str, flow_key: int) -> FlowRows:
    """The flows of one iteration on these GPUs; none if nothing leaves a server."""
    transfers = [t for t in profile.tasks if isinstance(t, Transfer) and t.bytes > 0]
    if not transfers or len(gpus) < 2:
        return _NOTHING
    kinds = {(t.collective or collective, t.servers) for t in transfers}
    if len(kinds) > 1:
        raise InputError(
            f"profile {profile.name}: its transfers use {len(kinds)} kinds of collective; sharing scheduled opens "
            "one; use max-min"
        )
    name, n_ps = kinds.pop()
    message = profile.message_bytes
    if name == "ring":
        rows = _ring(message, ring_order(gpus, cluster), gpus, cluster)
    elif name == "parameter-server":
        rows = _servers(message, n_ps, gpus, cluster)
    else:
        rows = _plain(name, message, gpus, cluster)
    return _routed(rows, gpus, cluster, flow_key)


def _ring(message: float, order: Sequence[int], gpus: Placement, cluster: Cluster) -> Rows:
    """One flow from each server to the next: 2(N-1)/N M each. Before anything has come in, a server can send the first
    chunks (M/N) of all of its workers."""
    n = len(order)
    groups = [list(ranks) for _, ranks in groupby(order, key=lambda r: int(cluster.server_of_gpu[gpus[r]]))]
    k = len(groups)
    if k < 2:
        return [], [], [], [], []
    pairs = [(groups[i][-1], groups[(i + 1) % k][0]) for i in range(k)]
    chunk = [message / n * len(group) for group in groups]
    feed = [((i - 1) % k, (i - 1) % k + 1) for i in range(k)]
    after = [((i + 1) % k, (i + 1) % k + 1) for i in range(k)]
    return pairs, [2.0 * (n - 1) / n * message] * k, chunk, feed, after


def _servers(message: float, n_ps: int, gpus: Placement, cluster: Cluster) -> Rows:
    """For every parameter server, a push from each worker on another server, and a broadcast back."""
    server = [int(cluster.server_of_gpu[g]) for g in gpus]
    pairs: list[tuple[int, int]] = []
    feed: list[tuple[int, int]] = []
    after: list[tuple[int, int]] = []
    for host in host_ranks(len(gpus), n_ps):
        far = [r for r in range(len(gpus)) if server[r] != server[host]]
        low = len(pairs)
        pushes, broadcasts = (low, low + len(far)), (low + len(far), low + 2 * len(far))
        pairs += [(r, host) for r in far] + [(host, r) for r in far]
        feed += [(low, low)] * len(far) + [pushes] * len(far)
        after += [broadcasts] * len(far) + [(low, low)] * len(far)
    return pairs, [message / n_ps] * len(pairs), [0.0] * len(pairs), feed, after


def _plain(name: str, message: float, gpus: Placement, cluster: Cluster) -> Rows:
    """Any other collective: all that goes from one worker to another as one flow, free of the others."""
    amount: dict[tuple[int, int], float] = {}
    for stage in stages(name, len(gpus), message, 1):
        for pair in stage.pairs:
            if cluster.server_of_gpu[gpus[pair[0]]] != cluster.server_of_gpu[gpus[pair[1]]]:
                amount[pair] = amount.get(pair, 0.0) + stage.bytes * stage.steps
    free = [(0, 0)] * len(amount)
    return list(amount), list(amount.values()), [0.0] * len(amount), free, free


def _routed(rows: Rows, gpus: Placement, cluster: Cluster, flow_key: int) -> FlowRows:
    pairs, size, chunk, feed, after = rows
    src = tuple(int(cluster.server_of_gpu[gpus[a]]) for a, _ in pairs)
    dst = tuple(int(cluster.server_of_gpu[gpus[b]]) for _, b in pairs)
    router = cluster.topology.router
    paths = tuple(
        tuple(router(s, d, (flow_key * _SPREAD + a) * _SPREAD + b))
        for s, d, (a, b) in zip(src, dst, pairs, strict=True)
    )
    return FlowRows(src, dst, paths, tuple(size), tuple(chunk), tuple(feed), tuple(after))
