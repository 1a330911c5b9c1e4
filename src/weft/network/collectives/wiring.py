"""Wires: over which NICs, or over which NVLink, the messages of a collective go where there is a choice.

A message between GPUs whose servers NVLink joins goes over the NVLinks of the two GPUs. Any other message between
servers goes from a NIC to a NIC. A collective whose messages are striped (a ring: NCCL makes one for each NIC) sends
1/n of each over each of n NICs: those of the job's own GPUs on either side, of the same rail where there are such.
Other messages go from the sender's own NIC to the receiver's. With PXN they leave by the NIC of the sender's server
that is on the receiver's rail, if that NIC belongs to a GPU of the job, and reach that GPU over NVLink first.

Servers that NVLink joins are one node: a ring that leaves a domain of 18 servers leaves it by the NICs of them all.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cached_property

from weft.model.cluster import Cluster, Route
from weft.network.collectives.algorithms import Pair

Ends = tuple[Route, int, int]  # links before the network, and from which NIC to which (-1: no further)


class Wires:
    """The wires between the places of one collective; `gpus` by place, -1 for parameter servers that stand apart."""

    def __init__(self, cluster: Cluster, servers: Sequence[int], gpus: Sequence[int], striped: bool, lot: int) -> None:
        self.cluster = cluster
        self.servers, self.gpus = servers, gpus
        self.node = cluster.node_of_server[list(servers)].tolist()
        nic_of, nics_of = cluster.nic_of_gpu, cluster.nics_of_server
        self.nic = [
            int(nic_of[gpu]) if gpu >= 0 else nics_of[server][(lot + i) % len(nics_of[server])]
            for i, (server, gpu) in enumerate(zip(servers, gpus, strict=True))
        ]
        self._striped = striped

    @cached_property
    def _sides(self) -> dict[int, list[int]]:
        """The job's NICs on each of its nodes, those of rails first that all nodes have."""
        rail, found = self.cluster.rail_of_nic, dict[int, set[int]]()
        for node, nic in zip(self.node, self.nic, strict=True):
            found.setdefault(node, set()).add(nic)
        common: set[int] = set.intersection(*({int(rail[nic]) for nic in nics} for nics in found.values()))
        return {
            node: sorted(nics, key=lambda nic: (int(rail[nic]) not in common, int(rail[nic]), nic))
            for node, nics in found.items()
        }

    @cached_property
    def stripes(self) -> int:
        """In how many parts messages go."""
        return min(map(len, self._sides.values())) if self._striped and len(self._sides) > 1 else 1

    @cached_property
    def _proxies(self) -> dict[tuple[int, int], int]:
        """The first place on a server whose NIC is on a rail."""
        rail, found = self.cluster.rail_of_nic, dict[tuple[int, int], int]()
        for place, (server, nic) in enumerate(zip(self.servers, self.nic, strict=True)):
            if self.gpus[place] >= 0:
                found.setdefault((server, int(rail[nic])), place)
        return found

    def over_nvlink(self, pair: Pair) -> bool:
        """Whether NVLink joins the servers of two places (or it is one server of an NVLink domain)."""
        a, b = pair
        return self.node[a] == self.node[b] and min(self.gpus[a], self.gpus[b]) >= 0 and self._joined(a)

    def _joined(self, place: int) -> bool:
        nvlinks = self.cluster.nvlinks
        return bool(nvlinks) and nvlinks[self.gpus[place]][0] >= 0

    def proxy(self, pair: Pair) -> int | None:
        """The place to whose GPU a message goes first (PXN), if it does."""
        a, b = pair
        if self._striped or not self.cluster.pxn or self.gpus[a] < 0:
            return None
        rail = self.cluster.rail_of_nic
        if rail[self.nic[a]] == rail[self.nic[b]]:
            return None
        return self._proxies.get((self.servers[a], int(rail[self.nic[b]])))

    def ends(self, pair: Pair) -> list[Ends]:
        """How each part of a message goes: over which NVLinks, and then from which NIC to which."""
        a, b = pair
        nvlinks = self.cluster.nvlinks
        if self.over_nvlink(pair):
            return [((nvlinks[self.gpus[a]][0], nvlinks[self.gpus[b]][1]), -1, -1)] * self.stripes
        if self._striped:
            sides = zip(self._sides[self.node[a]], self._sides[self.node[b]], strict=False)
            found: list[Ends] = [((), src, dst) for src, dst in sides]
            return found[: self.stripes]
        first = self.proxy(pair)
        if first is None:
            return [((), self.nic[a], self.nic[b])]
        hop: Route = (nvlinks[self.gpus[a]][0], nvlinks[self.gpus[first]][1]) if self._joined(a) else ()
        return [(hop, self.nic[first], self.nic[b])]

    def inside(self, within: Iterable[Pair], between: Iterable[Pair]) -> int:
        """Most messages that one GPU sends or receives at once inside its server, those for its proxies among them."""
        hops = [(a, first) for a, b in between if (first := self.proxy((a, b))) is not None and not self._joined(a)]
        pairs = [*(pair for pair in within if not self._joined(pair[0])), *hops]
        return max((max(Counter(ends).values()) for ends in zip(*pairs, strict=True)), default=0)
