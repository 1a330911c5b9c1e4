"""arnold: a large job over the fewest minipods, groups that talk kept together (Arnold, He et al. 2025).

A minipod is a group of servers under switches of their own: the outermost level below the whole cluster. The nodes of a
job form a matrix: a row is a pipeline group, one node of each stage, and a column a stage, whose nodes are data
parallel. A mixed-integer program says how many nodes of each row go to which minipod. It weighs the minipods in use,
which data parallelism crosses, against the most minipods of one row, which a pipeline crosses.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from weft.model.plan import Placement, State
from weft.model.policy import setting
from weft.model.view import ClusterView, Fact, JobView, Offer
from weft.policies.place.base import Answer, Place
from weft.policies.place.best_fit import BestFit

Ints = npt.NDArray[np.int64]

FEWER, CLOSER = 1e-4, 1e-6  # what a minipod more, and a row's minipod more, cost where the objective is the same
NODES = 1000  # of the search tree: a bound on the time that does not depend on the machine


def spread(minipods: Sequence[int]) -> int:
    """Minipods over which a group is spread: 0 if it is in one (Eq. 3)."""
    used = len(set(minipods))
    return used if used > 1 else 0


def shares(free: Ints, rows: int, size: int, alpha: float) -> Ints | None:
    """Nodes of each row (of `size` nodes) on each minipod (with so many free): Eq. 4 to 10, with whole nodes.

    Least alpha x minipods in use + (1 - alpha) x most minipods of a row; of equals fewer minipods, then closer rows.
    """
    from scipy.optimize import Bounds, LinearConstraint, milp
    from scipy.sparse import coo_array

    pods = len(free)
    cells = rows * pods  # of n[i, j] and of s[i, j]; then y[j] and T
    y0, last = 2 * cells, 2 * cells + pods
    cost = np.zeros(last + 1)
    cost[y0:last], cost[last] = alpha + FEWER, 1.0 - alpha + CLOSER
    entries: list[tuple[int, int, float]] = []
    low: list[float] = []
    high: list[float] = []

    def limit(terms: Sequence[tuple[int, float]], least: float, most: float) -> None:
        entries.extend((len(low), at, value) for at, value in terms)
        low.append(least)
        high.append(most)

    for i in range(rows):
        cells_i = range(i * pods, (i + 1) * pods)
        limit([(at, 1.0) for at in cells_i], size, size)
        limit([*((cells + at, 1.0) for at in cells_i), (last, -1.0)], -np.inf, 0.0)
        for at in cells_i:
            limit([(at, 1.0), (cells + at, -float(size))], -np.inf, 0.0)
    for j in range(pods):
        limit([*((i * pods + j, 1.0) for i in range(rows)), (y0 + j, -float(free[j]))], -np.inf, 0.0)
    names, columns, values = zip(*entries, strict=True)
    matrix = coo_array((values, (names, columns)), shape=(len(low), last + 1)).tocsr()
    most = np.concatenate([np.full(cells, size), np.ones(cells + pods), [pods]])
    found = milp(
        cost, integrality=np.ones(last + 1), bounds=Bounds(0.0, most), constraints=LinearConstraint(matrix, low, high),
        options={"node_limit": NODES},
    )  # fmt: skip
    if found.x is None:
        return None
    nodes: Ints = np.rint(found.x[:cells]).astype(np.int64).reshape(rows, pods)
    return nodes


@dataclass(eq=False)
class Arnold(Place):
    """`arnold`, or `arnold:alpha=X`: the weight of minipods in use against that of pipelines that cross (0).

    Kept: the matrix of nodes, the program with whole nodes, consecutive ranks on nodes of one minipod. A job that does
    not fill whole free nodes is placed by best fit. Left out: alpha from profiled jobs that are similar (it is a
    setting), and reserving nodes before the large job arrives, as no order tells of jobs to come.
    """

    name = "arnold"
    needs = frozenset({Fact.PROFILE})
    alpha: float = setting(0.0, "alpha", within="[0, 1]")

    def place(self, view: ClusterView, job: JobView, gpus: int, offer: Offer, state: State) -> Answer:
        """Whole nodes by the program, or the best fit."""
        each = view.cluster.largest_server
        nodes = np.flatnonzero((view.cluster.gpus_per_server == each) & (offer.free_per_server == each))
        if gpus % each or gpus // each > len(nodes) or gpus <= each:
            return BestFit().place(view, job, gpus, offer, state)
        levels = view.cluster.levels[1:-1]
        pod_of = levels[-1].of_server[nodes] if levels else np.zeros(len(nodes), np.int64)
        pods, pod_of = np.unique(pod_of, return_inverse=True)
        free = np.bincount(pod_of, minlength=len(pods)).astype(np.int64)
        columns = job.job.profiles[gpus].stages
        if gpus // each % columns:  # a stage that is no whole number of nodes: nodes are placed one by one
            columns = 1
        found = shares(free, gpus // each // columns, columns, self.alpha)
        if found is None:
            return BestFit().place(view, job, gpus, offer, state)
        used, most = int((found.sum(axis=0) > 0).sum()), int((found > 0).sum(axis=1).max())
        chosen = _ranks(found, [nodes[pod_of == j].tolist() for j in range(len(pods))])
        placement: Placement = tuple(
            gpu for column in zip(*chosen, strict=True) for node in column
            for gpu in offer.free_among(view.cluster.servers[node].gpus)[:each]
        )  # fmt: skip
        return Answer(placement, f"on {used} minipods, each pipeline on at most {most}", state)


def _ranks(found: Ints, free: Sequence[list[int]]) -> list[list[int]]:
    """The node of each row and column. Rows go through the minipods in one order, so that the same columns of several
    rows are beside each other; full minipods come first."""
    order = np.argsort(-found.sum(axis=0), kind="stable").tolist()
    left = [iter(nodes) for nodes in free]
    rows = sorted(range(len(found)), key=lambda i: [-int(found[i, j]) for j in order])
    return [[next(left[j]) for j in order for _ in range(int(found[i, j]))] for i in rows]
