"""`weft serve`: a stack at work on real processes."""

from __future__ import annotations

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

if TYPE_CHECKING:
    from weft.core.stack import Stack
    from weft.model.cluster import Cluster

__all__ = ["serve"]


def serve(
    world: Annotated[Literal["local"], typer.Option("--world", help="Where jobs run: processes here.")] = "local",
    scenario: Annotated[
        Path | None,
        typer.Option("--scenario", metavar="FILE.toml", help="Take [cluster] and [stack] from it; default: 16 GPUs."),
    ] = None,
    stack: StackOption = None,
    order: OrderOption = None,
    place: PlaceOption = None,
    interleave: InterleaveOption = None,
    pace: PaceOption = None,
    seed: SeedOption = None,
    dir: DirOption = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be done, and do nothing.")] = False,
    metrics: Annotated[
        str | None, typer.Option("--metrics", metavar="PORT", help="Prometheus metrics there (HOST:PORT to be seen).")
    ] = None,
    record: Annotated[
        Path | None, typer.Option("--record", metavar="FILE.csv", help="Write the jobs as a trace to simulate.")
    ] = None,
) -> None:
    """Schedule real jobs with a stack, until interrupted.

    Jobs come by weft submit. They run on when the server ends or is killed, and the next one of the same folder takes
    them over, with the same stack unless it never ran. docs/live.md tells the rest.

    Example: weft serve --world local --stack srsf-preemptive --dir /tmp/weft
    """
    from weft.live.server import Server

    folder = run_folder(dir)
    chosen = _chosen(folder, scenario, [stack, order, place, interleave, pace])
    cluster, policies = _build(chosen["scenario"], tuple(chosen["layers"]), seed)
    server = Server(
        folder, cluster, policies, seed=seed or 0, dry_run=dry_run, metrics=metrics, record=record, say=notice,
        chosen=chosen,
    )  # fmt: skip
    with server, server.stopped_by_signals():
        left = len(server.core.table.jobs)
        taken = f", {left} jobs taken over" if left else ""
        what = "says what it would do" if dry_run else "serves"
        notice(f"weft {what} with {policies.name} on {cluster.n_gpus} GPUs of {world} in {folder}{taken}")
        if server.metrics_server is not None:
            notice(f"metrics on port {server.metrics_server.port}")
        server.run()
    notice(f"ended; jobs run on, and weft serve --dir {folder} takes them over")


def _chosen(folder: Path, scenario: Path | None, layers: list[str | None]) -> dict[str, Any]:
    """Scenario and layers: as given, else as this folder was last served with."""
    from weft.live.ledger import FILE, Ledger

    chosen: dict[str, Any] = {"scenario": str(scenario.resolve()) if scenario else None, "layers": layers}
    if (folder / FILE).exists():
        ledger = Ledger(folder, read_only=True)
        before = ledger.meta("chosen") or chosen
        ledger.close()
        if scenario is None:
            chosen["scenario"] = before["scenario"]
        if not any(layers):
            chosen["layers"] = before["layers"]
    return chosen


def _build(scenario: str | None, layers: tuple[str | None, ...], seed: int | None) -> tuple[Cluster, Stack]:
    if scenario is not None:
        from weft.scenario import Scenario
        from weft.scenario.build import Layers, build_cluster, build_stack

        loaded = Scenario.load(scenario)
        own = Layers(*layers) if loaded.stack or layers[0] else Layers(_DEFAULT_STACK, *layers[1:])
        return build_cluster(loaded, seed), build_stack(loaded, own)
    from weft.model.topologies import Machine, leaf_spine
    from weft.stacks import resolve

    stack = resolve(*layers) if any(layers) else resolve(_DEFAULT_STACK)
    return leaf_spine(2, 2, Machine(gpus_per_server=4)), stack


_DEFAULT_STACK = "fifo-backfill"
