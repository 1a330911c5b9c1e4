"""Scenarios and job files: the one place where what a user writes is checked."""

from weft.scenario.jobfile import JobFile, load_job_file
from weft.scenario.scenario import Scenario

__all__ = ["JobFile", "Scenario", "load_job_file"]
