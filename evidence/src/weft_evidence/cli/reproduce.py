"""`weft reproduce`: does a paper's claim hold here?"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from weft.cli.common import (
    MOST_SEED,
    MOST_SEEDS,
    ExecutorOption,
    FreshOption,
    JsonOption,
    ReportOption,
    WorkersOption,
    command_line,
    deliver,
    notice,
    print_json,
    progress,
)

if TYPE_CHECKING:
    from weft_evidence.claims import Request


def reproduce(
    paper: Annotated[
        str,
        typer.Argument(
            metavar="PAPER",
            help="Which paper: ada-srsf, cassini, crux, dally, flows, monkeytree or titan; or weft, our own stack.",
        ),
    ],
    quick: Annotated[
        bool, typer.Option("--quick", help="A part of it, in about a minute: fewer seeds, or fewer and smaller runs.")
    ] = False,
    claim: Annotated[list[str] | None, typer.Option("--claim", help="Check this claim only; may be repeated.")] = None,
    seeds: Annotated[int | None, typer.Option("--seeds", min=1, max=MOST_SEEDS, help="Number of seeds.")] = None,
    seed: Annotated[int, typer.Option("--seed", min=0, max=MOST_SEED, help="The first seed.")] = 0,
    workers: WorkersOption = None,
    executor: ExecutorOption = None,
    report: ReportOption = None,
    real: Annotated[
        bool,
        typer.Option("--real", help="ada-srsf, cassini, flows: on real TCP too (weft testbed; root); no verdicts."),
    ] = False,
    show: Annotated[bool, typer.Option("--list", help="List the claims and stop.")] = False,
    stated: Annotated[
        bool, typer.Option("--stated", help="List all that the paper states, and which claims judge it, and stop.")
    ] = False,
    everything: Annotated[
        bool,
        typer.Option("--all", help="All claims, why claims fail, and notes; without it what the paper puts first."),
    ] = False,
    stable: Annotated[
        bool,
        typer.Option(
            "--stability",
            help="Which headline verdicts flip with one constant of ours at either end of its range (quick).",
        ),
    ] = False,
    fresh: FreshOption = False,
    json: JsonOption = False,
) -> None:
    """Run a paper's experiments and set published and measured numbers side by side: one sentence, then the claims that
    the paper puts first.

    Each claim has an interval over seeds and a verdict: reproduced (the published number), direction (an effect of
    another size), no, or not judged (too few seeds, or too wide an interval). docs/papers says how each paper was
    read. A reproduction that was interrupted continues from the runs that had finished.

    --stability runs the headline claims at --quick size over three seeds with our values, then with one constant that
    we chose at a time at either end of its range. A claim that stops to hold, or begins to, is unstable, and by what
    is said.

    Example: weft reproduce ada-srsf --quick --report ada-srsf.html
    """
    from weft.results.files import refuse_unwritable
    from weft.runs.executors import using
    from weft.runs.kept import kept
    from weft_evidence import claims_of
    from weft_evidence import reproduce as run
    from weft_evidence.checks import chosen
    from weft_evidence.claims import Request
    from weft_evidence.report import claims_text, headline_text, write

    if show:
        claims = claims_of(paper, quick)
        words = {name: claims[name].what for name in chosen(Request(quick, claims=tuple(claim or ())), claims)[0]}
        if json:
            print_json(words)
        else:
            width = max(map(len, words), default=0)
            print("\n".join(f"{name:{width}s}  {what}" for name, what in words.items()))
        return
    if stated:
        _stated(paper, json)
        return
    if real:
        given = {
            "--claim": claim, "--seeds": seeds, "--seed": seed, "--workers": workers, "--executor": executor,
            "--report": report, "--fresh": fresh, "--stability": stable,
        }  # fmt: skip
        _real(paper, quick, json, [option for option, value in given.items() if value])
        return
    request = Request(quick, seed, seeds, tuple(claim or ()), workers, None, notice)
    if stable:
        _stability(
            paper, request, [o for o, v in (("--report", report), ("--all", everything)) if v], fresh, executor, json
        )
        return
    refuse_unwritable(report)
    with kept(fresh, notice), using(executor), progress("reproducing") as on_progress:
        result = run(paper, replace(request, on_progress=on_progress))
    shown = headline_text if result.headlines and not (everything or claim) else claims_text
    deliver(result.to_dict(), json, lambda _: shown(result), report, lambda path: write(path, result, command_line()))


def _stated(paper: str, json: bool) -> None:
    """What a paper states, what is judged of it and by which claims."""
    from weft.cli.common import plain_table
    from weft.errors import InputError
    from weft_evidence import claims_of
    from weft_evidence.coverage import counted
    from weft_evidence.coverage import stated as listed
    from weft_evidence.pages import folder_of
    from weft_evidence.pages import recorded as records

    known = claims_of(paper)
    if not (found := listed(paper)):
        raise InputError(f"reproduce {paper}: nobody has listed what it states")
    there = (folder_of(paper) / "claims.json").is_file()  # in a checkout
    recorded = [row["id"] for row in records(paper)] if there else None
    rows = [
        {"id": one.id, "where": one.where, "what": one.what, "value": one.value, "status": one.state(recorded),
         "claims": one.judged_by(known), "tests": one.tests, "needs": one.needs or ""}
        for one in found
    ]  # fmt: skip
    table = plain_table("where", "what", "stated", "")
    for one in found:
        table.add_row(one.where, one.what, one.value, f"{one.state(recorded)} {one.needs or ''}".strip())
    table.caption = counted(paper, recorded)
    deliver({"stated": rows}, json, lambda _: table)


def _stability(
    paper: str, request: Request, refused: list[str], fresh: bool, executor: str | None, json: bool
) -> None:  # fmt: skip
    """A line for each headline claim: its verdict, and which constants it hangs on."""
    from weft.cli.common import plain_table
    from weft.errors import InputError
    from weft.runs.executors import using
    from weft.runs.kept import kept
    from weft_evidence.stability import stability, to_dict

    if refused:
        raise InputError(f"reproduce {paper}: --stability prints one table; leave {' and '.join(refused)} out")
    with kept(fresh, notice), using(executor), progress("reproducing at the ends of constants") as on_progress:
        found = stability(paper, replace(request, on_progress=on_progress))
    table = plain_table("headline claim", "verdict", "stability")
    for one in found:
        table.add_row(one.headline or one.id, one.verdict, one.words)
    deliver(to_dict(paper, found, request.seeds), json, lambda _: table)


REAL = {"ada-srsf": "ada_srsf", "cassini": "cassini", "flows": "flows"}  # papers with a module `real`


def _real(paper: str, quick: bool, json: bool, given: list[str]) -> None:
    """Published, simulated and real figures in one table."""
    from importlib import import_module

    from weft.errors import InputError
    from weft_live.testbed.build import refuse

    if paper not in REAL:
        raise InputError(f"reproduce {paper}: --real knows {', '.join(REAL)} only")
    if given:
        raise InputError(f"reproduce {paper}: --real runs all of it on this machine; leave {' and '.join(given)} out")
    refuse()
    rows = import_module(f"weft_evidence.{REAL[paper]}.real").table(quick, notice)
    if json:
        print_json({"rows": rows})
        return
    print(f"{'':74s} {'published':>10s} {'simulated':>10s} {'real':>8s}  95 % interval")
    for row in rows:
        published, simulated, real = (_short(row[key]) for key in ("published", "simulated", "real"))
        low, high = map(_short, row["ci95"])
        found = f"{real:>8s}  [{low}, {high}]" if not row.get("disturbed") else f"not judged: {row['disturbed']}"
        print(f"{row['what'] + ', ' + row['unit']:74s} {published:>10s} {simulated:>10s} {found}")


def _short(value: float | None) -> str:
    return "-" if value is None else f"{value:.0f}" if abs(value) >= 100 else f"{value:.3g}"
