"""Why Slurm does not start a job whose GPUs are free: what its reasons mean for weft, and in words.

Slurm knows of more than GPUs: cores, memory, licences, limits of users, accounts and qualities of service,
reservations. weft leaves all that to Slurm, and only asks how long to wait for it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

__all__ = ["NAMED_S", "PATIENCE_S", "SCARCE_S", "never", "patience_s", "words"]

PATIENCE_S = 60.0  # for a reason that says nothing: Slurm may be slow
SCARCE_S = 5.0  # for nodes that lack something: it may be on its way
NAMED_S = 1.0  # for a limit that Slurm names

_NEVER = re.compile(
    r"Partition(Time|Node)Limit|BadConstraints|Invalid(Account|QOS)|(Job)?(Account|QOS)NotAllowed|MaxMemPerLimit|"
    r"DependencyNeverSatisfied|ReservationDeleted|(QOS|Assoc)\w*Per(Job|Node)(Limit)?|QOSMin\w+"
)
_SCARCE = re.compile(r"Resources|ReqNodeNotAvail.*|Nodes? .*")
_PUT_OFF = "BeginTime"  # weft has said "now": a node has refused the launch, and Slurm would wait for two minutes
_NAMED = re.compile(
    r"Licenses|(QOS|Assoc|Association|Account)\w*|Reservation|Partition(Down|Inactive)|JobArrayTaskLimit|Dependency|"
    r"BurstBuffer\w*|MaxRequeueExceeded|JobHoldMaxRequeue|Federation\w*|Cleaning|MaxPoweredUpNodes"
)
_WORDS = (
    (r"Licenses", "the licences it asks for are all in use"),
    (r"(QOS|Assoc|Association|Account)\w*", "a limit of its user, account or QOS is reached"),
    (r"Reservation", "a reservation keeps it out"),
    (r"Partition(Down|Inactive)", "its partition is closed"),
    (_PUT_OFF, "a node did not take it, and Slurm has put it off"),
)


def never(reason: str) -> bool:
    """Whether such a job cannot run before somebody changes it or the limits."""
    return bool(_NEVER.fullmatch(reason))


def patience_s(reason: str) -> float:
    """How long the reason may stand before the start is given up."""
    if _NEVER.fullmatch(reason) or _NAMED.fullmatch(reason):
        return NAMED_S
    return SCARCE_S if reason == _PUT_OFF or _SCARCE.fullmatch(reason) else PATIENCE_S


def words(reason: str, nodes: Iterable[str]) -> str:
    """The reason in words, and as Slurm says it."""
    if _SCARCE.fullmatch(reason):
        told = f"{','.join(nodes)} lack what it asks for beside GPUs (cores, memory)"
    else:
        told = next((said for pattern, said in _WORDS if re.fullmatch(pattern, reason)), "Slurm does not start it")
    return f"{told} ({reason or 'no reason given'})"
