"""One training step of a transformer on a named layout, as a task graph.

All replicas do the same at the same time, so one task stands for all workers of a pipeline stage, and one transfer
for all groups of them that exchange something (its collective is then called ring/N, for N groups). So a step on
thousands of workers has no more tasks than one on a few.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from weft.errors import InputError
from weft.model.profile import Compute, Profile, Task, Transfer
from weft.workload.graphs.hybrid import SCHEDULES, interleaved, order
from weft.workload.graphs.layout import Layout, Ranks
from weft.workload.graphs.roofline import OPTIMISER_BYTES, STATE_BYTES, Cost, Rates, cost, cut, units

if TYPE_CHECKING:
    from weft.workload.zoo.entry import Layer

BUCKETS = 8  # parts of a model without virtual stages whose weights and gradients travel one after another
MASTER_BYTES = 2.0  # of a gradient and of a weight on the wire, and of a weight in memory


def step(name: str, layers: tuple[Layer, ...], batch: int, layout: Layout, rates: Rates) -> Profile:
    """A step: `batch` samples for each data-parallel worker group, in the layout's micro-batches."""
    _check(name, layers, batch, layout)
    parts = _parts(layers, batch / layout.micro_batches, layout, rates)
    graph = _Graph(layout, parts, rates, _tied(layers, layout))
    graph.run()
    memory, said = _memory(graph)
    return Profile(
        name, tuple(graph.tasks), layout.workers, memory, batch, rates.gpu, rates.source, f"formula: {said}"
    )  # fmt: skip


def _check(name: str, layers: tuple[Layer, ...], batch: int, layout: Layout) -> None:
    what = f"model {name!r}"
    if not any(layer.attention for layer in layers):
        raise InputError(f"{what} is no transformer, whose step a named layout could time; use hybrid:TxPxD or data")
    if layout.schedule not in SCHEDULES:
        raise InputError(f"{what}: schedule {layout.schedule!r} is not known; use one of {', '.join(SCHEDULES)}")
    if batch % layout.micro_batches:
        raise InputError(f"{what}: a batch of {batch} does not split into {layout.micro_batches} micro-batches")
    if layout.virtual > 1 and (layout.pipeline == 1 or layout.schedule != "1f1b"):
        raise InputError(f"{what}: virtual stages need a pipeline and its order; add ppN and schedule=1f1b")
    if layout.virtual > 1 and layout.micro_batches % layout.pipeline:
        raise InputError(f"{what}: with virtual stages micro_batches is a multiple of the {layout.pipeline} stages")
    if layout.pipeline * layout.virtual > (most := len(units(layers))):
        raise InputError(f"{what}: {layout.pipeline} x {layout.virtual} stages for {most} blocks; use at most as many")
    if layout.expert > 1 and not any(layer.expert_params for layer in layers):
        raise InputError(f"{what} has no experts; leave ep out")
    for key, ways, counts in (
        ("tp", layout.tensor, {layer.heads: "heads" for layer in layers}),
        ("tp", layout.tensor, {layer.kv_heads: "heads of keys and values" for layer in layers}),
        ("cp", layout.context, {layer.tokens: "tokens" for layer in layers}),
        ("ep", layout.expert, {layer.experts: "experts" for layer in layers}),
    ):
        for count, things in counts.items():
            if count % ways:
                raise InputError(f"{what}: its {count} {things} do not split into {ways}; {key} divides their number")
    if layout.zero == 2 and layout.pipeline > 1:
        raise InputError(f"{what}: gradients are not sharded under a pipeline; use zero=1, fsdpN, or no ppN")


def _parts(layers: tuple[Layer, ...], samples: float, layout: Layout, rates: Rates) -> tuple[Cost, ...]:
    """Runs of layers in the order in which a micro-batch meets them."""
    blocks = []
    for unit in units(layers):
        total = Cost()
        for layer in unit:
            total = total.then(cost(layer, samples, layout, rates))
        if layout.recompute == "full" and unit[0].summed:  # of a block only its input stays, until it is recomputed
            total = replace(total, kept=cost(unit[0], samples, layout, rates).output, recomputed=total.kept)
        blocks.append(total)
    if tied := _tied(layers, layout):
        head = blocks[-1]
        blocks[-1] = replace(head, weights=head.weights + tied, trained=head.trained + tied)
    count = layout.pipeline * layout.virtual
    if layout.pipeline == 1 and layout.shards * layout.copies > 1:
        count = min(BUCKETS, len(blocks))
    found = []
    for first, last in cut([block.forward_s + block.backward_s for block in blocks], count):
        total = Cost()
        for block in blocks[first:last]:
            total = total.then(block)
        found.append(total)
    return tuple(found)


def _tied(layers: tuple[Layer, ...], layout: Layout) -> float:
    """Elements of a tied embedding on a worker, of which the last stage of a pipeline has a copy."""
    return sum(layer.tied for layer in layers) / layout.tensor if layout.pipeline > 1 else 0.0


@dataclass
class _Graph:
    """The task list while it is being written."""

    layout: Layout
    parts: tuple[Cost, ...]
    rates: Rates
    tied: float = 0.0
    tasks: list[Task] = field(default_factory=list)
    last: dict[int, tuple[int, ...]] = field(default_factory=dict)  # stage: its last tasks
    there: dict[int, int] = field(default_factory=dict)  # part: transfer that brought its weights
    sent: dict[int, int] = field(default_factory=dict)  # stage: its last transfer of weights or gradients
    before: dict[int, tuple[int, ...]] = field(default_factory=dict)  # stage: what its last computation waited for

    def add(self, task: Task) -> int:
        """Append a task; returns its index."""
        self.tasks.append(task)
        return len(self.tasks) - 1

    def mine(self, p: int) -> range:
        """Parts of a stage."""
        return range(p % self.layout.pipeline, len(self.parts), self.layout.pipeline)

    def run(self) -> None:
        """Weights, passes of all micro-batches, gradients, optimiser."""
        lay = self.layout
        if lay.zero in (1, 2) or (lay.zero == 3 and not lay.by_pass):
            for p in range(lay.pipeline):
                self._bring_weights(p)
        queues = [self._turns(p) for p in range(lay.pipeline)]
        arrived: dict[tuple[str, int, int], int | None] = {("forward", i, 0): None for i in range(lay.micro_batches)}
        while any(queues):
            for queue in queues:
                while queue and queue[0] in arrived:
                    self._pass(*queue.pop(0), arrived)
        if self.tied:
            self._sum_tied()
        for p in range(lay.pipeline):
            shown = self.rates.exposed if lay.gradient_overlap else 1.0
            for part in reversed(self.mine(p)) if shown and not (lay.by_pass and not lay.gradient_overlap) else ():
                self._send_gradients(part, self.last[p], "-rest" if lay.gradient_overlap else "", shown)
            ends = tuple(sorted({*self.last[p], *([self.sent[p]] if p in self.sent else [])}))
            parts = [self.parts[k] for k in self.mine(p)]
            held = sum(x.trained for x in parts)
            held = lay.shard(held, sum(x.experts for x in parts)) if lay.zero else held
            seconds = held * OPTIMISER_BYTES / self.rates.bytes_per_s + self.rates.step_s
            self.add(Compute(f"optimiser.p{p}", seconds, ends, lay.stage(p)))

    def _sum_tied(self) -> None:
        """Gradients of a tied embedding's two copies, between workers of the first and of the last stage."""
        lay, end = self.layout, self.layout.pipeline - 1
        pairs = tuple(rank for both in zip(lay.stage(0), lay.stage(end), strict=True) for rank in both)
        ends = tuple(sorted({*self.last[0], *self.last[end]}))
        ring = f"ring/{lay.stage_workers}"
        done = self.add(Transfer("tied-embedding", MASTER_BYTES * self.tied, ends, pairs, ring))
        self.last[0] = self.last[end] = (done,)

    def _turns(self, p: int) -> list[tuple[str, int, int]]:
        """What a stage does in turn: (pass, micro-batch, part)."""
        lay = self.layout
        if lay.pipeline == 1:
            there = list(self.mine(0))
            passes = (("forward", there), ("backward", there[::-1]))
            return [(way, i, part) for i in range(lay.micro_batches) for way, parts in passes for part in parts]
        if lay.virtual == 1:
            return [(way, i, p) for way, i in order(lay.schedule, p, lay.pipeline, lay.micro_batches)]
        steps = interleaved(p, lay.pipeline, lay.micro_batches, lay.virtual)
        return [(way, i, chunk * lay.pipeline + p) for way, i, chunk in steps]

    def _pass(self, way: str, i: int, part: int, arrived: dict[tuple[str, int, int], int | None]) -> None:
        lay, p, here = self.layout, part % self.layout.pipeline, self.parts[part]
        brought = arrived[way, i, part]
        waits = {*self.last.get(p, ()), *(() if brought is None else (brought,))}
        label = f".p{part}m{i}"
        if lay.zero == 3 and lay.by_pass:
            waits.add(self._fetch(part, p, f"{way}{label}"))
        elif part in self.there:
            waits.add(self.there[part])
        after = tuple(sorted(waits))
        self.before[p] = after
        seconds = here.forward_s if way == "forward" else here.backward_s
        done = [self.add(Compute(f"{way}{label}", seconds, after, lay.stage(p)))]
        shown = self.rates.exposed
        for name, size, groups, collective, beside in self._inside(here, way, p):
            many, what = f"{collective}/{groups[1]}", f"{name}-{way}{label}"
            if beside:
                done.append(self.add(Transfer(what, size * (1 - shown), after, groups[0], many)))
            if shown or not beside:
                rest = size * shown if beside else size
                done = [self.add(Transfer(f"rest-of-{what}" if beside else what, rest, tuple(done), groups[0], many))]
        self.last[p] = tuple(done)
        if way == "backward":
            if lay.gradient_overlap and (lay.by_pass or i == lay.micro_batches - 1):
                self._send_gradients(part, self.last[p], f"m{i}", 1 - self.rates.exposed)
            elif lay.by_pass:
                self._send_gradients(part, self.last[p], f"m{i}")
                self.last[p] = tuple(sorted({*self.last[p], self.sent[p]})) if p in self.sent else self.last[p]
        self._hand_on(way, i, part, tuple(done), arrived)

    def _hand_on(
        self, way: str, i: int, part: int, done: tuple[int, ...], arrived: dict[tuple[str, int, int], int | None]
    ) -> None:  # fmt: skip
        """To the stage that comes next, or around to the backward pass."""
        lay, p = self.layout, part % self.layout.pipeline
        if way == "forward" and part == len(self.parts) - 1:
            arrived["backward", i, part] = None
            return
        there = part + 1 if way == "forward" else part - 1
        if there < 0:
            return
        if lay.pipeline == 1:
            arrived[way, i, there] = None
            return
        pair = lay.stages(p, there % lay.pipeline)
        name = f"{'activation' if way == 'forward' else 'gradient'}.p{part}m{i}"
        size = self.parts[min(part, there)].output
        arrived[way, i, there] = self.add(Transfer(name, size, done, pair, "point-to-point"))

    def _inside(self, here: Cost, way: str, p: int) -> list[tuple[str, float, tuple[Ranks, int], str, bool]]:
        """What groups of a stage exchange in a pass: (name, bytes, groups, collective, whether beside computing).

        A backward pass of workers that split tokens gathers the inputs of its matrices once more; keys and values, of
        which it sums the gradients, too, travel twice. A backward pass that recomputes a forward pass sends again what
        that sent.
        """
        lay, back, found = self.layout, way == "backward", []
        again = 1.0 if back and lay.recompute == "full" else 0.0
        if lay.tensor > 1 and here.summed:
            size = here.summed * ((1.5 if back and lay.sequence else 1.0) + again)
            found.append(("tensor", size, lay.tensor_groups(p), "ring", lay.tensor_overlap))
        if lay.context > 1 and here.context:
            size = here.context * ((2.0 if back else 1.0) + again)
            found.append(("context", size, lay.context_groups(p), "all-gather", lay.context_overlap))
        if lay.expert > 1 and here.routed:  # there and back
            groups = lay.shard_groups(p, lay.expert)
            found.append(("experts", 2 * here.routed * (1 + again), groups, "all-to-all", lay.expert_overlap))
        return found

    def _bring_weights(self, p: int) -> None:
        """The updated shards (zero 3: all weights), from all to all of a stage, part by part or all at once before it
        starts."""
        lay = self.layout
        if lay.shards == 1:
            return
        mine = self.mine(p)
        sizes = {k: self._sharded(self.parts[k]) for k in mine}
        whole_size = (sum(size for size, _ in sizes.values()), sum(experts for _, experts in sizes.values()))
        if lay.gather_overlap:
            if shown := self.rates.exposed:
                self._gather(f"first-weights.s{p}", p, shown, whole_size, ())
            for part in mine:
                chained = (self.sent[p],) if p in self.sent else ()
                self.there[part] = self._gather(f"weights.p{part}", p, 1 - self.rates.exposed, sizes[part], chained)
            return
        whole = self._gather(f"weights.s{p}", p, 1.0, whole_size, ())
        self.there.update(dict.fromkeys(mine, whole))

    def _sharded(self, part: Cost) -> tuple[float, float]:
        """Elements of a part that are brought together once a step, and those of experts among them."""
        return (part.weights, part.expert_weights) if self.layout.zero == 3 else (part.trained, part.experts)

    def _fetch(self, part: int, p: int, label: str) -> int:
        """Weights of a part that are sharded: gathered for each pass, one part ahead if they may be."""
        lay, here = self.layout, self.parts[part]
        start = self.before.get(p, ()) if lay.gather_overlap else self.last.get(p, ())
        after = tuple(sorted({*start, *([self.sent[p]] if p in self.sent else [])}))
        return self._gather(f"weights-{label}", p, 1.0, (here.weights, here.expert_weights), after)

    def _gather(self, name: str, p: int, share: float, size: tuple[float, float], after: tuple[int, ...]) -> int:
        """A share of so many elements, of which so many are experts': those from workers that hold the same experts,
        the others from all."""
        lay = self.layout
        elements, experts = size if lay.expert > 1 else (size[0], 0.0)
        groups, n = lay.shard_groups(p)
        rest = share * MASTER_BYTES * (elements - experts)
        last = self.add(Transfer(name, rest, after, groups, f"all-gather/{n}"))
        if experts > 0 and lay.shards > lay.expert:
            groups, n = lay.expert_groups(p)
            own = share * MASTER_BYTES * experts
            last = self.add(Transfer(f"{name}-experts", own, (last,), groups, f"all-gather/{n}"))
        self.sent[p] = last
        return last

    def _send_gradients(self, part: int, done: Sequence[int], label: str, share: float = 1.0) -> None:
        """Of one part: those of experts over the workers that hold the same experts, the others over all."""
        lay, here, p = self.layout, self.parts[part], part % self.layout.pipeline
        for name, elements in (("", here.trained - here.experts), ("-experts", here.experts)):
            groups, n = lay.shard_groups(p, lay.shards)
            within = lay.shards
            if name and lay.expert > 1:
                groups, n = lay.expert_groups(p)
                within = lay.shards // lay.expert
            if elements <= 0 or lay.data * lay.context == 1:
                continue
            after = tuple(sorted({*done, *([self.sent[p]] if p in self.sent else [])}))
            how = "reduce-scatter" if lay.zero else "ring"
            if within > 1:
                made = Transfer(
                    f"gradients{name}.p{part}{label}", share * MASTER_BYTES * elements, after, groups, f"{how}/{n}"
                )
                after = (self.add(made),)
                self.sent[p] = after[0]
            if lay.copies > 1:
                groups, n = lay.copy_groups(p, lay.shards)
                across = share * MASTER_BYTES * elements / within
                self.sent[p] = self.add(Transfer(f"copies{name}.p{part}{label}", across, after, groups, f"ring/{n}"))


def _memory(graph: _Graph) -> tuple[float, str]:
    """Bytes of the fullest worker, and what they are."""
    lay, worst = graph.layout, (0.0, "")
    for p in range(lay.pipeline):
        parts = [graph.parts[k] for k in graph.mine(p)]
        trained, experts = sum(x.trained for x in parts), sum(x.experts for x in parts)
        weights, mixed = sum(x.weights for x in parts), sum(x.expert_weights for x in parts)
        held = 2.0 * (lay.shard(weights, mixed) if lay.zero == 3 and lay.by_pass else weights)
        sharded = lay.shard(trained, experts)
        gradients = 4.0 * (sharded if lay.by_pass else trained)
        states = STATE_BYTES * (sharded if lay.zero else trained)
        kept = sum(x.kept for x in parts) * _waiting(lay, p) / lay.virtual + max(x.recomputed for x in parts)
        total = held + gradients + states + kept
        sizes = {"weights": held, "gradients": gradients, "optimiser states": states, "activations": kept}
        told = ", ".join(f"{size / 1e9:.3g} GB of {what}" for what, size in sizes.items())
        worst = max(worst, (total, told))
    return worst


def _waiting(lay: Layout, p: int) -> int:
    """Forward passes of parts that wait for their backward pass, at most."""
    if lay.pipeline == 1:
        return 1
    if lay.virtual > 1:
        total = lay.micro_batches * lay.virtual
        return min(total, 2 * (lay.pipeline - p - 1) + (lay.virtual - 1) * lay.pipeline + 1)
    return lay.micro_batches if lay.schedule == "gpipe" else min(lay.micro_batches, lay.pipeline - p)
