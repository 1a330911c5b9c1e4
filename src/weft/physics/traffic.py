"""Traffic of a job on given GPUs, alone on the network: what each link of the cluster carries, and when."""

from __future__ import annotations

from weft.model.cluster import Cluster
from weft.model.plan import Placement
from weft.model.profile import Profile
from weft.model.traffic import Arcs, Traffic
from weft.physics.iteration import MAX_MIN, Piece, Sharing, play_on

__all__ = ["link_traffic"]


def link_traffic(
    profile: Profile,
    gpus: Placement,
    cluster: Cluster,
    collective: str = "ring",
    flow_key: int = 0,
    sharing: Sharing = MAX_MIN,
) -> Traffic:
    """The traffic of one iteration; `flow_key` is the job's, for equal-cost paths."""
    played = play_on(cluster, profile, gpus, collective, flow_key, sharing)
    if not played.links or played.first is None:
        return Traffic(played.seconds)
    offset = played.start_s[played.first]
    arcs: dict[int, Arcs] = {}  # links of one kind share their pieces, and so their arcs
    links = {}
    for link, pieces in played.links.items():
        if id(pieces) not in arcs:
            arcs[id(pieces)] = _from(offset, pieces)
        links[link] = arcs[id(pieces)]
    return Traffic(played.seconds, played.first, offset, 0.0, links)


def _from(offset: float, pieces: tuple[Piece, ...]) -> Arcs:
    return tuple((start - offset, end - start, rate) for start, end, rate in pieces)
