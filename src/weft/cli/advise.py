"""`weft advise`: from an operator's own log of jobs to a recommendation."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from weft.cli.common import (
    ExecutorOption,
    FreshOption,
    JsonOption,
    ReportOption,
    WorkersOption,
    command_line,
    deliver,
    notice,
    phases,
)


def advise(
    jobs: Annotated[
        Path, typer.Argument(metavar="JOBS", help="sacct output, a public trace, or any table of jobs with a header.")
    ],
    cluster: Annotated[
        Path | None,
        typer.Option("--cluster", metavar="FILE", help="A scenario (.toml) or Slurm's topology (.conf, .yaml)."),
    ] = None,
    gpus: Annotated[int | None, typer.Option("--gpus", min=1, help="GPUs in the cluster.")] = None,
    gpus_per_server: Annotated[
        int | None, typer.Option("--gpus-per-server", min=1, max=1000, help="GPUs in a server (default: 8).")
    ] = None,
    servers_per_rack: Annotated[
        int | None, typer.Option("--servers-per-rack", min=1, help="Servers in a rack (default: 4).")
    ] = None,
    gpu: Annotated[str | None, typer.Option("--gpu", help="GPU type (default: V100).")] = None,
    nic_gbps: Annotated[
        float | None, typer.Option("--nic-gbps", min=1e-3, help="Speed of a server's NIC (default: 25).")
    ] = None,
    oversubscription: Annotated[
        float | None,
        typer.Option("--oversubscription", min=0.01, help="Downlink/uplink bandwidth ratio of racks (default: 4)."),
    ] = None,
    mapping: Annotated[
        str, typer.Option("--map", metavar="FIELD=COLUMN,...", help="Which column is what: submit=Submit,gpus=NGPUS.")
    ] = "",
    format: Annotated[str | None, typer.Option("--format", help="Format of JOBS (weft trace formats).")] = None,
    models: Annotated[str, typer.Option("--models", help="Models that jobs train (a,b), instead of guesses.")] = "",
    today: Annotated[
        str | None, typer.Option("--today", metavar="STACK", help="What the site runs now (default: found by replay).")
    ] = None,
    stack: Annotated[list[str] | None, typer.Option("--stack", help="A further stack to try; may be repeated.")] = None,
    only: Annotated[bool, typer.Option("--only", help="Try the stacks given with --stack and no others.")] = False,
    what_if: Annotated[
        list[str] | None,
        typer.Option("--what-if", metavar="KEY=VALUE", help="Also try another cluster: oversubscription=1, gpus=+25%."),
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Use six windows instead of twelve.")] = False,
    minutes: Annotated[
        float | None,
        typer.Option(
            "--minutes", min=0, metavar="N", help="Add windows until the interval decides, for N minutes at most."
        ),
    ] = None,
    workers: WorkersOption = None,
    executor: ExecutorOption = None,
    report: ReportOption = None,
    fresh: FreshOption = False,
    json: JsonOption = False,
) -> None:
    """Say which stack would serve a cluster best, from its own log of jobs.

    It says what it understood, replays what happened and compares simulated with recorded waits. Then stacks race over
    windows of the log and over guesses of what the log does not say (models, communication), and one is recommended,
    with intervals, its price, and what the advice depends on. After an interruption it continues from the runs that had
    finished.

    A good log from Slurm: sacct --allusers --parsable2 --starttime 2024-05-01 --endtime 2024-06-01
    --format JobIDRaw,Submit,Start,End,ElapsedRaw,AllocTRES,User,Partition,State > sacct.txt

    Example: weft advise sacct.txt --gpus 256 --what-if gpus=+25% --report advice.html
    """
    from weft.advise import Flags, Request
    from weft.advise import advise as find
    from weft.advise.race import ROUNDS
    from weft.advise.report import advice_text, understood_text, write_report
    from weft.results.files import refuse_unwritable
    from weft.runs.executors import using
    from weft.runs.kept import kept
    from weft.workload.traces.columns import parse_map

    refuse_unwritable(report)
    request = Request(
        cluster, Flags(gpus, gpus_per_server, servers_per_rack, gpu, nic_gbps, oversubscription), parse_map(mapping),
        format, today, tuple(stack or ()), only, tuple(filter(None, models.split(","))), tuple(what_if or ()),
        ROUNDS[:2] if quick else ROUNDS, minutes, workers,
    )  # fmt: skip
    with kept(fresh), using(executor), phases() as tell:
        found = find(jobs, request, tell, notice, lambda facts: notice(understood_text(facts))).to_dict()
    deliver(found, json, advice_text, report, lambda path: write_report(path, found, command_line()))
