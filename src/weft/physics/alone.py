"""One iteration of a model as pictures show it: when each task runs, and what each worker's NIC sends.

Every worker has a server of its own with one full-duplex NIC, and one switch joins them all.
"""

from __future__ import annotations

from dataclasses import dataclass

from weft.errors import InputError
from weft.model.profile import Profile
from weft.model.topologies import Machine, single_switch
from weft.model.units import bytes_per_s_to_gbps
from weft.physics.iteration import play_on

__all__ = ["Alone", "Segment", "Span", "run_alone"]


@dataclass(frozen=True, slots=True)
class Span:
    """When a task ran."""

    start_s: float
    end_s: float


@dataclass(frozen=True, slots=True)
class Segment:
    """A time in which a NIC sent at one rate."""

    start_s: float
    end_s: float
    bytes_per_s: float


@dataclass(frozen=True)
class Alone:
    """The iteration: a span per task (in the profile's order), and what a worker sends over time."""

    profile: Profile
    nic_bytes_per_s: float
    spans: tuple[Span, ...]
    sent: tuple[tuple[Segment, ...], ...]  # by worker

    @property
    def iteration_s(self) -> float:
        """Length of the iteration: the perimeter of CASSINI's circle."""
        return max((s.end_s for s in self.spans), default=0.0)

    def up_phases(self, worker: int = 0, least_s: float = 0.0) -> tuple[Segment, ...]:
        """CASSINI's Up phases of a worker's NIC: times of sending without a pause, with their mean rate.

        Pauses of `least_s` or shorter are no Down phase.
        """
        merged: list[list[float]] = []  # start, end, bytes
        for s in self.sent[worker]:
            moved = (s.end_s - s.start_s) * s.bytes_per_s
            if merged and s.start_s - merged[-1][1] <= max(least_s, 1e-9 * self.iteration_s):
                merged[-1][1] = s.end_s
                merged[-1][2] += moved
            else:
                merged.append([s.start_s, s.end_s, moved])
        return tuple(Segment(a, b, moved / (b - a)) for a, b, moved in merged)

    def sent_bytes(self, worker: int) -> float:
        """Bytes that a worker's NIC sends in one iteration."""
        return sum((s.end_s - s.start_s) * s.bytes_per_s for s in self.sent[worker])


def run_alone(profile: Profile, nic_bytes_per_s: float, collective: str = "ring") -> Alone:
    """Play one iteration; `collective` is used for all-reduces that do not name one."""
    if not 0 < nic_bytes_per_s < float("inf"):
        raise InputError(f"the NIC's speed is {nic_bytes_per_s} bytes/s; it must be finite and more than 0")
    machine = Machine(gpus_per_server=1, nic_gbps=bytes_per_s_to_gbps(nic_bytes_per_s))
    cluster = single_switch(profile.workers, machine)
    played = play_on(cluster, profile, tuple(range(profile.workers)), collective)
    spans = tuple(Span(start, end) for start, end in zip(played.start_s, played.end_s, strict=True))
    out = {link.src: link.id for link in cluster.topology.links}
    sent = tuple(
        tuple(Segment(*piece) for piece in played.links.get(out[server.name], ())) for server in cluster.servers
    )
    return Alone(profile, nic_bytes_per_s, spans, sent)
