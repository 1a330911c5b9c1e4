"""Prepare: what runs need is compiled before they begin, on two processors where there are two.

    python -m weft.prepare interleave cassini pace flow

compiles what these policies need, if this machine has not done so before.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Sequence

from weft import compiled
from weft.core.stack import Stack
from weft.pace.rates import RateRule
from weft.registry import make


def compile_kernels(say: Callable[[str], None] | None = None, stacks: Sequence[Stack] = ()) -> None:
    """Compile the engine's kernels, or load them where this machine has compiled them before; `say` is told if it takes
    long. Meanwhile another process compiles what the stacks have beside them."""
    from weft.sim.compiled.load import compile_all, is_cached

    if is_cached():
        compile_all()
    else:
        _compile(compile_all, stacks, say)
    for stack in stacks:  # what is not compiled yet is compiled here, and not by several workers side by side
        stack.interleave.prepare()


def _compile(
    engine: Callable[[Callable[[], RateRule | None] | None], None],
    stacks: Sequence[Stack],
    say: Callable[[str], None] | None,
) -> None:
    if say is not None:
        say("compiling kernels, once for this version (about 20 s) ...")
    beside: subprocess.Popen[bytes] | None = None
    policies = sorted({word for stack in stacks for word in _policies(stack)})
    if policies and len(os.sched_getaffinity(0)) > 1:
        words = [word for policy in policies for word in policy]
        argv = [sys.executable, "-m", "weft.prepare", *words]
        beside = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        engine(next((stack.pace.rates for stack in stacks if stack.pace.rates() is not None), None))
    except BaseException:
        if beside is not None:
            beside.kill()
        raise
    finally:
        if beside is not None:
            beside.wait()  # if it failed, whoever needs them first compiles them


def _policies(stack: Stack) -> list[tuple[str, str]]:
    """Its policies of ours that may need kernels: kind and name."""
    ours = (("interleave", stack.interleave), ("pace", stack.pace))
    return [(kind, policy.name) for kind, policy in ours if type(policy).__module__.startswith("weft.")]


def main(words: list[str]) -> None:
    """Pairs of a kind and a name."""
    compiled.own_process = True
    for kind, name in sorted(zip(words[::2], words[1::2], strict=True), reverse=True):  # paces take longest
        make(kind, name).prepare()


if __name__ == "__main__":
    main(sys.argv[1:])
