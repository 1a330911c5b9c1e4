from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import weft
from weft.errors import InputError, TraceError
from weft.model.profile import Phase, Profile
from weft.scenario.build import build
from weft.workload.generators import Workload, WorkloadSpec, generate, replayed
from weft.workload.generators.replayed import zoo_name

KNOWN = {"vgg16": 0.25, "resnet50": 0.125, "bert-large": 0.5, "inception-v3": 0.5}


def profile_of(model: str, gpus: int) -> Profile:
    if model not in KNOWN:
        raise InputError(f"model {model!r} is not in the zoo")
    return Profile.from_phases(model, [Phase(KNOWN[model]), Phase(0.0, 1e8)], gpus)


def make(folder: Path, n_gpus: int = 64, seed: int = 1, alone: bool = False, **table: Any) -> Workload:
    estimate = (lambda model, gpus: 2 * KNOWN[model]) if alone else None
    spec = WorkloadSpec(**{"source": "trace", "models": ["vgg16", "resnet50"], **table})
    return generate(spec, n_gpus, "V100", profile_of, seed, folder, estimate)


@pytest.fixture
def jobs_csv(tmp_path: Path) -> Path:
    (tmp_path / "jobs.csv").write_text(
        "job_id,submit_s,gpus,duration_s,iterations,model,vc\n"
        "c,130,8,50,9,ResNet-50,x\na,100,1,25,,,x\nb,110,4,100,,resnet101,y\nd,140,0,1,,,x\ne,oops,1,1,,,x\n"
    )
    return tmp_path


def test_real_arrivals_from_the_first(jobs_csv: Path) -> None:
    work = make(jobs_csv, trace="jobs.csv", trace_models=False, models=["vgg16"])
    assert [(j.id, j.submit_s, j.gpus, j.iterations, j.vc) for j in work.jobs] == [
        ("a", 0.0, 1, 100, "x"), ("b", 10.0, 4, 400, "y"), ("c", 30.0, 8, 200, "x"),
    ]  # fmt: skip
    assert "trace jobs.csv (plain): 3 jobs of 5 rows (1 damaged, 1 left out)" in work.notes


def test_a_trace_is_read_once_and_again_when_its_file_changes(jobs_csv: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read, asked = replayed.read, []
    monkeypatch.setattr(replayed, "read", lambda path, *a, **k: (asked.append(path), read(path, *a, **k))[1])
    first, again = (make(jobs_csv, trace="jobs.csv", models=["vgg16"], seed=seed) for seed in (1, 1))
    assert (first.jobs, first.notes) == (again.jobs, again.notes)
    assert len(asked) == 1
    with (jobs_csv / "jobs.csv").open("a") as file:
        file.write("f,150,2,25,,,x\n")
    assert [job.id for job in make(jobs_csv, trace="jobs.csv", models=["vgg16"]).jobs] == ["a", "b", "c", "f"]
    assert len(asked) == 2


def test_a_large_trace_is_not_remembered(jobs_csv: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replayed, "_MOST_ROWS", 2)
    make(jobs_csv, trace="jobs.csv", models=["vgg16"])
    assert replayed._sorted_rows.cache_info().currsize == 0


def test_models_named_standing_in_or_drawn(jobs_csv: Path) -> None:
    work = make(jobs_csv, trace="jobs.csv", models=["vgg16"])
    assert [j.model for j in work.jobs] == ["vgg16", "resnet50", "resnet50"]
    assert "model resnet50 stands in for resnet101" in work.notes
    assert "models: 1 drawn by seed, 2 named by the trace" in work.notes
    drawn = [make(jobs_csv, trace="jobs.csv", trace_models=False, seed=s).jobs for s in range(20)]
    assert len({tuple(j.model for j in jobs) for jobs in drawn}) > 3


def test_a_named_model_takes_the_options_of_the_scenario(jobs_csv: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The trace says ResNet-50; the scenario says how ResNet-50 is trained."""
    monkeypatch.setitem(KNOWN, "resnet-50[batch=8]", 0.125)
    work = make(jobs_csv, trace="jobs.csv", models={"resnet-50[batch=8]": 0.0, "vgg16": 1.0})
    assert [j.model for j in work.jobs] == ["vgg16", "resnet-50[batch=8]", "resnet-50[batch=8]"]


def test_a_model_the_zoo_lacks_is_drawn(tmp_path: Path) -> None:
    (tmp_path / "w.csv").write_text("name,time,application,num_replicas,batch_size\na,0,yolov3,2,8\nb,1,gpt2,2,8\n")
    work = make(tmp_path, trace="w.csv", models=["vgg16"], iterations=(7, 7))
    assert [(j.model, j.iterations, j.batch) for j in work.jobs] == [("vgg16", 7, 8)] * 2
    assert "models: 2 not in the zoo, drawn by seed" in work.notes
    with pytest.raises(InputError, match=r"job a \(line 2\) has neither duration nor iterations; set iterations"):
        make(tmp_path, trace="w.csv")


def test_both_readings(jobs_csv: Path) -> None:
    """100 s on 4 GPUs: 400 iterations of 0.25 s computing, or 200 of 0.5 s alone with the network."""
    table: dict[str, Any] = {"trace": "jobs.csv", "trace_models": False, "models": ["vgg16"]}
    compute, alone = (make(jobs_csv, alone=True, reading=r, **table) for r in ("compute", "alone"))
    assert [j.iterations for j in compute.jobs] == [100, 400, 200]
    assert [j.iterations for j in alone.jobs] == [50, 200, 100]
    assert any("compute only; communication comes on top" in note for note in compute.notes)
    assert any("time alone on its GPUs, communication included" in note for note in alone.notes)


def test_iterations_of_the_trace_if_asked(jobs_csv: Path) -> None:
    work = make(jobs_csv, trace="jobs.csv", length="iterations")
    assert work.jobs[-1].iterations == 9
    assert "1 jobs have the trace's own number of iterations" in work.notes


def test_choosing_jobs(jobs_csv: Path) -> None:
    assert [j.id for j in make(jobs_csv, trace="jobs.csv", jobs=2).jobs] == ["a", "b"]
    assert [j.id for j in make(jobs_csv, trace="jobs.csv", vc=["x"]).jobs] == ["a", "c"]
    assert [j.id for j in make(jobs_csv, trace="jobs.csv", from_s=105, until_s=130).jobs] == ["b"]
    picks = [
        tuple(j.id for j in make(jobs_csv, trace="jobs.csv", jobs=2, pick="random", seed=s).jobs) for s in range(9)
    ]
    assert len(set(picks)) > 1
    assert all(p == tuple(sorted(p)) for p in picks)  # submission order is kept
    with pytest.raises(TraceError, match="no job that can be used"):
        make(jobs_csv, trace="jobs.csv", vc=["z"])


def test_stretching_to_a_load(jobs_csv: Path) -> None:
    """25 + 400 + 400 GPU-seconds in 30 s on 10 GPUs are a load of 2.75; at half of it times double."""
    work = make(jobs_csv, 10, trace="jobs.csv", trace_models=False, load=2.75 / 2, models=["vgg16"])
    assert [j.submit_s for j in work.jobs] == [0, 20, 60]
    assert any("multiplied by 2" in note for note in work.notes)


def test_jobs_too_large(jobs_csv: Path) -> None:
    with pytest.raises(InputError, match=r"1 jobs of jobs.csv want up to 8 GPUs, the cluster has 4; set oversize"):
        make(jobs_csv, 4, trace="jobs.csv")
    left = make(jobs_csv, 4, trace="jobs.csv", oversize="leave-out")
    assert [j.gpus for j in left.jobs] == [1, 4]
    assert "trace jobs.csv: 1 jobs want more than 4 GPUs and are left out" in left.notes
    assert [j.gpus for j in make(jobs_csv, 4, trace="jobs.csv", oversize="cap").jobs] == [1, 4, 4]


def test_damaged_rows_are_fatal_if_asked(jobs_csv: Path) -> None:
    with pytest.raises(TraceError, match=r"jobs.csv:6: submit_s: 'oops' is not a number"):
        make(jobs_csv, trace="jobs.csv", damaged_rows="fail")


def test_drawing_from_a_trace_keeps_size_and_length_together(jobs_csv: Path) -> None:
    table: dict[str, Any] = {"source": "poisson", "jobs": 300, "draw_from": "jobs.csv", "trace_models": False}
    work = make(jobs_csv, models=["vgg16"], **table)
    assert Counter((j.gpus, j.iterations) for j in work.jobs).keys() == {(1, 100), (4, 400), (8, 200)}
    assert len({j.submit_s for j in work.jobs}) == 300
    assert len({j.id for j in work.jobs}) == 300
    sized = make(jobs_csv, models=["vgg16"], gpus={2: 1}, **table)
    assert {(j.gpus, j.iterations) for j in sized.jobs} == {(2, 100), (2, 400), (2, 200)}
    lengths = make(jobs_csv, models=["vgg16"], iterations=(5, 6), **table)
    assert {j.iterations for j in lengths.jobs} == {5, 6}
    assert {j.gpus for j in lengths.jobs} == {1, 4, 8}


def test_ids_that_repeat_are_told_apart(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("job_id,submit_s,gpus,duration_s\nr,0,1,5\nr,1,1,5\nr#1,2,1,5\n")
    ids = [j.id for j in make(tmp_path, trace="t.csv").jobs]
    assert len(set(ids)) == 3
    assert ids[2] == "r#1"


def test_where_traces_are_found(jobs_csv: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: Any) -> None:
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    monkeypatch.delenv("WEFT_TRACES", raising=False)
    with pytest.raises(TraceError, match=r"jobs\.csv is not in .*WEFT_TRACES is not set"):
        make(elsewhere, trace="jobs.csv")
    monkeypatch.setenv("WEFT_TRACES", str(jobs_csv))
    assert len(make(elsewhere, trace="jobs.csv").jobs) == 3
    assert len(make(elsewhere, trace=str(jobs_csv / "jobs.csv")).jobs) == 3


@pytest.mark.parametrize(
    ("name", "format", "expected"),
    [
        ("ResNet-50", "gavel", ("resnet50", True)),
        ("inception_v3", "chronus", ("inception-v3", True)),
        ("inception3", "tiresias", ("inception-v3", True)),
        ("BERT", "dally", ("bert-large", True)),
        ("bert", "muri", ("bert-base", True)),
        ("VGG", "dally", ("vgg11", True)),
        ("imagenet", "pollux", ("resnet50", True)),
        ("LM", "gavel", ("lstm-ptb", False)),
        ("A3C", "gavel", (None, False)),
    ],
)  # fmt: skip
def test_names_of_models(name: str, format: str, expected: tuple[str | None, bool]) -> None:
    assert zoo_name(name, format) == expected


SHAPES = "job,submit_s,gpus,shape,duration_s\na,0,8,4+4,600\nb,0,2,1+1,600\nc,0,3,2+1,600\nd,0,4,4,600\n"


def shaped(folder: Path, text: str = SHAPES, servers: int = 4, **workload: object) -> weft.Scenario:
    """A scenario with jobs whose placements were recorded."""
    (folder / "philly.csv").write_text(text)
    spec = {"source": "trace", "trace": str(folder / "philly.csv"), "models": ["resnet50"], "trace_shapes": True}
    cluster = {"topology": "single-switch", "servers": servers, "gpus_per_server": 8}
    return weft.Scenario.load({"cluster": cluster, "workload": {**spec, **workload}})


def test_jobs_keep_recorded_shapes(tmp_path: Path) -> None:
    """Equal parts become workers per server, which the stack then gives; unequal ones are left to it, and noted."""
    run = weft.simulate(shaped(tmp_path), stack="fifo")
    jobs = {job.id: job.per_server for job in build(shaped(tmp_path)).workload.jobs}
    assert jobs == {"a": 4, "b": 1, "c": 0, "d": 4}
    assert {job.per_server for job in build(shaped(tmp_path, trace_shapes=False)).workload.jobs} == {0}
    found = {span["job_id"]: span["gpus"] for span in run.spans.iter_rows(named=True)}
    spread = {name: sorted(Counter(int(gpu) // 8 for gpu in gpus).values()) for name, gpus in found.items()}
    assert (spread["a"], spread["b"], spread["d"]) == ([4, 4], [1, 1], [4])


def test_shapes_that_cannot_be_had(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="2 servers"):
        _ = build(shaped(tmp_path, servers=1)).workload
    left = build(shaped(tmp_path, servers=1, oversize="leave-out")).workload
    assert [job.id for job in left.jobs] == ["c", "d"]  # a and b want two servers, c may go anywhere
    assert sum("2 jobs have a shape that does not fit and are left out" in note for note in left.notes) == 1
    free = build(shaped(tmp_path, servers=1, oversize="leave-out", trace_shapes=False)).workload
    assert len(free.jobs) == 4
    with pytest.raises(InputError, match="trace_shapes"):
        _ = build(shaped(tmp_path, "job_id,submit_s,gpus,duration_s\na,0,2,600\n")).workload
