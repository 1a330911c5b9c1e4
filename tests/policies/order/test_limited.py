"""Limits of users and queues, with sequences computed by hand."""

from itertools import pairwise
from random import Random
from typing import Any

import pytest

import weft
from weft.errors import ScenarioError, StackError


def starts(limits: dict[str, Any], rows: list[tuple[str, str, int]], stack: str = "fifo") -> dict[str, float]:
    """When each job starts on a server of 8 GPUs; rows are user, queue and GPUs. All jobs come at 0 and take the same
    time alone, which is the unit."""
    jobs = [
        {"id": f"j{i}", "model": "resnet50", "gpus": gpus, "iterations": 100, "user": user, "vc": vc}
        for i, (user, vc, gpus) in enumerate(rows)
    ]
    run = weft.simulate(
        {
            "cluster": {"topology": "single-switch", "servers": 1, "gpus_per_server": 8},
            "workload": {"source": "jobs", "job": jobs},
            "limits": limits, "stack": {"name": stack}, "run": {"restart_s": 0.0},
        }
    )  # fmt: skip
    frame = run.jobs.sort("job_id")
    unit = min(float(end) - float(start) for start, end in zip(frame["start_s"], frame["finish_s"], strict=True))
    return {name: round(float(start) / unit, 2) for name, start in zip(frame["job_id"], frame["start_s"], strict=True)}


ROWS = [("ann", "a", 2), ("ann", "a", 2), ("ann", "a", 2), ("bob", "b", 2), ("bob", "b", 2)]


@pytest.mark.parametrize("stack", ["fifo", "fifo-backfill", "srsf", "srsf-preemptive", "weft", "tiresias", "gandiva"])
def test_a_user_at_the_limit_waits_and_blocks_nobody(stack: str) -> None:
    """8 GPUs, 4 for each user: ann's third job waits for one of her first two, and bob's two, who come later, start."""
    found = starts({"per_user": 4}, ROWS, stack)
    assert [name for name, at in found.items() if at == 0] == ["j0", "j1", "j3", "j4"]
    assert found["j2"] >= 0.99


def test_single_users_and_queues() -> None:
    assert starts({"per_user": 4, "users": {"ann": 6}}, ROWS)["j2"] == 0
    found = starts({"per_queue": 8, "queues": {"a": 2}}, ROWS)
    assert [found[f"j{i}"] for i in range(5)] == [0, 1, 2, 0, 0]


def test_quotas_are_lent() -> None:
    """Quotas of 2 and 4 GPUs: a's three jobs hold all 6, four of them lent by b, whose jobs wait until they end."""
    quotas = {"quotas": {"a": 2, "b": 4}}
    assert list(starts(quotas, ROWS).values()) == [0, 0, 0, 1, 1]
    assert list(starts(quotas, [ROWS[0], ROWS[3], ROWS[1], ROWS[4]]).values()) == [0, 0, 0, 1]
    assert list(starts({**quotas, "borrow": False}, ROWS).values()) == [0, 1, 2, 0, 0]


def test_a_job_that_could_never_start_is_refused() -> None:
    with pytest.raises(ScenarioError, match=r"limits: job j0 wants 2 GPUs .*: user ann may hold 1 GPUs"):
        starts({"per_user": 1}, ROWS)
    with pytest.raises(StackError, match="limits belong to an order"):
        starts({"per_user": 4}, ROWS, "themis")


@pytest.mark.parametrize("stack", ["srsf-preemptive", "las/first-fit", "gandiva", "weft", "fifo+cassini"])
def test_nobody_ever_holds_more(stack: str) -> None:
    """40 jobs of three users, the 12 GPUs that they ask for on average on 8: at no time has anyone more than 5."""
    draw = Random(7)
    jobs = [
        {"model": draw.choice(["resnet50", "vgg16"]), "gpus": draw.choice([1, 2, 4]), "submit_s": draw.uniform(0, 60),
         "iterations": draw.randrange(20, 120), "user": draw.choice("abc")}
        for _ in range(40)
    ]  # fmt: skip
    run = weft.simulate(
        {
            "cluster": {"topology": "single-switch", "servers": 2, "gpus_per_server": 4},
            "workload": {"source": "jobs", "job": jobs}, "limits": {"per_user": 5}, "stack": {"name": stack},
        }
    )  # fmt: skip
    assert run.jobs["status"].unique().to_list() == ["finished"]
    user = dict(zip(run.jobs["job_id"], run.jobs["user"], strict=True))
    spans = [(user[s["job_id"]], s["start_s"], s["end_s"], len(s["gpus"])) for s in run.spans.iter_rows(named=True)]
    most = 0
    for who, at, _, _ in spans:
        held = sum(n for other, begin, end, n in spans if other == who and begin <= at < end)
        most = max(most, held)
    assert 4 < most <= 5


def test_what_if_there_were_a_limit() -> None:
    """As `weft compare --set` and `weft advise --what-if` say it."""
    from weft.scenario import Scenario, changes

    data = {"cluster": {"topology": "single-switch", "servers": 1, "gpus_per_server": 8},
            "workload": {"source": "batch", "jobs": 2, "iterations": [1, 1]}}  # fmt: skip
    found = changes.sweep(Scenario.load(data), ["limits.per_user=4,8"])
    assert [one.limits.per_user for _, one in found if one.limits is not None] == [4, 8]
    assert Scenario.load({**data, "limits": {"quotas": {"a": 2}}}).limits is not None


STOPPING = ["srsf-preemptive", "weft", "tiresias", "tiresias-queues", "tiresias:gittins", "gandiva", "dally"]


@pytest.mark.parametrize("stack", STOPPING)
def test_an_owner_takes_back_what_it_lent(stack: str) -> None:
    """8 GPUs, quotas of 4 and 4. a's two jobs of 4 hold all. When b's job of 2 comes at 5 s, the one that started last
    stops, and a's other job goes on. b's second job of 4 is beyond b's quota, so nobody stops for it."""
    job = {"model": "resnet50", "iterations": 2000}
    rows = [{**job, "gpus": 4, "vc": "a", "submit_s": 0.0}, {**job, "gpus": 4, "vc": "a", "submit_s": 1.0},
            {**job, "gpus": 2, "vc": "b", "submit_s": 5.0}, {**job, "gpus": 4, "vc": "b", "submit_s": 6.0}]  # fmt: skip
    run = simulated(stack, {"a": 4, "b": 4}, rows, 8)
    spans = run.spans.sort("start_s")
    of = {name: spans.filter(job_id=name) for name in run.jobs["job_id"]}
    assert of["job2"]["start_s"][0] == 5.0
    assert of["job1"]["end_s"][0] == 5.0
    assert of["job0"]["end_s"][0] > 5.0
    assert of["job3"]["start_s"][0] > 6.0
    assert run.jobs["status"].unique().to_list() == ["finished"]
    assert [note for note in run.notes if note.startswith("quotas")] == []


def test_without_reclaiming_the_owner_waits() -> None:
    """The same where the limits say so, and where the order stops no job, which the result says."""
    job = {"model": "resnet50", "iterations": 200, "gpus": 4}
    rows = [{**job, "vc": "a"}, {**job, "vc": "a"}, {**job, "vc": "b", "submit_s": 1.0}]
    for stack, more, said in (("tiresias", {"reclaim": False}, 0), ("fifo", {}, 1), ("srsf", {}, 1)):
        run = simulated(stack, {"a": 4, "b": 4}, rows, 8, **more)
        assert min(run.jobs["finish_s"]) <= run.jobs.filter(job_id="job2")["start_s"].item(), stack
        assert run.jobs["preemptions"].sum() == 0
        assert len([note for note in run.notes if note.startswith("quotas: order")]) == said, stack


def simulated(stack: str, quotas: dict[str, int], rows: list[dict[str, Any]], gpus: int, **limits: Any) -> Any:
    return weft.simulate(
        {
            "cluster": {"topology": "single-switch", "servers": 1, "gpus_per_server": gpus},
            "workload": {"source": "jobs", "job": [{"id": f"job{i}", **row} for i, row in enumerate(rows)]},
            "limits": {"quotas": quotas, **limits}, "stack": {"name": stack}, "run": {"restart_s": 0.0},
        }
    )  # fmt: skip


@pytest.mark.parametrize("stack", STOPPING)
@pytest.mark.parametrize("seed", range(4))
def test_nobody_borrows_while_an_owner_waits(stack: str, seed: int) -> None:
    """50 jobs of three queues on 12 GPUs: at no time does a queue hold more than its quota while a job waits that is
    within the quota of its own; and all quotas together are never exceeded."""
    draw = Random(seed)
    quotas = {"a": 2, "b": 4, "c": 6}
    rows = [
        {"model": draw.choice(["resnet50", "vgg16"]), "gpus": draw.choice([1, 1, 2, 4]), "vc": draw.choice("aabbc"),
         "submit_s": draw.uniform(0, 300), "iterations": draw.randrange(20, 600)}
        for _ in range(50)
    ]  # fmt: skip
    for row in rows:
        row["vc"] = row["vc"] if row["gpus"] <= quotas[row["vc"]] or seed % 2 else "c"
    run = simulated(stack, quotas, rows, 12)
    assert run.jobs["status"].unique().to_list() == ["finished"]
    queue = {f"job{i}": row["vc"] for i, row in enumerate(rows)}
    jobs = list(run.jobs.iter_rows(named=True))
    spans = [(s["job_id"], s["start_s"], s["end_s"], len(s["gpus"])) for s in run.spans.iter_rows(named=True)]
    borrowed = False
    moments = sorted({at for _, begin, end, _ in spans for at in (begin, end)} | {job["submit_s"] for job in jobs})
    for at, after in pairwise(moments):
        now = (at + after) / 2
        running = {name: gpus for name, begin, end, gpus in spans if begin <= now < end}
        held = {name: sum(gpus for job, gpus in running.items() if queue[job] == name) for name in quotas}
        assert sum(held.values()) <= sum(quotas.values())
        over = [name for name in quotas if held[name] > quotas[name]]
        borrowed = borrowed or bool(over)
        waiting = [j for j in jobs if j["submit_s"] <= now < j["finish_s"] and j["job_id"] not in running]
        owners = [j["job_id"] for j in waiting if held[queue[j["job_id"]]] + j["gpus"] <= quotas[queue[j["job_id"]]]]
        assert not (over and owners), (now, held, owners)
    assert borrowed
