"""Routes between servers: every shortest path, one of them chosen per flow by a seeded hash (ECMP)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from weft.errors import InputError
from weft.model.cluster import Link, Route

__all__ = ["EcmpRouter", "flow_hash"]

_MASK = (1 << 64) - 1
_KEEP = 200_000  # paths between switches that are remembered: some 30 MB


def flow_hash(seed: int, src: int, dst: int, flow: int) -> int:
    """64 bits that depend on nothing but the four numbers: the same in every process and on every machine.

    (An odd-weighted sum through the finaliser of splitmix64; Python's own hash() promises no such thing.)
    """
    x = (
        seed * 0x9E3779B97F4A7C15 + src * 0xD1B54A32D192ED03 + dst * 0x8CB92BA72F3D8DD7 + flow * 0xDB4F0B9175AE2165
    ) & _MASK
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & _MASK
    return x ^ (x >> 31)


class _Downhill:
    """All shortest paths towards one node: for every node the links that come closer, and how many paths they open."""

    __slots__ = ("next_hops", "paths")

    def __init__(self, goal: int, incoming: Sequence[Sequence[tuple[int, int]]], is_server: Sequence[bool]) -> None:
        self.paths: dict[int, int] = {goal: 1}
        self.next_hops: dict[int, list[tuple[int, int]]] = {goal: []}  # (link, node it leads to)
        frontier = [goal]
        while frontier:
            found: dict[int, list[tuple[int, int]]] = {}
            for node in frontier:
                if is_server[node] and node != goal:
                    continue  # servers do not forward
                for link, before in incoming[node]:
                    if before not in self.next_hops:
                        found.setdefault(before, []).append((link, node))
            for node, hops in found.items():
                hops.sort()
                self.next_hops[node] = hops
                self.paths[node] = sum(self.paths[after] for _, after in hops)
            frontier = sorted(found)

    def path(self, start: int, index: int) -> Route:
        """The path number `index` from `start`, in the order of link ids."""
        links: list[int] = []
        node = start
        while self.next_hops[node]:
            for link, after in self.next_hops[node]:
                if index < self.paths[after]:
                    links.append(link)
                    node = after
                    break
                index -= self.paths[after]
        return tuple(links)


class EcmpRouter:
    """(source server, destination server, flow) -> link ids, over all paths with the fewest hops.

    Paths are numbered, never listed, so that fabrics with very many of them cost nothing; what was asked once is kept.
    Servers do not forward traffic. `fixed` overrides single pairs with given routes (several: one is chosen by hash).
    """

    def __init__(
        self,
        links: Sequence[Link],
        servers: Sequence[str],
        seed: int = 0,
        fixed: Mapping[tuple[int, int], Sequence[Route]] | None = None,
    ) -> None:
        self._links = tuple(links)
        self._servers = tuple(servers)
        self._seed = seed
        self._fixed = {pair: tuple(routes) for pair, routes in (fixed or {}).items()}
        self._prepare()

    def __reduce__(self) -> tuple[object, ...]:
        """Pickled without what it has found so far."""
        return EcmpRouter, (self._links, self._servers, self._seed, self._fixed)

    def _prepare(self) -> None:
        number: dict[str, int] = {name: i for i, name in enumerate(self._servers)}
        for link in self._links:
            number.setdefault(link.src, len(number))
            number.setdefault(link.dst, len(number))
        outgoing: list[list[tuple[int, int]]] = [[] for _ in number]
        incoming: list[list[tuple[int, int]]] = [[] for _ in number]
        for link in self._links:
            src, dst = number[link.src], number[link.dst]
            outgoing[src].append((link.id, dst))
            incoming[dst].append((link.id, src))
        n = len(self._servers)
        self._is_server = [i < n for i in range(len(number))]
        self._incoming = incoming
        # A server with one cable is left and entered over it: what remains is a path between two switches, which all
        # servers of a rack share.
        self._heads = [self._end(i, outgoing[i]) for i in range(n)]
        self._tails = [self._end(i, incoming[i]) for i in range(n)]
        self._downhill: dict[int, _Downhill] = {}
        self._counts: dict[tuple[int, int], int] = {}
        self._middles: dict[tuple[int, int, int], Route] = {}

    def _end(self, server: int, links: list[tuple[int, int]]) -> tuple[Route, int]:
        if len(links) == 1 and not self._is_server[links[0][1]]:
            return (links[0][0],), links[0][1]
        return (), server

    def __call__(self, src: int, dst: int, flow: int = 0) -> Route:
        """Links from server `src` to server `dst`, in order."""
        if self._fixed and (src, dst) in self._fixed:
            routes = self._fixed[src, dst]
            return routes[flow_hash(self._seed, src, dst, flow) % len(routes)]
        head, start = self._heads[src]
        tail, end = self._tails[dst]
        count = self._counts.get((start, end))
        if count is None:
            count = self._count(src, dst, start, end)
        key = (start, end, flow_hash(self._seed, src, dst, flow) % count if count > 1 else 0)
        middle = self._middles.get(key)
        if middle is None:
            middle = self._middle(key)
        return head + middle + tail

    def n_paths(self, src: int, dst: int) -> int:
        """Number of paths that flows between two servers are spread over."""
        if src == dst:
            return 1
        if (src, dst) in self._fixed:
            return len(self._fixed[src, dst])
        return self._count(src, dst, self._heads[src][1], self._tails[dst][1])

    def _count(self, src: int, dst: int, start: int, end: int) -> int:
        downhill = self._downhill.get(end)
        if downhill is None:
            downhill = self._downhill[end] = _Downhill(end, self._incoming, self._is_server)
        count = downhill.paths.get(start, 0)
        if count == 0:
            names = f"{self._servers[src]} to {self._servers[dst]}"
            raise InputError(f"topology: no path from {names} over switches; add a cable or an explicit route")
        self._counts[start, end] = count
        return count

    def _middle(self, key: tuple[int, int, int]) -> Route:
        start, end, index = key
        if len(self._middles) >= _KEEP:
            self._middles.clear()
        middle = self._middles[key] = self._downhill[end].path(start, index)
        return middle
