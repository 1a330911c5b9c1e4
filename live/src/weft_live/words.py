"""Words: every reason of the live side in a sentence, in one place. Whoever decides something names a code."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from weft.model.reason import Reason, Why, because, code_of, teach

CANCELLED: Final = frozenset(
    {"live.cancelled", "live.cancelled-waiting", "slurm.cancelled", "slurm.shrunk", "slurm.vanished"}
)
OVER: Final = CANCELLED | {"live.failed", "live.no-profile"}  # they say themselves that the job is over
AGAIN: Final = {"live.again": "own", "live.anew": "others"}  # whose fault it was that a job is started again


def _after(of: Mapping[str, Any]) -> str:
    n = of["restarts"]
    return f"failed{f' after {n} restart' + 's' * (n > 1) if n else ''}: {of['how']}"


def _with(words: str) -> Callable[[Mapping[str, Any]], str]:
    """These words, and how it ended where that is known."""
    return lambda of: f"{words}; {of['how']}" if of.get("how") else words


def _slurm(words: str) -> str:
    return f"{words} ({{said}})"


WORDS: Final[Mapping[str, str | Callable[[Mapping[str, Any]], str]]] = {
    # how an attempt ended
    "live.exit": "exited with code {status}",
    "live.signal": "ended by {name}",
    "live.no-start": "{said}",
    "live.runner-killed": "its runner was killed",
    "live.runner-late": "its runner did not start",
    "live.stopped": _with("stopped as asked"),
    "slurm.state": "{state}",
    "slurm.requeued": _slurm("requeued by Slurm"),
    "slurm.requeued-by-others": "requeued and held by its user or an administrator",
    "slurm.forgot-run": "the controller had forgotten that it ran",
    "slurm.forgot-placement": ("the controller had forgotten where it was to run, and Slurm started it by itself"),
    "slurm.forgot-end": "had reported its last iteration when Slurm forgot it",
    # what becomes of the job
    "live.again": "{how}; started again ({nth} of {allowed})",
    "live.anew": "{how}; placed anew",
    "live.pause": "{how}; starts again after {seconds:g} s at the earliest",
    "live.failed": _after,
    "live.cancelled": _with("cancelled"),
    "live.cancelled-waiting": "cancelled while it waited",
    "live.no-profile": "failed: {said}",
    "slurm.cancelled": "cancelled by its user or an administrator",
    "slurm.vanished": "cancelled: Slurm no longer knows it",
    "slurm.lost": lambda of: (
        "lost: Slurm no longer knows how it ended; it had reported "
        + (f"{of['step']} of {of['of']} iterations" if of["step"] >= 0 else "nothing")
    ),
    "slurm.shrunk": lambda of: (
        f"left to Slurm: it has lost nodes, and goes on with {','.join(of['nodes'])} until it ends"
    ),
    "slurm.unasked": "ran to its end, though weft had not started it",
    "slurm.set-aside": "set aside after {starts} starts that Slurm refused: {how}",
    # why it cannot be started
    "local.no-runner": "its runner cannot be started: {said}",
    "slurm.no-folder": "its folder cannot be made: {said}",
    "slurm.user-holds": "its user holds it; scontrol release lets it go",
    "slurm.elsewhere": lambda of: f"Slurm started it on {','.join(of['nodes'])} instead",
    "slurm.not-accepted": "Slurm does not accept the placement: {said}",
    "slurm.slow": "Slurm has not accepted the placement within {seconds:g} s",
    "slurm.node": "{node}: {how}",
    "slurm.scarce": lambda of: (
        f"{','.join(of['nodes'])} lack what it asks for beside GPUs (cores, memory) ({of['said']})"
    ),
    "slurm.licences": _slurm("the licences it asks for are all in use"),
    "slurm.limit": _slurm("a limit of its user, account or QOS is reached"),
    "slurm.reservation": _slurm("a reservation keeps it out"),
    "slurm.partition": _slurm("its partition is closed"),
    "slurm.put-off": _slurm("a node refused it, and Slurm has put it off"),
    "slurm.not-started": _slurm("Slurm does not start it"),
    # nodes
    "slurm.node-state": lambda of: f"{of['state']} ({of['said']})" if "said" in of else of["state"],
    "slurm.node-unknown": "not known to Slurm any more",
    "slurm.node-gpus": "has {gpus} GPUs now",
    "slurm.stranger": lambda of: f"job {', '.join(of['jobs'])}, which weft did not start, uses its GPUs",
    "live.node-was-down": "unusable, as before",
    # what is learned
    "live.silent": "it reports no progress, so it is not shifted",
    "live.outrun": "it has run longer than its user said, so weft expects it to use its whole time limit",
    "live.claims": "its user's jobs took {times:.3g} times as long as claimed, so weft expects {iterations} iterations",
    "live.refit": "an iteration takes {takes_s:g} s, not the {known_s:.3g} s that its gate was made for",
    "slurm.no-priority": "Slurm's priorities do not count",
    "slurm.qos": "QOS {name}",
    "slurm.priority": "Slurm's priority is {mine:.0f} of {whole:.0f}",
    # the queue
    "live.short": lambda of: "; ".join((f"wants {of['gpus']} GPUs", f"{of['free']} {of['there']}", *of["down"])),
    "live.turn": "its turn has not come",
    "live.behind": "stands behind {other}, which {how}",
    "live.queued": "stands behind jobs that go first",
}
teach(WORDS)


def exited(status: int) -> Reason:
    """How a process ended; a negative status is a signal."""
    if status >= 0:
        return because("live.exit", status=status)
    try:
        return because("live.signal", name=signal.Signals(-status).name)
    except ValueError:
        return because("live.signal", name=f"signal {-status}")


def strangers(whys: Iterable[Why]) -> set[str]:
    """Jobs that keep servers from being used, by the reasons why these cannot be."""
    return {job for why in whys if isinstance(why, Reason) and why.code == "slurm.stranger" for job in why["jobs"]}


def status_of(why: Why) -> str:
    """How a job that did not finish ended."""
    return "cancelled" if code_of(why) in CANCELLED else "failed"
