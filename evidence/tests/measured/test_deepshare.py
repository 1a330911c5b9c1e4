"""Pairs of jobs on one network: what is read, what weft says of pairs that can be solved on paper."""

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from weft.cli.main import run
from weft.errors import InputError
from weft_evidence.measured import deepshare
from weft_evidence.measured.deepshare import Pairs, Run, constants

FSDP, MOE, DLRM = Run("FSDP", 2, 2), Run("MoE", 2, 2), Run("DLRM", 2, 2)
RATE = constants().nic_bytes_per_s
SENT = {FSDP: 740e6 / RATE, MOE: 1076e6 / RATE}  # seconds of a step of two GPUs that only send
TOLD = replace(constants(), host_loss=dict.fromkeys(constants().sent_bytes, 0.0), jitter=0.0)


def test_jobs_that_only_send_share_by_weight() -> None:
    """With weights v and w they have v / (v + w) and w / (v + w) of their speed alone; two equal ones a half each."""
    told = replace(TOLD, link_weight={**TOLD.link_weight, "FSDP": 1.0, "MoE": 0.5})
    weft = Pairs(SENT, told)
    assert weft.ratio(FSDP, MOE) == pytest.approx(2 / 3, rel=0.03)
    assert weft.ratio(MOE, FSDP) == pytest.approx(1 / 3, rel=0.03)
    assert weft.ratio(FSDP, FSDP) == pytest.approx(0.5, rel=0.03)


def test_a_job_alone_is_as_measured() -> None:
    """Computing and sending add up to the step, and two GPUs of a large model send its bytes once."""
    weft = Pairs({FSDP: 1.0, Run("FSDP", 8, 4): 1.5, DLRM: 0.008}, TOLD)
    assert weft.parts(FSDP) == pytest.approx((1.0 - SENT[FSDP], SENT[FSDP]))
    assert sum(weft.parts(Run("FSDP", 8, 4))) == pytest.approx(1.5)
    assert weft.parts(DLRM)[1] == pytest.approx(TOLD.exposed * 1.9e6 / RATE)


def test_a_host_takes_its_part() -> None:
    weft = Pairs(SENT, replace(TOLD, host_loss={**TOLD.host_loss, "FSDP": 0.2}))
    assert weft.ratio(FSDP, FSDP) == pytest.approx(0.8 * 0.5, rel=0.03)


def data(folder: Path) -> Path:
    (folder / "isolated.csv").write_text(
        "model,gpus,nodes,step_s,kind\nFSDP,2,2,0.93,measured\nMoE,2,2,1.3,measured\nMoE,4,2,1.8,measured\n"
    )
    (folder / "pairs.csv").write_text(
        "model,gpus,nodes,other_model,other_gpus,other_nodes,ratio,kind\nFSDP,2,2,MoE,2,2,0.7,measured\n"
        "MoE,4,2,FSDP,2,2,0.5,measured_at_1\nFSDP,2,2,MoE,4,2,0.6,measured\nMoE,2,2,MoE,8,8,0.1,extrapolated\n"
    )
    return folder


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What is extrapolated is left out; pairs of equal GPUs and nodes count as fitted, and not in the errors."""
    assert run(["validate", "deepshare", "--data", str(data(tmp_path)), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [(row["id"], row["measured"], row["fitted"]) for row in found["rows"]] == [
        ("FSDP.2x2+MoE.2x2", 0.7, True), ("MoE.4x2+FSDP.2x2", 0.5, False), ("FSDP.2x2+MoE.4x2", 0.6, False),
    ]  # fmt: skip
    off = [abs(row["predicted"] - row["measured"]) for row in found["rows"] if not row["fitted"]]
    assert found["summary"]["mean absolute error"] == pytest.approx(sum(off) / 2)
    assert found["constants"]["nic_gbps"]["range"]


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("isolated.csv", None, "isolated.csv"),
        ("pairs.csv", "model,gpus\nFSDP,2\n", "no column nodes"),
        ("isolated.csv", "model,gpus,nodes,step_s,kind\nFSDP,2,2,0.93,measured\n", "MoE"),
    ],
)
def test_what_is_no_data_is_refused(name: str, text: str | None, words: str, tmp_path: Path) -> None:
    path = data(tmp_path) / name
    path.unlink() if text is None else path.write_text(text)
    with pytest.raises(InputError, match=words):
        list(deepshare.rows(tmp_path, lambda _: None))


def test_every_constant_lies_in_its_range() -> None:
    for name, told in deepshare.CONSTANTS.items():
        if isinstance(told, dict) and "range" in told:
            values = told["value"].values() if isinstance(told["value"], dict) else [told["value"]]
            assert all(told["range"][0] <= value <= told["range"][1] for value in values), name
            assert told["source"]


@pytest.mark.long
@pytest.mark.skipif("WEFT_TRACES" not in os.environ, reason="WEFT_TRACES is not set")
def test_measured_pairs() -> None:
    """As close as the page says."""
    folder = Path(os.environ["WEFT_TRACES"]) / "deepshare"
    told = deepshare.summary(list(deepshare.rows(folder, lambda _: None)))
    assert told["mean absolute error"] < 0.07
    assert told["correlation, nine heavy pairs"] > 0.9
