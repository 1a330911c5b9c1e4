"""JobFile: the input of `weft replay`, the physics alone: links, jobs as cycles of phases, no scheduler."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import Field, ValidationError, field_validator, model_validator

from weft.errors import ScenarioError
from weft.scenario.files import read_json
from weft.scenario.problems import explain, near, problem
from weft.scenario.sections import Count, NotNegative, Positive, Section, Sharing

__all__ = ["JobFile", "load_job_file"]


class ReplayLink(Section):
    """One directed link."""

    gbps: Positive


class ReplayAdmission(Section):
    """Rule by which a transfer that is ready may start: at once, at most k per link, or by ratio of bytes left."""

    kind: Literal["all", "at-most", "ratio"]
    k: Annotated[int, Field(ge=0)] = 0
    ratios: list[NotNegative] = Field(default_factory=list)

    @model_validator(mode="after")
    def _complete(self) -> Self:
        if self.kind == "all" and (self.k or self.ratios):
            raise problem('is "all", which takes neither k nor ratios; remove them', "kind")
        if self.kind != "all" and self.k < 1:
            raise problem(f'is {self.k}; "{self.kind}" needs at least 1', "k")
        if self.kind == "ratio" and len(self.ratios) != self.k - 1:
            raise problem(f"has {len(self.ratios)} entries; give k - 1 = {self.k - 1}", "ratios")
        if self.kind == "at-most" and self.ratios:
            raise problem('has no meaning with kind "at-most"; remove it', "ratios")
        return self


class ReplayNetwork(Sharing):
    """How transfers share links, and which may start."""

    admission: ReplayAdmission | None = None


class ReplayPhase(Section):
    """Compute and transfer side by side; the phase ends when both are done."""

    compute_s: NotNegative = 0.0
    bytes: NotNegative = 0.0
    flows: dict[str, Count] = Field(default_factory=dict)
    demand_gbps: Positive | None = None

    @model_validator(mode="after")
    def _somewhere(self) -> Self:
        if self.bytes > 0 and not self.flows:
            raise problem('is missing; bytes need links to cross: {"link": number of flows}', "flows")
        return self


class ReplayGate(Section):
    """The named task of each iteration waits for its slot: epoch, epoch + period, ...; period 0 is a one-off delay."""

    epoch_s: NotNegative
    period_s: NotNegative = 0.0
    task: Annotated[int, Field(ge=0)] = 0
    tolerance: Annotated[float, Field(ge=0, le=1)] = 0.05


class ReplayJob(Section):
    """A job: its phases, repeated `iterations` times from `start_s` on."""

    id: Annotated[str, Field(min_length=1)]
    start_s: NotNegative = 0.0
    iterations: Count
    gate: ReplayGate | None = None
    phases: Annotated[list[ReplayPhase], Field(min_length=1)]

    @model_validator(mode="after")
    def _runs(self) -> Self:
        if not any(p.compute_s > 0 or p.bytes > 0 for p in self.phases):
            raise problem("make a cycle of zero length; give at least one of them compute_s or bytes", "phases")
        tasks = sum((p.compute_s > 0 or p.bytes <= 0) + (p.bytes > 0) for p in self.phases)
        if self.gate is not None and self.gate.task >= tasks:
            raise problem(f"is {self.gate.task}; the job has tasks 0 to {tasks - 1}", "gate.task")
        return self


class JobFile(Section):
    """The whole input of `weft replay`."""

    links: dict[str, ReplayLink] = Field(default_factory=dict)
    network: ReplayNetwork = Field(default_factory=ReplayNetwork)
    jobs: Annotated[list[ReplayJob], Field(min_length=1)]

    @field_validator("network", mode="before")
    @classmethod
    def _short(cls, value: Any) -> Any:
        return {"sharing": value} if isinstance(value, str) else value

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        seen: set[str] = set()
        for i, job in enumerate(self.jobs):
            if job.id in seen:
                raise problem(f'is "{job.id}", which another job has already; give each its own', f"jobs[{i}].id")
            seen.add(job.id)
            for j, phase in enumerate(job.phases):
                for link in phase.flows:
                    if link not in self.links:
                        guess = near(link, self.links)
                        hint = f"did you mean {guess}?" if guess else f'add "{link}" to links or remove it here'
                        raise problem(f"names a link that is not there; {hint}", f"jobs[{i}].phases[{j}].flows.{link}")
        return self


def load_job_file(source: str | Path | dict[str, Any]) -> JobFile:
    """A job file, or the same as a dict, checked."""
    data = source if isinstance(source, dict) else read_json(Path(source))
    try:
        return JobFile.model_validate(data)
    except ValidationError as error:
        where = "job file" if isinstance(source, dict) else str(source)
        raise ScenarioError(explain(error, JobFile, where)) from None
