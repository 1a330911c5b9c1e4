"""Genetic search over allocations: GPUs of each job on each node (Pollux, section 4.2)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Problem:
    """Speed-ups by job, number of GPUs and one node or several; free GPUs by node; the allocation that is now.

    `penalty` multiplies the speed-up of a job whose allocation changes. Sizes that a job cannot run at have speed-up 0.
    """

    speedup: Floats  # jobs x (GPUs + 1) x 2
    capacity: Ints  # by node
    current: Ints  # jobs x nodes
    penalty: Floats  # by job

    @cached_property
    def able(self) -> npt.NDArray[np.bool_]:
        """Jobs x GPUs: which sizes can run (none always can)."""
        able: npt.NDArray[np.bool_] = self.speedup.max(axis=2) > 0
        able[:, 0] = True
        return able

    def fitness(self, population: Ints) -> Floats:
        """Power mean (p = -1) of the speed-ups of all jobs, one number per allocation."""
        sizes = np.minimum(population.sum(axis=2), self.speedup.shape[1] - 1)
        several = ((population > 0).sum(axis=2) > 1).astype(np.int64)
        rows = np.arange(population.shape[1])
        value = self.speedup[rows, sizes, several]
        changed = (population != self.current).any(axis=2)
        value = np.where(changed, value * self.penalty, value)
        mean: Floats = 1.0 / np.mean(1.0 / np.maximum(value, 1e-3), axis=1)
        return mean


_PATIENCE = 4  # generations without a better one before the search ends
_CLIMBERS, _STEPS = 4, 24  # how many of the first generation also climb, and in how many steps at most


def evolve(problem: Problem, rng: np.random.Generator, population: int = 12, generations: int = 12) -> Ints:
    """The fittest allocation found; feasible: no node is overfull, no two distributed jobs share a node."""
    jobs, nodes = problem.current.shape
    people = np.stack([problem.current, *(_spread_out(problem, rng) for _ in range(population - 1))])
    people = np.stack([repaired(problem, person, rng) for person in people])
    first = people
    idle, best = 0, -1.0
    for _ in range(generations):
        value = problem.fitness(people)
        children = [_mutated(problem, _crossed(people, value, rng), rng) for _ in range(population)]
        both = np.concatenate([people, np.stack([repaired(problem, child, rng) for child in children])])
        fitness = problem.fitness(both)
        order = np.argsort(-fitness, kind="stable")[:population]
        people = both[order]
        idle = idle + 1 if fitness[order[0]] <= best * (1 + 1e-9) else 0
        best = max(best, float(fitness[order[0]]))
        if idle >= _PATIENCE:
            break
    climbers = [people[0], people[len(people) // 3], people[2 * len(people) // 3], *first[:_CLIMBERS]]
    tops = [_climbed(problem, person) for person in climbers]
    top = tops[int(np.argmax(problem.fitness(np.stack(tops))))]
    return np.asarray(top.reshape(jobs, nodes), np.int64)


def _climbed(problem: Problem, person: Ints) -> Ints:
    """Hill climbing: GPUs change hands, or are taken or left, one at a time, as long as the result is fitter and can
    run."""
    jobs, nodes = person.shape
    rows, most = np.arange(jobs), problem.able.shape[1] - 1
    best = float(problem.fitness(person[None])[0])
    for _ in range(_STEPS):
        tries = []
        for node in range(nodes):
            spare = int(problem.capacity[node] - person[:, node].sum()) > 0
            for giver in (*np.flatnonzero(person[:, node]), *((-1,) if spare else ())):
                for taker in range(-1, jobs):
                    if taker != giver:
                        child = person.copy()
                        if giver >= 0:
                            child[giver, node] -= 1
                        if taker >= 0:
                            child[taker, node] += 1
                        tries.append(child)
        both = np.stack(tries) if tries else person[None]
        sizes = both.sum(axis=2)
        runs = (sizes <= most).all(axis=1) & problem.able[rows, np.minimum(sizes, most)].all(axis=1)
        apart = ((both > 0) & ((both > 0).sum(axis=2) > 1)[:, :, None]).sum(axis=1).max(axis=1) <= 1
        value = np.where(runs & apart, problem.fitness(both), -np.inf)
        top = int(np.argmax(value))
        if value[top] <= best * (1 + 1e-9):
            break
        person, best = both[top], float(value[top])
    return person


def _spread_out(problem: Problem, rng: np.random.Generator) -> Ints:
    """Jobs in random order, each a random size packed on as few nodes as it takes."""
    free = problem.capacity.copy()
    person = np.zeros_like(problem.current)
    share = max(1, int(free.sum() // max(1, len(person))))
    for job in rng.permutation(len(person)):
        want = int(rng.integers(1, 2 * share + 1))
        for node in np.lexsort((rng.random(len(free)), -free)):
            given = min(want, int(free[node]))
            person[job, node] += given
            free[node] -= given
            want -= given
            if not want:
                break
    return person


def _crossed(people: Ints, fitness: Floats, rng: np.random.Generator) -> Ints:
    """A child of two: each job's row from one of them. Parents are the fitter of two drawn."""
    parents = []
    for _ in range(2):
        a, b = rng.integers(0, len(people), 2)
        parents.append(people[a if fitness[a] >= fitness[b] else b])
    take = rng.random(people.shape[1]) < 0.5
    child: Ints = np.where(np.asarray(take)[:, None], parents[0], parents[1])
    return child


def _mutated(problem: Problem, person: Ints, rng: np.random.Generator) -> Ints:
    """A copy with some entries drawn again, one per job on average."""
    hit = rng.random(person.shape) < 1.0 / max(1, person.shape[1])
    anew = rng.integers(0, problem.capacity[None, :] + 1, person.shape)
    return np.where(hit, anew, person)


def repaired(problem: Problem, person: Ints, rng: np.random.Generator) -> Ints:
    """Overfull nodes lose GPUs, distributed jobs give way to each other, odd sizes shrink to ones that can run."""
    person = person.copy()
    order = rng.permutation(len(person))
    cut = np.cumsum(person[order], axis=0) - problem.capacity[None, :]
    person[order] = np.maximum(0, person[order] - np.maximum(0, cut))
    if problem.capacity.max(initial=0) > 1:
        _apart(person, order)
    able = problem.able
    most = able.shape[1] - 1
    sizes = person.sum(axis=1)
    for job in np.flatnonzero((sizes > most) | ~able[np.arange(len(person)), np.minimum(sizes, most)]):
        size = int(person[job].sum())
        fits = np.flatnonzero(able[job, : min(size, most) + 1])
        extra = size - (int(fits[-1]) if len(fits) else 0)
        for node in np.argsort(person[job], kind="stable"):  # smallest parts first: fewer nodes
            given = min(extra, int(person[job, node]))
            person[job, node] -= given
            extra -= given
    return person


def _apart(person: Ints, order: Ints) -> None:
    """Keep only the first of several distributed jobs on a node."""
    several = (person > 0).sum(axis=1) > 1
    for node in np.flatnonzero((person[several] > 0).sum(axis=0) > 1):
        there = [job for job in order if several[job] and person[job, node] > 0]
        for job in there[1:]:
            person[job, node] = 0
            several[job] = (person[job] > 0).sum() > 1
