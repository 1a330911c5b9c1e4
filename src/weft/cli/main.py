"""The `weft` command: mounts the commands and turns every failure into one line and an exit code."""

from __future__ import annotations

import gc
import os
import signal
import sys
import warnings
from collections.abc import Iterator, Sequence
from importlib import import_module
from types import FrameType
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from weft import kernels
from weft.cli.common import exit_code, fail, load, not_there, notice
from weft.errors import InputError

INTERRUPTED = 130  # exit code, as of a program that SIGINT ended
_interrupts: list[int] = []  # the signals that came


# The core's commands, and what each stands for in weft.cli: a function, or an app with commands of its own. Only the
# command that is asked for is imported. Other packages bring theirs by the entry point weft.commands.
_COMMANDS = {
    "simulate": "simulate.simulate",
    "compare": "compare.compare",
    "advise": "advise.advise",
    "replay": "replay.replay",
    "compat": "compat.compat",
    "stacks": "stacks.stacks",
    "topology": "topology.topology",
    "cache": "cache.cache",
    "init": "init.init",
    "new": "new.app",
    "explain": "explain.explain",
    "models": "models.app",
    "trace": "trace.app",
}

# How `weft --help` arranges them; commands of other packages that it does not know come last.
_GROUPS = {
    "Start here": ("init", "compare", "simulate", "stacks", "advise"),
    "Your own policy": ("new",),
    "Look closer": ("explain", "topology", "compat", "replay"),
    "Models and traces": ("models", "trace", "profile"),
    "Real clusters": ("serve", "submit", "queue", "cancel", "run", "agent", "switch", "testbed"),
    "When and what if": ("when", "what-if", "defrag"),
    "Papers": ("reproduce", "validate", "calibrate", "fit"),
    "Maintenance": ("cache",),
}

# Commands of the packages that stand beside the core in its repository, so that who misses one reads where it is.
_BESIDE = {
    "evidence": ("reproduce", "validate", "calibrate", "fit"),
    "live": (
        "serve",
        "submit",
        "cancel",
        "queue",
        "agent",
        "switch",
        "run",
        "testbed",
        "profile",
        "when",
        "what-if",
        "defrag",
    ),
}


def _version(wanted: bool) -> None:
    if wanted:
        from weft import __version__

        print(f"weft {__version__}")
        raise typer.Exit


def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Decide how training jobs share a GPU cluster whose network is the bottleneck, and simulate what it is worth."""


class _Grouped(TyperGroup):
    """Lists commands in groups, each with the whole first sentence of its help."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Called by click for `--help`."""
        known = self.list_commands(ctx)
        placed = {name for names in _GROUPS.values() for name in names}
        groups = {**_GROUPS, "Further commands": tuple(name for name in known if name not in placed)}
        for title, names in groups.items():
            there = {name: self.get_command(ctx, name) for name in names if name in known}
            rows = [(name, _sentence(command.help or "")) for name, command in there.items() if command]
            if rows:
                with formatter.section(title):
                    formatter.write_dl(rows)


def _sentence(text: str) -> str:
    """The first sentence of a help text, on one line."""
    return " ".join(text.partition("\n\n")[0].split()).partition(". ")[0].rstrip(".") + "."


def app(args: Sequence[str] = ()) -> typer.Typer:
    """The app with the one command that is asked for, or with all of them if it is none of ours."""
    weft = typer.Typer(
        name="weft",
        cls=_Grouped,
        no_args_is_help=True,
        add_completion=True,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,  # plain help: rich's would take longer to load than all the rest
        help="Decide how training jobs share a GPU cluster whose network is the bottleneck, and simulate what it is "
        "worth.",
        epilog="Example: weft init demo.toml, then weft compare demo.toml --stack fifo --stack srsf",
    )
    weft.callback()(_root)
    for name, command in commands(args[0] if args else ""):
        if isinstance(command, typer.Typer):
            weft.add_typer(command, name=name)
        else:
            weft.command(name)(command)
    return weft


def commands(wanted: str) -> Iterator[tuple[str, Any]]:
    """The command of that name; all that there are, if none has it."""
    if wanted in _COMMANDS:
        yield wanted, _own(wanted)
        return
    from importlib.metadata import entry_points

    supplied = {point.name: point for point in entry_points(group="weft.commands")}
    if wanted in supplied:
        yield wanted, load(supplied[wanted], f"weft {wanted}")
        return
    if missing := next((package for package, names in _BESIDE.items() if wanted in names), None):
        raise InputError(not_there(f"weft {wanted}", missing))
    for name in (*_COMMANDS, *sorted(supplied.keys() - _COMMANDS.keys())):
        yield name, _own(name) if name in _COMMANDS else load(supplied[name], f"weft {name}")


def _own(name: str) -> Any:
    module, _, member = _COMMANDS[name].partition(".")
    return getattr(import_module(f"weft.cli.{module}"), member)


def run(args: Sequence[str]) -> int:
    """One command line; returns the exit code. 0 done, 1 a bug, 2 bad input or usage, 130 interrupted."""
    if sys.stdout is None:  # the shell closed it: weft ... >&-
        return fail("the output cannot be written: it is closed; open it, or send it to a file", 2)
    try:
        code = app(args)(args=list(args), prog_name="weft", standalone_mode=False)
        sys.stdout.flush()
    except KeyboardInterrupt:
        code = INTERRUPTED
    except BrokenPipeError:
        return _pipe_closed()
    except SystemExit as end:
        if isinstance(end.__context__, BrokenPipeError):
            return _pipe_closed()
        return end.code if isinstance(end.code, int) else 1
    except Exception as error:
        if hasattr(error, "format_message"):
            return _usage(error)
        if os.environ.get("WEFT_DEBUG"):
            raise
        if not _interrupts:
            return exit_code(error)
        code = INTERRUPTED  # inside compiled code an interrupt becomes whatever that code makes of it
    if code == INTERRUPTED:
        return fail("interrupted" + _resumes(args), INTERRUPTED)
    return code if isinstance(code, int) else 0


def _resumes(args: Sequence[str]) -> str:
    """What the message about an interruption says of going on: --fresh would run everything again."""
    if not args or args[0] not in ("compare", "advise", "reproduce"):
        return ""
    same = "the same command without --fresh" if "--fresh" in args else "the same command"
    return f"; {same} continues from the finished runs"


def _interrupt(signum: int, frame: FrameType | None) -> None:
    _interrupts.append(signum)
    signal.default_int_handler(signum, frame)


def _unraisable(told: sys.UnraisableHookArgs) -> None:
    if not isinstance(told.exc_value, KeyboardInterrupt):
        sys.__unraisablehook__(told)


def main() -> None:
    """Entry point of the `weft` script."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # in the background it may be ignored
        signal.signal(signal.SIGINT, _interrupt)
    sys.unraisablehook = _unraisable
    warnings.filterwarnings("once", ".*the old name will go", DeprecationWarning)
    warnings.showwarning = lambda message, *_: notice(f"warning: {message}")
    kernels.announce, kernels.own_process = notice, True
    gc.set_threshold(300_000, 20, 20)  # loading makes no garbage; looking for it every 100,000 objects took 70 ms
    code = run(sys.argv[1:])
    gc.freeze()  # no collection at exit either
    sys.exit(code)


def _usage(error: Exception) -> int:
    """A wrong option or argument, in one line; a command without arguments shows its help."""
    context = getattr(error, "ctx", None)
    text: str = error.format_message()  # type: ignore[attr-defined]
    if type(error).__name__ == "NoArgsIsHelpError":
        print(text)
        return 2
    text = text.rstrip(".")
    command = context.command_path if context is not None else "weft"
    return fail(f"{text} See: {command} --help" if text.endswith("?") else f"{text}; see: {command} --help", 2)


def _pipe_closed() -> int:
    """The reader of our output has gone (weft ... | head): print nothing more, not even at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 141
