"""Refuses what a policy returns if it is nothing that the contract of its layer names."""

from __future__ import annotations

from typing import Any

from weft.errors import DecisionError


def expect(policy: Any, layer: str, method: str, answer: object, of: type, words: str) -> None:
    """Refuse an answer of another type, with the file and line where the policy's method begins."""
    if not isinstance(answer, of):
        raise refusal(policy, layer, method, f"returned {answer!r:.60}; {method}() returns {words}")


def expect_gpus(policy: Any, gpus: object) -> None:
    """Refuse GPUs that are no sequence of ids."""
    try:
        if gpus is None or (isinstance(gpus, tuple | list) and all(gpu >= 0 for gpu in gpus)):
            return
    except TypeError:
        pass
    raise refusal(policy, "place", "place", f"answered with gpus = {gpus!r:.60}; give a tuple of GPU ids, or None")


def refusal(policy: Any, layer: str, method: str, words: str) -> DecisionError:
    """The error, which names the policy and its file."""
    code = getattr(getattr(type(policy), method, None), "__code__", None)
    where = f", {code.co_filename}:{code.co_firstlineno}" if code else ""
    return DecisionError(f"{layer} {policy.name}{where}: {words}")
