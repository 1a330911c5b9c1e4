"""`weft queue` answers at once, however long the queue is."""

import subprocess
import sys
from pathlib import Path

import pytest

from live.tests.jobs import describe
from testkit.toys import calls
from weft.cli.common import aligned
from weft.cli.main import run
from weft_live.server.ledger import Ledger


def test_a_job_more_in_line_costs_little(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A table of rich takes 1,300 calls a row: 8,300 jobs took nine seconds."""
    took = []
    for n in (200, 1200):
        folder = tmp_path / str(n)
        folder.mkdir()
        ledger = Ledger(folder)
        ledger.submit_all([(describe(f"j{i}", ["true"], gpus=1 + i % 8, iterations=9), float(i)) for i in range(n)])
        ledger.close()
        took.append(calls(lambda where=folder: run(["queue", "--dir", str(where)])))  # type: ignore[misc]
        lines = capsys.readouterr().out.splitlines()
        assert [line.split()[:3] for line in lines[1:]] == [[f"j{i}", "waiting", str(1 + i % 8)] for i in range(n)]
    assert (took[1] - took[0]) / 1000 < 60


def test_listing_a_queue_loads_nothing_that_decides() -> None:
    told = "import sys, weft_live.cli.queue, weft_live.server.listing; print(*sys.modules, sep='\\n')"
    loaded = set(subprocess.run([sys.executable, "-c", told], capture_output=True, text=True).stdout.split())
    assert "weft_live.server.listing" in loaded
    assert not loaded & {"weft.core.cycle", "weft.stacks", "weft.scenario.scenario", "polars", "scipy", "numba"}


def test_columns_are_as_wide_as_they_must_be() -> None:
    assert aligned(("job", ">GPUs", "where"), [("a", "16", ""), ("long-name", "8", "n1")]) == (
        "job        GPUs  where\na            16\nlong-name     8  n1"
    )
