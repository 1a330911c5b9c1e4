"""Prepare: compiles what runs need before they begin, on two processors where there are two.

    python -m weft.runs.prepare interleave cassini pace flow

compiles what these policies need, if this machine has not done so before.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from weft import kernels
from weft.core.stack import Stack
from weft.stacks.registry import make


def compile_kernels(say: Callable[[str], None] | None = None, stacks: Sequence[Stack] = ()) -> None:
    """Compile the engine's kernels, or load them where this machine has compiled them before; `say` is told if it takes
    long. Meanwhile another process compiles what the stacks have beside them."""
    from weft.sim.compiled.load import is_cached
    from weft.sim.warm import compile_all

    if is_cached():
        compile_all()
        return
    if say is not None:
        say("compiling kernels, once for this version (about half a minute) ...")
    with _beside(stacks):
        compile_all(next((stack.pace.rates for stack in stacks if stack.pace.rates() is not None), None))


@contextmanager
def _beside(stacks: Sequence[Stack]) -> Iterator[None]:
    """Another process compiles what the stacks need beside the engine, where there is a processor for it."""
    words = [word for policy in sorted({one for stack in stacks for one in _policies(stack)}) for word in policy]
    if not words or len(os.sched_getaffinity(0)) == 1:
        yield
        return
    argv = [sys.executable, "-m", "weft.runs.prepare", *words]
    child = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield
    except BaseException:
        child.kill()
        raise
    finally:
        child.wait()  # if it failed, whoever needs them first compiles them


def _policies(stack: Stack) -> list[tuple[str, str]]:
    """Its policies of ours that may need kernels: kind and name."""
    ours = (("interleave", stack.interleave), ("pace", stack.pace))
    return [(kind, policy.name) for kind, policy in ours if type(policy).__module__.startswith("weft.")]


def main(words: list[str]) -> None:
    """Pairs of a kind and a name."""
    kernels.own_process = True
    for kind, name in sorted(zip(words[::2], words[1::2], strict=True), reverse=True):  # paces take longest
        make(kind, name).prepare()


if __name__ == "__main__":
    main(sys.argv[1:])
