"""ASTRA-sim 1.0: its files are read and written, and the program is called with them.

A program written by the test stands for ASTRA-sim. It reads the three files as ASTRA-sim does, refuses what that
refuses, and leaves an EndToEnd.csv of that form: two columns without a name, microseconds, totals in the second row,
rows filled up to 50 cells. WEFT_ASTRA_SIM points at a real AnalyticalAstra, which is then run too.
"""

import json
import os
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tests.workload.profiles.sums import totals
from weft.errors import InputError
from weft.model.profile import Compute, Profile, Transfer
from weft.network.analytical import Analytical
from weft.network.astra import AstraSim
from weft.network.astra_files import layer_text, network_text, read_network, read_system, system_text
from weft.network.cost import Cached
from weft.network.hierarchy import MODERN, OLDER, Dimension
from weft.workload import zoo
from weft.workload.profiles.layers import parse_layers

NETWORK = {
    "topology-name": "x", "topologies-per-dim": ["Ring", "FullyConnected", "Switch"], "dimension-type": ["T", "N", "P"],
    "dimensions-count": 3, "units-count": [2, 8, 2], "links-count": [4, 16, 4], "link-latency": [0, 0, 50000],
    "link-bandwidth": [250, 25, 12], "nic-latency": [0, 0, 1000],
}  # fmt: skip
SYSTEM = """scheduling-policy: LIFO
endpoint-delay: 10
all-reduce-implementation: ring_direct_halvingDoubling
collective-optimization: localBWAware
"""


def test_network_file(tmp_path: Path) -> None:
    path = tmp_path / "n.json"
    path.write_text(json.dumps(NETWORK))
    found = read_network(path)
    # A unit has 4 links to the switch; a message pays two hops of 50,000 ns and two cards of 1,000 ns.
    assert found.network == Dimension("switch", 4 * 12 * 2**30, 100_000 * 1e-9, 2_000 * 1e-9)
    assert found.rack == Dimension("fully-connected", 2 * 25 * 2**30)  # 16 links to 7 others: two to each
    assert found.machine == Dimension("ring", 4 * 250 * 2**30)
    path.write_text(json.dumps({key: value for key, value in NETWORK.items() if key != "links-count"}))
    assert read_network(path).rack == Dimension("fully-connected", 25 * 2**30)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"units-count": [2, 8]}, "one for each dimension"),
        ({"link-bandwidth": [1, 2, -3]}, "link-bandwidth has -3"),
        ({"link-bandwidth": [1, 0, 3]}, "must be more than 0"),
        ({"topologies-per-dim": ["Ring", "Torus", "Ring"]}, "'Torus'"),
        ({"units-count": None}, "units-count is missing"),
        ({"units-count": [2, 0, 2]}, "at least 1 unit"),
        ({"nic-latency": 4}, "nic-latency is missing or no list"),
    ],
)
def test_bad_network_files(tmp_path: Path, change: dict[str, object], message: str) -> None:
    path = tmp_path / "n.json"
    path.write_text(json.dumps(NETWORK | change))
    with pytest.raises(InputError, match=message):
        read_network(path)
    path.write_text("{")
    with pytest.raises(InputError, match="not JSON"):
        read_network(path)


def test_system_file(tmp_path: Path) -> None:
    path = tmp_path / "s.txt"
    path.write_text(SYSTEM)
    found = read_system(path, replace(MODERN, shrinking=False))
    assert found.shrinking
    assert [d.moves for d in found.dimensions] == ["ring", "direct", "halving-doubling"]
    assert [d.kind for d in found.dimensions] == ["switch"] * 3  # a switch that runs rings stays a switch
    path.write_text("all-reduce-implementation: ring_direct\n")
    found = read_system(path, MODERN)
    assert not found.shrinking
    assert [d.moves for d in found.dimensions] == ["ring", "direct", "direct"]
    path.write_text("nothing here")
    with pytest.raises(InputError, match="is no `key: value`"):
        read_system(path, MODERN)
    path.write_text("a: b\n")
    with pytest.raises(InputError, match="all-reduce-implementation is missing"):
        read_system(path, MODERN)


@pytest.mark.skipif("WEFT_TRACES" not in os.environ, reason="WEFT_TRACES is not set")
def test_the_authors_files_are_read() -> None:
    folder = Path(os.environ["WEFT_TRACES"]) / "dally"
    networks = sorted((folder / "network").rglob("*.json"))
    systems = sorted((folder / "system").rglob("*.txt"))
    assert len(networks) == 20
    assert len(systems) == 17
    for path in networks:
        assert read_network(path).all_reduce_s(1e6, (2, 2, 2)) > 0
    assert all(read_system(path, MODERN).all_reduce_s(1e6, (2, 2, 2)) > 0 for path in systems)


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    (tmp_path / "n.json").write_text(network_text(MODERN, (8, 2, 1)))
    found = read_network(tmp_path / "n.json")
    assert found.network == found.rack  # the placement uses two tiers
    assert found.rack.bytes_per_s == pytest.approx(MODERN.rack.bytes_per_s)
    assert found.rack.nic_latency_s == pytest.approx(MODERN.rack.nic_latency_s)
    (tmp_path / "s.txt").write_text(system_text(MODERN, (8, 2, 1)))
    moves = [d.moves for d in read_system(tmp_path / "s.txt", OLDER).dimensions]
    assert moves == ["halving-doubling"] * 3


def test_what_the_program_cannot_halve_and_double_is_a_ring_and_said(tmp_path: Path) -> None:
    model = AstraSim(program(tmp_path), MODERN)
    for n in (3, 5, 6, 12):
        with pytest.warns(UserWarning, match=f"over {n} units: a ring does it"):
            model.exposed_s(replace(PROFILE, workers=n), "", ((n,),))
        assert "all-reduce-implementation: ring\n" in system_text(MODERN, (n, 1, 1))
    assert "all-reduce-implementation: halvingDoubling_ring\n" in system_text(MODERN, (4, 3, 1))


def test_layers_keep_time_and_bytes() -> None:
    """Read back, the layers compute as long, send as much, and become the same graph."""
    profile = zoo.profile("resnet18", 8, overlap=True)
    file = parse_layers(layer_text(profile))
    forward_s, backward_s, gradient_bytes = totals(file)
    assert gradient_bytes == pytest.approx(profile.message_bytes, rel=1e-6)
    assert forward_s + backward_s == pytest.approx(profile.compute_s, rel=1e-6)
    again = file.profile(8)
    assert [t.bytes for t in again.tasks if isinstance(t, Transfer)] == pytest.approx(
        [t.bytes for t in profile.tasks if isinstance(t, Transfer)], rel=1e-3
    )
    with pytest.raises(InputError, match="sends nothing"):
        layer_text(Profile("x", (Compute("c", 1.0),), 2))
    with pytest.raises(InputError, match="not of all workers"):
        layer_text(Profile("x", (Compute("c", 1.0), Transfer("t", 1.0, (0,), (0, 1))), 4))


STAND_IN = """#!{python}
import json, sys
options = dict(argument.removeprefix("--").split("=", 1) for argument in sys.argv[1:])
network = json.load(open(options["network-configuration"]))
dimensions = network["dimensions-count"]
lists = ("units-count", "links-count", "link-latency", "link-bandwidth", "nic-latency", "hbm-bandwidth")
if network["topology-name"] != "Hierarchical" or any(len(network[name]) != dimensions for name in lists):
    print("[Analytical, main] Topology not defined")
    sys.exit(255)
system = dict(line.split(": ") for line in open(options["system-configuration"]).read().splitlines())
assert len(system["all-reduce-implementation"].split("_")) == dimensions
kind, count, *lines = open(options["workload-configuration"]).read().splitlines()
layers = [line.split() for line in lines]
assert (kind, int(count)) == ("DATA", len(layers)) and all(len(fields) == 12 for fields in layers)
# Forward through all layers, then back: the input gradient of the first layer is not computed.
compute = sum(float(x[2]) + float(x[8]) for x in layers) + sum(float(x[5]) for x in layers[1:])
exposed = sum(float(x[10]) for x in layers) * sum(network["units-count"])
head = ["", "", "fwd compute", "wg compute", "ig compute", "fwd exposed comm", "wg exposed comm", "ig exposed comm",
        "fwd total comm", "wg total comm", "ig total comm", "workload finished at", "total comp", "total exposed comm"]
rows = [head]
for i, x in enumerate(layers):
    totals = [f"{{compute / 1e3:f}}", f"{{exposed / 1e3:f}}"] if i == 0 else []
    rows += [[x[0], options["run-name"], *["0.000000"] * 9, f"{{(compute + exposed) / 1e3:f}}", *totals]]
rows += [[]] * 20
with open(options["path"] + "EndToEnd.csv", "w") as out:
    out.writelines(",".join(row + [""] * (50 - len(row))) + "\\n" for row in rows)
with open("{log}", "a") as log:
    log.write("asked\\n")
"""
PROFILE = Profile("p", (Compute("c", 0.5), Transfer("t", 2e6, (0,))), 4)


def program(folder: Path, text: str = STAND_IN) -> Path:
    path = folder / "AnalyticalAstra"
    path.write_text(text.format(python=sys.executable, log=folder / "log"))
    path.chmod(0o755)
    return path


def test_the_program_is_called_with_three_files(tmp_path: Path) -> None:
    """The stand-in says 1 ns per byte and unit: 2e6 bytes over 2 x 2 units of two dimensions are 8e6 ns."""
    model = AstraSim(program(tmp_path), MODERN)
    assert model.exposed_s(PROFILE, "", ((2, 2),)) == pytest.approx(8e-3)
    assert AstraSim(program(tmp_path), MODERN, {"m": 2.0}).exposed_s(PROFILE, "m", ((2, 2),)) == pytest.approx(16e-3)
    command = model.write(tmp_path, PROFILE, "", ((2, 2),))
    assert [part.split("=")[0] for part in command[1:]] == [
        "--network-configuration", "--system-configuration", "--workload-configuration", "--path", "--run-name",
        "--num-passes", "--total-stat-rows", "--stat-row",
    ]  # fmt: skip


def test_all_that_is_computed_is_seen_there() -> None:
    """What is left after the last transfer is not lost: 0.5 s before it and 0.25 s after it are 0.75 s."""
    profile = Profile("p", (Compute("c", 0.5), Transfer("t", 2e6, (0,)), Compute("d", 0.25, (0,))), 4)
    file = parse_layers(layer_text(profile))
    assert totals(file)[:2] == pytest.approx((0.25, 0.5))
    assert file.layers[0].input_gradient == 0  # not computed there for the first layer


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("#!{python}\nimport sys\nprint('no such network')\nsys.exit(3)\n#{log}", r"exit code 3 \(no such network\)"),
        ("#!{python}\nimport os\nos.kill(os.getpid(), 9)\n#{log}", r"killed by signal 9 \(it said nothing\)"),
        ("#!{python}\n#{log}", "it left no EndToEnd.csv"),
        ("#!{python}\nimport time\ntime.sleep(30)\n#{log}", "did not end within 0.5 s"),
        ("#!/nowhere/at/all\n#{python}{log}", "cannot be run"),
        (STAND_IN.replace("total comp", "x").replace("compute / 1e3:f", "'much'"), "cannot be read"),
        (STAND_IN.replace("exposed / 1e3:f", "float('nan')"), "has times"),
    ],
)
def test_a_program_that_fails(tmp_path: Path, text: str, message: str) -> None:
    model = AstraSim(program(tmp_path, text), MODERN)
    model.timeout_s = 0.5 if "sleep" in text else 60.0
    with pytest.raises(InputError, match=message) as error:
        model.exposed_s(PROFILE, "", ((2, 2),))
    assert str(error.value).startswith("network.program: ")
    assert "\n" not in str(error.value)


def test_no_program(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="is no file"):
        AstraSim(tmp_path / "nowhere", MODERN)
    path = program(tmp_path)
    path.chmod(0o644)
    with pytest.raises(InputError, match=r"cannot be run \(Permission denied\)"):
        AstraSim(path, MODERN).exposed_s(PROFILE, "", ((2, 2),))


@pytest.mark.skipif("WEFT_ASTRA_SIM" not in os.environ, reason="WEFT_ASTRA_SIM points at no ASTRA-sim")
def test_a_real_one() -> None:
    """An all-reduce of 1 GB over 8 GPUs takes about as long there as in the hierarchy, and longer over racks."""
    profile = Profile("p", (Compute("c", 0.5), Transfer("t", 1e9, (0,))), 8)
    model = AstraSim(os.environ["WEFT_ASTRA_SIM"], MODERN)
    own = Analytical(MODERN)
    for shape in (((8,),), ((1,) * 8,), ((1,),) * 8):
        assert own.exposed_s(profile, "", shape) == pytest.approx(model.exposed_s(profile, "", shape), rel=0.01)


def test_a_run_asks_for_each_shape_once(tmp_path: Path) -> None:
    """30 jobs that start again and again under Dally: the program runs once for each profile and shape there was."""
    from weft.sim import NetworkSpec, RunSpec, simulate
    from weft.stacks import resolve
    from weft.testing import toy_cluster, toy_job

    jobs = [toy_job(f"j{i}", 2 + 2 * (i % 2), 20 + i, 1.0, 1e6) for i in range(30)]
    kept = {n: next(job.profiles[n] for job in jobs if job.gpus == n) for n in (2, 4)}
    for job in jobs:
        job.profiles[job.gpus] = kept[job.gpus]
    network = NetworkSpec(cost=Cached(AstraSim(program(tmp_path), MODERN)))
    result = simulate(toy_cluster(2, 2, 2), jobs, resolve("dally-nowait", order="nw-sens:7"), network, RunSpec())
    assert result.jobs["preemptions"].sum() > 20
    asked = (tmp_path / "log").read_text().count("asked")
    assert 2 <= asked <= 5  # 2 GPUs on one machine, in a rack, over racks; 4 in a rack, over racks
