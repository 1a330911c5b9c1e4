"""CompatFile: the input of `weft compat`: a link, and what jobs send over it in each iteration."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import Field, model_validator

from weft.scenario.files import read_json
from weft.scenario.problems import check_names, checked, problem
from weft.scenario.sections import MOST_GBPS, Gbps, Seconds, Section, SomeSeconds

__all__ = ["CompatFile", "load_compat_file"]


class CompatArc(Section):
    """A time of sending at one rate; it may go round the end of the iteration."""

    start_s: Seconds = Field(description="When it begins, from the start of the iteration.")
    length_s: SomeSeconds = Field(description="How long it lasts.")
    gbps: Annotated[float, Field(ge=0, le=MOST_GBPS)] = Field(description="Its demand in Gbit/s.")


class CompatJob(Section):
    """A job: its iteration time alone on the link, and its arcs."""

    id: Annotated[str, Field(min_length=1)] = Field(description="Its name.")
    iteration_s: SomeSeconds = Field(description="Iteration time alone on the network.")
    arcs: list[CompatArc] = Field(description="Its Up phases; where two overlap, demands add.")

    @model_validator(mode="after")
    def _inside(self) -> Self:
        for i, arc in enumerate(self.arcs):
            if arc.length_s > self.iteration_s * (1 + 1e-12):
                text = f"is {arc.length_s:g}; an arc is no longer than its iteration of {self.iteration_s:g} s"
                raise problem(text, f"arcs[{i}].length_s")
        return self


class CompatFile(Section):
    """The whole input of `weft compat`."""

    capacity_gbps: Gbps = Field(description="Capacity of the link in Gbit/s.")
    jobs: Annotated[list[CompatJob], Field(min_length=1)] = Field(description="The jobs that share it.")

    @model_validator(mode="after")
    def _names(self) -> Self:
        check_names(job.id for job in self.jobs)
        return self


def load_compat_file(source: str | Path | dict[str, Any]) -> CompatFile:
    """A file for `weft compat`, or the same as a dict, checked."""
    if isinstance(source, dict):
        return checked(CompatFile, source, "compat file")
    found = read_json(
        Path(source), "file of a link and its jobs", "weft compat", '{"capacity_gbps": ..., "jobs": [...]}'
    )
    return checked(CompatFile, found, str(source))
