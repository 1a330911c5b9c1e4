"""`weft explain`: why a job waits, or where it went."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from weft.cli.common import DirOption, JsonOption, print_json, run_folder, supplied
from weft.errors import InputError

if TYPE_CHECKING:
    from weft.results.explain import Explanation


def explain(
    job: Annotated[list[str], typer.Argument(metavar="[DIR] JOB", help="The job; before it, the folder it is in.")],
    dir: DirOption = None,
    json: JsonOption = False,
) -> None:
    """Say in words why a job waits or where it went, decision by decision.

    The folder is that of a weft serve, or one that weft simulate --out wrote.

    Example: weft explain job-3
    """
    if len(job) > 2:
        raise typer.BadParameter("give a job, or a folder and a job")
    folder = run_folder(dir if len(job) == 1 else Path(job[0]))
    if len(job) == 2 and folder.is_file():
        what = "is a scenario" if folder.suffix == ".toml" else "is a file"
        raise InputError(f"{folder}: {what}; give the folder of a run, which weft simulate --out or weft serve wrote")
    if len(job) == 2 and not folder.is_dir():
        raise InputError(f"{folder}: there is no such folder; give one that weft simulate --out or weft serve wrote")
    told = _explain(folder, job[-1])
    if json:
        lines = [{"time_s": line.time_s, "text": line.text} for line in told.lines]
        print_json({"job": told.job, "now": told.headline, "history": lines})
        return
    print(f"{told.job}: {told.headline}")
    for line in told.lines:
        print(f"{line.time_s:12.3f} s  {line.text}")


def _explain(folder: Path, job: str) -> Explanation:
    if (folder / "run.json").exists():
        from weft.results.explain import explain_run
        from weft.results.files import load_run

        return explain_run(load_run(folder), job)
    told: Explanation = supplied("weft.explain", "ledger", f"explain {folder}: a live run", "live")(folder, job)
    return told
