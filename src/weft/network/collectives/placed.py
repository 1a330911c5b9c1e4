"""All-reduces that depend on which workers share a node (a server, or all servers that NVLink joins).

double-tree   NCCL's two binary trees over the nodes, each for half of the message and pipelined, with a chain inside
              each node. Half of the nodes are leaves of one tree and inner nodes of the other (Sanders et al. 2009)
hierarchical  reduce-scatter inside each node, rings across nodes (one for each worker of a node), all-gather inside
nvls          the same with the switch inside the node as what sums and copies (NVLink SHARP): a worker sends and
              receives the message once
sharp         switches sum and copy between nodes, too (SHARP): what a ring sends twice goes up and down once

Where nodes have unequal numbers of workers, one worker of each stands for the others.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

from weft.network.collectives.stages import Pair, Stage, Stages

Together = tuple[int, ...]  # the node of each rank
NVLS_SINCE = ("H", "B", "GB")  # Hopper and Blackwell; their NVSwitches sum and copy


def nodes_of(together: Together) -> list[list[int]]:
    """Ranks by node, in the order in which nodes first occur."""
    found: dict[int, list[int]] = {}
    for rank, node in enumerate(together):
        found.setdefault(node, []).append(rank)
    return list(found.values())


def binary_tree(n: int) -> list[Pair]:
    """(child, parent) of NCCL's tree over n places: the parent of a place has its lowest bit moved up by one."""
    edges = []
    for i in range(1, n):
        bit = i & -i
        up = (i ^ bit) | (bit << 1)
        edges.append((i, up if up < n else i ^ bit))
    return edges


def double_tree(together: Together, message_bytes: float) -> Stages:
    """Both trees and the chains at once, piece by piece; the steps are those that the first piece needs."""
    nodes = nodes_of(together)
    n = len(nodes)
    edges: list[Pair] = []
    for child, parent in binary_tree(n):
        for at in ((child, parent), _other(child, parent, n)):
            edges.append((nodes[at[0]][0], nodes[at[1]][0]))
    for ranks in nodes:
        edges += [(b, a) for a, b in pairwise(ranks) for _ in range(2)]  # a chain carries both halves
    if not edges:
        return ()
    steps = 2 * max(1, (n - 1).bit_length() + max(map(len, nodes)) - 1)
    pairs = tuple(pair for a, b in edges for pair in ((a, b), (b, a)))
    return (Stage(message_bytes / 2 / steps, pairs, steps),)


def _other(child: int, parent: int, n: int) -> Pair:
    """The same edge in the second tree: mirrored, or moved by one where the number is odd."""
    return (n - 1 - child, n - 1 - parent) if n % 2 == 0 else ((child + 1) % n, (parent + 1) % n)


def hierarchical(together: Together, message_bytes: float) -> Stages:
    """Rings inside, rings across, rings inside."""
    return _levels(together, message_bytes, switched=False, summed=False)


def nvls(together: Together, message_bytes: float) -> Stages:
    """The switch inside sums and copies; rings across."""
    return _levels(together, message_bytes, switched=True, summed=False)


def sharp(together: Together, message_bytes: float) -> Stages:
    """Switches sum and copy inside and across."""
    return _levels(together, message_bytes, switched=True, summed=True)


def _levels(together: Together, size: float, switched: bool, summed: bool) -> Stages:
    nodes = nodes_of(together)
    each, n = len(nodes[0]), len(nodes)
    if any(len(ranks) != each for ranks in nodes):
        down = tuple(pair for ranks in nodes for pair in pairwise(ranks))
        up = tuple((b, a) for a, b in down)
        heads = tuple((rank,) for ranks in nodes for rank in ranks[:1])
        lanes = [[rank for (rank,) in heads]]
        return (*_one(size, up), *_across(size, lanes, n, summed), *_one(size, down))
    inside = tuple(pair for ranks in nodes for pair in _around(ranks))
    if switched:
        before = _one(size / 2, inside)
    else:
        before = (Stage(size / each, inside, each - 1),) if each > 1 else ()
    lanes = [[ranks[j] for ranks in nodes] for j in range(each)]
    return (*before, *_across(size / each, lanes, n, summed), *before)


def _one(size: float, pairs: tuple[Pair, ...]) -> Stages:
    return (Stage(size, pairs),) if pairs else ()


def _across(size: float, lanes: Sequence[Sequence[int]], n: int, summed: bool) -> Stages:
    pairs = tuple(pair for lane in lanes for pair in _around(lane))
    if n == 1:
        return ()
    return (Stage(size / 2, pairs, 2),) if summed else (Stage(size / n, pairs, 2 * (n - 1)),)


def _around(ranks: Sequence[int]) -> tuple[Pair, ...]:
    return tuple((rank, ranks[(i + 1) % len(ranks)]) for i, rank in enumerate(ranks)) if len(ranks) > 1 else ()


PLACED: dict[str, Callable[[Together, float], Stages]] = {
    "double-tree": double_tree, "hierarchical": hierarchical, "nvls": nvls, "sharp": sharp,
}  # fmt: skip


def candidates(gpu: str, together: Together) -> tuple[str, ...]:
    """What NCCL chooses among for an all-reduce (its tuning model takes the least latency + bytes / bandwidth).

    Rings always; trees between nodes; sums in the switch where GPUs are of a kind whose switches can, eight and more
    of them in all. Source: NCCL's src/graph/tuning.cc and the environment variable NCCL_ALGO in its manual.
    """
    names = ["ring"]
    nodes = nodes_of(together)
    if len(nodes) > 1:
        names.append("double-tree")
    if gpu.startswith(NVLS_SINCE) and len(together) >= 8 and len(nodes[0]) > 1:
        names.append("nvls")
    return tuple(names)
