from dataclasses import replace

import polars as pl
import pytest

from weft.results.run import DECISIONS, ITERATIONS, JOBS, LINK_SERIES, LINKS, SEGMENTS, SPANS, RunResult


def test_notebooks_show_the_summary(run: RunResult, stuck_run: RunResult) -> None:
    html = run._repr_html_()
    assert "<b>fifo</b> on leaf-spine, seed 1" in html
    assert "60 of 60" in html
    assert "0 of 3" in stuck_run._repr_html_()
    assert "<b>&lt;x&gt;</b>" in replace(run, stack="<x>")._repr_html_()


@pytest.mark.parametrize("name", ["run", "big_run", "single_run", "stuck_run", "empty_run"])
def test_fixtures_follow_the_schemas_and_conserve(name: str, request: pytest.FixtureRequest) -> None:
    run: RunResult = request.getfixturevalue(name)
    frames = (run.jobs, run.iterations, run.links, run.decisions, run.spans, run.segments, run.link_series)
    schemas = (JOBS, ITERATIONS, LINKS, DECISIONS, SPANS, SEGMENTS, LINK_SERIES)
    for frame, schema in zip(frames, schemas, strict=True):
        assert dict(frame.schema) == schema
    done = run.jobs.filter(pl.col("status") == "finished")
    for jct, queueing, ran in done.select("jct_s", "queueing_s", "run_s").iter_rows():
        assert jct == pytest.approx(queueing + ran)
    assert run.links.filter(pl.col("utilisation") > 1 + 1e-9).is_empty()
