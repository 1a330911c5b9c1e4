import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.image import imread

import weft
from tests.results.browser import DESKTOP, PHONE, inside, measure, overlap, screenshot
from weft.cli.main import run
from weft.results.report import write_report

pytestmark = pytest.mark.engine
DEMO = str(Path(__file__).resolve().parents[2] / "examples" / "demo.toml")


KINDS = ("compare", "sweep", "all", "simulate")
SIZES = {"phone": PHONE, "desk": DESKTOP}


def make(folder: Path) -> None:
    """One report of each kind, with real runs, and what the browser says of each."""
    small = ["--set", "workload.jobs=20", "--seeds", "2", "--workers", "1"]
    stacks = ["--stack", "fifo", "--stack", "srsf", "--stack", "srsf-preemptive[place=first-fit]"]
    made = {name: folder / f"{name}.html" for name in KINDS}
    assert run(["compare", DEMO, *stacks, *small, "--report", str(made["compare"])]) == 0
    assert run(["compare", DEMO, *stacks, *small, "--set", "nic_gbps=10,50", "--report", str(made["sweep"])]) == 0
    chosen = ["--order", "fifo,srsf:preemptive", "--place", "best-fit,first-fit", "--pace", "fair,tcp:ideal"]
    assert run(["compare", DEMO, "--all", *chosen, *small, "--report", str(made["all"])]) == 0
    write_report(made["simulate"], weft.simulate(DEMO, stack="srsf", record=True))
    for name, path in made.items():
        found = {at: measure(path, size) for at, size in SIZES.items()}
        (folder / f"{name}.json").write_text(json.dumps(found))


@pytest.fixture(scope="session")
def folder(made_once: Callable[[str, Callable[[Path], None]], Path]) -> Path:
    return made_once("reports", make)


@pytest.fixture(scope="session")
def reports(folder: Path) -> dict[str, Path]:
    return {name: folder / f"{name}.html" for name in KINDS}


@pytest.fixture(scope="session")
def seen(folder: Path) -> dict[tuple[str, str], dict[str, Any]]:
    found = {name: json.loads((folder / f"{name}.json").read_text()) for name in KINDS}
    return {(name, at): found[name][at] for name in KINDS for at in SIZES}


@pytest.mark.parametrize("name", KINDS)
def test_a_report_opens_with_its_verdict(name: str, seen: dict[tuple[str, str], dict[str, Any]]) -> None:
    for at, height in (("phone", PHONE[1]), ("desk", DESKTOP[1])):
        found = seen[name, at]
        assert found["lead"].endswith(".")
        assert len(found["lead"].split()) > 6
        assert found["verdict"][3] < height  # on the first screen


@pytest.mark.parametrize("name", KINDS)
def test_a_phone_needs_no_scrolling_sideways(name: str, seen: dict[tuple[str, str], dict[str, Any]]) -> None:
    assert seen[name, "phone"]["width"] <= PHONE[0]
    assert seen[name, "phone"]["small"] == 0  # no letters too small to read


@pytest.mark.parametrize("name", KINDS)
def test_no_label_is_cut_or_lies_over_another(name: str, seen: dict[tuple[str, str], dict[str, Any]]) -> None:
    for plot in seen[name, "desk"]["plots"]:
        texts = [(words, box) for words, *box in plot["texts"]]
        assert [words for words, box in texts if not inside(box, plot["box"])] == []
        short = [(words, box) for words, box in texts if box[2] - box[0] < 400]
        pairs = [(a, b) for i, (a, x) in enumerate(short) for b, y in short[i + 1 :] if overlap(x, y)]
        assert pairs == []


@pytest.mark.parametrize("name", ["compare", "sweep"])
def test_legends_cover_nothing(name: str, seen: dict[tuple[str, str], dict[str, Any]]) -> None:
    legends = 0
    for plot in seen[name, "desk"]["plots"]:
        for words, *box in plot["legends"]:
            legends += 1
            assert [words for axes in plot["axes"] if overlap(box, axes)] == []
    assert legends >= 2


def test_values_show_on_hover(reports: dict[str, Path], seen: dict[tuple[str, str], dict[str, Any]]) -> None:
    spots = [plot["spots"] for plot in seen["compare", "desk"]["plots"]]
    assert sum(spots) > 100
    assert "srsf, mean JCT: " in reports["compare"].read_text()
    assert "of jobs within" in reports["compare"].read_text()


def test_metrics_are_defined_where_they_stand(reports: dict[str, Path]) -> None:
    for name in ("compare", "simulate"):
        text = reports[name].read_text()
        assert "share of all GPU time in which GPUs computed" in text
        assert "from submission to the end" in text


def test_timelines_say_their_seed(reports: dict[str, Path]) -> None:
    assert "Cluster timeline: srsf, seed 101" in reports["compare"].read_text()
    assert "Cluster timeline: srsf, seed 101" in reports["simulate"].read_text()


@pytest.mark.parametrize("size", [PHONE, DESKTOP])
def test_a_picture_of_the_first_screen_shows_something(reports: dict[str, Path], size: tuple[int, int]) -> None:
    pixels = np.asarray(imread(screenshot(reports["compare"], size)))[..., :3]
    assert pixels.shape[:2] == (size[1], size[0])
    dark = (pixels.mean(axis=2) < 0.5).mean()
    assert 0.005 < dark < 0.5  # text on a light page
