"""What each collective sends, stage by stage, before anyone knows where its workers are."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from weft.errors import InputError
from weft.model.profile import APART
from weft.network.collectives.placed import PLACED, Together
from weft.network.collectives.stages import Pair, Stage, Stages

__all__ = [
    "COLLECTIVES", "Collective", "Pair", "Stage", "Stages", "get_collective", "host_ranks", "stages",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Collective:
    """A collective operation by name: `stages(n, message_bytes, n_ps)`, n > 1; only parameter servers look at n_ps.

    `rack_aware`: which rank stands where in the algorithm is free, so ranks may be ordered by rack and server.
    `placed` takes the node of each rank, for those where it matters who shares one; `stages` has every rank on its own.
    `striped`: between servers with several NICs, each message goes in parts over all NICs that the job has there.
    """

    name: str
    stages: Callable[[int, float, int], Stages]
    rack_aware: bool = False
    striped: bool = False
    placed: Callable[[Together, float], Stages] | None = None


def core_size(n: int) -> int:
    """Largest power of two that is at most n: the workers that take part once the extra ones are folded in."""
    return 1 << (n.bit_length() - 1)


def fold(n: int) -> tuple[list[int], tuple[Pair, ...]]:
    """Ranks that stay, and who folds into whom, when an algorithm for powers of two runs on n workers.

    With r = n - 2^floor(log2 n) extra workers, rank 2i + 1 sends its whole message to rank 2i for each i < r and waits
    for the result; neighbours, because they are the likeliest to share a server.
    """
    extra = n - core_size(n)
    pairs = tuple((2 * i + 1, 2 * i) for i in range(extra))
    return [*range(0, 2 * extra, 2), *range(2 * extra, n)], pairs


def back(pairs: tuple[Pair, ...]) -> tuple[Pair, ...]:
    """The same pairs in the other direction."""
    return tuple((dst, src) for src, dst in pairs)


def _ring(n: int, message_bytes: float, n_ps: int = 1) -> Stages:
    """2(n-1) steps between the same neighbours, one chunk of M/n each: every edge carries 2(n-1)/n M."""
    return (Stage(message_bytes / n, tuple((r, (r + 1) % n) for r in range(n)), 2 * (n - 1)),)


def _half_ring(n: int, message_bytes: float, n_ps: int = 1) -> Stages:
    """All-gather or reduce-scatter: half of the ring's steps, so every edge carries (n-1)/n M."""
    return (Stage(message_bytes / n, tuple((r, (r + 1) % n) for r in range(n)), n - 1),)


def _tree(n: int, message_bytes: float, n_ps: int = 1) -> Stages:
    """ceil(log2 n) rounds up and as many down, each of the whole message, for any n.

    In round i the ranks whose lowest set bit is 2^i send to the rank without that bit: no worker sends or receives two
    messages at once, which is what Table I of the Ada-SRSF paper counts.
    """
    up = []
    distance = 1
    while distance < n:
        up.append(tuple((r, r - distance) for r in range(distance, n, 2 * distance)))
        distance *= 2
    return tuple(Stage(message_bytes, pairs) for pairs in (*up, *map(back, reversed(up))))


def _halving_doubling(n: int, message_bytes: float, n_ps: int = 1) -> Stages:
    """Exchanges of M/2 with the worker half the group away, M/4 a quarter away, ..., and back in reverse.

    (The order of the Titan paper, section II: of four workers the first meets the third with K/2, then the second with
    K/4.) Workers beyond a power of two send their message to a neighbour first and get the result at the end.
    """
    ranks, folded = fold(n)
    core = core_size(n)
    halving = []
    distance, size = core // 2, message_bytes / 2
    while distance:
        halving.append(Stage(size, tuple((ranks[i], ranks[i ^ distance]) for i in range(core))))
        distance, size = distance // 2, size / 2
    both = (*halving, *reversed(halving))
    if not folded:
        return both
    return (Stage(message_bytes, folded), *both, Stage(message_bytes, back(folded)))


def _recursive_doubling(n: int, message_bytes: float, n_ps: int = 1) -> Stages:
    """log2 n exchanges of the whole message; workers beyond a power of two fold into a neighbour first."""
    ranks, folded = fold(n)
    core = core_size(n)
    exchanges = []
    distance = 1
    while distance < core:
        exchanges.append(Stage(message_bytes, tuple((ranks[i], ranks[i ^ distance]) for i in range(core))))
        distance *= 2
    if not folded:
        return tuple(exchanges)
    return (Stage(message_bytes, folded), *exchanges, Stage(message_bytes, back(folded)))


def host_ranks(n: int, n_ps: int) -> tuple[int, ...]:
    """The worker beside which each parameter server runs: server j beside rank floor(j n / n_ps).

    Servers stand on the machines of the job's own workers, spread evenly over the ranks (more servers than workers:
    several beside one), so a job needs no GPUs or machines beyond its placement. Between a worker and a server beside
    it nothing travels.
    """
    return tuple(j * n // n_ps for j in range(n_ps))


def _parameter_server(n: int, message_bytes: float, n_ps: int = 1) -> Stages:
    """Push, then broadcast: M/n_ps between every worker and every server that is not beside it, all at once."""
    return _push_pull(n, message_bytes, host_ranks(n, n_ps))


def _apart(n: int, message_bytes: float, n_ps: int = 1) -> Stages:
    """The same with servers that are places of their own, after the workers: no worker has one beside it."""
    return _push_pull(n, message_bytes, range(n, n + n_ps))


def _push_pull(n: int, message_bytes: float, hosts: Sequence[int]) -> Stages:
    push = tuple((r, host) for host in hosts for r in range(n) if r != host)
    size = message_bytes / len(hosts)
    return (Stage(size, push), Stage(size, back(push)))


def _all_to_all(n: int, message_bytes: float, n_ps: int = 1) -> Stages:
    """One stage: M/n from every worker to every other, all at once; the part for itself stays where it is."""
    return (Stage(message_bytes / n, tuple((a, b) for a in range(n) for b in range(n) if a != b)),)


def _point_to_point(n: int, message_bytes: float, n_ps: int = 1) -> Stages:
    """The whole message from rank i to rank i + n/2: with two workers, from the first to the second; with more
    (replicas of two pipeline stages), pairwise."""
    if n % 2:
        raise InputError(f"collective point-to-point: it has {n} workers; give senders, then as many receivers")
    half = n // 2
    return (Stage(message_bytes, tuple((r, r + half) for r in range(half))),)


def _each_alone(placed: Callable[[Together, float], Stages]) -> Callable[[int, float, int], Stages]:
    def alone(n: int, message_bytes: float, n_ps: int = 1) -> Stages:
        return placed(tuple(range(n)), message_bytes)

    return alone


NCCL = "nccl"  # a choice among some of these by the size of the message; where that is open, it counts as a ring
COLLECTIVES: dict[str, Collective] = {
    c.name: c
    for c in (
        Collective("ring", _ring, rack_aware=True, striped=True),
        Collective("one-ring", _ring, rack_aware=True),  # over one NIC of each server
        Collective("halving-doubling", _halving_doubling),
        Collective("recursive-doubling", _recursive_doubling),
        Collective("tree", _tree, striped=True),
        Collective("parameter-server", _parameter_server),
        Collective(APART, _apart),
        Collective("all-to-all", _all_to_all),
        Collective("point-to-point", _point_to_point),
        Collective("all-gather", _half_ring, rack_aware=True, striped=True),
        Collective("reduce-scatter", _half_ring, rack_aware=True, striped=True),
        *(
            Collective(name, _each_alone(placed), striped=name == "double-tree", placed=placed)
            for name, placed in PLACED.items()
        ),
    )
}


def get_collective(name: str) -> Collective:
    """The collective of that name, or an InputError that lists what there is.

    `ring/8` is a ring in each of eight equal groups of workers, one group after another in the order of ranks.
    """
    base, slash, groups = name.partition("/")
    found = COLLECTIVES.get("ring" if base == NCCL else base)
    if slash and found is not None and (found.placed or base in (APART, NCCL)):
        raise InputError(f"collective {name!r}: {base} goes over all workers at once; leave {slash}{groups} out")
    if found is None or (slash and not re.fullmatch("[1-9][0-9]{0,8}", groups)):
        raise InputError(f"collective {name!r} is unknown; choose one of {', '.join(COLLECTIVES)}, {NCCL}")
    return _grouped(found, int(groups)) if slash else found


def _grouped(base: Collective, groups: int) -> Collective:
    """The same collective in each of so many groups at once."""

    def in_groups(n: int, message_bytes: float, n_ps: int = 1) -> Stages:
        each, rest = divmod(n, groups)
        if rest:
            raise InputError(f"collective {base.name}/{groups}: {n} workers are no {groups} equal groups")
        if each == 1:
            return ()
        return tuple(
            replace(stage, pairs=tuple((a + k, b + k) for k in range(0, n, each) for a, b in stage.pairs))
            for stage in base.stages(each, message_bytes, n_ps)
        )

    return Collective(f"{base.name}/{groups}", in_groups, striped=base.striped)


def stages(name: str, n: int, message_bytes: float, n_ps: int = 1, together: Together | None = None) -> Stages:
    """What the named collective sends among n workers (nothing, for one); `together` is the node of each."""
    if n < 1:
        raise InputError(f"collective {name}: it has {n} workers; give at least 1")
    if n_ps < 1:
        raise InputError(f"collective {name}: it has {n_ps} parameter servers; give at least 1")
    if not 0 <= message_bytes < float("inf"):
        raise InputError(f"collective {name}: its message has {message_bytes} bytes; give a finite size of at least 0")
    spec = get_collective(name)
    if n == 1:
        return ()
    return spec.placed(together, message_bytes) if spec.placed and together else spec.stages(n, message_bytes, n_ps)
