from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from testkit.draws import examples
from weft.core.cycle import Core
from weft.core.refusal import refuse
from weft.errors import StackError
from weft.model import Start, Submitted
from weft.model.view import JobView
from weft.policies.place.lwf import LeastWorkloadFirst, noted, workload_gpu_s, workloads
from weft.stacks import resolve
from weft.testing import ToyWorld, toy_cluster, toy_job


def test_work_left_counts_communication_between_servers_only() -> None:
    """Two workers, 5 iterations of 1 s and of 1.25 GB at 1.25 GB/s: 2 x 5 x 1 on one server, 2 x 5 x 2 on two."""
    core = Core(resolve("srsf"), ToyWorld(toy_cluster(), []))
    job = toy_job("a", 2, 5, message_bytes=1.25e9)
    core.confirm([Submitted(0.0, job)])
    waiting = core.table.jobs["a"]
    assert workload_gpu_s(core.view, waiting, (0, 1)) == 10.0
    assert workload_gpu_s(core.view, waiting, (3, 4)) == 20.0


def test_it_shrinks_as_iterations_are_done() -> None:
    jobs = [toy_job("a", 2, 5, message_bytes=1.25e9), toy_job("late", 1, submit_s=3.0)]
    world = ToyWorld(toy_cluster(1, 2, 1), jobs)
    core = Core(resolve("ada-srsf"), world)
    core.confirm(world.apply(core.step(0.0, world.next_events(None))))
    assert workloads(core.view, {}).tolist() == [20.0, 20.0]
    events = world.next_events(None)
    core.view.move_to(3.0, 2)
    core.confirm(events)
    assert workloads(core.view, {}).tolist() == [16.0, 16.0]  # one iteration of 2 s is done


def test_answers_of_the_same_cycle_count() -> None:
    core = Core(resolve("srsf"), ToyWorld(toy_cluster(), []))
    core.confirm([Submitted(0.0, toy_job("a", 2, 5))])
    job: JobView = core.table.jobs["a"]
    state = noted(core.view, job, (1, 2), {})
    state = noted(core.view, job, (2, 3), state)
    assert np.flatnonzero(workloads(core.view, state)).tolist() == [1, 2, 3]
    assert workloads(core.view, state)[1:4].tolist() == [10.0, 20.0, 10.0]


def test_nothing_is_kept_between_cycles() -> None:
    core = Core(resolve("ada-srsf"), ToyWorld(toy_cluster(), []))
    core.step(0.0, [Submitted(0.0, toy_job(name, 2)) for name in "abc"])
    assert core.planner_state["place"] == {}


@settings(max_examples=examples(25))
@given(st.integers(1, 6), st.integers(1, 4), st.integers(1, 6), st.lists(st.integers(1, 99), min_size=24, max_size=24))
def test_a_small_job_is_on_kappa_servers_at_most(kappa: int, per_server: int, gpus: int, loads: list[int]) -> None:
    """Section IV-A: jobs of up to kappa GPUs. LWF-1 puts larger ones on as few servers as have room for them."""
    servers = 24 // per_server
    core = Core(resolve(f"ada-srsf[place=lwf:{kappa}]"), ToyWorld(toy_cluster(1, servers, per_server), []))
    core.confirm([Submitted(0.0, toy_job("a", gpus))])
    state = {"answered this cycle": [[[gpu], float(load)] for gpu, load in enumerate(loads[: servers * per_server])]}
    answer = LeastWorkloadFirst(kappa).place(core.view, core.table.jobs["a"], gpus, core.view.offer, state)
    used = {gpu // per_server for gpu in answer.gpus or ()}
    assert answer.gpus is not None
    assert len(used) <= (kappa if gpus <= kappa else -(-gpus // per_server))


def test_whole_gpus_go_to_one_job_each_server_by_server() -> None:
    """Three servers of two GPUs and equal jobs of three. The first has both of server 0 and one of server 1, so the
    second takes both of server 2, where no work is left, and then what server 1 has; no GPU is free for the third."""
    core = Core(resolve("ada-srsf-whole"), ToyWorld(toy_cluster(1, 3, 2), []))
    decisions = core.step(0.0, [Submitted(0.0, toy_job(name, 3, 5)) for name in "abc"])
    assert {d.job: d.gpus for d in decisions if isinstance(d, Start)} == {"a": (0, 1, 2), "b": (4, 5, 3)}


def test_a_world_without_shared_gpus_runs_the_stack_that_gives_whole_ones_and_names_it_to_the_other() -> None:
    world = ToyWorld(toy_cluster(), [])
    world.capabilities = replace(world.capabilities, gpu_sharing=False)
    refuse(resolve("ada-srsf-whole"), world)
    with pytest.raises(StackError, match=r"one job at a time; .* ada-srsf-whole"):
        refuse(resolve("ada-srsf"), world)
