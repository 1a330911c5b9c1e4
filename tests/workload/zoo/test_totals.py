import gzip
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.errors import InputError
from weft.model import Transfer
from weft.workload import zoo
from weft.workload.profiles.files import save_measured, save_profile
from weft.workload.profiles.measured import Bucket, Measured
from weft.workload.zoo.catalogue import shapes

TOTALS = {
    # torchvision's model pages
    "vgg11": 132_863_336,
    "vgg16": 138_357_544,
    "vgg19": 143_667_240,
    "resnet18": 11_689_512,
    "resnet50": 25_557_032,
    "wide-resnet101": 126_886_696,
    "alexnet": 61_100_840,
    "mobilenet-v3-small": 2_542_856,
    "mobilenet-v3-large": 5_483_032,
    "inception-v3": 27_161_264,
    # Zaremba et al.'s 66 million: 2 x 10,000 x 1,500 + 10,000 + 2 x (8 x 1,500^2 + 8 x 1,500)
    "lstm-ptb": 66_034_000,
    # Hugging Face's models of these names
    "bert-base": 109_482_240,
    "bert-large": 335_141_888,
    "roberta": 124_645_632,
    "camembert": 110_621_952,
    "xlm": 278_043_648,
    "gpt1": 116_534_784,
    "gpt2": 124_439_808,
    "gpt2-medium": 354_823_168,
    "llama-7b": 6_738_415_616,
    # what the makers' own checkpoints hold, tensor by tensor
    "llama-3.1-8b": 8_030_261_248,
    "llama-3.1-70b": 70_553_706_496,
    "llama-3.1-405b": 405_853_388_800,
    "llama-2-70b": 68_976_648_192,
    "mixtral-8x7b": 46_702_792_704,
    "mixtral-8x22b": 140_620_634_112,
    "deepseek-v3": 671_026_419_200,
    "gpt-oss-20b": 20_914_757_184,
    "gpt-oss-120b": 116_829_156_672,
    "qwen3-30b-a3b": 30_532_122_624,
    "qwen3-235b-a22b": 235_093_634_560,
    # and 80 x 16 x (8,192 + 10,240 + 2 x 8,192) of adapters, MLPerf's 44.56 million
    "llama-2-70b-lora": 68_976_648_192 + 44_564_480,
    # the published checkpoints
    "flux-1": 11_901_408_320,
    "flux-1-schnell": 11_891_178_560,
    "vit-b-16": 86_567_656,
    "vit-l-16": 304_326_632,
    "vit-h-14": 632_045_800,
    # Dai et al.'s 151 million, and 20 blocks of 2,566,650 more
    "transformer-xl": 151_107_538,
    "transformer-xl-36": 151_107_538 + 20 * 2_566_650,
    # 2 x 602 x 256 + 256 + 2 x 256 x 41 + 41
    "graphsage": 329_513,
    # 33,762,577 rows of 16, and two perceptrons of 155,984 and 320,001
    "dlrm": 33_762_577 * 16 + 155_984 + 320_001,
    # 8 million rows of 64, perceptrons 512-512-64 and 100-1024-1024-1024-1: 1,962 MiB, as in CASSINI's Table 3
    "dlrm-benchmark": 8_000_000 * 64 + 295_488 + 2_203_649,
}

# GFLOP (multiply and add counted once) of one forward pass, torchvision's model pages.
GIGA_MACS = {
    "vgg16": 15.47,
    "resnet18": 1.81,
    "resnet50": 4.09,
    "wide-resnet101": 22.75,
    "alexnet": 0.71,
    "mobilenet-v3-small": 0.06,
    "mobilenet-v3-large": 0.22,
    "inception-v3": 5.71,
    "vit-b-16": 17.56,
    "vit-l-16": 61.55,
    "vit-h-14": 167.29,
}


# Billions of parameters that a token goes through, as the makers state them.
ACTIVE = {"mixtral-8x7b": 12.9, "mixtral-8x22b": 39.0, "deepseek-v3": 37.0, "gpt-oss-20b": 3.6, "gpt-oss-120b": 5.1,
          "qwen3-30b-a3b": 3.3, "qwen3-235b-a22b": 22.0, "llama-3.1-8b": 8.0}  # fmt: skip


@pytest.mark.parametrize("name", sorted(ACTIVE))
def test_a_token_costs_two_operations_for_each_parameter_that_it_goes_through(name: str) -> None:
    """Products between tokens come on top, and the embedding is looked up, not multiplied."""
    model, _ = zoo.find(name)
    shape = shapes()[name]
    units = (
        shape.latent.plain + shape.latent.rotary + shape.latent.value
        if shape.latent
        else 2 * (shape.head_units or shape.hidden // shape.heads)
    )
    between = 2.0 * shape.sequence**2 * shape.heads * units * shape.blocks
    active = (model.flops - between) / (2 * shape.sequence) / 1e9
    embedding = shape.vocabulary * shape.hidden / 1e9
    assert min(abs(active - ACTIVE[name]), abs(active + embedding - ACTIVE[name])) < 0.03 * ACTIVE[name]


@pytest.mark.parametrize("name", sorted(TOTALS))
def test_parameter_total(name: str) -> None:
    model, _ = zoo.find(name)
    assert model.params == TOTALS[name]
    trained = 44_564_480 if name == "llama-2-70b-lora" else TOTALS[name]
    assert model.gradient_bytes == model.gradient_dtype_bytes * trained


@pytest.mark.parametrize("name", sorted(GIGA_MACS))
def test_operations_of_a_forward_pass(name: str) -> None:
    assert zoo.find(name)[0].flops / 2e9 == pytest.approx(GIGA_MACS[name], abs=0.01)


def test_gpt3_has_the_175_billion_of_its_paper() -> None:
    """Brown et al. 2020, Table D.1: 174,600 million parameters."""
    assert zoo.find("gpt3")[0].params == pytest.approx(174_600e6, rel=1e-4)


def test_transformer_blocks_count_as_their_formula() -> None:
    """Blocks of hidden size h without gating hold 12 h^2 + 13 h parameters (weights, biases, two norms)."""
    for name, hidden, blocks in (("gpt2-a", 1536, 24), ("gpt2-b", 1184, 24), ("gpt3-cassini", 2048, 96)):
        layers = [x for x in zoo.find(name)[0].layers if x.name.startswith("block.")]
        assert sum(x.params for x in layers) == blocks * (12 * hidden**2 + 13 * hidden)


def test_gpt2_a_and_b_differ_as_in_the_paper() -> None:
    """CASSINI section 5.2: batch 24 and hidden size 1536 against batch 70 and 1184."""
    a, b = zoo.find("gpt2-a")[0], zoo.find("gpt2-b")[0]
    assert (a.batch, b.batch) == (24, 70)
    assert a.params > b.params


def test_every_model_of_the_zoo_has_its_facts() -> None:
    assert len(zoo.names()) == 46
    assert set(zoo.names()) == {*TOTALS, "gpt3", "gpt3-cassini", "gpt2-a", "gpt2-b"}
    for name in zoo.names():
        model, _ = zoo.find(name)
        assert model.source
        assert model.batch_source
        assert model.batch_range[0] <= model.batch <= model.batch_range[1]
        assert all(x.params >= 0 and x.flops >= 0 and x.activation > 0 for x in model.layers)


LAYERS = """DATA
3
conv -1 1000000 NONE 0 2000000 NONE 0 3000000 ALLREDUCE 4000000 10
7conv2 -1 1000000 NONE 0 2000000 NONE 0 3000000 ALLREDUCE 8000000 10
7
"""
PIPEDREAM = """node1 -- Input0 -- forward_compute_time=9.0, backward_compute_time=0.0, activation_size=0.0, parameter_size=0.0
node2 -- Linear(a) -- forward_compute_time=1.0, backward_compute_time=2.0, activation_size=100.0, parameter_size=4000.0
node3 -- Linear(b) -- forward_compute_time=3.0, backward_compute_time=4.0, activation_size=60.0, parameter_size=800.0
\tnode1 -- node2
\tnode2 -- node3
"""  # noqa: E501 - a line is a line of the file
MEASURED = Measured("NVIDIA H200", "bf16", 8, 0.01, 0.02, 0.001, (Bucket(4e6, 0.02),), 1_000_000, 4e6)


def test_a_layer_file_is_a_model(tmp_path: Path) -> None:
    """12 MB of gradients: a ring of 4 sends 2 x 3/4 of them; computing is (1 + 2 + 3) ms and an update of
    10 ns per layer."""
    path = tmp_path / "net_astra-sim.csv"
    path.write_text(LAYERS)
    profile = zoo.profile(str(path), 4)
    assert profile.message_bytes == 12e6
    assert profile.compute_s == pytest.approx(12.00002e-3)
    assert profile.source.startswith("layer file net_astra-sim.csv; the total forward time 7")
    assert "line 2 says 3 layers, there are 2" in profile.source
    alone = zoo.profile(str(path), 1)
    assert alone.compute_s == pytest.approx(12.00002e-3)


def test_a_pipedream_graph_is_a_model_under_every_scheme(tmp_path: Path) -> None:
    path = tmp_path / "net.graph.txt.gz"
    path.write_bytes(gzip.compress(PIPEDREAM.encode()))
    data = zoo.profile(str(path), 4)
    assert data.message_bytes == 4800
    assert data.compute_s == pytest.approx(10e-3)
    pipeline = zoo.profile(f"{path}[parallel=pipeline,micro_batches=2]", 2)
    sent = [t for t in pipeline.tasks if isinstance(t, Transfer)]
    assert sum(t.bytes for t in sent) == pytest.approx(200)  # 100 bytes there, their gradients back
    assert zoo.profile(str(path), 4, parallel="parameter-server").message_bytes == 4800


def test_measurements_are_chosen_by_precision(tmp_path: Path) -> None:
    path = tmp_path / "mine.json"
    save_measured("mine", [MEASURED, *(Measured("cpu", "fp32", 8, 0.1, 0.2, 0.0, (), 1, 4.0),)], path)
    assert zoo.profile(str(path), 2).compute_s == pytest.approx(0.031)
    assert zoo.profile(f"{path}[dtype=fp32]", 2).compute_s == pytest.approx(0.3)
    with pytest.raises(InputError, match="no measurement in tf32; use bf16, fp32"):
        zoo.profile(f"{path}[dtype=tf32]", 2)


def test_what_a_file_fixes_cannot_be_asked_for(tmp_path: Path) -> None:
    layers, graph, measured, tasks = (tmp_path / n for n in ("a.txt", "b.txt", "c.json", "d.json"))
    layers.write_text(LAYERS)
    graph.write_text(PIPEDREAM)
    save_measured("mine", [MEASURED], measured)
    save_profile(zoo.profile("vgg16", 2), tasks)
    for name, workers, said in (
        (f"{layers}[batch=4]", 2, "its times are those of one batch; leave batch out"),
        (f"{graph}[dtype=bf16]", 2, "its times are those of one dtype; leave dtype out"),
        (f"{layers}[parallel=data]", 2, "the file says itself what is sent; leave parallel out"),
        (f"{tasks}[parallel=tensor]", 2, "the file says itself what is sent; leave parallel out"),
        (f"{tasks}", 3, "a graph for 2 workers, not 3"),
        (f"{measured}[parallel=tensor]", 2, "measurements know no layers, so parallel tensor is not possible"),
        (f"{graph}[parallel=pipeline]", 3, "3 pipeline stages for 2 layers"),
        (f"{graph}[parallel=embedding]", 3, "no embedding tables"),
    ):
        with pytest.raises(InputError) as error:
            zoo.profile(name, workers)
        assert said in str(error.value)


def test_names_with_a_folder_or_an_ending_are_files() -> None:
    for name in ("./net", "a/b", "net.json", "net.graph.txt.gz", "VGG.txt", "layers.CSV", "net.json[batch=4]"):
        assert zoo.is_path(name)
    for name in ("vgg16", "inception-v3", "vgg16@cassini", "gpt3[parallel=hybrid:2x2x2]"):
        assert not zoo.is_path(name)


@pytest.mark.parametrize("text", ["", "\n\n", "job_num,msg_size\n1,2\n", "hello world\n", "\0\0\0"])
def test_another_file_is_refused_in_one_line(text: str, tmp_path: Path) -> None:
    path = tmp_path / "other.txt"
    path.write_text(text)
    with pytest.raises(InputError, match="no layer file, no PipeDream graph and no counters") as error:
        zoo.check(str(path))
    assert "\n" not in str(error.value)


@given(
    st.binary(max_size=300),
    st.sampled_from([b"", b"DATA\n2\n", b"node1 -- a -- forward_compute_time=", b"{", b"\x1f\x8b"]),
)
def test_damaged_files_never_end_in_a_traceback(
    tmp_path_factory: pytest.TempPathFactory, tail: bytes, head: bytes
) -> None:
    path = tmp_path_factory.mktemp("fuzz") / "model.txt"
    path.write_bytes(head + tail)
    try:
        zoo.check(str(path))
    except InputError as error:
        assert str(error).startswith(str(path))  # noqa: PT017 - most are refused, a few happen to be right
