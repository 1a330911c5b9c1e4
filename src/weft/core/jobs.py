"""SortedJobs: jobs that stay in order while they come and go one at a time."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Iterator, Mapping, ValuesView
from typing import Any

from weft.model.view import JobView

__all__ = ["SortedJobs"]


class SortedJobs(Mapping[str, JobView]):
    """Jobs by (key, submission time, number of arrival); adding and removing one costs a binary search.

    A sorted list beats a heap or a tree here: policies walk it from the front, and moving the tail of ten thousand
    pointers takes microseconds.
    """

    def __init__(self, key: Callable[[JobView], float] | None = None) -> None:
        self._key = key
        self._jobs: dict[str, JobView] = {}
        self._entries: list[
            tuple[Any, ...]
        ] = []  # (key, submit_s, number, job): number is unique, so job is not compared
        self._entry: dict[str, tuple[Any, ...]] = {}

    def add(self, job: JobView, number: int) -> None:
        """Take a job in; `number` is its place among all jobs ever submitted."""
        entry = (0.0 if self._key is None else self._key(job), job.job.submit_s, number, job)
        self._jobs[job.job.id] = job
        self._entry[job.job.id] = entry
        insort(self._entries, entry)

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
        return (entry[3].job.id for entry in self._entries)

    def values(self) -> ValuesView[JobView]:
        """The jobs, first to last."""
        return _Values(self)

    def in_order(self) -> Iterator[JobView]:
        """The jobs, first to last."""
        return (entry[3] for entry in self._entries)


class _Values(ValuesView[JobView]):
    _mapping: SortedJobs

    def __iter__(self) -> Iterator[JobView]:
        return self._mapping.in_order()
