"""Kinds of links: what carries the same flows at the same capacity, counted as one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from weft.model.cluster import Cluster
from weft.network.collectives.lowering import Leg, RoutedCollective


def alike(
    routes: Sequence[RoutedCollective], cluster: Cluster
) -> tuple[dict[int, int], tuple[RoutedCollective, ...], tuple[float, ...]]:
    """Links of one capacity that carry the same flows are one kind: (kind of each link, routes on kinds, capacities).

    What an iteration looks like depends on the kinds alone, and most placements have the same few.
    """
    uses: dict[int, list[tuple[int, int, int]]] = {}
    for i, route in enumerate(routes):
        for k, leg in enumerate([leg for one in (route, *route.choices) for leg in one.legs]):
            for link, n in leg.links:
                uses.setdefault(link, []).append((i, k, n))
    links = cluster.topology.links
    number: dict[tuple[float, tuple[tuple[int, int, int], ...]], int] = {}
    kinds = {}
    for link in sorted(uses):  # bottlenecks are taken in the order of link ids, here as in the engine
        kinds[link] = number.setdefault((links[link].bytes_per_s, tuple(uses[link])), len(number))
    on_kinds = tuple([_route_on_kinds(route, kinds) for route in routes])
    return kinds, on_kinds, tuple(room for room, _ in number)


def _route_on_kinds(route: RoutedCollective, kinds: Mapping[int, int]) -> RoutedCollective:
    choices = tuple([_route_on_kinds(one, kinds) for one in route.choices])
    return replace(route, legs=tuple([_on_kinds(leg, kinds) for leg in route.legs]), choices=choices)


def _on_kinds(leg: Leg, kinds: Mapping[int, int]) -> Leg:
    links = tuple({kinds[link]: n for link, n in leg.links}.items())
    return Leg(leg.share, links, (), leg.demand_bytes_per_s, leg.latency_s, leg.stripes)
