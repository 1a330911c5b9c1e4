"""Scenarios and job files: the one place where what a user writes is checked."""

from weft.scenario.scenario import Scenario

__all__ = ["Scenario"]
