"""Paths on a testbed: a route policy is asked once about all jobs, and bridges forward by what it says.

A bridge forwards by destination alone. So what a policy chooses can be carried out where no two flows to one host want
to leave a switch by different ways.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from weft.errors import InputError
from weft.model.cluster import Cluster
from weft.model.cluster import Route as Links
from weft.model.job import Job
from weft.model.profile import Profile
from weft.model.routes import RoutedJob, RouteView
from weft.model.view import JobView
from weft.network.collectives import flows_of
from weft.network.estimates import Estimates
from weft.policies.route.base import Route
from weft_live.testbed.plan import Blueprint, Forwarding

Chosen = Mapping[tuple[int, int], Links]  # by the servers that a flow goes from and to


def choose(cluster: Cluster, jobs: Sequence[tuple[str, Profile, tuple[int, ...]]], route: Route) -> Chosen:
    """The links of each flow of these jobs (name, profile, servers), which all start at once."""
    alone, there = Estimates(cluster), {}
    for number, (name, profile, servers) in enumerate(jobs):
        gpus = tuple(cluster.servers[server].gpus[0] for server in servers)
        job = Job(name, 0.0, len(gpus), 1, {len(gpus): profile})
        flows = flows_of(profile, gpus, cluster, "ring", number)
        there[name] = RoutedJob(JobView(job, gpus=gpus), flows, alone.seconds(profile, gpus), profile.compute_s)
    view = RouteView(0.0, cluster, there, {}, lambda: np.zeros(len(cluster.topology.links)))
    answer = route.route(view, route.initial_state())
    if answer.wake_s is not None:
        raise InputError(f"--route {route.name} looks again while jobs run, and a testbed keeps its paths")
    found: dict[tuple[int, int], Links] = {}
    for name, routed in there.items():
        for i, flow in enumerate(routed.flows):
            parts = answer.routes[name][i] if name in answer.routes else ((view.hashed(flow), 1.0),)
            if len(parts) > 1:
                raise InputError(f"--route {route.name} splits flows over paths, and here a flow has one path")
            pair = int(cluster.server_of_nic[flow.src]), int(cluster.server_of_nic[flow.dst])
            links = view.path(flow, parts[0][0])
            if found.setdefault(pair, links) != links:
                raise InputError(
                    f"--route {route.name}: two flows between the same servers would go over different paths, and "
                    "switches here forward by destination; place the jobs on servers of their own"
                )
    return found


def forwarding(plan: Blueprint, cluster: Cluster, chosen: Chosen) -> Forwarding:
    """What switches do, with these flows on their links."""
    ends, mine = cluster.topology.links, dict[tuple[str, str], str]()
    for (_, dst), path in chosen.items():
        host = plan.host(dst)
        for k in path[1:]:
            onwards = mine.setdefault((ends[k].src, host.mac), ends[k].dst)
            if onwards != ends[k].dst:
                raise InputError(
                    f"--route: two flows to {host.name} would leave {ends[k].src} by different ways, and switches here "
                    "forward by destination; place the jobs on servers of their own"
                )
    return {**plan.forwarding, **mine}
