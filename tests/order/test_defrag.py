"""defrag: jobs that keep a machine busy alone move into fragments, once in a period."""

from __future__ import annotations

import pytest

from weft.core.cycle import Core
from weft.core.loop import run
from weft.errors import StackError
from weft.model import Start, Stop
from weft.order.defrag import Defragment
from weft.stacks import resolve
from weft.testing import ToyWorld, check_order, toy_cluster, toy_job


def test_conforms() -> None:
    check_order(lambda: Defragment(20.0), range(3))


def test_by_hand() -> None:
    """Two machines of 4; a (3 GPUs, 10 s) and b (2, 100 s) fill the first but for nothing: b goes to the second with
    c (1). a ends at 10 s and d (1, 100 s) has filled the gap. At 20 s (two periods) everybody is old enough: d, alone
    on the first machine, moves to the second, which empties the first."""
    jobs = [toy_job("a", 3, 10), toy_job("d", 1, 100), toy_job("b", 2, 100), toy_job("c", 1, 100)]
    world = ToyWorld(toy_cluster(1, 2, 4), jobs)
    core = Core(resolve("titan", order="defrag:10"), world)
    run(core, world, until=50.0)
    entries = core.journal.entries  # type: ignore[attr-defined]
    shown = [(t, type(d).__name__, d.job) for _, t, d in entries if t > 0 and isinstance(d, Start | Stop)]
    assert shown == [(20.0, "Stop", "d"), (20.0, "Start", "d")]
    assert core.table.jobs["d"].gpus == (7,)
    assert core.table.jobs["d"].preemptions == 1


def test_nothing_moves_without_room() -> None:
    """Two jobs of 3 on machines of 4: neither fits beside the other."""
    world = ToyWorld(toy_cluster(1, 2, 4), [toy_job("a", 3, 100), toy_job("b", 3, 100)])
    core = Core(resolve("titan-defrag", order="defrag:10"), world)
    run(core, world)
    assert not [d for _, _, d in core.journal.entries if isinstance(d, Stop)]  # type: ignore[attr-defined]


def test_parameter() -> None:
    assert Defragment.from_text("60").name == "defrag:60"
    with pytest.raises(StackError, match="more than 0"):
        Defragment.from_text("0")
