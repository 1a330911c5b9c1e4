"""What weft knows about a Slurm job: Slurm's own request, and what its comment says beyond it.

A comment says `weft: model=resnet50 iterations=1000`; the words before and after are the user's own. The submission
hook writes there what the job's environment says in WEFT_DESCRIPTION. All of it may be absent: a job that does not
state its length is assumed to use its whole time limit, in iterations of one second.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from weft.errors import InputError
from weft_live.description import Description, ProfileOf
from weft_live.slurm.records import Node, Record

KEYS = (
    "model", "iterations", "iteration_s", "checkpoint_every", "resumes", "restarts", "gpus", "shape", "grace_s",
    "signal", "nodes",
)  # fmt: skip
_SAID = re.compile(r"\bweft:\s*((?:[\w-]+=[^\s,;]*[\s,;]*)+)")
_PAIR = re.compile(r"([\w-]+)=([^\s,;]*)")
_NO_LIMIT_S = 86400.0  # the length of a job that says nothing and has no time limit
_GRACE_S, _LONGEST_GRACE_S = 30.0, 600.0  # grace of a job that only names a signal; the longest grace that a job gets
_SHORTEST_S = 1e-6  # no iteration is shorter, and a time limit over it is still a number


def said_in(comment: str) -> dict[str, str]:
    """The pairs that a comment gives to weft."""
    said: dict[str, str] = {}
    for part in _SAID.finditer(comment):
        said |= dict(_PAIR.findall(part[1]))
    return said


def on_fewest_nodes(record: Record, nodes: Iterable[Node]) -> Record:
    """The request on as many nodes as its tasks need, as Slurm will start it. Where tasks have several processors its
    guess is often one more (22.05) or the fewest that the user allows, whether they fit there or not (24.11)."""
    on_each = max((node.cpus for node in nodes), default=0) // record.cpus_per_task
    if record.cpus_per_task == 1 or record.tasks_per_node or not record.nodes_at_least or not on_each:
        return record
    need = max(record.nodes_at_least, -(-record.tasks // on_each))
    return replace(record, node_count=min(need, record.nodes_at_most or need))


def describe(record: Record, name: str, profile_of: ProfileOf) -> Description:
    """The job as weft's other parts know jobs; raises InputError if what it says makes no sense."""
    said = said_in(record.comment)
    for key in said:
        if key not in KEYS:
            raise InputError(f"its comment says {key}=, which weft does not know; it knows {', '.join(KEYS)}")
    low, high = _range(said.get("gpus", ""), record.gpus)
    fields: dict[str, Any] = {
        "name": name,
        "argv": ["sbatch", record.name or record.key],
        "gpus": record.gpus,
        "min_gpus": low,
        "max_gpus": high,
        "per_node": 0 if _free(said) else record.gpus_on_each_node,
        "iterations": _whole(said, "iterations", 0),
        "iteration_s": _seconds(said, "iteration_s", _SHORTEST_S, ", a microsecond at least"),
        "checkpoint_every": _whole(said, "checkpoint_every", 1),
        "resumes": _yes(said, "resumes"),
        "restarts": _whole(said, "restarts", 0),
        "model": said.get("model", ""),
        "user": record.user,
        "env": {
            "tasks": str(record.tasks), "uid": str(record.uid), "cpus": str(record.cpus_per_task),
            "limit_s": str(record.time_limit_s or _NO_LIMIT_S),
        },
    }  # fmt: skip
    fields["env"] |= _grace(said)
    limit_s = record.time_limit_s or _NO_LIMIT_S
    if not fields["model"]:
        n = fields["iterations"]
        fields["iteration_s"] = fields["iteration_s"] or (limit_s / n if n else 1.0)
        fields["iterations"] = n or max(1, round(limit_s / fields["iteration_s"]))
    elif not fields["iterations"]:
        each_s = profile_of(fields["model"], record.gpus).compute_s or 1.0
        fields["iterations"] = max(1, round(limit_s / max(each_s, _SHORTEST_S)))
    return Description.from_json(fields)


def _range(text: str, gpus: int) -> tuple[int, int]:
    """The elastic range `2-8`; (0, 0) for none."""
    if not text:
        return 0, 0
    match = re.fullmatch(r"(\d{1,6})-(\d{1,6})", text)
    if match is None or not 1 <= int(match[1]) <= gpus <= int(match[2]):
        raise InputError(f"its comment says gpus={text:.40}; give a range around the {gpus} it asks for, such as 2-8")
    return int(match[1]), int(match[2])


def _grace(said: dict[str, str]) -> dict[str, str]:
    """How a job wants to be warned before it is stopped."""
    if "grace_s" not in said and "signal" not in said:
        return {}
    name = said.get("signal", "TERM").removeprefix("SIG").upper()
    if name not in ("TERM", "INT", "HUP", "USR1", "USR2", "CONT", "WINCH"):
        raise InputError(f"its comment says signal={said['signal']:.40}; it is TERM, INT, HUP, USR1 or USR2")
    seconds = _seconds(said, "grace_s") if "grace_s" in said else _GRACE_S
    if seconds > _LONGEST_GRACE_S:
        raise InputError(f"its comment says grace_s={seconds:g}; at most {_LONGEST_GRACE_S:g} s are given")
    return {"grace_s": str(seconds), "signal": name}


def _free(said: dict[str, str]) -> bool:
    """Whether the job leaves its shape to weft."""
    if said.get("shape", "asked") not in ("asked", "free"):
        raise InputError(f"its comment says shape={said['shape']:.40}; it is asked (the default) or free")
    return said.get("shape") == "free"


def _whole(said: dict[str, str], key: str, default: int) -> int:
    text = said.get(key, str(default))
    if not re.fullmatch(r"\d{1,15}", text):
        raise InputError(f"its comment says {key}={text:.40}; give a whole number")
    return int(text)


def _yes(said: dict[str, str], key: str) -> bool:
    text = said.get(key, "no")
    if text not in ("yes", "no"):
        raise InputError(f"its comment says {key}={text:.40}; write yes or no")
    return text == "yes"


def _seconds(said: dict[str, str], key: str, least: float = 0.0, words: str = "") -> float:
    text = said.get(key, "0")
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not (value == 0 or least <= value < 1e9):
        raise InputError(f"its comment says {key}={text:.40}; give seconds{words}")
    return value
