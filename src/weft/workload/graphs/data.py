"""Data parallelism, and embeddings that are sharded over workers (DLRM)."""

from __future__ import annotations

from weft.errors import InputError
from weft.model.profile import APART, Compute, Profile, Task, Transfer
from weft.workload.graphs.work import Work
from weft.workload.profiles.measured import bucket_groups


def data_parallel(
    work: Work,
    workers: int,
    *,
    overlap: bool = False,
    collective: str | None = None,
    servers: int = 1,
) -> Profile:
    """Forward, backward, all-reduce of the gradients, optimiser.

    With `overlap`, gradients go in buckets as PyTorch's DistributedDataParallel sends them: each as soon as the
    backward pass has filled it, one after another. One worker sends nothing.
    """
    if workers < 1:
        raise InputError(f"model {work.name!r}: workers is {workers}; it must be at least 1")
    tasks: list[Task] = [Compute("forward", work.forward_s)]
    if workers == 1 or not overlap:
        tasks.append(Compute("backward", work.backward_s, (0,)))
        if workers > 1:
            name = "push-pull" if collective in ("parameter-server", APART) else "all-reduce"
            tasks.append(Transfer(name, work.gradient_bytes, (1,), None, collective, None, servers))
    else:
        at, sent = 0.0, None
        computed = 0
        for i, (size, ready) in enumerate(gradient_buckets(work)):
            tasks.append(Compute(f"backward{i}", max(0.0, ready - at), (computed,)))
            at, computed = max(at, ready), len(tasks) - 1
            after = (computed,) if sent is None else (computed, sent)
            tasks.append(Transfer(f"bucket{i}", size, after, None, collective, None, servers))
            sent = len(tasks) - 1
        if at < work.backward_s:
            tasks.append(Compute("backward-end", work.backward_s - at, (computed,)))
    if work.optimiser_s > 0:
        tasks.append(Compute("optimiser", work.optimiser_s, _ends(tasks)))
    return work.profile(tasks, workers)


def parameter_server(
    work: Work, workers: int, *, servers: int = 1, apart: bool = False, overlap: bool = False
) -> Profile:  # fmt: skip
    """Data parallelism in which workers push their gradients to `servers` parameter servers and pull the sum.

    These stand beside workers, or `apart` from them.
    """
    if servers < 1:
        raise InputError(f"model {work.name!r}: servers is {servers}; it must be at least 1")
    return data_parallel(
        work, workers, overlap=overlap, collective=APART if apart else "parameter-server", servers=servers
    )


def gradient_buckets(work: Work) -> tuple[tuple[float, float], ...]:
    """(bytes, ready after the start of the backward pass) of each bucket, in the order they are sent.

    Measured buckets are used as they are; otherwise gradients become ready layer by layer, last layer first, at the end
    of the layer's share of the backward pass.
    """
    if work.buckets and _complete(work):
        return work.buckets
    sizes: list[float] = []
    ready: list[float] = []
    now = 0.0
    for layer in reversed(work.layers):
        now += layer.backward_s
        for size in reversed(layer.gradients):
            sizes.append(size)
            ready.append(now)
    groups = bucket_groups(sizes)
    return tuple((sum(sizes[i] for i in group), ready[group[-1]]) for group in groups)


def _complete(work: Work) -> bool:
    """Whether the measured buckets carry all gradients (sparse ones of embedding tables are not among them)."""
    return abs(sum(size for size, _ in work.buckets) - work.gradient_bytes) <= 1e-6 * work.gradient_bytes


def _ends(tasks: list[Task]) -> tuple[int, ...]:
    """Tasks that nothing comes after."""
    before = {p for task in tasks for p in task.after}
    return tuple(i for i in range(len(tasks)) if i not in before)


def sharded_embedding(work: Work, workers: int) -> Profile:
    """Tables by model parallelism, the rest by data parallelism (Naumov et al. 2019, section 3).

    Forward: look up and exchange, then the layers after the tables. Backward: those layers, then the exchange of the
    vectors' gradients beside the layers before the tables, then the all-reduce of the replicated layers' gradients.
    The message of an exchange is a worker's samples times the vectors of all tables.
    """
    at = [i for i, layer in enumerate(work.layers) if layer.sharded]
    if not at:
        raise InputError(f"model {work.name!r} has no embedding tables to shard; use parallel data")
    if workers == 1:
        return data_parallel(work, 1)
    before, tables, after = work.layers[: at[0]], work.layers[at[0] : at[-1] + 1], work.layers[at[-1] + 1 :]
    exchange = sum(layer.activation_bytes for layer in tables)
    dense = sum(layer.gradient_bytes for layer in (*before, *after))
    first_forward = sum(layer.forward_s for layer in (*before, *tables))
    first_backward = sum(layer.backward_s for layer in (*before, *tables))
    tasks: list[Task] = [
        Compute("lookup", first_forward),
        Transfer("exchange-forward", exchange, (0,), None, "all-to-all"),
        Compute("forward", work.forward_s - first_forward, (1,)),
        Compute("backward", work.backward_s - first_backward, (2,)),
        Transfer("exchange-backward", exchange, (3,), None, "all-to-all"),
        Compute("backward-bottom", first_backward, (3,)),
        Transfer("all-reduce", dense, (4, 5)),
    ]
    if work.optimiser_s > 0:
        tasks.append(Compute("optimiser", work.optimiser_s, (6,)))
    owned = sum(layer.gradient_bytes for layer in tables)
    memory = max(work.memory_bytes - owned * (1 - 1 / workers), 0.0)
    return work.profile(tasks, workers, memory, "less the tables of other workers")
