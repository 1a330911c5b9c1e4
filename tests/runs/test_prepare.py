import subprocess
import sys

import pytest

from weft.runs import prepare
from weft.sim.engine import Engine
from weft.stacks import resolve
from weft.stacks.registry import make


@pytest.mark.parametrize(
    "name", ["fair", "flow", "flow:fill", "mcs", "shortest", "shortest:patient", "ccml", "pcc", "priority", "tcp:cubic"]
)
def test_a_pace_is_rehearsed_without_the_engine(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Engine, "__init__", lambda *_: pytest.fail("the engine is compiled meanwhile"))
    make("pace", name).prepare()


# Whether a process has compiled these, or loaded them.
COMPILED = """
from weft.kernels import load
flow, rotate = load("weft.policies.pace.flow.flow_kernel"), load("weft.policies.interleave.cassini.rotate_kernel")
print(*(bool(function.signatures) for function in (flow.decide, flow.expire, flow.forget, rotate.solve)))
"""


def test_the_process_beside_compiles_what_the_stacks_of_the_demo_have_beside_the_engine() -> None:
    stacks = [resolve(name) for name in ("fifo[pace=flow]", "themis+cassini", "fifo")]
    policies = sorted({policy for stack in stacks for policy in prepare._policies(stack)})
    assert policies == [("interleave", "cassini"), ("interleave", "none"), ("pace", "fair"), ("pace", "flow")]
    words = [word for policy in policies for word in policy]
    code = f"from weft.runs import prepare\nprepare.main({words})\n{COMPILED}"
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert said == "True True True True\n"
