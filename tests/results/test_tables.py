"""Tables in terminals of any width: nothing is cut, and what is left out is named."""

import io
from typing import Any

import pytest
from rich.console import Console, RenderableType

from weft.results.compare import compare
from weft.results.display import MISSING, amount, count, duration, number, percent, time_unit
from weft.results.html import grid_table
from weft.results.metrics import summary
from weft.results.run import RunResult
from weft.results.tables import Cell, Grid, comparison_grid, comparison_table, run_table


def printed(what: RenderableType, width: int) -> str:
    console = Console(file=io.StringIO(), width=width, color_system=None)
    console.print(what)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


@pytest.fixture(scope="module")
def comparison(paired_runs: list[RunResult]) -> dict[str, Any]:
    return compare({s: [summary(r) for r in paired_runs if r.stack == s] for s in ("fifo", "srsf")})


@pytest.mark.parametrize("width", [30, 40, 60, 80, 100, 200])
def test_comparison_fits_and_loses_nothing(comparison: dict[str, Any], width: int) -> None:
    text = printed(comparison_table(comparison), width)
    assert all(len(line.rstrip()) <= width for line in text.splitlines())
    assert "…" not in text
    for cell in (cell.text for row in comparison_grid(comparison).rows for cell in row):
        assert cell in text


def test_at_100_columns_every_stack_is_one_line_with_its_ratio(comparison: dict[str, Any]) -> None:
    lines = printed(comparison_table(comparison), 100).splitlines()
    (fifo,) = [line for line in lines if line.startswith("fifo")]
    (srsf,) = [line for line in lines if line.startswith("srsf")]
    assert fifo.split()[-1] == "1"
    ratio = comparison["stacks"][1]["ratio_to_first"]["jct_mean_s"]
    low, high = ratio["ci95"]
    assert f"{ratio['mean']:.2f} [{low:.2f}, {high:.2f}]" in srsf


def test_at_80_columns_many_stacks_are_a_table_that_says_what_is_left_out(paired_runs: list[RunResult]) -> None:
    of = {s: [summary(r) for r in paired_runs if r.stack == s] for s in ("fifo", "srsf")}
    stacks = {f"a-long-name-{s}-{i}": of[s] for i in range(3) for s in of}
    lines = printed(comparison_table(compare(stacks)), 80).splitlines()
    assert all(len(line.rstrip()) <= 80 for line in lines)
    assert sum(line.startswith("a-long-name-") for line in lines) == 6  # one line each
    (said,) = [line for line in lines if line.startswith("no room for ")]
    left_out = said.removeprefix("no room for ").partition(" (")[0].split(", ")
    assert left_out[0] == "JCT median"
    assert "JCT mean" not in left_out


def test_ratio_is_good_or_bad_only_when_its_interval_says_so(comparison: dict[str, Any]) -> None:
    def tone(mean: float, low: float, high: float) -> str:
        ratio = {"jct_mean_s": {"mean": mean, "ci95": [low, high]}}
        first, second = comparison["stacks"]
        grid = comparison_grid({**comparison, "stacks": [first, {**second, "ratio_to_first": ratio}]})
        return grid.rows[1][-1].tone

    assert tone(0.8, 0.7, 0.9) == "good"
    assert tone(1.2, 1.1, 1.3) == "bad"
    assert tone(0.95, 0.8, 1.1) == ""


def test_one_seed_says_that_there_are_no_intervals(run: RunResult) -> None:
    text = printed(comparison_table(compare({"fifo": [summary(run)], "other": [summary(run)]})), 100)
    assert "one seed: no intervals" in text
    assert "[" not in text.split("\n", 1)[1]


@pytest.mark.parametrize("width", [30, 60, 100])
def test_run_table_fits(run: RunResult, width: int) -> None:
    text = printed(run_table(summary(run)), width)
    assert all(len(line.rstrip()) <= width for line in text.splitlines())
    assert "…" not in text
    assert "60 of 60" in text


def test_markup_in_names_is_shown_not_obeyed(run: RunResult) -> None:
    numbers = {**summary(run), "stack": "order[red]x[/red]", "scenario": "[bold]"}
    assert "order[red]x[/red] on [bold]" in printed(run_table(numbers), 100)
    assert "order[red]x[/red]" in printed(comparison_table(compare({"order[red]x[/red]": [numbers]})), 100)


def test_undefined_numbers_are_dashes(stuck_run: RunResult) -> None:
    text = printed(run_table(summary(stuck_run)), 100)
    assert "0 of 3" in text
    assert "nan" not in text.lower()
    assert "None" not in text
    both = printed(comparison_table(compare({"a": [summary(stuck_run)], "b": [summary(stuck_run)]})), 100)
    assert "None" not in both


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (None, MISSING), (0.0, "0 s"), (2.5e-5, "25.0 µs"), (0.0123, "12.3 ms"), (0.9999, "1,000 ms"), (1.0, "1.00 s"),
        (59.94, "59.9 s"), (299.0, "299 s"), (300.0, "5.00 min"), (7200.0, "120 min"), (10800.0, "3.00 h"),
        (345600.0, "4.00 d"), (1e9, "11,574 d"),
    ],
)  # fmt: skip
def test_duration(value: float | None, words: str) -> None:
    assert duration(value) == words


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (0.0, "0"), (0.001234, "0.0012"), (0.1234, "0.123"), (0.99949, "0.999"), (0.9996, "1.00"), (9.994, "9.99"),
        (9.996, "10.0"), (99.94, "99.9"), (99.96, "100"), (1234.5, "1,234"), (-12.34, "-12.3"), (float("nan"), MISSING),
    ],
)  # fmt: skip
def test_number_has_three_significant_digits(value: float, words: str) -> None:
    assert number(value) == words


def test_values_that_are_compared_share_the_unit_of_the_largest() -> None:
    unit = time_unit([0.5, None, 600.0])
    assert (unit.name, unit.of(30.0), unit.of(None)) == ("min", "0.500", MISSING)


def test_percent_count_and_amount() -> None:
    assert (percent(0.1234), percent(None)) == ("12.3 %", MISSING)
    assert (count(1234567), count(None)) == ("1,234,567", MISSING)
    assert (amount(999.0), amount(1.5e9), amount(2e15), amount(None)) == ("999 B", "1.50 GB", "2.00 PB", MISSING)


def test_columns_of_words_start_at_the_left_in_html() -> None:
    rows = ((Cell("a=1"), Cell("fifo"), Cell("3")), (Cell(""), Cell("srsf"), Cell("-", "", "bad")))
    html = grid_table(Grid(("setting", "stack", "JCT"), ("", "", "s"), rows))
    assert html.count('class="words"') == 3  # the head and two cells
    assert '<td class="words">srsf</td>' in html
    assert '<td class="bad">-</td>' in html
