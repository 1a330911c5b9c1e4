"""What a job finds in its environment."""

from __future__ import annotations

from weft.model.cluster import Cluster
from weft.model.plan import Placement

__all__ = ["environment", "ranks"]

_FIRST_PORT = 29500  # of torch.distributed; a job's port is this plus its first GPU, which no other job has


def environment(
    cluster: Cluster, gpus: Placement, job: str, attempt: int, resume: int, iterations: int
) -> dict[str, str]:
    """The same for all processes of a job; the rest of its environment is that of `weft submit`."""
    servers = [cluster.servers[int(cluster.server_of_gpu[gpu])].name for gpu in gpus]
    return {
        "WEFT_JOB": job,
        "WEFT_ATTEMPT": str(attempt),
        "WEFT_RESUME_STEP": str(resume),
        "WEFT_ITERATIONS": str(iterations),
        "WEFT_GPUS": ",".join(map(str, gpus)),
        "WEFT_SERVERS": ",".join(servers),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(_FIRST_PORT + min(gpus)),
    }


def ranks(cluster: Cluster, gpus: Placement, per_rank: bool) -> list[dict[str, str]]:
    """What differs between the processes of a job: one that has all GPUs, or one per GPU."""
    visible = {"CUDA_VISIBLE_DEVICES": ",".join(map(str, gpus))}
    if not per_rank:
        return [{**visible, "RANK": "0", "WORLD_SIZE": "1", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1"}]
    made = []
    for rank, gpu in enumerate(gpus):
        beside = [g for g in gpus if cluster.server_of_gpu[g] == cluster.server_of_gpu[gpu]]
        made.append(
            {
                "CUDA_VISIBLE_DEVICES": ",".join(map(str, beside)),
                "RANK": str(rank),
                "WORLD_SIZE": str(len(gpus)),
                "LOCAL_RANK": str(beside.index(gpu)),
                "LOCAL_WORLD_SIZE": str(len(beside)),
            }
        )
    return made
