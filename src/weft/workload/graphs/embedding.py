"""Sharded embeddings (DLRM): each worker owns some tables, all-to-all exchanges carry the looked-up vectors."""

from __future__ import annotations

from weft.errors import InputError
from weft.model.profile import Compute, Profile, Task, Transfer
from weft.workload.graphs.data import data_parallel
from weft.workload.graphs.work import Work

__all__ = ["sharded_embedding"]


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
