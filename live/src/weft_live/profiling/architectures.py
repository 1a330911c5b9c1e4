"""Zoo models as PyTorch modules with random weights, and batches to train them on.

torchvision and transformers define them where they are installed; weft's own plain definitions do elsewhere. The number
of parameters is the zoo's in either case (that is checked when a model is built).
"""

# mypy: disable-error-code="import-not-found"

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from weft.errors import InputError
from weft.model.units import GB
from weft.workload import zoo
from weft.workload.zoo import language, vision
from weft.workload.zoo.catalogue import shapes
from weft.workload.zoo.language import Transformer
from weft_live.profiling.torch_bridge import load_torch, optional

LIBRARIES = ("auto", "torchvision", "transformers", "weft")

_SAME = ("vgg11", "vgg16", "vgg19", "resnet18", "resnet50", "alexnet", "mobilenet-v3-small", "mobilenet-v3-large",
         "inception-v3")  # fmt: skip
NOT_BUILT = frozenset((
    "flux-1", "flux-1-schnell", "vit-b-16", "vit-l-16", "vit-h-14", "transformer-xl", "transformer-xl-36", "graphsage",
))  # fmt: skip
_TORCHVISION = {"wide-resnet101": "wide_resnet101_2", **{name: name.replace("-", "_") for name in _SAME}}


@dataclass(frozen=True)
class Trainable:
    """A module, a batch to call it with, and its loss."""

    module: Any
    batch: Any
    loss: Callable[[Any], Any]
    library: str


def build(model: str, batch: int, device: str = "cpu", *, library: str = "auto", weights: str = "float32") -> Trainable:
    """A zoo model on a device, with a random batch; `weights` may be bfloat16 for what does not fit otherwise."""
    torch = load_torch()
    if library not in LIBRARIES:
        raise InputError(f"profile: library {library!r} is not known; use one of {', '.join(LIBRARIES)}")
    entry, _ = zoo.find(model)
    _check_room(torch, entry, batch, device, getattr(torch, weights).itemsize)
    with torch.device(device):
        before = torch.get_default_dtype()
        torch.set_default_dtype(getattr(torch, weights))
        try:
            module, used = _module(torch, entry.name, library)
        finally:
            torch.set_default_dtype(before)
        params = sum(p.numel() for p in module.parameters())
        if params != entry.params:
            raise InputError(f"model {entry.name}: {used} builds {params} parameters, the zoo counts {entry.params}")
        data, loss = _data(torch, entry.name, batch, getattr(torch, weights))
    return Trainable(module, data, loss, used)


def _check_room(torch: Any, entry: zoo.Model, batch: int, device: str, width: int) -> None:
    """Refuse what certainly needs more memory than the device has: trying may crash the host or take for ever."""
    if device.startswith("cuda"):
        if not torch.cuda.is_available():
            return  # torch itself reports it
        there = float(torch.cuda.mem_get_info(device)[1])
    elif device == "cpu":
        there = _host_memory()
    else:
        return
    needed = 2.0 * width * entry.params
    if needed > there:
        raise InputError(
            f"model {entry.name}: its parameters and gradients need {needed / GB:,.0f} GB, {device} has "
            f"{there / GB:,.0f}; profile a smaller one"
        )
    needed = float(width * entry.params) + batch * least_sample_bytes(entry)  # activations are freed as gradients come
    if needed > there:
        raise InputError(
            f"model {entry.name}: batch {batch} needs at least {needed / GB:,.0f} GB, {device} has "
            f"{there / GB:,.0f}; use a smaller --batch"
        )


def least_sample_bytes(entry: zoo.Model) -> float:
    """Bytes that one more sample takes at the very least: its input, and the layers' outputs in two bytes each."""
    side = _side(entry.name)
    given = 4.0 * 3 * side * side if entry.name in _TORCHVISION else 0.0
    return given + 2.0 * sum(layer.activation for layer in entry.layers)


def _host_memory() -> float:
    """Bytes of memory that are available on this machine; all that it has, where it does not say."""
    has = float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    try:
        with open("/proc/meminfo", encoding="ascii") as lines:
            return min([has, *(1024.0 * float(x.split()[1]) for x in lines if x.startswith("MemAvailable:"))])
    except OSError:
        return has


def _side(name: str) -> int:
    return 299 if name == "inception-v3" else 224


def _module(torch: Any, name: str, library: str) -> tuple[Any, str]:
    if (name in shapes() and not shapes()[name].classic) or name in NOT_BUILT:
        what = "this architecture" if name in NOT_BUILT else "grouped queries or experts"
        raise InputError(f"model {name}: weft profile does not build {what}; measure a script of yours")
    if name in _TORCHVISION and library in ("auto", "torchvision"):
        torchvision = optional("torchvision.models")
        if torchvision is not None:
            extra = {"init_weights": False, "aux_logits": True} if name == "inception-v3" else {}
            return getattr(torchvision, _TORCHVISION[name])(weights=None, **extra), "torchvision"
    if name in shapes() and library in ("auto", "transformers"):
        transformers = optional("transformers")
        if transformers is not None:
            return _hugging_face(transformers, name, shapes()[name]), "transformers"
    if library in ("auto", "weft"):
        return _own(name), "weft"
    raise InputError(f"model {name}: {library} does not define it or is not installed; use library auto or weft")


def _own(name: str) -> Any:
    from weft_live.profiling.language_nets import Dlrm, LstmPtb, TransformerNet
    from weft_live.profiling.vision_nets import AlexNet, InceptionV3, MobileNetV3, ResNet, Vgg

    if name in shapes():
        return TransformerNet(shapes()[name])
    makers: dict[str, Callable[[], Any]] = {
        "vgg11": lambda: Vgg(11),
        "vgg16": lambda: Vgg(16),
        "vgg19": lambda: Vgg(19),
        "resnet18": lambda: ResNet((2, 2, 2, 2), bottleneck=False),
        "resnet50": lambda: ResNet((3, 4, 6, 3), bottleneck=True),
        "wide-resnet101": lambda: ResNet((3, 4, 23, 3), bottleneck=True, widen=2),
        "alexnet": AlexNet,
        "mobilenet-v3-small": lambda: MobileNetV3(vision.SMALL, 576, 1024),
        "mobilenet-v3-large": lambda: MobileNetV3(vision.LARGE, 960, 1280),
        "inception-v3": InceptionV3,
        "lstm-ptb": LstmPtb,
        "dlrm": Dlrm,
        "dlrm-benchmark": lambda: Dlrm(language.BENCHMARK_ROWS, language.BENCHMARK_BOTTOM, language.BENCHMARK_TOP),
    }
    return makers[name]()


def _hugging_face(transformers: Any, name: str, shape: Transformer) -> Any:
    """A Hugging Face model of the same shape, by its configuration alone: nothing is downloaded."""
    size = {"vocab_size": shape.vocabulary, "hidden_size": shape.hidden, "intermediate_size": shape.inner}
    size |= {"num_hidden_layers": shape.blocks, "max_position_embeddings": shape.positions}
    size["num_attention_heads"] = shape.heads
    if name.startswith("bert"):
        return transformers.BertModel(transformers.BertConfig(**size, type_vocab_size=shape.token_types))
    if name in ("roberta", "camembert", "xlm"):
        kind = {"roberta": "Roberta", "camembert": "Camembert", "xlm": "XLMRoberta"}[name]
        config = getattr(transformers, f"{kind}Config")(**size, type_vocab_size=shape.token_types)
        return getattr(transformers, f"{kind}Model")(config)
    if name == "llama-7b":
        size["max_position_embeddings"] = shape.sequence
        return transformers.LlamaForCausalLM(
            transformers.LlamaConfig(**size, tie_word_embeddings=False, use_cache=False)
        )
    gpt = {"vocab_size": shape.vocabulary, "n_positions": shape.positions, "n_embd": shape.hidden}
    gpt |= {"n_layer": shape.blocks, "n_head": shape.heads}
    if name == "gpt1":
        return transformers.OpenAIGPTLMHeadModel(transformers.OpenAIGPTConfig(**gpt))
    return transformers.GPT2LMHeadModel(transformers.GPT2Config(**gpt, use_cache=False))


def _data(torch: Any, name: str, batch: int, weights: Any) -> tuple[Any, Callable[[Any], Any]]:
    """A random batch and the loss that goes with it."""
    functional = torch.nn.functional
    if name in _TORCHVISION:
        side = _side(name)
        labels = torch.randint(1000, (batch,))

        def classify(output: Any) -> Any:
            heads = output if isinstance(output, tuple) else (output,)
            return sum(functional.cross_entropy(logits.float(), labels) for logits in heads)

        return torch.randn(batch, 3, side, side, dtype=weights), classify
    if name.startswith("dlrm"):
        benchmark = name == "dlrm-benchmark"
        rows = torch.tensor(language.BENCHMARK_ROWS if benchmark else language.CRITEO_KAGGLE_ROWS)
        categories = (torch.rand(batch, len(rows)) * rows).long()
        clicks = torch.randint(2, (batch, 1)).float()
        dense = torch.rand(batch, (language.BENCHMARK_BOTTOM if benchmark else language.DLRM_BOTTOM)[0])
        return (dense, categories), lambda out: functional.binary_cross_entropy_with_logits(out.float(), clicks)
    shape = shapes().get(name)
    vocabulary, sequence = (shape.vocabulary, shape.sequence) if shape else (10_000, 35)
    ids = torch.randint(vocabulary, (batch, sequence))
    if shape and shape.head == "none":
        return ids, lambda out: sum(t.float().mean() for t in _states(out))

    def next_token(output: Any) -> Any:
        logits = getattr(output, "logits", output)
        return functional.cross_entropy(logits[:, :-1].flatten(0, 1).float(), ids[:, 1:].flatten())

    return ids, next_token


def _states(output: Any) -> tuple[Any, ...]:
    if isinstance(output, tuple):
        return output
    return output.last_hidden_state, output.pooler_output
