"""The stacks of the newest rivals: what each is made of, what it does to jobs that meet, and what it goes with."""

import pytest

from weft.core.loop import run
from weft.core.stack import Stack
from weft.errors import StackError
from weft.model.job import Job
from weft.model.profile import Phase, Profile
from weft.network.topologies import Machine, leaf_spine
from weft.sim import NetworkSpec, RunSpec, begin, simulate
from weft.stacks import resolve
from weft.stacks.registry import make
from weft.testing.probes import Fixed

LAYERS = {
    "crux": ("fifo/best-fit", "none", "crux", "crux"),
    "monkeytree": ("monkeytree", "none", "fair", "edge-colouring"),
    "foresight": ("fifo/best-fit", "foresight", "fair", "edge-colouring"),
    "mltcp": ("fifo/best-fit", "none", "mltcp", "ecmp"),
    "arnold": ("fifo/arnold", "none", "fair", "ecmp"),
    "sglb": ("fifo/best-fit", "none", "fair", "sglb"),
}


@pytest.mark.parametrize("name", LAYERS)
def test_layers(name: str) -> None:
    stack = resolve(name)
    assert (stack.planner.name, stack.interleave.name, stack.pace.name, stack.route.name) == LAYERS[name]


@pytest.mark.parametrize(
    ("name", "layers"),
    [
        ("dally[route=crux]", ("nw-sens/delay", "none", "fair", "crux")),
        ("themis+cassini[route=edge-colouring]", ("themis", "cassini", "fair", "edge-colouring")),
        ("crux:3", ("fifo/best-fit", "none", "crux:3", "crux")),
        ("monkeytree:limit=4[route=sglb]", ("monkeytree:limit=4", "none", "fair", "sglb")),
        ("srsf/arnold/foresight/mltcp/sglb", ("srsf/arnold", "foresight", "mltcp", "sglb")),
    ],
)
def test_combinations(name: str, layers: tuple[str, ...]) -> None:
    stack = resolve(name)
    assert (stack.planner.name, stack.interleave.name, stack.pace.name, stack.route.name) == layers
    assert resolve(stack.name).name == stack.name


def test_settings_are_refused_in_the_words_of_the_stack() -> None:
    with pytest.raises(StackError, match=r"^stack monkeytree:x: "):
        resolve("monkeytree:x")


def ends(stack: str, *phases: tuple[float, float], iterations: int) -> list[float]:
    """When jobs end that compute and send for so long; each has a worker in both of two racks, under as many spines as
    jobs."""
    n = len(phases)
    cluster = leaf_spine(2, n, Machine(gpus_per_server=1), spines=n)
    line = float(cluster.topology.capacity[0])
    placed = {str(i): (i, n + i) for i in range(n)}
    jobs = []
    for i, (compute_s, send_s) in enumerate(phases):
        profile = Profile.from_phases(f"p{i}", [Phase(compute_s), Phase(bytes=send_s * line, collective="ring")], 2)
        jobs.append(Job(str(i), 0.0, 2, iterations, {2: profile}))
    found = resolve(stack)
    result = simulate(cluster, jobs, Stack("x", Fixed(placed), found.interleave, found.pace, found.route))
    return [float(end) for end in result.jobs.sort("job_id")["finish_s"]]


@pytest.mark.parametrize("name", ["crux", "foresight", "sglb", "fifo[route=edge-colouring]"])
def test_jobs_that_need_not_meet_go_as_if_alone(name: str) -> None:
    """Four jobs of 8 s between two racks with four spines: hashes collide, chosen paths do not. SGLB hashes over half
    of the paths, so two flows may meet on one."""
    found = ends(name, *[(4.0, 4.0)] * 4, iterations=5)
    assert found == pytest.approx([40.0] * 4) if name != "sglb" else max(found) < 5 * 20.0


def test_crux_uses_gpus_as_well_as_one_link_allows() -> None:
    """Theorem 1: what counts is the intensity on the link. A job computes 4 s for 1 s of sending (I = 4), three 0.5 s
    for 2 s (I = 0.25), all over one link. First, the intense one sends in a fifth of the time, and the others fill the
    rest: (4 / 5 + 0.25 x 4 / 5) / 4 = 0.25 of the GPUs. In fair shares it sends for up to 4 s."""
    cluster = leaf_spine(2, 4, Machine(gpus_per_server=1), spines=1, oversubscription=4.0)
    line = float(cluster.topology.capacity[0])
    phases = [(0.5, 2.0)] * 3 + [(4.0, 1.0)]
    jobs = [
        Job(str(i), 0.0, 2, 10**6, {2: Profile.from_phases(f"p{i}", [Phase(c), Phase(bytes=s * line)], 2)})
        for i, (c, s) in enumerate(phases)
    ]
    planner = Fixed({str(i): (i, 4 + i) for i in range(4)})
    used = {}
    for pace in ("fair-flows", "crux"):
        stack = Stack("x", planner, make("interleave", "none"), make("pace", pace))
        world, core = begin(cluster, jobs, stack, NetworkSpec(), RunSpec())
        run(core, world, until=400.0)
        used[pace] = sum(world.iterations_done(str(i)) * c for i, (c, _) in enumerate(phases)) / (4 * 400.0)
    assert used["crux"] == pytest.approx(0.25, rel=0.01)
    assert used["fair-flows"] < 0.21
