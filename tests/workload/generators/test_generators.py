import hashlib
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from testkit.draws import examples
from weft.errors import InputError
from weft.model.job import Job
from weft.model.profile import Phase, Profile
from weft.workload.generators import JobSpec, Workload, WorkloadSpec, generate
from weft.workload.generators.drawn import MARGINALS
from weft.workload.streams import Stream

COMPUTE_S = {"vgg16": 0.25, "resnet50": 0.125, "inception-v3": 0.5, "lstm-ptb": 0.0625}


def profile_of(model: str, gpus: int) -> Profile:
    """Compute as in the table, and a transfer if there is anyone to send to."""
    if model not in COMPUTE_S:
        raise InputError(f"model {model!r} is not in the zoo")
    bytes_ = 1e8 if gpus > 1 else 0.0
    return Profile.from_phases(model, [Phase(COMPUTE_S[model]), Phase(0.0, bytes_)], gpus)


def iteration_s(model: str, gpus: int) -> float:
    """Alone on its GPUs an iteration takes twice its compute time if it communicates."""
    return COMPUTE_S[model] * (2 if gpus > 1 else 1)


def make(n_gpus: int = 64, seed: int = 1, estimate: bool = False, base_dir: Path = Path(), **table: Any) -> Workload:
    """The workload of a [workload] table."""
    known = iteration_s if estimate else None
    return generate(WorkloadSpec(**table), n_gpus, "V100", profile_of, seed, base_dir, known)


def fingerprint(jobs: list[Job]) -> str:
    """A digest of everything that was drawn."""
    text = "\n".join(f"{j.id} {j.submit_s!r} {j.gpus} {j.iterations} {j.model}" for j in jobs)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


MIX: dict[str, Any] = {"gpus": {1: 0.5, 2: 0.1, 4: 0.2, 8: 0.2}, "iterations": (200, 1000)}
PINNED = {
    "poisson": "9879cc87774754d2",
    "batch": "829588fec795df1c",
    "dynamic": "ecd124e310a1b1a4",
    "snapshot": "829588fec795df1c",
    "bursty": "27ec6aaa8941939e",
    "ada-srsf": "8ec6ae97e282c9b8",
    "log-normal": "83bdec64ef655a64",
    "acme": "8e61774bb70d043f",
}
DRAWN = ["poisson", "batch", "dynamic", "snapshot", "bursty"]


def test_the_same_jobs_on_every_machine() -> None:
    """Pinned digests: a change here changes every published result."""
    found = {source: fingerprint(make(source=source, jobs=50, seed=7, **MIX).jobs) for source in DRAWN}
    found["ada-srsf"] = fingerprint(make(source="ada-srsf", seed=7).jobs)
    found["log-normal"] = fingerprint(make(source="poisson", jobs=50, seed=7, duration_median_s=3600).jobs)
    found["acme"] = fingerprint(make(1024, source="poisson", jobs=50, seed=7, draw_from="acme-kalos").jobs)
    assert found == PINNED


@pytest.mark.parametrize("source", [*DRAWN, "ada-srsf"])
def test_seeded(source: str) -> None:
    table = {} if source == "ada-srsf" else {"jobs": 40, **MIX}
    assert make(source=source, seed=3, **table) == make(source=source, seed=3, **table)
    assert fingerprint(make(source=source, seed=3, **table).jobs) != fingerprint(
        make(source=source, seed=4, **table).jobs
    )


def test_a_purpose_has_its_own_stream() -> None:
    """Other sizes do not change which models are drawn, nor how long jobs are."""
    one = make(source="batch", jobs=30, gpus={1: 1}, iterations=(1, 99)).jobs
    two = make(source="batch", jobs=30, gpus={1: 1, 2: 5}, iterations=(1, 99)).jobs
    assert [(j.model, j.iterations) for j in one] == [(j.model, j.iterations) for j in two]


def test_ada_srsf_recipe() -> None:
    """Section V-A of the paper: 80 x 1, 14 x 2, 26 x 4, 30 x 8, 8 x 16, 2 x 32 GPUs; the rest drawn."""
    jobs = make(source="ada-srsf").jobs
    assert Counter(j.gpus for j in jobs) == {1: 80, 2: 14, 4: 26, 8: 30, 16: 8, 32: 2}
    assert all(1000 <= j.iterations <= 6000 for j in jobs)
    assert all(0 <= j.submit_s <= 1200 and j.submit_s == int(j.submit_s) for j in jobs)
    assert {j.model for j in jobs} == set(COMPUTE_S)
    assert [j.submit_s for j in jobs] == sorted(j.submit_s for j in jobs)
    assert len({j.id for j in jobs}) == 160
    order = [j.gpus for j in jobs]
    assert order != sorted(order)  # sizes do not come in blocks
    with pytest.raises(InputError, match="wants 32 GPUs, the cluster has 16"):
        make(16, source="ada-srsf")


def _load(jobs: list[Job], n_gpus: int) -> float:
    """Work over capacity, from 0 to the last arrival (n gaps in all)."""
    span = jobs[-1].submit_s
    return sum(j.gpus * j.compute_s for j in jobs) / (n_gpus * span)


@settings(max_examples=examples(25))
@given(seed=st.integers(0, 2**40), load=st.floats(0.1, 3.0), n_gpus=st.sampled_from([8, 24, 1024]))
def test_poisson_has_the_load_asked_for(seed: int, load: float, n_gpus: int) -> None:
    """gap = E[GPUs x duration] / (load x GPUs): n gaps spread by 1/sqrt(n); five times that."""
    n = 1600
    jobs = make(n_gpus, seed, source="poisson", jobs=n, load=load, **MIX).jobs
    assert _load(jobs, n_gpus) == pytest.approx(load, rel=5 / n**0.5)


def test_load_counts_the_time_alone_where_it_is_known() -> None:
    """With an estimate twice the compute time, the same arrivals come half as fast."""
    plain = make(source="poisson", jobs=50, gpus={4: 1}, iterations=(10, 20)).jobs
    slow = make(source="poisson", jobs=50, gpus={4: 1}, iterations=(10, 20), estimate=True).jobs
    assert [j.submit_s for j in slow] == pytest.approx([2 * j.submit_s for j in plain], abs=1e-3)


def test_batch_and_snapshot_come_at_zero() -> None:
    for source in ("batch", "snapshot"):
        assert {j.submit_s for j in make(source=source, jobs=30, **MIX).jobs} == {0.0}
    notes = make(4, source="snapshot", jobs=30, gpus={1: 1}, iterations=(1, 2)).notes
    assert any("30 GPUs are asked for at once, the cluster has 4" in note for note in notes)


def test_dynamic_has_a_set_present_and_a_set_arriving() -> None:
    jobs = make(source="dynamic", jobs=20, present=12, arrive_s=90, **MIX).jobs
    assert Counter(j.submit_s for j in jobs) == {0.0: 12, 90.0: 8}
    jobs = make(source="dynamic", jobs=20, arrive_s=90, gap_s=5, **MIX).jobs
    assert sum(j.submit_s == 0 for j in jobs) == 10
    late = [j.submit_s for j in jobs[10:]]
    assert late[0] == 90
    assert len(set(late)) == 10


def test_dynamic_says_who_arrives_and_how_full_the_cluster_is_by_then() -> None:
    sizes = {3: 1.0, 4: 1.0, 5: 1.0, 6: 1.0}
    mix = {"source": "dynamic", "gpus": sizes, "iterations": (5, 5), "jobs": 10}
    drawn = make(24, models=["inception-v3", "lstm-ptb"], **mix).jobs
    for seed in range(5):
        jobs = make(24, seed, models=["inception-v3", "lstm-ptb"], arriving=["vgg16", "resnet50"], load=1.0, **mix).jobs
        assert [(j.model, j.submit_s > 0) for j in jobs if j.submit_s > 0] == [("vgg16", True), ("resnet50", True)]
        assert {j.model for j in jobs[:-2]} <= {"inception-v3", "lstm-ptb"}
        assert 24 - 5 <= sum(j.gpus for j in jobs[:-2]) <= 24  # one more would not have fitted
    given = make(24, models=["inception-v3", "lstm-ptb"], arriving=["vgg16"], **mix).jobs
    assert [j.model for j in given] == [*(j.model for j in drawn[:-1]), "vgg16"]  # nothing else is drawn anew
    assert sum(j.submit_s == 0 for j in given) == 9


@settings(max_examples=examples(30))
@given(
    weights=st.dictionaries(st.integers(1, 64), st.floats(0, 10), min_size=1).filter(lambda w: sum(w.values()) > 0.1)
)
def test_sizes_come_from_the_table(weights: dict[int, float]) -> None:
    jobs = make(source="batch", jobs=200, gpus=weights, iterations=(5, 5)).jobs
    assert {j.gpus for j in jobs} <= {g for g, w in weights.items() if w > 0}
    assert {j.iterations for j in jobs} == {5}


def test_shares_follow_the_weights() -> None:
    jobs = make(source="batch", jobs=4000, models={"vgg16": 3, "resnet50": 1}, **MIX).jobs
    sizes = Counter(j.gpus for j in jobs)
    for gpus, share in MIX["gpus"].items():
        assert sizes[gpus] / 4000 == pytest.approx(share, abs=0.03)
    assert Counter(j.model for j in jobs)["vgg16"] / 4000 == pytest.approx(0.75, abs=0.03)
    lengths = [j.iterations for j in jobs]
    assert min(lengths) == 200
    assert max(lengths) == 1000


def test_log_normal_durations() -> None:
    """Median m and, s being the deviation of the logarithm, an 84th percentile of m e^s."""
    jobs = make(source="batch", jobs=4001, duration_median_s=3600, duration_sigma=0.5, gpus={2: 1}).jobs
    seconds = sorted(j.compute_s for j in jobs)
    assert seconds[2000] == pytest.approx(3600, rel=0.05)
    assert seconds[int(0.8413 * 4001)] == pytest.approx(3600 * 2.71828**0.5, rel=0.05)


def test_what_a_duration_means_is_chosen_and_said() -> None:
    job = {"model": "vgg16", "gpus": 4, "duration_s": 1000.0}
    alone = make(source="jobs", job=[job], estimate=True)
    assert alone.jobs[0].iterations == 2000  # 0.5 s alone with its network
    assert any("reading 'alone'" in note for note in alone.notes)
    compute = make(source="jobs", job=[job], estimate=True, reading="compute")
    assert compute.jobs[0].iterations == 4000  # 0.25 s of computing; communication comes on top
    assert any("reading 'compute'" in note and "V100" in note for note in compute.notes)
    one = make(source="jobs", job=[job], estimate=True, reading="one-gpu")  # 250 s of computing on each of 4
    assert one.jobs[0].iterations == 1000
    assert make(source="jobs", job=[job]).jobs == compute.jobs  # nothing is known of the network
    with pytest.raises(InputError, match="'alone' needs the time of an iteration with its network"):
        make(source="jobs", job=[job], reading="alone")


def test_listed_jobs() -> None:
    jobs = make(
        source="jobs",
        job=[
            {"id": "late", "model": "vgg16", "gpus": 2, "iterations": 10, "submit_s": 5, "user": "ann", "vc": "x"},
            {"model": "resnet50", "iterations": 7, "elastic": [1, 4]},
        ],
    ).jobs
    assert [(j.id, j.submit_s, j.gpus, j.iterations) for j in jobs] == [("j1", 0.0, 1, 7), ("late", 5.0, 2, 10)]
    assert (jobs[1].user, jobs[1].vc) == ("ann", "x")
    assert jobs[0].sizes == (1, 2, 3, 4)
    assert all(jobs[0].profiles[n].workers == n for n in jobs[0].sizes)
    assert jobs[1].sizes == (2,)
    twice = [{"id": "a", "model": "vgg16", "iterations": 1}] * 2
    with pytest.raises(InputError, match="two jobs are called 'a'"):
        make(source="jobs", job=twice)


def test_elastic_sizes_stay_in_the_cluster() -> None:
    jobs = make(8, source="batch", jobs=20, gpus={1: 1, 4: 1}, iterations=(1, 2), elastic=(2, 12)).jobs
    assert {j.sizes for j in jobs} == {tuple(range(1, 9)), tuple(range(2, 9))}
    assert all(j.gpus in j.profiles for j in jobs)


@pytest.mark.parametrize("name", MARGINALS)
def test_published_marginals_are_met(name: str) -> None:
    """The fitted distribution has the published median and mean duration, mean size and mean GPU time.

    mean of g^p exp(s z): base E[g^(c+p)] exp(s^2 / 2); the median is where the mixture's distribution function is 1/2.
    """
    from math import exp, log
    from statistics import NormalDist

    m = MARGINALS[name]
    sizes = m.sizes
    assert sum(sizes.values()) == pytest.approx(1)
    assert sum(g * w for g, w in sizes.items()) == pytest.approx(m.mean_gpus, rel=1e-3)

    def mean(power: float) -> float:
        return m.base_s * exp(m.sigma**2 / 2) * sum(w * g ** (m.exponent + power) for g, w in sizes.items())

    assert mean(0) == pytest.approx(m.mean_s, rel=1e-3)
    assert mean(1) == pytest.approx(m.mean_gpu_s, rel=1e-3)
    below = sum(
        w * NormalDist().cdf((log(m.median_s) - log(m.base_s) - m.exponent * log(g)) / m.sigma)
        for g, w in sizes.items()
    )
    assert below == pytest.approx(0.5, abs=1e-3)


def test_marginals_are_labelled_and_sized() -> None:
    work = make(2048, source="poisson", jobs=300, draw_from="acme-kalos")
    assert any(note.startswith("synthetic: drawn from the published figures of Acme Kalos") for note in work.notes)
    with pytest.raises(InputError, match="want up to 1024 GPUs, the cluster has 64"):
        make(64, source="poisson", jobs=300, draw_from="acme-kalos")
    left = make(64, source="poisson", jobs=300, draw_from="acme-kalos", oversize="leave-out")
    assert len(left.jobs) == 300
    assert max(j.gpus for j in left.jobs) == 64
    capped = make(48, source="poisson", jobs=300, draw_from="acme-kalos", oversize="cap")
    assert max(j.gpus for j in capped.jobs) == 48
    assert any("get 48" in note for note in capped.notes)


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ({"source": "poison"}, "Input should be 'poisson'"),
        ({"source": "poisson", "iterations": (1, 2)}, "jobs is missing"),
        ({"jobs": 5}, "job length is missing"),
        ({"jobs": True, "iterations": (1, 2)}, "jobs is true; give a number, not true or false"),
        ({"jobs": 0, "iterations": (1, 2)}, "greater than or equal to 1"),
        ({"jobs": 5, "iterations": (2, 1)}, "must be .low, high."),
        ({"jobs": 5, "iterations": (0, 1)}, "1 <= low"),
        ({"jobs": 5, "iterations": (1, 2), "load": 0}, "greater than 0"),
        ({"jobs": 5, "iterations": (1, 2), "load": float("nan")}, "finite"),
        ({"jobs": 5, "iterations": (1, 2), "gpus": {0: 1}}, "cannot have 0 GPUs"),
        ({"jobs": 5, "iterations": (1, 2), "gpus": {1: -1}}, "greater than or equal to 0"),
        ({"jobs": 5, "iterations": (1, 2), "gpus": {1: 0}}, "weight above 0"),
        ({"jobs": 5, "iterations": (1, 2), "models": []}, "at least one model"),
        ({"jobs": 5, "iterations": (1, 2), "duration_median_s": 5}, "exclude each other"),
        ({"jobs": 5, "iterations": (1, 2), "present": 6, "source": "dynamic"}, "more than the 5 jobs"),
        ({"jobs": 1, "iterations": (1, 2), "arriving": ["a", "b"], "source": "dynamic"}, "more than the 1 jobs"),
        ({"jobs": 5, "iterations": (1, 2), "arriving": ["a"], "source": "batch"}, "dynamic"),
        ({"jobs": 5, "iterations": (1, 2), "burst_share": 1}, "less than 1"),
        ({"source": "trace"}, "trace is missing"),
        ({"source": "jobs"}, "job is missing"),
        ({"source": "jobs", "job": [{"model": "vgg16"}]}, "either iterations or duration_s"),
        ({"source": "jobs", "job": [{"model": "vgg16", "iterations": 1, "gpsu": 1}]}, "Extra inputs"),
        ({"source": "ada-srsf", "jobs": 80}, "160 jobs"),
        ({"source": "trace", "trace": "x", "from_s": 5, "until_s": 5}, "from_s must be before until_s"),
        ({"jobs": 5, "iterations": (1, 2), "laod": 1}, "Extra inputs are not permitted"),
    ],
)  # fmt: skip
def test_bad_tables_are_refused(table: dict[str, Any], words: str) -> None:
    with pytest.raises(ValidationError, match=words):
        WorkloadSpec(**table)


def test_jobs_larger_than_the_cluster_are_refused() -> None:
    for source in DRAWN:
        with pytest.raises(InputError, match="a job wants 8 GPUs, the cluster has 4; drop that size"):
            make(4, source=source, jobs=50, **MIX)


def test_every_field_is_described() -> None:
    for model in (WorkloadSpec, JobSpec):
        assert all(field.description for field in model.model_fields.values())


@given(seed=st.integers(0, 2**64), low=st.integers(-100, 100), width=st.integers(0, 1000))
def test_streams(seed: int, low: int, width: int) -> None:
    numbers = Stream(seed, "a").uniform(50)
    assert ((numbers >= 0) & (numbers < 1)).all()
    assert (Stream(seed, "a").uniform(50) == numbers).all()
    assert (Stream(seed, "b").uniform(50) != numbers).any()
    assert all(low <= i <= low + width for i in Stream(seed, "a").integers(50, low, low + width))
    assert sorted(Stream(seed, "a").shuffled(range(20))) == list(range(20))


def test_short_jobs_get_more_iterations_and_models_make_applications() -> None:
    """VGG16 on two GPUs takes 0.5 s alone, LSTM-PTB 0.125: 200 iterations are 100 and 25 s, 50 s are 400 of these."""
    table: dict[str, Any] = {"source": "batch", "jobs": 20, "models": ["vgg16", "lstm-ptb"], "gpus": {2: 1},
                             "iterations": [200, 200]}  # fmt: skip
    jobs = make(estimate=True, shortest_s=50.0, apps=True, **table).jobs
    assert {(job.model, job.iterations, job.app) for job in jobs} == {
        ("vgg16", 200, "vgg16"), ("lstm-ptb", 400, "lstm-ptb"),
    }  # fmt: skip
    assert {job.app for job in make(estimate=True, **table).jobs} == {""}


def test_a_model_may_have_a_size_of_its_own() -> None:
    """`workers` in a model's name comes before the sizes that are drawn, and changes nothing else that is drawn."""
    mine, plain = "vgg16[workers=2]", "resnet50"
    asked: list[tuple[str, int]] = []

    def known(model: str, gpus: int) -> Profile:
        asked.append((model, gpus))
        return profile_of(model.partition("[")[0], gpus)

    spec = WorkloadSpec(source="batch", jobs=40, models=[mine, plain], gpus={4: 1, 8: 1}, iterations=(5, 9))
    jobs = generate(spec, 64, "V100", known, 1, Path()).jobs
    others = make(source="batch", jobs=40, models=["vgg16", plain], gpus={4: 1, 8: 1}, iterations=(5, 9)).jobs
    assert {job.gpus for job in jobs if job.model == mine} == {2}
    assert {job.gpus for job in jobs if job.model == plain} == {4, 8}
    same = [(job.model.partition("[")[0], job.iterations) for job in jobs]
    assert same == [(job.model, job.iterations) for job in others]
