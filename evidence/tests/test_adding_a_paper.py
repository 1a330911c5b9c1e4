import json
import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from weft.cli.main import run

GUIDE = Path(__file__).parents[2] / "docs" / "adding-a-paper.md"
SCENARIO, CODE, PROJECT = (
    text for _, text in re.findall(r"^```(\w+)\n(.*?)^```$", GUIDE.read_text("utf-8"), re.MULTILINE | re.DOTALL)
)


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The package of the guide, as pip would have installed it."""
    project = tomllib.loads(PROJECT)["project"]
    points = "".join(
        f"[{group}]\n" + "".join(f"{name} = {value}\n" for name, value in entries.items())
        for group, entries in project["entry-points"].items()
    )
    files = {
        "weft_phipps/__init__.py": CODE,
        "weft_phipps/phipps.toml": SCENARIO,
        "weft_phipps-1.0.dist-info/METADATA": f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: 1.0\n",
        "weft_phipps-1.0.dist-info/entry_points.txt": points,
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    yield
    sys.modules.pop("weft_phipps", None)


def test_the_example_is_as_long_as_the_page_says() -> None:
    assert sum(1 for text in (SCENARIO, CODE, PROJECT) for line in text.splitlines() if line) <= 60


@pytest.mark.usefixtures("installed")
def test_the_example_reproduces_its_formulas(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert run(["reproduce", "phipps", "--list", "--json"]) == 0
    assert json.loads(capsys.readouterr().out).keys() == {"fifo-wait", "shortest-saves"}
    assert (
        run(["reproduce", "phipps", "--quick", "--workers", "1", "--json", "--report", str(tmp_path / "r.html")]) == 0
    )
    claims = {claim["id"]: claim for claim in json.loads(capsys.readouterr().out)["claims"]}
    assert {name: claim["verdict"] for name, claim in claims.items()} == dict.fromkeys(claims, "reproduced")
    assert claims["fifo-wait"]["scenario"] == str(tmp_path / "weft_phipps" / "phipps.toml")
    assert claims["fifo-wait"]["seeds"] == [0, 1, 2, 3, 4]
    assert "Machine repair as a priority waiting-line problem" in (tmp_path / "r.html").read_text(encoding="utf-8")
