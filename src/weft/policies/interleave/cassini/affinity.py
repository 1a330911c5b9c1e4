"""The affinity graph: jobs, links that several of them use, and a time-shift on every edge (CASSINI section 4.1).

Algorithm 1 finds one shift per job that keeps what every link asks for, if the graph has no loop. As printed, Theorem 1
says that differences of shifts are congruent modulo the perimeter of a link; Algorithm 1's own `mod iter_time` breaks
that (periods 40 and 60, shifts 10 and 0: 50 against 110 modulo 120). What holds, and suffices, is congruence modulo the
greatest common divisor of the two periods."""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

L = TypeVar("L", bound=Hashable)


@dataclass(frozen=True)
class Component:
    """A connected part of the graph: its jobs and its link vertices, in order of appearance."""

    jobs: tuple[str, ...]
    links: tuple[int, ...]  # indices into the list of link vertices
    loops: int  # edges beyond those of a tree; Algorithm 1 applies where there are none


def merged(users: Mapping[L, Sequence[str]]) -> dict[tuple[str, ...], list[L]]:
    """Links by the jobs that use them: those with the same jobs are one vertex.

    A ring uses both directions of a cable: without this, any two jobs on a cable would make a loop.
    """
    vertices: dict[tuple[str, ...], list[L]] = {}
    for link, jobs in users.items():
        if len(jobs) > 1:
            vertices.setdefault(tuple(jobs), []).append(link)
    return vertices


def components(vertices: Sequence[Sequence[str]]) -> list[Component]:
    """Connected parts of the bipartite graph whose link vertices carry these jobs."""
    at: dict[str, list[int]] = {}
    for i, jobs in enumerate(vertices):
        for job in jobs:
            at.setdefault(job, []).append(i)
    seen: set[str] = set()
    found = []
    for first in at:
        if first in seen:
            continue
        seen.add(first)
        queue, jobs, links = deque([first]), [], dict[int, None]()
        while queue:
            job = queue.popleft()
            jobs.append(job)
            for i in at[job]:
                links[i] = None
                for other in vertices[i]:
                    if other not in seen:
                        seen.add(other)
                        queue.append(other)
        edges = sum(len(vertices[i]) for i in links)
        found.append(Component(tuple(jobs), tuple(links), edges - len(jobs) - len(links) + 1))
    return found


def unique_shifts(vertices: Sequence[Mapping[str, float]], periods_s: Mapping[str, float]) -> dict[str, float]:
    """Algorithm 1: one shift per job from the shifts on each link, part by part; the first job's is 0.

    Going from a job to a link takes its shift there away, going from the link to another job adds that one's. In a
    part with loops the first way to a job decides.
    """
    at: dict[str, list[Mapping[str, float]]] = {}
    for shifts in vertices:
        for job in shifts:
            at.setdefault(job, []).append(shifts)
    found: dict[str, float] = {}
    for first in at:
        if first in found:
            continue
        found[first] = 0.0
        queue = deque([first])
        while queue:
            job = queue.popleft()
            for shifts in at[job]:
                for other, shift in shifts.items():
                    if other not in found:
                        found[other] = (found[job] - shifts[job] + shift) % periods_s[other]
                        queue.append(other)
    return found
