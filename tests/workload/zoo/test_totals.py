import pytest

from weft.workload import zoo

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
}


@pytest.mark.parametrize("name", sorted(TOTALS))
def test_parameter_total(name: str) -> None:
    model, _ = zoo.find(name)
    assert model.params == TOTALS[name]
    assert model.gradient_bytes == model.gradient_dtype_bytes * TOTALS[name]


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
    assert len(zoo.names()) == 26
    assert set(zoo.names()) == {*TOTALS, "gpt3", "gpt3-cassini", "gpt2-a", "gpt2-b"}
    for name in zoo.names():
        model, _ = zoo.find(name)
        assert model.source
        assert model.batch_source
        assert model.batch_range[0] <= model.batch <= model.batch_range[1]
        assert all(x.params >= 0 and x.flops >= 0 and x.activation > 0 for x in model.layers)
