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
    for _ in range(_STEPS):
        step = _best_step(problem, person)
        if step is None:
            break
        node, giver, taker = step
        person = person.copy()
        if giver >= 0:
            person[giver, node] -= 1
        if taker >= 0:
            person[taker, node] += 1
    return person


def _best_step(problem: Problem, person: Ints) -> tuple[int, int, int] | None:
    """The (node, giver, taker) that raises the fitness most; -1 stands for nobody. None if no step raises it.

    A GPU that changes hands touches two jobs only, so every step is valued by what those two have after it.
    """
    jobs = len(person)
    sizes, nodes_of = person.sum(axis=1)[:, None], (person > 0).sum(axis=1)[:, None]
    cost = _costs(problem, person, sizes, nodes_of, 0)[:, 0]
    less = _costs(problem, person, sizes - 1, nodes_of - (person == 1), -1)
    more = _costs(problem, person, sizes + 1, nodes_of + (person == 0), 1)
    spare = np.flatnonzero(problem.capacity > person.sum(axis=0))
    nodes, givers = np.nonzero(person.T)
    node, giver = np.append(nodes, spare), np.append(givers, np.full(len(spare), -1))
    order = np.lexsort((np.where(giver < 0, jobs, giver), node))
    node, giver = node[order], giver[order]
    if not len(node):
        return None
    given = np.where(giver >= 0, cost[giver] - less[giver, node], 0.0)
    taken = given[:, None] + cost[None, :] - more[:, node].T
    taken[_crowded(person, node, giver) | (giver[:, None] == np.arange(jobs))] = -np.inf
    gain = np.column_stack([np.where(giver >= 0, given, -np.inf), taken])
    gain = np.round(gain, 12)  # among equally good steps the first is taken, whatever the last bit says
    step, taker = divmod(int(np.argmax(gain)), jobs + 1)
    if gain[step, taker] <= cost.sum() * (1 - 1 / (1 + 1e-9)):
        return None
    return int(node[step]), int(giver[step]), taker - 1


def _crowded(person: Ints, node: Ints, giver: Ints) -> npt.NDArray[np.bool_]:
    """By step and taker: whether two distributed jobs would share a node once the giver has given and the taker has
    taken. In `person` none do."""
    nodes_of = (person > 0).sum(axis=1)
    distributed = ((person > 0) & (nodes_of > 1)[:, None]).sum(axis=0)  # by node
    leaves = (giver >= 0) & (nodes_of[giver] > 1) & (person[giver, node] == 1)
    rest = ((person > 0) @ np.arange(person.shape[1]))[giver] - node
    now_alone = np.where(leaves & (nodes_of[giver] == 2), rest, -1)  # the node of a giver that has one left
    joins = person[:, node].T == 0
    home = person.argmax(axis=1)  # the node of a taker that is on one node
    there = joins & (nodes_of > 0) & (distributed[node] - leaves > 0)[:, None]
    at_home = joins & (nodes_of == 1) & (distributed[home] - (now_alone[:, None] == home) > 0)
    crowded: npt.NDArray[np.bool_] = there | at_home
    return crowded


def _costs(problem: Problem, person: Ints, sizes: Ints, nodes: Ints, change: int) -> Floats:
    """1 / speed-up of each job (rows) if it had this size on so many nodes and its entry at a node (columns) changed.

    Infinite where a job cannot have that size.
    """
    most = problem.able.shape[1] - 1
    rows = np.arange(len(person))[:, None]
    inside = np.clip(sizes, 0, most)
    value = problem.speedup[rows, inside, (nodes > 1).astype(np.int64)]
    differs = (person != problem.current).sum(axis=1)[:, None] - (person != problem.current)
    changed = (differs + (person + change != problem.current)) > 0
    value = np.where(changed, value * problem.penalty[:, None], value)
    able = problem.able[rows, inside] & (sizes >= 0) & (sizes <= most)
    cost: Floats = np.where(able, 1.0 / np.maximum(value, 1e-3), np.inf)
    return cost


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
        smallest = np.argsort(person[job], kind="stable")  # these are given up first: fewer nodes
        parts = person[job, smallest]
        person[job, smallest] -= np.clip(extra - (np.cumsum(parts) - parts), 0, parts)
    return person


def _apart(person: Ints, order: Ints) -> None:
    """Keep only the first of several distributed jobs on a node."""
    several = (person > 0).sum(axis=1) > 1
    for node in np.flatnonzero((person[several] > 0).sum(axis=0) > 1):
        there = [job for job in order if several[job] and person[job, node] > 0]
        for job in there[1:]:
            person[job, node] = 0
            several[job] = (person[job] > 0).sum() > 1
