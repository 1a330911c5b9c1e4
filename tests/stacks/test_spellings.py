"""Every spelling of a policy or a stack that pages, examples and tests of 0.1 had means what it meant."""

from __future__ import annotations

from pathlib import Path

import pytest

from weft.errors import StackError
from weft.stacks import resolve
from weft.stacks.registry import make

# layer, spelling, name; of a stack its name, then its planner's, its interleave's and its pace's
KNOWN = [line.split("\t") for line in (Path(__file__).parent / "spellings.tsv").read_text().splitlines()]


@pytest.mark.parametrize("layer", ["order", "place", "planners", "interleave", "pace", "stack"])
def test_names_are_those_of_0_1(layer: str) -> None:
    rows = [row[1:] for row in KNOWN if row[0] == layer]
    assert len(rows) >= 10
    for text, *names in rows:
        if layer == "stack":
            stack = resolve(text)
            assert [stack.name, stack.planner.name, stack.interleave.name, stack.pace.name] == names, text
            assert resolve(stack.name).name == stack.name
        else:
            policy = make(layer, text)
            assert policy.name == names[0], text
            assert vars(make(layer, policy.name)).keys() == vars(policy).keys()
            assert make(layer, policy.name).name == policy.name


@pytest.mark.parametrize(
    ("layer", "text", "name"),
    [
        ("place", "titan:plus,ring,0.1", "titan:plus/ring/0.1"), ("place", "titan:0.1,plus", "titan:plus/0.1"),
        ("order", "las:together,5", "las:together@5"), ("order", "nw-sens:5,moving", "nw-sens:5"),
        ("planners", "pollux:fixed,5", "pollux:5,60,fixed"), ("place", "skew:50%", "skew:0.5"),
        ("pace", "mcs: leaves=40%", "mcs:leaves=40%"), ("pace", "tcp:buffer=200kB", "tcp:cubic,buffer=200kB"),
    ],
)  # fmt: skip
def test_settings_come_in_any_order_with_commas(layer: str, text: str, name: str) -> None:
    assert make(layer, text).name == name


@pytest.mark.parametrize(
    ("layer", "text", "said"),
    [
        ("place", "titan:plus/printed", "titan:plus/printed: printed is there twice"),
        ("place", "titan:best", "'best' is not known; behind the colon write printed|plus, "),
        ("place", "titan:0", "0: it takes a number more than 0"),
        ("planners", "themis:1.5,600", "1.5: it takes a number from 0 and less than 1"),
        ("planners", "themis:0.5,60,7", "'7' is not known"),
        ("place", "lwf:1.5", "1.5: it takes a whole number from 0"),
        ("pace", "flow:slot=30", "slot=30: slot takes a number from 0.1ms to 10000ms"),
        ("route", "adaptive:every=1h", "every takes a number more than 0ms, written in ms"),
        ("interleave", "cassini:metric=most", "metric=most: metric takes one of mean, tail, racks"),
        ("pace", "tcp:cubic,", "'an empty setting' is not known"),
        ("place", "delay:manual,auto@5", "its timers follow one rule"),
        ("place", "delay:7200/3600", "the second is the longer one"),
        ("place", "ff:shared", "ff takes no parameter; it is now called first-fit:shared"),
    ],
)
def test_what_is_wrong_is_named(layer: str, text: str, said: str) -> None:
    with pytest.raises(StackError) as raised:
        make(layer, text)
    assert said in str(raised.value)
