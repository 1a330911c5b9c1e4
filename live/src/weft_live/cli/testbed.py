"""`weft testbed`: a cluster as network namespaces, with the kernel's own TCP."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from weft.cli.common import JsonOption, PaceOption, ScenarioArgument, notice, print_json, stdout
from weft.errors import InputError

if TYPE_CHECKING:
    from weft.model.cluster import Cluster
    from weft_live.testbed.build import Links
    from weft_live.testbed.plan import Blueprint
    from weft_live.testbed.trials import Outcome

app = typer.Typer(
    no_args_is_help=True,
    help="Build a cluster as network namespaces, and run jobs over real TCP on it.",
    epilog="Example: weft testbed up cluster.toml",
)

ScaleOption = Annotated[
    float | None,
    typer.Option("--scale", min=1, help="Divide rates and bytes by this (default: the fastest link has 400 Mbit/s)."),
]
ControlOption = Annotated[
    list[str] | None,
    typer.Option(
        "--control", metavar="NAME[@A[-B]]",
        help="Congestion control (cubic, reno, bbr, dctcp; fixed: one that keeps its rate whatever is lost): of all "
        "senders, of server A, or from A to B; may be repeated.",
    ),
]  # fmt: skip
LossOption = Annotated[float, typer.Option("--loss", min=0, max=0.5, help="Share of packets lost at random, per link.")]
DelayOption = Annotated[float, typer.Option("--delay-ms", min=0, max=1000, help="Delay of each link (needs netem).")]
MarksOption = Annotated[
    int, typer.Option("--marks", min=0, help="Mark packets (ECN) that find this many bytes waiting (dctcp: 110000).")
]
FolderOption = Annotated[Path, typer.Option("--dir", metavar="DIR", help="Folder that says where the testbed is.")]


@app.command("up")
def up(
    scenario: ScenarioArgument,
    dir: FolderOption = Path("weft-run"),
    scale: ScaleOption = None,
    control: ControlOption = None,
    loss: LossOption = 0.0,
    delay_ms: DelayOption = 0.0,
    marks: MarksOption = 0,
    keep: Annotated[bool, typer.Option("--keep", hidden=True, help="Internal: be the process that holds it.")] = False,
) -> None:
    """Build the cluster of a scenario; it stays until weft testbed down.

    weft serve --world testbed runs jobs on it, and nsenter --net=FILE any command.

    Example: weft testbed up cluster.toml --dir weft-run
    """
    from weft_live.testbed import keeper
    from weft_live.testbed.build import Testbed, refuse

    refuse()
    cluster, plan = _plan(scenario, scale)
    links = _links(cluster, control or [], loss, delay_ms, marks)
    if keep:
        with Testbed(plan, links) as bed:
            keeper.keep(dir, bed)
        return
    given = ["--scale", str(plan.scale), "--loss", str(loss), "--delay-ms", str(delay_ms), "--marks", str(marks)]
    given += [word for each in control or [] for word in ("--control", each)]
    argv = ["testbed", "up", str(scenario), "--dir", str(dir), *given, "--keep"]
    made = keeper.up(dir, argv)
    print(made.words)
    for name, host in made.hosts.items():
        print(f"{name}  {host['address']}  {host['netns']}")


@app.command("down")
def down(dir: FolderOption = Path("weft-run")) -> None:
    """Remove the testbed, and end what runs on it.

    Example: weft testbed down --dir weft-run
    """
    from weft_live.testbed import keeper

    ended = keeper.down(dir)
    ran = "one process" if ended == 1 else f"{ended} processes"
    notice(f"the testbed is down; {ran} ran on it" if ended else "the testbed is down")


@app.command("run")
def run(
    scenario: ScenarioArgument,
    job: Annotated[
        list[str],
        typer.Option(
            "--job", metavar="WHAT@SERVERS", help="A model or a command, and its servers, separated by commas."
        ),
    ],
    iterations: Annotated[int, typer.Option("--iterations", min=3, max=100_000, help="Iterations of each job.")] = 20,
    pace: PaceOption = None,
    slot_ms: Annotated[
        float | None, typer.Option("--slot-ms", min=1, max=1000, help="Length of the agents' slots (default: 60).")
    ] = None,
    route: Annotated[
        str | None,
        typer.Option("--route", metavar="NAME", help="Run the jobs once more on the paths that a policy chooses."),
    ] = None,
    shift: Annotated[
        bool, typer.Option("--shift", help="Shift the jobs so that they communicate one after another.")
    ] = False,
    outside: Annotated[
        bool, typer.Option("--outside", help="With --shift: agents hold the jobs, not the trainer itself.")
    ] = False,
    jitter: Annotated[float, typer.Option("--jitter", min=0, max=0.5, help="Relative jitter of compute times.")] = 0.0,
    foreign: Annotated[
        list[str] | None, typer.Option("--foreign", metavar="A-B", help="A TCP flow of others; may be repeated.")
    ] = None,
    plot: Annotated[
        Path | None, typer.Option("--plot", metavar="FILE", help="Draw when the jobs communicated (png, svg).")
    ] = None,
    patience: Annotated[
        float | None,
        typer.Option("--patience", min=1, help="Seconds that a command has until it opens its log (default: 60)."),
    ] = None,
    scale: ScaleOption = None,
    control: ControlOption = None,
    loss: LossOption = 0.0,
    delay_ms: DelayOption = 0.0,
    marks: MarksOption = 0,
    json: JsonOption = False,
) -> None:
    """Run jobs over real TCP: each alone, then all together, and say what they cost each other.

    A job is a model of the zoo, whose iteration is replayed on real sockets, or a command in quotes (a PyTorch DDP
    script, say), with one process on each server, which writes the times of its iterations to the file that WEFT_LOG
    names. With --route the jobs first share the network on the paths that ECMP's hash gives them, and then run once
    more on those that the policy chooses. With --shift they run once more, so that they communicate one after another,
    and with --pace once more, paced by agents. Flows of others (--foreign) run beside the jobs, but not beside a job
    that is alone.

    Example: weft testbed run cluster.toml --job vgg16@s0,s2 --job vgg16@s1,s3 --pace priority --slot-ms 10
    """
    from weft_live.testbed.build import refuse
    from weft_live.testbed.drawing import draw, refuse_picture
    from weft_live.testbed.trials import Settings, trial

    refuse()
    cluster, plan = _plan(scenario, scale)
    others = [_pair(cluster, "--foreign", text) for text in foreign or []]
    if slot_ms is not None and not pace and not outside:
        raise InputError("--slot-ms: no agents run; add --pace, or --shift --outside")
    settings = Settings(iterations, pace, (slot_ms or 60) / 1e3, shift, outside, jitter, others, patience or 60, route)
    jobs = [_job(cluster, n, text) for n, text in enumerate(job)]
    if patience is not None and all(isinstance(what, str) for _, what, _ in jobs):
        raise InputError("--patience: no job is a command; leave it out")
    if plot is not None:
        refuse_picture(plot)
    outcome = trial(cluster, plan, _links(cluster, control or [], loss, delay_ms, marks), jobs, settings)
    if not outcome.fits:
        notice("the turns of all jobs take longer than an iteration, so shifted iterations are as long as all turns")
    if plot is not None:
        draw(outcome.phases, plot)
    flows = {f"{n} {text}": n for n, text in enumerate(foreign or [])}
    if json:
        got = {
            name: {f"{phase}_bytes_per_s": rates[n] for phase, rates in outcome.foreign.items()}
            for name, n in flows.items()
        }
        print_json({"scale": plan.scale, "jobs": outcome.jobs(), **({"foreign": got} if got else {})})
        return
    stdout().print(plan.words, highlight=False)
    print("\n".join(_table(outcome, flows)))


def _table(outcome: Outcome, flows: dict[str, int]) -> list[str]:
    """What each phase did to jobs and to the flows of others."""
    phases = list(outcome.phases)[1:]
    heads = "".join(f" {phase + ' ms':>13s} {'times':>6s} {'mean':>6s} {'overlap':>8s}" for phase in phases)
    lines = [f"{'job':24s} {'alone ms':>10s}{heads}"]
    for name, row in outcome.jobs().items():
        lines.append(f"{name:24.24s} {1e3 * row['alone_s']:10.1f}")
        for phase in phases:
            lines[-1] += f" {1e3 * row[f'{phase}_s']:13.1f} {row[f'{phase}_times']:6.3f}"
            lines[-1] += f" {row[f'{phase}_mean_times']:6.3f} {row[f'{phase}_overlap']:8.2f}"
    if flows:
        heads = "".join(f" {phase + ' MB/s':>13s} {'times':>6s} {'':15s}" for phase in phases)
        lines.append(f"{'flow of others':24s} {'alone MB/s':>10s}{heads}")
    for name, n in flows.items():
        alone = outcome.foreign["alone"][n]
        lines.append(f"{name:24.24s} {alone / 1e6:10.2f}")
        for phase in phases:
            rate = outcome.foreign[phase][n]
            lines[-1] += f" {rate / 1e6:13.2f} {rate / alone if alone else 0.0:6.3f} {'':15s}"
    return [line.rstrip() for line in lines]


def _plan(scenario: Path, scale: float | None) -> tuple[Cluster, Blueprint]:
    from weft.scenario import Scenario
    from weft.scenario.build import build_cluster
    from weft_live.testbed.plan import blueprint

    cluster = build_cluster(Scenario.load(scenario), None)
    return cluster, blueprint(cluster, scale)


def _links(cluster: Cluster, texts: Sequence[str], loss: float, delay_ms: float, marks: int) -> Links:
    from weft_live.testbed.build import Links
    from weft_live.testbed.dctcp import MARK_BYTES
    from weft_live.testbed.packets import Marks

    names = {server.id: server.name for server in cluster.servers}
    usual: list[str] = []
    routes: dict[tuple[str, str], str] = {}
    for text in texts:
        control, at, where = text.partition("@")
        if not at:
            usual.append(control)
        elif where in names.values():
            routes[where, ""] = control
        elif "-" in where:
            src, dst = _pair(cluster, "--control", where)
            routes[names[src], names[dst]] = control
        else:
            _servers(cluster, [where], f"--control {text}")
    if len(usual) > 1:
        raise InputError(f"--control {usual[1]}: all senders have {usual[0]}; write {usual[1]}@s0 or {usual[1]}@s0-s2")
    _refuse_half_dctcp(usual, routes, list(names.values()))
    if not marks and "dctcp" in (*usual, *routes.values()):
        marks = MARK_BYTES
        notice(f"dctcp: packets that find {marks} bytes waiting are marked (--marks changes that)")
    return Links(
        usual[0] if usual else "cubic", loss, delay_ms / 1e3, marks=Marks(marks) if marks else None, routes=routes
    )


def _refuse_half_dctcp(usual: Sequence[str], routes: dict[tuple[str, str], str], names: Sequence[str]) -> None:
    """Raise if DCTCP's packets go to nobody who answers as DCTCP does: such connections have no ECN."""
    for (src, dst), control in routes.items():
        peers = [dst] if dst else [name for name in names if name != src]
        back = [routes.get((peer, src)) or routes.get((peer, "")) or "".join(usual) for peer in peers]
        if control == "dctcp" and "dctcp" not in back:
            where = f"{src}-{dst}" if dst else src
            raise InputError(
                f"--control dctcp@{where}: the other end has to be DCTCP's, too; add --control dctcp@{peers[0]}-{src}"
            )


def _servers(cluster: Cluster, names: Sequence[str], text: str) -> tuple[int, ...]:
    known = {server.name: server.id for server in cluster.servers}
    for name in names:
        if name not in known:
            some = ", ".join(list(known)[:8])
            raise InputError(f"{text}: the cluster has no server {name!r}; it has {some}")
        if list(names).count(name) > 1:
            raise InputError(f"{text}: {name} is named twice; name different servers")
    return tuple(known[name] for name in names)


def _pair(cluster: Cluster, option: str, text: str) -> tuple[int, int]:
    """Two servers with a dash between them; their names may have dashes, too."""
    known = {server.name for server in cluster.servers}
    ways = [(text[:n], text[n + 1 :]) for n, sign in enumerate(text) if sign == "-"]
    if not ways:
        raise InputError(f"{option} {text}: write two servers, such as s0-s2")
    ways.sort(key=lambda way: -len(known & set(way)))
    a, b = _servers(cluster, ways[0], f"{option} {text}")
    return a, b


def _job(cluster: Cluster, number: int, text: str) -> tuple[str, str | tuple[str, ...], tuple[int, ...]]:
    """(name, model or command, servers)."""
    what, _, where = text.rpartition("@")
    if not where or not what.strip():
        raise InputError(f"--job {text}: write a model and its servers, such as vgg16@s0,s2")
    servers = _servers(cluster, where.split(","), f"--job {text}")
    if len(servers) < 2:
        raise InputError(f"--job {text}: a job needs two servers or more to communicate")
    try:
        words = shlex.split(what)
    except ValueError as error:
        raise InputError(f"--job {text}: {str(error).lower()}") from None
    if len(words) == 1:
        return f"{number} {what}", what, servers
    return (
        f"{number} {Path(next((word for word in words if word.endswith('.py')), words[0])).name}",
        (sys.executable if words[0] == "python" else words[0], *words[1:]),
        servers,
    )
