import re

import pytest

from weft.errors import StackError
from weft.policies.interleave.cassini import Settings
from weft.stacks import resolve


@pytest.mark.parametrize(
    ("stack", "words"),
    [
        ("srsf-1+cassini", "holds transfers back, which undoes the time-shifts of cassini"),
        ("ada-srsf+cassini", "holds transfers back, which undoes the time-shifts of cassini"),
        ("fifo+cassini[place=ff]", "cassini assumes that a GPU has one job"),
        ("fifo+cassini:what", "is not known; behind the colon write candidates=N"),
        ("fifo+cassini:padding=7", "padding takes a number from 0 to 1"),
        ("fifo+cassini:padding=nan", "padding takes a number from 0 to 1"),
        ("fifo+cassini:candidates=0", "candidates takes a whole number from 1 to 1000"),
        ("fifo+cassini:threads=-1", "threads takes a whole number from 0 to 256"),
        ("fifo+cassini:threads=100000", "threads takes a whole number from 0 to 256"),
        ("fifo+cassini:threads=8,threads=9", "threads is there twice; leave one out"),
        ("fifo+cassini:metric=racks,metric=tail", "metric is there twice; leave one out"),
        ("fifo+cassini:stay,unshifted,stay", "stay is there twice; leave one out"),
    ],
)
def test_refused_with_the_reason(stack: str, words: str) -> None:
    with pytest.raises(StackError, match=re.escape(words)):
        resolve(stack)


def test_settings() -> None:
    found = resolve("fifo+cassini:candidates=3,padding=10%,metric=tail,loops=discard,threads=1").interleave
    assert found.settings == Settings(3, 0.1, "tail", "discard", 1)
    assert found.candidates == 3
    assert resolve("fifo+cassini:unshifted,stay").interleave.settings == Settings(shifts=False, stay=True)
