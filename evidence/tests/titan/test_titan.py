"""The placers and tables with which docs/papers/titan.md varies what the paper does not state."""

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg

from weft.errors import InputError
from weft.network.topologies import build_cluster
from weft.results.pictures.style import new_figure
from weft.results.series import Steps
from weft.testing import check_place
from weft_evidence import claims_of, reproduce, titan
from weft_evidence.claims import Measured, Request
from weft_evidence.pages import as_reproduction
from weft_evidence.titan.experiments import IdleMachines, SkewOrIdle, accuracy, earned, inside
from weft_evidence.titan.figures import label_points
from weft_evidence.titan.runs import (
    DEALT,
    ELASTICFLOW,
    FEW_JOBS,
    SHOWN_JOBS,
    STACKED,
    STACKS,
    TraceRun,
    bytes_between,
    measured,
    on_testbed,
    placers,
    scenario,
)
from weft_evidence.titan.worth import ROWS, changed

SHORT = (
    "section-ii.elasticflow",
    "section-ii.hived",
    "section-ii.titan",
    "figure-8.idle",
    "figure-8.none",
    "exp-5.over-elasticflow",
    "exp-6.near-elasticflow",
    "exp-7.under-hived",
)


def test_section_ii_and_the_testbed() -> None:
    """0, 3K/2 and K; one of two idle servers left with 12 workers, none taken with 8."""
    result = reproduce("titan", Request(quick=True, claims=SHORT))
    found = {claim.id: claim for claim in result.claims}
    assert set(found) == set(SHORT)
    told = {name: found[name].verdict for name in SHORT[:4]}  # counted nowhere, and still as published
    assert list(told.values()) == ["by construction", "input", "input", "fitted"]
    assert all(found[name].measured == found[name].published for name in told)
    assert all(claim.holds for claim in result.claims if claim.id not in told)
    assert found["section-ii.hived"].measured == 1.5
    assert "Figure 8" in "".join(result.notes)


def test_a_bound_that_a_few_states_keep_is_not_judged(monkeypatch: pytest.MonkeyPatch) -> None:
    """One state refutes it, however few there are."""
    monkeypatch.setattr(titan, "QUICK_STATES", {False: 150, True: 3})
    claims = ("exact.titan.bound-broken", "exact.titan.ratio", "exact.titan-printed.bound-broken")
    kept, ratio, broken = reproduce("titan", Request(quick=True, claims=claims)).claims
    assert (kept.measured, ratio.measured) == (0.0, 100.0)
    assert kept.verdict == ratio.verdict == "not judged"
    assert broken.measured
    assert broken.verdict == "no"


def test_notes_say_where_the_jobs_come_from(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def first_note() -> str:
        return reproduce("titan", Request(quick=True, claims=("figure-8.idle",))).notes[0]

    monkeypatch.setenv("WEFT_TRACES", str(tmp_path))
    assert first_note().startswith(
        "Trace 1 is drawn from the published figures of ElasticFlow's (synthetic), trace 2 is"
    )
    (tmp_path / ELASTICFLOW).mkdir(parents=True)
    assert first_note().startswith(
        "Trace 1 is ElasticFlow's as published now (69,351 jobs; the paper says 69,742), trace"
    )
    assert "trace 2 is drawn from the published figures of Acme's (synthetic)" in first_note()


def test_a_bound_that_is_kept_is_a_direction() -> None:
    check = claims_of("titan")["exact.titan.ratio"]
    assert check.rule(check.published, Measured(100.0)) == "direction"
    assert check.rule(check.published, Measured(50.0)) == "no"


def test_each_published_number_is_counted_once() -> None:
    """The same over time, without contention or beside ElasticFlow with other ranks stands apart, and our changes of
    Algorithm 3 are ours."""
    found = as_reproduction("titan")
    counted = {claim.id for claim in found.published}
    assert {"exp-3.over-hived", "exact.titan-printed.ratio"} <= counted
    assert not any(name.startswith(("over-time.", "alone.")) or name.endswith("-dealt") for name in counted)
    assert counted.isdisjoint({"exact.titan.ratio", "exact-tight.titan-plus.bound-broken"})
    assert "; over time " in found.counts


def test_a_place_needs_intervals() -> None:
    """Titan needs fewer machine hours than two others at each seed, than the third in the mean only: it is first or
    second."""
    lab = SimpleNamespace(traces=SimpleNamespace(of=lambda trace: [
        {name: {"machine_hours": hours[seed]} for name, hours in {
            "titan": (10.0, 11.0, 12.0), "hived": (20.0, 21.0, 22.5), "tiresias": (30.0, 31.0, 33.0),
            "elasticflow": (10.5, 14.0, 11.9), DEALT: (5.0, 6.1, 7.0),
        }.items()} for seed in range(3)
    ]))  # fmt: skip
    check, dealt = (claims_of("titan")[f"exp-1.machine-hours{suffix}"] for suffix in ("", f".{DEALT}"))
    assert check.measure(lab) == Measured(1.0, (1.0, 2.0))  # type: ignore[arg-type]
    assert check.rule(check.published, Measured(1.0, (1.0, 2.0))) == "not judged"
    assert dealt.measure(lab) == Measured(2.0, (2.0, 2.0))  # type: ignore[arg-type]


def test_every_claim_has_words_and_a_number() -> None:
    for name, check in claims_of("titan").items():
        assert check.what
        assert check.published is None or check.published >= 0
        assert "." in name
    with pytest.raises(InputError, match="there is no claim exp-9"):
        reproduce("titan", Request(claims=("exp-9",)))


def test_machine_hours_of_the_testbed() -> None:
    """8 workers: ElasticFlow takes both idle servers (8 in use), Titan none (6 in use)."""
    titan, elastic = on_testbed("titan", "vgg16", 8), on_testbed("elasticflow", "vgg16", 8)
    assert (titan.in_use, elastic.in_use) == (6, 8)
    assert titan.machine_hours / elastic.machine_hours == pytest.approx(
        6 * titan.iteration_s / (8 * elastic.iteration_s)
    )
    assert titan.throughput == pytest.approx(512 / titan.iteration_s)


def test_devices_of_one_server_that_exchange_less_bring_dealt_elasticflow_near_titan() -> None:
    def over(gbps: float | None) -> float:
        return on_testbed("titan", "vgg16", 8, gbps).comm_s / on_testbed(DEALT, "vgg16", 8, gbps).comm_s

    assert over(1e6) == pytest.approx(over(None), rel=1e-3)
    assert over(None) > 2.0 > over(100.0) > over(70.0) > 1.0


def test_bytes_between() -> None:
    """4 workers of ResNet-50, two and two in rank order: the halves that cross are 2 x 2 x K/2 = 2K."""
    from weft.workload import zoo

    message = zoo.profile("resnet50", 4).message_bytes
    assert bytes_between("resnet50", [0, 1, 2, 3], (0, 0, 1, 1)) == pytest.approx(2 * message)
    assert bytes_between("resnet50", [0, 2, 1, 3], (0, 0, 1, 1)) == pytest.approx(message)
    assert bytes_between("resnet50", [0, 1], (0, 0)) == 0.0


def test_a_short_trace() -> None:
    """Synthetic jobs on two racks: numbers are defined, and Titan uses no more machines than ElasticFlow."""
    import weft

    made = scenario("trace-2", quick=True)
    made["workload"] = {
        "source": "poisson", "jobs": 40, "load": 0.5, "reading": "compute", "gpus": {1: 5.0, 4: 1.0, 16: 1.0},
        "duration_median_s": 600.0, "models": ["resnet50"],
    }  # fmt: skip
    made["cluster"]["racks"] = 2
    found = {name: measured(weft.simulate(made, stack=STACKS[name], seed=1)) for name in ("titan", "elasticflow")}
    titan, elasticflow = found["titan"].numbers, found["elasticflow"].numbers
    assert 0 < titan["used"] <= elasticflow["used"]
    assert 0 <= titan["fragmentation"] <= 100
    assert titan["overhead_gb"] > 0  # 16 workers need two machines
    assert titan["profit_rate"] > 0
    plain, dealt = (measured(weft.simulate(made, stack=STACKS[name], seed=1)) for name in ("elasticflow", DEALT))
    assert 0 < dealt.number("overhead_gb") < plain.number("overhead_gb")
    assert set(titan) == set(dealt.numbers)


def test_averages_per_arrival() -> None:
    """Two jobs of one GPU on one machine each: at the first arrival one machine is used, at the second both. The first
    runs from 0 to 100 s, the second from 90 to 190 s: over time 1 machine 180 s and 2 for 10 s."""
    import weft

    job = {"model": "resnet50", "gpus": 8, "duration_s": 100.0}
    made = {
        "cluster": {"topology": "single-switch", "servers": 2, "gpus_per_server": 8, "nic_gbps": 100},
        "workload": {
            "source": "jobs", "reading": "compute", "job": [{**job, "id": "a"}, {**job, "id": "b", "submit_s": 90.0}],
        },
    }  # fmt: skip
    found = measured(weft.simulate(made, stack="titan")).numbers
    assert found["used"] == pytest.approx((180 * 1 + 10 * 2) / 190, rel=0.01)  # whole iterations
    assert found["used@arrivals"] == pytest.approx(1.5)
    assert found["machine_hours"] == pytest.approx(200 / 3600, rel=0.01)


def test_pictures_can_be_drawn() -> None:
    import weft
    from weft_evidence.titan.figures import curves, pareto, testbed

    made = scenario("trace-2", quick=True)
    made["workload"] = {"source": "batch", "jobs": 5, "iterations": [10, 20], "models": ["resnet50"]}
    made["cluster"]["racks"] = 1
    runs = {"titan": measured(weft.simulate(made, stack="titan"))}
    drawn = curves(runs).axes
    assert len(drawn) == 6
    ends = {ax.get_title(): float(np.asarray(ax.lines[0].get_ydata())[-1]) for ax in drawn}
    assert ends["machine hours so far"] == pytest.approx(runs["titan"].number("machine_hours"))
    assert ends["total profit so far"] == pytest.approx(runs["titan"].number("total_profit"))
    assert ends["used machines"] == ends["GB across machines"] == 0.0
    assert len(pareto(runs).axes) == 1
    bed = testbed(("titan", "hived")).axes
    assert len(bed) == 6
    assert np.asarray(bed[4].lines[0].get_ydata())[2] == on_testbed("titan", "vgg16", 8).throughput


def test_the_plot_has_every_placer_that_can_run() -> None:
    """With few jobs all but those that pile jobs up on GPUs; with more of them, those that give a GPU to one job."""
    from weft.stacks import resolve
    from weft.stacks.registry import names

    forms = {"titan:plus", "titan:printed", "dealt:elasticflow"}
    piles = {"first-fit:shared", "random:shared"}
    assert set(placers(FEW_JOBS)) | STACKED == set(names("place")) | forms | piles
    alone = {name for name in names("place") if not resolve("fifo", place=name).planner.shares_gpus}
    assert set(placers(SHOWN_JOBS)) == alone | forms


def test_the_front_is_of_those_that_nobody_beats_in_both() -> None:
    from weft_evidence.titan.figures import front

    points = {"a": (10.0, 5.0), "b": (20.0, 1.0), "c": (15.0, 6.0), "d": (20.0, 3.0), "e": (30.0, 1.0)}
    runs = {name: TraceRun({"used": used, "overhead_gb": gb}, None) for name, (used, gb) in points.items()}  # type: ignore[arg-type]
    assert front(runs) == ["a", "b"]


SEREN = (
    "job_id,user,node_num,gpu_num,cpu_num,type,state,submit_time,start_time,end_time,duration,queue\n"
    "1,u1,1,8,128,Other,COMPLETED,2023-03-01 00:00:00+08:00,2023-03-01 00:00:05+08:00,2023-03-01 00:10:05+08:00,600,5\n"
)


def test_acme_is_read_where_it_is_there_and_labelled_synthetic_where_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import weft
    from weft_evidence.report import render
    from weft_evidence.titan import runs as titan_runs

    monkeypatch.setenv("WEFT_TRACES", str(tmp_path))
    monkeypatch.setattr(titan_runs, "QUICK_JOBS", 3)
    monkeypatch.setattr(titan_runs, "STACKS", {"titan": "titan", "tiresias": "fifo[place=skew]"})
    monkeypatch.setattr(titan_runs, "QUICK_SEEDS", 1)
    claim = ("exp-2.over-tiresias",)
    drawn = titan.reproduce(Request(quick=True, workers=1, claims=claim))
    assert drawn.claims[0].what.startswith("trace 2 (synthetic): ")
    assert any(note.startswith("trace-2: synthetic: drawn from the published figures") for note in drawn.notes)
    assert [picture.caption for picture in drawn.pictures[:2]] == [
        "trace-2 (synthetic): Figures 2 to 7", "trace-2 (synthetic): used machines against bytes across machines",
    ]  # fmt: skip
    shown = render(replace(drawn, pictures=()))
    assert "trace 2 (synthetic): fragmentation" in shown

    (tmp_path / "acme").mkdir()
    (tmp_path / "acme" / "trace_seren.csv").write_text(SEREN)
    read = titan.reproduce(Request(quick=True, workers=1, claims=claim))
    assert read.claims[0].what.startswith("trace 2: ")
    assert not any("synthetic:" in note for note in read.notes)
    assert weft.simulate(scenario("trace-2", quick=True), stack="titan").jobs.height == 1


def test_the_page_has_a_verdict_of_every_claim() -> None:
    """docs/papers/titan/claims.json was written with the claims as they are now."""
    page = Path(__file__).parents[3] / "docs" / "papers" / "titan.md"
    recorded = json.loads((page.parent / page.stem / "claims.json").read_text(encoding="utf-8"))
    published = {claim["id"]: claims_of("titan")[claim["id"]].published or 0.0 for claim in recorded}
    assert {claim["id"]: claim["published"] or 0.0 for claim in recorded} == pytest.approx(published, rel=1e-4)


def test_placers_of_the_controls() -> None:
    """They place every job of random workloads, and keep the rules of a placer."""
    check_place(IdleMachines)
    check_place(SkewOrIdle)


def test_tables_of_the_testbed() -> None:
    """Without a limit inside a server: Exp#7 and Figure 12 as `weft reproduce titan` has them."""
    assert "| no limit | 0.69 | 2.75 | 1.64 |" in inside().splitlines()
    assert "| no limit | 1 | 9 | 0.96 | 1.06 | 0.98 | 1.06 |" in accuracy().splitlines()


def test_what_is_earned_until_a_moment_is_the_area_up_to_it() -> None:
    rate = Steps(np.array([0.0, 3600.0, 7200.0, 10800.0]), np.array([2.0, 1.0, 4.0, 0.0]))
    assert earned(rate, 10800.0) == pytest.approx(7.0)  # 2 + 1 + 4 units an hour, an hour each
    assert earned(rate, 5400.0) == pytest.approx(2.5)  # half an hour of the second
    assert earned(rate, 3600.0) == pytest.approx(2.0)


# where the placers of Titan's second picture lie: two names used to lie over each other, and one was cut
PLACERS = {
    "ls, first-fit, hived": (6.8, 9.1), "skew": (7.6, 8.2), "titan:printed": (7.7, 6.7),
    "lwf, best-fit, delay, elasticflow": (5.7, 6.4), "titan, titan:plus": (9.5, 0.9), "random": (47.0, 13.0),
    "packing, affinity": (44.0, 12.4),
}  # fmt: skip


def test_names_beside_points_do_not_collide() -> None:
    figure, (axes,) = new_figure(7.0, 4.5)
    axes.plot(*zip(*PLACERS.values(), strict=True), "o")
    axes.set_xscale("log")
    axes.margins(x=0.12)
    axes.set_ylim(bottom=0)
    label_points(axes, PLACERS)
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    boxes = {text.get_text(): text.get_window_extent(canvas.get_renderer()) for text in axes.texts}
    assert set(boxes) == set(PLACERS)
    names = list(boxes)
    assert [(a, b) for i, a in enumerate(names) for b in names[i + 1 :] if boxes[a].overlaps(boxes[b])] == []
    frame = axes.get_window_extent()
    assert [name for name, box in boxes.items() if box.x1 > frame.x1 + 1 or box.x0 < frame.x0 - 1] == []


def test_the_papers_tree_has_as_many_gpus_and_changes_say_which_models_there_are() -> None:
    made = {row: changed(row, 5) for row in ROWS}
    sizes = {
        row: build_cluster(each["cluster"].pop("topology"), **each["cluster"]).n_gpus for row, each in made.items()
    }
    assert set(sizes.values()) == {4096}
    assert {row for row, each in made.items() if "models" in each["workload"]} == {
        "the trace's models", "its control: six models, drawn"
    }  # fmt: skip
    assert all(each["workload"]["jobs"] == 5 for each in made.values())
