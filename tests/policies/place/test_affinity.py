from testkit.toys import decided, played
from weft.model import Start
from weft.testing import ToyWorld, toy_cluster, toy_job


def test_by_hand() -> None:
    """Three servers of 4 GPUs. a (1 GPU) opens server 0, b (2) server 1, c (1) goes to the
    server of its size, d (2) likewise, e (4) opens server 2; f (2) finds neither a server of its size nor one without
    affinity, so it goes to server 0, which has 2 free."""
    sizes = {"a": 1, "b": 2, "c": 1, "d": 2, "e": 4, "f": 2}
    core = played(ToyWorld(toy_cluster(1, 3, 4), [toy_job(name, n) for name, n in sizes.items()]), "gandiva")
    starts = {d.job: (d.gpus, d.reason) for _, d in decided(core) if isinstance(d, Start)}
    assert {name: gpus for name, (gpus, _) in starts.items()} == {
        "a": (0,), "b": (4, 5), "c": (1,), "d": (6, 7), "e": (8, 9, 10, 11), "f": (2, 3),
    }  # fmt: skip
    assert starts["c"][1] == "its turn; a server for jobs of its size"
    assert starts["f"][1] == "its turn; a server that has room"


def test_a_suspended_job_comes_back_to_its_server() -> None:
    jobs = [toy_job("a", 4, 20), toy_job("b", 4, 25), toy_job("c", 4, 25)]
    core = played(ToyWorld(toy_cluster(1, 2, 4), jobs), "gandiva:10")
    places: dict[str, set[tuple[int, ...]]] = {}
    for _, d in decided(core):
        if isinstance(d, Start):
            places.setdefault(d.job, set()).add(d.gpus)
    assert places["a"] == {(0, 1, 2, 3)}
    assert set(core.planner_state["place"]["homes"]) <= {"a", "b", "c"}
