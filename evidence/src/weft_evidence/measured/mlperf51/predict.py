"""A step of a submission, as weft predicts it."""

from __future__ import annotations

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
