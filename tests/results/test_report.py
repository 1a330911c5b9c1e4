import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import polars as pl
import pytest

from weft.errors import InputError
from weft.results.compare import compare
from weft.results.metrics import summary
from weft.results.report import render_report, write_report
from weft.results.run import RunResult

VOID = {"meta", "br", "link", "img", "input", "hr"}


class Balanced(HTMLParser):
    """Every tag closed in order; all text, ids and addresses collected."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.text: list[str] = []
        self.ids: list[str] = []
        self.addresses: list[str] = []
        self.tags: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.ids += [value or "" for name, value in attrs if name == "id"]
        self.addresses += [value or "" for name, value in attrs if name in ("href", "src", "xlink:href")]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def parsed(html: str) -> Balanced:
    page = Balanced()
    page.feed(html)
    page.close()
    assert page.open == []
    assert len(set(page.ids)) == len(page.ids)
    assert "script" not in page.tags
    assert all(a.startswith(("#", "data:image/png;base64,")) for a in page.addresses)
    assert not re.search(r"https?://|@import|url\((?!#)", html)
    return page


def test_one_run_is_all_there(run: RunResult) -> None:
    html = render_report(run)
    words = " ".join(parsed(html).text)
    for part in (
        "fifo",
        "leaf-spine",
        "mean JCT",
        "Slowest jobs",
        "Decision log",
        "Scenario file",
        run.command,
        "0.1.0",
    ):
        assert part in words
    assert run.notes[0] in words
    assert html.count("<svg ") == 5
    slowest = run.jobs.sort("jct_s", descending=True)["job_id"][0]
    assert f"The slowest job, {slowest}" in words
    for action in ("start", "stop", "hold"):
        reason = run.decisions.filter(pl.col("action") == action)["reason"][0]
        assert reason in words
    assert html == render_report(run)


def test_several_stacks_get_table_ratios_and_a_picture_each(paired_runs: list[RunResult]) -> None:
    page = render_report(paired_runs, title="Two stacks")
    words = " ".join(parsed(page).text)
    assert "Two stacks" in words
    assert "Cluster timeline: fifo" in words
    assert "Cluster timeline: srsf" in words
    assert "Ratio to fifo" in words
    assert "3 seeds" in words
    ratio = compare({s: [summary(r) for r in paired_runs if r.stack == s] for s in ("fifo", "srsf")})["stacks"][1]
    assert f"{ratio['ratio_to_first']['jct_mean_s']['mean']:.2f}" in words


def test_a_comparison_may_cover_more_seeds_than_the_runs_shown(paired_runs: list[RunResult]) -> None:
    comparison = compare({s: [summary(r) for r in paired_runs if r.stack == s] for s in ("fifo", "srsf")})
    words = " ".join(parsed(render_report([paired_runs[0], paired_runs[3]], comparison)).text)
    assert "1, 2, 3" in words


@pytest.mark.parametrize("name", ["stuck_run", "empty_run", "single_run", "big_run"])
def test_any_run_has_a_report(name: str, request: pytest.FixtureRequest) -> None:
    html = render_report(request.getfixturevalue(name))
    words = " ".join(parsed(html).text)
    assert not re.search(r"\bnan\b|\bNone\b|\binf\b", words)
    assert len(html) < 1_500_000
    if name == "stuck_run":
        assert "3 jobs did not finish" in words


def test_names_and_reasons_are_shown_not_obeyed(run: RunResult) -> None:
    evil = "<script>alert(1)</script><img src=http://example.org/x.png onerror=alert(1)>\"'$x_1$"
    spans = run.spans.with_columns(pl.lit(evil).alias("job_id"))
    jobs = run.jobs.with_columns(pl.lit(evil).alias("job_id"), pl.lit(evil).alias("model"))
    decisions = run.decisions.with_columns(pl.lit(evil).alias("reason"), pl.lit("job").alias("gpus"))
    links = run.links.with_columns(pl.lit("a_$b^$ <c> 梭").alias("name"))
    hostile = replace(run, jobs=jobs, spans=spans, decisions=decisions, links=links, stack=evil, scenario=evil)
    html = render_report(replace(hostile, scenario_text=evil, command=evil, notes=(evil,)))
    page = Balanced()
    page.feed(html)
    assert "script" not in page.tags
    assert "img" not in page.tags
    assert "a_$b^$ <c> 梭" in " ".join(page.text)


def test_writing(empty_run: RunResult, tmp_path: Path) -> None:
    path = write_report(tmp_path / "deep" / "report.html", empty_run)
    assert path.read_text(encoding="utf-8") == render_report(empty_run)
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="cannot write the report"):
        write_report(tmp_path / "file" / "report.html", empty_run)
    with pytest.raises(InputError, match="no runs to report"):
        render_report([])
