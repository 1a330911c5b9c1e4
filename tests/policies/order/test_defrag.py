import pytest

from testkit.toys import decided, played
from weft.errors import StackError
from weft.model import Start, Stop
from weft.policies.order.defrag import Defragment
from weft.sim import RunSpec, simulate
from weft.stacks import resolve
from weft.testing import ToyWorld, toy_cluster, toy_job


@pytest.mark.parametrize("text", ["1e-300", "0.5"])
def test_a_period_is_a_second_at_least(text: str) -> None:
    with pytest.raises(StackError, match=r"not known|takes a (whole )?number|twice"):
        Defragment.from_text(text)


def test_by_hand() -> None:
    """Two machines of 4; a (3 GPUs, 10 s) and b (2, 100 s) fill the first but for nothing: b goes to the second with
    c (1). a ends at 10 s and d (1, 100 s) has filled the gap. At 20 s (two periods) everybody is old enough: d, alone
    on the first machine, moves to the second, which empties the first."""
    jobs = [toy_job("a", 3, 10), toy_job("d", 1, 100), toy_job("b", 2, 100), toy_job("c", 1, 100)]
    core = played(ToyWorld(toy_cluster(1, 2, 4), jobs), "titan", order="defrag:10", until=50.0)
    entries = core.journal.entries  # type: ignore[attr-defined]
    shown = [(t, type(d).__name__, d.job) for _, t, d in entries if t > 0 and isinstance(d, Start | Stop)]
    assert shown == [(20.0, "Stop", "d"), (20.0, "Start", "d")]
    assert core.table.jobs["d"].gpus == (7,)
    assert core.table.jobs["d"].preemptions == 1


def test_a_move_is_paid_for() -> None:
    """The same with iterations of 3 s and restarts of 5 s: at 20 s d has done 6 whole ones and 2 s of the next, which
    are lost, and begins again at 25 s; it ends at 25 + 3 x (100 - 6) s instead of 300 s. The first machine is empty
    from 20 s on."""
    sizes = {"a": (3, 4), "d": (1, 100), "b": (2, 100), "c": (1, 100)}
    jobs = [toy_job(name, gpus, iterations, compute_s=3.0) for name, (gpus, iterations) in sizes.items()]
    run = simulate(toy_cluster(1, 2, 4), jobs, resolve("titan", order="defrag:10"), run=RunSpec(restart_s=5.0))
    rows = {row["job_id"]: row for row in run.jobs.to_dicts()}
    assert rows["d"]["finish_s"] == pytest.approx(25 + 3 * 94)
    assert rows["b"]["finish_s"] == rows["c"]["finish_s"] == pytest.approx(300)
    assert rows["d"]["lost_gpu_s"] == pytest.approx(2.0)
    assert run.jobs["lost_gpu_s"].sum() == pytest.approx(2.0)
    held = [
        (gpus[0] // 4, start_s, end_s) for gpus, start_s, end_s in run.spans.select("gpus", "start_s", "end_s").rows()
    ]
    assert max(end_s for machine, _, end_s in held if machine == 0) == pytest.approx(20)
    assert max(end_s for machine, _, end_s in held if machine == 1) == pytest.approx(307)


def test_nothing_moves_without_room() -> None:
    """Two jobs of 3 on machines of 4: neither fits beside the other."""
    world = ToyWorld(toy_cluster(1, 2, 4), [toy_job("a", 3, 100), toy_job("b", 3, 100)])
    core = played(world, "titan-defrag", order="defrag:10")
    assert not [d for _, d in decided(core) if isinstance(d, Stop)]


def test_parameter() -> None:
    assert Defragment.from_text("60").name == "defrag:60"
    with pytest.raises(StackError, match="a number from 1"):
        Defragment.from_text("0")
