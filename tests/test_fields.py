"""No class has more than fifteen fields that change, unless its docstring says why its fields stand together.

What counts: attributes that methods assign after construction, and fields of dataclasses that are not frozen.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent
MOST = 15
NEVER = {"job", "description", "key"}  # of a task or a record: given to it when it is made, and never others


def classes() -> Iterator[tuple[Path, ast.ClassDef]]:
    for package in ("src", "live/src", "evidence/src"):
        for path in sorted((ROOT / package).rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.ClassDef):
                    yield path, node


def changing(made: ast.ClassDef) -> set[str]:
    """The names of its fields that change."""
    told = [ast.unparse(one) for one in made.decorator_list]
    data = any("dataclass" in one and "frozen=True" not in one for one in told)
    fields = {one.target.id for one in made.body if isinstance(one, ast.AnnAssign) and isinstance(one.target, ast.Name)}
    methods = [one for one in made.body if isinstance(one, ast.FunctionDef) and one.name != "__init__"]
    stored = {
        node.attr
        for method in methods
        for node in ast.walk(method)
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and ast.unparse(node.value) == "self"
    }
    return (stored | (fields if data else set())) - NEVER


def test_classes_have_few_fields_that_change() -> None:
    silent = {
        f"{path.relative_to(ROOT)}: {made.name}": len(found)
        for path, made in classes()
        if len(found := changing(made)) > MOST and "fields" not in (ast.get_docstring(made) or "")
    }
    assert silent == {}


def test_what_counts() -> None:
    text = "@dataclass\nclass A:\n    a: int\n    b: int = 0\n    def f(self):\n        self.c, self.d.e = 1, 2\n"
    (made,) = ast.parse(text).body
    assert isinstance(made, ast.ClassDef)
    assert changing(made) == {"a", "b", "c"}
    (frozen,) = ast.parse(text.replace("@dataclass", "@dataclass(frozen=True)")).body
    assert isinstance(frozen, ast.ClassDef)
    assert changing(frozen) == {"c"}
