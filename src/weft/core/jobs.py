"""SortedJobs: jobs that stay in order while they come and go one at a time."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Iterator, Mapping, ValuesView
from operator import itemgetter

from weft.model.view import JobView

__all__ = ["SortedJobs"]

_Entry = tuple[float, float, int, str]  # key, time of submission, number of arrival (unique), id


class SortedJobs(Mapping[str, JobView]):
    """Jobs by (key, submission time, number of arrival); adding and removing one costs a binary search.

    The key of a job is taken when it comes in; `put` replaces what is known of a job and leaves it where it is.

    A sorted list beats a heap or a tree here: policies walk it from the front, and moving the tail of ten thousand
    pointers takes microseconds.
    """

    def __init__(self, key: Callable[[JobView], float] | None = None) -> None:
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

    def in_order(self) -> Iterator[JobView]:
        """The jobs, first to last."""
        return map(self._jobs.__getitem__, self)


class _Values(ValuesView[JobView]):
    _mapping: SortedJobs

    def __iter__(self) -> Iterator[JobView]:
        return self._mapping.in_order()
