"""How far a run is, for whoever calls weft from Python: a bar in a terminal or a notebook, nothing elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from time import monotonic
from typing import Any

from weft.runs.run import Progress

_EVERY_S = 0.2  # how often a notebook redraws


def say(text: str) -> None:
    """One line to stderr: what takes long before anything can be counted."""
    print(text, file=sys.stderr, flush=True)


@contextmanager
def watched(text: str, given: Progress | None) -> Iterator[Progress]:
    """What to call with how much is done: `given`, else the bar that can be shown here."""
    if given is not None:
        shown: Any = nullcontext(given)
    elif _in_notebook():
        shown = _in_cell(text)
    elif sys.stderr.isatty():
        shown = _in_terminal(text)
    else:
        shown = nullcontext(lambda done, total: None)
    with shown as tell:
        yield tell


def _in_notebook() -> bool:
    """Whether IPython runs this, and in a kernel rather than a terminal."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return shell is not None and getattr(shell, "kernel", None) is not None


@contextmanager
def _in_cell(text: str) -> Iterator[Progress]:
    """HTML that is replaced in place, which needs no widgets."""
    from IPython.display import HTML, display

    handle = display(HTML(""), display_id=True)
    last = 0.0

    def tell(done: int, total: int) -> None:
        nonlocal last
        if monotonic() - last >= _EVERY_S:
            last = monotonic()
            handle.update(HTML(f"{text} <progress value='{done}' max='{max(total, 1)}'></progress> {done}/{total}"))

    try:
        yield tell
    finally:
        handle.update(HTML(""))


@contextmanager
def _in_terminal(text: str) -> Iterator[Progress]:
    with phases() as tell:
        yield lambda done, total: tell(text, done, total)


@contextmanager
def phases() -> Iterator[Callable[[str, int, int], None]]:
    """A progress bar with the time left, for work in several parts; call the function with (part, done, total). For the
    time left of all parts, count `done` and `total` over all of them."""
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        SpinnerColumn,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    console = Console(stderr=True)
    columns = (
        SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(),
        TextColumn("left:"), TimeRemainingColumn(),
    )  # fmt: skip
    # The time left follows from the last ten minutes: parts of a minute each would leave nothing of the last half one.
    with Progress(
        *columns, console=console, transient=True, disable=not console.is_terminal, speed_estimate_period=600.0
    ) as bar:
        task = bar.add_task("", total=None)
        yield lambda part, done, total: bar.update(task, description=part, completed=done, total=total)
