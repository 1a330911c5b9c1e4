"""What squeue and sinfo say, read from their JSON: that of Slurm 22.05, and that of 23.02 and later.

Since 23.02 states are lists of words and numbers are objects {"set", "infinite", "number"}; since 23.11 sinfo lists
groups of nodes under "sinfo" instead of nodes under "nodes". Fields that are missing or odd read as unknown: a new
version must not stop the scheduler.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any, NamedTuple

from weft.errors import InputError
from weft.network.topologies.hostlist import expand
from weft_live.slurm.commands import Unreachable

_MOST_TASKS = 100_000  # most tasks of one array; Slurm allows far fewer unless it is told otherwise
ANY_NODES = "nodes=any"  # in the comment of a job whose user has not said how many (job_submit.lua)
HOLD_WORD = "weft-hold"  # in the comment of a job that its user holds (job_submit.lua)
_ENDED = ("COMPLETED", "CANCELLED", "FAILED", "TIMEOUT", "NODE_FAIL", "PREEMPTED", "BOOT_FAIL", "DEADLINE",
          "OUT_OF_MEMORY")  # fmt: skip
_RUNNING = ("RUNNING", "SUSPENDED", "CONFIGURING", "STOPPED", "SIGNALING", "STAGE_OUT")
_USABLE = {"IDLE", "ALLOCATED", "MIXED", "COMPLETING"}
_UNUSABLE = {"DRAIN", "DRAINED", "DRAINING", "NOT_RESPONDING", "FAIL", "FAILING", "MAINT", "MAINTENANCE", "DOWN",
             "POWERED_DOWN", "POWERING_DOWN", "POWERING_UP", "POWER_DOWN", "POWER_UP", "REBOOT_ISSUED", "RESERVED",
             "INVALID_REG", "UNKNOWN", "FUTURE", "PLANNED_DOWN", "BLOCKED"}  # fmt: skip
_GPU = re.compile(r"(?:^|,)(?:gres[:/])?gpu(?::([A-Za-z][\w.-]*))?(?:[:=](\d+)([kmgtp]?))?(?=[,(]|$)", re.IGNORECASE)
_PARTS = re.compile(r"(?:^|,)(?:gres[:/])?(?:shard|mps)(?::[A-Za-z][\w.-]*)?[:=][1-9]")  # parts of GPUs


@dataclass(frozen=True, slots=True)
class Record:
    """A job as Slurm tells it at one moment."""

    key: str  # what scontrol calls it: 17, or 17_3 for a task of an array
    number: str
    state: str  # PENDING, RUNNING, COMPLETED, ...
    completing: bool | None  # processes may still be there; None: this version does not say
    held: bool
    reason: str = ""
    description: str = ""  # more about its state, beyond the reason
    name: str = ""
    user: str = ""
    partition: str = ""
    batch: bool = True
    het: bool = False  # part of a heterogeneous job
    nodes: tuple[str, ...] = ()
    required: frozenset[str] = frozenset()  # nodes it must have
    node_count: int = 1  # Slurm's guess
    nodes_at_least: int = 0  # as its user said, or one; 0: this version does not say
    nodes_at_most: int = 0  # as its user said, or weft; 0: nobody did
    tasks: int = 1
    tasks_per_node: int = 0
    cpus_per_task: int = 1
    uid: int = -1
    requeue: bool = True
    gpus_per_socket: int = 0
    gpus_per_node: int = 0
    gpus_per_job: int = 0
    gpus_per_task: int = 0
    gpus_held: tuple[int, ...] = ()  # on each of its nodes, while it runs
    comment: str = ""
    admin_comment: str = ""
    restarts: int = 0
    exit_code: int = 0
    signal: int = 0
    submit_s: float = 0.0  # wall time
    begin_s: float = 0.0  # wall time before which it may not start
    eligible_s: float = 0.0  # wall time from which it might have started, as far as Slurm tells
    dependency: str = ""  # what it waits for
    time_limit_s: float | None = None  # None: no limit
    gpu: str = ""  # the type it asks for
    nodes_said: str = ""  # the option by which its user chose among nodes, if so
    array_limit: int = 0  # tasks of its array that may run at a time; 0: all
    evaluated_s: float = 0.0  # wall time at which Slurm last thought of starting it
    account: str = ""
    qos: str = ""
    nice: int = 0
    apart: bool = True  # a job of its own to Slurm, not a task that still is part of its array
    priority: int = field(default=0, compare=False)  # changes with its age, and so by itself
    end_s: float = field(default=0.0, compare=False)  # wall time at which it ended, or will be ended

    @property
    def pending(self) -> bool:
        """It waits, held or not."""
        return self.state == "PENDING"

    @property
    def running(self) -> bool:
        """It has nodes."""
        return self.state in _RUNNING

    @property
    def user_hold(self) -> bool:
        """Its user holds it."""
        return HOLD_WORD in self.comment.split()

    @property
    def ended(self) -> bool:
        """It is over."""
        return self.state in _ENDED

    @property
    def gpus_on_each_node(self) -> int:
        """GPUs that each of its nodes must have, if its request says so in some way; 0 if it does not."""
        if self.gpus_per_node:
            return self.gpus_per_node
        nodes = 0
        if self.tasks_per_node:
            nodes = -(-self.tasks // self.tasks_per_node)
        elif self.nodes_at_most:
            nodes = self.node_count
        if not nodes:
            return 0
        if self.gpus % nodes:
            raise InputError(
                f"it wants {self.gpus} GPUs on {nodes} nodes, which is not the same number on each; ask for a multiple"
            )
        return self.gpus // nodes

    @property
    def gpus(self) -> int:
        """GPUs it asks for in all, however it says so."""
        if self.gpus_per_job:
            return self.gpus_per_job
        if self.gpus_per_task:
            return self.gpus_per_task * max(1, self.tasks)
        return self.gpus_per_node * max(1, self.node_count)


@dataclass(frozen=True, slots=True)
class Node:
    """A node as Slurm tells it at one moment."""

    name: str
    usable: bool
    gpus: int
    gpu: str = ""  # its type, where Slurm is told
    words: str = ""  # its state
    said: str = ""  # why it is in that state, as Slurm or an administrator says
    partitions: frozenset[str] = frozenset()
    cpus: int = 0


def gpu_count(gres: str) -> tuple[int, str]:
    """GPUs and their type in a GRES string: `gpu:8`, `gres:gpu:a100:4(S:0-1)`, `gres/gpu=2`."""
    total, kind = 0, ""
    for match in _GPU.finditer(re.sub(r"\([^)]*\)", "", gres or "")):
        times = 1024 ** " kmgtp".index((match[3] or " ").lower())  # as Slurm counts
        total += min(int(match[2] or 1) * times, 2**31) if len(match[2] or "") < 12 else 0
        kind = kind or match[1] or ""
    return total, kind


def _gpus_taken(detail: str) -> int:
    """GPUs of a node that a job has; parts of some (shards) count as one at least."""
    return gpu_count(detail)[0] or bool(_PARTS.search(detail))


class Known(NamedTuple):
    """A row of squeue as it was read last."""

    row: dict[str, Any]
    records: list[Record]
    tells: bool  # whether it says itself that its processes are still being ended


Memory = dict[str, Known]  # by the text of a row, where rows can be told apart without reading them; else by number
_FIRST, _BETWEEN, _LAST = '"jobs": [\n    {\n', "\n    },\n    {\n", "\n    }\n  ]"  # around rows, as Slurm writes them


def read_jobs(text: str, completing: frozenset[str] | None = None, memory: Memory | None = None) -> list[Record]:
    """The jobs in squeue's JSON, a record for each task of an array. Rows that `memory` knows are not read again, and
    have the very records that they had."""
    found: list[Record] = []
    now: Memory = {}
    for key, known in _all_known(text, memory or {}):
        if completing is not None and known.records and not known.tells:
            leaves = known.records[0].number in completing
            if known.records[0].completing is not leaves:
                known = known._replace(records=[replace(record, completing=leaves) for record in known.records])
        now[key] = known
        found += known.records
    if memory is not None:
        memory.clear()
        memory.update(now)
    return found


def _all_known(text: str, memory: Memory) -> list[tuple[str, Known]]:
    """Every row, with what names it in memory: 5,000 jobs are 16 MB, of which hardly anything is new at a look."""
    first, last = text.find(_FIRST), text.rfind(_LAST)
    if 0 <= first < last:
        parts = text[first + len(_FIRST) : last].split(_BETWEEN)
        with suppress(ValueError, RecursionError):  # written in some other way after all
            return [(part, memory.get(part) or _known(json.loads(f"{{{part}}}"))._replace(row={})) for part in parts]
    found = []
    for row in _rows(text, "squeue", "jobs"):
        number = str(row.get("job_id"))
        before = memory.get(number)
        found.append((number, before if before is not None and before.row == row else _known(row)))
    return found


def _known(row: dict[str, Any]) -> Known:
    records = list(_tasks(row, _record(row)))
    return Known(row, records, bool(records) and records[0].completing is not None)


def _record(row: dict[str, Any]) -> Record:
    state, completing = _state(row.get("job_state"))
    nodes = _hosts(row.get("nodes"))
    detail = row.get("gres_detail")
    held_gpus = tuple(_gpus_taken(str(part)) for part in detail) if isinstance(detail, list) else ()
    code, signal = _exit(row.get("exit_code"))
    limit_min = _number(row.get("time_limit"))
    number, most = str(_number(row.get("job_id")) or 0), _number(row.get("max_nodes")) or 0
    most = 0 if ANY_NODES in _comment(row).split() else most
    return Record(
        key=number, number=number, state=state, completing=completing, held=_number(row.get("priority")) == 0,
        reason=_text(row, "state_reason"), description=_text(row, "state_description"), name=_text(row, "name"),
        user=_text(row, "user_name"), partition=_text(row, "partition"), batch=bool(row.get("batch_flag", True)),
        het=bool(_number(row.get("het_job_id"))), nodes=nodes, required=frozenset(_hosts(row.get("required_nodes"))),
        node_count=min(_number(row.get("node_count")) or 1, most or 10**9), nodes_at_most=most,
        nodes_at_least=int((re.search(r"\bnode=(\d+)", _text(row, "tres_req_str")) or "00")[1]),
        tasks=_number(row.get("tasks")) or 1, tasks_per_node=_unless_no_value(row.get("tasks_per_node")),
        cpus_per_task=_cpus_per_task(row), uid=_uid(row), requeue=row.get("requeue", True) is not False,
        gpus_per_socket=gpu_count(_text(row, "tres_per_socket"))[0],
        gpus_per_node=gpu_count(_text(row, "tres_per_node"))[0], gpus_per_job=gpu_count(_text(row, "tres_per_job"))[0],
        gpus_per_task=gpu_count(_text(row, "tres_per_task"))[0],
        gpus_held=held_gpus if len(held_gpus) == len(nodes) else (), comment=_comment(row),
        admin_comment=_text(row, "admin_comment"), restarts=_number(row.get("restart_cnt")) or 0, exit_code=code,
        signal=signal, submit_s=float(_number(row.get("submit_time")) or 0),
        begin_s=float(_number(row.get("start_time")) or 0), dependency=_text(row, "dependency"),
        eligible_s=float(_number(row.get("eligible_time")) or 0),
        evaluated_s=float(_number(row.get("last_sched_evaluation")) or 0), account=_text(row, "account"),
        qos=_text(row, "qos"), nice=_number(row.get("nice")) or 0, end_s=float(_number(row.get("end_time")) or 0),
        time_limit_s=None if limit_min is None else 60.0 * limit_min, gpu=_gpu_type(row), nodes_said=_nodes_said(row),
        array_limit=_number(row.get("array_max_tasks")) or 0, priority=_number(row.get("priority")) or 0,
    )  # fmt: skip


def _gpu_type(row: dict[str, Any]) -> str:
    wants = (gpu_count(_text(row, f"tres_per_{part}"))[1] for part in ("node", "job", "task"))
    return next(filter(None, wants), "")


def _nodes_said(row: dict[str, Any]) -> str:
    """How a user chose among nodes. The nodes that a job must have are weft's own word while its note is there."""
    said = {"--exclude": "excluded_nodes", "--constraint": "features", "--reservation": "resv_name"}
    if not _text(row, "admin_comment").startswith("weft:job="):
        said["--nodelist"] = "required_nodes"
    return next((option for option, name in said.items() if _text(row, name)), "")


def _tasks(row: dict[str, Any], record: Record) -> Iterator[Record]:
    """The tasks of an array that have not been taken apart yet, each by its own name; else the job itself."""
    array = _number(row.get("array_job_id"))
    task = _number(row.get("array_task_id"))
    waiting = _text(row, "array_task_string").partition("%")[0]
    if array and waiting:
        yield from (replace(record, key=f"{array}_{number}", apart=False) for number in _members(waiting))
    elif array and task is not None:
        yield replace(record, key=f"{array}_{task}")
    else:
        yield record


def _members(text: str) -> Iterator[int]:
    """Numbers in an array's list, `1,4-6,10-20:5`; what cannot be read is left out."""
    for match in re.finditer(r"(?:^|,)(\d{1,9})(?:-(\d{1,9})(?::(\d{1,9}))?)?(?=,|$)", text):
        first = int(match[1])
        yield from islice(range(first, int(match[2] or first) + 1, int(match[3] or 1) or 1), _MOST_TASKS)


def read_nodes(text: str) -> list[Node]:
    """The nodes in sinfo's JSON, each once."""
    found: dict[str, Node] = {}
    for row in _rows(text, "sinfo", "nodes", "sinfo"):
        for node in _nodes(row):
            before = found.get(node.name)
            found[node.name] = replace(node, partitions=node.partitions | before.partitions) if before else node
    return list(found.values())


def _nodes(row: dict[str, Any]) -> Iterator[Node]:
    if "nodes" in row:  # a group of like nodes
        names, gres = _list(_dict(row["nodes"]).get("nodes")), _text(_dict(row.get("gres")), "total")
        states = _dict(row.get("node")).get("state")
        partitions = [_text(_dict(row.get("partition")), "name")]
    else:
        names, gres, states = [_text(row, "name")], _text(row, "gres"), row.get("state")
        partitions = [name for name in _list(row.get("partitions")) if isinstance(name, str)]
    words = _words([states] if isinstance(states, str) else states)
    words += [str(word).upper() for word in _list(row.get("state_flags"))]
    usable = bool(_USABLE & set(words)) and not _UNUSABLE & set(words)
    count, kind = gpu_count(gres)
    said, served = row.get("cpus"), frozenset(filter(None, partitions))
    reason = _text(_dict(row.get("reason")), "description") or _text(row, "reason")
    cpus = _number(_dict(said).get("maximum") if isinstance(said, dict) and "maximum" in said else said) or 0
    for name in names:
        if isinstance(name, str) and name:
            yield Node(name, usable, count, kind, " ".join(words).lower(), reason, served, cpus)


def _dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _rows(text: str, command: str, *keys: str) -> list[dict[str, Any]]:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        raise Unreachable(f"{command}: its answer is not JSON; is its JSON plugin installed?") from None
    for key in keys:
        if isinstance(value, dict) and isinstance(value.get(key), list):
            return [row for row in value[key] if isinstance(row, dict)]
    raise Unreachable(f"{command}: its answer lists no {keys[0]}")


def _number(value: Any) -> int | None:
    """A number, plain or as an object; None if it is not set or has no end."""
    if isinstance(value, dict):
        value = value.get("number") if value.get("set") and not value.get("infinite") else None
    return int(value) if isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 2**53 else None


def _unless_no_value(value: Any) -> int:
    """A small number; 0 if it is not set, which some versions write as the largest ones."""
    number = _number(value) or 0
    return number if 0 < number < 0xFFFE else 0


def _cpus_per_task(row: dict[str, Any]) -> int:
    """What Slurm says; its share of all, where this version does not tell."""
    told = _unless_no_value(row.get("cpus_per_task"))
    return told or max(1, (_number(row.get("cpus")) or 1) // (_number(row.get("tasks")) or 1))


def _uid(row: dict[str, Any]) -> int:
    number = _number(row.get("user_id"))
    return -1 if number is None else number


def _comment(row: dict[str, Any]) -> str:
    """What users and weft say there; scontrol leaves the quotes that it is given."""
    return _text(row, "comment").strip('"')


def _text(row: dict[str, Any], name: str) -> str:
    """A text; users choose names and comments."""
    value = row.get(name)
    return printable(value) if isinstance(value, str) else ""


def printable(text: str) -> str:
    """In letters that a terminal may be shown."""
    return text if text.isprintable() else "".join(letter if letter.isprintable() else " " for letter in text)


def _state(value: Any) -> tuple[str, bool | None]:
    """The state, and whether its processes are still being ended."""
    if isinstance(value, str):
        return value.upper(), None
    words = _words(value)
    state = next((word for word in words if word in ("PENDING", *_RUNNING, *_ENDED)), words[0])
    return state, "COMPLETING" in words


def _words(value: Any) -> list[str]:
    return [str(word).upper() for word in value] if value and isinstance(value, list) else ["UNKNOWN"]


def _exit(value: Any) -> tuple[int, int]:
    """Exit code and signal, from a wait status or from an object."""
    if isinstance(value, dict):
        signal = value.get("signal")
        signal = signal.get("id", signal.get("signal_id")) if isinstance(signal, dict) else signal
        return _number(value.get("return_code")) or 0, _number(signal) or 0
    status = (_number(value) or 0) & 0xFFFF
    return (0, os.WTERMSIG(status)) if os.WIFSIGNALED(status) else (os.WEXITSTATUS(status), 0)


def _hosts(value: Any) -> tuple[str, ...]:
    try:
        return tuple(expand(value)) if isinstance(value, str) and value else ()
    except InputError:
        return ()
