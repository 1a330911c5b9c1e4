import os
from pathlib import Path

import pytest

from weft.workload.traces.reading import read, summary

pytestmark = pytest.mark.traces

# file or folder: rows, jobs out of them (None: all), format
FILES: dict[str, tuple[int, int | None, str]] = {
    "elasticflow/raw": (69_351, None, "elasticflow-raw"),
    "elasticflow/sim": (69_351, None, "elasticflow-sim"),
    "elasticflow/sim/195job.csv.gz": (195, None, "elasticflow-sim"),
    "elasticflow/traces_for_ElasticFlow/philly_103959.csv.gz": (876, None, "elasticflow-input"),
    "elasticflow/traces_for_ElasticFlow/elasticVpollux_e.csv": (195, None, "elasticflow-input"),
    "elasticflow/traces_for_ElasticFlow/resnet_cifar_trace.csv": (5, None, "elasticflow-input"),
    "philly/philly_jobs.csv.gz": (82_247, None, "philly-csv"),
    "philly/cluster_job_log.example.json": (1, None, "philly"),
    "helios/venus_gpu_jobs.csv.gz": (125_303, None, "helios-converted"),
    "helios/cluster_log.example.csv": (3, None, "helios"),
    "acme/kalos_converted_completed_jobs.csv": (319, None, "acme-converted"),
    "acme/trace_seren.example.csv": (2, None, "acme"),
    "acme/trace_kalos.example.csv": (2, None, "acme"),
    "alibaba_pai_2020/pai_tasks_sample.csv.gz": (60_105, None, "pai"),
    "alibaba_openb_2023/openb_pod_list_default.csv.gz": (8_152, 6_203, "openb"),  # 1,088 no GPU, 861 more never ran
    "alibaba_openb_2023/openb_pod_list_gpuspec33.csv.gz": (8_152, 6_203, "openb"),
    "alibaba_openb_2023/openb_pod_list_cpu0.csv.gz": (8_152 - 1_088, 6_203, "openb"),
    "alibaba_openb_2023/openb_pod_list_multigpu20.csv.gz": (8_324, 8_324 - 1_088, "openb"),
    "alibaba_openb_2023/openb_pod_list_multigpu30.csv.gz": (8_508, 8_508 - 1_088, "openb"),
    "alibaba_openb_2023/openb_pod_list_multigpu40.csv.gz": (8_746, 8_746 - 1_088, "openb"),
    "alibaba_openb_2023/openb_pod_list_multigpu50.csv.gz": (9_061, 9_061 - 1_088, "openb"),
    "alibaba_spot_2026/job_info_df.example.csv": (4, None, "spot"),
    "alibaba_dlrm_2025/disaggregated_DLRM_trace.csv.gz": (23_871, 7_386, "dlrm"),
    "chronus/trace_job_Philly_MIX1.csv.gz": (30_940, 30_756, "chronus"),
    "chronus/trace_job_Philly_MIX2.csv.gz": (30_940, 30_746, "chronus"),
    "chronus/trace_job_Philly_SLO.csv.gz": (30_940, 30_735, "chronus"),
    "gavel/msr_seed0": (15_264, None, "gavel"),
    "gavel/physical_cluster": (251, None, "gavel"),
    "muri/cluster_trace.csv": (400, None, "muri"),
    "muri/simulator/trace1.csv.gz": (1_494, None, "muri"),
    "muri/simulator/trace1_pr.csv.gz": (1_494, None, "muri"),
    "muri/simulator/trace2.csv.gz": (5_755, None, "muri"),
    "muri/simulator/trace2_pr.csv.gz": (5_755, None, "muri"),
    "muri/simulator/trace3.csv.gz": (992, None, "muri"),
    "muri/simulator/trace3_pr.csv.gz": (992, None, "muri"),
    "muri/simulator/trace4.csv.gz": (2_638, None, "muri"),
    "muri/simulator/trace4_pr.csv.gz": (2_638, None, "muri"),
    **{f"muri/simulator/job_type_{n}.csv.gz": (992, None, "muri") for n in (1, 2, 3, 4)},
    "crux/crux.csv": (2_498, 2_498 - 241, "crux"),
    "tiresias/60_job.csv": (60, None, "tiresias"),
    "tiresias/480_job.csv": (480, None, "tiresias"),
    "tiresias/tf_job.csv": (2, None, "tiresias"),
    "themis/philly_hyperdrive_workload.csv.gz": (4_697, None, "themis"),
    "themis/processed_data.csv": (488, None, "themis-processed"),
    **{f"pollux/workloads/workload-{n}.csv": (160, None, "pollux") for n in range(1, 9)},
    **{f"pollux/workloads-realistic/workload-{n}.csv": (160, None, "pollux") for n in range(1, 9)},
    **{f"sia/workloads/philly/workload-{n}.csv": (160, None, "pollux") for n in range(1, 9)},
    **{f"sia/workloads/saturn/workload-{n}.csv": (160, None, "pollux") for n in range(1, 11)},
    **{f"sia/workloads/newtrace/workload-{n}.csv": (960, None, "pollux") for n in range(1, 11)},
    **{
        f"dally/jobs/{name}.json.gz": (rows, None, "dally")
        for rows, names in {
            50: ("sense_50jobs_0start", "sense_50jobs_0start-max8"),
            100: ("sense_100jobs_0start", "sense_100jobs_0start-max8"),
            344: ("sensetime-1april", "sensetime-1april-0start"),
            363: ("sense_500jobs_0start",),
            411: tuple(
                f"sense_500jobs_poisson_{rate}"
                for rate in ("1proc-week", "1proc-week2", "1proc-week3", "3proc-day", "3proc-week")
            ),
            463: ("sense_500jobs_0start-max8",),
            500: (
                "sense_500jobs_0start-withBert", "sense_500jobs_0start0arrival-withBert", "sense_500jobs_poisson_3proc",
                *(
                    f"sense_500jobs_poisson-{rate}"
                    for rate in ("10dlJobPday", "25jobsPday", "50jobsPday", "75jobsPday", "100jobsPday",
                                 "100jobsPweek-withBert", "start-withBert")
                ),
            ),
        }.items()
        for name in names
    },
}  # fmt: skip
SHOCKWAVE = [120, 220, 460, 900, 900]


@pytest.fixture(scope="module")
def store() -> Path:
    """The folder of public traces."""
    folder = os.environ.get("WEFT_TRACES")
    if not folder:
        pytest.skip("WEFT_TRACES is not set: it names the folder of public traces")
    return Path(folder)


@pytest.mark.parametrize("name", FILES)
def test_rows_expected_rows_read(name: str, store: Path) -> None:
    rows, jobs, format = FILES[name]
    trace = read(store / name)
    assert trace.format == format
    assert trace.n_rows_in == rows
    assert trace.frame.height == (rows if jobs is None else jobs)
    assert trace.n_damaged == 0
    assert trace.n_left_out == rows - trace.frame.height


def test_shockwave(store: Path) -> None:
    traces = [read(path) for path in sorted((store / "shockwave").iterdir())]
    assert sorted(t.frame.height for t in traces) == SHOCKWAVE
    assert sorted(t.n_rows_in for t in traces) == SHOCKWAVE


def test_no_file_of_jobs_is_missing_from_the_table(store: Path) -> None:
    """Every file that the readers recognise is in the table above, alone or in its folder."""
    from weft.errors import TraceError
    from weft.workload.traces.reading import detect

    for path in sorted(p for p in store.rglob("*") if p.is_file()):
        try:
            format = detect(path)
        except TraceError:
            continue
        name = path.relative_to(store).as_posix()
        folder = path.parent.relative_to(store).as_posix()
        assert name in FILES or folder in FILES or format == "shockwave", f"{name} looks like {format}"


# Stated for these files: median, mean, p99 duration (s), GPU-hours, load (None: not stated to the second).
FIGURES: dict[str, tuple[float | None, ...]] = {
    "elasticflow/raw": (10_537, 18_722, 210_110, 1_632_720, 1_136),
    "elasticflow/raw/cluster04.csv.gz": (7_949, 19_982, 257_688, 705_683, 495),
    "philly/philly_jobs.csv.gz": (1_144, 13_136, 254_758, 978_079, 374),
    "helios/venus_gpu_jobs.csv.gz": (204, 9_088, 172_800, 2_423_407, 521),
    "acme/kalos_converted_completed_jobs.csv": (310, 15_422, 221_412, 456_843, 211),
    "alibaba_pai_2020/pai_tasks_sample.csv.gz": (618, 5_029, 66_192, 687_854, 450),
    "chronus/trace_job_Philly_MIX1.csv.gz": (3_600, None, 195_360, 371_326, 1_106),
    "muri/cluster_trace.csv": (2_224, 57_153, 306_371, 61_344, 94),
    "muri/simulator/trace2.csv.gz": (8_653, 99_986, 1_423_796, 824_082, 346),
    "crux/crux.csv": (None, None, None, 313_061, None),
    "tiresias/480_job.csv": (240, 590, 4_597, 426, 106),
    "themis/philly_hyperdrive_workload.csv.gz": (13_497, 14_843, 37_782, 19_590, 13),
    "dally/jobs/sensetime-1april.json.gz": (138, 13_855, 174_190, 7_453, 311),
    "dally/jobs/sense_500jobs_poisson-100jobsPday.json.gz": (55_975, 93_988, 488_315, 82_827, 319),
}


@pytest.mark.parametrize("name", FIGURES)
def test_published_figures(name: str, store: Path) -> None:
    """Median, mean and p99 duration, GPU-hours and load agree with what is stated, to the digits stated."""
    facts = summary(read(store / name))
    spread = facts["duration_s"]
    found = (spread["median"], spread["mean"], spread["p99"], facts["gpu_hours"], facts["load_gpus"])
    for value, stated in zip(found, FIGURES[name], strict=True):
        assert stated is None or value == pytest.approx(stated, rel=1e-5, abs=1)
