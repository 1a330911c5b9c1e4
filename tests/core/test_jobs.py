from hypothesis import given
from hypothesis import strategies as st

from weft.core.jobs import GroupedQueue, SortedJobs
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
    assert [job.id for job in jobs.without(dict.fromkeys(expected[::2]))] == expected[1::2]


@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(1, 4), st.booleans()), max_size=40),
    st.lists(st.integers(0, 4), max_size=40),
)
def test_jobs_that_are_too_large_are_passed_but_for_the_first(
    entries: list[tuple[int, int, bool]], served: list[int]
) -> None:
    """As a walk over all jobs would find: those that fit when their turn comes, and the first that does not."""
    queue = GroupedQueue(lambda job: job.job.iterations)
    kept: list[tuple[int, int, str, int]] = []
    for number, (iterations, size, stays) in enumerate(entries):
        job = JobView(toy_job(f"j{number}", size, iterations=iterations))
        queue.add(job, number, size)
        kept.append((iterations, number, job.id, size))
        if not stays and len(kept) > 1:
            queue.remove(kept.pop(len(kept) // 2)[2])
    room, expected, passed = 4, [], False
    for i, (_, _, name, size) in enumerate(sorted(kept)):
        if size <= room or not passed:
            expected.append((name, room))
        passed = passed or size > room
        room = min(room, served[i]) if i < len(served) and expected and expected[-1][0] == name else room
    found, left = [], [4]
    place = {name: i for i, (_, _, name, _) in enumerate(sorted(kept))}
    for job in queue.in_order(lambda size, _: size > left[0]):
        found.append((job.id, left[0]))
        if place[job.id] < len(served):
            left[0] = min(left[0], served[place[job.id]])
    assert found == expected


def test_of_jobs_that_are_passed_over_only_the_first_is_shown() -> None:
    """By size or by kind: j0 and j2 are odd and passed together, and so are all of size 2."""
    odd = ("j0", "j2")
    queue = GroupedQueue(lambda job: job.job.iterations, lambda job: "odd" if job.id in odd else None)
    for number, size in enumerate((1, 1, 1, 2, 2, 1)):
        queue.add(JobView(toy_job(f"j{number}", size, iterations=number + 1)), number, size)
    asked = []

    def passes(size: int, job: JobView) -> bool:
        asked.append(job.id)
        return size == 2 or job.id in odd

    assert [job.id for job in queue.in_order(passes)] == ["j0", "j1", "j5"]
    assert asked == ["j0", "j1", "j3", "j5"]  # neither j2 nor j4, whose groups have been passed
    assert [job.id for job in queue.in_order(None)] == [f"j{i}" for i in range(6)]
    assert [job.id for job in queue.in_order(None, most=1)] == ["j0", "j1", "j2", "j5"]
    assert list(queue.in_order(None, most=0)) == []
