from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import weft
from tests.test_api import scenario
from weft.errors import InputError
from weft.policies.place.fitting import FirstFit
from weft.runs.executors import _run_each, using
from weft.runs.prepare import compile_kernels
from weft.stacks import registry
from weft.stacks.registry import register

DEMO = Path(__file__).resolve().parents[2] / "examples" / "demo.toml"
OWN = "from weft.policies.place.fitting import FirstFit\nclass Own(FirstFit):\n    '''Own.'''\n    name = 'own'\n"


@pytest.fixture(autouse=True)
def _known_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    compile_kernels()
    monkeypatch.setattr(registry, "_BY_HAND", {layer: {} for layer in registry.GROUPS})


def compared(workers: int, **layers: Any) -> dict[str, Any]:
    return weft.compare(scenario(), ["fifo", "srsf"], 2, workers=workers, **layers).to_dict()


def test_a_policy_in_a_file_reaches_worker_processes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "own.py").write_text(OWN)
    monkeypatch.chdir(tmp_path)
    here, there = compared(1, place="own.py:Own"), compared(2, place="own.py:Own")
    assert here == there
    assert here["stacks"][0]["stack"] == "fifo[place=own.py:Own]"
    plain = compared(1, place="first-fit")
    assert [e["metrics"] for e in here["stacks"]] == [e["metrics"] for e in plain["stacks"]]


def test_a_policy_beside_the_scenario_is_found(tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(OWN)
    (tmp_path / "s.toml").write_text(DEMO.read_text() + "\n")
    assert weft.simulate(tmp_path / "s.toml", stack="fifo/own.py:Own").stack == "fifo/own.py:Own/none/fair"


def test_what_was_registered_reaches_worker_processes() -> None:
    register("place", "by-hand", FirstFit)
    asked = "__import__('weft.stacks.registry').stacks.registry.make('place', 'by-hand').name"
    assert dict(_run_each([asked] * 2, 2, eval)) == dict.fromkeys(range(2), "first-fit")


def test_a_class_that_workers_cannot_import_reaches_them(monkeypatch: pytest.MonkeyPatch) -> None:
    class Mine(FirstFit):
        """Of a notebook."""

    monkeypatch.setattr(Mine, "__module__", "__main__")
    register("place", "mine", Mine)
    assert compared(2, place="mine") == compared(1, place="mine")


def test_what_cannot_be_sent_to_workers_is_refused(tmp_path: Path) -> None:
    class Mine(FirstFit):
        """It holds an open file."""

        log = (tmp_path / "log").open("w")

    register("place", "mine", Mine)
    with pytest.raises(InputError, match="cannot be sent to worker processes"):
        compared(2, place="mine")
    Mine.log.close()


def test_any_executor_gives_the_same() -> None:
    alone = compared(1)
    with ThreadPoolExecutor(1) as threads, using(threads):
        assert compared(2) == alone


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("condor", "--executor condor is not known; choose processes, slurm, or dask:ADDRESS"),
        ("dask", "--executor dask needs the scheduler's address: dask:tcp://HOST:8786"),
    ],
)
def test_executors_that_are_not_there(text: str, line: str) -> None:
    with pytest.raises(InputError) as caught, using(text):
        pass
    assert str(caught.value) == line
