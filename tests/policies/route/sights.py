"""What a route policy sees, by hand: jobs whose flows go between the servers of a leaf-spine cluster."""

from collections.abc import Mapping, Sequence

from weft.model.cluster import Cluster
from weft.model.plan import Routes
from weft.model.routes import Flow, RoutedJob, RouteView
from weft.model.view import JobView
from weft.network.topologies import leaf_spine
from weft.testing import toy_job

Pair = tuple[int, int]  # servers, which have one NIC each


def fabric(racks: int = 2, servers_per_rack: int = 4, spines: int = 4, oversubscription: float = 1.0) -> Cluster:
    """NICs of 1.25e9 bytes/s."""
    return leaf_spine(racks, servers_per_rack, spines=spines, oversubscription=oversubscription)


def job(
    name: str, pairs: Sequence[Pair], size: float = 1e9, gpus: int = 1, compute_s: float = 1.0, iteration_s: float = 2.0
) -> RoutedJob:
    """A job with a flow of so many bytes between each of these pairs."""
    number = int.from_bytes(name.encode(), "big")
    flows = tuple(Flow(a, b, 1000 * number + i, size) for i, (a, b) in enumerate(pairs))
    return RoutedJob(JobView(toy_job(name, gpus)), flows, iteration_s, compute_s)


def sight(cluster: Cluster, jobs: Sequence[RoutedJob], routes: Mapping[str, Routes] | None = None) -> RouteView:
    """These jobs, of which some have routes."""
    return RouteView(0.0, cluster, {each.id: each for each in jobs}, routes or {})


def numbers(routes: Routes) -> list[int]:
    """The one path of each flow."""
    assert all(len(parts) == 1 and parts[0][1] == 1.0 for parts in routes)
    return [parts[0][0] for parts in routes]


def uplinks(view: RouteView, routes: Mapping[str, Routes]) -> list[int]:
    """Links between racks and spines that carry a flow, once for each."""
    links = view.cluster.topology.links
    return [
        link
        for name, mine in routes.items()
        for flow, number in zip(view.jobs[name].flows, numbers(mine), strict=True)
        for link in view.path(flow, number)
        if links[link].tier != "nic"
    ]
