import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from testkit.draws import examples
from weft.errors import InputError, TraceError
from weft.model.profile import Compute, Profile, Transfer
from weft.network.analytical import Analytical
from weft.network.hierarchy import MODERN, Dimension, Hierarchy
from weft_evidence.allreduce_fit import Sample, fit_allreduce, read_allreduce
from weft_evidence.calibration import calibrated, scaled

FOUR = Profile(
    "four",
    (
        Compute("c0", 0.025), Transfer("t0", 60e6, (0,)), Compute("c1", 0.025, (0,)), Transfer("t1", 10e6, (2,)),
        Compute("c2", 0.025, (2,)), Transfer("t2", 10e6, (4,)), Compute("c3", 0.025, (4,)), Transfer("t3", 10e6, (6,)),
    ),
    2,
)  # fmt: skip


def flat_network(dimension: Dimension) -> Hierarchy:
    return Hierarchy(dimension, dimension, dimension)


@given(st.floats(1e-6, 10.0), st.sampled_from([((2,),), ((1, 1),)]))
def test_calibration_is_within_one_percent(measured_s: float, shape: tuple[tuple[int, ...], ...]) -> None:
    flat = flat_network(Dimension("switch", 1e9, 1e-9))
    scale = calibrated(FOUR, flat, shape, measured_s)
    assert Analytical(flat, {"m": scale}).exposed_s(FOUR, "m", shape) == pytest.approx(measured_s, rel=0.01)
    assert Analytical(flat).exposed_s(scaled(FOUR, scale), "m", shape) == pytest.approx(measured_s, rel=0.01)


def test_calibration_that_cannot_be() -> None:
    slow = flat_network(Dimension("switch", 1e9, 1.0))
    with pytest.raises(InputError, match="latencies alone"):
        calibrated(FOUR, slow, ((2,),), 0.1)
    silent = Profile("silent", (Compute("c", 1.0),), 2)
    with pytest.raises(InputError, match="it sends nothing"):
        calibrated(silent, MODERN, ((2,),), 0.1)


A, B, ETA = 6.69e-4, 8.53e-10, 2.35e-10  # the paper's 10 GbE fit


def _samples(a: float, b: float, eta: float, noise: float = 0.0, seed: int = 0) -> list[Sample]:
    rng = np.random.default_rng(seed)
    sizes = [10e6 * i for i in (1, 2, 4, 8, 16)]
    return [
        Sample(k, m, (a + (k * b + (k - 1) * eta) * m) * (1 + noise * float(rng.standard_normal())))
        for k in range(1, 9)
        for m in sizes
    ]


@settings(max_examples=examples(50), deadline=None)
@given(st.floats(0, 0.1), st.floats(1e-11, 1e-7), st.floats(0, 1e-7), st.booleans())
def test_exact_timings_give_the_constants_back(a: float, b: float, eta: float, weighted: bool) -> None:
    fit = fit_allreduce(_samples(a, b, eta), weighted=weighted)
    scale = max(b, eta)
    assert fit.b_s_per_byte == pytest.approx(b, abs=1e-6 * scale)
    assert fit.eta_s_per_byte == pytest.approx(eta, abs=1e-6 * scale)
    assert fit.a_s == pytest.approx(a, abs=1e-6 * scale * 1e9)
    assert fit.max_relative_error < 1e-5


def test_noisy_timings_give_intervals_that_cover_the_constants() -> None:
    """Of 40 data sets with 3 % noise about 95 % of the intervals hold the true b and eta (at least 32 must)."""
    held = {"b_s_per_byte": 0, "eta_s_per_byte": 0}
    for seed in range(40):
        fit = fit_allreduce(_samples(A, B, ETA, noise=0.03, seed=seed))
        for name, true in (("b_s_per_byte", B), ("eta_s_per_byte", ETA)):
            interval = fit.ci95[name]
            assert interval is not None
            held[name] += interval[0] <= true <= interval[1]
        assert fit.r2 > 0.99
    assert min(held.values()) >= 32


def test_the_papers_threshold_follows() -> None:
    """2 (b + eta) / b = 2.549 for b = 0.856 and eta = 0.235 ms/MB."""
    fit = fit_allreduce(_samples(0.0, 8.56e-10, 2.35e-10))
    assert fit.threshold == pytest.approx(2.549, abs=1e-3)
    assert fit.predict_s(2, 1e6) == pytest.approx((2 * 8.56e-10 + 2.35e-10) * 1e6)


def test_one_number_of_jobs_cannot_tell_b_from_eta() -> None:
    fit = fit_allreduce([s for s in _samples(A, B, ETA) if s.k == 1])
    assert fit.eta_s_per_byte is None
    assert fit.threshold is None
    assert fit.b_s_per_byte == pytest.approx(B)


def test_max_k_leaves_rows_out() -> None:
    assert {s.k for s in fit_allreduce(_samples(A, B, ETA), max_k=2).samples} == {1, 2}


def test_too_few_timings_are_refused() -> None:
    with pytest.raises(InputError, match="cannot fix"):
        fit_allreduce([Sample(1, 1e6, 0.1)])
    with pytest.raises(InputError, match="one message size"):
        fit_allreduce([Sample(k, 1e6, 0.1 * k) for k in (1, 2, 3, 4)])


def _csv(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "results.csv"
    path.write_text(text)
    return path


def test_microseconds_become_seconds(tmp_path: Path) -> None:
    path = _csv(tmp_path, "job_num,msg_size,avg_latency\n1,1000,250.5\n2,1000,400\n")
    first, second = read_allreduce(path)
    assert (first.k, first.bytes, first.seconds) == pytest.approx((1, 1000.0, 250.5e-6))
    assert (second.k, second.bytes, second.seconds) == pytest.approx((2, 1000.0, 400e-6))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("job_num,msg_size\n1,2\n", "no column avg_latency"),
        ("", "no column job_num"),
        ("job_num,msg_size,avg_latency\n1,2,x\n", "line 2: avg_latency is 'x'"),
        ("job_num,msg_size,avg_latency\n1,2\n", "line 2: avg_latency"),
        ("job_num,msg_size,avg_latency\n1.5,2,3\n", "whole number"),
        ("job_num,msg_size,avg_latency\n0,2,3\n", "line 2: job_num"),
    ],
)
def test_damaged_timings_are_reported_with_their_line(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(TraceError, match=words):
        read_allreduce(_csv(tmp_path, text))


@settings(max_examples=examples(60), deadline=None)
@given(st.text(max_size=80))
def test_fuzzed_timings_end_in_samples_or_one_line(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    path = tmp_path_factory.getbasetemp() / "fuzz.csv"
    path.write_text("job_num,msg_size,avg_latency\n" + text, encoding="utf-8")
    message = ""
    try:
        fit_allreduce(read_allreduce(path))
    except InputError as error:
        message = str(error)
    assert "\n" not in message


@pytest.mark.traces
@pytest.mark.parametrize("name", ["results", "results_avg", "results_avg_avg", "results_max_avg", "alpha-beta"])
def test_published_timings_are_described(name: str) -> None:
    """One job and 100 MiB took 1.06 s, so b must be near 1e-8 s per byte, whichever way repetitions were combined."""
    folder = os.environ.get("WEFT_TRACES")
    if not folder:
        pytest.skip("WEFT_TRACES is not set: it names the folder of public traces")
    samples = read_allreduce(Path(folder) / "dl_scheduling" / f"{name}.csv")
    fit = fit_allreduce(samples)
    assert len(samples) == (10 if name == "alpha-beta" else 48)
    assert fit.b_s_per_byte == pytest.approx(9.3e-9, rel=0.06)
    assert fit.predict_s(1, 104857600) == pytest.approx(1.06, rel=0.12)
    assert (fit.eta_s_per_byte is None) == (name == "alpha-beta")
