import json
from typing import Any

import pytest

from weft.errors import InputError
from weft.model.view import Fact
from weft.stacks import resolve
from weft.testing import toy_cluster
from weft_live.description import Description

SAID: dict[str, Any] = {"name": "a", "argv": ["true"]}


def test_what_was_said_is_kept() -> None:
    """Bytes that are not UTF-8, too, as a shell hands them over in an argument or in its environment."""
    given = {**SAID, "argv": ["cat", "a\udcff"], "env": {"A": "\udcff"}, "iteration_s": 1, "per_rank": True, "gpus": 2}
    made = Description.from_json(given)
    kept = json.loads(json.dumps(made.to_json()))
    assert Description.from_json(kept) == made
    assert {name: kept[name] for name in given} == given


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        ({"gpus": 0}, "gpus"), ({"gpus": True}, "gpus"), ({"gpus": 1.0}, "gpus"), ({"gpus": 2**53}, "gpus"),
        ({"restarts": -1}, "restarts"), ({"argv": []}, "argv"), ({"argv": [""]}, "argv"), ({"argv": "true"}, "argv"),
        ({"argv": ["a\0b"]}, "argv"), ({"argv": ["a", 1]}, r"argv\[1\]"), ({"name": "../x"}, "name"),
        ({"name": "a\n"}, "name"), ({"env": {"A": 1}}, "env.A"), ({"grace_s": -1}, "grace_s"),
        ({"grace_s": 1e9}, "grace_s"), ({"iteration_s": float("nan")}, "iteration_s"), ({"resumes": 1}, "resumes"),
        ({"colour": "red"}, "colour"), ({"model": None}, "model"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_named_in_one_line(wrong: dict[str, Any], field: str) -> None:
    with pytest.raises(InputError, match=rf"^submit: {field} .*; .*$") as told:
        Description.from_json({**SAID, **wrong})
    assert "\n" not in str(told.value)
    assert len(str(told.value)) < 400


def test_a_name_and_a_command_are_needed() -> None:
    for name in SAID:
        with pytest.raises(InputError, match=f"^submit: {name} is missing; "):
            Description.from_json({key: value for key, value in SAID.items() if key != name})


def test_a_shape_that_no_servers_have_is_refused() -> None:
    """The local socket took it once, and the job waited for ever."""
    cluster, needs, planner = toy_cluster(1, 2, 4), frozenset[Fact](), resolve("fifo").planner
    Description.from_json({**SAID, "gpus": 8}).refuse(cluster, needs, planner)
    made = Description.from_json({**SAID, "gpus": 8, "per_node": 4})
    for gpus, each in ((8, 3), (8, 8), (16, 4)):
        with pytest.raises(InputError, match=r"ask for (another number|fewer)|keeps"):
            made.model_copy(update={"gpus": gpus, "per_node": each}).refuse(cluster, needs, planner)
