"""Nonsense from everywhere: comments, progress messages, answers of squeue and sinfo. No traceback, no stall.

A hundred and fifty of each here; `WEFT_FUZZ=10000 pytest live/tests/slurm/test_fuzz.py` tries ten thousand.
"""

from __future__ import annotations

import importlib.util
import json
import os
import random
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from live.tests.serving import own_s
from weft.errors import InputError
from weft.model.plan import Start
from weft.stacks import resolve
from weft.testing import toy_cluster
from weft_live.attempt import Attempt
from weft_live.clock import Clock
from weft_live.reports import RECORD, Record
from weft_live.runner import Runner
from weft_live.server.ledger import Ledger
from weft_live.server.profiles import Profiles, Reading
from weft_live.slurm.client import Snapshot
from weft_live.slurm.commands import Slurm, Unreachable
from weft_live.slurm.intake import Intake
from weft_live.slurm.records import read_jobs, read_nodes
from weft_live.slurm.request import describe
from weft_live.slurm.setup import write_files
from weft_live.slurm.world import SlurmWorld

TIMES = int(os.environ.get("WEFT_FUZZ", "150"))
LONGEST_S = 1.0
WORDS = (
    "weft:", "model=", "iterations=", "iteration_s=", "checkpoint_every=", "restarts=", "gpus=", "shape=", "grace_s=",
    "resnet50", "/proc/kmsg", "[batch=", "]", "[", "weft-hold", "1", "-1", "9" * 400, "1e999", "nan", "\0", "\n", "\\",
    '"', "'", "$(reboot)", "`id`", ";", ",", "=", "\u202e", "\U0001f600", "\ud800", "..", "/", "free", "asked", "2-8",
    "x" * 5000, "weft:job=1,since=0.1,dir=/x", "1e-310",
)  # fmt: skip
ODD: tuple[Any, ...] = (
    None, True, False, 0, -1, 1, 2**31, 2**63, 2**64, 10**400, -(2**70), 0.5, float("nan"), float("inf"), "", "x",
    "PENDING", "n[1-4]", "n[1-99999999]", "n[", "gpu:8", "gpu:" + "9" * 50, [], [None], ["PENDING", "COMPLETING"], {},
    {"set": True, "number": 5}, {"set": True, "infinite": True, "number": 1}, {"number": "x", "set": True}, [[[]]],
    {"a": {"b": {}}}, "\0", "1_[1-99999999]", "0-999999999",
)  # fmt: skip

JOB = {
    "job_id": 17, "job_state": "PENDING", "state_reason": "JobHeldUser", "priority": 0, "name": "a", "user_name": "u",
    "user_id": 5, "partition": "train", "batch_flag": True, "nodes": "", "required_nodes": "", "node_count": 1,
    "max_nodes": 0, "tasks": 1, "tres_per_job": "gres:gpu:2", "tres_per_node": "", "tres_per_task": "",
    "tres_per_socket": "", "gres_detail": [], "comment": "weft: iterations=3", "admin_comment": "", "restart_cnt": 0,
    "exit_code": 0,
    "submit_time": 1, "start_time": 0, "eligible_time": 0, "dependency": "", "time_limit": 5, "array_job_id": 0,
    "array_task_id": None, "array_task_string": "", "array_max_tasks": 0, "last_sched_evaluation": 0, "account": "",
    "qos": "", "het_job_id": 0, "state_description": "", "excluded_nodes": "", "features": "", "resv_name": "",
}  # fmt: skip
NODE = {"name": "s0", "state": "idle", "state_flags": [], "gres": "gpu:4", "partitions": ["train"]}
GROUP = {
    "nodes": {"nodes": ["s0", "s1"]}, "gres": {"total": "gpu:4"}, "node": {"state": ["IDLE"]},
    "partition": {"name": "train"},
}  # fmt: skip


@contextmanager
def quickly(what: Callable[[], str]) -> Iterator[None]:
    """Nothing in here may take long; what the kernel keeps this thread waiting for a processor does not count."""
    began = own_s()
    yield
    assert own_s() - began < LONGEST_S, what()


def spoiled(row: dict[str, Any], lot: random.Random) -> dict[str, Any]:
    """The row with a few fields missing, odd, or moved into others."""
    made = dict(row)
    for _ in range(lot.randrange(1, 5)):
        key = lot.choice(list(row))
        match lot.randrange(4):
            case 0:
                made.pop(key, None)
            case 1:
                made[key] = lot.choice(ODD)
            case 2:
                made[key] = " ".join(lot.choices(WORDS, k=3))
            case 3 if isinstance(made.get(key), dict):
                made[key] = spoiled(made[key] or {"a": 1}, lot)
    return made


def cut(text: str, lot: random.Random) -> str:
    """Now and then an answer that stops, or has something in it."""
    if lot.random() < 0.1:
        return text[: lot.randrange(len(text) + 1)]
    if lot.random() < 0.05:
        at = lot.randrange(len(text) + 1)
        return text[:at] + lot.choice(("\0", "[" * 100_000, '"', "}", "NaN", "\ud800")) + text[at:]
    return text


def test_comments() -> None:
    lot, profiles = random.Random(1), Profiles(toy_cluster(), [])
    base = read_jobs(json.dumps({"jobs": [JOB]}))[0]
    for number in range(TIMES):
        comment = "".join(lot.choices((*WORDS, " "), k=lot.randrange(12)))
        record = read_jobs(json.dumps({"jobs": [{**JOB, "comment": comment}]}))[0]
        with quickly(lambda: comment):  # noqa: B023
            try:
                made = describe(record, str(number), profiles)
                made.refuse(toy_cluster(), frozenset(), resolve("fifo").planner)
                made.job(0.0, profiles)
            except (InputError, Reading):
                pass
    assert describe(base, "17", profiles).iterations == 3
    profiles.close()


def installed(folder: Path) -> Any:
    """relay.py as it is installed, with reports.py beside it."""
    write_files(folder)
    spec = importlib.util.spec_from_file_location("relay", folder / "relay.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_progress_messages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """To a runner, to a relay, and in the file that a job's user may write."""
    lot = random.Random(2)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "progress").touch()
    runner = Runner({"home": str(tmp_path), "iterations": 5})
    relay = installed(tmp_path / "etc").Relay(str(tmp_path / "r.sock"), str(tmp_path), os.getpid())
    attempt = Attempt(tmp_path)
    for _ in range(TIMES):
        value = spoiled(
            {"step": lot.choice((1, 2**52, *ODD)), "rank": 0, "saved": True, "gate": None, "stop": 1.0}, lot
        )
        line = cut(json.dumps(value), lot).encode(errors="replace")
        if lot.random() < 0.2:
            line = lot.randbytes(lot.randrange(300))
        with quickly(lambda: repr(line)):  # noqa: B023
            for part in line.split(b"\n"):
                runner.answer(part, lot.random() < 0.1)
                relay.answer(part)
            runner.record.write()
        numbers = " ".join(lot.choices(("1", "-1", "9" * 17, "1e-310", "1e308", "nan", "0x1", "1_0"), k=4)).encode()
        whole = b"%08x %s" % (zlib.crc32(numbers), numbers)  # the job's user can compute a checksum, too
        text = lot.choice((whole, b"%08x 1 1 1 0.5", lot.randbytes(50), b"9" * 90, b"x 1 1"))
        (tmp_path / "progress").write_bytes(text.ljust(lot.randrange(RECORD * 2)))
        with quickly(lambda: repr(text)):  # noqa: B023
            told = attempt.progress().iteration_s
        assert told == 0 or 1e-6 <= told < 1e9, text  # time over an iteration, and its inverse, stay numbers
    record = Record(5)
    record.report(3, False, 1.0, 1.0)
    record.write()
    assert attempt.progress().step == 3
    for opened in (runner.reports, runner.control, runner.poke_socket, relay.listener):
        opened.close()
    os.close(runner.home)


def test_answers_of_squeue_and_sinfo(tmp_path: Path) -> None:
    """Through the whole world: taken in, compared with what was decided, and told to users."""
    lot, cluster = random.Random(3), toy_cluster()
    profiles, ledger = Profiles(cluster, []), Ledger(None)
    world = SlurmWorld(cluster, tmp_path, Slurm(path="/nowhere"), Clock.begin(), tied=True)
    world.taker = Intake(world, ledger, frozenset(), resolve("fifo").planner, profiles, frozenset(), lambda _: None)
    world.why = lambda job_id: "stands behind others"
    seen, before = 0, {}
    try:
        for number in range(TIMES):
            rows = [spoiled({**JOB, "job_id": 17 + lot.randrange(40)}, lot) for _ in range(lot.randrange(5))]
            nodes = [spoiled(lot.choice((NODE, GROUP)), lot) for _ in range(lot.randrange(4))]
            jobs_text = cut(json.dumps({"jobs": rows}), lot)
            nodes_text = cut(json.dumps({lot.choice(("nodes", "sinfo")): nodes}), lot)
            with quickly(lambda: jobs_text + nodes_text):  # noqa: B023
                try:
                    records = {record.key: record for record in read_jobs(jobs_text, frozenset({"18"}))}
                    found = {node.name: node for node in read_nodes(nodes_text)}
                except Unreachable:
                    continue
                changed = frozenset(records.keys() | before.keys())
                world._snapshot, before = Snapshot(10**9, records, found, changed=changed), records
                with suppress(InputError):  # the note of a server that was here first
                    world.events(world.now())
                seen += 1
                for job_id, task in list(world.tasks.items())[:2]:
                    if task.waits and len(task.job.profiles) and task.job.gpus <= 4:
                        world.apply([Start(job_id, tuple(range(task.job.gpus)), "fuzz")])
            if number % 50 == 0:
                world.tasks.clear()
        assert seen > TIMES / 2
    finally:
        world.close()
        profiles.close()
        ledger.close()
