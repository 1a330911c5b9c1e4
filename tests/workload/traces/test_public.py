import os
from pathlib import Path

import pytest

from weft.workload.traces.reading import read, summary

pytestmark = pytest.mark.traces

# Files and folders with (rows, jobs, format), and with what their publishers state.
FILES: dict[str, tuple[int, int, str]] = {}
FIGURES: dict[str, list[float | None]] = {}
for line in Path(__file__).with_name("public.tsv").read_text().splitlines()[2:]:
    name, rows, jobs, format, *stated = line.split("\t")
    if rows:
        FILES[name] = (int(rows), int(jobs), format)
    if stated:
        FIGURES[name] = [float(value) if value else None for value in stated]
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
    assert trace.frame.height == jobs
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


@pytest.mark.parametrize("name", FIGURES)
def test_published_figures(name: str, store: Path) -> None:
    """Median, mean and p99 duration, GPU-hours and load agree with what is stated, to the digits stated."""
    facts = summary(read(store / name))
    spread = facts["duration_s"]
    found = (spread["median"], spread["mean"], spread["p99"], facts["gpu_hours"], facts["load_gpus"])
    for value, stated in zip(found, FIGURES[name], strict=True):
        assert stated is None or value == pytest.approx(stated, rel=1e-5, abs=1)
