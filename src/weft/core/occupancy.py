"""Occupancy: who holds which GPU. Draft: what would be free if some jobs came and others left."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from weft.model.cluster import Cluster
from weft.model.view import Offer

_T = TypeVar("_T", bound=np.generic)
_FEW = 32  # up to this many GPUs a loop is faster than numpy


class Draft:
    """GPUs as they would be: a copy that can be changed, shown to policies as a read-only Offer.

    The copy is made with the first change, since most drafts see none. Until then a draft is valid only as long as its
    source does not change.
    """

    _residents: npt.NDArray[np.int32]
    _memory: npt.NDArray[np.float64]
    _usable: npt.NDArray[np.bool_]
    _free_per_server: npt.NDArray[np.int64]

    def __init__(self, cluster: Cluster, offer: Offer) -> None:
        self._cluster = cluster
        self._n_free = offer.n_free
        self._offer: Offer | None = offer
        self._own = False  # whether the arrays are this draft's
        self._room: dict[float, int] = {}

    def _take_over(self, offer: Offer) -> None:
        """Copy the arrays; policies see views of them that are read-only."""
        self._own, self._offer = True, None
        self._residents = offer.residents.copy()
        self._memory = offer.memory.copy()
        self._usable = offer.usable.copy()
        self._free_per_server = offer.free_per_server.copy()
        self._shown = (
            _read_only(self._residents),
            _read_only(self._memory),
            _read_only(self._usable),
            _read_only(self._free_per_server),
        )

    @property
    def offer(self) -> Offer:
        """The GPUs as they stand in this draft; its arrays follow the draft, so use it before the next change."""
        if self._offer is None:
            self._offer = Offer(*self._shown, self._n_free)
        return self._offer

    @property
    def n_free(self) -> int:
        """Usable GPUs that nobody is on."""
        return self._n_free

    def copy(self) -> Draft:
        """Another draft that starts from this one."""
        made = Draft(self._cluster, self.offer)
        made._take_over(self.offer)
        return made

    def take(self, gpus: Sequence[int], memory_bytes: float | npt.NDArray[np.float64]) -> None:
        """Put a job on these GPUs (all different), or several jobs that have nothing in common."""
        self._to_change()
        if len(gpus) == 1 and isinstance(memory_bytes, float):  # most jobs of most traces
            self._take_one(gpus[0], memory_bytes)
            return
        ids = np.asarray(gpus, dtype=np.int64)
        fresh = ids[(self._residents[ids] == 0) & self._usable[ids]]
        self._residents[ids] += 1
        self._memory[ids] -= memory_bytes
        self._count_free(fresh, -1)

    def _take_one(self, gpu: int, memory_bytes: float) -> None:
        before = self._residents[gpu]
        self._residents[gpu] = before + 1
        self._memory[gpu] -= memory_bytes
        if before == 0 and self._usable[gpu]:
            self._free_per_server[self._cluster.server_of_gpu[gpu]] -= 1
            self._n_free -= 1

    def leave(self, gpus: Sequence[int], memory_bytes: float | npt.NDArray[np.float64]) -> None:
        """Take a job, or several that have nothing in common, off these GPUs (all different)."""
        self._to_change()
        if len(gpus) == 1 and isinstance(memory_bytes, float):
            self._leave_one(gpus[0], memory_bytes)
            return
        ids = np.asarray(gpus, dtype=np.int64)
        self._residents[ids] -= 1
        self._memory[ids] += memory_bytes
        empty = ids[self._residents[ids] == 0]
        self._memory[empty] = self._cluster.memory_of_gpu[empty]  # exact: sums of floats would drift
        self._count_free(empty[self._usable[empty]], 1)

    def _leave_one(self, gpu: int, memory_bytes: float) -> None:
        left = self._residents[gpu] - 1
        self._residents[gpu] = left
        if left:
            self._memory[gpu] += memory_bytes
            return
        self._memory[gpu] = self._cluster.memory_of_gpu[gpu]
        if self._usable[gpu]:
            self._free_per_server[self._cluster.server_of_gpu[gpu]] += 1
            self._n_free += 1

    def set_usable(self, servers: Iterable[int], usable: bool) -> None:
        """Take servers out, or put them back."""
        self._to_change()
        for server in servers:
            ids = np.asarray(self._cluster.servers[server].gpus, dtype=np.int64)
            changed = ids[self._usable[ids] != usable]
            self._usable[ids] = usable
            self._count_free(changed[self._residents[changed] == 0], 1 if usable else -1)

    def room(self, memory_bytes: float, shared: bool) -> int:
        """GPUs that could take a worker of this size; with `shared`, also those that have residents."""
        if not shared:
            return self._n_free if memory_bytes <= self._cluster.gpu_memory_bytes else 0
        if memory_bytes not in self._room:
            offer = self.offer
            self._room[memory_bytes] = int(np.count_nonzero(offer.usable & (offer.memory >= memory_bytes)))
        return self._room[memory_bytes]

    def has(self, gpus: Sequence[int], memory_bytes: float) -> bool:
        """True if each of these GPUs has so much memory left."""
        return bool((self.offer.memory[np.asarray(gpus, dtype=np.int64)] >= memory_bytes).all())

    def _to_change(self) -> None:
        if not self._own:
            self._take_over(self.offer)
        self._offer = None
        self._room.clear()

    def _count_free(self, gpus: npt.NDArray[np.int64], sign: int) -> None:
        self._n_free += sign * len(gpus)
        servers = self._cluster.server_of_gpu[gpus]
        if len(gpus) > _FEW:
            np.add.at(self._free_per_server, servers, sign)
            return
        for server in servers.tolist():
            self._free_per_server[server] += sign


class Occupancy(Draft):
    """The GPUs as they are, with the names of the jobs on them."""

    def __init__(self, cluster: Cluster) -> None:
        n = cluster.n_gpus
        memory = cluster.memory_of_gpu
        per_server = cluster.gpus_per_server.copy()
        offer = Offer(np.zeros(n, dtype=np.int32), memory, np.ones(n, dtype=np.bool_), per_server, n)
        super().__init__(cluster, offer)
        self._take_over(offer)
        self._names: list[tuple[str, ...]] = [()] * n
        self._memory_of: dict[str, float] = {}
        self.down: set[int] = set()

    def enter(self, job_id: str, gpus: Sequence[int], memory_bytes: float) -> None:
        """A job takes its GPUs."""
        self.take(gpus, memory_bytes)
        self._memory_of[job_id] = memory_bytes
        for g in gpus:
            self._names[g] = (*self._names[g], job_id)

    def exit(self, job_id: str, gpus: Sequence[int]) -> None:
        """A job leaves its GPUs."""
        self.leave(gpus, self._memory_of.pop(job_id))
        for g in gpus:
            left = tuple(name for name in self._names[g] if name != job_id)
            self._names[g] = left
            if left:  # summed anew: adding and subtracting sizes would drift
                self._memory[g] = self._cluster.memory_of_gpu[g] - sum(self._memory_of[name] for name in left)

    def names(self, gpu: int) -> tuple[str, ...]:
        """Jobs on a GPU, in order of arrival."""
        return self._names[gpu]

    def memory_left(self, gpu: int) -> float:
        """Bytes of a GPU's memory that nobody has taken."""
        return float(self._memory[gpu])

    def server_down(self, server: int) -> None:
        """A server's GPUs are gone (jobs on them leave when the world says so)."""
        self.down.add(server)
        self.set_usable((server,), False)

    def server_up(self, server: int) -> None:
        """A server's GPUs are back."""
        self.down.discard(server)
        self.set_usable((server,), True)


def _read_only(array: npt.NDArray[_T]) -> npt.NDArray[_T]:
    view = array.view()
    view.flags.writeable = False
    return view
