"""Periods of link counters: a known series, with jitter, and one that has none."""

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from testkit.draws import examples
from weft.cli import main
from weft.errors import InputError
from weft.model.profile import Compute, Profile, Transfer
from weft.model.units import gbps_to_bytes_per_s
from weft.network.estimates import run_alone
from weft.workload.profiles.counters import Array, Counted, CountedFile, period_of, read_counters
from weft.workload.profiles.files import save_profile


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


def write(path: Path, at_s: Array, counted: Array) -> Path:
    """The series as a file."""
    rows = (f"{t},{b}\n" for t, b in zip(at_s, counted, strict=True))
    path.write_text("time_s,bytes\n" + "".join(rows))
    return path


@settings(max_examples=examples(20), deadline=None)
@given(st.floats(0.1, 0.4), st.floats(0.1, 0.8), st.integers(2, 9))
def test_counters_are_a_model_for_any_number_of_workers(period_s: float, sends: float, workers: int) -> None:
    """Alone on a NIC of at least their rate (40 Gbit/s) a worker sends what was counted, period by period."""
    found = CountedFile("c.csv", period_of(*square(period_s, sends, 40))).profile(workers)
    alone = run_alone(found, gbps_to_bytes_per_s(50))
    assert alone.iteration_s == pytest.approx(period_s, rel=0.005)
    assert found.compute_s == pytest.approx(period_s * (1 - sends), abs=0.03 * period_s)
    assert alone.sent_bytes(0) == pytest.approx(5e9 * sends * period_s, rel=0.1)


def test_the_longest_gap_comes_first_and_an_arc_goes_round_the_end() -> None:
    """A period of 1 s: sending from 0.9 to 0.1 (at 8 and 16 Gbit/s) and from 0.4 to 0.5 s; gaps of 0.3 and 0.4 s."""
    seen = Counted(1.0, 1.0, 9.0, ((0.0, 0.1, 16.0), (0.4, 0.1, 4.0), (0.9, 0.1, 8.0)))
    first, one, second, two = CountedFile("c.csv", seen).profile(2).tasks
    assert isinstance(first, Compute)
    assert isinstance(one, Transfer)
    assert isinstance(second, Compute)
    assert isinstance(two, Transfer)
    assert (first.seconds, second.seconds) == pytest.approx((0.4, 0.3))
    assert (one.bytes, two.bytes) == pytest.approx((0.2 * 1.5e9, 0.1 * 0.5e9))  # two workers: a ring sends the message
    assert (one.demand_bytes_per_s, two.demand_bytes_per_s) == pytest.approx((1.5e9, 0.5e9))
    assert [task.seconds for task in CountedFile("c", seen).profile(1).tasks if isinstance(task, Compute)] == [
        first.seconds, second.seconds
    ]  # fmt: skip


def test_what_a_simulation_exports_is_a_model_that_behaves_alike(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Computing 14 s, then 20 GB among two at 25 Gbit/s: 6.4 s. The link is read once a second, as weft exports it."""
    tasks = (Compute("compute", 14.0), Transfer("all-reduce", 20e9, (0,), None, "ring"))
    save_profile(Profile("long", tasks, 2), tmp_path / "long.json")
    scenario = """
[cluster]
topology = "single-switch"
servers = 2
gpus_per_server = 1
nic_gbps = 25
[workload]
source = "jobs"
[[workload.job]]
id = "a"
model = "{}"
gpus = 2
iterations = 15
[run]
jitter = {}
"""
    (tmp_path / "first.toml").write_text(scenario.format("long.json", 1e-6))
    main.run(["simulate", str(tmp_path / "first.toml"), "--out", str(tmp_path / "out"), "--json"])
    series = pl.read_parquet(tmp_path / "out" / "link_series.parquet").filter(pl.col("link") == 0).sort("start_s")
    at_s, counted = [0.0], [0.0]
    for start_s, end_s, size in series.select("start_s", "end_s", "bytes").iter_rows():
        if start_s > at_s[-1]:  # spans in which nothing was sent are left out of the export
            at_s.append(start_s)
            counted.append(counted[-1])
        at_s.append(end_s)
        counted.append(counted[-1] + size)
    path = write(tmp_path / "c.csv", np.array(at_s), np.array(counted))
    capsys.readouterr()
    main.run(["models", "show", str(path), "-n", "2", "--gbps", "25", "--out", str(tmp_path / "c.json"), "--json"])
    shown = json.loads(capsys.readouterr().out)
    assert shown["iteration_s"] == pytest.approx(20.4, rel=0.01)
    assert len(shown["up_phases"]) == 1
    for model in ("c.json", "c.csv"):  # a file that --out writes, and the series itself
        (tmp_path / "second.toml").write_text(scenario.format(model, 0.0))
        main.run(["simulate", str(tmp_path / "second.toml"), "--json"])
        summary = json.loads(capsys.readouterr().out)
        assert summary["iteration_s"]["mean"] == pytest.approx(20.4, rel=0.01)
