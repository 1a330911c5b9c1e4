from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = {
    "weft": (ROOT / "src/weft", ROOT / "tests"),
    "weft_evidence": (ROOT / "evidence/src/weft_evidence", ROOT / "evidence/tests"),
    "weft_live": (ROOT / "live/src/weft_live", ROOT / "live/tests"),
}
BESIDE = {"benchmarks", "docs", "examples", "tools", "testkit"}  # folders of the project that are not part of a package
DATA = {"policies", "scenario/shipped"}  # rooms that hold other rooms, or files for users, and next to no code


@pytest.mark.parametrize("package", PACKAGES)
def test_every_room_has_its_tests(package: str) -> None:
    source, tests = PACKAGES[package]
    rooms = {init.parent.relative_to(source) for init in source.rglob("__init__.py")} - {Path(".")}
    untested = [
        str(room)
        for room in rooms
        if not any((tests / room).glob("test_*.py")) and not (tests / room.parent / f"test_{room.name}.py").exists()
    ]
    assert sorted(set(untested) - DATA) == []


@pytest.mark.parametrize("package", PACKAGES)
def test_every_folder_of_tests_is_a_room(package: str) -> None:
    source, tests = PACKAGES[package]
    folders = {test.parent.relative_to(tests) for test in tests.rglob("test_*.py")}
    assert sorted(str(f) for f in folders if not (source / f).is_dir() and f.parts[0] not in BESIDE) == []


def test_the_map_says_what_ls_says() -> None:
    source = ROOT / "src/weft"
    page = (ROOT / "docs" / "design.md").read_text(encoding="utf-8")
    drawn = page.partition("src/weft/\n")[2].partition("```")[0]
    there = {p.name for p in source.glob("*.py")} | {f"{p.parent.name}/" for p in source.glob("*/__init__.py")}
    missing = [name for name in sorted(there - {"__init__.py", "__main__.py"}) if name not in drawn.split()]
    assert missing == [], "draw them on the map in docs/design.md"
    inner = {f"{p.parent.name}/" for p in source.glob("*/*/__init__.py")}
    words = {word.strip("(),;") for word in drawn.split()}
    gone = sorted(word for word in words if word.endswith(("/", ".py")) and word not in there | inner)
    assert gone == [], "remove them from the map in docs/design.md"
