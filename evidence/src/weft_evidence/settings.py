"""Other values of constants than ours, as a request has them, in the scenarios and stacks that a paper runs.

A key is that of a scenario (`cluster.gpu_memory_gb`), of a policy's field (`tcp.rtt_s`), or of what a paper computes
itself (`own`). A value such as "80%" changes the number that a scenario gives.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import fields, replace
from itertools import cycle
from typing import TYPE_CHECKING, Any, TypeVar

from weft.errors import InputError, StackError, near
from weft.model.policy import written
from weft.scenario import Scenario
from weft.scenario.changes import Change, changed
from weft_evidence.claims import Progress, Request

if TYPE_CHECKING:
    from weft.results.run import RunResult
    from weft.runs.run import Source

Value = TypeVar("Value")


def scenario_of(request: Request, source: Source) -> Scenario:
    """The scenario, with the request's values."""
    mine = {key: value for key, value in request.settings.items() if key.partition(".")[0] in Scenario.model_fields}
    request.carried.update(mine)
    mine = {key: Change.of(value) or value if isinstance(value, str) else value for key, value in mine.items()}
    return changed(Scenario.load(source), mine, "setting")


def stack_of(request: Request, stack: str) -> str:
    """The stack, with the request's values in its policies; as it was written, if it has none of them."""
    from weft.stacks import describe

    layers = describe(stack) if request.settings else {}
    told = {layer: policy_of(request, layer, text) for layer, text in layers.items()}
    return "/".join(told.values()) if told != layers else stack


def policy_of(request: Request, layer: str, text: str) -> str:
    """The same for one policy."""
    from weft.stacks.registry import make

    for key, value in request.settings.items():
        name, _, setting = key.partition(".")
        if text.partition(":")[0] == name:
            policy = make("planners" if layer == "planner" else layer, text)
            with suppress(StackError):  # as it is written, the policy does without
                other = _with(policy, setting, value)
                text = ":".join(filter(None, (name, other.divider.join(written(other)))))
                request.carried.add(key)
    return text


def _with(policy: Any, setting: str, value: Any) -> Any:
    """A policy, or what it holds, with another value in one of its fields."""
    mine = {each.name: getattr(policy, each.name) for each in fields(policy)}
    held = {name: inner for name, inner in mine.items() if setting in getattr(inner, "__dataclass_fields__", {})}
    for name, inner in held.items():
        return replace(policy, **{name: replace(inner, **{setting: value})})
    if setting not in mine:
        raise InputError(f"setting {setting}: {policy.name} has none that is called so{near(setting, sorted(mine))}")
    return replace(policy, **{setting: value})


def own(request: Request, key: str, ours: Value) -> Value:
    """A constant of what a paper computes itself, outside of scenarios and stacks."""
    if key not in request.settings:
        return ours
    request.carried.add(key)
    value: Value = request.settings[key]
    return value


def run_stacks(
    request: Request, source: Source, stacks: Sequence[str], seeds: Sequence[int],
    on_progress: Progress | None = None, record: bool = False,
) -> list[RunResult]:  # fmt: skip
    """Runs of stacks, with the request's values, by seed and then by stack, under the names that they have without."""
    from weft import api

    done = api.compare(
        scenario_of(request, source), [stack_of(request, stack) for stack in stacks], seeds, workers=request.workers,
        on_progress=on_progress, on_compile=request.on_compile, record=record,
    )  # fmt: skip
    return [replace(run, stack=stack) for run, stack in zip(done.runs, cycle(stacks), strict=False)]
