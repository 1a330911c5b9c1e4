"""Advice from a log: the site, the race, the verdict, and that the right stack wins where the answer is known."""

from __future__ import annotations

import importlib
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from weft.advise import Flags, Request, advise
from weft.advise.jobs import JobLog, read_jobs
from weft.advise.lengths import Fit, fit, run_over_recorded, shortened
from weft.advise.race import Entrant, Race, _drop, ratios, score, windows
from weft.advise.replayed import replay, trust
from weft.advise.site import change_of_size, site_of, what_if
from weft.advise.verdict import Advice, interval
from weft.api import Task as Run
from weft.api import run_task
from weft.cli.main import run
from weft.errors import InputError, WeftError
from weft.results.compare import mean_and_interval
from weft.scenario.build import Layers
from weft.scenario.changes import changed

Capture = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cache of its own for copies of logs; compiled kernels stay where they are."""
    from weft import compiled
    from weft.advise import jobs

    compiled.cache_dir()
    monkeypatch.setattr(jobs, "cache_root", lambda: tmp_path / "cache")


def log_file(path: Path, n: int = 240, length_s: int = 400, waits: bool = False) -> Path:
    """Every fifth job is long and wide; the short ones come right behind it, and wait under FIFO."""
    rows = ["job_id,submit_s,gpus,duration_s,user" + (",wait_s" if waits else "")]
    for i in range(n):
        wide = i % 5 == 0
        row = f"j{i},{i * 300},{8 if wide else 1},{3 * length_s if wide else length_s},u{i % 3}"
        rows.append(row + (",60" if waits else ""))
    path.write_text("\n".join(rows) + "\n")
    return path


def small(tmp_path: Path, **options: Any) -> JobLog:
    return read_jobs(log_file(tmp_path / "log.csv", **options), {})


def test_a_site_from_flags_lists_what_it_assumes(tmp_path: Path) -> None:
    site = site_of(small(tmp_path), None, Flags(gpus=16, gpus_per_server=4), [])
    assert site.n_gpus == 16
    assert list(site.guesses) == ["little communication", "some communication", "much communication"]
    assert site.assumed == (
        "servers_per_rack = 4",
        "gpu = V100",
        "gpu_memory_gb = 32",
        "nic_gbps = 25",
        "oversubscription = 4",
        "restart_s = 30",
    )
    assert site.middle.run.restart_s == 30.0
    guessed = site_of(small(tmp_path), None, Flags(), [])
    assert guessed.assumed[0].startswith("gpus = 16 (for a load of 0.75")
    assert guessed.n_gpus == 16
    assert (
        site_of(small(tmp_path), None, Flags(gpus=50), []).assumed[0] == "gpus = 64 (50 do not fill racks of one size)"
    )
    even = site_of(small(tmp_path), None, Flags(gpus=192, servers_per_rack=16), [])
    assert even.n_gpus == 192
    assert even.assumed[0] == "servers_per_rack = 12 (16 at most, in racks of one size)"
    assert site_of(small(tmp_path), None, Flags(gpus=4), []).n_gpus == 4
    with pytest.raises(InputError, match="--gpus 4: a server alone has 8"):
        site_of(small(tmp_path), None, Flags(gpus=4, gpus_per_server=8), [])
    with pytest.raises(WeftError, match="H900"):
        site_of(small(tmp_path), None, Flags(gpu="H900"), [])
    whole = site_of(small(tmp_path), None, Flags(gpus_per_server=3, servers_per_rack=4), [])
    assert whole.assumed[0].startswith(f"gpus = {whole.n_gpus} ")  # whole racks
    assert list(site_of(small(tmp_path), None, Flags(), ["vgg16"]).guesses) == ["as given"]


def test_a_site_from_a_scenario_or_slurms_topology(tmp_path: Path) -> None:
    scenario = tmp_path / "site.toml"
    scenario.write_text(
        '[cluster]\ntopology = "single-switch"\nservers = 3\ngpus_per_server = 8\n[network]\nsharing = "ideal"\n'
        "[run]\nrestart_s = 5\n"
    )
    site = site_of(small(tmp_path), scenario, Flags(), [])
    assert (site.n_gpus, site.assumed, site.middle.network.sharing) == (24, (), "ideal")
    conf = tmp_path / "topology.conf"
    conf.write_text("SwitchName=s0 Nodes=n[0-3]\nSwitchName=s1 Nodes=n[4-7]\nSwitchName=top Switches=s[0-1]\n")
    slurms = site_of(small(tmp_path), conf, Flags(gpus_per_server=4), [])
    assert slurms.n_gpus == 32
    assert {"gpu = V100", "oversubscription = 4"} <= set(slurms.assumed)  # as --help says
    with pytest.raises(InputError, match=r"--servers-per-rack: .*topology.conf says which servers share a switch"):
        site_of(small(tmp_path), conf, Flags(servers_per_rack=2), [])
    (tmp_path / "empty.toml").write_text("")
    with pytest.raises(InputError, match=r"\[cluster\] is missing"):
        site_of(small(tmp_path), tmp_path / "empty.toml", Flags(), [])


def test_a_cluster_that_has_its_size_refuses_another_and_its_models_are_said(tmp_path: Path) -> None:
    toml = tmp_path / "mine.toml"
    assert run(["init", str(toml)]) == 0
    with pytest.raises(InputError, match=r"--gpus: .*mine.toml says how many GPUs there are; .*--what-if gpus=64"):
        site_of(small(tmp_path), toml, Flags(gpus=64), [])
    site = site_of(small(tmp_path), toml, Flags(), [])
    assert any(words.startswith("models = ") and "mine.toml" in words for words in site.assumed)
    assert not site.size_guessed
    assert site_of(small(tmp_path), None, Flags(), []).size_guessed


def test_a_handful_of_jobs_is_no_log(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="9 of 9 rows are finished GPU jobs; advice needs 10 at least"):
        advise(log_file(tmp_path / "log.csv", n=9), Request())


def test_what_if_changes_one_thing(tmp_path: Path) -> None:
    site = site_of(small(tmp_path), None, Flags(gpus=64), [])
    assert what_if(site, "gpus=+50%").n_gpus == 96
    assert [what_if(site, f"gpus={text}").n_gpus for text in ("128", "+64", "-32")] == [128, 128, 32]
    few = site_of(small(tmp_path), None, Flags(gpus=16), [])
    assert [what_if(few, f"gpus={text}").n_gpus for text in ("+25%", "-10%", "16")] == [24, 8, 16]
    assert what_if(site, "racks.oversubscription=1").middle.cluster.oversubscription == 1
    for text, line in (
        ("gpus=many", "give a number of GPUs"),
        ("gpus=-99.9%", "some must be left"),
        ("gpus=inf", "give a number of GPUs"),
        ("gpus=nan", "give a number of GPUs"),
        ("order=srsf", "stacks are tried with --stack"),
        ("trace=other.csv", "the jobs stay those of the log"),
        ("oversubscription=1,2", "give one value"),
        ("foo=3", "--what-if foo is not a known key"),
        ("foo", "--what-if foo: write KEY=VALUE$"),
    ):
        with pytest.raises(InputError, match=line):
            what_if(site, text)


def test_what_a_change_of_size_came_to_is_said(tmp_path: Path) -> None:
    """+25 % of 64 GPUs would be half a rack."""
    site = site_of(small(tmp_path), None, Flags(gpus=64), [])
    said = {
        "gpus=+25%": "1 more server in each rack: 80 GPUs",
        "gpus=+100%": "2 more racks: 128 GPUs",
        "gpus=32": "1 fewer rack: 32 GPUs",
        "gpus_per_server=4": "32 GPUs",
        "oversubscription=1": "",
    }
    assert {text: change_of_size(site, what_if(site, text)) for text in said} == said


def test_windows_are_drawn_from_all_over_the_log(tmp_path: Path) -> None:
    log = small(tmp_path, n=2000)
    site = site_of(log, None, Flags(gpus=16), [])
    drawn = windows(log, 12)
    assert drawn.side_by_side == int(log.span_s // drawn.counted_s) > 5
    assert len(set(drawn.spans)) == 12
    assert [guess for _, guess in drawn.in_turn(site)[:3]] == list(site.guesses)
    assert windows(log, 12).spans == drawn.spans  # one seed, one result
    assert drawn.words() == (
        "Windows: 12, drawn with replacement from the whole log (a moving-block bootstrap). Each begins at the "
        "submission of a job and counts the jobs of up to 12.5 h, after 3.12 h in which the queue settles; 13 fit side "
        "by side."
    )
    whole = windows(small(tmp_path, n=40), 3)
    assert "too short to draw any, so all of it is run, 3 times" in whole.words()
    whole.parts[0, site.middle_guess] = {}
    assert (whole.side_by_side, whole.under(site, (0, site.middle_guess)).count_from_s) == (1, 0.0)


def test_busy_times_are_drawn_as_often_as_they_concern_jobs(tmp_path: Path) -> None:
    """Nine of ten jobs come in the first tenth of the log, so that about nine of ten windows begin there."""
    path = tmp_path / "log.csv"
    times = [i * 10 for i in range(9000)] + [90_000 + i * 810 for i in range(1000)]
    path.write_text("submit_s,gpus,duration_s\n" + "".join(f"{t},1,60\n" for t in times))
    starts = [start for start, _ in windows(read_jobs(path, {}), 200).spans]
    assert 0.83 < sum(start < 90_000 for start in starts) / 200 < 0.97


def test_recorded_lengths_are_not_stretched_a_second_time(tmp_path: Path) -> None:
    """Jobs of 8 GPUs that are scattered over slow links. Taken for lengths alone, recorded lengths come out longer, as
    jobs share links; fitted, jobs run as long as recorded."""
    path = tmp_path / "log.csv"
    rows = [f"j{i},{600 * (i // 2)},8,3000" for i in range(12)]
    path.write_text("job_id,submit_s,gpus,duration_s\n" + "\n".join(rows) + "\n")
    log = read_jobs(path, {})
    flags = Flags(gpus=64, gpus_per_server=2, servers_per_rack=4, nic_gbps=5.0, oversubscription=4.0)
    site = site_of(log, None, flags, ["vgg16"])

    def over(parts: dict[str, float]) -> float:
        scenario = changed(site.middle, {"workload.trace": str(log.copy(shortened(log.frame, parts)))})
        return run_over_recorded(run_task(Run(scenario, Layers("fifo/rand"), 1, False)).jobs, log.frame)

    parts = fit(Fit(changed(site.middle, {"workload.trace": str(log.copy(log.frame))}), "fifo/rand", 1))
    assert over({}) > 1.2
    assert 0.93 < over(parts) < 1.07
    assert all(part <= 1.0 for part in parts.values())


def test_a_window_begins_with_what_was_running_and_waiting(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text(
        "job_id,submit_s,gpus,duration_s,wait_s\ndone,0,1,50,0\nruns,10,2,500,20\nwaits,20,4,9,90\nfirst,100,1,8,0\n"
        "inside,150,1,7,0\nlater,300,1,7,0\n"
    )
    window = read_jobs(path, {}).window(100.0, 200.0)
    assert window.select("job_id", "submit_s", "gpus", "duration_s").rows() == [
        ("runs", 100.0, 2, 430.0), ("waits", 100.0, 4, 9.0), ("first", 100.0, 1, 8.0), ("inside", 150.0, 1, 7.0)
    ]  # fmt: skip


def outcome(jct: float, stops: float = 0.0) -> dict[str, float]:
    more = dict.fromkeys(("jct_p99_s", "slowdown_p99", "worst_user", "wait_mean_s"), jct)
    return {"jct_mean_s": jct, "preemptions": stops, "unfinished": 0.0, **more}


def test_the_worse_half_drops_out_but_for_the_best_of_each_kind() -> None:
    def entrant(stack: str, jct: float, stops: float = 0.0, blind: bool = False) -> Entrant:
        return Entrant(stack, blind, [outcome(jct + k, stops) for k in range(3)])

    field = [entrant("today", 100.0), entrant("a", 50.0, 1.0), entrant("b", 51.0, 1.0), entrant("c", 52.0, 1.0),
             entrant("d", 60.0), entrant("e", 70.0, 1.0, blind=True), entrant("f", 80.0),
             entrant("g", 90.0)]  # fmt: skip
    _drop(field, last=False)
    assert [one.stack for one in field if not one.out] == ["today", "a", "b", "c", "d", "e"]
    assert score(field[1], field[0]) == pytest.approx(51 / 101, rel=0.01)
    assert ratios(field[1], field[0]) == pytest.approx([0.5, 51 / 101, 52 / 102])
    assert "worse half" in field[-1].out


def test_windows_of_one_log_put_nobody_behind_with_confidence() -> None:
    """Three windows that are all the same log say no more than one."""
    for independent, out in ((None, ["today", "a", "b", "c"]), (1, ["today", "a", "b", "c", "d"])):
        lengths = {"today": 100.0, "a": 50.0, "b": 51.0, "c": 52.0, "d": 60.0} | dict.fromkeys("efghi", 110.0)
        field = [Entrant(stack, False, [outcome(jct + k, 1.0) for k in range(3)]) for stack, jct in lengths.items()]
        _drop(field, last=False, independent=independent)
        assert [one.stack for one in field if not one.out] == out


def test_overlapping_windows_do_not_narrow_the_interval() -> None:
    values = [0.8, 0.9, 1.0, 1.1] * 3
    assert interval(values, 100)["ci95"] == pytest.approx(mean_and_interval(values)["ci95"])
    few = interval(values, 4)["ci95"]
    assert few[1] - few[0] > 1.5 * (interval(values, 100)["ci95"][1] - interval(values, 100)["ci95"][0])
    assert interval(values, 1)["ci95"] == [None, None]


def test_the_replay_says_how_far_to_trust_it_and_when_the_queue_grows(tmp_path: Path) -> None:
    log = small(tmp_path, n=120, waits=True)
    site = site_of(log, None, Flags(gpus=16), ["resnet50"])
    calm = replay(log, site, "fifo", 1)
    assert calm.waits is not None
    assert calm.waits["recorded"]["mean"] == 60.0
    assert not calm.grows
    assert "the log records 60.0 s" in calm.sentences()[0]
    heavy = small(tmp_path, n=120, length_s=4000)
    flooded = replay(heavy, site_of(heavy, None, Flags(gpus=8), ["resnet50"]), None, 1)
    assert flooded.load > 1.5
    assert flooded.grows
    assert flooded.waits is None
    assert "the queue keeps growing" in flooded.sentences()[2]
    assert "records no waits" in flooded.sentences()[0]


def test_short_jobs_behind_long_ones_want_shortest_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    """Under FIFO without backfill every short job waits behind a wide one that does not fit: anybody else is better."""
    monkeypatch.setenv("WEFT_RESULTS_MB", "50")
    monkeypatch.setattr("weft.results.store.results_folder", lambda: tmp_path / "results")
    path = log_file(tmp_path / "log.csv", n=480, length_s=700)
    args = ["advise", str(path), "--gpus", "8", "--models", "resnet50", "--today", "fifo", "--only", "--stack", "srsf",
            "--stack", "fifo-backfill", "--what-if", "gpus=16", "--quick", "--workers", "1"]  # fmt: skip
    report = tmp_path / "advice.html"
    assert run([*args, "--json", "--report", str(report)]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["race"]["reference"] == "fifo"
    assert found["race"]["recommended"] in ("srsf", "fifo-backfill")
    best = found["race"]["stacks"][0]
    assert best["over_today"]["mean"] < 0.9
    assert len(found["verdict"]) == 4
    assert found["verdict"][0].startswith(f"Run {found['race']['recommended']} instead of fifo")
    assert found["verdict"][1].startswith(("The price: ", "No price was seen: "))
    assert found["verdict"][2].startswith("What it hangs on: ")
    twice = {row["stack"]: row["over_today"]["mean"] for row in found["what_if"][0]["stacks"]}
    assert twice["fifo"] < 1.0  # twice the GPUs, the same jobs
    assert found["understood"]["what_if"] == {"gpus=16": "1 more rack: 16 GPUs"}
    assert found["verdict"][3].startswith("With gpus=16 (1 more rack: 16 GPUs) fifo comes to 0.")
    html = report.read_text()
    assert "With gpus=16 (" in html
    assert html.index("Run ") < html.index("What was understood")  # the report opens with the verdict
    assert run(args) == 0
    printed = capsys.readouterr().out
    assert "What it hangs on" in printed
    assert "Windows: 6, drawn with replacement" in " ".join(printed.split())
    assert f"weft serve --stack '{found['race']['recommended']}'" in printed


def test_progress_is_that_of_all_steps_together(tmp_path: Path) -> None:
    """The time left follows from it. With models given there is one guess, and no step that asks each."""
    told: list[tuple[str, int, int]] = []
    request = Request(flags=Flags(gpus=16), models=("resnet50",), today="fifo", stacks=("srsf",), only=True,
                      rounds=(2, 1), what_ifs=("gpus=32", "oversubscription=1"), workers=1)  # fmt: skip
    advise(log_file(tmp_path / "log.csv", n=40), request, lambda *words: told.append(words))
    assert list(dict.fromkeys(name for name, _, _ in told)) == [
        "replaying what happened (step 1 of 4)", "fitting lengths (step 2 of 4)", "racing stacks (step 3 of 4)",
        "what if (step 4 of 4)",
    ]  # fmt: skip
    percent = [done for _, done, _ in told]
    assert percent == sorted(percent)
    assert (percent[0], percent[-1]) == (0, 100)
    assert {total for _, _, total in told} == {100}


def test_one_window_has_no_interval_under_any_guess(tmp_path: Path) -> None:
    """A log that is one window long says the same in all windows: that is no certainty."""
    request = Request(flags=Flags(gpus=16), today="fifo", stacks=("srsf",), only=True, rounds=(2,), workers=1)
    advice = advise(log_file(tmp_path / "log.csv", n=40), request)
    assert advice.drawn.side_by_side == 1
    found = advice.to_dict()["race"]["under_each_guess"]
    assert len(found) == 3
    assert all(row["ci95"] == [None, None] for row in found.values())


def test_where_nothing_is_better_the_advice_is_to_stay(tmp_path: Path) -> None:
    """Jobs that never wait finish at the same time in any order."""
    path = tmp_path / "idle.csv"
    path.write_text("submit_s,gpus,duration_s\n" + "".join(f"{i * 2000},1,500\n" for i in range(40)))
    request = Request(flags=Flags(gpus=16), models=("resnet50",), today="fifo", stacks=("srsf", "sjf"), only=True,
                      rounds=(2, 2), workers=1)  # fmt: skip
    advice = advise(path, request)
    assert advice.best is advice.reference
    assert advice.sentences()[0].startswith("Stay with fifo")


def test_interrupted_advice_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    """The second time nothing is run: every outcome was kept."""
    from weft.advise.race import Task

    module = importlib.import_module("weft.advise.race")  # the package has a function of that name
    monkeypatch.setenv("WEFT_RESULTS_MB", "50")
    monkeypatch.setattr("weft.results.store.results_folder", lambda: tmp_path / "results")
    path = log_file(tmp_path / "log.csv", n=40)
    args = ["advise", str(path), "--gpus", "8", "--models", "resnet50", "--today", "fifo", "--only", "--stack", "srsf",
            "--quick", "--workers", "1", "--json"]  # fmt: skip
    assert run(args) == 0
    first = capsys.readouterr().out

    def never(task: Task) -> dict[str, float]:
        raise AssertionError(f"{task.stack} was run again")

    monkeypatch.setattr(module, "attempt", never)
    assert run(args) == 0
    assert capsys.readouterr().out == first


def test_a_stack_that_does_not_exist_is_an_error(tmp_path: Path, capsys: Capture) -> None:
    path = log_file(tmp_path / "log.csv", n=40)
    assert run(["advise", str(path), "--gpus", "8", "--only", "--stack", "nosuchstack", "--quick"]) == 2
    assert "nosuchstack" in capsys.readouterr().err


def test_what_is_left_out_is_said(tmp_path: Path) -> None:
    """Every fifth job wants 8 of 4 GPUs: the advice says so, and the replay counts the others only."""
    request = Request(
        flags=Flags(gpus=4, gpus_per_server=4), models=["resnet50"], stacks=["fifo"], only=True, rounds=(2,), workers=1
    )
    advice = advise(log_file(tmp_path / "log.csv", n=40), request)
    assert "8 jobs ask for more than 4 GPUs and are left out" in advice.to_dict()["understood"]["assumed"]
    assert advice.replayed.sentences()[-1].startswith("32 of 40 jobs ask for")


def test_a_log_of_jobs_that_do_not_fit_is_refused(tmp_path: Path) -> None:
    """Four of five jobs ask for 8 GPUs or more: the wrong column, most likely."""
    path = tmp_path / "log.csv"
    path.write_text("submit_s,gpus,duration_s\n" + "".join(f"{i},{1 if i % 5 == 0 else 8},60\n" for i in range(20)))
    with pytest.raises(InputError, match="16 of 20 jobs ask for more than the cluster's 4 GPUs; correct --gpus"):
        advise(
            path,
            Request(
                flags=Flags(gpus=4, gpus_per_server=4), models=["resnet50"], stacks=["fifo"], only=True, rounds=(2,)
            ),
        )


def test_a_single_window_gives_no_firm_advice(tmp_path: Path) -> None:
    """There is no interval, so that even a clear winner is something to consider."""
    request = Request(flags=Flags(gpus=8), models=["resnet50"], today="fifo", stacks=["srsf"], only=True, rounds=(2,),
                      workers=1)  # fmt: skip
    advice = advise(log_file(tmp_path / "log.csv", n=60, length_s=900), request)
    assert advice.drawn.side_by_side == 1
    assert advice.best.stack == "srsf"
    first, _, last = advice.sentences()
    assert first.startswith("Consider srsf instead of fifo")
    assert "too short for an interval" in first
    assert "a single window" in last


def test_of_equally_good_stacks_the_least_demanding_is_recommended(tmp_path: Path) -> None:
    """The one that stops no job, though another is better by 1 %; one that is better by 5 % is taken all the same."""
    log = small(tmp_path, n=40)
    site = site_of(log, None, Flags(gpus=16), ["resnet50"])
    happened = replay(log, site, "fifo", 1)
    today = Entrant("today", True, [outcome(100.0)] * 3)
    calm, stopping = Entrant("calm", False, [outcome(50.5)] * 3), Entrant("stopping", False, [outcome(50.0, 1.0)] * 3)

    def advice(*others: Entrant) -> Advice:
        return Advice(log, site, happened, windows(log, 3), Race((today, *others), (), {}), {})

    assert advice(stopping, calm).best is calm
    assert "(stopping is as good, 0.50" in advice(stopping, calm).sentences()[0]
    assert "but stops jobs" in advice(stopping, calm).sentences()[0]
    slower = Entrant("slower", False, [outcome(52.5)] * 3)
    assert advice(stopping, slower).best is stopping
    assert "is as good" not in advice(stopping, slower).sentences()[0]


def test_waits_that_are_far_off_are_said_to_be_so_on_either_side() -> None:
    assert [trust(a, b)[1].split()[0] for a, b in ((100, 110), (100, 190), (100, 300), (300, 100), (90_000, 0))] == [
        "close", "of", "far", "far", "far"
    ]  # fmt: skip


def test_the_shortlist_takes_what_the_registry_has(tmp_path: Path) -> None:
    from weft.advise.race import SHORTLIST, entrants
    from weft.stacks import names, resolve

    site = site_of(small(tmp_path, n=40), None, Flags(gpus=16), [])
    running, refused = entrants(site, SHORTLIST, ["fifo"])
    stacks = [one.stack for one in running]
    assert SHORTLIST[0] == "weft"
    assert ("weft" in stacks) == ("weft" in names())
    assert stacks[0] == "fifo"
    assert not set(stacks) & set(refused)
    assert next(one for one in running if one.stack == "las/delay").blind
    assert not any(resolve(stack).planner.shares_gpus for stack in stacks)  # a run would take minutes
    assert not next(one for one in running if one.stack == "srsf").blind
    assert not next(one for one in running if one.stack == "weft").blind  # it goes by lengths where they are known


def test_a_window_begins_with_the_queue_of_the_replay_where_no_wait_is_recorded(tmp_path: Path) -> None:
    """Two jobs of 1,000 s come at 0 and 10 s to one GPU. At 500 s one has 500 s left, and the other still waits."""
    path = tmp_path / "log.csv"
    path.write_text("job_id,submit_s,gpus,duration_s\na,0,1,1000\nb,10,1,1000\nc,2000,1,10\n")
    log = read_jobs(path, {})
    assert log.window(500.0, 600.0)["duration_s"].to_list() == [500, 510]
    queued = replace(log, replayed_s={"a": 0.0, "b": 990.0})
    assert queued.window(500.0, 600.0)["duration_s"].to_list() == [500, 1000]
    assert log.load_by_day(1) == [pytest.approx(2010 / 86_400)]


def test_work_counts_on_the_days_on_which_it_is_done(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text(f"job_id,submit_s,gpus,duration_s\na,0,2,{2 * 86_400}\nb,{3 * 86_400},1,60\n")
    assert read_jobs(path, {}).load_by_day(2) == [1.0, 1.0, 0.0, pytest.approx(30 / 86_400)]


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (["--only"], "--only: name at least one stack"),
        (["--today", "slurm"], "slurm"),
        (["--models", "bananas"], "bananas"),
    ],
)
def test_what_cannot_be_is_said_before_anything_is_replayed(
    more: list[str], words: str, tmp_path: Path, capsys: Capture
) -> None:
    assert run(["advise", str(log_file(tmp_path / "log.csv")), "--gpus", "8", *more]) == 2
    said = capsys.readouterr().err
    assert words in said
    assert "replaying" not in said


def test_a_log_with_room_for_one_window_is_one_window_and_all_of_it_counts(tmp_path: Path) -> None:
    """Jobs last for 0.6 of the log on average: a second window would not fit beside the first."""
    path = tmp_path / "log.csv"
    path.write_text("job_id,submit_s,gpus,duration_s\n" + "".join(f"j{i},{i},1,600\n" for i in range(1001)))
    drawn = windows(read_jobs(path, {}), 3)
    assert (drawn.side_by_side, drawn.counted_s) == (1, 1000.0)
    assert drawn.spans == ((0.0, 1000.0),) * 3
