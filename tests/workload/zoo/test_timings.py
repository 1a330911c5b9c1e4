from pathlib import Path

import pytest

import weft.workload.zoo as package
from weft.errors import InputError
from weft.workload import zoo
from weft.workload.profiles.files import MeasuredModel
from weft.workload.zoo.build import read_model
from weft.workload.zoo.catalogue import gpus
from weft.workload.zoo.timings import UTILISATION, find_gpu, memory

MEASURED = Path(str(package.__file__)).parent / "measured"


def _model(name: str) -> zoo.Model:
    return zoo.find(name)[0]


def compute_s(t: zoo.Timing) -> float:
    """Seconds of computing in one iteration."""
    return t.forward_s + t.backward_s + t.optimiser_s


def test_a_published_time_is_used_as_it_is() -> None:
    t = zoo.timing(_model("vgg16"), "V100", 16)
    assert (t.forward_s, t.backward_s) == pytest.approx((0.0358, 0.0537))
    assert not t.estimated
    assert "Table III" in t.source


def test_between_two_batches_times_lie_on_the_line() -> None:
    """Gavel: 7.787 iterations/s at batch 32, 4.395 at 64, so 48 takes the mean of both iteration times."""
    t = zoo.timing(_model("resnet50"), "V100", 48)
    assert compute_s(t) == pytest.approx((1 / 7.787 + 1 / 4.395) / 2)
    assert t.estimated
    assert t.source.startswith("estimated between batches 32 and 64")


def test_beyond_the_measured_batches_time_is_proportional() -> None:
    low, far = (zoo.timing(_model("lstm-ptb"), "V100", b) for b in (64, 128))
    assert compute_s(far) == pytest.approx(2 * compute_s(low))
    assert far.source.startswith("estimated in proportion from batch 64")


def test_another_gpu_is_scaled_by_peak_rates() -> None:
    h200 = zoo.timing(_model("vgg19"), "H200", 64, "fp32")
    v100 = zoo.timing(_model("vgg19"), "V100", 64)
    assert not h200.estimated
    assert v100.forward_s / h200.forward_s == pytest.approx(66.9 / 15.7)
    assert v100.source.startswith("estimated from H200 by the ratio of peak rates (fp32)")
    assert v100.buckets[-1][1] == pytest.approx(v100.backward_s, rel=1e-3)
    assert v100.optimiser_s / h200.optimiser_s == pytest.approx(4800 / 900)  # by the bandwidth of the memories


def test_another_precision_serves_where_the_asked_one_was_never_measured() -> None:
    """GPT2-A was measured in bf16 only: a P100 in single precision gets the bf16 time by the ratio of bf16 peaks."""
    t = zoo.timing(_model("gpt2-a"), "P100", 24)
    h200 = zoo.timing(_model("gpt2-a"), "H200", 24)
    assert t.forward_s / h200.forward_s == pytest.approx(989 / 21.2)
    assert t.dtype == "bf16"
    assert t.source.startswith("estimated from H200 by the ratio of peak rates (bf16)")


def test_without_any_measurement_operations_decide() -> None:
    gpt3 = _model("gpt3")
    t = zoo.timing(gpt3, "A100", 16)
    assert t.forward_s == pytest.approx(16 * gpt3.flops / (UTILISATION * 312e12))
    assert t.backward_s == pytest.approx(2 * t.forward_s)
    assert t.source.startswith("estimated from")


@pytest.mark.parametrize("name", zoo.names())
@pytest.mark.parametrize("gpu", [g.name for g in gpus()])
def test_every_model_has_a_time_on_every_gpu_with_a_source(name: str, gpu: str) -> None:
    t = zoo.timing(_model(name), gpu, _model(name).batch)
    assert 0 < t.forward_s < compute_s(t)
    assert t.memory_bytes > 0
    assert t.source
    assert t.estimated == t.source.startswith("estimated")


def test_unknown_gpu_is_refused_in_one_line() -> None:
    with pytest.raises(InputError, match="did you mean V100"):
        find_gpu("V10")


def test_memory_grows_with_the_batch() -> None:
    assert memory(_model("resnet50"), 32)[0] < memory(_model("resnet50"), 128)[0]
    size, source = memory(_model("gpt3"), 1)
    assert size == pytest.approx(16 * _model("gpt3").params, rel=0.2)
    assert source.startswith("formula")


@pytest.mark.parametrize("name", zoo.names())
@pytest.mark.parametrize("gpu", ["V100", "A100", "H200"])
def test_memory_is_what_was_measured_wherever_it_was(name: str, gpu: str) -> None:
    """At a measured batch and precision the GPU that weft measured on has that memory; all numbers have a source."""
    model = _model(name)
    for batch in {model.batch, *model.batch_range, *(t.batch for t in zoo.known(model))}:
        found = zoo.timing(model, gpu, batch)
        assert found.memory_bytes > 0
        assert found.memory_source.startswith(("published", "measured by weft", "estimated", "formula"))
    for seen in zoo.known(model):
        if seen.memory_bytes and seen.memory_source.startswith("measured") and seen.gpu == gpu:
            found = zoo.timing(model, gpu, seen.batch, seen.dtype)
            assert (found.memory_bytes, found.memory_source) == (seen.memory_bytes, seen.memory_source)


def test_gpt2s_of_cassini_need_what_was_measured_not_27_gb() -> None:
    """97.7 and 78.1 GB at batch 24 on an H200; between two batches the line, shared by the stages of a pipeline."""
    assert memory(_model("gpt2-a"), 24)[0] == pytest.approx(97.7e9, rel=1e-3)
    assert memory(_model("gpt2-b"), 24)[0] == pytest.approx(78.1e9, rel=1e-3)
    low, high = memory(_model("gpt2-a"), 8)[0], memory(_model("gpt2-a"), 24)[0]
    size, source = memory(_model("gpt2-a"), 16)
    assert size == pytest.approx((low + high) / 2)
    assert source.startswith("estimated on the line through batches 8 and 24: measured by weft on NVIDIA H200")
    half = zoo.profile("gpt2-a", 4, batch=24, gpu="A100")
    assert half.memory_bytes == pytest.approx(high / 2)
    assert half.memory_source.endswith("shared by 2 workers")


def test_a_line_needs_memory_at_both_ends() -> None:
    """ResNet-50 on a V100: Table III has memory at batch 16, Gavel none at 32; in between it must not shrink."""
    found = zoo.timing(_model("resnet50"), "V100", 24)
    assert found.memory_bytes > zoo.timing(_model("resnet50"), "H200", 16, "fp32").memory_bytes
    assert "measured by weft" in found.memory_source


def test_a_papers_statement_counts_at_the_batches_it_is_about() -> None:
    assert memory(_model("gpt3-cassini"), 16) == (155e9 / 2, _model("gpt3-cassini").memory_source)
    assert memory(_model("gpt3-cassini"), 4)[0] == pytest.approx(108.5e9, rel=1e-3)


def _shipped() -> list[tuple[str, MeasuredModel]]:
    found = [(path.stem, read_model(path)) for path in sorted(MEASURED.glob("*.json"))]
    return [(name, m) for name, m in found if isinstance(m, MeasuredModel)]


def test_at_least_twelve_models_were_measured_on_a_real_gpu() -> None:
    shipped = _shipped()
    assert len(shipped) == len(list(MEASURED.glob("*.json"))) >= 12
    for name, content in shipped:
        assert name == content.model
        for m in content.measurements:
            assert m.gpu == "NVIDIA H200"
            assert m.dtype in ("fp32", "bf16", "bf16-weights")
            assert m.date.startswith("20")
            assert m.batch >= 1
            assert m.software.startswith("torch ")


@pytest.mark.parametrize(("name", "content"), _shipped(), ids=lambda v: v if isinstance(v, str) else "")
def test_shipped_measurements_agree_with_the_architecture(name: str, content: MeasuredModel) -> None:
    """Parameters are the zoo's, the buckets add up to the gradients, and they become ready in order within the pass."""
    for m in content.measurements:
        assert m.params == _model(name).params
        width = 2 if m.dtype == "bf16-weights" else 4
        assert m.gradient_bytes + m.sparse_bytes == width * m.params
        assert sum(b.bytes for b in m.buckets) == pytest.approx(m.gradient_bytes)
        ready = [b.ready_s for b in m.buckets]
        assert ready == sorted(ready)
        assert 0 < ready[-1] <= m.backward_s * (1 + 1e-5)


def test_a_trial_on_the_same_gpu_type_agrees() -> None:
    """An earlier trial saw ResNet-50 at batch 64 in bf16 take 11.3 ms forward and 17.3 ms backward."""
    t = zoo.timing(_model("resnet50"), "H200", 64, "bf16")
    assert t.forward_s == pytest.approx(11.3e-3, rel=0.15)
    assert t.backward_s == pytest.approx(17.3e-3, rel=0.15)


@pytest.mark.parametrize("model", ["llama-3.1-405b", "llama-7b"])  # estimated from operations; measured in bf16
@pytest.mark.parametrize(("gpu", "ratio"), [("H200", 1979 / 989), ("B200", 4500 / 2250)])
def test_fp8_is_faster_by_the_ratio_of_the_peaks(model: str, gpu: str, ratio: float) -> None:
    slow, fast = (zoo.timing(_model(model), gpu, 1, dtype) for dtype in ("bf16", "fp8"))
    assert (slow.forward_s / fast.forward_s, slow.backward_s / fast.backward_s) == pytest.approx((ratio, ratio))
    assert fast.estimated
    assert (fast.dtype, fast.memory_bytes) == ("fp8", slow.memory_bytes)


def test_fp4_is_faster_by_the_ratio_of_the_peaks_where_there_is_fp4() -> None:
    model = _model("llama-3.1-8b")
    slow, fast = (zoo.timing(model, "GB300", 1, dtype).forward_s for dtype in ("bf16", "fp4"))
    assert slow / fast == pytest.approx(15_000 / 2_500)
    with pytest.raises(InputError, match="H100 has no fp4"):
        zoo.timing(model, "H100", 1, "fp4")
    assert all(gpu.sheet for gpu in gpus())


def test_a_model_with_adapters_computes_no_gradients_of_what_is_frozen() -> None:
    """Its backward pass is that of activations only, where training the whole model takes two forward passes."""
    lora, whole = (zoo.timing(_model(name), "H100", 1) for name in ("llama-2-70b-lora", "llama-3.1-8b"))
    assert lora.backward_s < 1.2 * lora.forward_s
    assert whole.backward_s == pytest.approx(2 * whole.forward_s)


def test_a_gpu_without_fp8_is_refused() -> None:
    with pytest.raises(InputError, match="A100 has no fp8"):
        zoo.profile("llama-3.1-8b[dtype=fp8]", 8, gpu="A100")
    assert {gpu.name for gpu in gpus() if gpu.fp8_tflops} == {
        "H100", "H800", "H20", "H200", "L40S", "MI300X", "MI325X", "B200", "GB200", "RTX-PRO-6000", "MI350X", "MI355X",
        "B300", "GB300",
    }  # fmt: skip
