import copy
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from live.tests.jobs import whole
from testkit.draws import examples
from weft.core.cycle import Core
from weft.core.loop import run
from weft.core.table import Table
from weft.errors import InputError, StackError
from weft.model import Compute, Gate, Job, Profile, Start, Started, Submitted, Transfer
from weft.stacks import STACKS, resolve
from weft.testing import ToyWorld, toy_cluster, toy_job
from weft.testing.toy import workload
from weft_live.description import Description
from weft_live.server.durable import Durable
from weft_live.server.snapshot import Changes, assembled, load_table, restored


def saved(core: Core) -> dict[str, Any]:
    """Through JSON and back, as a file would."""
    value: dict[str, Any] = json.loads(json.dumps(whole(core), allow_nan=False))
    return value


@settings(max_examples=examples(30))
@given(st.sampled_from(sorted(STACKS)), st.integers(0, 50), st.floats(0.0, 120.0))
def test_same_decisions_afterwards(name: str, number: int, at_s: float) -> None:
    world = workload(number).world()
    core = Core(resolve(name), world, seed=number)
    run(core, world, until=at_s)
    other_world = copy.deepcopy(world)
    other = restored(saved(core), resolve(name), other_world)
    assert saved(other) == saved(core)
    before = len(core.journal.entries)  # type: ignore[attr-defined]
    run(core, world)
    run(other, other_world)
    assert other.journal.entries == core.journal.entries[before:]  # type: ignore[attr-defined]
    assert saved(other) == saved(core)


def test_every_field_of_a_job_survives() -> None:
    tasks = (Compute("forward", 0.1), Transfer("sync", 1e6, (0,), (0, 1), "ring", 1e9, 2), Compute("step", 0.2, (0,)))
    profile = Profile("odd", tasks, 3, 5e9, 32, "V100", "measured")
    job = Job("a", 1.5, 3, 7, {3: profile}, "vgg16", 3, 3, 32, "me", "vc1", 5)
    core = Core(resolve("fifo"), ToyWorld(toy_cluster(), []))
    table = core.table
    for event in (Submitted(1.5, job), Submitted(1.5, toy_job("b", 2, sizes=(1,)))):
        table.take(event)
    table.starting("a", (0, 4, 8), Gate(0.5, 0.25, 1, 0.1))
    table.take(Started(2.0, "a"))
    table.gpus.server_down(3)
    table.held["b"] = "why not"
    copied = Table(toy_cluster())
    load_table(saved(core)["table"], copied)
    assert copied.jobs == table.jobs
    assert copied.jobs["a"].job == job
    assert (copied.gates, copied.held, copied.demand) == (table.gates, table.held, table.demand)
    assert copied.gpus.offer.n_free == table.gpus.offer.n_free == 9
    assert copied.gpus.names(4) == ("a",)


def test_profiles_are_saved_once() -> None:
    world = ToyWorld(toy_cluster(), [])
    core = Core(resolve("fifo"), world)
    shared = toy_job("x").profiles
    for i in range(100):
        job = toy_job(f"j{i}")
        core.confirm([Submitted(0.0, Job(job.id, 0.0, 1, 1, shared))])
    assert len(saved(core)["table"]["profiles"]) == 1


def test_another_version_stack_or_cluster_is_refused() -> None:
    world = ToyWorld(toy_cluster(), [])
    snapshot = saved(Core(resolve("fifo"), world))
    with pytest.raises(InputError, match="snapshot has version 0"):
        restored({**snapshot, "version": 0}, resolve("fifo"), world)
    with pytest.raises(StackError, match="taken with stack fifo, not srsf; resume with that stack"):
        restored(snapshot, resolve("srsf"), world)
    with pytest.raises(InputError, match="cluster of 16 GPUs, this one has 8"):
        restored(snapshot, resolve("fifo"), ToyWorld(toy_cluster(1), []))


def test_random_streams_go_on_where_they_were() -> None:
    """The decision number is part of the snapshot: a random placement after it is the same."""
    worlds = [ToyWorld(toy_cluster(), []) for _ in range(2)]
    core = Core(resolve("srsf-random"), worlds[0], seed=3)
    core.step(0.0, [])
    other = restored(saved(core), resolve("srsf-random"), worlds[1])
    (first,), (second,) = (c.step(1.0, [Submitted(1.0, toy_job("a", 5))]) for c in (core, other))
    assert first == second
    assert isinstance(first, Start)


class Pieces:
    """Instead of a ledger: all that was ever given to be kept, put together."""

    def __init__(self) -> None:
        self.small: dict[str, Any] = {}
        self.jobs: dict[str, dict[str, Any]] = {}
        self.profiles: list[dict[str, Any]] = []
        self.sizes: list[int] = []

    def meta(self, name: str) -> None:
        return None

    def said(self, job: str) -> Description:
        return Description(name=job, argv=("true",))

    def keep(self, changes: Changes, *_: object) -> None:
        self.small = changes.small
        self.jobs.update(changes.jobs)
        assert len(self.profiles) == changes.first_profile
        self.profiles.extend(changes.profiles)
        self.sizes.append(len(changes.jobs))


def named(snapshot: dict[str, Any]) -> dict[str, Any]:
    """A snapshot with its profiles where they are used, whatever their numbers."""
    made: dict[str, Any] = json.loads(json.dumps(snapshot))
    for record in made["table"]["jobs"]:
        record["job"]["profiles"] = {n: made["table"]["profiles"][i] for n, i in record["job"]["profiles"].items()}
    del made["table"]["profiles"]
    return made


def test_changes_add_up_to_the_whole() -> None:
    """Saved piece by piece, after every cycle, it is what a snapshot of all of it would be; and a piece is small."""
    toy = ToyWorld(toy_cluster(1, 1, 2), [toy_job(f"j{i}", 1 + i % 2, 5, submit_s=i / 2) for i in range(12)])
    pieces = Pieces()
    world = Durable(toy, pieces, lambda _: "")  # type: ignore[arg-type]
    world.core = core = Core(resolve("srsf-preemptive"), world)

    def compare(now: float, core: Core) -> None:
        world.keep()
        assert named(assembled(pieces.small, pieces.jobs, pieces.profiles)) == named(whole(core))

    run(core, world, on_progress=compare)
    assert len(core.table.ended) == 12
    assert max(pieces.sizes) <= 6
