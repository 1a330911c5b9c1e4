"""`weft testbed`: a cluster as network namespaces, with the kernel's own TCP."""

from __future__ import annotations

import shlex
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from weft.cli.common import JsonOption, PaceOption, ScenarioArgument, notice, print_json, stdout
from weft.errors import InputError

if TYPE_CHECKING:
    from weft.model.cluster import Cluster
    from weft.testbed.build import Links
    from weft.testbed.plan import Blueprint

app = typer.Typer(
    no_args_is_help=True,
    help="Build a cluster as network namespaces, and run jobs over real TCP on it.",
    epilog="Example: weft testbed up cluster.toml",
)

ScaleOption = Annotated[
    float | None,
    typer.Option("--scale", min=1, help="Divide rates and bytes by this (default: the fastest link has 400 Mbit/s)."),
]
ControlOption = Annotated[str, typer.Option("--control", help="Congestion control of all senders: cubic, reno, bbr.")]
LossOption = Annotated[float, typer.Option("--loss", min=0, max=0.5, help="Share of packets lost at random, per link.")]
DelayOption = Annotated[float, typer.Option("--delay-ms", min=0, max=1000, help="Delay of each link (needs netem).")]
MarksOption = Annotated[
    int, typer.Option("--marks", min=0, help="Mark packets (ECN) that find this many bytes waiting.")
]
FolderOption = Annotated[Path, typer.Option("--dir", metavar="DIR", help="Folder that says where the testbed is.")]


@app.command("up")
def up(
    scenario: ScenarioArgument,
    dir: FolderOption = Path("weft-run"),
    scale: ScaleOption = None,
    control: ControlOption = "cubic",
    loss: LossOption = 0.0,
    delay_ms: DelayOption = 0.0,
    marks: MarksOption = 0,
    keep: Annotated[bool, typer.Option("--keep", hidden=True, help="Internal: be the process that holds it.")] = False,
) -> None:
    """Build the cluster of a scenario; it stays until weft testbed down.

    weft serve --world testbed runs jobs on it, and nsenter --net=FILE any command.

    Example: weft testbed up cluster.toml --dir weft-run
    """
    from weft.testbed import keeper
    from weft.testbed.build import Testbed
    from weft.testbed.namespaces import refuse

    refuse()
    plan = _plan(scenario, scale)[1]
    if keep:
        with Testbed(plan, _links(control, loss, delay_ms, marks)) as bed:
            keeper.keep(dir, bed)
        return
    given = ["--scale", str(plan.scale), "--control", control, "--loss", str(loss), "--delay-ms", str(delay_ms)]
    argv = ["testbed", "up", str(scenario), "--dir", str(dir), *given, "--marks", str(marks), "--keep"]
    made = keeper.up(dir, argv)
    print(made.words)
    for name, host in made.hosts.items():
        print(f"{name}  {host['address']}  {host['netns']}")


@app.command("down")
def down(dir: FolderOption = Path("weft-run")) -> None:
    """Remove the testbed, and end what runs on it.

    Example: weft testbed down --dir weft-run
    """
    from weft.testbed import keeper

    ended = keeper.down(dir)
    notice(f"the testbed is down; {ended} processes ran on it" if ended else "the testbed is down")


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
    slot_ms: Annotated[float, typer.Option("--slot-ms", min=1, max=1000, help="Length of the agents' slots.")] = 60,
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
    scale: ScaleOption = None,
    control: ControlOption = "cubic",
    loss: LossOption = 0.0,
    delay_ms: DelayOption = 0.0,
    marks: MarksOption = 0,
    json: JsonOption = False,
) -> None:
    """Run jobs over real TCP: each alone, then all together, and say what they cost each other.

    A job is a model of the zoo, whose iteration is replayed on real sockets, or a command in quotes (a PyTorch DDP
    script, say), with one process on each server. With --pace agents pace the jobs; with --shift they communicate one
    after another.

    Example: weft testbed run cluster.toml --job vgg16@s0,s2 --job vgg16@s1,s3 --pace priority --slot-ms 10
    """
    from weft.testbed.namespaces import refuse
    from weft.testbed.trials import Settings, trial

    refuse()
    cluster, plan = _plan(scenario, scale)
    settings = Settings(iterations, pace, slot_ms / 1e3, shift, outside, jitter, _pairs(cluster, foreign or []))
    jobs = [_job(cluster, n, text) for n, text in enumerate(job)]
    with tempfile.TemporaryDirectory(prefix="weft-testbed-") as folder:
        found, logs = trial(cluster, plan, _links(control, loss, delay_ms, marks), jobs, settings, Path(folder))
    if plot is not None:
        from weft.testbed.drawing import draw

        draw(list(logs.values()), f"communication of jobs{f', pace {pace}' if pace else ''}", plot)
    if json:
        print_json({"scale": plan.scale, "jobs": found})
        return
    console = stdout()
    console.print(plan.words, highlight=False)
    console.print(f"{'job':24s} {'alone ms':>9s} {'together ms':>12s} {'times':>6s} {'overlap':>8s}")
    for name, row in found.items():
        console.print(
            f"{name:24.24s} {1e3 * row['alone_s']:9.1f} {1e3 * row['together_s']:12.1f} {row['times']:6.3f} "
            f"{row['overlap']:8.2f}",
            highlight=False,
        )


@app.command("validate")
def validate(
    quick: Annotated[bool, typer.Option("--quick", help="Fewer cases and iterations, under a minute.")] = False,
    json: JsonOption = False,
) -> None:
    """Run small cases in the simulator and on the testbed, and print the error of the simulator.

    Example: weft testbed validate --quick
    """
    from weft.research.real import validate as run_all
    from weft.testbed.namespaces import refuse

    refuse()
    rows, fit = run_all(quick, notice)
    if json:
        print_json({"cases": rows, "goodput": fit.goodput, "noise": fit.noise})
        return
    hows = ("max-min", "and noise", "fluid TCP", "fitted")
    print(f"{'error of the simulator':50s} {'real ms':>8s}" + "".join(f" {how:>11s}" for how in hows))
    for row in rows:
        errors = "".join(f" {100 * row[f'{how} error']:10.1f}%" for how in hows)
        print(f"{row['case']:50s} {1e3 * row['real_s']:8.1f}{errors}")
    means = "".join(f" {100 * sum(abs(row[f'{how} error']) for row in rows) / len(rows):10.1f}%" for how in hows)
    print(f"{'mean of all, regardless of the sign':50s} {'':8s}{means}")
    told = ", ".join(f"goodput {100 * good:g} % at a buffer of {buffer} kB" for buffer, good in fit.goodput.items())
    print(f"fitted to CUBIC's flows: {told}; noise of computing {100 * fit.noise:.2g} %")


def _plan(scenario: Path, scale: float | None) -> tuple[Cluster, Blueprint]:
    from weft.scenario import Scenario
    from weft.scenario.build import build_cluster
    from weft.testbed.plan import blueprint

    cluster = build_cluster(Scenario.load(scenario), None)
    return cluster, blueprint(cluster, scale)


def _links(control: str, loss: float, delay_ms: float, marks: int) -> Links:
    from weft.testbed.build import Links
    from weft.testbed.packets import Marks

    return Links(control, loss, delay_ms / 1e3, marks=Marks(marks) if marks else None)


def _servers(cluster: Cluster, names: list[str], text: str) -> tuple[int, ...]:
    known = {server.name: server.id for server in cluster.servers}
    for name in names:
        if name not in known:
            some = ", ".join(list(known)[:8])
            raise InputError(f"{text}: the cluster has no server {name!r}; it has {some}")
    return tuple(known[name] for name in names)


def _pairs(cluster: Cluster, texts: list[str]) -> list[tuple[int, int]]:
    pairs = []
    for text in texts:
        src, dash, dst = text.partition("-")
        if not dash:
            raise InputError(f"--foreign {text}: write two servers, such as s0-s2")
        a, b = _servers(cluster, [src, dst], f"--foreign {text}")
        pairs.append((a, b))
    return pairs


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
        f"{number} {Path(words[-1]).name}",
        (sys.executable if words[0] == "python" else words[0], *words[1:]),
        servers,
    )
