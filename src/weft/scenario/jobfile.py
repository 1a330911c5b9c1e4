"""Job files: the input of `weft replay` (links, and jobs as cycles of phases) and of `weft compat` (one link)."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import Field, field_validator, model_validator

from weft.scenario.problems import check_names, checked, near, problem, read_json
from weft.scenario.sections import MOST_GBPS, Bytes, Gbps, NotNegative, Seconds, Section, Sharing, SomeSeconds


class ReplayLink(Section):
    """One directed link."""

    gbps: Gbps = Field(description="Capacity in Gbit/s.")


class ReplayAdmission(Section):
    """Rule by which a transfer that is ready may start: at once, at most k per link, or by ratio of bytes left."""

    kind: Literal["all", "at-most", "ratio"] = Field(description="all: at once; at-most, ratio: see k and ratios.")
    k: Annotated[int, Field(ge=0)] = Field(0, description="At most this many transfers on a link.")
    ratios: list[NotNegative] = Field(
        default_factory=list,
        description="ratio: start beside m others only if each has more than ratios[m-1] times its bytes left.",
    )

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

    admission: ReplayAdmission | None = Field(None, description="Which transfers may start; by default all.")


class ReplayPhase(Section):
    """Compute and transfer side by side; the phase ends when both are done."""

    compute_s: Seconds = Field(0.0, description="Seconds of computing.")
    bytes: Bytes = Field(0.0, description="Bytes that each flow carries.")
    flows: dict[str, Annotated[int, Field(ge=1, le=1_000_000)]] = Field(
        default_factory=dict, description="How many of the flows cross each link."
    )
    demand_gbps: Gbps | None = Field(None, description="Cap of each flow; by default as fast as the links allow.")

    @model_validator(mode="after")
    def _somewhere(self) -> Self:
        if self.bytes > 0 and not self.flows:
            raise problem('is missing; bytes need links to cross: {"link": number of flows}', "flows")
        return self


class ReplayGate(Section):
    """The named task of each iteration waits for its opening: epoch, epoch + period, ...; a period of 0 delays once."""

    epoch_s: Seconds = Field(description="The first opening.")
    period_s: Seconds = Field(0.0, description="Time between openings; 0: a one-off delay until the first.")
    task: Annotated[int, Field(ge=0)] = Field(
        0,
        description="Which task waits; a phase has one for its computation, if that takes time, and one for its bytes.",
    )
    tolerance: Annotated[float, Field(ge=0, le=1)] = Field(
        0.05, description="Jobs later than this fraction of a period wait for the next opening."
    )


class ReplayJob(Section):
    """A job: its phases, repeated `iterations` times from `start_s` on."""

    id: Annotated[str, Field(min_length=1)] = Field(description="Its name.")
    start_s: Seconds = Field(0.0, description="When it starts.")
    iterations: Annotated[int, Field(ge=1, le=1_000_000_000_000)] = Field(description="How often the phases repeat.")
    gate: ReplayGate | None = Field(None, description="Makes a task of each iteration wait for its opening.")
    phases: Annotated[list[ReplayPhase], Field(min_length=1)] = Field(description="One iteration.")

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

    links: dict[str, ReplayLink] = Field(default_factory=dict, description="Links by name, each in one direction.")
    network: ReplayNetwork = Field(
        default_factory=ReplayNetwork, description='How they are shared; "ideal" is short for {"sharing": "ideal"}.'
    )
    jobs: Annotated[list[ReplayJob], Field(min_length=1)] = Field(description="The jobs.")

    @field_validator("network", mode="before")
    @classmethod
    def _short(cls, value: Any) -> Any:
        return {"sharing": value} if isinstance(value, str) else value

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        check_names(job.id for job in self.jobs)
        for i, job in enumerate(self.jobs):
            for j, phase in enumerate(job.phases):
                for link in phase.flows:
                    if link not in self.links:
                        guess = near(link, self.links)
                        hint = f"did you mean {guess}?" if guess else f'add "{link}" to links or remove it here'
                        raise problem(f"names a link that is not there; {hint}", f"jobs[{i}].phases[{j}].flows.{link}")
        return self


def load_job_file(source: str | Path | dict[str, Any]) -> JobFile:
    """A job file, or the same as a dict, checked."""
    if isinstance(source, dict):
        return checked(JobFile, source, "job file")
    found = read_json(Path(source), "job file", "weft replay", '{"links": ..., "jobs": [...]}')
    return checked(JobFile, found, str(source))


class CompatArc(Section):
    """A time of sending at one rate; it may go round the end of the iteration."""

    start_s: Seconds = Field(description="When it begins, from the start of the iteration.")
    length_s: SomeSeconds = Field(description="How long it lasts.")
    gbps: Annotated[float, Field(ge=0, le=MOST_GBPS)] = Field(description="Its demand in Gbit/s.")


class CompatJob(Section):
    """A job: its iteration time alone on the link, and its arcs; or counters of the link, which say both."""

    id: Annotated[str, Field(min_length=1)] = Field(description="Its name.")
    iteration_s: SomeSeconds = Field(1.0, description="Iteration time alone on the network.")
    arcs: list[CompatArc] = Field(default_factory=list, description="Its Up phases; where two overlap, demands add.")
    counters: str | None = Field(
        None, description="Instead of both: a CSV file of time in seconds and bytes counted while the job was alone."
    )

    @model_validator(mode="after")
    def _inside(self) -> Self:
        said = self.model_fields_set & {"iteration_s", "arcs"}
        if self.counters is not None and said:
            raise problem("says the iteration and its arcs; remove iteration_s and arcs", "counters")
        if self.counters is None and len(said) < 2:
            raise problem(
                "is missing; give iteration_s and arcs, or counters", "arcs" if "iteration_s" in said else "iteration_s"
            )
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
