"""The scenarios of CASSINI's sections 5.2 to 5.6."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

JITTER = 0.01
RESTART_S = 10.0  # what a job loses that is stopped and started elsewhere; a sweep is in docs/papers/cassini.md

# Batches of the vision models are those at which computing takes as long as in Table 2 (VGG16 142 ms, VGG19 168 ms,
# WideResNet101 152 ms; VGG11 and ResNet50 in proportion to their operations): the paper's 512 to 1,800 images are small
# ones, the zoo's have 224 x 224. DLRM is the one whose parameters are those of Table 3.
_VGG11, _VGG16, VGG19 = "vgg11[batch=104]", "vgg16[batch=46]", "vgg19[batch=104]"
RESNET50, _WIDE, DLRM = "resnet50[batch=24]", "wide-resnet101[batch=40]", "dlrm-benchmark"
_MODELS = [_VGG11, _VGG16, VGG19, RESNET50, _WIDE, "bert-base", "roberta", "camembert", "xlm", "gpt1", "gpt2",
           "gpt2-medium", DLRM]  # fmt: skip
GPT2_A = "gpt2-a[batch=24,parallel=hybrid]"
_PARALLEL = [
    "gpt1[parallel=hybrid]",
    GPT2_A,
    "gpt2-b[batch=70,parallel=hybrid]",
    "gpt3-cassini[parallel=hybrid]",
    DLRM,
]
_SIZES = {str(n): 1 for n in range(1, 13)}
_SPAN = [0.4, 1.5]  # batches per GPU stay about in the ranges of Table 3 when jobs are resized


def _scenario(cluster: Mapping[str, Any], **workload: Any) -> dict[str, Any]:
    usual = {"gpus": _SIZES, "elastic": [1, 12], "elastic_batch": _SPAN, "iterations": [200, 1000]}
    return {
        "cluster": dict(cluster),
        "workload": {name: value for name, value in {**usual, **workload}.items() if value is not None},
        "run": {"jitter": JITTER, "restart_s": RESTART_S},
    }


_TESTBED = {"topology": "cassini"}
_LARGE = {**_TESTBED, "gpu_memory_gb": 1000}  # the paper's GPT jobs need more memory than a GPU has: no limit

# experiment: scenario of sections 5.2 to 5.6
EXPERIMENTS: dict[str, dict[str, Any]] = {
    "figure-11": _scenario(_TESTBED, source="poisson", jobs=30, load=0.9, models=_MODELS),
    "figure-12": _scenario(
        _LARGE, source="poisson", jobs=16, load=0.9, models=_PARALLEL, gpus={"2": 1, "4": 1, "8": 1}, elastic=None
    ),
    "figure-13": _scenario(  # jobs that ask for 0.8 to 1.0 of the GPUs are there, then come DLRM and ResNet50
        _TESTBED, source="dynamic", jobs=10, load=1.0, arriving=[DLRM, RESNET50], arrive_s=60, gap_s=10,
        models=[model for model in _MODELS if model not in (DLRM, RESNET50)],
        gpus={"3": 1, "4": 1, "5": 1, "6": 1}, shortest_s=120,
    ),
    "figure-14": _scenario(
        _LARGE, source="dynamic", jobs=10, present=6, arrive_s=60, gap_s=10, models=_PARALLEL,
        gpus={"2": 1, "4": 1, "8": 1}, elastic=None,
    ),
    "figure-16": _scenario(
        {**_TESTBED, "servers": 6}, source="dynamic", jobs=8, present=4, arrive_s=60, gap_s=10,
        models=["xlm", RESNET50, DLRM, _VGG16, "bert-base"], gpus={"3": 1}, elastic=None,
    ),
    "sweep": _scenario(
        _TESTBED, source="poisson", jobs=30, load=0.9, models=[VGG19], gpus={"3": 1}, elastic=None, apps=True,
    ),
}  # fmt: skip
# Figure 13 as the studies of docs/papers/cassini.md have it: which models arrive is drawn, and more jobs are there.
STUDIED = {
    **EXPERIMENTS,
    "figure-13": _scenario(
        _TESTBED, source="dynamic", jobs=12, present=8, arrive_s=60, gap_s=10, models=[*_MODELS, DLRM, RESNET50],
        gpus={"3": 1, "4": 1, "5": 1, "6": 1}, shortest_s=120,
    ),
}  # fmt: skip
