"""From what a scenario says to what runs: the cluster, the jobs, the stack. Errors name the scenario's file."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from weft.errors import InputError
from weft.model.cluster import Cluster
from weft.model.topologies import Cable, Via
from weft.model.topologies import build_cluster as build_topology
from weft.scenario.scenario import Scenario

__all__ = ["build_cluster", "located"]


@contextmanager
def located(where: str) -> Iterator[None]:
    """Put the file's name in front of errors raised inside."""
    try:
        yield
    except InputError as error:
        text = str(error)
        raise error if text.startswith(where) else type(error)(f"{where}: {text}") from None


def build_cluster(scenario: Scenario, seed: int | None = None) -> Cluster:
    """The cluster; equal-cost routes are drawn from the run's seed."""
    section = scenario.cluster
    given = section.model_dump(exclude_unset=True, exclude={"topology", "links", "routes", "uplink_gbps"})
    with located(scenario.where):
        return build_topology(
            section.topology,
            cables=None if section.links is None else [Cable(r.a, r.b, r.gbps, r.tier) for r in section.links],
            routes=None if section.routes is None else [Via(r.src, r.dst, tuple(r.via)) for r in section.routes],
            uplink_gbps=None if section.uplink_gbps is None else (section.uplink_gbps[0], section.uplink_gbps[1]),
            seed=scenario.run.seed if seed is None else seed,
            **given,
        )
