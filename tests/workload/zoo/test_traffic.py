"""Traffic of one iteration equals the collective's formula, for every model and every way to parallelise it.

The formulas are written from the architecture's layers, not from the code that builds the graphs.
"""

from itertools import accumulate
from math import isclose

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from testkit.draws import examples
from weft.errors import InputError
from weft.model import Compute, Profile, Transfer
from weft.network.collectives.algorithms import stages
from weft.network.estimates import run_alone
from weft.workload import zoo

SMALL = [name for name in zoo.names() if name != "gpt3"]
models = st.sampled_from(SMALL)


def _wire(profile: Profile) -> list[float]:
    """Bytes each worker sends, straight from the collectives."""
    sent = [0.0] * profile.workers
    for task in profile.tasks:
        if isinstance(task, Transfer):
            ranks = list(profile.ranks(task))
            for stage in stages(task.collective or "ring", len(ranks), task.bytes, task.servers):
                for source, _ in stage.pairs:
                    sent[ranks[source]] += stage.bytes * stage.steps
    return sent


def _expected(name: str, scheme: str, n: int, profile: Profile) -> float:
    """Bytes that all workers together send in one iteration, from the layers and the collectives' formulas.

    A ring of n sends 2 (n - 1) M for a message M, an all-to-all (n - 1) M, push and pull 2 (n - 1) M, a point-to-point
    message M; tensor-parallel workers sum activations of both passes.
    """
    model = zoo.find(name)[0]
    m, ring = model.gradient_bytes, 2 * (n - 1)
    width = 2 if zoo.timing(model, "V100", model.batch).dtype.startswith("bf16") else 4
    if scheme in ("data", "parameter-server"):
        return ring * m
    if scheme == "tensor":
        halves = [x.activation for x in model.layers if x.summed]
        return ring * 2 * width * profile.batch * sum(halves or [x.activation for x in model.layers[1::2]])
    if scheme == "embedding":
        tables = [x for x in model.layers if x.sharded]
        exchange = 4 * profile.batch * sum(x.activation for x in tables)
        return (n - 1) * 2 * exchange + ring * 4 * sum(x.params for x in model.layers if not x.sharded)
    tied = model.gradient_dtype_bytes * sum(x.tied for x in model.layers)
    cuts = width * model.batch * sum(_activations_at_cuts(model, profile, n))
    return 2 * cuts + 2 * tied  # pipeline: each cut there and back, and a ring of two sums the tied embedding


def _activations_at_cuts(model: zoo.Model, profile: Profile, stages_: int) -> list[int]:
    """Elements per sample that cross each cut, from the catalogue alone.

    Where the cuts are is told by how long each stage computes: after a stage the model has done the share of its
    operations that the layers up to there make up. DLRM's tables do no operations: they are behind the cut.
    """
    forward = [0.0] * stages_
    for t in profile.tasks:
        if isinstance(t, Compute) and t.name.startswith("forward.d0p"):
            forward[int(t.name.split("p")[1].split("m")[0])] += t.seconds
    prefix = list(accumulate(x.flops for x in model.layers))
    found, done = [], 0.0
    for seconds in forward[:-1]:
        done += seconds / sum(forward)
        share = prefix[-1] * done
        ends = [x.activation for x, p in zip(model.layers, prefix, strict=True) if isclose(p, share, rel_tol=1e-9)]
        assert ends, "a stage ends between layers"
        assert len(set(ends)) == 1 or model.name.startswith("dlrm"), "which layer the cut is behind cannot be told"
        found.append(ends[0])
    return found


@pytest.mark.parametrize("scheme", ["data", "parameter-server", "pipeline", "tensor", "embedding"])
@pytest.mark.parametrize("name", zoo.names())
def test_every_model_conserves_bytes_under_every_scheme(name: str, scheme: str) -> None:
    """What leaves the workers of 4, run alone on a network, is what the formulas say."""
    if scheme == "embedding" and not name.startswith("dlrm"):
        with pytest.raises(InputError, match="no embedding tables"):
            zoo.profile(name, 4, parallel=scheme)
        return
    if scheme == "pipeline" and len(zoo.find(name)[0].layers) < 4:
        with pytest.raises(InputError, match="use at most as many"):
            zoo.profile(name, 4, parallel=scheme)
        return
    profile = zoo.profile(name, 4, parallel=scheme)
    alone = run_alone(profile, 6.25e9)
    expected = _expected(name, scheme, 4, profile)
    assert expected > 0
    assert sum(alone.sent_bytes(w) for w in range(4)) == pytest.approx(expected, rel=1e-6)


@settings(max_examples=examples(60), deadline=None)
@given(models, st.integers(2, 16), st.booleans())
def test_data_parallel_ring_sends_twice_the_gradients_but_a_share(name: str, workers: int, overlap: bool) -> None:
    """Each worker of a ring sends 2 (n - 1) / n M for M bytes of gradients, in one message or in buckets."""
    profile = zoo.profile(name, workers, parallel="data", overlap=overlap)
    m = zoo.find(name)[0].gradient_bytes
    assert profile.message_bytes == pytest.approx(m)
    assert _wire(profile) == pytest.approx([2 * (workers - 1) / workers * m] * workers)


@settings(max_examples=examples(40), deadline=None)
@given(models, st.integers(2, 8), st.integers(1, 4), st.booleans())
def test_parameter_servers_carry_gradients_there_and_back(name: str, workers: int, servers: int, overlap: bool) -> None:
    """Push and pull: 2 M between every worker and the servers, less what stays beside a server."""
    profile = zoo.profile(name, workers, parallel="parameter-server", servers=servers, overlap=overlap)
    m = zoo.find(name)[0].gradient_bytes
    assert profile.message_bytes == pytest.approx(m)
    assert sum(_wire(profile)) == pytest.approx(2 * (workers - 1) * m)


@settings(max_examples=examples(60), deadline=None)
@given(models, st.integers(2, 6), st.integers(1, 5), st.sampled_from(["gpipe", "1f1b"]))
def test_pipeline_sends_activations_forward_and_their_gradients_back(
    name: str, workers: int, micro_batches: int, schedule: str
) -> None:
    """Over all micro-batches a cut carries the batch's activations once each way; a tied embedding is summed once."""
    model = zoo.find(name)[0]
    stages_ = min(workers, len(model.layers))
    profile = zoo.profile(name, stages_, parallel="pipeline", micro_batches=micro_batches, schedule=schedule)
    forward = [t for t in profile.tasks if isinstance(t, Transfer) and t.name.startswith("activation")]
    backward = [t for t in profile.tasks if isinstance(t, Transfer) and t.name.startswith("gradient")]
    sizes = {width * x.activation * profile.batch for width in (2, 4) for x in model.layers}
    cuts: dict[tuple[int, ...] | None, float] = {}
    for t in forward:
        cuts[t.workers] = cuts.get(t.workers, 0.0) + t.bytes
    assert len(cuts) == stages_ - 1
    for total in cuts.values():
        assert any(total == pytest.approx(size) for size in sizes)
    assert sum(t.bytes for t in backward) == pytest.approx(sum(t.bytes for t in forward))
    assert len(forward) == len(backward) == micro_batches * (stages_ - 1)
    tied = model.gradient_dtype_bytes * sum(x.tied for x in model.layers)
    rest = profile.message_bytes - 2 * sum(t.bytes for t in forward)
    assert rest == pytest.approx(tied, abs=1e-6 * max(profile.message_bytes, 1.0))


@settings(max_examples=examples(60), deadline=None)
@given(models, st.integers(2, 8), st.sampled_from(["V100", "H200"]))
def test_tensor_parallel_sums_activations_of_both_passes(name: str, workers: int, gpu: str) -> None:
    """Per block and pass two all-reduces of batch x sequence x hidden (Megatron-LM); elsewhere one per two layers."""
    model = zoo.find(name)[0]
    profile = zoo.profile(name, workers, parallel="tensor", gpu=gpu)
    width = 2 if zoo.timing(model, gpu, model.batch).dtype.startswith("bf16") else 4
    halves = [x.activation for x in model.layers if x.name.startswith("block.")]
    summed = sum(halves) if halves else sum(x.activation for x in model.layers[1::2])
    assert profile.message_bytes == pytest.approx(2 * width * profile.batch * summed)


@settings(max_examples=examples(60), deadline=None)
@given(
    models,
    st.integers(1, 3),
    st.integers(1, 3),
    st.integers(1, 3),
    st.integers(1, 4),
    st.sampled_from(["gpipe", "1f1b"]),
)
def test_hybrids_sum_gradients_over_replicas_only(
    name: str, tensor: int, pipeline: int, data: int, micro_batches: int, schedule: str
) -> None:
    """All shards and stages together all-reduce every gradient once over the replicas (a tied copy twice)."""
    model = zoo.find(name)[0]
    pipeline = min(pipeline, len(model.layers))
    shape = f"hybrid:{tensor}x{pipeline}x{data}"
    profile = zoo.profile(
        name, tensor * pipeline * data, parallel=shape, micro_batches=micro_batches, schedule=schedule
    )
    summed = [t for t in profile.tasks if isinstance(t, Transfer) and t.name.startswith("all-reduce")]
    tied = model.gradient_dtype_bytes * sum(x.tied for x in model.layers) if pipeline > 1 else 0
    expected = model.gradient_bytes + tied if data > 1 else 0.0
    assert sum(t.bytes for t in summed) == pytest.approx(expected)
    copies = [t for t in profile.tasks if isinstance(t, Transfer) and t.name.startswith("embedding")]
    assert sum(t.bytes for t in copies) == pytest.approx(data * tied)
    alone = run_alone(profile, 6.25e9)
    assert [alone.sent_bytes(w) for w in range(profile.workers)] == pytest.approx(_wire(profile), rel=1e-6)
    assert alone.iteration_s >= profile.compute_s * (1 - 1e-9)


@pytest.mark.parametrize("workers", [2, 4, 8])
def test_dlrm_exchanges_its_vectors_and_sums_its_perceptrons(workers: int) -> None:
    """Each way a worker sends (n - 1) / n of batch x 26 tables x 16 x 4 bytes, then 2 (n - 1) / n of 475,985 x 4."""
    profile = zoo.profile("dlrm", workers, batch=512)
    exchange, dense = 512 * 26 * 16 * 4, (155_984 + 320_001) * 4
    assert [t.collective for t in profile.tasks if isinstance(t, Transfer)].count("all-to-all") == 2
    share = (workers - 1) / workers
    assert _wire(profile) == pytest.approx([share * (2 * exchange + 2 * dense)] * workers)


def test_only_models_with_tables_can_shard_them() -> None:
    with pytest.raises(InputError, match="no embedding tables"):
        zoo.profile("vgg16", 4, parallel="embedding")


@settings(max_examples=examples(40), deadline=None)
@given(models, st.integers(1, 12), st.sampled_from(["auto", "data", "hybrid"]), st.sampled_from(["V100", "A100"]))
def test_what_is_sent_alone_is_what_the_collectives_say(name: str, workers: int, parallel: str, gpu: str) -> None:
    profile = zoo.profile(name, workers, parallel=parallel, gpu=gpu)
    alone = run_alone(profile, 1.25e9)
    assert [alone.sent_bytes(w) for w in range(workers)] == pytest.approx(_wire(profile), rel=1e-6)
    assert all(s.bytes_per_s <= 1.25e9 * (1 + 1e-9) for sent in alone.sent for s in sent)
