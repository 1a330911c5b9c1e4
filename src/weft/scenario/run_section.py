"""The section [run] of a scenario file: the seed, how exact to be, and what goes wrong on purpose."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from weft.scenario.problems import problem
from weft.scenario.sections import Count, Seconds, Section, Share, SomeSeconds


class OutageRow(Section):
    """A server that is lost for a while."""

    server: str = Field(description="Its name.")
    at_s: Seconds = Field(description="When it is lost.")
    for_s: SomeSeconds = Field(description="How long it is lost.")


class FailuresTable(Section):
    """Servers that fail at random, with all that runs there; each stack meets the same failures."""

    per_gpu_hour: Annotated[float, Field(gt=0, le=1)] = Field(description="Failures per GPU and hour.")
    repair_s: Seconds = Field(0.0, description="How long the server is away; 0: a spare takes its place at once.")


class RunSection(Section):
    """The seed, how exact to be, and what goes wrong on purpose."""

    seed: Annotated[int, Field(ge=0, le=2**63 - 1)] = Field(0, description="Seed of jobs, routes and all draws.")
    exact: bool = Field(True, description="false: measure a window, extrapolate, state the error.")
    effort: Annotated[float, Field(ge=0, le=1e6)] = Field(
        1.0, description="With exact = false: effort multiplier; higher is more accurate and slower."
    )
    restart_s: Seconds = Field(0.0, description="Seconds that a stopped job loses when it starts again.")
    jitter: Annotated[float, Field(ge=0, le=10)] = Field(
        0.0, description="Spread of compute times, relative, drawn for each worker and iteration."
    )
    task_jitter: Annotated[float, Field(ge=0, le=10)] = Field(
        0.0,
        description="The same drawn anew for each task of a worker: its slowest worker ends a task, so that what this "
        "costs grows with their number. 0.01 to 0.02 in recorded steps of equal work.",
    )
    task_shape: Literal["even", "sequences"] = Field(
        "even",
        description="How tasks differ: even, nearly normal; sequences, mostly short and a few long, as recorded where "
        "micro-batches hold sequences of uneven length (with task_jitter = 0.16 to 0.40).",
    )
    stragglers: Share = Field(0.0, description="Share of workers' iterations that are slow.")
    straggler_factor: Annotated[float, Field(ge=1, le=1e6)] = Field(2.0, description="How much longer those take.")
    start_latency_s: Seconds = Field(0.0, description="From the decision to the start of a job.")
    failure_rate: Annotated[float, Field(ge=0, lt=1)] = Field(0.0, description="Share of starts that fail.")
    outages: list[OutageRow] = Field([], description="Servers that are lost, with all that runs there.")
    failures: FailuresTable | Literal["llama-3", "rsc-1", "rsc-2"] | None = Field(
        None,
        description="Servers that fail at random: how often, and for how long; or a published rate: llama-3 (Meta's "
        "training of 405B on 16,384 H100), rsc-1, rsc-2 (Meta's research clusters with A100).",
    )
    checkpoint_every: Count = Field(1, description="Iterations between checkpoints: where a stopped job resumes.")
    checkpoint_s: SomeSeconds | None = Field(
        None, description="Seconds of training between checkpoints, instead of iterations; writing one takes no time."
    )
    until_s: SomeSeconds | None = Field(
        None, description="Stop the simulation at this time; by default when all jobs are done."
    )

    @model_validator(mode="after")
    def _one_period(self) -> Self:
        if self.checkpoint_s is not None and "checkpoint_every" in self.model_fields_set:
            raise problem("and checkpoint_every exclude each other; remove one", "checkpoint_s")
        if self.task_shape != "even" and not self.task_jitter:
            raise problem("has no meaning without task_jitter; give that too", "task_shape")
        return self
