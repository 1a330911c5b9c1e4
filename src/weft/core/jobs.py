"""SortedJobs and GroupedQueue: jobs that stay in order while they come and go one at a time."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Iterator, Mapping, ValuesView
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

    def get(self, job_id: str, default: Any = None) -> Any:
        """Like `dict.get`: the default where there is no such job."""
        return self._jobs.get(job_id, default)

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


_Group = tuple[int, int, str | None]  # the fewest GPUs that a job can start on, the GPUs that it wants, its kind


class GroupedQueue:
    """Jobs sorted by a key as in SortedJobs, but kept apart by size and kind, so that those that are too large, or like
    others that found no place, can be skipped without looking at each.

    The size of a job is the fewest GPUs that it can start on; `kind` says which jobs of a size are alike.
    """

    def __init__(self, key: Callable[[JobView], Any], kind: Callable[[JobView], str | None] | None = None) -> None:
        self._key = key
        self._kind = kind
        self._groups: dict[_Group, SortedJobs] = {}
        self._group: dict[str, _Group] = {}

    def add(self, job: JobView, number: int, size: int) -> None:
        """Take a job in; `number` is its place among all jobs ever submitted."""
        group = (size, job.job.gpus, None if self._kind is None else self._kind(job))
        if group not in self._groups:
            self._groups[group] = SortedJobs(self._key)
        self._groups[group].add(job, number)
        self._group[job.id] = group

    def remove(self, job_id: str) -> None:
        """Let a job go."""
        group = self._group.pop(job_id)
        self._groups[group].remove(job_id)
        if not self._groups[group]:
            del self._groups[group]

    def in_order(self, passes: Callable[[int, JobView], bool] | None, most: int | None = None) -> Iterator[JobView]:
        """The jobs, first to last, of all sizes or of those up to `most`. When a job is reached, `passes` may say that
        it is skipped with all that follow it in its group. The very first job to be skipped is produced all the same.

        A job that is skipped stays skipped until the end, and the queue may not change meanwhile.
        """
        heads = []
        for group, jobs in self._groups.items():
            if most is None or group[0] <= most:
                entries = jobs.entries()
                heads.append((next(entries), group[0], jobs, entries))
        heapify(heads)
        any_passed = False
        while heads:
            entry, size, jobs, entries = heads[0]
            job = jobs[entry[3]]
            passed = passes is not None and passes(size, job)
            if not (passed and any_passed):
                yield job
            any_passed = any_passed or passed
            following = None if passed else next(entries, None)
            if following is None:
                heappop(heads)
            else:
                heapreplace(heads, (following, size, jobs, entries))
