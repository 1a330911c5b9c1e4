"""Slurm's priority of a job, for the order of the stack: `weft serve --priority`.

A job that weft holds has priority 0 in Slurm, which computes none for it. So weft asks the controller for the factors
that depend on who submitted a job and how (QOS, fair share, partition, nice) and adds them up with the weights of
slurm.conf, as Slurm's multifactor priority does. Age and size are the business of the stack's order: it decides among
jobs of the same priority.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from weft.errors import InputError
from weft.model.reason import Why, because
from weft_live.slurm.commands import Slurm
from weft_live.slurm.records import Record

MODES = ("off", "qos", "slurm")
CLASSES = 10  # classes of priorities between 0 and the sum of Slurm's weights: those of one class count as equal
_LOWEST = -100  # whatever a user's nice is
_WEIGHTS = {"qos": "PriorityWeightQOS", "share": "PriorityWeightFairShare", "partition": "PriorityWeightPartition"}
_QOS = re.compile(r"^QOS=(\S+?)\(\d+\)$(?:.*?)^\s+Priority=(\d{1,10})$", re.MULTILINE | re.DOTALL)
_PARTITION = re.compile(r"^PartitionName=(\S+) .*?\bPriorityJobFactor=(\d{1,10})\b", re.MULTILINE)


@dataclass(frozen=True)
class Standing:
    """What Slurm said of QOS, fair shares and partitions at one moment."""

    mode: str
    qos: Mapping[str, int]  # priority of each
    shares: Mapping[tuple[str, str, str], float]  # by account, user, and partition or "": 0 (used up) to 1
    partitions: Mapping[str, int]  # factor of each
    weights: Mapping[str, float]
    _known: dict[tuple[object, ...], tuple[int, Why]] = field(default_factory=dict, compare=False)

    def of(self, record: Record) -> tuple[int, Why]:
        """The priority of a job, and why."""
        key = (record.qos, record.account, record.user, record.partition, record.nice)
        if key not in self._known:
            self._known[key] = self._of(record)
        return self._known[key]

    def _of(self, record: Record) -> tuple[int, Why]:
        if self.mode == "off":
            return 0, because("slurm.no-priority")
        if self.mode == "qos":
            return self.qos.get(record.qos, 0), because("slurm.qos", name=record.qos or "none")
        whole = sum(self.weights.values())
        mine = sum(self.weights[name] * factor for name, factor in self._factors(record).items()) - record.nice
        number = int(max(_LOWEST, min(CLASSES * mine / whole, CLASSES - 1) // 1))
        return number, because("slurm.priority", mine=mine, whole=whole)

    def _factors(self, record: Record) -> dict[str, float]:
        """From 0 to 1 each, as Slurm has them."""
        partitions = record.partition.split(",")
        share = next(
            (found for part in (*partitions, "") if (found := self.shares.get((record.account, record.user, part)))),
            0.0,
        )
        part = max((self.partitions.get(name, 0) for name in partitions), default=0)
        return {
            "qos": self.qos.get(record.qos, 0) / max(1, *self.qos.values(), 1),
            "share": share,
            "partition": part / max(1, *self.partitions.values(), 1),
        }


def read_standing(slurm: Slurm, mode: str, before: Standing | None = None) -> Standing:
    """Ask the controller; raises Unreachable, or InputError where Slurm has nothing of the kind. If all is as it was,
    the standing is the very one that it was."""
    if mode not in MODES:
        raise InputError(f"--priority {mode}: write {', '.join(MODES[:-1])} or {MODES[-1]}")
    if mode == "off":
        return before or Standing(mode, {}, {}, {}, {})
    told = slurm.config()
    weights = {name: _float(told.get(key, "")) for name, key in _WEIGHTS.items()}
    if mode == "slurm" and not sum(weights.values()):
        raise InputError(
            f"--priority slurm: {', '.join(_WEIGHTS.values())} are all 0 in this Slurm; set one, or say --priority qos"
        )
    qos = {name: int(number) for name, number in _QOS.findall(slurm.qos())}
    if not qos and (mode == "qos" or weights["qos"]):
        raise InputError(f"--priority {mode}: this Slurm has no QOS, which needs slurmdbd; serve with --priority off")
    shares: dict[tuple[str, str, str], float] = {}
    if mode == "slurm" and weights["share"]:
        for line in slurm.shares().splitlines():
            account, user, partition, share = ([part.strip() for part in line.split("|")] + [""] * 4)[:4]
            if user:
                shares[account, user, partition] = min(_float(share), 1.0)
    partitions = {name: int(number) for name, number in _PARTITION.findall(slurm.partitions())}
    new = Standing(mode, qos, shares, partitions, weights)
    return before if new == before and before is not None else new


def _float(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        return 0.0
    return value if 0 <= value < 1e15 else 0.0
