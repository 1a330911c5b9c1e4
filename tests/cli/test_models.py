"""`weft models`, `weft fit` and `weft profile`: what they print, and one line for what is wrong."""

import json
import sys
from pathlib import Path

import pytest

from testkit.engines import load_torch
from weft.cli.main import run
from weft.network.iteration import play_on
from weft.network.topologies import Machine, single_switch
from weft.workload import zoo
from weft.workload.profiles.files import save_profile
from weft.workload.zoo.rates import reached

Capture = pytest.CaptureFixture[str]


@pytest.mark.parametrize("args", [("models",), ("models", "list")])
def test_every_model_is_listed(args: tuple[str, ...], capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    assert run(args) == 0
    text = capsys.readouterr().out
    for name in zoo.names():
        assert f"\n{name} " in text
    assert "138,357,544" in text
    assert "vgg16@cassini" in text


@pytest.mark.parametrize("args", [("models", "--json"), ("models", "list", "--json")])
def test_the_list_as_json_has_a_source_for_every_time(args: tuple[str, ...], capsys: Capture) -> None:
    assert run(args) == 0
    listed = json.loads(capsys.readouterr().out)["models"]
    assert [m["model"] for m in listed] == list(zoo.names())
    assert all(t["source"] and t["forward_s"] > 0 for m in listed for t in m["timings"])


@pytest.mark.parametrize(
    ("parallel", "said"), [("data", "656.9 MB per worker"), ("parameter-server", "437.9 MB to 1,313.8 MB per worker")]
)
def test_what_workers_send_is_a_range_only_where_it_differs(parallel: str, said: str, capsys: Capture) -> None:
    """A ring sends 2 (n - 1) / n of 437.9 MB from each of 4 workers; one of them is a parameter server, too."""
    assert run(["models", "show", "bert-base", "--workers", "4", "--parallel", parallel]) == 0
    sent = next(line for line in capsys.readouterr().out.splitlines() if line.startswith("sent"))
    assert sent.split("sent", 1)[1].strip() == said


def test_vgg16s_iteration_is_drawn(capsys: Capture, tmp_path: Path) -> None:
    plot = tmp_path / "vgg16.svg"
    assert run(["models", "show", "vgg16@cassini", "--workers", "4", "--plot", str(plot)]) == 0
    text = capsys.readouterr().out
    assert "workers 0-3" in text
    assert "circle of 255 ms: Down 141 ms" in text
    assert "Up 1: 114 ms at 45.0 Gbit/s" in text
    assert plot.read_text().lstrip().startswith("<?xml")


def test_memory_is_shown_with_its_source(capsys: Capture) -> None:
    assert run(["models", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)["models"]
    assert all(m["memory_bytes"] > 0 and m["memory_source"] for m in listed)
    assert all(t["memory_source"] for m in listed for t in m["timings"] if t["memory_bytes"])
    assert run(["models", "show", "gpt2-a", "-n", "1", "--gpu", "H200", "--batch", "24"]) == 0
    line = next(x for x in capsys.readouterr().out.splitlines() if x.startswith("memory"))
    assert line.split(None, 1)[1].strip() == "97.7 GB per worker; measured by weft on NVIDIA H200, bf16"


@pytest.mark.parametrize(("gpu", "warned"), [("V100", True), ("A100", True), ("H200", False)])
def test_a_model_that_is_too_large_for_the_gpu_is_warned_of(gpu: str, warned: bool, capsys: Capture) -> None:
    """97.7 GB do not fit into 16 or 40 GB, but into 141."""
    assert run(["models", "show", "gpt2-a", "-n", "1", "--gpu", gpu, "--batch", "24"]) == 0
    lines = [x for x in capsys.readouterr().out.splitlines() if x.startswith("warning:")]
    assert len(lines) == warned
    assert all("97.7 GB per worker do not fit" in x and "smaller batch" in x for x in lines)


def test_cassinis_circle_says_that_it_does_not_send_the_gradients(capsys: Capture) -> None:
    """45 Gbit/s for 114 ms are 641.25 MB per worker: on a ring of 4 the message is 4/6 of that, not 553.4 MB."""
    assert run(["models", "show", "vgg16@cassini", "-n", "4", "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["sent_bytes"] == pytest.approx([45e9 / 8 * 0.114] * 4)
    assert shown["message_bytes"] == pytest.approx(427.5e6)
    assert len(shown["remarks"]) == 1
    assert "427.5 MB on 4 workers, not of the model's 553.4 MB" in shown["remarks"][0]
    for plain in ("vgg16", "vgg16@ada-srsf"):
        assert run(["models", "show", plain, "-n", "4", "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["remarks"] == []


def test_show_as_json_has_tasks_and_phases(capsys: Capture) -> None:
    assert run(["models", "show", "gpt3-cassini", "-n", "8", "--gpu", "A100", "--layers", "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert len(shown["up_phases"]) == 6
    assert shown["iteration_s"] >= shown["compute_s"] > 0
    assert {t["kind"] for t in shown["tasks"]} == {"compute", "transfer"}
    assert sum(x["parameters"] for x in shown["layers"]) == shown["model"]["parameters"]
    assert shown["source"].startswith("estimated")


def test_options_reach_the_graph(capsys: Capture) -> None:
    args = ["models", "show", "resnet50", "--workers", "3", "--parallel", "parameter-server", "--servers", "2"]
    assert run([*args, "--batch", "64", "--overlap", "--gbps", "10", "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["batch"] == 64
    assert sum(shown["sent_bytes"]) == pytest.approx(2 * 2 * 4 * 25_557_032)
    assert len([t for t in shown["tasks"] if t["kind"] == "transfer"]) > 1


def test_a_profile_file_is_shown(capsys: Capture, tmp_path: Path) -> None:
    path = tmp_path / "mine.json"
    save_profile(zoo.profile("vgg16", 2), path)
    assert run(["models", "show", str(path), "--workers", "2", "--layers"]) == 0
    assert "vgg16: one iteration on 2 workers" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["vgg15"], "did you mean"),
        (["vgg16", "--workers", "0"], "workers is 0"),
        (["vgg16", "--gpu", "Z80"], "gpu 'Z80'"),
        (["vgg16", "--parallel", "sideways"], "parallel 'sideways'"),
        (
            ["gpt3", "--workers", "8", "--parallel", "hybrid:2x2x3"],
            "model 'gpt3': parallel hybrid:2x2x3: the product must be the number of workers, 8; ",
        ),
        (["gpt3", "--workers", "8", "--parallel", "hybrid:two"], "hybrid:2x2x2"),
        (["vgg16", "--worker", "9"], "--worker: 9"),
        (["vgg16", "--collective", "gossip"], "gossip"),
        (["vgg16", "--gbps", "0"], "NIC"),
        (["vgg16", "--plot", "x.doc"], "must end in"),
        (["none.json"], "No such file"),
    ],
)
def test_what_is_wrong_gets_one_line(args: list[str], words: str, capsys: Capture) -> None:
    assert run(["models", "show", *args]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert words in captured.err
    assert captured.err.count("\n") == 1


@pytest.fixture
def timings(tmp_path: Path) -> Path:
    rows = [
        f"{k},{size},{1e6 * (0.001 + (k * 8.56e-10 + (k - 1) * 2.35e-10) * size)}"
        for k in range(1, 5)
        for size in (10_000_000, 20_000_000, 40_000_000)
    ]
    path = tmp_path / "results.csv"
    path.write_text("job_num,msg_size,avg_latency\n" + "\n".join(rows) + "\n")
    return path


def test_fit_finds_the_constants(timings: Path, tmp_path: Path, capsys: Capture) -> None:
    plot = tmp_path / "fit.svg"
    assert run(["fit", "allreduce", str(timings), "--json", "--plot", str(plot)]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["a_s"] == pytest.approx(0.001)
    assert found["b_s_per_byte"] == pytest.approx(8.56e-10)
    assert found["eta_s_per_byte"] == pytest.approx(2.35e-10)
    assert found["adadual_threshold"] == pytest.approx(2.549, abs=1e-3)
    assert len(found["samples"]) == 12
    assert "<svg" in plot.read_text()


def test_fit_as_a_table(timings: Path, capsys: Capture) -> None:
    assert run(["fit", "allreduce", str(timings), "--absolute", "--max-k", "3"]) == 0
    text = capsys.readouterr().out
    assert "8.56e-10 s/B" in text
    assert "9 timings" in text


def test_fit_of_one_k_says_what_it_cannot_tell(timings: Path, capsys: Capture) -> None:
    assert run(["fit", "allreduce", str(timings), "--max-k", "1"]) == 0
    assert "cannot be separated" in capsys.readouterr().out


def test_fit_reports_a_damaged_row(tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "bad.csv"
    path.write_text("job_num,msg_size,avg_latency\n1,2,soon\n")
    assert run(["fit", "allreduce", str(path)]) == 2
    assert "line 2: avg_latency is 'soon'" in capsys.readouterr().err


def test_profile_without_torch_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)  # what Python itself does for a module that cannot be imported
    assert run(["profile", "resnet50"]) == 2
    assert "weft[torch]" in capsys.readouterr().err


def test_profile_measures_and_writes(tmp_path: Path, capsys: Capture) -> None:
    load_torch()
    out = tmp_path / "small.json"
    args = ["profile", "mobilenet-v3-small", "--batch", "1", "--device", "cpu", "--library", "weft", "--repeats", "3"]
    assert run([*args, "--warmup", "1", "--out", str(out), "--json"]) == 0
    seen = json.loads(capsys.readouterr().out)["measurements"][0]
    assert seen["params"] == 2_542_856
    assert run(["models", "show", str(out), "--workers", "2", "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["message_bytes"] == 4 * 2_542_856


def _one_line(args: list[str], capsys: Capture) -> str:
    """What a command that is refused says: exit code 2 and one line."""
    assert run(args) == 2
    said = capsys.readouterr().err.strip()
    assert said.startswith("error: ")
    assert "\n" not in said
    return said


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["vgg16", "-n", "100000000"], "less than or equal to 100000"),
        (["vgg16", "--gbps", "nan"], "--gbps: nan is no speed of a NIC"),
        (["vgg16", "--gbps", "-1"], "--gbps: -1 is no speed of a NIC"),
        (["vgg16", "--dtype", "fp99"], "dtype 'fp99' is not known; use one of fp32, tf32, bf16"),
        (["vgg16[btach=3]"], "'btach' is no option of a model; did you mean batch?"),
        (["vgg16[batch=3"], "close the bracket"),
        (["vgg16", "--parallel", "pipeline:2"], "parallel 'pipeline:2' is not known"),
        (["./nothing"], "nothing: No such file or directory; check the path"),
    ],
)
def test_odd_requests_to_show_get_one_line(args: list[str], said: str, capsys: Capture) -> None:
    assert said in _one_line(["models", "show", *args], capsys)


def test_files_are_shown_whatever_they_are_called(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    """A layer file of 4 MB: a ring of 4 sends 6 MB per worker, after 6 ms and an update of 10 ns."""
    monkeypatch.chdir(tmp_path)
    text = "DATA\n1\nconv -1 1000000 NONE 0 2000000 NONE 0 3000000 ALLREDUCE 4000000 10\n"
    for name in ("layers.txt", "layers"):
        Path(name).write_text(text)
        assert run(["models", "show", name, "--workers", "4", "--json"]) == 0
        shown = json.loads(capsys.readouterr().out)
        assert shown["sent_bytes"] == pytest.approx([6e6] * 4)
        assert shown["compute_s"] == pytest.approx(6.00001e-3)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    monkeypatch.setenv("WEFT_TRACES", str(tmp_path))
    assert run(["models", "show", "layers.txt", "--json"]) == 0
    capsys.readouterr()
    Path("notes.csv").write_text("a,b\n1,2\n")
    assert "no PipeDream graph" in _one_line(["models", "show", "notes.csv"], capsys)


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ("", "it has no timings; add rows below its header"),
        ("1,100,5\n", "fit.csv: all-reduce timings: 1 rows cannot fix 2 constants"),
        ("1,1e308,1e308\n2,1e308,1e300\n1,1,1\n", "line 2: msg_size is '1e308'; it must be between"),
        ("1,100,1e-300\n2,100,1\n1,10,1\n", "line 2: avg_latency is '1e-300'; it must be between"),
        ("1.5,100,5\n", "line 2: job_num is 1.5; it must be a whole number"),
    ],
)
def test_fit_refuses_what_it_cannot_fit(rows: str, said: str, tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "fit.csv"
    path.write_text("job_num,msg_size,avg_latency\n" + rows)
    assert said in _one_line(["fit", "allreduce", str(path)], capsys)


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["mine.json"], "weft profile measures models of the zoo; one of your own is measured in its training script"),
        (["alexnet[batch=2]"], "give --batch and --dtype"),
        (["alexnet", "--device", "tpu"], "--device: 'tpu' is not known; use auto, cpu, cuda or cuda:N"),
        (["alexnet", "--device", "meta"], "--device: 'meta' is not known"),
        (["alexnet", "--device", "cuda:x"], "--device: 'cuda:x' is not known"),
        (["alexnet", "--dtype", "fp8"], "--dtype: 'fp8' is not known; use one of as-is, fp32"),
        (["alexnet", "--out", "no/such/folder/a.json"], "--out: there is no folder no/such/folder"),
        (["alexnet", "--batch", "0"], "--batch: 0 is too small"),
    ],
)
def test_profile_refuses_before_it_measures(args: list[str], said: str, capsys: Capture) -> None:
    assert said in _one_line(["profile", *args], capsys)


LAYOUT = "llama-3.1-8b[layers=4,parallel=hybrid:tp4xpp2,micro_batches=4,schedule=1f1b,overlap=true]"


def test_a_step_on_machines_by_name(capsys: Capture) -> None:
    """Two DGX H100: tensor groups inside, the pipeline between them; their GPUs, NVLinks and NICs."""
    assert run(["models", "show", LAYOUT, "-n", "16", "--machine", "dgx-h100", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["gpu"], told["nic_gbps"]) == ("H100", 400.0)
    assert 0 < told["compute_s"] < told["iteration_s"]
    assert run(["models", "show", LAYOUT, "-n", "16", "--gpu", "H100", "--gbps", "400", "--json"]) == 0
    apart = json.loads(capsys.readouterr().out)
    assert apart["iteration_s"] > told["iteration_s"]  # sums of tensor groups cross NICs there
    assert run(["models", "show", LAYOUT, "-n", "16", "--machine", "dgx-1"]) == 2
    assert "choose one of dgx-h100" in capsys.readouterr().err


def test_what_does_not_fit_is_told_with_what_takes_the_memory(capsys: Capture) -> None:
    big = "llama-3.1-405b[parallel=hybrid:tp8,micro_batches=1]"
    assert run(["models", "show", big, "-n", "8", "--machine", "dgx-h100", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert "GB of weights" in told["memory_source"]
    assert any("do not fit into the 80 GB of one H100" in remark for remark in told["remarks"])


def scenario(tmp_path: Path, model: str, memory_gb: float) -> Path:
    path = tmp_path / "layout.toml"
    path.write_text(
        f"""
[cluster]
topology = "single-switch"
servers = 2
gpus_per_server = 8
gpu = "H100"
gpu_memory_gb = {memory_gb}
nic_gbps = 3200
intra_server_gbps = 3600

[workload]
source = "jobs"

[[workload.job]]
model = "{model}"
gpus = 16
iterations = 10
""",
        encoding="utf-8",
    )
    return path


def test_a_layout_is_simulated_as_it_is_played_alone(tmp_path: Path, capsys: Capture) -> None:
    """Ten steps of a job that has the cluster to itself take ten times the step that is played alone."""
    profile = zoo.profile(LAYOUT, 16, gpu="H100")
    cluster = single_switch(2, Machine(8, 3200, "H100", 80.0, 3600))
    alone_s = play_on(cluster, profile, tuple(range(16))).seconds
    assert run(["simulate", str(scenario(tmp_path, LAYOUT, 80.0)), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["makespan_s"] == pytest.approx(10 * alone_s, rel=1e-6)


def test_a_layout_that_needs_more_memory_is_refused(tmp_path: Path, capsys: Capture) -> None:
    big = "llama-3.1-405b[parallel=hybrid:tp8,micro_batches=1]"
    assert run(["simulate", str(scenario(tmp_path, big, 80.0))]) == 2
    assert "GB of each, they have 80" in capsys.readouterr().err


LAID = "llama-3.1-8b[parallel=hybrid:tp2,layers=2]"


@pytest.mark.parametrize(
    ("args", "said"),
    [
        ([LAID, "--gpu", "H100", "--machine", "dgx-h100"], "--gpu: --machine"),
        ([LAID, "--gbps", "100", "--machine", "dgx-h100"], "--gbps: --machine"),
        ([LAID, "--parallel", "data"], "--parallel: the brackets"),
        (["vgg16[batch=3]", "--batch", "3"], "--batch: the brackets"),
        (["vgg16[micro_batches=3]", "--micro-batches", "4"], "--micro-batches: the brackets"),
        ([LAID, "--gpu", "H100", "--collective", "tree"], "--collective: a named layout"),
        (["llama-3.1-8b", "--parallel", "hybrid:tp2", "--collective", "ring"], "--collective: a named layout"),
        ([LAID, "--gpu", "H100", "--collective", "bogus"], "bogus"),
        (["vgg16", "-n", "1", "--collective", "bogus"], "bogus"),
    ],
)
def test_an_option_that_something_else_decides_is_refused(args: list[str], said: str, capsys: Capture) -> None:
    assert said in _one_line(["models", "show", *args], capsys)


@pytest.mark.parametrize(("model", "count"), [(LAID, 1), ("llama-3.1-8b", 0)])
def test_a_named_layout_on_a_machine_says_what_its_links_reach(model: str, count: int, capsys: Capture) -> None:
    """The share of the links that was fitted is a setting of nobody: a scenario multiplies its rates by it."""
    assert run(["models", "show", model, "-n", "8", "--machine", "dgx-h100", "--batch", "8", "--json"]) == 0
    remarks = [x for x in json.loads(capsys.readouterr().out)["remarks"] if x.startswith("note:")]
    assert len(remarks) == count
    assert all(f"{reached().network:g}" in x and "nvlink_gbps" in x for x in remarks)
