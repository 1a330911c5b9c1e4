"""Time what a transformer is made of: matrix products, attention and reads of memory, by size and precision.

    python -m weft_live.profiling.matrices --out matrices.jsonl [--device cuda] [--seconds 240]

One JSON object per line: what was computed, its size, the median time of one call and the rate. From such a table the
zoo knows which share of a GPU's peak a layer reaches at a given micro-batch. Data are random: matrix units are faster
on zeros. Nothing is timed cold: each size runs until it has warmed up, then at least five times.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from typing import Any

from weft_live.profiling.torch_bridge import load_torch

TOKENS = (256, 512, 1024, 2048, 4096, 8192, 16384)
# (inputs, outputs) of the products of one layer: Llama 8B, 70B and 405B, whole and in eighths, and experts of mixtures.
SHAPES = (
    (4096, 6144), (4096, 4096), (4096, 28672), (14336, 4096), (8192, 10240), (8192, 57344), (28672, 8192),
    (8192, 1280), (1024, 8192), (8192, 7168), (3584, 8192), (16384, 2304), (2048, 16384), (16384, 13312),
    (6656, 16384), (7168, 4096), (2048, 7168), (2880, 5760), (1024, 1024), (2048, 2048),
)  # fmt: skip
ATTENTION = tuple((heads, length) for heads in (8, 32) for length in (1024, 2048, 4096, 8192, 16384))
COPIES = (2**24, 2**28, 2**32)
PRECISIONS = ("bf16", "fp8", "tf32", "fp32")


def rows(torch: Any, device: str, until: float) -> Iterator[dict[str, Any]]:
    """Every measurement, until the time is over."""
    for precision in PRECISIONS:
        for tokens, (inputs, outputs) in product(TOKENS, SHAPES):
            if precision in ("tf32", "fp32") and (tokens > 4096 or inputs * outputs > 2e8):
                continue  # slow, and as near to their peak as smaller ones
            if time.perf_counter() > until:
                return
            run = _product(torch, device, precision, tokens, inputs, outputs)
            if run is None:
                continue
            took_s = timed(torch, device, run)
            yield {
                "kind": "matrix", "precision": precision, "tokens": tokens, "inputs": inputs, "outputs": outputs,
                "seconds": took_s, "tflops": 2e-12 * tokens * inputs * outputs / took_s,
            }  # fmt: skip
    yield from _others(torch, device, until)


def _product(
    torch: Any, device: str, precision: str, tokens: int, inputs: int, outputs: int
) -> Callable[[], Any] | None:
    """One product of that size; None where PyTorch has none in that precision."""
    torch.backends.cuda.matmul.allow_tf32 = precision == "tf32"
    dtype = torch.bfloat16 if precision in ("bf16", "fp8") else torch.float32
    left = torch.randn(tokens, inputs, device=device, dtype=dtype)
    right = torch.randn(outputs, inputs, device=device, dtype=dtype)
    if precision != "fp8":
        return lambda: left @ right.T
    multiply, kinds = (getattr(torch.nn.functional, name, None) for name in ("scaled_mm", "ScalingType"))
    if multiply is None or kinds is None or not device.startswith("cuda"):
        return None
    small, other = left.to(torch.float8_e4m3fn), right.to(torch.float8_e4m3fn).T
    one = torch.ones(1, device=device)
    return lambda: multiply(small, other, one, kinds.TensorWise, one, kinds.TensorWise, output_dtype=torch.bfloat16)


def _others(torch: Any, device: str, until: float) -> Iterator[dict[str, Any]]:
    """Causal attention forward, and forward with backward; a copy of memory."""
    attend = torch.nn.functional.scaled_dot_product_attention
    for heads, length in ATTENTION:
        if time.perf_counter() > until:
            return
        parts = [
            torch.randn(1, heads, length, 128, device=device, dtype=torch.bfloat16, requires_grad=True) for _ in "qkv"
        ]
        grad = torch.randn_like(parts[0])
        flops = 2.0 * heads * length * length * 128  # half of both products: what lies ahead is not looked at

        def forward(parts: list[Any] = parts) -> Any:
            return attend(*parts, is_causal=True)

        def both(parts: list[Any] = parts, grad: Any = grad) -> Any:
            return torch.autograd.grad(attend(*parts, is_causal=True), parts, grad)

        for name, run, times in (("attention", forward, 1.0), ("attention-with-backward", both, 3.5)):
            took_s = timed(torch, device, run)
            yield {
                "kind": name, "precision": "bf16", "heads": heads, "tokens": length, "seconds": took_s,
                "tflops": 1e-12 * times * flops / took_s,
            }  # fmt: skip
    for size in COPIES if time.perf_counter() < until else ():
        source = torch.empty(size, device=device, dtype=torch.uint8)
        target = torch.empty_like(source)

        def copy(source: Any = source, target: Any = target) -> Any:
            return target.copy_(source)

        took_s = timed(torch, device, copy)
        yield {"kind": "copy", "bytes": size, "seconds": took_s, "gb_per_s": 2e-9 * size / took_s}


def timed(torch: Any, device: str, run: Callable[[], Any], least_s: float = 0.05) -> float:
    """The median time of one call, in bursts long enough for the clock."""
    on_gpu = device.startswith("cuda")

    def burst(n: int) -> float:
        if on_gpu:
            torch.cuda.synchronize()
        began = time.perf_counter()
        for _ in range(n):
            run()
        if on_gpu:
            torch.cuda.synchronize()
        return time.perf_counter() - began

    burst(3)
    calls = max(1, int(least_s / 5 / max(burst(2) / 2, 1e-7)))
    return statistics.median(burst(calls) for _ in range(5)) / calls


def main() -> None:
    """Measure, and write each row as it comes."""
    parser = argparse.ArgumentParser(description="Time the matrix products and attention of transformers.")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--seconds", type=float, default=240.0, help="stop starting measurements after this long")
    args = parser.parse_args()
    torch = load_torch()
    with args.out.open("w", encoding="utf-8") as file:
        for row in rows(torch, args.device, time.perf_counter() + args.seconds):
            file.write(json.dumps(row) + "\n")
            file.flush()


if __name__ == "__main__":
    main()
