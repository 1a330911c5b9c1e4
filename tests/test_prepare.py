"""What runs need is compiled beforehand, without the engine where that is possible."""

from __future__ import annotations

import pytest

from weft import prepare
from weft.compiled import load
from weft.registry import make
from weft.sim.engine import Engine
from weft.stacks import resolve


@pytest.mark.parametrize(
    "name", ["fair", "flow", "flow:fill", "mcs", "shortest", "ccml", "pcc", "priority", "tcp:cubic"]
)
def test_a_pace_is_rehearsed_without_the_engine(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Engine, "__init__", lambda *_: pytest.fail("the engine is compiled meanwhile"))
    make("pace", name).prepare()


def test_the_process_beside_compiles_what_the_stacks_of_the_demo_have_beside_the_engine() -> None:
    stacks = [resolve(name) for name in ("fifo[pace=flow]", "themis+cassini", "fifo")]
    words = sorted({word for stack in stacks for word in prepare._policies(stack)})
    assert words == [("interleave", "cassini"), ("interleave", "none"), ("pace", "fair"), ("pace", "flow")]
    prepare.main([word for policy in words for word in policy])
    flow, rotate = load("weft.pace.flow.flow_kernel"), load("weft.interleave.cassini.rotate_kernel")
    for function in (flow.decide, flow.expire, flow.forget, rotate.solve):
        assert function.signatures
