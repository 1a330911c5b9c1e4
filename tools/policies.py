"""All policies, for docs/policies.md: what each must be told, what it can do, its settings, and its rules in short."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

from weft.model.policy import Setting
from weft.stacks.registry import BUILT_IN, LAYERS, make

HEAD = """\
# Policies

Generated from the code (`make docs`). A stack has one policy of each layer; `weft stacks` lists the stacks, and
[stacks.md](stacks.md) says how a policy and its settings are written. A world that cannot do what a policy needs
refuses it, or says what it leaves out. Policies of papers keep the rules that are told here; what they do not keep
stands behind *Left out*. Decisions that were computed by hand are tests, in the folder of the layer under
`tests/policies/`. Policies with more to tell have a page under [baselines](baselines).
"""
PAGES = Path(__file__).resolve().parent.parent / "docs" / "baselines"
QUESTIONS = {
    "order": "Order: who goes next, who gives way?", "place": "Place: on which GPUs?",
    "planners": "Planners: order and place at once", "interleave": "Interleave: when does communication start?",
    "pace": "Pace: which transfers run now, how fast?", "route": "Route: over which of several equal paths?",
}  # fmt: skip
CAN = {
    "shares_gpus": "puts several jobs on a GPU", "reserves": "keeps GPUs for jobs that others pass",
    "dedicated": "wants a cluster for each job", "resizes": "changes how many GPUs a job has",
    "shifts": "shifts communication in time", "holds_back": "makes transfers wait",
    "splits": "splits flows over paths", "moves": "changes paths of jobs that run",
    "natural": "is what real senders do",
}  # fmt: skip


def page() -> str:
    """docs/policies.md."""
    parts = [HEAD]
    for layer in LAYERS:
        parts += [f"## {QUESTIONS[layer]}\n", "| policy | settings | must know of a job | what it asks of a world |"]
        parts += ["|---|---|---|---|", *(_row(make(layer, name)) for name in BUILT_IN[layer]), ""]
        parts += [f"{_about(name, type(make(layer, name)))}\n" for name in BUILT_IN[layer]]
    return "\n".join(parts).rstrip() + "\n"


def _about(name: str, policy: type) -> str:
    """What its module says in a sentence, if that is about it alone; its own words; and where there is more."""
    module, _, _ = (inspect.getdoc(inspect.getmodule(policy)) or "").partition("\n\n")
    told = module.removeprefix(f"{name}: ")
    first = f"{told[:1].upper()}{told[1:]}\n\n" if told != module else ""
    more = f"\n\n[More](baselines/{name}.md)." if (PAGES / f"{name}.md").exists() else ""
    return f"**`{name}`.** {first}{inspect.getdoc(policy) or ''}{more}"


def _row(policy: Any) -> str:
    written = [f"`{setting}`".replace("|", "\\|") for setting in _settings(policy)]
    facts = sorted(fact.value for fact in policy.needs)
    return (
        f"| `{policy.name.partition(':')[0]}` | {' '.join(written)} | {', '.join(facts)} | {', '.join(_can(policy))} |"
    )


def _can(policy: Any) -> Iterator[str]:
    yield from (words for name, words in CAN.items() if getattr(policy, name, False))
    if getattr(policy, "rates", None) is not None and policy.rates() is not None:
        yield "sets rates"
        if not policy.transport().reacts:
            yield "senders keep them whatever is lost"


def _settings(of: Any) -> Iterator[Setting]:
    """Those that are declared in a policy and in what it holds."""
    for each in fields(of) if is_dataclass(of) else ():
        if "setting" in each.metadata:
            yield each.metadata["setting"]
        elif is_dataclass(each.default):
            yield from _settings(each.default)
