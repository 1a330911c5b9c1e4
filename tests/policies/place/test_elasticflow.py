from testkit.toys import decided, played, starts
from weft.model import Start
from weft.network.topologies import Machine, rails
from weft.testing import ToyWorld, toy_cluster, toy_job


def test_by_hand() -> None:
    """Three machines of 4. a (3) keeps a fourth GPU idle; b (2) and c (1) share a
    machine; d (6, rounded to 8) finds one idle machine and waits until a has ended at 10 s; then e (1) takes the
    tightest machine."""
    jobs = [
        toy_job("a", 3, 10), toy_job("b", 2, 30), toy_job("c", 1, 30), toy_job("d", 6, 10),
        toy_job("e", 1, 5, submit_s=12.0),
    ]  # fmt: skip
    core = played(ToyWorld(toy_cluster(1, 3, 4), jobs), "elasticflow")
    assert starts(core) == [
        (0.0, "a", (0, 1, 2)), (0.0, "b", (4, 5)), (0.0, "c", (6,)), (10.0, "d", (0, 1, 2, 3, 8, 9)),
        (12.0, "e", (7,)),
    ]  # fmt: skip
    waits = [d.reason for _, d in decided(core) if d.job == "d" and not isinstance(d, Start)]
    assert waits == ["waits for idle machines with 8 GPUs"]


def test_what_is_kept_idle_is_given_to_nobody() -> None:
    """a (3 of 4) and b (1) on two machines: b does not go beside a."""
    core = played(ToyWorld(toy_cluster(1, 2, 4), [toy_job("a", 3, 10), toy_job("b", 1, 1)]), "elasticflow", until=0.5)
    assert core.table.jobs["b"].gpus == (4,)


def test_whole_machines_are_those_of_the_closest_group() -> None:
    """Pods of two rail groups of two machines of 4; the first machine is busy: 8 GPUs take the second rail group."""
    jobs = [toy_job("a", 4, 10), toy_job("b", 8, 10)]
    deep = rails(4, 2, Machine(4), racks_per_pod=2)
    assert starts(played(ToyWorld(deep, jobs), "elasticflow"))[1] == (0.0, "b", tuple(range(8, 16)))
    assert starts(played(ToyWorld(toy_cluster(4, 2, 4), jobs), "elasticflow"))[1] == (0.0, "b", tuple(range(4, 12)))
