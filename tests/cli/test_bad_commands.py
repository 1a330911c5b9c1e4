"""Whatever is mistyped ends with one line that says what to do, and with exit code 2."""

import re
import shlex
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from weft.cli.main import run

GOOD = """\
[cluster]
topology = "leaf-spine"
racks = 2
servers_per_rack = 2
gpus_per_server = 4
[workload]
source = "poisson"
jobs = 5
load = 0.9
models = ["vgg16", "resnet50"]
gpus = {1 = 0.5, 4 = 0.5}
iterations = [20, 50]
[stack]
name = "srsf"
"""
HERE = Path(__file__).parent
ROOT = HERE.parents[1]
COMMANDS = [line for line in (HERE / "bad_commands.txt").read_text().splitlines() if line and line[0] != "#"]
# What a remedy looks like: a second half that tells the reader what to do, or the names that are known.
REMEDY = re.compile(
    r"(?i); [\w-]|did you mean|known are|choose|one of|give |write |must |takes |name |such as |install|leave .* out|needs |there (is|are) .*: "
)
FILES = {
    "good.toml": GOOD,
    "empty.toml": "",
    "broken.toml": "[cluster\n",
    "words.json": '{"hello": "world"}',
    "empty.csv": "",
    "header.csv": "submit,gpus,duration\n",
    "words.csv": "one,two\nthree,four\n",
    "jobs.csv": "job_id,submit_time,gpus,duration\na,0,1,60\nb,10,2,60\nc,20,4,600\n",
    "notes.txt": "kept\n",
    "policy.py": "Number = 3\n",
    "broken.py": "def\n",
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "binary.toml").write_bytes(bytes(range(256)))
    (tmp_path / "folder").mkdir()
    shutil.copy(ROOT / "examples" / "two-jobs.json", tmp_path / "jobs.json")
    shutil.copy(ROOT / "examples" / "compat.json", tmp_path / "compat.json")
    monkeypatch.chdir(tmp_path)
    for name in ("WEFT_TRACES", "WEFT_DIR", "WEFT_DEBUG"):
        monkeypatch.delenv(name, raising=False)
    signal.alarm(300)  # a command that is not refused may wait for ever
    yield tmp_path
    signal.alarm(0)


@pytest.mark.parametrize("command", COMMANDS)
def test_one_line_with_a_remedy(command: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = run(shlex.split(command))
    out, err = capsys.readouterr()
    lines = err.splitlines()
    assert code == 2, (out, err)
    assert out == ""
    assert len(lines) == 1, err
    assert lines[0].startswith("error: ")
    assert REMEDY.search(lines[0]), err
    assert sorted(p.name for p in folder.iterdir() if p.name != "__pycache__") == sorted(
        [*FILES, "binary.toml", "folder", "jobs.json", "compat.json"]
    )


def test_there_are_two_hundred() -> None:
    assert len(set(COMMANDS)) >= 200
