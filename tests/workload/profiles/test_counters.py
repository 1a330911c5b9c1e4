"""Periods of link counters: a known series, with jitter, and one that has none."""

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from testkit.draws import examples
from weft.cli import main
from weft.errors import InputError
from weft.workload.profiles.counters import Array, period_of, read_counters


def square(period_s: float, sends: float, n: int, step_s: float = 1e-3, jitter: float = 0.0) -> tuple[Array, Array]:
    """A counter that is read every step: 5 GB/s for a share of each period, whose start varies by the jitter."""
    rng = np.random.default_rng(7)
    starts = period_s * (np.arange(n) + jitter * rng.uniform(-0.5, 0.5, n))
    edges = np.ravel(np.column_stack((starts, starts + sends * period_s)))
    sent = np.ravel(np.column_stack((np.arange(n), np.arange(1, n + 1)))) * 5e9 * sends * period_s
    at_s = np.arange(0.0, period_s * n, step_s)
    return at_s, np.interp(at_s, edges, sent)


@settings(max_examples=examples(30), deadline=None)
@given(st.floats(0.05, 0.4), st.floats(0.1, 0.8), st.integers(12, 60))
def test_the_period_of_a_known_series(period_s: float, sends: float, n: int) -> None:
    """Within a fifth of a reading, however long; rate times length is what one iteration sends."""
    found = period_of(*square(period_s, sends, n))
    assert found.period_s == pytest.approx(period_s, abs=2e-4)
    sent = sum(length * gbps / 8 * 1e9 for _, length, gbps in found.arcs)
    assert sent == pytest.approx(5e9 * sends * period_s, rel=0.1)


def test_jitter_of_a_tenth_leaves_the_period() -> None:
    assert period_of(*square(0.2, 0.3, 60, jitter=0.1)).period_s == pytest.approx(0.2, rel=0.01)


def test_what_has_no_period_is_refused(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    at_s = np.arange(2000) * 1e-3
    for rate in (rng.uniform(0, 1e6, 2000), np.full(2000, 1e6)):
        with pytest.raises(InputError, match="it has no period"):
            period_of(at_s, np.cumsum(rate))
    at_s, counted = square(0.2, 0.3, 2)  # two periods are no repetition to speak of
    with pytest.raises(InputError, match="it has no period"):
        period_of(at_s, counted)
    with pytest.raises(InputError, match="must not shrink"):
        period_of(np.arange(100.0), -np.arange(100.0))
    path = tmp_path / "c.csv"
    path.write_text("time_s,bytes\n0,1\n1,many\n")
    with pytest.raises(InputError, match="row 2"):
        read_counters(path)


def test_compat_says_what_period_it_found(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    at_s, counted = square(0.06, 0.3, 40)
    rows = (f"{t},{b}\n" for t, b in zip(at_s, counted, strict=True))
    (tmp_path / "a.csv").write_text("time_s,bytes\n" + "".join(rows))
    job = {"id": "b", "iteration_s": 0.06, "arcs": [{"start_s": 0.0, "length_s": 0.018, "gbps": 40}]}
    given_file = tmp_path / "jobs.json"
    given_file.write_text(json.dumps({"capacity_gbps": 50, "jobs": [{"id": "a", "counters": "a.csv"}, job]}))
    main.run(["compat", str(given_file), "--quantum-ms", "1", "--json"])
    answer = json.loads(capsys.readouterr().out)
    assert answer["counters"]["a"]["period_s"] == pytest.approx(0.06, rel=0.003)
    assert answer["score"] > 0.95 > answer["score_unshifted"]
    main.run(["compat", str(given_file), "--quantum-ms", "1"])
    assert "a: a period of 0.0" in capsys.readouterr().out
