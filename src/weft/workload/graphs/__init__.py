"""Task graphs of one training iteration under each way to parallelise it.

data_parallel       every worker has the whole model; gradients are all-reduced, in buckets or at the end
parameter_server    the same through parameter servers
hybrid              tensor x pipeline x data (tensor or pipeline alone is the same with the others at 1)
sharded_embedding   embedding tables owned by workers, exchanged by all-to-all; the rest data parallel
"""

from weft.workload.graphs.data import data_parallel, gradient_buckets, parameter_server, sharded_embedding
from weft.workload.graphs.hybrid import hybrid
from weft.workload.graphs.work import LayerWork, Work, work

__all__ = [
    "LayerWork", "Work", "data_parallel", "gradient_buckets", "hybrid", "parameter_server", "sharded_embedding", "work",
]  # fmt: skip
