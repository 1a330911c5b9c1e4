from collections.abc import Iterator
from contextlib import contextmanager

from weft_live.testbed.stillness import TRIES, Undisturbed


def _watching(*said: str):  # type: ignore[no-untyped-def]
    """What a watcher says of one run after another."""
    left = iter(said)

    @contextmanager
    def watch() -> Iterator[object]:
        words = next(left)
        yield lambda: words

    return watch


def test_what_was_disturbed_is_run_again_and_the_undisturbed_run_counts() -> None:
    found, told = iter(range(9)), list[str]()
    still = Undisturbed(told.append, _watching("stood still for 180 ms", "", "stood still for 90 ms", ""))
    assert [still.run(lambda: next(found)), still.run(lambda: next(found))] == [1, 3]
    assert still.judged() == ""
    assert told == ["stood still for 180 ms; once more", "stood still for 90 ms; once more"]


def test_what_stays_disturbed_is_not_judged_and_says_why_once() -> None:
    found = iter(range(9))
    still = Undisturbed(watch=_watching(*["stood still for 180 ms"] * TRIES, ""))
    assert still.run(lambda: next(found)) == TRIES - 1
    assert still.run(lambda: next(found)) == TRIES
    assert still.judged() == "stood still for 180 ms"
    assert still.judged() == ""
