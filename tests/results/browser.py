"""A real browser looks at a report: Chromium without a window, through a page that measures the report in a frame."""

import json
import os
import re
import shutil
import subprocess
from html import unescape
from pathlib import Path
from typing import Any

import pytest

from testkit.engines import missing_engine

PHONE, DESKTOP = (390, 844), (1280, 900)
_MEASURE = """
<!doctype html><body><iframe id="f" src="%s" style="border:0;width:%dpx;height:%dpx"></iframe><script>
document.getElementById("f").onload = () => {
  const d = document.getElementById("f").contentDocument, box = e => { const r = e.getBoundingClientRect();
    return [r.left, r.top, r.right, r.bottom]; };
  const plots = [...d.querySelectorAll("svg.plot")].map(s => ({
    box: box(s), spots: s.querySelectorAll(".spot title").length,
    texts: [...s.querySelectorAll("text")].filter(t => t.textContent.trim()).map(t => [t.textContent, ...box(t)]),
    legends: [...s.querySelectorAll("g[id*=legend] text")].map(t => [t.textContent, ...box(t)]),
    axes: [...s.querySelectorAll("g[id*=axes_] > g[id*=patch_]")].slice(0, 8).map(box)}));
  const found = {width: d.documentElement.scrollWidth,
    verdict: d.querySelector(".verdict") && box(d.querySelector(".verdict")),
    lead: d.querySelector(".lead") && d.querySelector(".lead").textContent, plots: plots,
    small: [...d.querySelectorAll("p,td,dd,small")].filter(e => parseFloat(getComputedStyle(e).fontSize) < 11).length};
  const out = document.createElement("pre"); out.id = "found"; out.textContent = JSON.stringify(found);
  document.body.replaceChildren(out); };
</script>
"""


def chromium() -> str:
    """The system's browser; a test that misses it fails in CI and skips elsewhere."""
    found = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if found is None:
        missing_engine("a browser (apt-get install chromium)")
    assert found is not None
    return found


def _call(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    base = [
        chromium(), "--headless", "--no-sandbox", "--disable-gpu", "--allow-file-access-from-files",
        "--hide-scrollbars", "--disable-dev-shm-usage", "--virtual-time-budget=20000",
        f"--user-data-dir={folder / f'profile-{os.getpid()}'}",  # two of one profile would disturb each other
    ]  # fmt: skip
    return subprocess.run([*base, *options], capture_output=True, text=True, timeout=240, check=False)


def measure(report: Path, size: tuple[int, int]) -> dict[str, Any]:
    """What the browser says of a report in a window of that size."""
    page = report.with_name(f"measure-{report.stem}-{size[0]}.html")
    page.write_text(_MEASURE % (report.name, *size))
    done = _call(report.parent, "--dump-dom", page.as_uri())
    found = re.search(r'<pre id="found">(.*?)</pre>', done.stdout, re.DOTALL)
    assert found is not None, done.stderr[-2000:]
    value: dict[str, Any] = json.loads(unescape(found[1]))
    return value


def screenshot(report: Path, size: tuple[int, int]) -> Path:
    """A picture of its first screen."""
    target = report.with_name(f"{report.stem}-{size[0]}.png")
    done = _call(report.parent, f"--screenshot={target}", f"--window-size={size[0]},{size[1]}", report.as_uri())
    if not target.exists():
        pytest.fail(f"the browser made no picture: {done.stderr[-2000:]}")
    return target


def inside(inner: list[float], outer: list[float], slack: float = 1.5) -> bool:
    """Whether a box lies in another, but for a hair."""
    return (
        inner[0] >= outer[0] - slack and inner[1] >= outer[1] - slack
        and inner[2] <= outer[2] + slack and inner[3] <= outer[3] + slack
    )  # fmt: skip


def overlap(a: list[float], b: list[float], slack: float = 4.0) -> bool:
    """Whether two boxes lie over each other; a browser's box around a text has room above and below the letters."""
    return a[0] < b[2] - slack and b[0] < a[2] - slack and a[1] < b[3] - slack and b[1] < a[3] - slack
