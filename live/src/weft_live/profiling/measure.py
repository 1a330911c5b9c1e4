"""Measure one training iteration: forward, backward and optimiser time, gradient buckets, memory."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from statistics import median, quantiles
from time import perf_counter
from typing import Any

from weft.errors import InputError
from weft.workload.profiles.measured import (
    DDP_BUCKET_BYTES,
    DDP_FIRST_BUCKET_BYTES,
    MODES,
    QUARTILES_NEED,
    Measured,
    bucket,
)
from weft_live.profiling.torch_bridge import load_torch


def profile(
    model: Any,
    batch: Any,
    *,
    loss: Callable[[Any], Any] | None = None,
    optimizer: Any = None,
    dtype: str = "as-is",
    warmup: int = 3,
    repeats: int = 10,
    max_s: float = 60.0,
    bucket_bytes: float = DDP_BUCKET_BYTES,
    first_bucket_bytes: float = DDP_FIRST_BUCKET_BYTES,
    name: str = "",
    sample: str = "",
    library: str = "user",
    out: str | Path | None = None,
) -> Measured:
    """Time training iterations of `model` on `batch`, on the device where its parameters are.

    `batch` is what the model is called with: a tensor, a tuple of arguments, or a dict of keyword arguments. `loss`
    turns its output into a scalar (default: the output's own `loss`, else the mean of its tensors). Without an
    `optimizer` a stochastic gradient descent with learning rate 0 is timed, so the weights stay as they are; one that
    is given steps and changes them. Buffers (running means) are put back. dtype "bf16" runs under autocast; "fp32" and
    "tf32" set the matrix units' mode. Fewer than `repeats` iterations are timed if they would take longer than `max_s`.
    With `out` the result is written as a profile file.
    """
    torch = load_torch()
    _check(model, batch, dtype, warmup, repeats)
    parameters = _trained(model)
    device = parameters[0].device
    optimizer = optimizer or torch.optim.SGD(parameters, lr=0.0)
    step = _Step(torch, model, batch, loss or _default_loss, optimizer, dtype, device)
    with _undisturbed(model), _precision(torch, dtype):
        spans, memory = _time(torch, step, warmup, repeats, max_s)
        ready = _ready_times(step, parameters, max(2, min(repeats, len(spans)) // 2))
    result = Measured(
        gpu=_device_name(torch, device),
        dtype=_dtype_label(dtype, parameters[0]),
        batch=_batch_size(batch),
        **_figures(spans, ready, parameters, bucket_bytes, first_bucket_bytes),
        memory_bytes=memory,
        date=datetime.datetime.now(datetime.UTC).date().isoformat(),
        software=f"torch {torch.__version__}",
        library=library,
        sample=sample,
    )
    if out is not None:
        from weft.workload.profiles.files import save_measured

        save_measured(name or type(model).__name__, [result], out)
    return result


def _figures(
    spans: Sequence[tuple[float, float, float]],
    ready: _Ready,
    parameters: Sequence[Any],
    bucket_bytes: float,
    first_bucket_bytes: float,
) -> dict[str, Any]:
    """The times of the parts of an iteration, and what it sends when."""
    forward_s, backward_s, optimiser_s = (median(column) for column in zip(*spans, strict=True))
    sizes, times = _in_order(parameters, ready, backward_s)
    return {
        "forward_s": forward_s,
        "backward_s": backward_s,
        "optimiser_s": optimiser_s,
        "buckets": bucket(sizes, times, bucket_bytes, first_bucket_bytes),
        "params": sum(p.numel() for p in parameters),
        "gradient_bytes": sum(sizes),
        "sparse_bytes": sum(_bytes(parameters[i]) for i in ready.sparse),
        "spread": _spread([sum(s) for s in spans]),
        "repeats": len(spans),
    }


def _trained(model: Any) -> list[Any]:
    """The parameters that get gradients, on a device whose clock can be read."""
    parameters = [p for p in model.parameters() if p.requires_grad]
    if not parameters:
        raise InputError("profile: the model has no parameters that need gradients; pass a model in training")
    kind = parameters[0].device.type
    if kind not in ("cpu", "cuda"):
        raise InputError(f"profile: the model is on {kind}, whose clock is not read; move it to cpu or cuda")
    return parameters


def _check(model: Any, batch: Any, dtype: str, warmup: int, repeats: int) -> None:
    """Refuse what cannot be measured, in words."""
    if dtype not in MODES:
        raise InputError(f"profile: dtype {dtype!r} is not known; use one of {', '.join(MODES)}")
    if not callable(getattr(model, "parameters", None)) or not callable(model):
        raise InputError(f"profile: the model is a {type(model).__name__}; pass a torch.nn.Module")
    if next(_tensors(batch), None) is None:
        raise InputError(
            f"profile: the batch ({type(batch).__name__}) holds no tensor; pass what the model is called with: "
            "a tensor, a tuple of arguments or a dict of keyword arguments"
        )
    for name, count in (("warmup", warmup), ("repeats", repeats)):
        if not isinstance(count, int) or count < 1:
            raise InputError(f"profile: {name} is {count!r}; give a whole number of at least 1")


@dataclass
class _Step:
    """One training iteration, with a mark on the device's clock after each part."""

    torch: Any
    model: Any
    batch: Any
    loss: Callable[[Any], Any]
    optimizer: Any
    dtype: str
    device: Any

    def __call__(self) -> tuple[Any, Any, Any, Any]:
        """Marks at the start, after the forward pass, after the backward pass and after the optimiser."""
        start = self.mark()
        with self._autocast():
            scalar = self.loss(_call(self.model, self.batch))
        forward = self.mark()
        scalar.backward()
        backward = self.mark()
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        return start, forward, backward, self.mark()

    def mark(self) -> Any:
        """A point in time on the device's own clock."""
        if self.device.type != "cuda":
            return perf_counter()
        event = self.torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    def seconds(self, start: Any, end: Any) -> float:
        """Seconds between two marks that have been reached."""
        if self.device.type != "cuda":
            return float(end - start)
        return float(start.elapsed_time(end)) / 1e3

    def wait(self) -> None:
        """Until the device has done all it was given."""
        if self.device.type == "cuda":
            self.torch.cuda.synchronize(self.device)

    def _autocast(self) -> Any:
        if self.dtype != "bf16":
            return nullcontext()
        return self.torch.autocast(self.device.type, dtype=self.torch.bfloat16)


def _time(
    torch: Any, step: _Step, warmup: int, repeats: int, max_s: float
) -> tuple[list[tuple[float, float, float]], float]:
    """Seconds of (forward, backward, optimiser) for each timed iteration, and the peak memory in bytes."""
    first = perf_counter()
    for _ in range(max(1, warmup)):
        began = perf_counter()
        step()
        step.wait()
        took = perf_counter() - began
        if perf_counter() - first > max_s:
            break
    count = max(3, min(repeats, int(max_s / max(took, 1e-9))))
    if step.device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(step.device)
    spans: list[tuple[float, float, float]] = []
    for _ in range(count):
        a, b, c, d = step()
        step.wait()
        spans.append((step.seconds(a, b), step.seconds(b, c), step.seconds(c, d)))
    if step.device.type == "cuda":
        return spans, float(torch.cuda.max_memory_allocated(step.device))
    return spans, _cpu_memory(torch, step)


@dataclass
class _Ready:
    seconds: list[float | None]  # by parameter, after the start of the backward pass; None if it got no gradient
    sparse: set[int]
    backward_s: float  # seconds of the backward pass, over the iterations that were watched


def _ready_times(step: _Step, parameters: Sequence[Any], repeats: int) -> _Ready:
    """When each parameter's gradient is ready, by hooks that mark the clock as it is accumulated."""
    marks: dict[int, Any] = {}
    sparse: set[int] = set()

    def watch(index: int) -> Callable[[Any], None]:
        def ready(parameter: Any) -> None:
            marks[index] = step.mark()
            if parameter.grad.is_sparse:
                sparse.add(index)

        return ready

    handles = [p.register_post_accumulate_grad_hook(watch(i)) for i, p in enumerate(parameters)]
    seen: list[list[float]] = [[] for _ in parameters]
    backward: list[float] = []
    try:
        for _ in range(repeats):
            marks.clear()
            _, begin, end, _ = step()
            step.wait()
            backward.append(step.seconds(begin, end))
            for i, at in marks.items():
                seen[i].append(step.seconds(begin, at))
    finally:
        for handle in handles:
            handle.remove()
    return _Ready([median(s) if s else None for s in seen], sparse, median(backward))


def _in_order(parameters: Sequence[Any], ready: _Ready, backward_s: float) -> tuple[list[float], list[float]]:
    """Bytes and ready times of the dense gradients in the order they come, on the clock of the unwatched iterations."""
    dense = sorted((r, i) for i, r in enumerate(ready.seconds) if r is not None and i not in ready.sparse)
    scale = backward_s / ready.backward_s if ready.backward_s > 0 else 1.0
    return [_bytes(parameters[i]) for _, i in dense], [min(r * scale, backward_s) for r, _ in dense]


def _bytes(tensor: Any) -> float:
    return float(tensor.numel() * tensor.element_size())


def _cpu_memory(torch: Any, step: _Step) -> float:
    """Bytes of parameters, gradients, buffers, optimiser state, and what the forward pass keeps for the backward."""
    kept: dict[int, int] = {}

    def keep(tensor: Any) -> Any:
        storage = tensor.untyped_storage()
        kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        step()
    model = step.model
    own = {p.untyped_storage().data_ptr() for p in model.parameters()}
    weights = sum(_bytes(p) * (2 if p.requires_grad else 1) for p in model.parameters())
    buffers = sum(map(_bytes, model.buffers()))
    entries = [value for entry in step.optimizer.state.values() for value in entry.values()]
    state = sum(_bytes(value) for value in entries if hasattr(value, "element_size"))
    return float(weights + buffers + state + sum(size for at, size in kept.items() if at not in own))


def _call(model: Any, batch: Any) -> Any:
    if isinstance(batch, Mapping):
        return model(**batch)
    if isinstance(batch, tuple | list):
        return model(*batch)
    return model(batch)


def _default_loss(output: Any) -> Any:
    """The output's own loss, or the sum of the means of its floating-point tensors."""
    own = getattr(output, "loss", None)
    if own is not None:
        return own
    means = [t.float().mean() for t in _tensors(output) if t.is_floating_point() and t.requires_grad]
    if not means:
        raise InputError("profile: the model's output has no tensor to differentiate; give loss=")
    return sum(means[1:], means[0])


def _tensors(value: Any) -> Iterator[Any]:
    if hasattr(value, "is_floating_point"):
        yield value
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from _tensors(item)
    elif isinstance(value, tuple | list):
        for item in value:
            yield from _tensors(item)


def _batch_size(batch: Any) -> int:
    for tensor in _tensors(batch):
        if tensor.ndim:
            return int(tensor.shape[0])
    return 1


@contextmanager
def _undisturbed(model: Any) -> Iterator[None]:
    """Training mode while it lasts; afterwards mode, buffers and gradients are as they were."""
    training = model.training
    buffers = {name: b.detach().clone() for name, b in model.named_buffers()}
    gradients = [(p, p.grad) for p in model.parameters()]
    for p, _ in gradients:
        p.grad = None
    model.train()
    try:
        yield
    finally:
        model.train(training)
        for name, b in model.named_buffers():
            b.detach().copy_(buffers[name])
        for p, gradient in gradients:
            p.grad = gradient


@contextmanager
def _precision(torch: Any, dtype: str) -> Iterator[None]:
    """The matrix units' single-precision mode: plain for fp32, tf32 where asked for; put back afterwards."""
    if dtype not in ("fp32", "tf32"):
        yield
        return
    matmul, cudnn = torch.backends.cuda.matmul, torch.backends.cudnn
    switches: list[tuple[Any, str]]
    mode: str | bool
    if hasattr(cudnn, "conv"):
        switches = [(holder, "fp32_precision") for holder in (matmul, cudnn.conv, cudnn.rnn)]
        mode = "tf32" if dtype == "tf32" else "ieee"
    else:  # torch before 2.9
        switches, mode = [(matmul, "allow_tf32"), (cudnn, "allow_tf32")], dtype == "tf32"
    before = [getattr(holder, name) for holder, name in switches]
    for holder, name in switches:
        setattr(holder, name, mode)
    try:
        yield
    finally:
        for (holder, name), value in zip(switches, before, strict=True):
            setattr(holder, name, value)


def _device_name(torch: Any, device: Any) -> str:
    return str(torch.cuda.get_device_name(device)) if device.type == "cuda" else str(device.type)


def _dtype_label(dtype: str, parameter: Any) -> str:
    weights = str(parameter.dtype).removeprefix("torch.")
    short = {"float32": "fp32", "bfloat16": "bf16-weights", "float16": "fp16-weights"}.get(weights, weights)
    return short if dtype == "as-is" else dtype


def _spread(totals: Sequence[float]) -> float:
    if len(totals) < QUARTILES_NEED:
        return 0.0
    first, middle, third = quantiles(totals, n=4)
    return (third - first) / middle if middle > 0 else 0.0
