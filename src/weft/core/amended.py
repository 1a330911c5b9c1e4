"""Amended: the current placements with a few changes. A plan costs what it changes, not what stays as it is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set

from weft.model.plan import Placement

__all__ = ["Amended"]


class Amended(Mapping[str, Placement]):
    """`base` without the jobs in `removed` and with those in `added`. Valid as long as `base` does not change."""

    def __init__(self, base: Mapping[str, Placement], added: Mapping[str, Placement], removed: Set[str]) -> None:
        self.base = base
        self.added = added
        self.removed = removed

    def __getitem__(self, job_id: str) -> Placement:
        if job_id in self.added:
            return self.added[job_id]
        if job_id in self.removed:
            raise KeyError(job_id)
        return self.base[job_id]

    def __iter__(self) -> Iterator[str]:
        yield from (job for job in self.base if job not in self.removed and job not in self.added)
        yield from self.added

    def __len__(self) -> int:
        gone = sum(job in self.base and job not in self.added for job in self.removed)
        return len(self.base) - gone + sum(job not in self.base for job in self.added)
