"""Parameter servers: every worker pushes its gradients to the servers, then every server sends the sum back."""

from __future__ import annotations

from weft.collectives.base import Stage, Stages

__all__ = ["host_ranks", "stages"]


def host_ranks(n: int, n_ps: int) -> tuple[int, ...]:
    """The worker beside which each parameter server runs: server j beside rank floor(j n / n_ps).

    Servers stand on the machines of the job's own workers, spread evenly over the ranks (more servers than workers:
    several beside one), so a job needs no GPUs or machines beyond its placement. Between a worker and a server beside
    it nothing travels.
    """
    return tuple(j * n // n_ps for j in range(n_ps))


def stages(n: int, message_bytes: float, n_ps: int = 1) -> Stages:
    """Push, then broadcast: M/n_ps between every worker and every server that is not beside it, all at once."""
    if n < 2:
        return ()
    push = tuple((r, host) for host in host_ranks(n, n_ps) for r in range(n) if r != host)
    pull = tuple((host, r) for r, host in push)
    size = message_bytes / n_ps
    return (Stage(size, push), Stage(size, pull))
