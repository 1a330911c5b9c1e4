import gzip
import os
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from testkit.draws import examples
from tests.workload.profiles.sums import totals
from weft.errors import InputError, TraceError
from weft.model import Compute, Transfer
from weft.network.estimates import run_alone
from weft.workload.graphs import data_parallel, hybrid
from weft.workload.profiles.layers import parse_layers, parse_pipedream, read_layers, read_pipedream

PLAIN = """DATA
2
conv -1 1000 NONE 0 2000 NONE 0 3000 ALLREDUCE 4096 10
fc   -1  500 NONE 0 1000 NONE 0 1500 ALLREDUCE 8192 10
"""


def test_sums_and_tasks_of_a_plain_file() -> None:
    """Forward 1.5 us, backward 7.5 us; weights of the last layer are sent first, while the first layer computes."""
    file = parse_layers(PLAIN)
    assert totals(file) == pytest.approx((1.5e-6, 7.5e-6, 12288))
    profile = file.profile(4)
    assert profile.compute_s == pytest.approx(9e-6 + 0.02e-6)  # column 12: 10 cycles in either layer
    assert [t.bytes for t in profile.tasks if isinstance(t, Transfer)] == [8192, 4096]
    # at 1 byte/ns a ring of 4 sends 8192 x 1.5 = 12,288 ns from 3,000 ns on, then 4096 x 1.5 = 6,144 ns
    assert run_alone(profile, 1e9).iteration_s == pytest.approx(3e-6 + 12.288e-6 + 6.144e-6 + 0.01e-6)


def test_updates_are_computed_after_their_collectives_in_turn() -> None:
    """Model-parallel groups of 2: each worker updates once both passes and the sum over its replicas are done."""
    text = "HYBRID_TRANSFORMER model_parallel_NPU_group: 2\n2\n"
    text += "a -1 100 NONE 0 100 NONE 0 100 ALLREDUCE 16 7\nb -1 100 NONE 0 100 NONE 0 100 ALLREDUCE 16 5\n"
    tasks = parse_layers(text).profile(4).tasks
    updates = [task for task in tasks if task.name.startswith("update")]
    assert [(t.name, t.workers, round(1e9 * t.seconds)) for t in updates if isinstance(t, Compute)] == [
        ("update1", (0, 1), 5), ("update1", (2, 3), 5), ("update0", (0, 1), 7), ("update0", (2, 3), 7),
    ]  # fmt: skip
    for task in updates:
        sums = [tasks[k].name for k in task.after if isinstance(tasks[k], Transfer)]
        assert sums == [f"weights{task.name[-1]}"] * 2  # of either worker of the group
    alone = parse_layers("DATA\n1\na -1 100 NONE 0 0 NONE 0 100 NONE 0 7\n").profile(1)
    assert alone.compute_s == pytest.approx(207e-9)


def test_glued_totals_and_wrong_counts_are_mended_and_noted() -> None:
    text = "DATA\n7\nconv\t-1\t10\tNONE\t0\t1\tNONE\t0\t1\tALLREDUCE\t5\t0\n"
    text += "123features.3\t-1\t20\tNONE\t0\t1\tNONE\t0\t1\tALLREDUCE\t5\t0\n123\n"
    file = parse_layers(text)
    assert [x.name for x in file.layers] == ["conv", "features.3"]
    assert len(file.notes) == 2
    assert "7 layers, there are 2" in file.notes[1]


def test_model_parallel_groups_keep_their_collectives_to_themselves() -> None:
    text = "HYBRID_TRANSFORMER model_parallel_NPU_group: 2\n1\n"
    text += "a -1 100 ALLREDUCE 8 100 ALLGATHER 8 100 ALLREDUCE_DP 16 0\n"
    transfers = [t for t in parse_layers(text).profile(4).tasks if isinstance(t, Transfer)]
    assert [(t.workers, t.bytes) for t in transfers if t.name.startswith("forward")] == [((0, 1), 8), ((2, 3), 8)]
    assert [(t.workers, t.bytes) for t in transfers if t.name.startswith("weights")] == [((0, 2), 16), ((1, 3), 16)]
    # an all-gather of 8 bytes is half an all-reduce of 8
    assert [(t.workers, t.bytes) for t in transfers if t.name.startswith("inputs")] == [((0, 1), 4), ((2, 3), 4)]
    with pytest.raises(InputError, match="groups of 2"):
        parse_layers(text).profile(3)


def test_all_to_all_and_expert_groups() -> None:
    text = "HYBRID_TRANSFORMER_FWD_IN_BCKWD model_parallel_NPU_group: 1 ep: 2\n1\n"
    text += "moe -1 1 ALLTOALL_EP 8 1 NONE 0 1 NONE 0 0\n"
    transfers = [t for t in parse_layers(text).profile(4).tasks if isinstance(t, Transfer)]
    assert [(t.workers, t.collective) for t in transfers] == [((0, 1), "all-to-all"), ((2, 3), "all-to-all")]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("DATA\n1\n", "2 lines"),
        ("data\n1\na -1 1 NONE 0 1 NONE 0 1 NONE 0 0\n", "line 1"),
        ("DATA\none\na -1 1 NONE 0 1 NONE 0 1 NONE 0 0\n", "line 2"),
        ("DATA\n1\na -1 1 NONE 0 1 NONE\n", "line 3: 7 fields"),
        ("DATA\n1\na -1 -5 NONE 0 1 NONE 0 1 NONE 0 0\n", "line 3: field 3"),
        ("DATA\n1\na -1 1 GOSSIP 5 1 NONE 0 1 NONE 0 0\n", "'GOSSIP' is no collective"),
        ("DATA\n1\na -1 1 NONE 0 nan NONE 0 1 NONE 0 0\n", "line 3: field 6"),
        ("DATA\n1\n99\n", "no layers"),
    ],
)
def test_damage_is_reported_with_its_line(text: str, words: str) -> None:
    with pytest.raises(TraceError, match=words):
        parse_layers(text)


GRAPH = """node1 -- Input -- forward_compute_time=500, backward_compute_time=0, activation_size=64, parameter_size=0
node3 -- ReLU -- forward_compute_time=1.0, backward_compute_time=2.0, activation_size=[32.0; 8.0], parameter_size=0.0
node2 -- Conv2d(3, 4) -- forward_compute_time=4.0, backward_compute_time=8.0, activation_size=16.0, parameter_size=12.0
\tnode1 -- node2
\tnode2 -- node3
"""


def test_pipedream_operators_follow_their_edges_without_the_input() -> None:
    work = parse_pipedream(GRAPH)
    assert [x.name for x in work.layers] == ["Conv2d(3, 4)", "ReLU"]
    assert (work.forward_s, work.backward_s, work.gradient_bytes) == pytest.approx((5e-3, 10e-3, 12.0))
    assert work.layers[1].activation_bytes == 40.0
    assert parse_pipedream(GRAPH, keep_input=True).forward_s == pytest.approx(0.505)


def test_a_pipedream_profile_can_be_parallelised_any_way(tmp_path: Path) -> None:
    path = tmp_path / "net.graph.txt.gz"
    path.write_bytes(gzip.compress(GRAPH.encode()))
    work = read_pipedream(path, batch=8)
    assert data_parallel(work, 4).message_bytes == 12.0
    pipeline = hybrid(work, pipeline=2, micro_batches=2)
    assert pipeline.message_bytes == pytest.approx(2 * 16.0)
    assert sum(t.seconds for t in pipeline.tasks if isinstance(t, Compute)) == pytest.approx(15e-3)
    assert pipeline.batch == 8


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("hello\n", "line 1: it is neither"),
        ("\tnode1 -- node2\n", "names node1"),
        (GRAPH + "\tnode3 -- node2\n", "circle"),
        (GRAPH.replace("forward_compute_time=1.0", "forward_compute_time=fast"), "line 2"),
        (GRAPH.replace(", parameter_size=12.0", ""), "no parameter_size"),
        (GRAPH.replace("node3 -- ReLU", "node1 -- ReLU", 1), "twice"),
        ("", "no operators"),
    ],
)
def test_damaged_graphs_are_reported(text: str, words: str) -> None:
    with pytest.raises(TraceError, match=words):
        parse_pipedream(text)


words = st.sampled_from(["DATA", "1", "-1", "NONE", "ALLREDUCE", "ALLTOALL_EP", "a", "1e999", "nan", "7", "ep:", "\t"])
lines = st.lists(st.lists(words, max_size=14).map(" ".join), max_size=6).map("\n".join)


@settings(max_examples=examples(100), deadline=None)
@given(lines | st.text(max_size=200), st.integers(1, 9))
@example(PLAIN.replace("4096", "1e308"), 3)
def test_fuzzed_layer_files_end_in_a_profile_or_one_line(text: str, workers: int) -> None:
    message, got = "", workers
    try:
        got = parse_layers(text).profile(workers).workers
    except InputError as error:
        message = str(error)
    assert got == workers
    assert "\n" not in message


edits = st.tuples(st.integers(0, len(GRAPH) - 1), st.text(max_size=3))


@settings(max_examples=examples(100), deadline=None)
@given(st.lists(edits, max_size=4))
def test_fuzzed_graphs_end_in_work_or_one_line(changes: list[tuple[int, str]]) -> None:
    text = GRAPH
    for at, new in changes:
        text = text[:at] + new + text[at + 1 :]
    message = ""
    try:
        assert parse_pipedream(text).layers
    except InputError as error:
        message = str(error)
    assert "\n" not in message


@settings(max_examples=examples(50), deadline=None)
@given(st.binary(max_size=60), st.booleans())
def test_fuzzed_bytes_end_in_one_line(tmp_path_factory: pytest.TempPathFactory, raw: bytes, compressed: bool) -> None:
    path = tmp_path_factory.getbasetemp() / "fuzz.layers"
    path.write_bytes((b"\x1f\x8b" if compressed else b"") + raw)
    for read in (read_layers, read_pipedream):
        with pytest.raises(InputError):
            read(path)


def _traces() -> Path:
    folder = os.environ.get("WEFT_TRACES")
    if not folder:
        pytest.skip("WEFT_TRACES is not set: it names the folder of public traces")
    return Path(folder)


# layers, forward ms, input-gradient ms, weight-gradient ms, gradient MB, as that folder's README states them
DALLY = {
    "vgg11_B256_astra-sim.csv": (11, 77.6, 89.3, 80.8, 531.4),
    "VGG.txt": (11, 110, 602, 122, 531.4),
    "resnet50_B512_astra-sim.csv": (54, 79.3, 150, 119, 102.0),
    "ResNet50.txt": (54, 0.38, 0.38, 0.34, 102.0),
    "resnet18_B512_astra-sim.csv": (21, 31.5, 71.2, 44.6, 46.7),
    "alexnet_B512_astra-sim.csv": (8, 18.4, 22.6, 19.7, 244.4),
    "mobilenet_v3_B512_astra-sim.csv": (52, 0.73, 5.81, 3.35, 9.9),
    "BERT-large_B256_astra-sim2.csv": (66, 4640, 7330, 3290, 562),
}


@pytest.mark.traces
@pytest.mark.parametrize("name", sorted(DALLY))
def test_dallys_layer_files_have_their_published_sums(name: str) -> None:
    file = read_layers(_traces() / "dally" / "workload" / name)
    layers, forward, inputs, weights, megabytes = DALLY[name]
    assert len(file.layers) == layers
    forward_s, backward_s, gradient_bytes = totals(file)
    assert 1e3 * forward_s == pytest.approx(forward, rel=0.01)
    assert 1e-6 * sum(x.input_gradient for x in file.layers) == pytest.approx(inputs, rel=0.01)
    assert 1e-6 * sum(x.weight_gradient for x in file.layers) == pytest.approx(weights, rel=0.01)
    assert gradient_bytes / 1e6 == pytest.approx(megabytes, rel=0.01)
    profile = file.profile(8)
    assert profile.message_bytes == pytest.approx(gradient_bytes)
    updates_s = 1e-9 * sum(x.update for x in file.layers)
    assert profile.compute_s == pytest.approx(forward_s + backward_s + updates_s)
    assert not any(x.name[0].isdigit() for x in file.layers)


@pytest.mark.traces
def test_every_layer_file_of_astra_sim_aicb_and_simai_is_read() -> None:
    root = _traces() / "profiles"
    files = [p for folder in ("astra_sim/workload", "aicb/simai_workload", "simai") for p in (root / folder).iterdir()]
    assert len(files) >= 22
    for path in files:
        file = read_layers(path)
        group = file.options.get("model_parallel_NPU_group", 1)
        if len(file.layers) < 200:
            assert file.profile(2 * group).tasks


# operators, forward ms, backward ms, parameters MB, as that folder's README states them
PIPEDREAM = {
    "vgg16": (41, 251.9, 438.6, 553.4),
    "resnet50": (177, 201.5, 260.9, 102.2),
    "resnet101": (347, 207.7, 213.8, 178.2),
    "resnet18": (71, 581.1, 152.3, 46.8),
    "inception_v3": (326, 311.0, 399.8, 108.6),
    "alexnet": (23, 680.7, 40.5, 244.4),
    "densenet121": (429, 186.5, 148.8, 31.9),
    "gnmt": (48, 33.5, 55.9, 775.1),
    "gnmt_large": (96, 182.6, 337.9, 1110.9),
}


@pytest.mark.traces
@pytest.mark.parametrize("name", sorted(PIPEDREAM))
def test_pipedream_profiles_have_their_published_sums(name: str) -> None:
    work = read_pipedream(_traces() / "profiles" / "pipedream" / f"{name}.graph.txt.gz", keep_input=True)
    operators, forward, backward, megabytes = PIPEDREAM[name]
    assert len(work.layers) == operators
    assert 1e3 * work.forward_s == pytest.approx(forward, abs=0.1)
    assert 1e3 * work.backward_s == pytest.approx(backward, abs=0.1)
    assert work.gradient_bytes / 1e6 == pytest.approx(megabytes, abs=0.1)
