"""What collectives are held against: Table I of the Ada-SRSF paper, the order of a ring, and the links of servers."""

from collections.abc import Sequence
from math import log2

from weft.model.cluster import Cluster
from weft.model.flows import FlowGroup
from weft.network.collectives import route_collective

CLOSED_FORMS = ("tree", "recursive-doubling", "halving-doubling", "ring")


def closed_form(algorithm: str, n: int, alpha: float, beta: float, gamma: float = 0.0) -> tuple[float, float]:
    """(a, b) of Table I: alpha seconds per message, beta seconds per byte sent, gamma seconds per byte added up.

    The table is for powers of two. For other numbers this continues it smoothly, which is less than whole rounds take.
    """
    rounds = log2(n)
    if algorithm == "tree":
        return 2 * alpha * rounds, (2 * beta + gamma) * rounds
    if algorithm == "recursive-doubling":
        return alpha * rounds, (beta + gamma) * rounds
    if algorithm == "halving-doubling":
        return 2 * alpha * rounds, 2 * beta - (2 * beta + gamma) / n + gamma
    assert algorithm == "ring"
    return 2 * (n - 1) * alpha, 2 * (n - 1) / n * beta + (n - 1) / n * gamma


def lower(
    collective: str,
    message_bytes: float,
    placement: Sequence[int],
    cluster: Cluster,
    *,
    n_ps: int = 1,
    demand: float | None = None,
    flow_key: int = 0,
) -> tuple[FlowGroup, ...]:
    """The chain of flow groups that a message takes on the GPUs of `placement` (rank r on placement[r])."""
    routed = route_collective(collective, placement, cluster, n_ps=n_ps, flow_key=flow_key)
    return routed.groups(message_bytes, demand)


def ring_order(placement: Sequence[int], cluster: Cluster) -> tuple[int, ...]:
    """Ranks in the order a ring visits them: by rack, then by server, so that each is entered and left once."""
    servers = [int(cluster.server_of_gpu[gpu]) for gpu in placement]
    return tuple(sorted(range(len(placement)), key=lambda r: (cluster.servers[servers[r]].rack, servers[r])))


def nic_links(cluster: Cluster) -> tuple[tuple[tuple[int, ...], tuple[int, ...]], ...]:
    """For every server the links that leave it and those that enter it (one each, unless it was given more cables)."""
    ids = {server.name: server.id for server in cluster.servers}
    out: list[list[int]] = [[] for _ in ids]
    into: list[list[int]] = [[] for _ in ids]
    for link in cluster.topology.links:
        if link.src in ids:
            out[ids[link.src]].append(link.id)
        if link.dst in ids:
            into[ids[link.dst]].append(link.id)
    return tuple((tuple(a), tuple(b)) for a, b in zip(out, into, strict=True))
