"""`weft models`: the model zoo, and what one iteration of a model looks like."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from weft.cli.common import JsonOption, notice, plain_table, print_json, stdout

if TYPE_CHECKING:
    from weft.model.profile import Profile, Task
    from weft.network.estimates import Alone
    from weft.network.topologies import Machine
    from weft.results.pictures.iteration import IterationPicture
    from weft.workload.zoo import Model, Timing

app = typer.Typer(
    help="The models that jobs train: sizes, times with their sources, and the iteration they repeat.",
    epilog="Example: weft models show vgg16 --workers 4",
    no_args_is_help=False,
    invoke_without_command=True,
)


@app.callback()
def _default(context: typer.Context, json: JsonOption = False) -> None:
    """The models that jobs train: sizes, times with their sources, and the iteration they repeat.

    Example: weft models
    """
    if context.invoked_subcommand is None:
        _list(json)


@app.command("list")
def list_models(json: JsonOption = False) -> None:
    """List the models of the zoo.

    Example: weft models list
    """
    _list(json)


@app.command("show")
def show(
    context: typer.Context,
    model: Annotated[str, typer.Argument(help="A model of the zoo, model@variant, model[option=value], or a file.")],
    workers: Annotated[int, typer.Option("--workers", "-n", max=100_000, help="Number of workers (GPUs).")] = 4,
    gpu: Annotated[str, typer.Option("--gpu", help="GPU type whose compute times are used.")] = "V100",
    batch: Annotated[int | None, typer.Option("--batch", help="Samples per worker (default: the usual).")] = None,
    dtype: Annotated[
        str | None, typer.Option("--dtype", help="Precision: fp32, bf16, fp8, fp4 (default: the GPU's).")
    ] = None,
    parallel: Annotated[
        str,
        typer.Option(
            "--parallel",
            help="auto, data, parameter-server, pipeline, tensor, hybrid, hybrid:TxPxD, hybrid:tp4xcp2xpp8, embedding.",
        ),
    ] = "auto",
    overlap: Annotated[bool, typer.Option("--overlap", help="Send gradient buckets during the backward pass.")] = False,
    micro_batches: Annotated[
        int | None,
        typer.Option("--micro-batches", help="Micro-batches (by default 3, on a named layout by its batch)."),
    ] = None,
    schedule: Annotated[str, typer.Option("--schedule", help="Order of micro-batches: gpipe or 1f1b.")] = "gpipe",
    servers: Annotated[int, typer.Option("--servers", help="Parameter servers.")] = 1,
    collective: Annotated[
        str, typer.Option("--collective", help="Algorithm of all-reduces, not on a named layout.")
    ] = "ring",
    gbps: Annotated[float, typer.Option("--gbps", help="Speed of each worker's NIC in Gbit/s.")] = 50.0,
    machine: Annotated[
        str,
        typer.Option("--machine", help="On such machines, with their GPUs, NVLinks and NICs: dgx-h100, gb200-nvl72."),
    ] = "",
    worker: Annotated[int, typer.Option("--worker", help="The worker whose traffic is drawn.")] = 0,
    layers: Annotated[bool, typer.Option("--layers", help="List the layers and their gradients, too.")] = False,
    plot: Annotated[Path | None, typer.Option("--plot", metavar="FILE.svg", help="Draw into a file, too.")] = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", metavar="FILE.json", help="Write the iteration as a profile file.")
    ] = None,
    json: JsonOption = False,
) -> None:
    """Draw one iteration of a model, alone on the network: computing and traffic over time, and the circle.

    A file may be counters of a NIC over time (CSV: time_s,bytes) while its job was alone: their period and phases are
    found, and said. Such a file, or what --out writes, can stand wherever a model's name can.

    Example: weft models show gpt3-cassini --workers 8 --gpu A100

    A step of thousands of GPUs: weft models show -n 5120 --machine gb200-nvl72
    'llama-3.1-405b[parallel=hybrid:tp4xcp2xpp8,micro_batches=16,virtual=8,schedule=1f1b,dtype=fp4]'
    """
    from weft.errors import InputError
    from weft.model.units import gbps_to_bytes_per_s
    from weft.network.collectives import get_collective
    from weft.network.estimates import run_alone, run_on
    from weft.workload import zoo
    from weft.workload.zoo.names import has_layout
    from weft.workload.zoo.rates import reached

    model, speed = _named(model), gbps_to_bytes_per_s(_speed(gbps))
    get_collective(collective)
    _refuse_ignored(context, model, parallel)
    kind = _machine(machine) if machine else None
    gpu, gbps = (kind.gpu, kind.nic_gbps * kind.nics_per_server / kind.gpus_per_server) if kind else (gpu, gbps)
    profile = zoo.profile(
        model, workers, batch=batch, gpu=gpu, parallel=parallel, overlap=overlap, dtype=dtype,
        micro_batches=micro_batches, schedule=schedule, servers=servers,
    )  # fmt: skip
    if not 0 <= worker < profile.workers:
        raise InputError(f"--worker: {worker} is not among the workers 0..{profile.workers - 1}")
    alone = run_alone(profile, speed, collective) if kind is None else run_on(profile, kind, collective)
    entry = None if zoo.is_path(model) else zoo.find(model)[0]
    remarks, picture = _remarks(model, alone), _picture(alone, worker, gbps)
    if kind is not None and has_layout(model, parallel):
        remarks.append(
            f"note: links run at full rate; weft validate mlperf51 takes {reached().network:g} of it; for its numbers "
            "multiply nic_gbps, intra_server_gbps and nvlink_gbps of a scenario's cluster by that"
        )
    if plot is not None:
        _save(picture, plot)
    if out is not None:
        _write(profile, out)
    if json:
        print_json({**_as_dict(entry, alone, worker, gbps, layers), "remarks": remarks})
        return
    _draw(picture, _facts(entry, alone), remarks, _layer_table(entry) if layers and entry is not None else None)


def _named(model: str) -> str:
    """A model as the zoo knows it; a file in the current folder is one even without the usual ending."""
    from weft.workload import zoo

    here = f"./{model}" if not zoo.is_path(model) and Path(zoo.without(model)).is_file() else model
    return zoo.in_folder(here, Path())


def _refuse_ignored(context: typer.Context, model: str, parallel: str) -> None:
    """Refuse an option of the command that something else decides: brackets, a machine or a named layout."""
    from weft.errors import InputError
    from weft.workload.zoo.names import has_layout, split

    given = [
        name for name in context.params if getattr(context.get_parameter_source(name), "name", "") == "COMMANDLINE"
    ]
    _, own = split(model)
    for name in given:
        flag = f"--{name.replace('_', '-')}"
        if name in own:
            raise InputError(f"{flag}: the brackets of {model} say {name} already; leave one out")
        if name in ("gpu", "gbps") and "machine" in given:
            raise InputError(f"{flag}: --machine says which GPUs and NICs there are; leave one out")
        if name == "collective" and has_layout(model, parallel):
            raise InputError(
                f"{flag}: a named layout says of each transfer how it is sent, all-reduces in rings; leave it out"
            )


def _machine(name: str) -> Machine:
    from weft.network.topologies import Machine
    from weft.network.topologies.build import machine_of

    return machine_of({"preset": name}, Machine(), "--machine: cluster")


def _speed(gbps: float) -> float:
    from weft.errors import InputError

    if not 0 < gbps < float("inf"):
        raise InputError(f"--gbps: {gbps:g} is no speed of a NIC; give a number above 0")
    return gbps


def _save(picture: IterationPicture, file: Path) -> None:
    from weft.results.pictures.iteration import iteration_figure
    from weft.results.pictures.style import save_picture

    save_picture(iteration_figure(picture), file)
    notice(f"wrote {file}")


def _write(profile: Profile, file: Path) -> None:
    from weft.workload.profiles.files import save_profile

    save_profile(profile, file)
    notice(f"wrote {file}")


def _draw(picture: IterationPicture, facts: Any, remarks: list[str], layers: Any) -> None:
    from weft.results.pictures.iteration import draw_iteration

    console = stdout()
    console.print(draw_iteration(picture))
    console.print()
    console.print(facts, highlight=False)
    for remark in remarks:
        console.print(remark, highlight=False, soft_wrap=True)
    if layers is not None:
        console.print(layers)


def _list(json: bool) -> None:
    from weft.workload import zoo

    entries = [zoo.find(name)[0] for name in zoo.names()]
    if json:
        print_json({"models": [_entry_dict(e) for e in entries]})
        return
    table = plain_table("model", "what it is", ">parameters", ">gradients", "batch", "parallel", "measured on")
    for e in entries:
        gpus = ", ".join(dict.fromkeys(t.gpu for t in zoo.known(e))) or "estimated"
        low, high = e.batch_range
        table.add_row(
            e.name,
            e.title,
            f"{e.params:,}",
            _megabytes(e.gradient_bytes),
            f"{e.batch} ({low}-{high})",
            e.parallel,
            gpus,
        )
    console = stdout()
    console.print(table)
    variants = [f"{e.name}@{v.variant}" for e in entries for v in e.variants]
    console.print(f"\nA paper's own numbers: {', '.join(variants)}", highlight=False)
    console.print("One iteration: weft models show vgg16 --workers 4", highlight=False)


def _picture(alone: Alone, worker: int, gbps: float) -> IterationPicture:
    from weft.model.profile import Compute
    from weft.model.units import bytes_per_s_to_gbps
    from weft.results.pictures.iteration import Block, IterationPicture, Rate

    profile = alone.profile
    blocks = tuple(
        Block(_lane(profile, task), task.name, start_s, end_s)
        for task, start_s, end_s in zip(profile.tasks, alone.played.start_s, alone.played.end_s, strict=True)
        if isinstance(task, Compute)
    )
    lanes = {b.lane for b in blocks}
    if len(lanes) > 1:  # the optimiser runs per worker: in the lane of the workers it belongs to
        blocks = tuple(b for b in blocks if not b.name.startswith("optimiser."))
    rates = tuple(Rate(s.start_s, s.end_s, bytes_per_s_to_gbps(s.bytes_per_s)) for s in alone.sent[worker])
    ups = tuple(Rate(s.start_s, s.end_s, bytes_per_s_to_gbps(s.bytes_per_s)) for s in alone.up_phases(worker))
    word = "worker" if profile.workers == 1 else "workers"
    title = f"{profile.name}: one iteration on {profile.workers} {word}"
    return IterationPicture(title, alone.iteration_s, gbps, worker, blocks, rates, ups)


def _lane(profile: Profile, task: Task) -> str:
    ranks = sorted(profile.ranks(task))
    if len(ranks) == 1:
        return f"worker {ranks[0]}"
    if ranks == list(range(ranks[0], ranks[-1] + 1)):
        return f"workers {ranks[0]}-{ranks[-1]}"
    return f"workers {','.join(map(str, ranks))}"


def _facts(entry: Model | None, alone: Alone) -> Any:
    from rich.table import Table

    from weft.results.display import duration

    p = alone.profile
    table = Table(box=None, pad_edge=False, show_header=False, padding=(0, 2, 0, 0))
    if entry is not None:
        table.add_row("model", f"{entry.title}; {entry.source}; a sample: {entry.sample}")
        table.add_row("parameters", f"{entry.params:,}, gradients {_megabytes(entry.gradient_bytes)}")
    iteration = f"{duration(alone.iteration_s)}, of which computing {duration(p.compute_s)} on the longest path"
    table.add_row("iteration", iteration)
    sent = [alone.sent_bytes(w) for w in range(p.workers)]
    least, most = _megabytes(min(sent)), _megabytes(max(sent))
    table.add_row("sent", f"{most if least == most else f'{least} to {most}'} per worker")
    table.add_row("batch", f"{p.batch or 'unknown'}, {p.gpu or 'GPU unknown'}")
    memory = f"{p.memory_bytes / 1e9:.3g} GB per worker; {p.memory_source or 'source unknown'}"
    table.add_row("memory", memory if p.memory_bytes else "not stated")
    table.add_row("times", p.source)
    return table


def _remarks(model: str, alone: Alone) -> list[str]:
    """What may surprise a reader: a circle that does not send the model's gradients, a GPU that is too small."""
    from weft.errors import InputError
    from weft.workload import zoo

    p, found = alone.profile, []
    variant = None if zoo.is_path(model) else zoo.find(zoo.without(model))[1]
    if variant is not None and variant.up_s > 0 and p.name.partition("[")[0].endswith(f"@{variant.variant}"):
        gradients = zoo.find(zoo.without(model))[0].gradient_bytes
        found.append(
            f"note: the circle is the paper's: its all-reduce is of {_megabytes(p.message_bytes)} on {p.workers} "
            f"workers, not of the model's {_megabytes(gradients)} of gradients"
        )
    try:
        there = 1e9 * zoo.find_gpu(p.gpu).memory_gb
    except InputError:  # a file's own device, whose memory nobody stated
        return found
    if p.memory_bytes > there:
        found.append(
            f"warning: {p.memory_bytes / 1e9:.3g} GB per worker do not fit into the {there / 1e9:g} GB of one {p.gpu}; "
            "use more workers of a pipeline or tensor scheme, a smaller batch or a larger GPU"
        )
    return found


def _layer_table(entry: Model) -> Any:
    table = plain_table("layer", ">parameters", ">gradients", ">GFLOP per sample")
    for layer in entry.layers:
        size = _megabytes(layer.params * entry.gradient_dtype_bytes)
        table.add_row(layer.name, f"{layer.params:,}", size, f"{layer.flops / 1e9:.3g}")
    return table


def _megabytes(size: float) -> str:
    return f"{size / 1e6:,.1f} MB" if size < 1e10 else f"{size / 1e9:,.1f} GB"


def _entry_dict(e: Model) -> dict[str, Any]:
    from weft.workload import zoo

    size, source = zoo.memory(e, e.batch)
    return {
        "model": e.name,
        "title": e.title,
        "kind": e.kind,
        "source": e.source,
        "aliases": list(e.aliases),
        "parameters": e.params,
        "gradient_bytes": e.gradient_bytes,
        "flops_per_sample": e.flops,
        "sample": e.sample,
        "batch": e.batch,
        "batch_range": list(e.batch_range),
        "batch_source": e.batch_source,
        "parallel": e.parallel,
        "memory_bytes": size,
        "memory_source": source,
        "variants": [f"{e.name}@{v.variant}" for v in e.variants],
        "timings": [_timing_dict(t) for t in zoo.known(e)],
    }


def _timing_dict(t: Timing) -> dict[str, Any]:
    return {
        "gpu": t.gpu, "dtype": t.dtype, "batch": t.batch, "forward_s": t.forward_s, "backward_s": t.backward_s,
        "optimiser_s": t.optimiser_s, "memory_bytes": t.memory_bytes or None,
        "memory_source": t.memory_source or None, "source": t.source,
    }  # fmt: skip


def _as_dict(entry: Model | None, alone: Alone, worker: int, gbps: float, layers: bool) -> dict[str, Any]:
    from weft.model.profile import Compute

    p = alone.profile
    tasks = []
    for task, start_s, end_s in zip(p.tasks, alone.played.start_s, alone.played.end_s, strict=True):
        kind = "compute" if isinstance(task, Compute) else "transfer"
        size = {"seconds": task.seconds} if isinstance(task, Compute) else {"bytes": task.bytes}
        ranks = None if task.workers is None else list(task.workers)
        where = {"start_s": start_s, "end_s": end_s, "workers": ranks, "after": list(task.after)}
        tasks.append({"task": task.name, "kind": kind, **size, **where})
    found: dict[str, Any] = {
        "profile": p.name,
        "workers": p.workers,
        "batch": p.batch,
        "gpu": p.gpu,
        "source": p.source,
        "memory_bytes": p.memory_bytes,
        "memory_source": p.memory_source,
        "nic_gbps": gbps,
        "iteration_s": alone.iteration_s,
        "compute_s": p.compute_s,
        "message_bytes": p.message_bytes,
        "sent_bytes": [alone.sent_bytes(w) for w in range(p.workers)],
        "worker": worker,
        "up_phases": [
            {"start_s": u.start_s, "end_s": u.end_s, "gbps": 8e-9 * u.bytes_per_s} for u in alone.up_phases(worker)
        ],
        "tasks": tasks,
    }
    if entry is not None:
        found["model"] = _entry_dict(entry)
        if layers:
            width = entry.gradient_dtype_bytes
            found["layers"] = [
                {"layer": x.name, "parameters": x.params, "gradient_bytes": width * x.params, "flops": x.flops}
                for x in entry.layers
            ]
    return found
