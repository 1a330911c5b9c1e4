"""What every command shares: its options, where it prints, and how a failure becomes one line and an exit code."""

from __future__ import annotations

import errno
import json
import math
import os
import shlex
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from weft.errors import EngineError, InputError, WeftError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

    from rich.console import Console
    from rich.table import Table

    from weft.results.run import RunResult

ScenarioArgument = Annotated[
    Path,
    typer.Argument(
        metavar="SCENARIO.toml",
        help="Scenario file (weft init writes one), or the name of one that comes with weft, such as sweep.",
    ),
]
StackOption = Annotated[
    str | None,
    typer.Option(
        "--stack",
        help="Stack to run instead of the scenario's: a name (weft stacks lists them), srsf/delay/none/fair/ecmp, "
        "or srsf[place=delay].",
    ),
]
OrderOption = Annotated[str | None, typer.Option("--order", help="Replace the stack's order: who goes next.")]
PlaceOption = Annotated[
    str | None, typer.Option("--place", help="Replace the stack's place: on which GPUs (a name, or FILE.py:CLASS).")
]
InterleaveOption = Annotated[
    str | None, typer.Option("--interleave", help="Replace the stack's interleave: when communication starts.")
]
PaceOption = Annotated[str | None, typer.Option("--pace", help="Replace the stack's pace: which transfers run now.")]
RouteOption = Annotated[
    str | None, typer.Option("--route", help="Replace the stack's route: over which of several equal paths.")
]
MOST_SEED = 2**63 - 1  # what a scenario allows, too
MOST_SEEDS = 100_000
SeedOption = Annotated[int | None, typer.Option("--seed", min=0, max=MOST_SEED, help="Seed instead of the scenario's.")]
FreshOption = Annotated[
    bool,
    typer.Option(
        "--fresh",
        help="Run everything again. Otherwise finished runs are taken from ~/.cache/weft/results "
        "(at most 2000 MB; weft cache shows and clears it).",
    ),
]
SetOption = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Change a key of the scenario: cluster.oversubscription=4."),
]


def _trust(wanted: bool) -> bool:
    """Trust every folder, in this process and in those that it starts."""
    if wanted:
        os.environ["WEFT_TRUST"] = os.sep
    return wanted


CodeOption = Annotated[
    bool,
    typer.Option("--allow-code", callback=_trust, help="Run policies in Python files that the scenario itself names."),
]
WorkersOption = Annotated[int | None, typer.Option("--workers", min=1, help="Processes (default: one per core).")]
ExecutorOption = Annotated[
    str | None,
    typer.Option(
        "--executor",
        metavar="NAME",
        help="Where to run: processes (default), slurm[:KEY=VALUE,...] or dask:ADDRESS.",
    ),
]
ReportOption = Annotated[
    Path | None, typer.Option("--report", metavar="FILE.html", help="Write a report with pictures there.")
]
DirOption = Annotated[
    Path | None,
    typer.Option("--dir", metavar="DIR", help="Folder of the run (default: WEFT_DIR, or weft in ~/.local/state)."),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON object to stdout and nothing else there.")]

LONG_S = 3600.0  # runs that take longer are asked about
BUG = "this is a bug in weft; WEFT_DEBUG=1 shows the traceback to report"


def stdout() -> Console:
    """Where results go. It is wide enough for tables if it is no terminal, and brackets in names are not markup."""
    from rich.console import Console

    width = None if sys.stdout.isatty() else int(os.environ.get("COLUMNS", "120"))
    return Console(width=width, soft_wrap=False, markup=False)


def stderr() -> Console:
    """Where progress and notices go."""
    from rich.console import Console

    return Console(stderr=True)


def notice(text: str) -> None:
    """One line to stderr."""
    print(text, file=sys.stderr, flush=True)


def command_line() -> str:
    """The command as it was typed, for reports."""
    return shlex.join(["weft", *sys.argv[1:]])


def run_folder(given: Path | None) -> Path:
    """The folder of a live run: the one that was given, or the user's own."""
    if given is not None:
        return given
    if own := os.environ.get("WEFT_DIR"):
        return Path(own)
    state = os.environ.get("XDG_STATE_HOME")
    return (Path(state) if state else Path.home() / ".local" / "state") / "weft"


def load(point: EntryPoint, what: str) -> Any:
    """What another package supplies; `what` names it in messages."""
    try:
        return point.load()
    except Exception as error:  # importing somebody else's module may fail in any way
        raise InputError(
            f"{what}: its package names {point.value}, which cannot be loaded ({type(error).__name__}: {error}); "
            "mend or remove it"
        ) from error


def not_there(what: str, package: str) -> str:
    """Says that a package beside the core is missing, and how it is installed."""
    return (
        f"{what} comes with the package weft-{package}, which is not installed here; in a checkout of weft: "
        f"make install, or pip install ./{package}"
    )


def supplied(group: str, name: str, what: str, package: str) -> Any:
    """What the package weft-PACKAGE supplies by an entry point; an error says how to install it."""
    from importlib.metadata import entry_points

    for point in entry_points(group=group, name=name):
        return load(point, what)
    raise InputError(not_there(what, package))


def print_notes(runs: Iterable[RunResult]) -> None:
    """What the reader of these results must know, once each, on stderr."""
    runs = list(runs)
    for note in dict.fromkeys(note for run in runs for note in run.notes):
        its = [run for run in runs if note in run.notes]
        stacks = ", ".join(dict.fromkeys(run.stack for run in its))
        whose = "" if len(its) == len(runs) else f" ({stacks})" if len(its) > 1 else f" ({stacks}, seed {its[0].seed})"
        notice(f"note: {note}{whose}")
    for run in runs:
        left = run.jobs["finish_s"].null_count()
        if left:
            notice(f"note: {left} of {run.jobs.height} jobs did not finish ({run.stack}, seed {run.seed})")


def print_json(value: Mapping[str, Any]) -> None:
    """One JSON object on stdout; numbers that are not defined become null."""
    print(json.dumps(_plain(value), indent=2, allow_nan=False, ensure_ascii=False))


def deliver(
    value: Mapping[str, Any],
    as_json: bool,
    render: Callable[[Any], Any],
    report: Path | None = None,
    write: Callable[[Path], object] | None = None,
) -> None:
    """Print a result, as JSON or as `render` draws it, and `write` its report if one was asked for."""
    if as_json:
        print_json(value)
    else:
        stdout().print(render(value))
    if report is not None and write is not None:
        write(report)
        notice(f"wrote {report}")


def plain_table(*titles: str, gap: int = 2) -> Table:
    """A table without lines; a title that begins with > heads a column that is aligned right."""
    from rich.table import Table

    table = Table(box=None, pad_edge=False, padding=(0, gap, 0, 0))
    for title in titles:
        table.add_column(title.lstrip(">"), justify="right" if title.startswith(">") else "left", header_style="bold")
    return table


def aligned(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """The same as plain text, for thousands of rows, which rich takes seconds for."""
    shown = [title.lstrip(">") for title in titles]
    widths = [max(map(len, column)) for column in zip(shown, *rows, strict=True)]
    line = "  ".join(f"{{:{'>' if t.startswith('>') else ''}{w}}}" for t, w in zip(titles, widths, strict=True))
    return "\n".join(line.format(*row).rstrip() for row in (shown, *rows))


def ask_about_time(seconds: float) -> None:
    """Say how long something will take. If that is hours, ask first, or refuse where no user can be asked."""
    from weft.results.display import duration

    if seconds < LONG_S:
        notice(f"this will take about {duration(seconds)}")
        return
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise InputError(
            f"this would take about {duration(seconds)}; add --yes to run it, or choose fewer combinations"
        )
    if not typer.confirm(f"This will take about {duration(seconds)}. Go on?", err=True):
        raise InputError("nothing more was run; what has finished is kept")


@contextmanager
def progress(text: str) -> Iterator[Callable[[int, int], None]]:
    """A progress bar on stderr (none if that is no terminal); call the function that it yields with (done, total)."""
    if not sys.stderr.isatty():
        yield lambda done, total: None  # loading the bar takes longer than some runs
        return
    with phases() as tell:
        yield lambda done, total: tell(text, done, total)


@contextmanager
def phases() -> Iterator[Callable[[str, int, int], None]]:
    """A progress bar with the time left, for work in several parts; call the function with (part, done, total). For the
    time left of all parts, count `done` and `total` over all of them."""
    if not sys.stderr.isatty():
        said: list[str] = []

        def say(part: str, done: int, total: int) -> None:
            """Without a terminal, a line when a part begins."""
            if part not in said:
                said.append(part)
                notice(f"{part} ...")

        yield say
        return
    from weft.runs.watched import phases as bar

    with bar() as tell:
        yield tell


def fail(text: str, code: int) -> int:
    """Print one line to stderr and return the exit code."""
    print(f"error: {' '.join(text.split())}", file=sys.stderr, flush=True)
    return code


def exit_code(error: BaseException) -> int:
    """Print an error in one line; returns 2 if the user can fix it, 1 if it is a bug."""
    if isinstance(error, EngineError):
        return fail(f"{error}; {BUG}", 1)
    if isinstance(error, WeftError):
        return fail(str(error), 2)
    if isinstance(error, OSError) and error.filename is not None:
        return fail(f"{error.filename}: {error.strerror}; check the path and its permissions", 2)
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        return fail("no space left where the output goes; free some, or write it elsewhere", 2)
    if isinstance(error, OSError) and error.errno in (errno.EBADF, errno.EIO):
        return fail("the output cannot be written: it is closed; open it, or send it to a file", 2)
    if isinstance(error, MemoryError):
        return fail("out of memory; use fewer jobs, fewer workers, or exact = false", 1)
    return fail(f"{type(error).__name__}: {error}; {BUG}", 1)


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(v) for v in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if hasattr(value, "item"):  # a numpy scalar
        return _plain(value.item())
    return value
