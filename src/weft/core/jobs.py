"""SortedJobs and QueueBySize: jobs that stay in order while they come and go one at a time."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Iterator, Mapping, ValuesView
from enum import Enum
from heapq import heapify, heappop, heapreplace
from operator import itemgetter
from typing import Any

from weft.model.view import JobView

_Entry = tuple[Any, float, int, str]  # key, time of submission, number of arrival (unique), id


class SortedJobs(Mapping[str, JobView]):
    """Jobs by (key, submission time, number of arrival); adding and removing one costs a binary search.

    The key of a job is taken when it comes in; `put` replaces what is known of a job and leaves it where it is.

    A sorted list beats a heap or a tree here: policies walk it from the front, and moving the tail of ten thousand
    pointers takes microseconds.
    """

    def __init__(self, key: Callable[[JobView], Any] | None = None) -> None:
        self._key = key
        self._jobs: dict[str, JobView] = {}
        self._entries: list[_Entry] = []
        self._entry: dict[str, _Entry] = {}

    def add(self, job: JobView, number: int) -> None:
        """Take a job in; `number` is its place among all jobs ever submitted."""
        entry = (0.0 if self._key is None else self._key(job), job.job.submit_s, number, job.job.id)
        self._jobs[job.job.id] = job
        self._entry[job.job.id] = entry
        insort(self._entries, entry)

    def put(self, job: JobView) -> None:
        """Replace what is known of a job."""
        self._jobs[job.job.id] = job

    def remove(self, job_id: str) -> None:
        """Let a job go."""
        del self._jobs[job_id]
        entry = self._entry.pop(job_id)
        del self._entries[bisect_left(self._entries, entry)]

    def __getitem__(self, job_id: str) -> JobView:
        return self._jobs[job_id]

    def __contains__(self, job_id: object) -> bool:
        return job_id in self._jobs

    def __len__(self) -> int:
        return len(self._jobs)

    def __iter__(self) -> Iterator[str]:
        return map(itemgetter(3), self._entries)

    def values(self) -> ValuesView[JobView]:
        """The jobs, first to last."""
        return _Values(self)

    def entries(self) -> Iterator[_Entry]:
        """What the jobs are sorted by, first to last."""
        return iter(self._entries)

    def in_order(self) -> Iterator[JobView]:
        """The jobs, first to last."""
        return map(self._jobs.__getitem__, self)

    def without(self, others: Mapping[str, object]) -> list[JobView]:
        """The jobs that are not among `others`, first to last. It costs little where the others are few."""
        return [self._jobs[name] for name in sorted(self._jobs.keys() - others.keys(), key=self._entry.__getitem__)]


class _Values(ValuesView[JobView]):
    _mapping: SortedJobs

    def __iter__(self) -> Iterator[JobView]:
        return self._mapping.in_order()


class Pass(Enum):
    """What a queue may skip: nothing, one job, or all jobs of its size."""

    NONE = 0
    JOB = 1
    SIZE = 2


class QueueBySize:
    """Jobs by a key as in SortedJobs, grouped by size, so that all jobs of a size that is too large are skipped at
    once.

    The size of a job is the fewest GPUs that it can start on.
    """

    def __init__(self, key: Callable[[JobView], Any]) -> None:
        self._key = key
        self._of_size: dict[int, SortedJobs] = {}
        self._size: dict[str, int] = {}

    def add(self, job: JobView, number: int, size: int) -> None:
        """Take a job in; `number` is its place among all jobs ever submitted."""
        if size not in self._of_size:
            self._of_size[size] = SortedJobs(self._key)
        self._of_size[size].add(job, number)
        self._size[job.id] = size

    def remove(self, job_id: str) -> None:
        """Let a job go."""
        size = self._size.pop(job_id)
        self._of_size[size].remove(job_id)
        if not self._of_size[size]:
            del self._of_size[size]

    def in_order(self, passes: Callable[[int, JobView], Pass] | None, most: int | None = None) -> Iterator[JobView]:
        """The jobs, first to last, of all sizes or of those up to `most`. When a job's turn comes, `passes` may say
        that it is skipped, alone or with all that follow it in its size. The very first job to be skipped is produced
        all the same.

        A job that is skipped stays skipped until the end, and the queue may not change meanwhile.
        """
        heads = [(next(entries), size, entries) for size, entries in self._all_entries(most)]
        heapify(heads)
        any_passed = False
        while heads:
            entry, size, entries = heads[0]
            job = self._of_size[size][entry[3]]
            way = Pass.NONE if passes is None else passes(size, job)
            if way is Pass.NONE or not any_passed:
                yield job
            any_passed = any_passed or way is not Pass.NONE
            following = None if way is Pass.SIZE else next(entries, None)
            if following is None:
                heappop(heads)
            else:
                heapreplace(heads, (following, size, entries))

    def _all_entries(self, most: int | None) -> Iterator[tuple[int, Iterator[_Entry]]]:
        return ((size, jobs.entries()) for size, jobs in self._of_size.items() if most is None or size <= most)
