"""Trials: what `weft testbed run` does, prints and refuses."""

from __future__ import annotations

import json
import sys
import threading
import time
from pathlib import Path

import pytest

from live.tests.testbed.needs import need_testbed
from weft.cli.main import run
from weft.scenario import Scenario
from weft.scenario.build import build_cluster
from weft_live.agent.sockets import UNLIMITED, Process
from weft_live.testbed import replay
from weft_live.testbed.build import Links
from weft_live.testbed.plan import blueprint
from weft_live.testbed.trials import Settings, trial

need_testbed()
pytestmark = pytest.mark.testbed

SCENARIO = Path(__file__).parents[3] / "examples" / "ddp" / "two-racks.toml"
TRAINER = (sys.executable, str(Path(__file__).with_name("trainer.py")), str(Path(replay.__file__).parent), "-")


class Watch:
    """What the kernel allows the sockets of trainers, looked at again and again."""

    def __init__(self, word: str) -> None:
        self.word, self.limits, self.over = word.encode(), set[int](), threading.Event()
        self.thread = threading.Thread(target=self._look)

    def _look(self) -> None:
        while not self.over.wait(0.02):
            for process in Path("/proc").glob("[0-9]*/cmdline"):
                try:
                    if self.word in process.read_bytes():
                        there = Process(int(process.parent.name))
                        self.limits |= {socket.paced() for socket in there.sockets({}).values()}
                        there.close()
                except OSError:
                    continue

    def __enter__(self) -> Watch:
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.over.set()
        self.thread.join()


def test_scripts_are_shifted_from_outside(tmp_path: Path) -> None:
    """Agents hold the scripts' sockets. By its own log a script that is held communicates already, so its log does not
    show the shift."""
    cluster = build_cluster(Scenario.load(SCENARIO), None)
    command = (*TRAINER, "6", "1250000", "0.1", str(tmp_path))  # the last word is for the watch alone
    settings = Settings(iterations=6, slot_s=0.01, shift=True, outside=True)
    jobs = [("a", command, (0, 2)), ("b", command, (1, 3))]
    with Watch(str(tmp_path)) as seen:
        outcome = trial(cluster, blueprint(cluster, 125.0), Links(), jobs, settings)
    assert list(outcome.phases) == ["alone", "together", "shifted"]
    assert outcome.fits
    assert UNLIMITED in seen.limits
    assert min(seen.limits) <= 500_000  # a fiftieth of 200 Mbit/s; less where several sockets share it
    assert all(0.14 < timing.median_s < 0.3 for timing in outcome.phases["alone"].values())
    assert all(len(timing.rows) == 6 for timings in outcome.phases.values() for timing in timings.values())


def test_a_run_by_the_command_line_paced_by_agents_says_what_others_got(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("weft_live.testbed.trials._FOREIGN_S", 1.0)
    jobs = ["--job", "resnet50@s0,s2", "--job", "resnet50@s1,s3"]
    picture = tmp_path / "p.svg"
    more = ["--iterations", "3", "--pace", "priority", "--slot-ms", "20", "--foreign", "s1-s3", "--foreign", "s1-s3"]
    assert run(["testbed", "run", str(SCENARIO), *jobs, *more, "--plot", str(picture), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert set(found["jobs"]) == {"0 resnet50", "1 resnet50"}
    for row in found["jobs"].values():
        assert row["paced_s"] > 0.0 < row["alone_s"]
        assert row["together_times"] == pytest.approx(row["together_s"] / row["alone_s"])
    assert set(found["foreign"]) == {"0 s1-s3", "1 s1-s3"}
    alone = [flow["alone_bytes_per_s"] for flow in found["foreign"].values()]
    assert sum(alone) == pytest.approx(25e6, rel=0.15)  # the link between the racks is theirs
    assert min(alone) > 1e6
    for phase in ("together", "paced"):
        assert 1e6 < sum(flow[f"{phase}_bytes_per_s"] for flow in found["foreign"].values()) < 0.95 * sum(alone)
    drawn = picture.read_text()
    assert all(f"communication, {phase}" in drawn for phase in ("alone", "together", "paced"))


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("python -c pass", "ended without a log: a script opens the file that WEFT_LOG names"),
        ("sleep 100", "has no log after 1 s (--patience): a script opens"),
        ("python -c 'raise SystemExit(3)'", "failed with code 3"),
        ('python -c \'import os; open(os.environ["WEFT_LOG"], "w")\'', "has fewer than 2 lines of four times"),
        ('python -c \'import os; open(os.environ["WEFT_LOG"], "w").write("x")\'', "cannot be read"),
    ],
)
def test_a_script_without_a_log_is_told_what_was_expected(
    command: str, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    began = time.monotonic()
    assert run(["testbed", "run", str(SCENARIO), "--job", f"{command}@s0,s2", "--patience", "1"]) == 2
    assert time.monotonic() - began < 50.0  # it would wait for 60 s
    said = capsys.readouterr().err
    assert words in said
    assert said.count("\n") == 1
