"""Claims about Table 2 of CASSINI: scores, shifts and communication times of the snapshots."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from weft_evidence.cassini.snapshots import SNAPSHOTS, played, shifted
from weft_evidence.checks import LabCheck, Rule, agrees, nearly
from weft_evidence.claims import Kind, Measured, Verdict

Check = LabCheck[Any]


def told_from(of: Callable[[], float]) -> Rule:
    """A published number beside one that would say that nothing was gained: what lies within a tenth of both
    reproduces neither."""

    def rule(published: float, measured: Measured) -> Verdict:
        found = nearly(published, measured)
        return "no" if found == "reproduced" and not agrees(published, measured, of()) else found

    return Rule(rule, Kind.NUMBER)


def snapshot_claims() -> dict[str, Check]:
    """All of them. What the paper measured without CASSINI, and what chance scores, is no effect."""
    found: dict[str, Check] = {}
    for number, snapshot in SNAPSHOTS.items():
        how, kind = ("fitted", Kind.FITTED) if snapshot.fitted else ("predicted", None)
        key = f"table-2.snapshot-{number}"
        found[f"{key}.score"] = Check(
            f"snapshot {number} ({how}): score", snapshot.score, "", _score(number), told_from(_chance(number)),
            seeded=False, kind=kind,
        )  # fmt: skip
        for job in snapshot.jobs:
            slug = job.name.lower().replace("'", "-2")
            times = {"themis": (job.themis_ms, job.cassini_ms), "cassini": (job.cassini_ms, job.themis_ms)}
            for word, (value, other) in times.items():
                what = f"snapshot {number} ({how}): communication time of {job.name}, {word}"
                rule = told_from(lambda other=other: other)  # type: ignore[misc]
                measure = _of(number, job.name, word == "cassini", "comm_ms")
                found[f"{key}.{slug}.{word}"] = Check(what, value, "ms", measure, rule, seeded=False, kind=kind)
        for job in snapshot.jobs[1:]:
            slug = job.name.lower().replace("'", "-2")
            what = f"snapshot {number} ({how}): time-shift of {job.name}"
            measure = _of(number, job.name, True, "shift_ms")
            found[f"{key}.{slug}.shift"] = Check(what, job.shift_ms, "ms", measure, nearly, seeded=False, kind=kind)
    return found


def _of(number: int, name: str, gated: bool, key: str) -> Callable[[Any], Measured]:
    return lambda _: Measured(played(SNAPSHOTS[number], gated)["jobs"][name][key])


def _score(number: int) -> Callable[[Any], Measured]:
    return lambda _: Measured(played(SNAPSHOTS[number], True)["score"])


def _chance(number: int) -> Callable[[], float]:
    return lambda: shifted(SNAPSHOTS[number]).unshifted
