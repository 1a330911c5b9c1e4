from itertools import combinations, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.errors import InputError
from weft.model.job import Job
from weft.model.profile import Compute, Phase, Profile, Task, Transfer


@pytest.mark.parametrize(
    ("tasks", "workers", "line"),
    [
        ((), 1, "it has no tasks"),
        ((Compute("c", 1.0),), 0, "workers is 0"),
        ((Compute("a", 1.0, (1,)), Compute("b", 1.0)), 1, "task 0 (a) comes after 1; list tasks in order"),
        ((Compute("c", 1.0, (), (2,)),), 2, "task c names a worker outside 0..1"),
        ((Compute("c", 1.0, (), ()),), 2, "task c names a worker outside 0..1"),
        ((Transfer("t", float("nan")),), 2, "task t has size nan"),
        ((Compute("c", -1.0),), 1, "task c has size -1.0"),
        ((Compute("a", 1.0), Compute("b", 1.0)), 1, "worker 0 would run a and b at once; order them"),
    ],
)
def test_what_cannot_be_an_iteration_is_refused(tasks: tuple[Task, ...], workers: int, line: str) -> None:
    with pytest.raises(InputError) as error:
        Profile("p", tasks, workers)
    assert str(error.value).startswith(f"profile p: {line}")


def test_workers_that_share_no_gpu_may_compute_at_once() -> None:
    profile = Profile("p", (Compute("a", 1.0, (), (0,)), Compute("b", 3.0, (), (1,))), 2)
    assert (profile.compute_s, profile.gpu_s) == (3.0, 4.0)


def test_phases_are_a_chain() -> None:
    """0.2 s beside 5 bytes, then 7 bytes, then nothing: a phase begins when both parts of the one before are done."""
    profile = Profile.from_phases("p", [Phase(0.2, 5.0), Phase(bytes=7.0), Phase()], 3)
    assert [(task.name, task.after) for task in profile.tasks] == [
        ("compute0", ()), ("transfer0", ()), ("transfer1", (0, 1)), ("compute2", (2,))
    ]  # fmt: skip
    assert (profile.compute_s, profile.message_bytes, profile.gpu_s) == (0.2, 12.0, pytest.approx(0.6))


@st.composite
def graphs(draw: st.DrawFn) -> Profile:
    """Tasks of one worker each, so that no order is asked for beyond what is drawn."""
    n = draw(st.integers(1, 7))
    tasks: list[Task] = []
    for i in range(n):
        after = tuple(sorted(draw(st.sets(st.integers(0, i - 1)) if i else st.just(set()))))
        size = draw(st.integers(0, 5))
        tasks.append(Compute(f"c{i}", size, after, (i,)) if draw(st.booleans()) else Transfer(f"t{i}", size, after))
    return Profile("p", tuple(tasks), n)


@given(graphs())
def test_the_computing_time_is_that_of_the_longest_path(profile: Profile) -> None:
    """Of all sets of tasks that form a path, the one that computes longest."""
    tasks = profile.tasks

    def computes(path: tuple[int, ...]) -> float:
        return sum(task.seconds for i in path if isinstance(task := tasks[i], Compute))

    paths = [
        path
        for n in range(1, len(tasks) + 1)
        for path in combinations(range(len(tasks)), n)
        if all(a in tasks[b].after for a, b in pairwise(path))
    ]
    assert profile.compute_s == max(map(computes, paths))


def test_sizes_of_a_job_lie_between_its_limits() -> None:
    profiles = {n: Profile(f"p{n}", (Compute("c", 1.0),), n) for n in (1, 2, 4, 8)}
    assert Job("rigid", 0.0, 4, 10, profiles).sizes == (4,)
    assert Job("elastic", 0.0, 4, 10, profiles, min_gpus=2, max_gpus=7).sizes == (2, 4)
    assert Job("elastic", 0.0, 4, 10, profiles, min_gpus=1).sizes == (1, 2, 4)
