"""What traces call models, as names of the model zoo."""

from __future__ import annotations

__all__ = ["zoo_name"]

# The same model under another name.
SAME = {
    "alexnet": "alexnet", "bert": "bert-base", "bertbase": "bert-base", "bertlarge": "bert-large",
    "camembert": "camembert", "dlrm": "dlrm", "gpt1": "gpt-1", "gpt2": "gpt-2", "gpt3": "gpt-3",
    "inception3": "inception-v3", "inceptionv3": "inception-v3", "llama7b": "llama-7b", "lstm": "lstm-ptb",
    "lstmptb": "lstm-ptb", "mobilenetv3": "mobilenet-v3", "resnet18": "resnet18", "resnet50": "resnet50",
    "roberta": "roberta", "vgg11": "vgg11", "vgg16": "vgg16", "vgg19": "vgg19", "wideresnet101": "wideresnet101",
    "xlm": "xlm",
    "imagenet": "resnet50", "cifar10": "resnet18",  # Pollux names jobs after the data set
    "resnet50cifar10": "resnet50",
}  # fmt: skip
# Not in the zoo, but of the same family: a nearer guess than a model drawn at random.
NEAR = {
    "googlenet": "inception-v3", "inception4": "inception-v3", "lm": "lstm-ptb", "mobilenetv2": "mobilenet-v3",
    "ncf": "dlrm", "recommendation": "dlrm", "resnet101": "resnet50", "resnet152": "resnet50",
    "transformer": "bert-base",
}  # fmt: skip
# What one format means by a name that elsewhere means something else.
BY_FORMAT = {("dally", "bert"): "bert-large", ("dally", "vgg"): "vgg11"}


def zoo_name(model: str, format: str = "") -> tuple[str | None, bool]:
    """The zoo's name for a trace's model and whether it is the same one; (None, False) if nothing comes near."""
    key = "".join(c for c in model.lower() if c.isalnum())
    if (format, key) in BY_FORMAT:
        return BY_FORMAT[format, key], True
    if key in SAME:
        return SAME[key], True
    return NEAR.get(key), False
