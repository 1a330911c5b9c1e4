"""A step of a submission, as weft predicts it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from weft.network.iteration import play_on
from weft.network.topologies import Machine, single_switch
from weft.workload import zoo
from weft.workload.graphs.layout import Layout
from weft.workload.graphs.step import step
from weft.workload.zoo.rates import Reached, rates, reached
from weft_evidence.measured.mlperf51.cases import Case

MODELS = {
    "llama31_8b": "llama-3.1-8b",
    "llama31_405b": "llama-3.1-405b",
    "llama2_70b_lora": "llama-2-70b-lora",
    "flux1": "flux-1-schnell",
}
Key = tuple[str, str]  # GPU type and precision
LATENCY_US, INNER_LATENCY_US = 5.0, 1.0  # of a message between servers, and inside one


def layout_of(case: Case) -> Layout:
    """Its configuration as a layout."""
    return Layout(
        case.tensor, case.context, case.pipeline, data=case.data, zero=int(case.sharded), virtual=case.virtual,
        micro_batches=case.micro_batches, gradient_overlap=case.gradient_overlap, gather_overlap=case.gather_overlap,
        tensor_overlap=case.tensor_overlap,
    )  # fmt: skip


def step_s(case: Case, how: Reached | None = None, layout: Layout | None = None, network: bool = True) -> float:
    """Seconds of a step, with other constants or another layout if they are given; or of one on an endless network.

    In a long pipeline each micro-batch adds the same time, so that two short ones tell how long it takes.
    """
    lay = layout or layout_of(case)
    short = 2 * lay.pipeline
    if lay.pipeline > 1 and lay.micro_batches > short + lay.pipeline:
        few, more = (
            _played(case, replace(lay, micro_batches=n), how, network) for n in (short, short + lay.pipeline)
        )  # fmt: skip
        return few + (more - few) / lay.pipeline * (lay.micro_batches - short)
    return _played(case, lay, how, network)


def _played(case: Case, lay: Layout, how: Reached | None, network: bool) -> float:
    how = how or reached()
    model, _ = zoo.find(MODELS[case.benchmark])
    each = max(1, case.batch // (case.data * case.micro_batches))  # samples of a micro-batch
    profile = step(model.name, model.layers, each * lay.micro_batches, lay, rates(case.gpu, case.dtype, how))
    if not network:
        return profile.compute_s
    gpu = zoo.find_gpu(case.gpu)
    machine = Machine(
        gpus_per_server=case.domain, nic_gbps=how.network * case.nic_gbps * case.domain * case.nodes / case.gpus,
        intra_server_gbps=how.network * 8 * gpu.link_gb_per_s or None, gpu=gpu.name, gpu_memory_gb=gpu.memory_gb,
        latency_us=LATENCY_US, intra_latency_us=INNER_LATENCY_US,
    )  # fmt: skip
    cluster = single_switch(-(-case.gpus // case.domain), machine)
    return play_on(cluster, profile, tuple(range(case.gpus))).seconds


class Quick:
    """`step_s`, where a pipeline is played once and then follows the formula of its bubble.

    With m micro-batches, p stages and v virtual ones a step takes (m + (p - 1) / v) / p times as long as a micro-batch
    takes through all stages; what the formula misses is a factor for each row, as at the first call.
    """

    def __init__(self) -> None:
        self.factors: dict[str, float] = {}

    def __call__(self, case: Case, how: Reached) -> float:
        lay = layout_of(case)
        if lay.pipeline == 1:
            return step_s(case, how)
        one = replace(lay, pipeline=1, virtual=1, micro_batches=1, data=1, zero=0)
        each = case.batch // (case.data * case.micro_batches)
        gpus = one.workers
        few = replace(case, gpus=gpus, batch=each, nodes=1, domain=gpus, pipeline=1, virtual=1, micro_batches=1)
        bubble = (lay.micro_batches + (lay.pipeline - 1) / lay.virtual) / lay.pipeline
        formula = bubble * step_s(few, how, one)
        if case.id not in self.factors:
            self.factors[case.id] = step_s(case, how) / formula
        return self.factors[case.id] * formula


def at_measured(
    how: Reached, own: Mapping[Key, Case], limits: tuple[float, float], quick_s: Quick | None = None
) -> Reached:  # fmt: skip
    """Efficiencies with which each own row comes out as measured; time is nearly a line over their inverse."""
    table, quick_s = dict(how.efficiency), quick_s or Quick()
    for key, case in own.items():
        low, high = (1 / limits[1], 1 / limits[0])
        x = 1 / table.get(key, 0.5)
        for _ in range(6):
            table[key] = 1 / x
            now = quick_s(case, replace(how, efficiency=dict(table)))
            if abs(now / case.step_s - 1) < 1e-3:
                break
            table[key] = 1 / (x * 1.1)
            slope = (quick_s(case, replace(how, efficiency=dict(table))) - now) / (0.1 * x)
            x = min(max(x + (case.step_s - now) / slope, low), high)
        table[key] = 1 / x
    return replace(how, efficiency=table)
