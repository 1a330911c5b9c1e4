import re
from importlib import import_module

import weft
from tools.names import BASES, page
from weft.stacks.registry import LAYERS


def test_the_page_has_every_public_name_and_each_can_be_imported() -> None:
    listed = re.findall(r"^- `([\w.]+)\.(\w+)", page(), re.MULTILINE)
    for module in ("weft", "weft.testing", "weft.stacks", "weft.model"):
        assert {name for where, name in listed if where == module} == set(import_module(module).__all__)
    assert all(hasattr(import_module(where), name) for where, name in listed if (where, name) != ("weft", "profile"))
    assert len(listed) == len(set(listed)) > len(weft.__all__)


def test_every_layer_has_its_base() -> None:
    assert BASES.keys() == {f"weft.{layer}" for layer in LAYERS}
    for group, module in BASES.items():
        name = group.removeprefix("weft.").removesuffix("s").capitalize()
        assert f"`{module}.{name}`" in page()
