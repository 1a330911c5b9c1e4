"""The lists of mutants fit the sources: `make mutants`, which takes long, is then about the tests alone."""

from pathlib import Path

from tools.mutant_list import MUTANTS as ENGINE
from tools.mutant_list import Mutant
from tools.mutants import MUTANTS, ROOT, misplaced


def test_every_mutant_has_its_place() -> None:
    assert [(m.file, m.why) for m in misplaced()] == []


def test_there_are_enough_and_each_breaks_something() -> None:
    assert len({m.places for m in MUTANTS}) == len(MUTANTS) >= 20
    assert all(old != new for m in MUTANTS for _, old, new in m.places)
    assert all(m.file.endswith("_kernel.py") and not m.judges for m in ENGINE)
    named = {judge.partition("::")[0] for m in MUTANTS for judge in m.judges}
    assert named
    assert all(Path(ROOT, name).exists() for name in named)


def test_a_place_that_is_gone_is_noticed() -> None:
    lost = Mutant("src/weft/sim/compiled/maxmin_kernel.py", "nothing", "no such line", "")
    assert misplaced([lost]) == [lost]
    found = MUTANTS[0]
    half = Mutant(found.file, "half of it", found.old, found.new, also=((found.file, "no such line", ""),))
    assert misplaced([found, half]) == [half]
