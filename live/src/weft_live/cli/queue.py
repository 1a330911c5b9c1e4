"""`weft queue`: the jobs of a live run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from weft.cli.common import DirOption, JsonOption, aligned, deliver, notice, print_json, run_folder


def queue(
    dir: DirOption = None,
    all: Annotated[bool, typer.Option("--all", help="Also jobs that have ended.")] = False,
    check: Annotated[bool, typer.Option("--check", help="Say whether the ledger is sound, and stop.")] = False,
    when: Annotated[bool, typer.Option("--when", help="Also when jobs that wait will start, simulated.")] = False,
    json: JsonOption = False,
) -> None:
    """List jobs: where they run, how far they are, why they wait. The server need not run.

    Example: weft queue --all
    """
    from weft_live.server.ledger import Ledger
    from weft_live.server.listing import queue as read
    from weft_live.server.listing import servers_down

    folder = run_folder(dir)
    ledger = Ledger(folder, read_only=True)
    try:
        if check:
            wrong = ledger.check()
            deliver({"wrong": wrong}, json, lambda _: "\n".join(wrong) or "the ledger is sound")
            raise typer.Exit(bool(wrong))
        jobs, down = read(folder, ledger, ended=all), servers_down(ledger)
    finally:
        ledger.close()
    if when:
        _add_starts(folder, jobs)
    if json:
        print_json({"jobs": jobs, "servers_down": down})
    else:
        print(_table(jobs))
        for name, why in down.items():
            notice(f"{name} cannot be used: {why}")


def _add_starts(folder: Path, jobs: list[dict[str, Any]]) -> None:
    """Seconds until each job that waits starts; None for those that run, and where no start can be told."""
    from weft_live.asking import all_starts, keep, situation

    at = situation(folder, None, frozenset())
    starts = all_starts(at)
    if why := keep(folder, at, list(starts.values())):
        notice(f"note: {why}")
    for job in jobs:
        found = starts.get(job["job"])
        job["starts_in_s"] = None if found is None else found.to_dict()["starts_in_s"]
        job["starts"] = "-" if found is None else at.range(found.starts_in)


def _table(jobs: list[dict[str, Any]]) -> str:
    rows = []
    for job in jobs:
        of = f"/{job['iterations']}" if job["iterations"] else ""
        done = f"{job['done']}{of}" if job["done"] is not None else "-"
        told = job["where"] or job["reason"]
        rows.append(
            (job["job"], job["status"], str(job["gpus"]), _number(job["waited_s"]), _number(job["ran_s"]), done,
             *([job["starts"]] if "starts" in job else []), told)
        )  # fmt: skip
    starts = ("starts (10 to 90 %)",) if any("starts" in job for job in jobs) else ()
    return aligned(("job", "status", ">GPUs", ">waited s", ">ran s", ">done", *starts, "where, or why not"), rows)


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f}"
