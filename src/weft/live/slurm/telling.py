"""Telling: users see in Slurm itself why their job waits, in its AdminComment; who runs weft has `weft explain`.

    squeue --me -O jobid,reason,admin_comment:100

A job that runs has weft's note there instead (notes.py). Words are compared with what Slurm shows, and sent where they
differ: a few jobs at a time, seldom, and by the thread that talks to Slurm anyway.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from weft.live.slurm.records import HOLD_WORD, Record

__all__ = ["Mark", "Telling", "Why", "plain"]

_EVERY_S = 1.0  # between batches
_AT_A_TIME = 20  # jobs in a batch
_SAME_S = 60.0  # before the same words are sent again: Slurm may have changed a letter of them
_LONGEST = 200


@dataclass(frozen=True, slots=True)
class Why:
    """What the user of a job is told; `unpin`: it does not have to have the nodes of its last start any more."""

    key: str
    words: str
    unpin: bool

    def line(self) -> str:
        """As scontrol reads it."""
        return f'update JobId={self.key} {"ReqNodeList= " if self.unpin else ""}AdminComment="{self.words}"'


@dataclass(frozen=True, slots=True)
class Mark:
    """A job that somebody has requeued and held: its comment says so, and its user can release it."""

    key: str
    comment: str

    def line(self) -> str:
        """As scontrol reads it."""
        return f'update JobId={self.key} Comment="{plain(f"{self.comment} {HOLD_WORD}")}"'


class Telling:
    """Which words are due."""

    def __init__(self) -> None:
        self._next_s = 0.0
        self._sent: dict[str, tuple[str, float]] = {}

    def ready(self, now: float) -> bool:
        """Whether it is time for another batch."""
        return now >= self._next_s

    def due(self, wanted: Mapping[str, str], records: Mapping[str, Record], now: float) -> list[Why]:
        """Words that Slurm does not show yet. Tasks that are still part of their array are left there."""
        self._next_s = now + _EVERY_S
        self._sent = {key: sent for key, sent in self._sent.items() if key in records}
        found = []
        for key, said in wanted.items():
            record = records.get(key)
            if record is None or not (record.pending and record.held and record.apart) or record.completing:
                continue
            words = plain(f"weft: {said}")
            there = record.admin_comment
            before, sent_s = self._sent.get(key, ("", 0.0))
            if there.strip('"') != words and (before != words or now - sent_s > _SAME_S):
                self._sent[key] = (words, now)
                found.append(Why(key, words, there.startswith("weft:job=")))
                if len(found) == _AT_A_TIME:
                    break
        return found


@lru_cache(maxsize=4096)
def plain(words: str) -> str:
    """In letters that scontrol takes as they are."""
    text = " ".join(re.sub(r"[^ -~]|[\"\\\\]", " ", words).split())
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."
