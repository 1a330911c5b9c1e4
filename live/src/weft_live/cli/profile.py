"""`weft profile`: measure a zoo model on this machine and write a profile file."""

from __future__ import annotations

import warnings
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from weft.cli.common import JsonOption, deliver, notice, plain_table

if TYPE_CHECKING:
    from weft.workload.profiles.measured import Measured


def profile(
    model: Annotated[str, typer.Argument(help="A model of the zoo (weft models lists them).")],
    batch: Annotated[list[int] | None, typer.Option("--batch", help="Samples per iteration; may be repeated.")] = None,
    device: Annotated[str, typer.Option("--device", help="cpu, cuda, cuda:1, ...; auto is the GPU if any.")] = "auto",
    dtype: Annotated[
        str, typer.Option("--dtype", help="fp32, tf32, bf16 (autocast), bf16-weights, or as-is (torch's settings).")
    ] = "as-is",
    library: Annotated[
        str, typer.Option("--library", help="Who defines the model: auto, torchvision, transformers, weft.")
    ] = "auto",
    repeats: Annotated[int, typer.Option("--repeats", min=3, help="Timed iterations.")] = 10,
    warmup: Annotated[int, typer.Option("--warmup", min=1, help="Untimed iterations before the timed ones.")] = 3,
    out: Annotated[Path | None, typer.Option("--out", "-o", metavar="FILE.json", help="Profile file to write.")] = None,
    json: JsonOption = False,
) -> None:
    """Measure forward, backward and optimiser time, gradient buckets and memory of a model, with random weights.

    The file that --out writes can stand wherever a model's name can. Needs PyTorch (pip install 'weft[torch]').

    Example: weft profile resnet50 --batch 64 --dtype bf16 --out resnet50.json
    """
    from weft.errors import InputError
    from weft.workload import zoo
    from weft.workload.profiles.files import save_measured
    from weft_live.profiling.torch_bridge import load_torch

    _check(model, device, dtype, library, out)
    entry = zoo.find(model)[0]
    sizes = batch or [entry.batch]
    if min(sizes) < 1:
        raise InputError(f"--batch: {min(sizes)} is too small; give at least 1")
    load_torch()
    seen = []
    for size in sizes:
        seen.append(_measure(entry.name, entry.sample, size, device, dtype, library, warmup, repeats))
    if out is not None:
        save_measured(entry.name, seen, out)
        notice(f"wrote {out}")
    found = {"model": entry.name, "measurements": [{**asdict(m), "spread": m.known_spread} for m in seen]}
    deliver(found, json, lambda _: _table(seen))


def _check(model: str, device: str, dtype: str, library: str, out: Path | None) -> None:
    """Refuse, before minutes are spent on measuring, what cannot be measured or written."""
    from weft.errors import InputError
    from weft.workload import zoo
    from weft.workload.profiles.measured import MODES
    from weft_live.profiling.architectures import LIBRARIES

    if zoo.is_path(model):
        raise InputError(
            f"{model}: weft profile measures models of the zoo; one of your own is measured in its training script, by "
            "weft.profile(model, batch, out=FILE)"
        )
    if zoo.without(model) != model:
        raise InputError(f"model {model!r}: options behind the name are not measured; give --batch and --dtype")
    kind, colon, number = device.partition(":")
    if kind not in ("auto", "cpu", "cuda") or (colon and not (kind == "cuda" and number.isdecimal())):
        raise InputError(f"--device: {device!r} is not known; use auto, cpu, cuda or cuda:N")
    if dtype not in (*MODES, "bf16-weights"):
        raise InputError(f"--dtype: {dtype!r} is not known; use one of {', '.join(MODES)}, bf16-weights")
    if library not in LIBRARIES:
        raise InputError(f"--library: {library!r} is not known; use one of {', '.join(LIBRARIES)}")
    if out is not None and not out.parent.is_dir():
        raise InputError(f"--out: there is no folder {out.parent}; choose a path that can be written")


def _measure(
    model: str, sample: str, batch: int, device: str, dtype: str, library: str, warmup: int, repeats: int
) -> Measured:
    from weft.errors import InputError
    from weft_live.profiling.architectures import build
    from weft_live.profiling.measure import profile as measure
    from weft_live.profiling.torch_bridge import load_torch

    torch = load_torch()
    where = device if device != "auto" else "cuda" if torch.cuda.is_available() else "cpu"
    if where == "cpu" and dtype.startswith("bf16"):
        notice("bf16 on a CPU: where it is computed in software this takes minutes; --dtype fp32 is quicker")
    weights = "bfloat16" if dtype == "bf16-weights" else "float32"
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # torch's, about slower paths it takes: the times show them
            made = build(model, batch, where, library=library, weights=weights)
            notice(f"measuring {model}, batch {batch}")
            return measure(
                made.module, made.batch, loss=made.loss, dtype="as-is" if dtype == "bf16-weights" else dtype,
                warmup=warmup, repeats=repeats, name=model, sample=sample, library=made.library,
            )  # fmt: skip
    except torch.OutOfMemoryError as error:
        raise InputError(f"model {model}: batch {batch} does not fit into {where}; use a smaller --batch") from error
    except (RuntimeError, AssertionError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        remedy = "try a smaller --batch" if where == "cpu" else "try --device cpu"
        raise InputError(f"model {model} on {where}: {reason}; {remedy}") from error


def _table(seen: list[Measured]) -> Any:
    from weft.results.display import duration, percent

    numbers = (">batch", ">forward", ">backward", ">optimiser", ">gradients", ">buckets", ">memory", ">spread")
    table = plain_table(*numbers, "on")
    for m in seen:
        table.add_row(
            str(m.batch), duration(m.forward_s), duration(m.backward_s), duration(m.optimiser_s),
            f"{m.gradient_bytes / 1e6:,.1f} MB", str(len(m.buckets)), f"{m.memory_bytes / 1e9:.2f} GB",
            percent(m.known_spread), f"{m.gpu}, {m.dtype}, {m.library}",
        )  # fmt: skip
    return table
