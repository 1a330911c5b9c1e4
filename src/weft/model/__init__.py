"""The nouns of weft: frozen values with units in their names. Imports nothing of weft but errors."""

from weft.model.cluster import Cluster, Link, Route, Server, Topology
from weft.model.events import (
    Barred,
    Cleared,
    Event,
    Failed,
    Finished,
    NodeDown,
    NodeUp,
    Prioritised,
    Started,
    Stopped,
    Submitted,
    Withdrawn,
)
from weft.model.flows import FlowGroup
from weft.model.job import Job
from weft.model.plan import (
    Candidate,
    Decision,
    Declined,
    Gate,
    Hold,
    Placement,
    Plan,
    SetGate,
    Start,
    State,
    Stop,
)
from weft.model.profile import Compute, Phase, Profile, Task, Transfer

__all__ = [
    "Barred", "Candidate", "Cleared", "Cluster", "Compute", "Decision", "Declined", "Event", "Failed", "Finished",
    "FlowGroup", "Gate", "Hold", "Job", "Link", "NodeDown", "NodeUp", "Phase", "Placement", "Plan", "Prioritised",
    "Profile", "Route", "Server", "SetGate", "Start", "Started", "State", "Stop", "Stopped", "Submitted", "Task",
    "Topology", "Transfer", "Withdrawn",
]  # fmt: skip
