"""Profile many zoo models in one go: how the measured profiles that ship with weft are made.

    python -m weft_live.profiling.sweep --out measured.jsonl [--device cuda] [--only resnet50]

One JSON object per line and measurement (model and numbers); a model that does not fit is reported and left out.
`weft.workload.profiles.files.save_measured` turns them into profile files.
"""

from __future__ import annotations

import argparse
import gc
import json
import time
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

from weft.results.display import percent
from weft.workload import zoo
from weft_live.profiling.architectures import Trainable, build
from weft_live.profiling.measure import profile
from weft_live.profiling.torch_bridge import load_torch

# model: batches, precisions. bf16-weights: the weights themselves are bf16, for models that do not fit otherwise.
PLAN: dict[str, tuple[tuple[int, ...], tuple[str, ...]]] = {
    "resnet50": ((16, 64, 256), ("fp32", "bf16")),
    "vgg16": ((16, 64, 256), ("fp32", "bf16")),
    "inception-v3": ((16, 64), ("fp32", "bf16")),
    "lstm-ptb": ((20, 64), ("fp32", "bf16")),
    "bert-base": ((8, 32), ("fp32", "bf16")),
    "bert-large": ((8, 32), ("fp32", "bf16")),
    "gpt2": ((4, 16), ("fp32", "bf16")),
    "dlrm": ((128, 1024), ("fp32",)),
    "dlrm-benchmark": ((128, 1024), ("fp32",)),
    "vgg11": ((16, 64), ("fp32", "bf16")),
    "vgg19": ((16, 64), ("fp32", "bf16")),
    "resnet18": ((64, 256), ("fp32", "bf16")),
    "wide-resnet101": ((32, 128), ("fp32", "bf16")),
    "alexnet": ((64, 256), ("fp32", "bf16")),
    "mobilenet-v3-small": ((64, 256), ("fp32", "bf16")),
    "mobilenet-v3-large": ((64, 256), ("fp32", "bf16")),
    "roberta": ((8, 32), ("fp32", "bf16")),
    "camembert": ((8, 32), ("fp32", "bf16")),
    "xlm": ((4, 16), ("fp32", "bf16")),
    "gpt1": ((8, 32), ("fp32", "bf16")),
    "gpt2-medium": ((8,), ("fp32", "bf16")),
    "gpt2-a": ((8, 24), ("bf16",)),
    "gpt2-b": ((24, 70), ("bf16",)),
    "llama-7b": ((1, 2), ("bf16-weights",)),
    "gpt3-cassini": ((1, 4), ("bf16-weights",)),
}


def runs(only: tuple[str, ...] = ()) -> Iterator[tuple[str, int, str]]:
    """(model, batch, dtype) of every measurement of the plan."""
    for model, (batches, dtypes) in PLAN.items():
        if not only or model in only:
            for dtype in dtypes:
                for batch in batches:
                    yield model, batch, dtype


def main() -> None:
    """Run the plan."""
    parser = argparse.ArgumentParser(description="Profile the zoo on this machine.")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--only", action="append", default=[])
    parser.add_argument("--seconds", type=float, default=480.0, help="stop starting measurements after this long")
    parser.add_argument("--max-s", type=float, default=2.0, help="timed seconds per measurement")
    args = parser.parse_args()
    began = time.perf_counter()
    torch = load_torch()
    torch.backends.cudnn.benchmark = True
    with args.out.open("w", encoding="utf-8") as file:
        for model, batch, dtype in runs(tuple(args.only)):
            if time.perf_counter() - began > args.seconds:
                print(f"out of time before {model} {dtype} batch {batch}", flush=True)
                break
            line = _measure(model, batch, dtype, args.device, args.max_s)
            if line:
                file.write(line + "\n")
                file.flush()


def _measure(model: str, batch: int, dtype: str, device: str, max_s: float) -> str:
    torch = load_torch()
    label, began = f"{model} {dtype} batch {batch}", time.perf_counter()
    made: Trainable | None = None
    try:
        weights = "bfloat16" if dtype == "bf16-weights" else "float32"
        made = build(model, batch, device, weights=weights)
        seen = profile(
            made.module,
            made.batch,
            loss=made.loss,
            dtype="as-is" if dtype == "bf16-weights" else dtype,
            repeats=20,
            max_s=max_s,
            library=made.library,
            sample=zoo.find(model)[0].sample,
        )
    except torch.OutOfMemoryError as error:
        print(f"{label}: does not fit ({str(error).split('.')[0]})", flush=True)
        return ""
    except Exception as error:
        print(f"{label}: {type(error).__name__}: {error}", flush=True)
        return ""
    finally:
        del made
        gc.collect()
        if device.startswith("cuda"):
            torch.cuda.empty_cache()
    print(
        f"{label}: forward {1e3 * seen.forward_s:.2f} ms, backward {1e3 * seen.backward_s:.2f} ms, optimiser "
        f"{1e3 * seen.optimiser_s:.2f} ms, {len(seen.buckets)} buckets, {seen.memory_bytes / 1e9:.1f} GB, spread "
        f"{percent(seen.known_spread)}, {seen.repeats} x, {made_by(seen.library)}, {time.perf_counter() - began:.1f} s",
        flush=True,
    )
    return json.dumps({"model": model, **asdict(seen)})


def made_by(library: str) -> str:
    """Who defined the model, in words."""
    return "weft's own definition" if library == "weft" else library


if __name__ == "__main__":
    main()
