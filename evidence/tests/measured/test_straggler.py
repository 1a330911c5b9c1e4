import gzip
import json
import os
from pathlib import Path

import pytest

from weft.cli.main import run
from weft.errors import InputError
from weft_evidence.measured import errors, straggler

# Two stages, two micro-batches, one data-parallel rank, times in seconds: an operation, its stage and number, start and
# length. Stage 0 computes f0 f1 b0 b1, stage 1 f0 b0 f1 b1; a transfer takes half a second once both sides are there.
OPS = """
f 0 0 0 1.0
f 0 1 1 1.0
fs 0 0 1 0.5
fr 1 0 0 1.5
f 1 0 1.5 2.0
b 1 0 3.5 2.0
fs 0 1 2 0.5
fr 1 1 1.5 1.0
f 1 1 5.5 1.0
b 1 1 6.5 2.0
bs 1 0 5.5 0.5
br 0 0 2 4.0
b 0 0 6 2.0
bs 1 1 8.5 0.5
br 0 1 6 3.0
b 0 1 9 2.0
opt 0 0 11 0.5
opt 1 0 8.5 0.5
"""


def table(folder: Path, text: str = OPS, steps: int = 1) -> Path:
    lines = [line.split() for line in text.strip().splitlines()]
    rows = [
        f"{op},{stage},0,{step},{i},{float(start) * 1e6},{float(length) * 1e6}"
        for step in range(steps)
        for op, stage, i, start, length in lines
    ]
    path = folder / "toy.ops.csv"
    path.write_text("\n".join([",".join(straggler.COLUMNS), *rows]))
    return path


def test_by_hand(tmp_path: Path) -> None:
    """One chain is f0 (1), send (0.5), f0 (2), b0 (2), f1 (1), b1 (2), send (0.5), b1 (2) and opt (0.5): 11.5 s."""
    (step,) = straggler.read(table(tmp_path)).steps.values()
    assert float(step.replayed_s(step.seconds)) == pytest.approx(11.5)
    assert step.played_s() == pytest.approx(11.5)


def test_without_stragglers(tmp_path: Path) -> None:
    """Forward passes take 1.25 s on average, so the chain takes 11.25; 11.5 where those of stage 1 are as recorded, and
    11 where those of stage 0 are."""
    trace = straggler.read(table(tmp_path))
    assert trace.ideal["f"] == pytest.approx(1.25)
    assert trace.slowdown() == pytest.approx(11.5 / 11.25)
    assert trace.what_if("op")["forward-compute"] == pytest.approx(11.5 / 11.25)
    assert trace.what_if("op")["backward-compute"] == pytest.approx(1.0)
    assert trace.what_if("stage") == pytest.approx({"0": 11.0 / 11.25, "1": 11.75 / 11.25})
    assert trace.what_if("dp") == pytest.approx({"0": 11.5 / 11.25})


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table(tmp_path, steps=2)
    told = {
        "steps": [{"step": 0, "no_delay_s": 11.5}, {"step": 1, "no_delay_s": 10.0}], "blocking_slowdown": 11.5 / 11.25,
        "blocking_by_optype": {"backward-compute": 1.0, "gc": 1.0}, "blocking_by_stage": {}, "blocking_by_dp_rank": {},
    }  # fmt: skip
    (tmp_path / "toy.published.json").write_bytes(gzip.compress(json.dumps(told).encode()))
    picture = tmp_path / "all.svg"
    assert run(["validate", "straggler", "--data", str(tmp_path), "--json", "--plot", str(picture)]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [row["id"] for row in found["rows"]] == [
        "toy.step-0", "toy.step-1", "toy.slowdown", "toy.op-backward-compute",
    ]  # fmt: skip
    assert found["errors"]["replayed steps"]["worst"] == pytest.approx(0.15)
    assert found["errors"]["slowdowns"]["worst"] == pytest.approx(0.0, abs=1e-12)
    assert not any(row["fitted"] for row in found["rows"])
    assert "<svg" in picture.read_text()
    assert run(["validate", "straggler", "--data", str(tmp_path), "--what-if", "op", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["toy"]["forward-compute"] == pytest.approx(11.5 / 11.25)


HEADER = ",".join(straggler.COLUMNS)
TURNED = (
    "\nb,0,0,0,0,0,1\nf,0,0,0,0,1,1\nfs,0,0,0,0,1,1\nfr,1,0,0,0,0,1\nf,1,0,0,0,1,1\nb,1,0,0,0,2,1"
    "\nbs,1,0,0,0,3,1\nbr,0,0,0,0,0,1"
)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("op,stage\nf,0\n", "no column dp, step"),
        (f"{HEADER}\nq,0,0,0,0,1,1\n", "operation q"),
        (f"{HEADER}\nf,x,0,0,0,1,1\n", "toy.ops.csv"),
        (HEADER + TURNED, "wait for each other"),  # the backward pass begins before the forward pass that it is of
        ("", "no table"),
    ],
)
def test_what_is_no_trace_is_refused(text: str, words: str, tmp_path: Path) -> None:
    (tmp_path / "toy.ops.csv").write_text(text)
    with pytest.raises(InputError, match=words):
        straggler.read(tmp_path / "toy.ops.csv")


@pytest.mark.parametrize(
    "args",
    [["nothing"], ["straggler", "--data", "/nowhere"], ["straggler", "--quick"], ["testbed", "--what-if", "op"]],
)
def test_refusals(args: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["validate", *args]) == 2
    assert len(capsys.readouterr().err.strip().splitlines()) == 1


def test_an_empty_folder_and_an_unknown_question(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["validate", "straggler", "--data", str(tmp_path)]) == 2
    table(tmp_path)
    assert run(["validate", "straggler", "--data", str(tmp_path)]) == 2
    assert "--what-if" in capsys.readouterr().err
    assert run(["validate", "straggler", "--data", str(tmp_path), "--what-if", "stages"]) == 2
    assert "stage" in capsys.readouterr().err


@pytest.mark.long
@pytest.mark.skipif("WEFT_TRACES" not in os.environ, reason="WEFT_TRACES is not set")
def test_recorded_steps_come_out_as_published() -> None:
    found = errors(straggler.rows(Path(os.environ["WEFT_TRACES"]) / "straggler", lambda _: None))
    assert found["replayed steps"]["worst"] < 1e-3
    assert found["slowdowns"]["worst"] < 1e-3
    assert found["slowdowns by stage"]["worst"] < 1e-3
    assert found["slowdowns by dp"]["p90"] < 1e-3
