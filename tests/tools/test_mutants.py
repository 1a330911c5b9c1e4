"""The list of mutants fits the kernels: `make mutants`, which takes long, is then about the tests alone."""

from __future__ import annotations

from tools.mutant_list import MUTANTS, Mutant
from tools.mutants import misplaced


def test_every_mutant_has_its_place() -> None:
    assert [(m.file, m.why) for m in misplaced()] == []


def test_there_are_enough_and_each_breaks_something() -> None:
    assert len({(m.file, m.old, m.new) for m in MUTANTS}) == len(MUTANTS) >= 20
    assert all(m.old != m.new and m.file.endswith("_kernel.py") for m in MUTANTS)


def test_a_place_that_is_gone_is_noticed() -> None:
    lost = Mutant("sim/compiled/maxmin_kernel.py", "nothing", "no such line", "")
    assert misplaced([lost]) == [lost]
