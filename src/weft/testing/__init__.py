"""Conformance suites that third parties can run on their own policies and worlds, and a toy world to run them in."""

from weft.testing.check_policies import check_interleave, check_order, check_pace, check_place, check_planner
from weft.testing.check_route import check_route
from weft.testing.check_world import check_world
from weft.testing.toy import EVERYTHING, ToyWorld, toy_cluster, toy_job

__all__ = [
    "EVERYTHING", "ToyWorld", "check_interleave", "check_order", "check_pace", "check_place", "check_planner",
    "check_route", "check_world", "toy_cluster", "toy_job",
]  # fmt: skip
