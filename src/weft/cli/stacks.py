"""`weft stacks`: which schedulers there are."""

from __future__ import annotations

from typing import Any

from weft.cli.common import JsonOption, plain_table, print_json, stdout

_QUESTIONS = {
    "order": "who goes next, who gives way?",
    "place": "on which GPUs?",
    "planners": "order and place at once",
    "route": "over which links?",
    "interleave": "when does each job's communication start?",
    "pace": "which transfers run now, how fast?",
}


def stacks(json: JsonOption = False) -> None:
    """List the named stacks and the policies of each layer.

    Any layer of a stack can be replaced by another policy of that layer. Policies installed by other packages are
    listed too (entry points weft.order, weft.place, ...).

    Example: weft stacks
    """
    from weft.stacks import ABOUT, describe, names
    from weft.stacks.registry import LAYERS, WRAPS
    from weft.stacks.registry import names as policy_names

    known = {name: {**describe(name), "about": ABOUT.get(name, "")} for name in names()}
    layers = {layer: policy_names(layer) for layer in LAYERS}
    layers["place"] = sorted([*layers["place"], *(f"{wrap}:PLACE" for wrap in WRAPS)])
    if json:
        print_json({"stacks": known, "layers": layers})
        return
    console = stdout()
    console.print(_stack_table(known))
    console.print()
    table = plain_table("layer", "question", "policies", gap=3)
    for layer, policies in layers.items():
        if policies:
            table.add_row(layer.removesuffix("s"), _QUESTIONS[layer], ", ".join(policies))
    console.print(table)
    console.print("\nReplace a layer: weft simulate SCENARIO.toml --stack srsf --place first-fit", highlight=False)


def _stack_table(known: dict[str, dict[str, str]]) -> Any:
    table = plain_table("stack", "order/place/interleave/pace[/route]", "what it is", gap=3)
    for column in table.columns:
        column.overflow, column.no_wrap = "fold", column.header != "what it is"
    for name, layers in known.items():
        table.add_row(name, "/".join(text for layer, text in layers.items() if layer != "about"), layers["about"])
    return table
