from pathlib import Path

import pytest

from live.tests.testbed.needs import need_testbed
from weft.cli.main import run
from weft.errors import InputError
from weft.network.topologies import Machine, leaf_spine
from weft.workload import zoo
from weft_live.testbed.build import Links, Testbed
from weft_live.testbed.jobs import Replay
from weft_live.testbed.plan import blueprint

need_testbed()

SCENARIO = Path(__file__).parents[3] / "examples" / "ddp" / "two-racks.toml"
ONE, TWO = ["--job", "alexnet@s0,s2"], ["--job", "alexnet@s0,s2", "--job", "alexnet@s1,s3"]
SLEEP = ["--job", "sleep 100@s0,s2"]


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (["--job", "alexnet"], "write a model and its servers"),
        (["--job", "@s0,s2"], "write a model and its servers"),
        (["--job", "python 'x.py@s0,s2"], "no closing quotation"),
        (["--job", "alexnet@s0,s9"], "no server 's9'"),
        (["--job", "alexnet@s0"], "two servers or more"),
        (["--job", "alexnet@s0,s0"], "s0 is named twice"),
        (["--job", "alexnot@s0,s2"], "alexnot"),
        (["--job", "resnet50[parallel=parameter-server,apart=true]@s0,s2"], "either a ring or a parameter-server"),
        ([*ONE, "--foreign", "s0"], "write two servers"),
        ([*ONE, "--foreign", "s0-s0"], "s0 is named twice"),
        ([*ONE, "--foreign", "s0-s9"], "no server 's9'"),
        ([*ONE, "--pace", "nothing"], "nothing"),
        ([*ONE, "--pace", "tcp:cubic"], "senders do that by themselves"),
        ([*ONE, "--shift"], "give two jobs or more"),
        ([*TWO, "--outside"], "add --shift"),
        ([*TWO, "--slot-ms", "10"], "no agents run"),
        ([*SLEEP, *ONE, "--shift"], "add --outside"),
        ([*SLEEP, "--jitter", "0.1"], "leave --jitter out"),
        ([*ONE, "--patience", "10"], "no job is a command"),
        ([*ONE, "--plot", "/proc/none/p.png"], "cannot write the picture"),
        ([*ONE, "--plot", "p.xyz"], "name a file such as p.png"),
        ([*ONE, "--control", "vegas-xyz"], "this kernel has no vegas-xyz"),
        ([*ONE, "--control", "vegas-xyz@s0"], "this kernel has no vegas-xyz"),
        ([*ONE, "--control", "reno@s9"], "no server 's9'"),
        ([*ONE, "--control", "reno@s0-s9"], "no server 's9'"),
        ([*ONE, "--control", "cubic", "--control", "reno"], "write reno@s0 or reno@s0-s2"),
    ],
)
def test_what_is_wrong_is_said_in_one_line_before_anything_runs(
    argv: list[str], words: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("weft_live.testbed.build.Testbed.start", None)  # nobody gets that far
    assert run(["testbed", "run", str(SCENARIO), *argv]) == 2
    said = capsys.readouterr().err
    assert words in said
    assert said.count("\n") == 1


def test_what_cannot_be_replayed_is_refused() -> None:
    apart = zoo.profile("resnet50[parallel=parameter-server,apart=true]", 4)
    with pytest.raises(InputError, match="communicates by parameter-server-apart; either a ring or a parameter-server"):
        Replay("a", apart, (0, 1, 2, 3), 3).tasks(125.0)


def test_what_the_kernel_lacks_is_refused_in_words() -> None:
    with pytest.raises(InputError, match="this kernel has no vegas-xyz; it has"):
        Testbed(blueprint(leaf_spine(1, 2, Machine(nic_gbps=50.0)), 125.0), Links(control="vegas-xyz"))
