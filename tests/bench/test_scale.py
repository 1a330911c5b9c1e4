"""weft bench scale: it runs, and every job of it ends."""

from __future__ import annotations

from weft.bench.scale import run


def test_small_run_ends_within_its_means() -> None:
    said: list[str] = []
    figures = run(True, said.append)
    assert figures["jobs"] == 200
    assert figures["iterations"] > 1_000_000
    assert figures["events"] < figures["iterations"] / 10  # most of it is measured or computed, not simulated
    assert figures["cpu_s"] > 0.0
    assert 50.0 < figures["peak_mb"] < 600.0
