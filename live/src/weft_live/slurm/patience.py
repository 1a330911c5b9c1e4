"""How long weft waits for a start that Slurm does not carry out, by the reason that Slurm gives."""

from __future__ import annotations

import re
from collections.abc import Iterable

from weft.model.reason import Reason, because

LONG_S = 60.0  # seconds for a reason that says nothing: Slurm may be slow
SCARCE_S = 5.0  # seconds for nodes that lack something: it may be on its way
NAMED_S = 1.0  # seconds for a limit that Slurm names

_NEVER = re.compile(
    r"Partition(Time|Node)Limit|BadConstraints|Invalid(Account|QOS)|(Job)?(Account|QOS)NotAllowed|MaxMemPerLimit|"
    r"DependencyNeverSatisfied|ReservationDeleted|(QOS|Assoc)\w*Per(Job|Node)(Limit)?|QOSMin\w+"
)
_SCARCE = re.compile(r"Resources|ReqNodeNotAvail.*|Nodes? .*")
PUT_OFF = "BeginTime"  # weft has said "now": a node has refused the launch, and Slurm would wait for two minutes
_NAMED = re.compile(
    r"Licenses|(QOS|Assoc|Association|Account)\w*|Reservation|Partition(Down|Inactive)|JobArrayTaskLimit|Dependency|"
    r"BurstBuffer\w*|MaxRequeueExceeded|JobHoldMaxRequeue|Federation\w*|Cleaning|MaxPoweredUpNodes"
)
_CODES = (
    (r"Licenses", "slurm.licences"),
    (r"(QOS|Assoc|Association|Account)\w*", "slurm.limit"),
    (r"Reservation", "slurm.reservation"),
    (r"Partition(Down|Inactive)", "slurm.partition"),
    (PUT_OFF, "slurm.put-off"),
)


def never(said: str) -> bool:
    """Whether such a job cannot run before somebody changes it or the limits."""
    return bool(_NEVER.fullmatch(said))


def of(said: str) -> float:
    """How long the reason may stand before the start is given up."""
    if _NEVER.fullmatch(said) or _NAMED.fullmatch(said):
        return NAMED_S
    return SCARCE_S if said == PUT_OFF or _SCARCE.fullmatch(said) else LONG_S


def why(said: str, nodes: Iterable[str]) -> Reason:
    """Slurm's reason as one of ours, with what Slurm says."""
    if _SCARCE.fullmatch(said):
        return because("slurm.scarce", said=said, nodes=tuple(nodes))
    code = next((code for pattern, code in _CODES if re.fullmatch(pattern, said)), "slurm.not-started")
    return because(code, said=said or "no reason given")
