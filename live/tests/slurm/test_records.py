import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft_live.slurm.commands import Unreachable
from weft_live.slurm.records import Memory, Record, gpu_count, read_jobs, read_nodes


def number(value: int | None) -> dict[str, Any]:
    """A number as Slurm writes it since 23.02."""
    return {"set": value is not None, "infinite": False, "number": value or 0}


OLD = {
    "job_id": 17, "job_state": "RUNNING", "state_reason": "None", "priority": 4294901755, "name": "train.sh",
    "user_name": "ada", "partition": "train", "batch_flag": True, "het_job_id": 0, "nodes": "n[1-2]",
    "required_nodes": "n[1,2]", "node_count": 2, "tasks": 2, "tres_per_node": "gres:gpu:4", "tres_per_job": "",
    "tres_per_task": "", "gres_detail": ["gpu:4(IDX:0-3)", "gpu:4(IDX:4-7)"], "comment": "weft: model=resnet50",
    "admin_comment": "weft:job=17", "restart_cnt": 1, "exit_code": 768, "submit_time": 1794716878,
    "start_time": 1794716879, "dependency": "", "time_limit": 90, "array_job_id": 0, "array_task_id": None,
    "array_task_string": "",
}  # fmt: skip
NEW = {
    **OLD, "job_state": ["RUNNING"], "priority": number(4294901755), "het_job_id": number(0), "node_count": number(2),
    "tasks": number(2), "tres_per_node": "gres/gpu:4", "exit_code": {
        "status": ["ERROR"], "return_code": number(3), "signal": {"id": number(None), "name": ""},
    }, "submit_time": number(1794716878), "start_time": number(1794716879), "time_limit": number(90),
    "array_job_id": number(0), "array_task_id": number(None),
}  # fmt: skip


def read(row: dict[str, Any], completing: frozenset[str] | None = None) -> list[Record]:
    """The records of one row."""
    return read_jobs(json.dumps({"meta": {}, "jobs": [row], "errors": []}), completing)


def test_an_answer_that_24_11_gave() -> None:
    """Of a job that weft ran, and of one that waits and named no number of nodes: there `max_nodes` says 1."""
    text, memory = (Path(__file__).parent / "squeue-24.11.json").read_text(), Memory()
    ran, waits = read_jobs(text, memory=memory)
    assert (ran.key, ran.state, ran.completing, ran.exit_code, ran.gpus) == ("19", "COMPLETED", False, 0, 2)
    assert (ran.nodes, ran.required, ran.user, ran.time_limit_s) == (("n1",), {"n1"}, "root", None)
    assert (waits.key, waits.pending, waits.held, waits.gpus, waits.batch) == ("21", True, True, 1, True)
    assert (waits.nodes_at_most, waits.nodes_at_least, waits.gpus_on_each_node) == (0, 1, 0)
    assert waits.submit_s == 1795102008.0
    assert read_jobs(text, memory=memory)[1] is waits, "a row that has not changed is not read again"


def test_both_versions_say_the_same() -> None:
    (old,), (new,) = read(OLD, frozenset()), read(NEW)
    assert old == new
    assert (old.key, old.running, old.held, old.completing) == ("17", True, False, False)
    assert (old.nodes, old.required, old.gpus_held) == (("n1", "n2"), {"n1", "n2"}, (4, 4))
    assert (old.gpus, old.exit_code, old.signal, old.restarts) == (8, 3, 0, 1)
    assert (old.time_limit_s, old.submit_s, old.user) == (5400.0, 1794716878.0, "ada")


@pytest.mark.parametrize(
    ("change", "seen"),
    [
        ({"job_state": "PENDING", "priority": 0}, {"pending": True, "held": True}),
        ({"job_state": ["PENDING", "REQUEUED"], "priority": number(0)}, {"pending": True, "held": True}),
        ({"job_state": ["COMPLETED", "COMPLETING"]}, {"ended": True, "completing": True}),
        ({"job_state": ["COMPLETING", "PENDING"]}, {"pending": True, "completing": True}),
        ({"job_state": "NODE_FAIL"}, {"ended": True, "completing": None}),
        ({"time_limit": None}, {"time_limit_s": None}),
        ({"time_limit": {"set": True, "infinite": True, "number": 0}}, {"time_limit_s": None}),
        ({"tres_per_node": "", "tres_per_job": "gres:gpu:a100:16"}, {"gpus": 16}),
        ({"tres_per_node": "", "tres_per_task": "gres/gpu=2", "tasks": number(4)}, {"gpus": 8}),
        ({"tres_per_node": ""}, {"gpus": 0}),
        ({"node_count": number(3), "max_nodes": number(2)}, {"gpus": 8, "node_count": 2}),
        ({"tres_req_str": "cpu=8,mem=1000M,node=2,billing=8"}, {"nodes_at_least": 2}),
        ({"max_nodes": number(1), "comment": "weft: model=x nodes=any"}, {"nodes_at_most": 0}),
        ({"exit_code": 9}, {"signal": 9, "exit_code": 0}),
        ({"exit_code": {"return_code": number(0), "signal": {"id": number(15)}}}, {"signal": 15}),
        ({"het_job_id": number(12)}, {"het": True}),
        ({"gres_detail": ["gpu:4"]}, {"gpus_held": ()}),
        ({"gres_detail": ["shard:2(0/2,2/2)", "shard:0"]}, {"gpus_held": (1, 0)}),
        ({"tres_per_node": "", "tres_per_job": "gres:gpu:a100:16"}, {"gpu": "a100"}),
        ({"name": "a\x1b[31mb", "comment": "weft:\tmodel=x"}, {"name": "a [31mb", "comment": "weft: model=x"}),
        ({"array_max_tasks": number(2)}, {"array_limit": 2}),
        ({}, {"nodes_said": "", "gpu": "", "array_limit": 0}),
        ({"admin_comment": ""}, {"nodes_said": "--nodelist"}),
        ({"excluded_nodes": "n3"}, {"nodes_said": "--exclude"}),
        ({"features": "nvlink"}, {"nodes_said": "--constraint"}),
        ({"resv_name": "course"}, {"nodes_said": "--reservation"}),
    ],
)
def test_single_fields(change: dict[str, Any], seen: dict[str, Any]) -> None:
    (record,) = read({**OLD, **change})
    assert {name: getattr(record, name) for name in seen} == seen


def test_older_versions_need_the_list_of_completing_jobs() -> None:
    assert read({**OLD, "job_state": "PENDING"}, frozenset({"17"}))[0].completing is True
    assert read({**NEW, "job_state": ["PENDING"]}, frozenset({"17"}))[0].completing is False, "it says so itself"


@pytest.mark.parametrize("wrap", [lambda n: n, number])
def test_an_array_is_a_record_for_each_task(wrap: Any) -> None:
    waiting = {**OLD, "array_job_id": wrap(17), "array_task_id": wrap(None), "array_task_string": "1,4-6,10-20:5%2"}
    assert [r.key for r in read(waiting)] == [f"17_{n}" for n in (1, 4, 5, 6, 10, 15, 20)]
    split = {**OLD, "job_id": 19, "array_job_id": wrap(17), "array_task_id": wrap(3)}
    assert [(r.key, r.number) for r in read(split)] == [("17_3", "19")]


@pytest.mark.parametrize(
    ("text", "count"),
    [("gpu:8", (8, "")), ("gpu:a100:4(S:0-1)", (4, "a100")), ("gres:gpu:2,gres:mps:10", (2, "")),
     ("gres/gpu=3", (3, "")), ("gpu", (1, "")), ("", (0, "")), ("craynetwork:1", (0, "")),
     ("gpu:h100:2,gpu:h200:2", (4, "h100"))],
)  # fmt: skip
def test_gres(text: str, count: tuple[int, str]) -> None:
    assert gpu_count(text) == count


def test_nodes_of_both_versions() -> None:
    old = [
        {"name": "n1", "state": "mixed", "state_flags": [], "gres": "gpu:8", "partitions": ["train"]},
        {
            "name": "n2",
            "state": "idle",
            "state_flags": ["DRAIN"],
            "gres": "gpu:8",
            "partitions": ["train"],
            "reason": "Duplicate jobid",
        },
        {"name": "n3", "state": "down", "state_flags": ["NOT_RESPONDING"], "gres": "gpu:8", "partitions": ["train"]},
        {"name": "n4", "state": "idle", "state_flags": [], "gres": "", "partitions": ["train", "debug"]},
    ]
    new = [
        {
            "nodes": {"nodes": [name]},
            "node": {"state": state},
            "gres": {"total": gres},
            "partition": {"name": partition},
            "reason": {"description": "Duplicate jobid" * (name == "n2"), "user": "root"},
        }
        for name, state, gres, partition in (
            ("n1", ["MIXED"], "gpu:8", "train"),
            ("n2", ["IDLE", "DRAIN"], "gpu:8", "train"),
            ("n3", ["DOWN", "NOT_RESPONDING"], "gpu:8", "train"),
            ("n4", ["IDLE"], "", "train"),
            ("n4", ["IDLE"], "", "debug"),
        )
    ]
    between = [{**row, "state": [row["state"].upper(), *row["state_flags"]], "state_flags": None} for row in old]  # type: ignore[attr-defined]
    seen = read_nodes(json.dumps({"nodes": old}))
    assert [(node.name, node.usable, node.gpus) for node in seen] == [
        ("n1", True, 8), ("n2", False, 8), ("n3", False, 8), ("n4", True, 0)
    ]  # fmt: skip
    assert [node.said for node in seen] == ["", "Duplicate jobid", "", ""]
    assert seen[3].partitions == {"train", "debug"}
    for text in (json.dumps({"sinfo": new}), json.dumps({"nodes": between})):
        other = read_nodes(text)
        assert [(n.name, n.usable, n.gpus, n.said, n.partitions) for n in other] == [
            (n.name, n.usable, n.gpus, n.said, n.partitions) for n in seen
        ]


@pytest.mark.parametrize("text", ["", "squeue: error", "[]", "{}", '{"jobs": 3}', '{"jobs": null}'])
def test_what_is_no_answer_is_asked_again(text: str) -> None:
    with pytest.raises(Unreachable):
        read_jobs(text)
    with pytest.raises(Unreachable):
        read_nodes(text)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 10**12) | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["set", "number", "x"]), inner, max_size=3)
    ),
    max_leaves=5,
)


@given(st.dictionaries(st.sampled_from(sorted(OLD)), VALUES))
def test_fields_of_a_version_to_come_stop_nobody(change: dict[str, Any]) -> None:
    for record in read({**OLD, **change}):
        assert record.gpus >= 0
