"""A job that runs alone: its speed at some size and spread, its traffic, and a picture of an iteration.

Pictures assume that every worker has a server of its own with one full-duplex NIC, and that one switch joins them all.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from weft.errors import InputError, StackError
from weft.model.cluster import Cluster
from weft.model.flows import Arcs, Traffic
from weft.model.plan import Placement
from weft.model.profile import Profile
from weft.model.units import bytes_per_s_to_gbps
from weft.model.view import Estimate, Spread
from weft.network.collectives import Chosen
from weft.network.iteration import MAX_MIN, Iteration, Piece, Sharing, play_on
from weft.network.topologies import Machine, single_switch

Exposed = Callable[[Profile, str, Placement], float]  # profile, model, GPUs: seconds of exposed communication


def example_placement(cluster: Cluster, workers: int, spread: Spread, grouped: bool = False) -> Placement:
    """GPUs for a number of workers on given numbers of servers and racks, as evenly as possible. Ranks go from
    server to server in turn; those of a `grouped` profile stand beside their neighbours, as policies place them.

    Where the cluster has no such shape (not enough servers in a rack, or GPUs in a server), the nearest wider one is
    taken.
    """
    by_rack: dict[int, list[int]] = {}
    for server in cluster.servers:
        if cluster.gpus_per_server[server.id]:  # those of other types have none here
            by_rack.setdefault(server.rack, []).append(server.id)
    racks = sorted(by_rack, key=lambda r: (-len(by_rack[r]), r))
    n_servers, n_racks = max(1, min(spread.servers, workers)), max(1, spread.racks)
    while True:
        pools = [by_rack[r] for r in racks[:n_racks]]
        chosen = _in_turn(pools)[:n_servers]
        room = sum(len(cluster.servers[s].gpus) for s in chosen)
        widest = n_racks >= len(racks) and n_servers >= sum(map(len, by_rack.values()))
        if (len(chosen) == n_servers and room >= workers) or widest:
            break
        if len(chosen) < n_servers:
            n_racks += 1
        else:
            n_servers += 1
    taken = _in_turn([cluster.servers[s].gpus for s in chosen])[:workers]
    if not grouped:
        return tuple(taken)
    return tuple(gpu for s in chosen for gpu in cluster.servers[s].gpus if gpu in taken)


def _in_turn(lists: Sequence[Sequence[int]]) -> list[int]:
    """The first of each list, then the second of each, and so on."""
    return [each[i] for i in range(max(map(len, lists))) for each in lists if i < len(each)]


class Estimates:
    """Estimates for one cluster and one network; each (profile, model, spread) is worked out once.

    `sharing` and `collective` say how transfers go over links. With `exposed` a cost model stands in for the links.
    """

    def __init__(
        self,
        cluster: Cluster,
        sharing: Sharing = MAX_MIN,
        collective: str = "ring",
        exposed: Exposed | None = None,
    ) -> None:
        self.cluster = cluster
        self.sharing = sharing
        self.collective = collective
        self.exposed = exposed
        self._known: dict[tuple[int, str, int, int, str], tuple[Profile, Estimate]] = {}  # keeps profiles, and so ids

    def play(
        self,
        profile: Profile,
        gpus: Placement,
        compute_factor: float = 1.0,
        flow_key: int = 0,
        chosen: Chosen | None = None,
    ) -> Iteration:
        """One iteration over links on these GPUs, task by task."""
        return play_on(self.cluster, profile, gpus, self.collective, flow_key, self.sharing, compute_factor, chosen)

    def of(self, profile: Profile, model: str, spread: Spread, gpu: str = "") -> Estimate:
        """Seconds of one iteration on an example of such a placement, on that type of GPU, and its compute part."""
        key = (id(profile), model, spread.servers, spread.racks, gpu)
        found = self._known.get(key)
        if found is None:
            gpus = example_placement(self.cluster.of_type(gpu), profile.workers, spread, profile.grouped)
            found = self._known[key] = (profile, Estimate(self.seconds(profile, gpus, model), profile.compute_s))
        return found[1]

    def seconds(
        self, profile: Profile, gpus: Placement, model: str = "", flow_key: int = 0, compute_factor: float = 1.0
    ) -> float:
        """Seconds of one iteration on these GPUs, in which computing takes `compute_factor` times as long."""
        if self.exposed is not None:
            return profile.compute_s * compute_factor + self.exposed(profile, model, gpus)
        return self.play(profile, gpus, compute_factor, flow_key).seconds

    def check_traffic(self) -> None:
        """Refuse, with the reason, to say what goes over links where that is not known."""
        if self.sharing.kind == "k-way" or self.exposed is not None:
            raise StackError(
                'traffic on links is known only with network.sharing "max-min" or "ideal" and '
                'network.cost "links"; use those, or a stack that does not shift communication'
            )

    def traffic(
        self,
        profile: Profile,
        gpus: Placement,
        flow_key: int = 0,
        compute_factor: float = 1.0,
        chosen: Chosen | None = None,
    ) -> Traffic:
        """The traffic of one iteration on these GPUs, alone; `flow_key` is the job's, for equal-cost paths, of which a
        route policy may have chosen others."""
        self.check_traffic()
        played = self.play(profile, gpus, compute_factor, flow_key, chosen)
        if not played.links or played.first is None:
            return Traffic(played.seconds)
        offset = played.start_s[played.first]
        arcs: dict[int, Arcs] = {}  # links of one kind share their pieces, and so their arcs
        links = {}
        for link, pieces in played.links.items():
            if id(pieces) not in arcs:
                arcs[id(pieces)] = tuple((start - offset, end - start, rate) for start, end, rate in pieces)
            links[link] = arcs[id(pieces)]
        return Traffic(played.seconds, played.first, offset, 0.0, links)

    def factor_for(self, profile: Profile, gpus: Placement, iteration_s: float) -> float | None:
        """The factor on computing with which an iteration takes this long. None if there is none: communication alone
        takes longer, or the job does not compute at all.

        The length of an iteration is piecewise linear in the factor, so each step of the search goes along one piece.
        """
        low, high = 0.0, iteration_s / profile.compute_s if profile.compute_s > 0 else 0.0
        shortest = self.play(profile, gpus, low).seconds
        if high <= 0 or shortest > iteration_s:
            return None
        longest = self.play(profile, gpus, high).seconds
        for _ in range(60):
            if longest - shortest <= 1e-9 * iteration_s:
                break
            along = (iteration_s - shortest) / (longest - shortest)
            middle = low + min(max(along, 0.05), 0.95) * (high - low)
            seconds = self.play(profile, gpus, middle).seconds
            if abs(seconds - iteration_s) <= 1e-6 * iteration_s:
                return middle
            low, shortest, high, longest = (
                (middle, seconds, high, longest) if seconds < iteration_s else (low, shortest, middle, seconds)
            )
        return high


@dataclass(frozen=True)
class Alone:
    """The iteration, and what each worker sends over time."""

    profile: Profile
    played: Iteration
    sent: tuple[tuple[Piece, ...], ...]  # by worker

    @property
    def iteration_s(self) -> float:
        """Length of the iteration: the perimeter of CASSINI's circle."""
        return self.played.seconds

    def up_phases(self, worker: int = 0) -> tuple[Piece, ...]:
        """CASSINI's Up phases of a worker's NIC: times of sending without a pause, with their mean rate."""
        merged: list[list[float]] = []  # start, end, bytes
        for s in self.sent[worker]:
            moved = (s.end_s - s.start_s) * s.bytes_per_s
            if merged and s.start_s - merged[-1][1] <= 1e-9 * self.iteration_s:
                merged[-1][1] = s.end_s
                merged[-1][2] += moved
            else:
                merged.append([s.start_s, s.end_s, moved])
        return tuple(Piece(a, b, moved / (b - a)) for a, b, moved in merged)

    def sent_bytes(self, worker: int) -> float:
        """Bytes that a worker's NIC sends in one iteration."""
        return sum((s.end_s - s.start_s) * s.bytes_per_s for s in self.sent[worker])


def run_on(profile: Profile, machine: Machine, collective: str = "ring") -> Alone:
    """One iteration on machines of a kind, joined by one switch. What NVLink joins counts as one server with all its
    NICs together; each of its workers sends an equal part."""
    together = machine.gpus_per_server * machine.nvlink_domain
    most = min(together, profile.workers)  # groups fill a domain as far as they come out even
    each = next((k for k in range(most, 0, -1) if profile.workers % k == 0 and 2 * k > most), most)
    nics = machine.nic_gbps * machine.nics_per_server * each / machine.gpus_per_server
    inside = machine.nvlink_gbps if machine.nvlink_domain > 1 else machine.intra_server_gbps
    plain = Machine(
        each, nics, machine.gpu, machine.gpu_memory_gb, inside, machine.latency_us, machine.intra_latency_us
    )
    cluster = single_switch(-(-profile.workers // each), plain)
    played = play_on(cluster, profile, tuple(range(profile.workers)), collective)
    out = {link.src: link.id for link in cluster.topology.links}
    shares = []
    for server in cluster.servers:
        pieces = played.links.get(out[server.name], ())
        shares.append(tuple(Piece(x.start_s, x.end_s, x.bytes_per_s / len(server.gpus)) for x in pieces))
    return Alone(profile, played, tuple(shares[w // each] for w in range(profile.workers)))


def run_alone(profile: Profile, nic_bytes_per_s: float, collective: str = "ring") -> Alone:
    """Play one iteration; `collective` is used for all-reduces that do not name one."""
    if not 0 < nic_bytes_per_s < float("inf"):
        raise InputError(f"the NIC's speed is {nic_bytes_per_s} bytes/s; it must be finite and more than 0")
    machine = Machine(gpus_per_server=1, nic_gbps=bytes_per_s_to_gbps(nic_bytes_per_s))
    cluster = single_switch(profile.workers, machine)
    played = play_on(cluster, profile, tuple(range(profile.workers)), collective)
    out = {link.src: link.id for link in cluster.topology.links}
    return Alone(profile, played, tuple(played.links.get(out[server.name], ()) for server in cluster.servers))
