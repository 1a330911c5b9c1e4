import contextlib
import io
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import weft
from weft.policies.place.base import Place
from weft.stacks import registry
from weft.stacks.registry import LAYERS
from weft.testing import check_pace

GUIDE = Path(__file__).parents[2] / "docs" / "policy-in-20-lines.md"
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```$", GUIDE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)


@pytest.fixture(autouse=True)
def _clean(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(registry, "_BY_HAND", {layer: {} for layer in registry.GROUPS})
    return


def test_every_block_runs_and_prints_what_follows_it() -> None:
    names: dict[str, Any] = {"__name__": "guide"}
    printed = ""
    for kind, text in BLOCKS:
        if kind == "python":
            assert printed == "", "what a block prints must be shown below it"
            output = io.StringIO()
            with contextlib.redirect_stdout(output):
                exec(compile(text, GUIDE.name, "exec"), names)
            printed = output.getvalue()
        elif kind == "text":
            assert printed == text
            printed = ""
    assert printed == ""
    assert issubclass(names["RoomiestRackOrAll"], Place)
    check_pace(names["Teams"])
    registry.register("pace", "teams", names["Teams"])
    demo = GUIDE.parents[1] / "examples" / "demo.toml"
    fair, asked = (weft.simulate(demo, stack="fifo", pace=pace) for pace in ("fair", "teams"))
    assert fair.jobs["finish_s"].to_list() != asked.jobs["finish_s"].to_list()
    assert asked.jobs["finish_s"].null_count() == 0


def test_the_policy_is_as_short_as_promised() -> None:
    first = next(text for kind, text in BLOCKS if kind == "python")
    assert len([line for line in first.splitlines() if line.strip()]) <= 20


def test_the_entry_point_is_in_the_group_that_is_searched() -> None:
    toml = tomllib.loads(next(text for kind, text in BLOCKS if kind == "toml"))
    (group,) = toml["project"]["entry-points"]
    assert group in {f"weft.{layer}" for layer in LAYERS}
