"""The report: one HTML file with its style and pictures inside, that asks the network for nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

import polars as pl
from matplotlib.figure import Figure

from weft.errors import InputError
from weft.model.reason import read_why, speak
from weft.results.compare import compare
from weft.results.display import amount, count, duration, percent, time_unit
from weft.results.files import write_text
from weft.results.html import definition_list, folded, grid_table, page, plain_table, what_was_run
from weft.results.metrics import finished_jobs, summary
from weft.results.pictures import plots
from weft.results.pictures.style import inline_svg
from weft.results.run import RunResult
from weft.results.series import busy_gpus, extent_s
from weft.results.tables import bound_words, comparison_grid, run_grid
from weft.results.words import DEFINITIONS, comparison_verdict, meanings, run_verdict, verdict_card

_WIDE = ' class="wide"'
_MOST_JOBS = 15
_MOST_DECISIONS = 14
_MOST_PICTURES = 6  # stacks with a picture of their own
_COMPARED = ("JCT", "makespan", "queue", "exposed comm.", "GPU utilisation", "relative JCT")
_LOG = ("time", "job", "decision", "GPUs", "reason")


def write_report(
    path: str | Path,
    runs: RunResult | Sequence[RunResult],
    comparison: Mapping[str, Any] | None = None,
    title: str = "",
) -> Path:
    """Write the report of one run, or of several stacks (and seeds), to `path`."""
    target = Path(path)
    text = render_report(runs, comparison, title)
    write_text(target, text, "report")
    return target


def render_report(
    runs: RunResult | Sequence[RunResult], comparison: Mapping[str, Any] | None = None, title: str = ""
) -> str:
    """The report as HTML.

    Several runs are grouped by stack in the order given. `comparison` is what `compare` returned; it is computed when
    it is missing and there is more than one stack, and may cover more seeds than the runs given here.
    """
    everything = [runs] if isinstance(runs, RunResult) else list(runs)
    if not everything:
        raise InputError("report: no runs to report; give at least one")
    first = list({run.stack: run for run in reversed(everything)}.values())[::-1]  # one per stack: its first seed
    if comparison is None and len(first) > 1:
        comparison = compare({r.stack: [summary(s) for s in everything if s.stack == r.stack] for r in first})
    title = title or everything[0].scenario
    verdict = comparison_verdict(comparison) if comparison else run_verdict(summary(first[0]), _peak(first[0]))
    body = [
        _head(title, first, comparison),
        verdict_card(verdict),
        _result(first, comparison),
        _notes(everything),
        _pictures(everything, first),
        _details(first),
        _what_was_run(everything, comparison),
    ]
    return page(title, "\n".join(filter(None, body)))


def _peak(run: RunResult) -> float | None:
    """GPUs that were held at once, at most."""
    return float(busy_gpus(run).value.max(initial=0.0)) if run.spans.height else None


def _head(title: str, first: Sequence[RunResult], comparison: Mapping[str, Any] | None) -> str:
    seeds = comparison["seeds"] if comparison else [first[0].seed]
    words = f"{len(first)} stacks compared" if len(first) > 1 else f"stack {first[0].stack}"
    seeded = f"seed {seeds[0]}" if len(seeds) == 1 else f"{len(seeds)} seeds"
    detail = f"{words} · {seeded} · {count(first[0].jobs.height)} jobs · {count(first[0].n_gpus)} GPUs"
    return f'<header><p class="brand">weft</p><h1>{escape(title)}</h1><p>{escape(detail)}</p></header>'


def _result(first: Sequence[RunResult], comparison: Mapping[str, Any] | None) -> str:
    if comparison is not None and len(comparison["stacks"]) > 1:
        base = comparison["stacks"][0]["stack"]
        over = comparison["intervals"]
        small = (
            "Below each mean its 95 % interval over seeds (Student t). "
            if over["over"] == "seeds"
            else f"{over['note'][:1].upper()}{over['note'][1:]}. "
        )
        small += f"Ratios are formed at each seed, over {base} at the same seed."
        small += f" {words[:1].upper()}{words[1:]}." if (words := bound_words(comparison)) else ""
        table = grid_table(comparison_grid(comparison))
        ratios = _figure(plots.ratio_intervals(comparison), "ratio")
        return (
            f'<section class="card">{table}<p class="key">{escape(small)}</p>{meanings(*_COMPARED)}</section>'
            f'<section class="card">{ratios}</section>'
        )
    numbers = summary(first[0])
    tiles = (
        (duration(numbers["jct_s"]["mean"]), "mean JCT", "JCT"),
        (duration(numbers["makespan_s"]), "makespan", "makespan"),
        (duration(numbers["queueing_s"]["mean"]), "mean queueing", "queue"),
        (duration(numbers["comm_s"]["mean"]), "mean exposed comm.", "exposed comm."),
        (percent(numbers["gpu_utilisation"]), "GPU utilisation", "GPU utilisation"),
        (f"{count(numbers['finished'])} / {count(numbers['jobs'])}", "jobs finished", "jobs finished"),
        (count(numbers["preemptions"]), "preemptions", "preemptions"),
    )
    boxes = "".join(
        f'<div class="tile"><b>{escape(value)}</b><span>{escape(name)}</span><small>{escape(DEFINITIONS[what])}</small>'
        "</div>"
        for value, name, what in tiles
    )
    return f'<div class="tiles">{boxes}</div><section class="card">{grid_table(run_grid(numbers))}</section>'


def _notes(runs: Sequence[RunResult]) -> str:
    notes = list(dict.fromkeys(note for run in runs for note in run.notes))
    for run in runs:
        left = run.jobs.height - finished_jobs(run).height
        if left:
            notes.append(
                f"{run.stack}, seed {run.seed}: {count(left)} jobs did not finish and are not in the JCT numbers."
            )
    if not notes:
        return ""
    return '<section class="card notes"><ul>' + "".join(f"<li>{escape(n)}</li>" for n in notes) + "</ul></section>"


def _pictures(everything: Sequence[RunResult], first: Sequence[RunResult]) -> str:
    small = [_figure(plots.jct_cdf(everything), "jct"), _figure(plots.iteration_cdf(everything), "iteration")]
    shown = first[:_MOST_PICTURES]
    end_s = max(extent_s(run)[1] for run in shown)
    several = len(shown) > 1
    large = [_figure(plots.load_over_time(shown), "load")]
    for i, run in enumerate(shown):
        title = f"Cluster timeline: {run.stack}, seed {run.seed}"
        large.append(_figure(plots.cluster_timeline(run, end_s, title), f"gantt{i}"))
    for i, run in enumerate(shown):
        title = f"Busiest links: {run.stack}, seed {run.seed}"
        large.append(
            _figure(plots.link_utilisation(run, end_s, title, 12 if several else 24), f"links{i}") + _tiers(run)
        )
    cards = "".join(f'<section class="card">{part}</section>' for part in large)
    pair = "".join(f'<section class="card">{part}</section>' for part in small)
    return f'<h2>Distributions</h2><div class="pair">{pair}</div><h2>Over time</h2>{cards}'


def _figure(figure: Figure, name: str) -> str:
    wide = figure.get_figwidth() > 8.0  # does not shrink to a phone's width, scrolls instead
    return f"<figure{_WIDE if wide else ''}>{inline_svg(figure, name)}</figure>"


def _tiers(run: RunResult) -> str:
    tiers = run.links.group_by("tier", maintain_order=True).agg(
        pl.len().alias("links"),
        pl.col("bytes").sum(),
        pl.col("utilisation").mean().alias("mean"),
        pl.col("utilisation").max().alias("most"),
    )
    words = [
        f"{tier or 'all'}: {count(n)} links, {amount(size)}, {percent(mean)} used on average, {percent(most)} at most"
        for tier, n, size, mean, most in tiers.iter_rows()
    ]
    return f"<figcaption>{escape('; '.join(words))}</figcaption>" if words else ""


def _details(first: Sequence[RunResult]) -> str:
    parts = ["<h2>Jobs and decisions</h2>"]
    for i, run in enumerate(first[:_MOST_PICTURES]):
        inside = _slowest_jobs(run) + _decision_log(run)
        if len(first) == 1:
            parts.append(f'<section class="card">{inside}</section>')
        else:
            is_open = " open" if i == 0 else ""
            name = f"<summary>{escape(run.stack)}, seed {run.seed}</summary>"
            parts.append(f'<details class="card"{is_open}>{name}{inside}</details>')
    return "".join(parts)


def _slowest_jobs(run: RunResult) -> str:
    slowest = finished_jobs(run).sort(["jct_s", "job_id"], descending=[True, False]).head(_MOST_JOBS)
    if slowest.is_empty():
        return "<h3>Slowest jobs</h3><p>No job finished.</p>"
    longest = float(slowest["jct_s"][0]) or 1.0
    unit = time_unit([longest])
    rows = [
        [
            f"<b>{escape(job['job_id'])}</b>", escape(job["model"] or ""), count(job["gpus"]), count(job["servers"]),
            unit.of(job["jct_s"]), unit.of(job["queueing_s"]), unit.of(job["run_s"]), unit.of(job["comm_s"]),
            count(job["preemptions"]), _bar(job, longest),
        ]
        for job in slowest.iter_rows(named=True)
    ]  # fmt: skip
    times = (f"{name} ({unit.name})" for name in ("JCT", "waited", "ran", "exposed comm."))
    titles = ("job", "model", "GPUs", "servers", *times, "stops", "where the time went")
    key = (
        '<p class="key"><i class="wait"></i>waiting for GPUs <i class="compute"></i>computing '
        '<i class="comm"></i>waiting for the network</p>'
    )
    return "<h3>Slowest jobs</h3>" + plain_table(titles, rows, "jobs") + key


def _bar(job: Mapping[str, Any], longest_s: float) -> str:
    run_s, comm_s = job["run_s"] or 0.0, job["comm_s"] or 0.0
    parts = (("wait", job["queueing_s"] or 0.0), ("compute", max(run_s - comm_s, 0.0)), ("comm", min(comm_s, run_s)))
    pieces = "".join(f'<i class="{name}" style="width:{100 * s / longest_s:.2f}%"></i>' for name, s in parts)
    return f'<div class="bar">{pieces}</div>'


def _decision_log(run: RunResult) -> str:
    if run.decisions.is_empty():
        return ""
    kinds = run.decisions.group_by("action").len().sort(["len", "action"], descending=[True, False])
    counts = ", ".join(f"{count(n)} {action}" for action, n in kinds.iter_rows())
    out = f"<h3>Decision log</h3><p>{escape(counts)}. The first of each kind:</p>"
    each = max(_MOST_DECISIONS // max(kinds.height, 1), 3)
    excerpt = run.decisions.group_by("action", maintain_order=True).head(each).sort("time_s", "cycle")
    out += plain_table(_LOG, _log_rows(excerpt), "log")
    slowest = finished_jobs(run).sort(["jct_s", "job_id"], descending=[True, False]).head(1)
    if not slowest.is_empty():
        job = str(slowest["job_id"][0])
        its = run.decisions.filter(pl.col("job_id") == job)
        if not its.is_empty():
            shown = f"first {_MOST_DECISIONS} of {count(its.height)}" if its.height > _MOST_DECISIONS else "all"
            out += f"<p>The slowest job, {escape(job)} ({shown}):</p>"
            out += plain_table(_LOG, _log_rows(its.head(_MOST_DECISIONS)), "log")
    return out


def _log_rows(decisions: pl.DataFrame) -> list[list[str]]:
    return [
        [
            duration(row["time_s"]), escape(row["job_id"] or ""),
            f'<span class="tag {escape(row["action"])}">{escape(row["action"])}</span>',
            escape(_ranges(row["gpus"] or "")),
            escape(speak(read_why(row["reason"] or ""))),
        ]
        for row in decisions.iter_rows(named=True)
    ]  # fmt: skip


def _ranges(gpus: str) -> str:
    """GPU ids with runs of neighbours joined: "0 1 2 3 8" as "0-3 8"; anything else as it is."""
    words = gpus.split()
    if not all(word.isdecimal() for word in words):
        return gpus
    return " ".join(f"{low}-{high}" if high > low else str(low) for low, high in plots.neighbours(map(int, words)))


def _what_was_run(runs: Sequence[RunResult], comparison: Mapping[str, Any] | None) -> str:
    run = runs[0]
    seeds = comparison["seeds"] if comparison else sorted({r.seed for r in runs})
    pairs = [
        ("scenario", run.scenario),
        ("stacks" if len({r.stack for r in runs}) > 1 else "stack", ", ".join(dict.fromkeys(r.stack for r in runs))),
        ("seeds" if len(seeds) > 1 else "seed", ", ".join(map(str, seeds))),
        ("weft", run.version),
        ("engine", "exact" if all(r.exact for r in runs) else "estimated (exact = false)"),
        ("simulated in", duration(sum(r.wall_s for r in runs))),
    ]
    listed = definition_list([(name, words) for name, words in pairs if words])
    return what_was_run(run.command, listed, folded("Scenario file", run.scenario_text))
