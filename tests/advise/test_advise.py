import importlib
import json
from dataclasses import replace
from pathlib import Path

import pytest

from tests.advise.logs import log_file, outcome, small
from weft.advise import Flags, Request, advise
from weft.advise.further import go_on
from weft.advise.jobs import read_jobs
from weft.advise.lengths import fit, run_over_recorded, shortened, to_fit
from weft.advise.race import Entrant, Race, windows
from weft.advise.replayed import Replayed, replay, trust
from weft.advise.site import site_of
from weft.advise.verdict import Advice
from weft.cli.main import run
from weft.errors import InputError
from weft.runs.run import Task as Run
from weft.runs.run import run_task
from weft.scenario.build import Layers
from weft.scenario.changes import changed

Capture = pytest.CaptureFixture[str]


def test_a_handful_of_jobs_is_no_log(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="9 of 9 rows are finished GPU jobs; advice needs 10 at least"):
        advise(log_file(tmp_path / "log.csv", n=9), Request())


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

    parts = fit(to_fit(changed(site.middle, {"workload.trace": str(log.copy(log.frame))}), "fifo/rand", 1))
    assert over({}) > 1.2
    assert 0.93 < over(parts) < 1.07
    assert all(part <= 1.0 for part in parts.values())


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
    assert found["verdict"][2].startswith("What it depends on: ")
    twice = {row["stack"]: row["over_today"]["mean"] for row in found["what_if"][0]["stacks"]}
    assert twice["fifo"] < 1.0  # twice the GPUs, the same jobs
    assert found["understood"]["what_if"] == {"gpus=16": "1 more rack: 16 GPUs"}
    assert found["verdict"][3].startswith("With gpus=16 (1 more rack: 16 GPUs) fifo comes to 0.")
    html = report.read_text()
    assert "With gpus=16 (" in html
    assert html.index("Run ") < html.index("What was understood")  # the report opens with the verdict
    assert run(args) == 0
    printed = capsys.readouterr().out
    assert "What it depends on" in printed
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
    module = importlib.import_module("weft.advise.race")  # the package has a function of that name
    monkeypatch.setenv("WEFT_RESULTS_MB", "50")
    monkeypatch.setattr("weft.results.store.results_folder", lambda: tmp_path / "results")
    path = log_file(tmp_path / "log.csv", n=40)
    args = ["advise", str(path), "--gpus", "8", "--models", "resnet50", "--today", "fifo", "--only", "--stack", "srsf",
            "--quick", "--workers", "1", "--json"]  # fmt: skip
    assert run(args) == 0
    first = capsys.readouterr().out

    def never(task: Run) -> dict[str, float]:
        raise AssertionError(f"{task.layers.stack} was run again")

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
    assert trust(100, 110, 0.1)[1] != trust(100, 110, 0.9)[1]  # other jobs wait than waited
    assert trust(10, 20, 0.0)[1] == trust(10, 20, 0.9)[1]  # hardly any does


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


def test_further_windows_run_while_the_interval_is_open_and_there_is_time(tmp_path: Path) -> None:
    """With no time the windows are those of today; with some, two more at each look at the clock, and the first ones
    stay what they were. An interval that is closed asks for none."""
    request = Request(flags=Flags(gpus=16), models=("resnet50",), today="fifo", stacks=("sjf",), only=True,
                      rounds=(2,), minutes=0.0, workers=1)  # fmt: skip
    closed = advise(log_file(tmp_path / "log.csv", n=1200), request, clock_s=lambda: 0.0)
    assert (closed.decided, closed.has_room, len(closed.race.replicates)) == (True, True, 2)
    assert closed.further.startswith("Decided: after 2 windows")
    rival = closed.race.entrants[1]
    rival.outcomes[0] = {**rival.outcomes[0], "jct_mean_s": 3 * rival.outcomes[0]["jct_mean_s"]}
    none = go_on(replace(closed, further=""), 2, 0.0, lambda: 0.0, 1, lambda done, total: None)
    assert (none.decided, len(none.race.replicates)) == (False, 2)
    assert none.further.startswith("Not decided in 0 min: after 2 windows")
    first = list(none.reference.outcomes)
    seconds = iter((40.0, 80.0))
    some = go_on(none, 2, 1.0, lambda: next(seconds), 1, lambda done, total: None)
    assert [len(one.outcomes) for one in some.race.entrants] == [4, 4]
    assert some.reference.outcomes[:2] == first
    assert some.drawn.spans == windows(some.log, 4).spans
    assert some.sentences()[3] == some.further
    assert some.to_dict()["race"]["decided"] == some.decided


def test_an_interval_decides_beside_1_or_within_2_percent_of_it(tmp_path: Path) -> None:
    log = small(tmp_path, n=2000)
    site = site_of(log, None, Flags(gpus=16), ["resnet50"])
    happened = Replayed("today", 1, 1, 1.0, False, None, 1.0, (0.0,))

    def decided(*ratios: float) -> bool:
        today = Entrant("today", True, [outcome(100.0)] * len(ratios))
        other = Entrant("other", True, [outcome(100.0 * ratio) for ratio in ratios])
        return Advice(log, site, happened, windows(log, len(ratios)), Race((today, other), (), {}), {}).decided

    assert [decided(0.5, 0.51, 0.52), decided(1.5, 1.51, 1.52), decided(0.999, 1.0, 1.001)] == [True] * 3
    assert [decided(0.5, 1.0, 1.2), decided(0.9, 1.0, 1.1), decided(0.5)] == [False] * 3


def test_a_log_without_room_for_further_windows_is_said_to_decide_nothing(tmp_path: Path) -> None:
    request = Request(flags=Flags(gpus=8), models=["resnet50"], today="fifo", stacks=["srsf"], only=True, rounds=(2,),
                      minutes=60.0, workers=1)  # fmt: skip
    advice = advise(log_file(tmp_path / "log.csv", n=60, length_s=900), request)
    assert (advice.drawn.side_by_side, len(advice.race.replicates), advice.decided) == (1, 2, False)
    assert advice.further.startswith("Not decided, and further windows cannot decide: 1 window side by side")
