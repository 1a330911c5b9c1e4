"""`weft serve`: a stack at work on real jobs."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from weft.cli.common import (
    InterleaveOption,
    OrderOption,
    PaceOption,
    PlaceOption,
    SeedOption,
    StackOption,
    notice,
)
from weft.cli.live import DirOption, run_folder
from weft.errors import InputError

if TYPE_CHECKING:
    from weft.core.stack import Stack
    from weft.live.server import OnSlurm, Server
    from weft.model.cluster import Cluster

__all__ = ["serve"]

_DEFAULT_STACK = "fifo-backfill"


WorldOption = Annotated[
    Literal["local", "slurm"] | None,
    typer.Option("--world", help="Where jobs run: local (processes here, the default) or slurm."),
]
ScenarioOption = Annotated[
    Path | None,
    typer.Option("--scenario", metavar="FILE.toml", help="Take [cluster] and [stack] from it."),
]
DryRunOption = Annotated[bool, typer.Option("--dry-run", help="Say what would be done, and do nothing.")]
MetricsOption = Annotated[
    str | None,
    typer.Option("--metrics", metavar="PORT", help="Prometheus metrics there ([HOST:]PORT, [IPV6]:PORT)."),
]
RecordOption = Annotated[
    Path | None, typer.Option("--record", metavar="FILE.csv", help="Write the jobs as a trace to simulate.")
]
PartitionOption = Annotated[
    str, typer.Option("--partition", metavar="NAMES", help="Slurm partitions to serve, by comma; default: all.")
]
PollOption = Annotated[float, typer.Option("--poll-s", min=0.05, max=60.0, help="Seconds between looks at Slurm.")]
SetupOption = Annotated[
    bool, typer.Option("--setup", help="Print what to install in Slurm (--out DIR: write it), and stop.")
]
OutOption = Annotated[Path | None, typer.Option("--out", metavar="DIR", help="With --setup: the folder for the files.")]


def serve(
    world: WorldOption = None,
    scenario: ScenarioOption = None,
    stack: StackOption = None,
    order: OrderOption = None,
    place: PlaceOption = None,
    interleave: InterleaveOption = None,
    pace: PaceOption = None,
    seed: SeedOption = None,
    dir: DirOption = None,
    dry_run: DryRunOption = False,
    metrics: MetricsOption = None,
    record: RecordOption = None,
    partition: PartitionOption = "",
    poll_s: PollOption = 0.5,
    setup: SetupOption = False,
    out: OutOption = None,
) -> None:
    """Schedule real jobs with a stack, until interrupted.

    In the local world jobs come by weft submit, in the Slurm world by sbatch. They run on when the server ends or is
    killed, and the next one of the same folder takes them over, with the same stack unless it never ran. docs/live.md
    and docs/slurm.md tell the rest.

    Example: weft serve --world slurm --stack srsf --dir /shared/weft --dry-run
    """
    partitions = frozenset(filter(None, partition.split(",")))
    if setup:
        _setup(out, partitions)
        return
    from weft.live.server import Server

    folder = run_folder(dir)
    chosen = _chosen(folder, world, scenario, [stack, order, place, interleave, pace])
    layers = tuple(chosen["layers"])
    on_slurm = None
    if chosen["world"] == "slurm":
        layers = _even(layers, chosen["scenario"])
        cluster, policies, on_slurm = _on_slurm(folder, chosen["scenario"], layers, seed, partitions, poll_s)
    else:
        cluster, policies = _build(chosen["scenario"], layers, seed)
    server = Server(
        folder, cluster, policies, seed=seed or 0, dry_run=dry_run, metrics=metrics, record=record, say=notice,
        chosen=chosen, on_slurm=on_slurm,
    )  # fmt: skip
    with server, server.stopped_by_signals():
        _greet(server, chosen["world"])
        server.run()
    notice(f"ended; jobs run on, and weft serve --dir {folder} takes them over")


def _greet(server: Server, world: str) -> None:
    left = len(server.core.table.jobs)
    taken = f", {left} jobs taken over" if left else ""
    what = "says what it would do" if server.dry_run else "serves"
    on = f"{server.cluster.n_gpus} GPUs of {world} in {server.folder}"
    notice(f"weft {what} with {server.stack.name} on {on}{taken}")
    if server.metrics_server is not None:
        notice(f"metrics on port {server.metrics_server.port}")


def _setup(out: Path | None, partitions: frozenset[str]) -> None:
    from weft.live.slurm.setup import instructions, write_files

    if out is not None:
        write_files(out, partitions)
    print(instructions(out, partitions), end="")


def _chosen(folder: Path, world: str | None, scenario: Path | None, layers: list[str | None]) -> dict[str, Any]:
    """World, scenario and layers: as given, else as this folder was last served with."""
    from weft.live.ledger import FILE, Ledger

    chosen: dict[str, Any] = {
        "world": world, "scenario": str(scenario.resolve()) if scenario else None, "layers": layers
    }  # fmt: skip
    if (folder / FILE).exists():
        ledger = Ledger(folder, read_only=True)
        before = ledger.meta("chosen") or chosen
        ledger.close()
        if scenario is None:
            chosen["scenario"] = before["scenario"]
        if not any(layers):
            chosen["layers"] = before["layers"]
        if world is not None and before.get("world") not in (None, world):
            raise InputError(f"{folder}: serves the {before['world']} world; name another folder with --dir")
        chosen["world"] = world or before.get("world")
    chosen["world"] = chosen["world"] or "local"
    return chosen


def _build(scenario: str | None, layers: tuple[str | None, ...], seed: int | None) -> tuple[Cluster, Stack]:
    if scenario is not None:
        from weft.scenario import Scenario
        from weft.scenario.build import Layers, build_cluster, build_stack

        loaded = Scenario.load(scenario)
        own = Layers(*layers) if loaded.stack or layers[0] else Layers(_DEFAULT_STACK, *layers[1:])
        return build_cluster(loaded, seed), build_stack(loaded, own)
    from weft.model.topologies import Machine, leaf_spine

    return leaf_spine(2, 2, Machine(gpus_per_server=4)), _stack(layers)


def _stack(layers: tuple[str | None, ...]) -> Stack:
    from weft.stacks import resolve

    return resolve(*layers) if any(layers) else resolve(_DEFAULT_STACK)


def _on_slurm(
    folder: Path, scenario: str | None, layers: tuple[str | None, ...], seed: int | None, partitions: frozenset[str],
    poll_s: float,
) -> tuple[Cluster, Stack, OnSlurm]:  # fmt: skip
    """Slurm's own description of the cluster, or the scenario's where there is one."""
    from weft.live.server import OnSlurm
    from weft.live.slurm.commands import Slurm, Unreachable
    from weft.live.slurm.notes import refuse_folder
    from weft.live.slurm.topology import gpu_nodes, read_cluster, refuse_cluster

    refuse_folder(folder)
    slurm = Slurm()
    if scenario is None:
        cluster, policies = read_cluster(slurm, partitions, seed=seed or 0), _stack(layers)
    else:
        cluster, policies = _build(scenario, layers, seed)
        refuse_cluster(cluster, gpu_nodes(slurm, partitions))
    with suppress(Unreachable):
        if "lua" not in slurm.config().get("JobSubmitPlugins", ""):
            notice(
                "note: Slurm has no lua submission hook: it may start jobs before weft sees them; weft serve --setup"
            )
    return cluster, policies, OnSlurm(slurm, partitions, poll_s)


def _even(layers: tuple[str | None, ...], scenario: str | None) -> tuple[str | None, ...]:
    """Slurm gives every node of a job as many GPUs as the others: a stack's place becomes even:PLACE."""
    from weft.stacks import describe, resolve

    stack, order, place, interleave, pace = layers
    if place is not None or scenario is not None:
        return layers
    stack = stack if any(layers) else _DEFAULT_STACK
    planner = resolve(stack, order, None, interleave, pace).planner
    own = describe(stack or _DEFAULT_STACK).get("place")
    if own is None or not planner.uneven or planner.shares_gpus:
        return layers  # if Slurm cannot do it, it is refused in words
    notice(f"place even:{own} instead of {own}: Slurm gives every node of a job the same number of GPUs")
    return (stack, order, f"even:{own}", interleave, pace)
