"""All reasons in words: the file beside this one holds what users read. `python -m live.tests.test_words` writes it."""

from pathlib import Path
from typing import Any

from weft.model.reason import because, read_why, speak, written
from weft_live.words import WORDS

_FILE = Path(__file__).parent / "words.txt"
_HOW = because("live.exit", status=3)
_FIELDS: dict[str, Any] = {
    "status": 3, "name": "SIGKILL", "said": "Resources", "state": "node fail", "how": _HOW, "nth": 2, "allowed": 5,
    "seconds": 8.0, "restarts": 2, "step": 4, "of": 10, "starts": 3, "nodes": ("n1", "n2"), "node": "n1", "gpus": 4,
    "job": "17", "takes_s": 0.25, "known_s": 0.348, "mine": 500.0, "whole": 2000.0, "other": "18", "row": 1,
    "free": 16, "there": "are free", "down": ("n3: drained",), "jobs": ("17", "19"),
    "user": "ann", "times": 61.52, "iterations": 62,
}  # fmt: skip
_WITHOUT = (("live.stopped", {}), ("live.cancelled", {}), ("live.failed", {"how": _HOW, "restarts": 0}),
            ("live.failed", {"how": _HOW, "restarts": 1}), ("slurm.lost", {"step": -1, "of": 10}))  # fmt: skip


def _lines() -> list[str]:
    whys = [because(code, **_FIELDS) for code in WORDS] + [because(code, **of) for code, of in _WITHOUT]
    return [f"{why.code}: {speak(read_why(written(why)))}" for why in whys]


def test_what_users_read() -> None:
    assert _lines() == _FILE.read_text().splitlines()


def test_no_code_is_without_words() -> None:
    assert not [line for line in _lines() if "status=3" in line]


if __name__ == "__main__":
    _FILE.write_text("".join(f"{line}\n" for line in _lines()))
