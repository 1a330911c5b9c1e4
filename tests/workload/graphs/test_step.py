"""Steps of transformers on named layouts."""

import math
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from testkit.draws import examples
from weft.errors import InputError
from weft.model.profile import Compute, Profile, Transfer
from weft.network.collectives import stages
from weft.network.iteration import play_on
from weft.network.topologies import Machine, single_switch
from weft.workload import zoo
from weft.workload.graphs.layout import Layout, factors, overlaps, replace_setting
from weft.workload.graphs.roofline import BACK_ATTENTION, BACK_REST, cut
from weft.workload.graphs.step import OPTIMISER_BYTES, step
from weft.workload.zoo.language import Experts, Transformer
from weft.workload.zoo.rates import rates

SMALL = Transformer(1000, 0, 256, 6, 1024, 128, final_norm=True, head="own", bias=False, gated=True, rms_norm=True,
                    attention_heads=8, kv_heads=4)  # fmt: skip
MIXED = replace(SMALL, experts=Experts(8, 2, 512))
# Endless memory and no kernel costs: time is operations over the rate, 1e12 a second.
PLAIN = replace(
    rates("H100"), products=1e12, plain=1e12, attention=1e12, bytes_per_s=math.inf, kernel_s=0, step_s=0, exposed=0
)


def made(layout: Layout, shape: Transformer = SMALL, batch: int | None = None) -> Profile:
    return step("small", shape.layers(), batch or layout.micro_batches, layout, PLAIN)


def seconds(profile: Profile, gbps: float = 400.0) -> float:
    cluster = single_switch(profile.workers, Machine(nic_gbps=gbps))
    return play_on(cluster, profile, tuple(range(profile.workers))).seconds


def sent(profile: Profile) -> list[float]:
    """Bytes that each worker sends in a step, straight from the collectives."""
    found = [0.0] * profile.workers
    for task in profile.tasks:
        if isinstance(task, Transfer):
            ranks = list(profile.ranks(task))
            for stage in stages(task.collective or "ring", len(ranks), task.bytes):
                for source, _ in stage.pairs:
                    found[ranks[source]] += stage.bytes * stage.steps
    return found


layouts = st.builds(
    Layout,
    tensor=st.sampled_from([1, 2, 4]), context=st.sampled_from([1, 2]), pipeline=st.sampled_from([1, 2, 4]),
    data=st.sampled_from([1, 2, 4]), zero=st.integers(0, 1), micro_batches=st.sampled_from([4, 8]),
    virtual=st.sampled_from([1, 2]), gradient_overlap=st.booleans(), gather_overlap=st.booleans(),
    tensor_overlap=st.booleans(), context_overlap=st.booleans(), sequence=st.booleans(),
).filter(lambda lay: lay.virtual == 1 or lay.pipeline > 1)  # fmt: skip


@settings(max_examples=examples(40), deadline=None)
@given(layouts)
def test_every_layout_does_the_work_of_the_model(layout: Layout) -> None:
    """All workers together compute each product of each sample once forward and twice backward, attention 1 and 2.5."""
    layers = SMALL.layers()
    products = sum(x.flops - x.attention for x in layers)
    attention = sum(x.attention for x in layers) / 2  # causal
    samples = layout.micro_batches * layout.data
    expected = samples * (3 * products + (1 + BACK_ATTENTION) * attention) / 1e12
    profile = made(layout)
    assert profile.gpu_s == pytest.approx(expected, rel=1e-9)
    assert seconds(profile) >= profile.compute_s > 0


@settings(max_examples=examples(40), deadline=None)
@given(layouts, st.booleans())
def test_gradients_and_weights_travel_once(layout: Layout, exposed: bool) -> None:
    """With n workers of one shard each sends (n - 1) / n of two bytes for each gradient, and as much of weights.

    All-reduced gradients are twice that. Hiding them, or showing a share, changes no byte.
    """
    how = replace(PLAIN, exposed=0.25 * exposed)
    profile = step("small", SMALL.layers(), layout.micro_batches, layout, how)
    n = layout.data * layout.context
    params = sum(x.params for x in SMALL.layers())
    assert state_bytes(profile) == pytest.approx(2 * (n - 1) * 2.0 * params if n > 1 else 0.0)


def state_bytes(profile: Profile) -> float:
    """Bytes that all workers together send of weights and gradients."""
    state = [task for task in profile.tasks if is_state(task)]
    return sum(sum(sent(replace(profile, tasks=(replace(task, after=()),)))) for task in state)


def is_state(task: object) -> bool:
    return isinstance(task, Transfer) and task.name.startswith(("weights", "first-weights", "gradients", "copies"))


@settings(max_examples=examples(30), deadline=None)
@given(layouts, st.sampled_from(["gradient_overlap", "gather_overlap", "tensor_overlap", "context_overlap"]))
def test_an_overlap_never_costs_more_than_it_saves_bytes(layout: Layout, name: str) -> None:
    """Overlaps move bytes in time and change none; on an endless network they change nothing at all."""
    on, off = made(replace(layout, **{name: True})), made(replace(layout, **{name: False}))
    assert sum(sent(on)) == pytest.approx(sum(sent(off)))
    assert on.compute_s == pytest.approx(off.compute_s)


@pytest.mark.parametrize("replicas", [1, 2, 6])
def test_replicas_add_no_tasks(replicas: int) -> None:
    """One task stands for all replicas."""
    few, many = (made(Layout(2, 1, 2, data=n, micro_batches=4)) for n in (2, 2 * replicas))
    assert len(few.tasks) == len(many.tasks)
    assert seconds(many, 1e6) == pytest.approx(seconds(few, 1e6), rel=1e-3)


def test_a_pipeline_without_network_takes_its_bubble() -> None:
    """1F1B of equal stages: (m + p - 1) times a micro-batch of a stage; with v virtual stages m + (p - 1) / v."""
    shape = replace(SMALL, vocabulary=1, blocks=6)
    layers = shape.layers()[1:-1] + shape.layers()[1:5]  # eight equal blocks
    for virtual, bubble in ((1, 3.0), (2, 1.5)):
        layout = Layout(pipeline=4, virtual=virtual, micro_batches=8)
        profile = step("equal", layers, 8, layout, PLAIN)
        once = profile.gpu_s / 4 / 8
        assert profile.compute_s == pytest.approx((8 + bubble) * once)


def test_more_micro_batches_add_the_same_time_each() -> None:
    """What predictions of long pipelines rest on: beyond twice the stages a step is a line over the micro-batches."""
    layout = Layout(2, 1, 4, data=2, virtual=2, gradient_overlap=True)
    times = [seconds(made(replace(layout, micro_batches=n))) for n in (8, 12, 40)]
    assert times[2] == pytest.approx(times[0] + (times[1] - times[0]) / 4 * 32, rel=2e-3)


def test_sharded_weights_travel_for_each_pass() -> None:
    """FSDP gathers 2 bytes of each weight twice a micro-batch and scatters as many of gradients: 3 (n - 1) / n of
    them."""
    layout = Layout(data=4, zero=3, micro_batches=1)
    params = sum(x.params for x in SMALL.layers())
    assert sent(made(layout)) == pytest.approx([3 * 3 / 4 * 2.0 * params] * 4)
    hybrid = replace(layout, data=8, copies=2)  # and copies sum their shards: a ring of 2 over a quarter
    assert sent(made(hybrid)) == pytest.approx([(3 * 3 / 4 + 1 / 4) * 2.0 * params] * 8)


@settings(max_examples=examples(30), deadline=None)
@given(layouts.filter(lambda lay: lay.pipeline > 1), st.sampled_from([1, 2]), st.sampled_from([0, 4]))
def test_a_pipeline_gathers_sharded_weights_once_a_step(layout: Layout, copies: int, adapters: int) -> None:
    """However many micro-batches: each of n workers of a shard group sends (n - 1) / n of 2 bytes of each weight,
    trained or not, and as many of each gradient; copies sum a shard in rings. It holds what it holds under zero 1."""
    if layout.data % copies:
        copies = 1
    layout = replace(layout, zero=3, copies=copies)
    layers = replace(SMALL, adapters=adapters).layers()
    profile = step("small", layers, layout.micro_batches, layout, PLAIN)
    n = layout.shards
    weights, trained = sum(x.params for x in layers), sum(x.trained for x in layers)
    expected = copies * 2.0 * (n - 1) * (weights + trained) + 2.0 * trained * 2 * (copies - 1)
    assert state_bytes(profile) == pytest.approx(expected)
    assert seconds(profile) >= profile.compute_s
    if copies == 1:
        assert (
            profile.memory_bytes
            == step("small", layers, layout.micro_batches, replace(layout, zero=1), PLAIN).memory_bytes
        )


def test_gathering_ahead_hides_what_computing_takes_longer_than() -> None:
    slow, fast = (made(Layout(data=4, zero=3, gather_overlap=on, gradient_overlap=on)) for on in (False, True))
    assert seconds(fast) < seconds(slow)
    assert seconds(fast, 1e9) == pytest.approx(seconds(slow, 1e9), rel=1e-3)


def test_tokens_go_to_experts_and_back_in_both_passes() -> None:
    """A token is sent to top_k experts of n workers, and comes back; backward the same. 2 bytes an element, (n - 1) /
    n leave."""
    layout = Layout(data=8, expert=4, zero=0, micro_batches=1)
    profile = made(layout, MIXED)
    routed = [t for t in profile.tasks if isinstance(t, Transfer) and t.name.startswith("experts")]
    bytes_ = sum(t.bytes for t in routed)
    assert bytes_ == pytest.approx(4 * 2.0 * MIXED.blocks * 128 * 256 * 2)
    assert {t.collective for t in routed} == {"all-to-all/2"}


def test_gradients_of_experts_are_summed_among_those_that_hold_the_same() -> None:
    """8 workers, experts over 4: a worker's experts have one copy elsewhere, all else seven."""
    profile = made(Layout(data=8, expert=4, zero=0), MIXED)
    layers = MIXED.layers()
    experts, all_ = sum(x.expert_params for x in layers), sum(x.params for x in layers)
    assert state_bytes(profile) == pytest.approx(8 * 2.0 * (2 * 7 / 8 * (all_ - experts) + 2 * 1 / 2 * experts / 4))


def test_frozen_weights_have_no_gradients() -> None:
    lora = replace(SMALL, adapters=4)
    trained = sum(x.trained for x in lora.layers())
    assert trained == 6 * 4 * ((256 + 256 + 2 * 128) + (256 + 256))
    profile = made(Layout(data=2, zero=0), lora)
    assert sum(t.bytes for t in profile.tasks if is_state(t)) == 2.0 * trained
    layers = lora.layers()
    products, attention = sum(x.flops - x.attention for x in layers), sum(x.attention for x in layers) / 2
    assert profile.gpu_s == pytest.approx(2 * (2 * products + (1 + BACK_ATTENTION) * attention) / 1e12)


def test_memory_is_weights_gradients_states_and_activations() -> None:
    """zero 0 to 3 shard 12, 4 and 2 bytes a parameter over the workers, one after the other."""
    params = sum(x.params for x in SMALL.layers())
    held = [made(Layout(data=4, zero=zero)).memory_bytes for zero in range(4)]
    assert held[0] - held[1] == pytest.approx(12 * params * 3 / 4)
    assert held[1] - held[2] == pytest.approx(4 * params * 3 / 4)
    assert held[2] - held[3] == pytest.approx(2 * params * 3 / 4)
    full = made(Layout(data=4, zero=3, recompute="full"))
    assert full.memory_bytes < held[3]
    assert full.gpu_s > made(Layout(data=4, zero=3)).gpu_s


def mixed_layouts() -> st.SearchStrategy[Layout]:
    """Layouts whose experts are spread over some of the workers of one copy."""
    drawn = st.builds(
        Layout, tensor=st.sampled_from([1, 2]), context=st.sampled_from([1, 2]), data=st.sampled_from([2, 4, 8]),
        expert=st.sampled_from([1, 2, 4, 8]), copies=st.sampled_from([1, 2]), zero=st.integers(0, 3),
        gather_overlap=st.booleans(), gradient_overlap=st.booleans(),
    )  # fmt: skip
    return drawn.filter(lambda lay: lay.shards % lay.expert == 0 and (lay.zero == 3 or lay.copies == 1))


@settings(max_examples=examples(60), deadline=None)
@given(mixed_layouts(), st.sampled_from([MIXED, replace(MIXED, experts=Experts(16, 1, 128, shared=1, dense_blocks=2))]))
def test_no_layout_holds_less_than_all_states(layout: Layout, shape: Transformer) -> None:
    """12 bytes a parameter are somewhere: all workers of a copy together hold them once, if they shard them; the
    optimiser goes once through what a worker holds."""
    layers, how = shape.layers(), replace(PLAIN, bytes_per_s=1e12)
    profile = step("mixed", layers, 1, layout, how)
    all_, experts = sum(x.params for x in layers), sum(x.expert_params for x in layers)
    apart = experts / layout.expert  # of experts, on a worker that shards nothing
    whole = (all_ - experts + apart) / layout.tensor
    states = 12 * (all_ / layout.tensor / layout.shards if layout.zero else whole)
    memory = profile.memory_source.partition("formula: ")[2].split(", ")
    told = {what: 1e9 * float(size) for size, what in (each.split(" GB of ") for each in memory)}
    assert told["optimiser states"] == pytest.approx(states, rel=6e-3)
    assert told["gradients"] == pytest.approx(4 * (states / 12 if layout.zero >= 2 else whole), rel=6e-3)
    assert told["weights"] == pytest.approx(2 * (states / 12 if layout.zero == 3 else whole), rel=6e-3)
    assert layout.workers * told["optimiser states"] >= 0.994 * 12 * all_
    last = profile.tasks[-1]
    assert isinstance(last, Compute)
    assert last.seconds == pytest.approx(states / 12 * OPTIMISER_BYTES / 1e12)


@settings(max_examples=examples(60), deadline=None)
@given(mixed_layouts(), st.booleans())
def test_experts_travel_only_among_those_that_hold_the_same(layout: Layout, exposed: bool) -> None:
    """Of n workers that hold the same and shard it each sends (n - 1) / n of two bytes an element: gradients once, or
    twice if they are all-reduced; weights once a step, under zero 3 twice. Copies add 2 (c - 1) / c of a shard."""
    layers = MIXED.layers()
    profile = step("mixed", layers, 1, layout, replace(PLAIN, exposed=0.25 * exposed))
    all_, experts = sum(x.params for x in layers), sum(x.expert_params for x in layers)
    times, copies, expected = {0: 2, 1: 2, 2: 2, 3: 3}[layout.zero], layout.copies, 0.0
    for elements, n in ((all_ - experts, layout.shards), (experts / layout.expert, layout.shards // layout.expert)):
        expected += elements / layout.tensor * (times * (n - 1) / n + 2 * (copies - 1) / copies / n)
    assert state_bytes(profile) == pytest.approx(layout.workers * 2.0 * expected)
    for task in profile.tasks:  # no group has workers with different experts
        if isinstance(task, Transfer) and "-experts" in task.name and task.name.startswith(("weights", "gradients")):
            ranks, groups = list(profile.ranks(task)), int((task.collective or "").partition("/")[2])
            each = len(ranks) // groups
            for k in range(groups):
                mine = ranks[k * each : (k + 1) * each]
                assert len({rank // layout.tensor % layout.expert for rank in mine}) == 1


def test_the_optimiser_reads_and_writes_its_shard() -> None:
    how = replace(PLAIN, bytes_per_s=1e12)
    profile = step("small", SMALL.layers(), 1, Layout(data=4), how)
    last = profile.tasks[-1]
    assert isinstance(last, Compute)
    assert last.seconds == pytest.approx(sum(x.params for x in SMALL.layers()) / 4 * OPTIMISER_BYTES / 1e12)


def test_what_lies_between_products_moves_memory_once_forward_and_twice_backward() -> None:
    slow = replace(PLAIN, bytes_per_s=1e6, products=math.inf, plain=math.inf, attention=math.inf)
    profile = step("small", SMALL.layers(), 1, Layout(zero=0), slow)
    passes = [t for t in profile.tasks if isinstance(t, Compute) and not t.name.startswith("optimiser")]
    forward, backward = (sum(t.seconds for t in passes if t.name.startswith(way)) for way in ("forward", "backward"))
    read = sum(2.0 * x.params for x in SMALL.layers() if x.flops) / 1e6  # and weights are read, in both
    assert (backward - 2 * read) / (forward - read) == pytest.approx(BACK_REST)


@settings(max_examples=examples(60), deadline=None)
@given(st.lists(st.floats(0.1, 10), min_size=1, max_size=24), st.integers(1, 24))
def test_a_cut_covers_all_units_and_leaves_no_run_empty(seconds_: list[float], count: int) -> None:
    count = min(count, len(seconds_))
    runs = cut(seconds_, count)
    assert len(runs) == count
    assert [i for first, last in runs for i in range(first, last)] == list(range(len(seconds_)))


@pytest.mark.parametrize(
    ("shape", "workers", "why"),
    [
        ("tp4xpp3", 16, "no multiple of 12"),
        ("tp4xtp2", 16, "tp is there twice"),
        ("tp4xzz2", 16, "'zz2' is no factor"),
        ("tp4xdp2", 16, "for 8 workers, not 16"),
        ("fsdp3", 16, "for 15 workers"),
        ("tp2xep3", 16, "ep divides"),
        ("fsdp4xep8", 16, "ep divides the 4 workers"),
        ("tp0", 16, "at least 1"),
    ],
)
def test_a_layout_that_does_not_fit_is_refused(shape: str, workers: int, why: str) -> None:
    with pytest.raises(InputError, match=why):
        factors(shape, workers, "")


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("vgg16[parallel=hybrid:tp2]", "no transformer"),
        ("llama-3.1-8b[parallel=hybrid:tp2xpp2,zero=2]", "not sharded under a pipeline"),
        ("llama-3.1-8b[parallel=hybrid:ep2]", "no experts"),
        ("llama-3.1-8b[parallel=hybrid:pp2,virtual=2]", "schedule=1f1b"),
        ("llama-3.1-8b[parallel=hybrid:tp2,recompute=some]", "use one of none, full"),
        ("llama-3.1-8b[parallel=hybrid:fsdp4,zero=1]", "with fsdp it is 3; leave it out"),
        ("llama-3.1-8b[parallel=hybrid:tp2,zero=4]", "it is 0 to 3$"),
        ("llama-3.1-8b[parallel=hybrid:tp4,heads=30,kv_heads=10,head_dim=128]", "30 heads do not split into 4"),
        ("mixtral-8x7b[parallel=hybrid:ep4,experts=6]", "6 experts do not split into 4"),
        ("llama-3.1-8b[parallel=hybrid:tp2,batch=3,micro_batches=2]", "does not split"),
        ("llama-3.1-8b[gather_overlap=true]", "for layouts with names"),
        ("llama-3.1-8b[parallel=hybrid:tp2,dtype=fp4]", "no fp4"),
        ("mixtral-8x7b[parallel=hybrid:ep4,top_k=9]", "top_k is 9 of 8 experts"),
        ("mixtral-8x7b[top_k=9]", "top_k is 9 of 8 experts"),
        ("llama-3.1-8b[parallel=hybrid:tp4,kv_heads=2]", "2 heads of keys and values do not split into 4"),
        ("llama-3.1-8b[parallel=hybrid:cp2,sequence=8191]", "8191 tokens do not split into 2"),
        ("llama-3.1-8b[parallel=hybrid:tp2,servers=9]", "servers is for parameter servers"),
        ("llama-3.1-8b[parallel=hybrid:tp2,apart=true]", "apart is for parameter servers"),
        ("llama-3.1-8b[parallel=hybrid:tp2,schedule=1f1b]", "schedule has no meaning without pp"),
        ("llama-3.1-8b[parallel=hybrid:cp2,tensor_overlap=true]", "tensor_overlap has no meaning without tp"),
        ("llama-3.1-8b[parallel=hybrid:cp2,sequence_parallel=true]", "sequence_parallel has no meaning without tp"),
        ("llama-3.1-8b[parallel=hybrid:tp2,context_overlap=true]", "context_overlap has no meaning without cp"),
        ("mixtral-8x7b[parallel=hybrid:tp2,expert_overlap=true]", "expert_overlap has no meaning without ep"),
        ("vgg16[schedule=1f1b]", "schedule is for pipeline"),
        ("vgg16[micro_batches=2]", "micro_batches is for pipeline"),
        ("vgg16[servers=3]", "servers is for parameter servers"),
        ("gpt3[servers=3]", "servers is for parameter servers"),
        ("vgg16[layers=3]", "no layers that could be changed"),
        ("llama-3.1-8b[experts=8]", "no experts that could be changed"),
    ],
)
def test_a_setting_that_cannot_be_carried_out_is_refused(name: str, why: str) -> None:
    with pytest.raises(InputError, match=why):
        zoo.profile(name, 4, gpu="H100")


def test_no_micro_batches_are_refused() -> None:
    with pytest.raises(InputError, match="micro_batches is 0"):
        zoo.profile("llama-3.1-8b[parallel=hybrid:tp4]", 4, gpu="H100", micro_batches=0)


@pytest.mark.parametrize(
    ("layout", "shape", "forward", "plain"),
    [
        (Layout(tensor=4), SMALL, 1.0, 2.5),
        (Layout(tensor=4, sequence=False), SMALL, 1.0, 2.0),
        (Layout(context=4, zero=0), SMALL, 1.0, 3.0),
        (Layout(data=4, expert=4, zero=0), MIXED, 1.0, 2.0),
    ],
)
def test_a_recomputed_pass_sends_again(layout: Layout, shape: Transformer, forward: float, plain: float) -> None:
    """Of a half block's message the passes send `plain` times its size, and once more what the forward pass sent: of
    tensor workers that split tokens 1 + 1.5 halves become 1 + 2.5, as Megatron-LM's 4 all-reduces of a block become 6.
    """

    def inside(lay: Layout) -> float:
        names = ("tensor", "rest-of-tensor", "context", "rest-of-context", "experts", "rest-of-experts")
        tasks = made(lay, shape).tasks
        return sum(t.bytes for t in tasks if isinstance(t, Transfer) and t.name.startswith(names))

    once = inside(layout)
    assert once > 0
    assert inside(replace(layout, recompute="full")) == pytest.approx(once * (plain + forward) / plain)


def test_recomputing_keeps_inputs_of_blocks_and_one_block() -> None:
    """Of 6 blocks 2 bytes an element of each input, what one block keeps, and embedding and head as ever."""
    plain, full = (made(Layout(recompute=how)) for how in ("none", "full"))
    blocks = SMALL.layers()[1:-1]
    each = sum(4 * x.activation + 2 * x.between for x in blocks) / 6
    assert plain.memory_bytes - full.memory_bytes == pytest.approx(6 * each - 6 * 2 * 128 * 256 - each)


@pytest.mark.parametrize("layout", [Layout(pipeline=2), Layout(2, 1, 4, data=2, virtual=2, micro_batches=4)])
def test_a_tied_embedding_is_summed_between_the_ends_of_a_pipeline(layout: Layout) -> None:
    """Both copies' gradients, 2 bytes an element, in rings of 2; without a pipeline there is one copy and no sum."""
    tied = replace(SMALL, head="tied")
    found = [t for t in made(layout, tied).tasks if t.name == "tied-embedding"]
    assert [t.bytes for t in found if isinstance(t, Transfer)] == [2.0 * 1000 * 256 / layout.tensor]
    ranks = list(found[0].workers or ())
    stage = layout.stage_workers
    assert [(a, b) for a, b in zip(ranks[::2], ranks[1::2], strict=True)] == [
        (i, i + (layout.pipeline - 1) * stage) for i in range(stage)
    ]
    held, own = (made(layout, shape).memory_bytes for shape in (tied, SMALL))
    assert held == own  # the last stage holds as much as with an output layer of its own
    alone = made(replace(layout, pipeline=1, virtual=1), tied)
    assert not any(t.name == "tied-embedding" for t in alone.tasks)


def test_names_of_models_carry_layouts_and_numbers() -> None:
    name = "mixtral-8x7b[parallel=hybrid:tp2xep4,layers=4,experts=4,micro_batches=2,batch=4,overlap=true]"
    profile = zoo.profile(name, 8, gpu="H100")
    assert (profile.name, profile.workers, profile.batch) == (name, 8, 4)
    assert zoo.replicas(name, 8) == 4
    whole, _ = zoo.find("mixtral-8x7b")
    assert 0 < zoo.work_of("mixtral-8x7b[layers=4]", gpu="H100").gradient_bytes < whole.gradient_bytes


def test_settings_of_a_layout_are_told() -> None:
    layout = Layout(tensor=2, data=2, tensor_overlap=True, context_overlap=True)
    assert overlaps(layout) == {"gradient_overlap": False, "gather_overlap": False, "tensor_overlap": True}
    assert not any(overlaps(replace_setting(layout, "tensor_overlap", False)).values())


@pytest.mark.parametrize(("gpu", "dtype"), [("V100", "fp32"), ("T4", "fp32"), ("A100", "bf16"), ("MI300X", "bf16")])
def test_a_layout_takes_the_precision_of_the_gpu(gpu: str, dtype: str) -> None:
    profile = zoo.profile("llama-3.1-8b[parallel=hybrid:tp4]", 4, gpu=gpu)
    assert f"of the {dtype} peak" in profile.source
    asked = zoo.profile(f"llama-3.1-8b[parallel=hybrid:tp4,dtype={dtype}]", 4, gpu=gpu)
    assert profile.gpu_s == asked.gpu_s
