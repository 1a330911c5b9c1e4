"""The profiler on real PyTorch models, small ones on the CPU."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from testkit.engines import torch
from weft.errors import InputError
from weft.workload import zoo
from weft.workload.profiles.files import MeasuredModel
from weft.workload.zoo.build import read_model
from weft_live.profiling.measure import _precision, profile

pytestmark = pytest.mark.usefixtures("pytorch")


def _net() -> torch.nn.Sequential:
    torch.manual_seed(0)
    return torch.nn.Sequential(
        torch.nn.Linear(64, 256), torch.nn.BatchNorm1d(256), torch.nn.ReLU(), torch.nn.Linear(256, 10)
    )


def test_times_buckets_and_sizes_of_a_small_net() -> None:
    seen = profile(_net(), torch.randn(32, 64), repeats=5, bucket_bytes=1000.0, first_bucket_bytes=100.0)
    assert min(seen.forward_s, seen.backward_s, seen.optimiser_s) > 0
    assert seen.batch == 32
    assert seen.params == 64 * 256 + 256 + 2 * 256 + 256 * 10 + 10
    assert seen.gradient_bytes == 4 * seen.params == sum(b.bytes for b in seen.buckets)
    ready = [b.ready_s for b in seen.buckets]
    assert ready == sorted(ready)
    assert ready[-1] <= seen.backward_s
    assert seen.gpu == "cpu"
    assert seen.dtype == "fp32"
    assert seen.repeats == 5
    assert seen.memory_bytes >= 2 * 4 * seen.params + 4 * 32 * 64


def test_the_last_layers_gradients_are_ready_first() -> None:
    """The first bucket holds the output layer (its bias and weight), the last one the input layer."""
    net = torch.nn.Sequential(
        *(torch.nn.Linear(128, 128, bias=False) for _ in range(6)), torch.nn.Linear(128, 3, bias=False)
    )
    seen = profile(net, torch.randn(16, 128), repeats=7, bucket_bytes=1.0, first_bucket_bytes=1.0)
    assert [b.bytes for b in seen.buckets] == [4 * 128 * 3] + [4 * 128 * 128] * 6


def test_the_model_is_left_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    register, called = torch.Tensor.register_post_accumulate_grad_hook, []

    def noted(tensor: torch.Tensor, hook: Callable[[torch.Tensor], None]) -> object:
        return register(tensor, lambda parameter: (called.append(parameter), hook(parameter))[0])

    monkeypatch.setattr(torch.Tensor, "register_post_accumulate_grad_hook", noted)
    net = _net().eval()
    before = {name: value.clone() for name, value in net.state_dict().items()}
    net[0].weight.grad = torch.ones_like(net[0].weight)
    profile(net, torch.randn(8, 64), repeats=3)
    assert all(torch.equal(value, before[name]) for name, value in net.state_dict().items())
    assert not net.training
    assert torch.equal(net[0].weight.grad, torch.ones_like(net[0].weight))
    assert net[3].weight.grad is None
    before_last = len(called)
    net(torch.randn(8, 64)).sum().backward()
    assert len(called) == before_last > 0  # no hook is left


def _keywords() -> torch.nn.Module:
    class Keywords(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.Linear(4, 4)
            self.unused = torch.nn.Linear(4, 4)

        def forward(self, left: torch.Tensor, right: torch.Tensor) -> dict[str, object]:
            return {"states": [self.layer(left), self.layer(right)], "count": 2}

    return Keywords()


def test_batches_may_be_dicts_or_tuples_and_unused_parameters_send_nothing() -> None:
    batch = {"left": torch.randn(5, 4), "right": torch.randn(5, 4)}
    named = profile(_keywords(), batch, repeats=3)
    ordered = profile(_keywords(), tuple(batch.values()), repeats=3)
    assert named.batch == ordered.batch == 5
    assert named.params == 2 * (16 + 4)
    assert named.gradient_bytes == ordered.gradient_bytes == 4 * (16 + 4)


def _tables() -> torch.nn.Module:
    class Tables(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table = torch.nn.EmbeddingBag(100, 8, mode="sum", sparse=True)
            self.out = torch.nn.Linear(8, 1)

        def forward(self, rows: torch.Tensor) -> torch.Tensor:
            return self.out(self.table(rows))

    return Tables()


def test_sparse_gradients_are_counted_apart() -> None:
    seen = profile(_tables(), torch.randint(100, (6, 2)), repeats=3)
    assert seen.sparse_bytes == 4 * 800
    assert seen.gradient_bytes == 4 * 9


def test_an_optimizer_and_a_loss_can_be_given() -> None:
    net = _net()
    target = torch.randint(10, (16,))
    before = net[0].weight.detach().clone()
    seen = profile(
        net,
        torch.randn(16, 64),
        loss=lambda out: torch.nn.functional.cross_entropy(out, target),
        optimizer=torch.optim.Adam(net.parameters(), lr=1e-3),
        repeats=3,
    )
    assert not torch.equal(before, net[0].weight)  # a given optimizer does its work
    assert seen.memory_bytes > 4 * 4 * seen.params  # weights, gradients and two moments


def test_bf16_runs_under_autocast() -> None:
    seen = profile(_net(), torch.randn(8, 64), dtype="bf16", repeats=3)
    assert seen.dtype == "bf16"
    assert seen.gradient_bytes == 4 * seen.params


def _modes() -> tuple[object, ...]:
    backends = torch.backends
    return tuple(x.fp32_precision for x in (backends.cuda.matmul, backends.cudnn.conv, backends.cudnn.rnn))


@pytest.mark.parametrize(("dtype", "mode"), [("fp32", "ieee"), ("tf32", "tf32")])
def test_the_matrix_units_mode_is_put_back(dtype: str, mode: str) -> None:
    if not hasattr(torch.backends.cudnn, "conv"):
        pytest.skip("torch before 2.9 has no such switches")
    before = _modes()
    with _precision(torch, dtype):
        assert _modes() == (mode,) * 3
    assert _modes() == before


def test_the_switches_of_torch_before_2_9_are_put_back() -> None:
    """The older interface, as plain attributes: torch 2.4 to 2.8 know no fp32_precision."""
    matmul, cudnn = SimpleNamespace(allow_tf32=False), SimpleNamespace(allow_tf32=True)
    old = SimpleNamespace(backends=SimpleNamespace(cuda=SimpleNamespace(matmul=matmul), cudnn=cudnn))
    for dtype in ("tf32", "fp32"):
        with _precision(old, dtype):
            assert (matmul.allow_tf32, cudnn.allow_tf32) == (dtype == "tf32",) * 2
        assert (matmul.allow_tf32, cudnn.allow_tf32) == (False, True)


def test_a_profile_file_is_written_and_is_a_model(tmp_path: Path) -> None:
    path = tmp_path / "net.json"
    seen = profile(_net(), torch.randn(8, 64), repeats=3, name="net", out=path)
    content = read_model(path)
    assert isinstance(content, MeasuredModel)
    assert content.model == "net"
    assert content.measurements[0].gradient_bytes == seen.gradient_bytes
    made = zoo.profile(str(path), 4, overlap=True)
    assert made.message_bytes == seen.gradient_bytes
    assert made.compute_s == pytest.approx(seen.forward_s + seen.backward_s + seen.optimiser_s, rel=1e-4)


def test_what_cannot_be_profiled_is_said() -> None:
    with pytest.raises(InputError, match="no parameters"):
        profile(torch.nn.ReLU(), torch.randn(2, 2))
    with pytest.raises(InputError, match="dtype"):
        profile(_net(), torch.randn(2, 64), dtype="fp8")
    with pytest.raises(InputError, match="no tensor to differentiate"):
        profile(_counts(), torch.randn(2, 2))


def _counts() -> torch.nn.Module:
    class Counts(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.Linear(2, 2)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.layer(x).argmax(1)

    return Counts()


def _linear() -> torch.nn.Module:
    return torch.nn.Linear(2, 2)


def _ones() -> torch.Tensor:
    return torch.ones(1, 2)


@pytest.mark.parametrize(
    ("model", "batch", "options", "words"),
    [
        (_linear, lambda: None, {}, "the batch (NoneType) holds no tensor; pass what the model is called with"),
        (_linear, list, {}, "the batch (list) holds no tensor"),
        (lambda: None, _ones, {}, "the model is a NoneType; pass a torch.nn.Module"),
        (lambda: "vgg16", _ones, {}, "the model is a str; pass a torch.nn.Module"),
        (_linear, _ones, {"repeats": 0}, "repeats is 0; give a whole number of at least 1"),
    ],
)
def test_what_cannot_be_measured_is_refused_with_a_remedy(
    model: Callable[[], object], batch: Callable[[], object], options: dict[str, int], words: str
) -> None:
    with pytest.raises(InputError) as error:
        profile(model(), batch(), **options)
    assert words in str(error.value)
    assert "\n" not in str(error.value)
