"""The model zoo: architectures with gradient sizes per layer, memory, batches and compute times, each with its source.

    zoo.profile("vgg16", workers=4)             one iteration, gradients counted from the architecture
    zoo.profile("vgg16@ada-srsf", workers=4)    the same with the sizes and times that the paper itself used
    zoo.profile("vgg16[batch=64]", workers=4)   options in the name (weft.workload.zoo.names)
    zoo.profile("mine.json", workers=4)         a profile file, an ASTRA-sim layer file, a PipeDream graph

A name may be an alias (`VGG-16`, `inception_v3`); case, dashes and underscores do not matter. After `@` comes a
variant: one paper's own numbers where they differ from the architecture's, for reproducing that paper.
"""

from weft.workload.zoo.build import PARALLEL, check, in_folder, is_path, profile, read_model, replicas, work_of
from weft.workload.zoo.entry import Layer, Model, Published, Timing
from weft.workload.zoo.names import find, names, without
from weft.workload.zoo.timings import find_gpu, known, memory, timing

__all__ = [
    "PARALLEL", "Layer", "Model", "Published", "Timing", "check", "find", "find_gpu", "in_folder", "is_path", "known",
    "memory", "names", "profile", "read_model", "replicas", "timing", "without", "work_of",
]  # fmt: skip
