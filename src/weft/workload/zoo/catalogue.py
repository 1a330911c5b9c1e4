"""The models of the zoo: one entry each, with the source of its shape, its batch range and its published times.

Some sources give the whole iteration only; it is then split one third forward, two thirds backward (a backward pass
computes two gradients where the forward pass computes one value), and the source says so.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from weft.model.units import MB
from weft.workload.zoo import language, vision
from weft.workload.zoo.entry import Model, Published, Timing
from weft.workload.zoo.language import Transformer

_ADA_TIMES = "Ada-SRSF (Wang et al. 2020), Table III"
_CASSINI_TIMES = "CASSINI (Rajasekaran et al. 2024)"
_SPLIT = "iteration time, split 1:2"
_GAVEL = f"Gavel (Narayanan et al. 2020), throughput table; {_SPLIT}"
_ELASTIC = f"ElasticFlow (Gu et al. 2023), throughput table; {_SPLIT}"
_PIPEDREAM = "PipeDream (Narayanan et al. 2019), published profile; batch from its activation sizes, V100 assumed"

# model: size MB, GPU memory MB, batch, forward ms, backward ms (V100, PyTorch 1.2)
_ADA_TABLE_III = {
    "vgg16": (526.4, 4527, 16, 35.8, 53.7),
    "resnet50": (99.2, 3213, 16, 25.0, 37.4),
    "inception-v3": (103.0, 3291, 16, 34.9, 52.4),
    "lstm-ptb": (251.8, 2751, 64, 31.5, 47.3),
}

# model: (GPU, batch, iterations per second alone on one GPU), source
_THROUGHPUT: dict[str, tuple[tuple[str, int, float, str], ...]] = {
    "resnet50": (
        ("V100", 32, 7.787, _GAVEL), ("V100", 64, 4.395, _GAVEL), ("V100", 128, 2.497, _GAVEL),
        ("P100", 16, 9.053, _GAVEL), ("P100", 32, 4.888, _GAVEL), ("P100", 64, 2.619, _GAVEL),
        ("P100", 128, 1.584, _GAVEL),
        ("K80", 16, 2.301, _GAVEL), ("K80", 32, 1.237, _GAVEL), ("K80", 64, 0.619, _GAVEL),
        ("A100", 64, 6.843, _ELASTIC), ("A100", 128, 3.655, _ELASTIC), ("A100", 256, 1.843, _ELASTIC),
    ),
    "vgg16": (("A100", 64, 5.053, _ELASTIC), ("A100", 128, 2.625, _ELASTIC), ("A100", 256, 1.314, _ELASTIC)),
    "inception-v3": (("A100", 64, 4.821, _ELASTIC), ("A100", 128, 2.562, _ELASTIC)),
}  # fmt: skip

# model: batch, forward ms, backward ms, summed over the profile's operators but for its input
_PIPEDREAM_SUMS = {
    "vgg16": (128, 233.9, 438.6),
    "resnet50": (128, 182.5, 260.9),
    "inception-v3": (128, 289.3, 399.8),
    "alexnet": (256, 44.8, 40.5),
    "resnet18": (256, 107.5, 152.3),
}


def timings(model: str) -> tuple[Timing, ...]:
    """Published compute times of a model, the best source of a GPU type and batch first."""
    found: list[Timing] = []
    if row := _ADA_TABLE_III.get(model):
        found.append(_ada(row))
    for gpu, batch, per_s, source in _THROUGHPUT.get(model, ()):
        found.append(Timing(gpu, batch, 1 / (3 * per_s), 2 / (3 * per_s), source))
    if sums := _PIPEDREAM_SUMS.get(model):
        batch, forward_ms, backward_ms = sums
        found.append(Timing("V100", batch, forward_ms / 1e3, backward_ms / 1e3, _PIPEDREAM))
    return tuple(found)


def variants(model: str) -> tuple[Published, ...]:
    """A paper's own version of a model."""
    found: list[Published] = []
    if row := _ADA_TABLE_III.get(model):
        found.append(Published("ada-srsf", _ada(row), row[0] * MB))
    if model == "vgg16":
        # Section 3, Figure 3: a circle of 255 ms, of which 141 ms Down. Figure 2 shows about 22 Gbit/s for each of two
        # jobs on one link, so a job alone reaches 45 of 50 Gbit/s. The backward pass hides behind the Up phase.
        timing = Timing("A100", 1400, 0.141, 0.0, f"{_CASSINI_TIMES}, section 3 and Figure 3: 255 ms, 141 ms Down")
        found.append(Published("cassini", timing, up_s=0.114, up_gbps=45.0))
    return tuple(found)


def _ada(row: tuple[float, float, int, float, float]) -> Timing:
    _, memory_mb, batch, forward_ms, backward_ms = row
    return Timing(
        "V100",
        batch,
        forward_ms / 1e3,
        backward_ms / 1e3,
        _ADA_TIMES,
        memory_bytes=memory_mb * MB,
        memory_source=f"published: {_ADA_TIMES}",
    )


_CASSINI = "CASSINI Table 3"
_CASSINI_BELOW = "CASSINI Table 3 and below"
_ADA = "Ada-SRSF Table III and twice that"
_DALLY = "Dally's layer files and below"


# Encoders with a pooler (what Hugging Face calls the base model), and decoders with their output layer.
SHAPES: dict[str, Transformer] = {
    "bert-base": Transformer(30522, 512, 768, 12, 3072, 384, 2, embedding_norm=True, pooler=True),
    "bert-large": Transformer(30522, 512, 1024, 24, 4096, 384, 2, embedding_norm=True, pooler=True),
    "roberta": Transformer(50265, 514, 768, 12, 3072, 512, 1, embedding_norm=True, pooler=True),
    "camembert": Transformer(32005, 514, 768, 12, 3072, 512, 1, embedding_norm=True, pooler=True),
    "xlm": Transformer(250002, 514, 768, 12, 3072, 512, 1, embedding_norm=True, pooler=True),
    "gpt1": Transformer(40478, 512, 768, 12, 3072, 512, head="tied"),
    "gpt2": Transformer(50257, 1024, 768, 12, 3072, 1024, final_norm=True, head="tied"),
    "gpt2-medium": Transformer(50257, 1024, 1024, 24, 4096, 1024, final_norm=True, head="tied"),
    "gpt2-a": Transformer(50257, 1024, 1536, 24, 6144, 1024, final_norm=True, head="tied"),
    "gpt2-b": Transformer(50257, 1024, 1184, 24, 4736, 1024, final_norm=True, head="tied"),
    "gpt3": Transformer(50257, 2048, 12288, 96, 49152, 2048, final_norm=True, head="tied"),
    "gpt3-cassini": Transformer(50257, 2048, 2048, 96, 8192, 2048, final_norm=True, head="tied"),
    "llama-7b": Transformer(
        32000, 0, 4096, 32, 11008, 2048, final_norm=True, head="own", bias=False, gated=True, rms_norm=True
    ),
}


def _language(
    name: str,
    title: str,
    source: str,
    batch: int,
    batch_range: tuple[int, int],
    batch_source: str,
    aliases: tuple[str, ...] = (),
    parallel: str = "data",
    gradient_dtype_bytes: int = 4,
    memory_bytes: float = 0.0,
    memory_source: str = "",
) -> Model:
    shape = SHAPES[name]
    sample = f"sequence of {shape.sequence} tokens"
    return Model(
        name, title, shape.layers, source, batch, batch_range, batch_source, aliases, sample, "language", parallel,
        gradient_dtype_bytes, memory_bytes, memory_source,
    )  # fmt: skip


_VGG = "Simonyan and Zisserman 2015; torchvision"
_RESNET = "He et al. 2016; torchvision"
# The measured times do not grow with the batch: launching kernels takes them, which an A100 does no slower.
_LAUNCHES = tuple(
    Timing("A100", batch, 0.0016, 0.0019, "estimated as measured by weft on H200: kernel launches decide", "fp32",
           optimiser_s=0.0006, estimated=True)
    for batch in (16, 128, 1024)
)  # fmt: skip
_ROW = partial(_language, batch_range=(8, 32), batch_source=_CASSINI)

_ENTRIES = (
    Model("vgg11", "VGG-11", partial(vision.vgg, 11), _VGG, 64, (16, 1800), _CASSINI, ("vgg",)),
    Model("vgg16", "VGG-16", partial(vision.vgg, 16), _VGG, 16, (16, 1800), _CASSINI),
    Model("vgg19", "VGG-19", partial(vision.vgg, 19), _VGG, 64, (16, 1800), _CASSINI),
    Model("resnet18", "ResNet-18", partial(vision.resnet, (2, 2, 2, 2), False), _RESNET, 64, (16, 512), _DALLY),
    Model("resnet50", "ResNet-50", partial(vision.resnet, (3, 4, 6, 3)), _RESNET, 16, (16, 1800), _CASSINI),
    Model(
        "wide-resnet101", "WideResNet-101-2", partial(vision.resnet, (3, 4, 23, 3), widen=2),
        "Zagoruyko and Komodakis 2016; torchvision wide_resnet101_2", 32, (16, 1200), _CASSINI,
        ("wrn101", "wide_resnet101_2"),
    ),
    Model("alexnet", "AlexNet", vision.alexnet, "Krizhevsky 2014; torchvision", 256, (64, 512), _DALLY),
    Model(
        "mobilenet-v3-small", "MobileNetV3-Small", partial(vision.mobilenet_v3, vision.SMALL, 576, 1024),
        "Howard et al. 2019; torchvision; the size of Dally's MobileNetV3", 256, (64, 512), _DALLY, ("mobilenet-v3",),
    ),
    Model(
        "mobilenet-v3-large", "MobileNetV3-Large", partial(vision.mobilenet_v3, vision.LARGE, 960, 1280),
        "Howard et al. 2019; torchvision", 256, (64, 512), _DALLY,
    ),
    Model(
        "inception-v3", "Inception-v3", vision.inception_v3,
        "Szegedy et al. 2016; torchvision, auxiliary classifier included", 16, (16, 128), "Ada-SRSF and PipeDream",
        ("inception3",), "image of 299 x 299",
    ),
    Model(
        "lstm-ptb", "LSTM-PTB", language.lstm_ptb, "Zaremba et al. 2014, large", 64, (20, 128), _ADA, ("lstm",),
        "sequence of 35 tokens", "language",
    ),
    _ROW("bert-base", "BERT-base", "Devlin et al. 2019; uncased", 16, aliases=("bert",)),
    _ROW("bert-large", "BERT-large", "Devlin et al. 2019; uncased", 16),
    _ROW("roberta", "RoBERTa-base", "Liu et al. 2019", 16, aliases=("roberta-base",)),
    _ROW("camembert", "CamemBERT-base", "Martin et al. 2020", 16, aliases=("camembert-base",)),
    _language(
        "xlm", "XLM-R base", "Conneau et al. 2020; its 1.11 GB are the size CASSINI gives for XLM", 16, (4, 32),
        _CASSINI, ("xlm-roberta", "xlm-roberta-base", "xlm-r"),
    ),
    _language("gpt1", "GPT-1", "Radford et al. 2018", 8, (8, 80), _CASSINI_BELOW, ("gpt", "openai-gpt")),
    _language("gpt2", "GPT-2 (124M)", "Radford et al. 2019", 4, (4, 80), _CASSINI_BELOW, ("gpt2-small",)),
    _language("gpt2-medium", "GPT-2 medium (355M)", "Radford et al. 2019; 24 layers", 4, (4, 80), _CASSINI_BELOW),
    _language(
        "gpt2-a", "GPT2-A of CASSINI", "CASSINI section 5.2: hidden size 1536; 24 layers as in section 2.1", 24,
        (8, 80), _CASSINI_BELOW, parallel="pipeline",
    ),
    _language(
        "gpt2-b", "GPT2-B of CASSINI", "CASSINI section 5.2: hidden size 1184; 24 layers as in section 2.1", 70,
        (8, 80), _CASSINI_BELOW, parallel="pipeline",
    ),
    _language(
        "gpt3", "GPT-3 (175B)", "Brown et al. 2020", 16, (16, 48), _CASSINI, ("gpt3-175b",), "hybrid", 2,
    ),
    _language(
        "gpt3-cassini", "GPT-3 as CASSINI trains it",
        "CASSINI section 2.1: 96 layers; hidden size inferred from 155 GB at 16 bytes per parameter and two replicas",
        16, (16, 48), _CASSINI, (), "hybrid", 2, 155e9 / 2,
        "published: CASSINI section 2.1, half of the 155 GB that it states without saying what they hold",
    ),
    Model(
        "dlrm", "DLRM (Criteo Kaggle)", language.dlrm,
        "Naumov et al. 2019; the Criteo Kaggle set-up of Meta's code", 1024, (16, 1024), _CASSINI, (),
        "click with 26 categories", "recommendation", "embedding",
    ),
    Model(
        "dlrm-benchmark", "DLRM (Meta's benchmark)", language.dlrm_benchmark,
        "Naumov et al. 2019; the benchmark of Meta's code; its parameters are the 1,962 MiB of CASSINI's Table 3",
        1024, (16, 1024), _CASSINI, (), "click with 8 categories", "recommendation", "embedding", timings=_LAUNCHES,
    ),
    _language("llama-7b", "LLaMA-7B", "Touvron et al. 2023", 1, (1, 8), "fits in 80 GB", ("llama", "llama7b"),
              "hybrid", 2),
)  # fmt: skip
MODELS = tuple(replace(m, timings=m.timings + timings(m.name), variants=variants(m.name)) for m in _ENTRIES)
