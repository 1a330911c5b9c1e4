import pytest

from weft.core.cycle import Core
from weft.errors import StackError
from weft.model import Start, Submitted
from weft.policies.place.lwf import LeastWorkloadFirst
from weft.stacks import resolve
from weft.stacks.registry import make
from weft.testing import ToyWorld, toy_cluster, toy_job


def example(place: str) -> dict[str, tuple[int, ...]]:
    """The example of docs/baselines: two servers of two GPUs, three jobs at 0 s, one at 1 s.

    In order of service at 0 s: b (4 GPU s), a (10), c (10, submitted after a). d comes at 1 s.
    """
    jobs = [
        toy_job("a", 1, 10, memory_bytes=6e9),
        toy_job("b", 1, 4, memory_bytes=6e9),
        toy_job("c", 2, 5, message_bytes=1.25e9, memory_bytes=6e9),
        toy_job("d", 2, 3, memory_bytes=6e9, submit_s=1.0),
    ]
    world = ToyWorld(toy_cluster(racks=1, servers_per_rack=2, gpus_per_server=2), jobs)
    core = Core(resolve("srsf", place=place), world)
    placed: dict[str, tuple[int, ...]] = {}
    while len(placed) < 4:
        decisions = core.step(world.now(), world.next_events(None))
        placed |= {d.job: d.gpus for d in decisions if isinstance(d, Start)}
        core.confirm(world.apply(decisions))
    return placed


@pytest.mark.parametrize(
    ("place", "expected"),
    [
        # b, a share GPU 0: 6 + 6 of 16 GB; c finds 4 GB there and goes on; d fits beside c.
        ("ff", {"b": (0,), "a": (0,), "c": (1, 2), "d": (1, 2)}),
        # At 1 s L = 3, 9, 8, 8 (c: 4 iterations x 1 s x 2 GPUs): d takes GPUs 0 and 2, on two servers.
        ("ls", {"b": (0,), "a": (1,), "c": (2, 3), "d": (0, 2)}),
        # c takes the empty server. At 1 s the servers have 3 + 9 and 8 + 8: d goes to the first.
        ("lwf:1", {"b": (0,), "a": (1,), "c": (2, 3), "d": (0, 1)}),
        # jobs of up to two GPUs are scattered as by ls
        ("lwf:2", {"b": (0,), "a": (1,), "c": (2, 3), "d": (0, 2)}),
        # kappa 0: b and a go server by server too; b makes server 0 the fuller one, so a goes to server 1
        ("lwf:0", {"b": (0,), "a": (2,), "c": (1, 0), "d": (3, 2)}),
    ],
)
def test_example_by_hand(place: str, expected: dict[str, tuple[int, ...]]) -> None:
    assert example(place) == expected


def test_rand_takes_what_is_left() -> None:
    """10 GB jobs on 16 GB GPUs: three single ones and one of two on five GPUs leave no choice but who goes where."""
    core = Core(resolve("fifo", place="rand"), ToyWorld(toy_cluster(1, 1, 5), []), seed=3)
    jobs = [toy_job("a", memory_bytes=10e9), toy_job("b", 2, memory_bytes=10e9), toy_job("c", 2, memory_bytes=10e9)]
    starts = [d for d in core.step(0.0, [Submitted(0.0, job) for job in jobs]) if isinstance(d, Start)]
    assert [d.job for d in starts] == ["a", "b", "c"]
    assert sorted(gpu for d in starts for gpu in d.gpus) == [0, 1, 2, 3, 4]


def test_names_of_the_paper() -> None:
    for name, now in (("rand", "random:shared"), ("ff", "first-fit:shared"), ("ls", "ls"), ("lwf:1", "lwf:1")):
        place = make("place", name)
        assert place.name == now
        assert place.shares_gpus
    for name, says in (("rand", "takes no parameter"), ("ff", "takes no parameter"), ("ls", "write whole")):
        with pytest.raises(StackError, match=f"{name}.* {says}"):
            make("place", f"{name}:2")


@pytest.mark.parametrize("text", ["x", "-1", "1.5", ""])
def test_parameter_of_lwf(text: str) -> None:
    with pytest.raises(StackError, match=r"not known|takes a (whole )?number|twice"):
        LeastWorkloadFirst.from_text(text)
    assert LeastWorkloadFirst.from_text(None).name == "lwf:1"
