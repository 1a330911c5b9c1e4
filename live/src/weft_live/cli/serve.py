"""`weft serve`: a stack at work on real jobs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from weft.cli.common import (
    DirOption,
    InterleaveOption,
    OrderOption,
    PaceOption,
    PlaceOption,
    SeedOption,
    StackOption,
    notice,
    run_folder,
)
from weft.errors import InputError

if TYPE_CHECKING:
    from weft.core.stack import Stack
    from weft.model.cluster import Cluster
    from weft.network.estimates import Estimates
    from weft_live.engine import Engine
    from weft_live.server.server import Server

WorldOption = Annotated[
    str | None,
    typer.Option(
        "--world", help="Where jobs run: local (processes here, the default), slurm, testbed, or an installed one."
    ),
]
SiteArgument = Annotated[
    Path | None,
    typer.Argument(metavar="[SCENARIO.toml]", help="Take [cluster], [network] and [stack] from it."),
]
OldScenarioOption = Annotated[Path | None, typer.Option("--scenario", hidden=True)]  # until 0.3
DryRunOption = Annotated[bool, typer.Option("--dry-run", help="Say what would be done, and do nothing.")]
MetricsOption = Annotated[
    str | None,
    typer.Option(
        "--metrics", metavar="PORT", help="Serve Prometheus metrics at this address ([HOST:]PORT, [IPV6]:PORT)."
    ),
]
RecordOption = Annotated[
    Path | None, typer.Option("--record", metavar="FILE.csv", help="Write the jobs as a trace to simulate.")
]
PartitionOption = Annotated[
    str,
    typer.Option("--partition", metavar="NAMES", help="Slurm partitions to serve, separated by commas (default: all)."),
]
PollOption = Annotated[float, typer.Option("--poll-s", min=0.05, max=60.0, help="Seconds between looks at Slurm.")]
SetupOption = Annotated[
    bool, typer.Option("--setup", help="Print what to install in Slurm (--out DIR: write it), and stop.")
]
PythonOption = Annotated[
    str, typer.Option("--python", metavar="FILE", help="With --setup: a Python that every user can run on the nodes.")
]
SharedOption = Annotated[
    Path | None,
    typer.Option(
        "--shared", metavar="DIR", help="Slurm: folder that all nodes see, where jobs report progress (default: --dir)."
    ),
]
ProfilesOption = Annotated[
    list[Path] | None,
    typer.Option("--profiles", metavar="DIR", help="Slurm: users' profile files are read from there; may be repeated."),
]
TakeOption = Annotated[
    bool, typer.Option("--take", help="Slurm: take over jobs of a weft serve that has ended and had another folder.")
]
PreemptionsOption = Annotated[
    float | None,
    typer.Option(
        "--preemptions",
        min=0,
        metavar="GPUS",
        help="Most GPUs, on average over an hour, that jobs of one user take from running jobs "
        "(default: a quarter of all; 0: no limit).",
    ),
]
RestartsOption = Annotated[
    int, typer.Option("--restarts", min=0, metavar="N", help="Most times that a job which fails is started again.")
]
GraceOption = Annotated[
    float, typer.Option("--grace-s", min=0.0, metavar="S", help="Longest time between a warning and a stop.")
]
KeepOption = Annotated[
    float, typer.Option("--keep-days", min=0.0, metavar="D", help="Remove folders of ended attempts after so long.")
]
PriorityOption = Annotated[
    str,
    typer.Option(
        "--priority", metavar="off|qos|slurm",
        help="Slurm: whose jobs go first: as the stack says, by QOS, or by Slurm's weights (QOS, fair share, ...).",
    ),
]  # fmt: skip
StrangersOption = Annotated[
    str,
    typer.Option(
        "--strangers", metavar="leave|requeue",
        help="Slurm: jobs on weft's GPUs that weft did not start: keep off their nodes, or requeue them.",
    ),
]  # fmt: skip
DrainedOption = Annotated[
    str,
    typer.Option(
        "--drained", metavar="resume|leave",
        help="Slurm: nodes drained for 'Duplicate jobid', which have ended that job: resume or leave them.",
    ),
]  # fmt: skip
AgentsOption = Annotated[
    str,
    typer.Option(
        "--agents",
        metavar="HOST:PORT",
        help="Slurm: listen here for the nodes' agents (weft agent), which apply paces.",
    ),
]
SwitchesOption = Annotated[
    str,
    typer.Option(
        "--switches",
        metavar="HOST:PORT,...",
        help="Pace flow: addresses of the weft switch processes that keep the load tables.",
    ),
]
OwnOption = Annotated[
    list[str] | None,
    typer.Option("--option", metavar="KEY=VALUE", help="An option of an installed world's own; may be repeated."),
]
OutOption = Annotated[Path | None, typer.Option("--out", metavar="DIR", help="With --setup: the folder for the files.")]


def serve(
    scenario: SiteArgument = None,
    world: WorldOption = None,
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
    python: PythonOption = "",
    shared: SharedOption = None,
    profiles: ProfilesOption = None,
    take: TakeOption = False,
    preemptions: PreemptionsOption = None,
    priority: PriorityOption = "off",
    strangers: StrangersOption = "leave",
    drained: DrainedOption = "resume",
    restarts: RestartsOption = 1000,
    grace_s: GraceOption = 600.0,
    keep_days: KeepOption = 30.0,
    agents: AgentsOption = "",
    switches: SwitchesOption = "",
    option: OwnOption = None,
    old_scenario: OldScenarioOption = None,
) -> None:
    """Schedule real jobs with a stack, until interrupted.

    In the local world jobs arrive by weft submit, in the Slurm world by sbatch. They keep running when the server ends
    or is killed. The next server of the same folder takes them over. It must have the same stack, unless the first one
    failed before it began to serve. More is in docs/live.md and docs/slurm.md.

    Example: weft serve cluster.toml --world slurm --stack srsf --dir /shared/weft --dry-run
    """
    if scenario is not None and old_scenario is not None:
        raise InputError(f"serve: {scenario} and --scenario {old_scenario} both name a scenario; leave the option out")
    scenario = scenario or old_scenario
    partitions = frozenset(filter(None, partition.split(",")))
    if setup:
        _setup(out, partitions, python)
        return
    from weft_live.ending import Bounds
    from weft_live.engine import find
    from weft_live.server.server import Server

    folder = run_folder(dir)
    chosen = _chosen(folder, world, scenario, shared, _pairs(option), [stack, order, place, interleave, pace])
    options = {
        "partitions": partitions, "poll_s": poll_s, "shared": Path(chosen["shared"]) if chosen["shared"] else None,
        "profiles": profiles or [], "take": take, "priority": priority, "strangers": strangers, "drained": drained,
        "agents": agents, "switches": switches, "own": chosen["own"],
    }  # fmt: skip
    engine = find(chosen["world"], options)
    cluster, policies, estimates = _build(engine, chosen["scenario"], tuple(chosen["layers"]), seed)
    if priority != "off":
        policies.planner.refuse_priorities()
    engine.refuse(cluster, folder)
    if preemptions != 0:
        policies.planner.cap_preemptions(3600.0 * (preemptions or cluster.n_gpus / 4), 3600.0)
    server = Server(
        folder, cluster, policies, seed=seed or 0, dry_run=dry_run, metrics=metrics, record=record, say=notice,
        chosen=chosen, engine=engine, estimates=estimates,
        bounds=Bounds(restarts, grace_s, 86400.0 * keep_days),
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
    for line in server.core.left_out:
        notice(line)


def _setup(out: Path | None, partitions: frozenset[str], python: str) -> None:
    from weft_live.slurm.setup import instructions, write_files

    if out is not None:
        write_files(out, partitions, python)
    print(instructions(out, partitions), end="")


def _pairs(texts: list[str] | None) -> dict[str, str]:
    found: dict[str, str] = {}
    for text in texts or ():
        key, equals, value = text.partition("=")
        if not key or not equals:
            raise InputError(f"--option {text}: write KEY=VALUE")
        if key in found:
            raise InputError(f"--option {text}: {key} is there twice; leave one out")
        found[key] = value
    return found


def _chosen(
    folder: Path, world: str | None, scenario: Path | None, shared: Path | None, own: dict[str, str],
    layers: list[str | None],
) -> dict[str, Any]:  # fmt: skip
    """World, its options, scenario, shared folder and layers: as given, else as this folder was last served with."""
    from weft_live.server.folders import refuse_foreign
    from weft_live.server.ledger import FILE, Ledger

    chosen: dict[str, Any] = {
        "world": world, "scenario": str(scenario.resolve()) if scenario else None, "layers": layers,
        "shared": str(shared.resolve()) if shared else None, "own": own,
    }  # fmt: skip
    if (folder / FILE).exists():
        refuse_foreign(folder)  # it names policies, which are run
        ledger = Ledger(folder, read_only=True)
        before = ledger.meta("chosen") or chosen
        ledger.close()
        if scenario is None:
            chosen["scenario"] = before["scenario"]
        if shared is None:
            chosen["shared"] = before.get("shared")
        if not own:
            chosen["own"] = before.get("own", {})
        if not any(layers):
            chosen["layers"] = before["layers"]
        if world is not None and before.get("world") not in (None, world):
            raise InputError(f"{folder}: serves the {before['world']} world; name another folder with --dir")
        chosen["world"] = world or before.get("world")
    chosen["world"] = chosen["world"] or "local"
    return chosen


def _build(
    engine: Engine, scenario: str | None, layers: tuple[str | None, ...], seed: int | None
) -> tuple[Cluster, Stack, Estimates | None]:
    """The cluster, stack and network of the scenario where there is one; else the cluster as the engine knows it."""
    from weft.stacks import default_stack, resolve

    if scenario is not None:
        from weft.scenario import Scenario
        from weft.scenario.build import Layers, build_cluster, build_stack, physics
        from weft.sim.spec import estimates as estimates_of

        loaded = Scenario.load_site(scenario)
        own = Layers(*layers) if loaded.stack or layers[0] else Layers(default_stack(), *layers[1:])
        cluster = build_cluster(loaded, seed)
        return cluster, build_stack(loaded, own), estimates_of(cluster, physics(loaded, seed or 0)[0])
    cluster = engine.cluster(seed or 0, notice)
    layers = engine.layers(layers, default_stack(), notice)
    return cluster, resolve(*layers) if any(layers) else resolve(default_stack()), None
