"""Every error weft raises on purpose.

WeftError
├── InputError          what the user gave is wrong (file, field, remedy); exit code 2, never a traceback
│   ├── ScenarioError   a scenario file or one of its fields
│   ├── TraceError      a trace file, with its line number
│   └── StackError      an unknown policy, or layers that contradict each other or the world
├── PolicyError         a policy's own code failed, with its file and line
├── DecisionError       a policy asked for the impossible (a GPU given twice, an unknown job)
├── WorldError          a world reported the impossible (a job nobody submitted, a finish without a start)
└── EngineError         a simulation that broke its own laws: a bug in weft
"""

from __future__ import annotations

from difflib import get_close_matches


class WeftError(Exception):
    """Root of all errors raised by weft.

    Examples:
        >>> try:
        ...     weft.simulate("demo", stack="fiffo")
        ... except weft.WeftError as error:
        ...     print(error)
        there is no stack fiffo; did you mean fifo? `weft stacks` lists them
    """


class InputError(WeftError):
    """What the user gave is wrong; the message names the file, the field and the remedy on one line."""


class ScenarioError(InputError):
    """A scenario or job file, or one of its fields, is wrong."""


class TraceError(InputError):
    """A trace file is wrong; the message carries the line number."""


class StackError(InputError):
    """An unknown policy or stack, or layers that contradict each other or the world."""


class DecisionError(WeftError):
    """A policy decided something impossible; raised by the one checker for every world."""


class PolicyError(WeftError):
    """A policy's own code failed; the message names the policy, its file and its line."""


class WorldError(WeftError):
    """A world reported something that cannot have happened, given what it reported before."""


class EngineError(WeftError):
    """The engine broke one of its own laws (conservation, causality): a bug in weft, please report it."""


def quoted(name: str) -> str:
    """A name for an error message; in quotation marks where it would not be seen as it was written."""
    return f'"{name}"' if name != name.strip() or not name else name


def near(name: str, known: list[str], more: str = "") -> str:
    """The end of an error message: names much like this one, or all there are; then where to find more."""
    matches = get_close_matches(name, known, n=3)
    if matches:
        return f"; did you mean {' or '.join(matches)}?{more and f' {more}'}"
    return (f"; known are {', '.join(known)}" if known else "") + (more and f"; {more}")
