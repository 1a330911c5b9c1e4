"""SortedJobs keeps the order that sorting anew would give."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from weft.core.jobs import SortedJobs
from weft.model.view import JobView
from weft.testing import toy_job


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3), st.booleans()), max_size=40))
def test_same_as_sorting(entries: list[tuple[int, int, bool]]) -> None:
    jobs = SortedJobs(lambda job: job.job.iterations)
    kept: list[tuple[int, int, int, str]] = []
    for number, (iterations, submit, stays) in enumerate(entries):
        job = JobView(toy_job(f"j{number}", iterations=iterations, submit_s=float(submit)))
        jobs.add(job, number)
        kept.append((iterations, submit, number, job.id))
        if not stays and len(kept) > 1:
            jobs.remove(kept.pop(len(kept) // 2)[3])
    expected = [name for _, _, _, name in sorted(kept)]
    assert list(jobs) == expected
    assert [job.id for job in jobs.values()] == expected
    assert [name for name, _ in jobs.items()] == expected
    assert len(jobs) == len(expected)
    assert all(name in jobs and jobs[name].id == name for name in expected)
