import os
import re
import shutil
import subprocess
import sys
import time
from itertools import product
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parent.parent
pytestmark = pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")


def make(folder: Path, *arguments: str) -> tuple[int, list[str]]:
    """Exit code, and the lines of stderr that are not make's own."""
    done = subprocess.run(["make", *arguments], cwd=folder, capture_output=True, text=True, check=False)
    return done.returncode, [line for line in done.stderr.splitlines() if not line.startswith("make")]


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    for name in ("Makefile", "pyproject.toml", "live/pyproject.toml", "evidence/pyproject.toml", "constraints.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    return tmp_path


def python_that(folder: Path, condition: str) -> str:
    """A Python that fails when its code contains something."""
    script = folder / "python"
    script.write_text(f'#!/bin/sh\ncase "$2" in *{condition}*) exit 1;; esac\nexec {sys.executable} "$@"\n')
    script.chmod(0o755)
    return f"PYTHON={script}"


def test_missing_venv_gets_one_line(clone: Path) -> None:
    code, lines = make(clone, python_that(clone, "ensurepip"), "demo")
    assert code != 0
    assert lines == [
        "python3-venv is missing: install it (Debian, Ubuntu: apt-get install python3-venv) and run make again"
    ]
    assert not (clone / ".venv").exists()


def test_old_python_gets_one_line(clone: Path) -> None:
    python = python_that(clone, "version_info")
    code, lines = make(clone, python, "test")
    assert code != 0
    assert len(lines) == 1
    assert lines[0].startswith("weft needs Python 3.11 or newer")


def test_what_is_installed_is_not_installed_again(clone: Path) -> None:
    (clone / ".venv" / "bin").mkdir(parents=True)
    (clone / ".venv" / "bin" / "python").write_text("#!/bin/sh\nexit 1\n")
    (clone / ".venv" / "bin" / "python").chmod(0o755)
    code, _ = make(clone, "install")
    assert code != 0  # it tried to install
    (clone / ".venv" / ".all-stamp").touch()
    assert make(clone, "install") == (0, [])
    os.utime(clone / "constraints.txt", (time.time() + 60, time.time() + 60))
    assert make(clone, "install")[0] != 0  # other versions are to be installed


@pytest.mark.parametrize(
    ("arguments", "environment", "file"), [(["dev"], ".venv", "constraints.txt"), (["newest"], ".venv-newest", "")]
)
def test_pip_keeps_to_the_constraints_but_for_what_is_newest(
    clone: Path, arguments: list[str], environment: str, file: str
) -> None:
    """Also where it makes an environment to build a package in. No test runs: what stands for Python has no pytest."""
    python = clone / "python"
    python.write_text(
        "#!/bin/sh\n"
        'case "$*" in\n'
        f'"-m venv "*) mkdir -p {environment}/bin; cp python {environment}/bin/python;;\n'
        '"-m pip "*) echo "$PIP_CONSTRAINT,$PIP_BUILD_CONSTRAINT" > told;;\n'
        "esac\n"
    )
    python.chmod(0o755)
    make(clone, "PYTHON=./python", *arguments)
    assert (clone / "told").read_text() == f"{file},{file}\n"


def test_versions_are_taken_only_from_an_environment_that_was_tried(clone: Path) -> None:
    before = (clone / "constraints.txt").read_text()
    code, lines = make(clone, "constraints")
    assert (code != 0, len(lines)) == (True, 1)
    assert (clone / "constraints.txt").read_text() == before


def test_every_test_runs_in_exactly_one_place_and_ci_judges_what_needs_no_idle_machine() -> None:
    """Whatever marks a test has."""
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    everyday = re.search(r'^DEFAULT = .* -m "(.+?)"', makefile, re.MULTILINE)
    assert everyday is not None
    recipes = re.findall(r'^(together|alone|long): dev\n\t.* -m (?:"(.+?)"|(\w+))', makefile, re.MULTILINE)
    assert re.search(r"^test: dev\n\t\$\(DEFAULT\)", makefile, re.MULTILINE)
    chosen = {"test": everyday[1], **{name: several or one for name, several, one in recipes}}
    assert chosen.keys() == {"test", "together", "alone", "long"}
    for values in product((False, True), repeat=3):
        marks = dict(zip(("alone", "engine", "long"), values, strict=True))
        # Marks, and, or, not: as Python has them.
        assert sum(eval(words, {}, marks) for words in chosen.values()) == 1, marks
    ci = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    (tests,) = re.findall(r"^tests=\((.*)\)", ci, re.MULTILINE)
    assert set(tests.split()) == {"test", "together"}
    assert re.search(r"^make .*\blint torch\b", ci, re.MULTILINE)


def test_a_commit_is_held_against_what_make_lint_runs() -> None:
    recipe = re.search(r"^lint: dev\n((?:\t.*\n)+)", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    assert recipe is not None
    config = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8"))
    hooks = [hook for repo in config["repos"] for hook in repo["hooks"]]
    wanted = [line.strip().replace("$(BIN)", ".venv/bin") for line in recipe[1].splitlines()]
    assert [hook["entry"] for hook in hooks] == wanted
    assert not any(hook["pass_filenames"] for hook in hooks)  # they judge the whole tree, as make lint does
