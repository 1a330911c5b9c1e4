import json
import sys
from pathlib import Path

import pytest

from weft_live.profiling import matrices
from weft_live.profiling.torch_bridge import load_torch

pytestmark = pytest.mark.usefixtures("pytorch")


def test_rows_say_what_was_computed_and_how_fast(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a processor there is no fp8; rates are operations over seconds, two for each multiplied pair."""
    monkeypatch.setattr(matrices, "TOKENS", (8,))
    monkeypatch.setattr(matrices, "SHAPES", ((16, 32),))
    monkeypatch.setattr(matrices, "ATTENTION", ((2, 16),))
    monkeypatch.setattr(matrices, "COPIES", (2**16,))
    monkeypatch.setattr(sys, "argv", ["matrices", "--out", str(tmp_path / "rows.jsonl"), "--device", "cpu"])
    matrices.main()
    rows = [json.loads(line) for line in (tmp_path / "rows.jsonl").read_text().splitlines()]
    assert [(row["kind"], row.get("precision")) for row in rows] == [
        ("matrix", "bf16"), ("matrix", "tf32"), ("matrix", "fp32"), ("attention", "bf16"),
        ("attention-with-backward", "bf16"), ("copy", None),
    ]  # fmt: skip
    for row in rows[:3]:
        assert row["tflops"] * row["seconds"] == pytest.approx(2e-12 * 8 * 16 * 32)
    assert rows[5]["gb_per_s"] * rows[5]["seconds"] == pytest.approx(2e-9 * 2**16)


def test_time_that_is_over_ends_the_table() -> None:
    assert list(matrices.rows(load_torch(), "cpu", until=0.0)) == []
