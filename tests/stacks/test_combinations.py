import pytest

from weft.errors import StackError
from weft.stacks.combinations import Combination, combinations, policies, policies_in
from weft.stacks.registry import ELSEWHERE, names


def test_every_policy_is_tried_in_some_spelling() -> None:
    for layer in ("order", "place", "planners", "interleave", "pace"):
        assert {text.partition(":")[0] for text in policies(layer)} == set(names(layer)) - ELSEWHERE.keys()


def test_the_product_by_hand() -> None:
    chosen = {"order": ["fifo", "srsf"], "place": ["random"], "interleave": ["none"], "pace": ["fair", "flow"]}
    assert [one.name for one in combinations(chosen)] == [
        "fifo/random/none/fair", "fifo/random/none/flow", "srsf/random/none/fair", "srsf/random/none/flow",
    ]  # fmt: skip
    joint = list(combinations({"planners": ["themis"], "interleave": ["none"], "pace": ["fair"]}))
    assert [one.name for one in joint] == ["themis/none/fair"]
    both = list(combinations({"order": ["fifo"], "place": ["random"], "planners": ["themis"], "pace": ["fair"]}))
    assert len(both) == 2 * len(policies("interleave"))
    everything = list(combinations({}))
    rows = len(policies("order")) * len(policies("place")) + len(policies("planners"))
    assert len(everything) == rows * len(policies("interleave")) * len(policies("pace"))


def test_commas_of_a_parameter_stay() -> None:
    assert policies_in("interleave", ["none,cassini:candidates=20,padding=10%"]) == [
        "none", "cassini:candidates=20,padding=10%",
    ]  # fmt: skip
    assert policies_in("pace", ["fair,flow", "tcp:reno"]) == ["fair", "flow", "tcp:reno"]
    assert policies_in("place", ["even:best-fit"]) == ["even:best-fit"]
    for layer, texts, words in (
        ("pace", ["fare"], "did you mean fair"), ("pace", ["fair,fair"], "twice"), ("order", [""], "names nothing"),
        ("route", ["ecmp,sprey"], "no route sprey; did you mean spray"), ("route", ["spray,"], "names nothing"),
        ("place", ["even:best-fit,firstfit"], "no place firstfit; did you mean first-fit"),
        ("place", ["even:my.py:Mine,best-fi"], "my.py:Mine: there is no file"),
        ("order", ["fifo,fifoo"], "no order fifoo"),
        ("place", ["dealt:"], "write dealt:PLACE"), ("place", ["ff,even"], "write even:PLACE"),
    ):  # fmt: skip
        with pytest.raises(StackError, match=words):
            policies_in(layer, texts)


def test_a_bound_is_no_combination() -> None:
    with pytest.raises(StackError, match="a bound, no scheduler"):
        Combination("", "", "none", "fair", "ideal").stack()
    assert Combination("", "", "none", "fair", "themis").stack().name == "themis/none/fair"


def test_routes_are_tried_where_they_are_named() -> None:
    """Otherwise each would multiply all others; names without one are those that results had before."""
    one = {"order": ["fifo"], "place": ["best-fit"], "interleave": ["none"], "pace": ["fair"]}
    assert [found.name for found in combinations(one)] == ["fifo/best-fit/none/fair"]
    assert [found.name for found in combinations({**one, "route": ["ecmp", "spray"]})] == [
        "fifo/best-fit/none/fair",
        "fifo/best-fit/none/fair/spray",
    ]
    assert {found.stack().route.name for found in combinations({**one, "route": ["ecmp:8"]})} == {"ecmp:8"}
