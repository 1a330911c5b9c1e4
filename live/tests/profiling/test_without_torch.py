import sys

import pytest

from testkit import engines
from weft.cli.main import run
from weft.errors import InputError
from weft.workload import zoo
from weft.workload.profiles.measured import MODES, PRECISIONS, Measured
from weft_live.profiling import torch_bridge
from weft_live.profiling.architectures import least_sample_bytes


def test_missing_torch_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)  # what Python itself does for a module that cannot be imported
    with pytest.raises(InputError, match=r"pip install 'weft\[torch\]'") as error:
        torch_bridge.load_torch()
    assert "\n" not in str(error.value)


def test_an_optional_package_may_be_missing() -> None:
    assert torch_bridge.optional("no_such_package_of_models") is None
    assert torch_bridge.optional("json") is not None


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ([], "pip install 'weft[torch]'"),
        (["--library", "keras"], "--library: 'keras' is not known; use one of auto, torchvision, transformers, weft"),
        (["--dtype", "fp8"], "--dtype: 'fp8' is not known; use one of as-is, fp32, tf32, bf16, bf16-weights"),
    ],
)
def test_nothing_is_announced_before_it_is_refused(
    options: list[str], words: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    assert run(["profile", "alexnet", *options]) == 2
    said = capsys.readouterr()
    assert words in said.err
    assert said.err.count("\n") == 1
    assert said.out == ""


def test_what_a_batch_needs_at_least_is_less_than_what_any_was_measured_to_need() -> None:
    """So that no batch is refused that would have fitted."""
    checked = 0
    for model in (zoo.find(name)[0] for name in zoo.names()):
        for seen in zoo.known(model):
            if seen.memory_source.startswith("measured by weft"):
                width = 2 if seen.dtype == "bf16-weights" else 4
                assert width * model.params + seen.batch * least_sample_bytes(model) < seen.memory_bytes
                checked += 1
    assert checked > 50


def test_a_spread_needs_quartiles() -> None:
    seen = [Measured("cpu", "fp32", 1, 1.0, 1.0, 0.0, (), 1, 4.0, spread=0.1, repeats=n) for n in (3, 4)]
    assert [m.known_spread for m in seen] == [None, 0.1]


def test_one_list_of_precisions() -> None:
    """What can be asked for is what can be measured, but for torch's own settings."""
    assert ("as-is", *PRECISIONS) == MODES
    for dtype in PRECISIONS:
        assert zoo.profile("vgg16", 2, dtype=dtype, gpu="A100").compute_s > 0
    with pytest.raises(InputError, match="use one of fp32, tf32, bf16"):
        zoo.profile("vgg16", 2, dtype="as-is")


def test_looking_for_tests_imports_no_pytorch(monkeypatch: pytest.MonkeyPatch) -> None:
    """pytest asks whatever a module of tests holds for names like these."""
    monkeypatch.setattr(engines, "load_torch", lambda: pytest.fail("it was imported"))
    assert not any(hasattr(engines.torch, name) for name in ("_mock_name", "__bases__", "__test__", "__wrapped__"))
