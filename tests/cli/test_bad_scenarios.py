"""Malformed scenarios: exit code 2, one exact line on stderr, nothing on stdout, no traceback."""

from __future__ import annotations

from pathlib import Path

import pytest

from weft.cli.main import run
from weft.workload.zoo.catalogue import gpus

GOOD = """\
[cluster]
topology = "leaf-spine"
racks = 2
servers_per_rack = 2
gpus_per_server = 4
nic_gbps = 10
oversubscription = 2.0
[workload]
source = "poisson"
jobs = 5
load = 0.9
models = ["vgg16", "resnet50"]
gpus = {1 = 0.5, 4 = 0.5}
iterations = [20, 50]
[stack]
name = "srsf"
[network]
sharing = "max-min"
[run]
seed = 1
"""

# what to replace in the good scenario, by what, and the line that must come (after "error: FILE: ")
CASES: dict[str, tuple[str, str, str]] = {
    "unknown key": ("racks = 2", "rack = 2", "cluster.rack is not a known key; did you mean racks?"),
    "key of another section": ("racks = 2", "racks = 2\njitter = 0.1", "cluster.jitter is not a known key; it belongs in [run]"),
    "unknown key, nothing like it": (
        "seed = 1", "zzz = 1",
        "run.zzz is not a known key; known: seed, exact, effort, restart_s, jitter, stragglers, straggler_factor, "
        "start_latency_s, failure_rate, outages, checkpoint_every, until_s",
    ),
    "no job length": (
        "iterations = [20, 50]\n", "",
        "workload: the job length is missing; give iterations, duration_median_s or draw_from",
    ),
    "jitter beyond measure": ("seed = 1", "seed = 1\njitter = 1e308", "run.jitter is 1e+308; give at most 10"),
    "unknown section": ("[run]", "[runs]", "runs is not a known key; did you mean run?"),
    "no cluster": (
        GOOD[: GOOD.index("[workload]")], "", "cluster is missing; add it",
    ),
    "no topology": (
        'topology = "leaf-spine"\n', "",
        "cluster.topology is missing; add it: one of single-switch, leaf-spine, three-tier, fat-tree, cassini, links, file",
    ),
    "unknown topology": (
        '"leaf-spine"', '"leafspine"',
        'cluster.topology is "leafspine"; did you mean leaf-spine? known: single-switch, leaf-spine, three-tier, '
        "fat-tree, cassini, links, file",
    ),
    "negative racks": ("racks = 2", "racks = -2", "cluster.racks is -2; give at least 1"),
    "iterations beyond counting": (
        "[20, 50]", f"[5, {10**20 - 1}]",
        "workload.iterations: 99999999999999999999 is too large; give at most 1000000000000",
    ),
    "jobs beyond memory": ("jobs = 5", f"jobs = {10**11}", "workload.jobs is 100000000000; give at most 1e+07"),
    "half a rack": ("racks = 2", "racks = 1.5", "cluster.racks is 1.5; give a whole number"),
    "a number as text": ("nic_gbps = 10", 'nic_gbps = "10"', 'cluster.nic_gbps is "10"; give a number'),
    "no bandwidth": ("nic_gbps = 10", "nic_gbps = 0", "cluster.nic_gbps is 0; give more than 0"),
    "infinite bandwidth": ("nic_gbps = 10", "nic_gbps = inf", "cluster.nic_gbps is inf; give a finite number"),
    "a field the topology lacks": (
        "racks = 2", "racks = 2\nk = 4", "cluster.k has no meaning in a leaf-spine topology; leave it out",
    ),
    "a field the topology needs": (
        "racks = 2\n", "", "cluster.racks is missing; a leaf-spine topology needs it",
    ),
    "a file that is not there": (
        GOOD[: GOOD.index("[workload]")], '[cluster]\ntopology = "file"\nfile = "none.conf"\n',
        "{folder}/none.conf: it cannot be read (No such file or directory); check the path",
    ),
    "unknown source": (
        '"poisson"', '"poison"',
        'workload.source is "poison"; did you mean poisson? known: poisson, batch, dynamic, snapshot, bursty, ada-srsf, '
        "trace, jobs",
    ),
    "no jobs": ("jobs = 5", "jobs = 0", "workload.jobs is 0; give at least 1"),
    "negative load": ("load = 0.9", "load = -0.9", "workload.load is -0.9; give more than 0"),
    "iterations from high to low": (
        "[20, 50]", "[50, 20]", "workload.iterations: [50, 20] must be [low, high] with 1 <= low <= high",
    ),
    "a job larger than the cluster": (
        "4 = 0.5", "64 = 0.5",
        "workload.gpus has jobs of 64 GPUs, the cluster has 16; remove that size or enlarge the cluster",
    ),
    "a size that is no number": ("4 = 0.5", "four = 0.5", 'workload.gpus.four is "four"; give a whole number'),
    "a negative weight": ("4 = 0.5", "4 = -0.5", "workload.gpus.4 is -0.5; give at least 0"),
    "unknown model": (
        '"vgg16"', '"vgg61"', "workload.models: model 'vgg61' is not in the zoo; did you mean vgg19 or vgg16 or vgg11?",
    ),
    "a trace that is not there": (
        'source = "poisson"', 'source = "trace"\ntrace = "none.csv"',
        "workload.trace: none.csv is not in {folder} (WEFT_TRACES is not set); give the path of a trace file",
    ),
    "a model that does not fit": (
        "nic_gbps = 10", "nic_gbps = 10\ngpu_memory_gb = 2",
        "workload.models: resnet50 on 4 GPUs needs 3.21 GB of each, they have 2; leave it out, or raise cluster.gpu_memory_gb",
    ),
    "an unknown GPU": (
        "nic_gbps = 10", 'nic_gbps = 10\ngpu = "V1000"',
        "cluster.gpu: gpu 'V1000' is not known to the zoo; did you mean V100?",
    ),
    "unknown stack": ('"srsf"', '"srfs"', "stack: there is no stack srfs; did you mean srsf or srsf-3 or srsf-2? `weft stacks` lists them"),
    "empty stack": ('name = "srsf"\n', "", "stack.name is missing; give a name, or an order (see: weft stacks)"),
    "unknown sharing": (
        '"max-min"', '"maxmin"',
        'network.sharing is "maxmin"; did you mean max-min? known: ideal, max-min, k-way',
    ),
    "a GPU unlike any": (
        "nic_gbps = 10", 'nic_gbps = 10\ngpu = "Q9"',
        "cluster.gpu: gpu 'Q9' is not known to the zoo; use one of {gpus}",
    ),
    "layers that contradict each other": (
        'name = "srsf"', 'name = "themis"\nplace = "lwf:1"',
        "stack: place lwf:1 cannot be used with themis: themis decides order and place at once; "
        "replace its interleave or pace, or choose another stack",
    ),
    "a layer without a name": ('name = "srsf"', 'order = ""', 'stack.order is ""; give a name'),
    "nobody may be scattered": (
        'name = "srsf"', 'name = "srsf"\nplace = "lwf:-1"',
        "stack: lwf:-1: -1: it takes a whole number from 0",
    ),
    "restarts without end": ("seed = 1", "restart_s = 1e300", "run.restart_s is 1e+300; give at most 1e+09"),
    "bandwidth for a bit a year": ("nic_gbps = 10", "nic_gbps = 1e-30", "cluster.nic_gbps is 1e-30; give at least 1e-06"),
    "GPUs without number": (
        "gpus_per_server = 4", f"gpus_per_server = {10**18}",
        "cluster.gpus_per_server is 1000000000000000000; give at most 1000",
    ),
    "no program to ask": (
        'sharing = "max-min"', 'cost = "astra-sim"',
        'network.program is missing; cost "astra-sim" needs the path of the program',
    ),
    "a program that is not there": (
        'sharing = "max-min"', 'cost = "astra-sim"\nprogram = "nowhere"',
        "network.program: {folder}/nowhere is no file; give the path of ASTRA-sim's AnalyticalAstra",
    ),
    "a hierarchy for links": (
        'sharing = "max-min"', 'hierarchy = "older"',
        'network.hierarchy has no meaning with cost "links"; remove it or use cost = "analytical" or "astra-sim"',
    ),
    "two hierarchies": (
        'sharing = "max-min"', 'cost = "analytical"\nhierarchy = "older"\nastra_network = "n.json"',
        "network.hierarchy excludes astra_network; remove one of them",
    ),
    "a network file that is not there": (
        'sharing = "max-min"', 'cost = "analytical"\nastra_network = "n.json"',
        "network: {folder}/n.json: No such file or directory; check the path",
    ),
    "a table beside rows": (
        'sharing = "max-min"', 'cost = "tiers"\ntable = "themis"\ntiers = {default = {rack = 0.1, network = 0.5}}',
        "network.table excludes tiers; remove one of them",
    ),
    "a constant of another sharing": (
        'sharing = "max-min"', "eta_s_per_byte = 1e-10",
        'network.eta_s_per_byte has no meaning with sharing "max-min"; remove it or use k-way',
    ),
    "tiers without a table": (
        'sharing = "max-min"', 'cost = "tiers"',
        'network.tiers is missing; cost "tiers" needs a row per model, or one named default, or a table',
    ),
    "a tier for nobody": (
        'sharing = "max-min"', 'cost = "tiers"\ntiers = {vgg16 = {rack = 0.1, network = 0.5}}',
        "network.tiers has no row for resnet50; add it, or one named default",
    ),
    "a negative tier": (
        'sharing = "max-min"', 'cost = "tiers"\ntiers = {default = {rack = -0.1, network = 0.5}}',
        "network.tiers.default.rack is -0.1; give at least 0",
    ),
    "exact as a number": ("seed = 1", "seed = 1\nexact = 1", "run.exact is 1; give true or false"),
    "negative seed": ("seed = 1", "seed = -1", "run.seed is -1; give at least 0"),
    "failing always": (
        "seed = 1", "failure_rate = 1", "run.failure_rate is 1; give less than 1",
    ),
    "not a number": ("seed = 1", "restart_s = nan", "run.restart_s is nan; give a finite number"),
    "a section as a number": ("[run]\nseed = 1\n", "", "run is 3; give a table {..}"),
    "not TOML": ("racks = 2", "racks = = 2", "not valid TOML: invalid value (at line 3, column 9); mend that line"),
    "two problems": (
        "racks = 2", "racks = 0\nservers_per_rak = 2",
        "cluster.servers_per_rak is not a known key; did you mean servers_per_rack? (and 1 more problem)",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_one_line(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("WEFT_TRACES", raising=False)
    old, new, message = CASES[name]
    assert old in GOOD
    text = GOOD.replace(old, new)
    if name == "a section as a number":
        text = "run = 3\n" + text
    path = tmp_path / "bad.toml"
    path.write_text(text)
    code = run(["simulate", str(path), "--json"])
    out, err = capsys.readouterr()
    assert (
        err
        == f"error: {path}: {message.replace('{folder}', str(tmp_path)).replace('{gpus}', ', '.join(g.name for g in gpus()))}\n"
    )
    assert out == ""
    assert code == 2


def test_the_scenario_they_were_made_from_is_good(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "good.toml"
    path.write_text(GOOD)
    assert run(["topology", str(path)]) == 0
    assert "16 V100 GPUs" in capsys.readouterr().out


def test_a_missing_file(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["simulate", "nowhere/none.toml"]) == 2
    line = "error: nowhere/none.toml: no such file; write one with: weft init nowhere/none.toml\n"
    assert capsys.readouterr() == ("", line)


def test_a_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["compare", str(tmp_path)]) == 2
    assert capsys.readouterr().err == f"error: {tmp_path}: is a directory; give the path of a file in it\n"


def test_a_file_in_the_way_of_the_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, taken = tmp_path / "good.toml", tmp_path / "taken"
    path.write_text(GOOD)
    taken.write_text("mine")
    assert run(["simulate", str(path), "--out", str(taken), "--json"]) == 2
    line = f"error: {taken}: a file is in the way of the folder for the run; name another folder\n"
    assert capsys.readouterr().err.endswith(line)
    assert taken.read_text() == "mine"


def test_not_text(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "bad.toml"
    path.write_bytes(b"[cluster]\nname = \xff\xfe")
    assert run(["topology", str(path)]) == 2
    assert capsys.readouterr().err == f"error: {path}: not UTF-8 text (byte 17); save it as UTF-8\n"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--place", "lwf:x"], "lwf:x: 'x' is not known; behind the colon write N"),
        (["--place", "nosuch"], "there is no place nosuch; known are affinity, best-fit, "),
        (["--stack", "nosuch"], "there is no stack nosuch; known are "),
        (["--seed", "-1"], "Invalid value for '--seed': "),
        (["--seed", f"{2**63}"], "Invalid value for '--seed': "),
    ],
)
def test_bad_options(options: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "good.toml"
    path.write_text(GOOD)
    assert run(["simulate", str(path), *options]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(f"error: {message}")
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    ("extra", "options", "message"),
    [
        ("", [], "compare.stacks is missing; add it, or name stacks with --stack"),
        ("", ["--stack", "fifo", "--stack", "fifo"], "stack fifo is given twice; name each once"),
        ("[compare]\nstacks = []\n", [], "compare.stacks is an empty list; give at least 1 entry"),
        ('[compare]\nstacks = ["fifo"]\nseeds = 0\n', [], "compare.seeds is 0; give at least 1"),
        ('[compare]\nstacks = ["fivo"]\n', [], "compare.stacks: there is no stack fivo; did you mean fifo?"),
    ],
)
def test_bad_comparisons(
    extra: str, options: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "some.toml"
    path.write_text(GOOD + extra)
    assert run(["compare", str(path), *options]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("error: ")
    assert message in err
    assert err.count("\n") == 1


def test_a_missing_file_to_draw_from_is_named_by_its_own_key(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("WEFT_TRACES", raising=False)
    path = tmp_path / "some.toml"
    path.write_text(GOOD.replace("iterations = [20, 50]", 'draw_from = "none.csv"'))
    assert run(["simulate", str(path)]) == 2
    assert f"{path}: workload.draw_from: none.csv is not in {tmp_path}" in capsys.readouterr().err
