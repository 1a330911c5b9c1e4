"""WorkloadSpec: the [workload] table of a scenario."""

from __future__ import annotations

import math
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from weft.model.units import gbps_to_bytes_per_s
from weft.workload.generators.arrivals import Bursts

Source = Literal["poisson", "batch", "dynamic", "snapshot", "bursty", "ada-srsf", "trace", "jobs"]
FOUR = ["vgg16", "resnet50", "inception-v3", "lstm-ptb"]
DRAWN = ("poisson", "batch", "dynamic", "snapshot", "bursty")

# What each kind of a mix says for itself, or nobody does.
_OF_A_KIND = {
    "models", "gpus", "iterations", "shortest_s", "duration_median_s", "duration_sigma", "draw_from", "elastic", "apps",
    "arriving",
}  # fmt: skip

Positive = Annotated[float, Field(gt=0, le=1e9, allow_inf_nan=False)]
NotNegative = Annotated[float, Field(ge=0, le=1e9, allow_inf_nan=False)]
Gbps = Annotated[float, Field(ge=1e-6, le=1e9, allow_inf_nan=False)]
Priority = Annotated[int, Field(ge=-(2**31), lt=2**31)]
MOST_JOBS = 10_000_000  # each is an object in memory
MOST_ITERATIONS = 10**12  # most iterations of a job: counts stay exact in the engine


def low_high(value: tuple[int, int] | None) -> tuple[int, int] | None:
    """A range, in order and within what the engine counts."""
    if value is not None and not 1 <= value[0] <= value[1]:
        raise ValueError(f"[{value[0]}, {value[1]}] must be [low, high] with 1 <= low <= high")
    if value is not None and value[1] > MOST_ITERATIONS:
        raise ValueError(f"{value[1]} is too large; give at most {MOST_ITERATIONS}")
    return value


def sizes_with_weights(gpus: dict[int, float]) -> dict[int, float]:
    """Sizes that jobs can have, one of them with a weight."""
    if bad := [n for n in gpus if n < 1]:
        raise ValueError(f"a job cannot have {bad[0]} GPUs; sizes start at 1")
    if not sum(gpus.values()) > 0:
        raise ValueError("at least one size needs a weight above 0")
    return gpus


class Shares(BaseModel):
    """What a job has of the links that it shares."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    link_weight: int = Field(
        1, ge=1, le=1000, description="What each of its flows weighs where links are shared: its sockets or channels."
    )
    max_rate_gbps: Gbps | None = Field(
        None, description="The most that one of its transfers sends through a NIC; by default what the NIC carries."
    )

    @property
    def cap(self) -> float | None:
        """The most that one of its transfers sends through a NIC, in bytes per second."""
        return None if self.max_rate_gbps is None else gbps_to_bytes_per_s(self.max_rate_gbps)


class JobSpec(Shares):
    """One job of an explicit list: [[workload.job]]."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    id: str = Field("", description="Name of the job; by default its place in the list.")
    model: str = Field(description="Model of the zoo.", min_length=1)
    gpus: int = Field(1, ge=1, description="GPUs asked for.")
    iterations: int | None = Field(
        None, ge=1, le=MOST_ITERATIONS, description="Iterations to train; or give duration_s."
    )
    duration_s: Positive | None = Field(None, description="Length alone on its GPUs, from which iterations follow.")
    submit_s: NotNegative = Field(0.0, description="Submission time.")
    count: int = Field(
        1, ge=1, le=MOST_JOBS, description="Number of such jobs; with an id, each has its own behind it."
    )
    every_s: NotNegative = Field(0.0, description="Time between them.")
    user: str = Field("", description="Who submits it.")
    vc: str = Field("", description="Virtual cluster.")
    priority: Priority = Field(0, description="Jobs with a higher one go first.")
    gpu: str = Field("", description="Type of GPU that it asks for, in a cluster of several; by default any.")
    elastic: tuple[int, int] | None = Field(None, description="Smallest and largest number of GPUs it can run on.")

    @model_validator(mode="after")
    def _one_length(self) -> JobSpec:
        if (self.iterations is None) == (self.duration_s is None):
            raise ValueError("give a job either iterations or duration_s")
        return self


class MixSpec(Shares):
    """One kind of job of a mixed workload: [[workload.mix]]."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    weight: Positive = Field(1.0, description="How often such a job is drawn, beside the other kinds.")
    model: str = Field(description="Model of the zoo, with options behind it, or a file.", min_length=1)
    gpus: dict[int, NotNegative] = Field({1: 1.0}, description="GPUs of a job: a number, or {count = weight}.")
    iterations: tuple[int, int] | None = Field(None, description="Iterations of a job, uniform in [low, high].")
    duration_median_s: Positive | None = Field(
        None, description="Median of log-normal durations, instead of iterations."
    )
    duration_sigma: NotNegative = Field(1.0, le=10, description="Standard deviation of the logarithm of durations.")
    user: str = Field("", description="Who submits it.")
    vc: str = Field("", description="Virtual cluster.")
    priority: Priority = Field(0, description="Jobs with a higher one go first.")
    gpu: str = Field("", description="Type of GPU that they ask for, in a cluster of several; by default any.")
    elastic: tuple[int, int] | None = Field(None, description="Smallest and largest number of GPUs it can run on.")

    @field_validator("gpus", mode="before")
    @classmethod
    def _number_or_table(cls, gpus: Any) -> Any:
        if isinstance(gpus, bool) or not isinstance(gpus, (int, dict)):
            raise ValueError("give a number of GPUs, or a table {count = weight}")
        return gpus if isinstance(gpus, dict) else {gpus: 1.0}

    @field_validator("gpus")
    @classmethod
    def _sizes(cls, gpus: dict[int, float]) -> dict[int, float]:
        return sizes_with_weights(gpus)

    @field_validator("iterations", "elastic")
    @classmethod
    def _range(cls, value: tuple[int, int] | None) -> tuple[int, int] | None:
        return low_high(value)

    @model_validator(mode="after")
    def _one_length(self) -> MixSpec:
        if (self.iterations is None) == (self.duration_median_s is None):
            raise ValueError("give a kind of job either iterations or duration_median_s")
        return self


class WorkloadSpec(BaseModel):
    """Which jobs there are and when they come."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    source: Source = Field(
        "poisson",
        description="poisson: arrivals by load; batch, snapshot: all at 0; dynamic: some at 0, the rest later; "
        "bursty: calm and bursts, by load; ada-srsf: the 160 jobs of that paper; trace: a file; jobs: listed here.",
    )
    jobs: int | None = Field(
        None, ge=1, le=MOST_JOBS, description="Number of jobs; for a trace at most this many, by default all."
    )
    load: Positive | None = Field(
        None,
        le=100,
        description="GPU time that jobs take alone on the network over what the cluster has while they arrive "
        "(poisson, bursty: 0.9 by default). "
        "dynamic: jobs are present as long as they ask for no more than this part of the GPUs together. "
        "With a trace: its arrival times are stretched to reach it.",
    )
    models: list[str] | dict[str, NotNegative] = Field(
        default_factory=lambda: list(FOUR),
        description="Models to draw from, equally or by weight: names of the zoo, with options behind them "
        '("vgg16[batch=64]"), or files.',
    )
    overlap: bool = Field(
        False, description="Gradients go in buckets while the backward pass still runs; false: all at its end."
    )
    gpus: dict[int, NotNegative] | None = Field(
        None, description="GPUs of a job: {count = weight}; by default 1, or the sizes in draw_from."
    )
    elastic: tuple[int, int] | None = Field(
        None,
        description="Smallest and largest number of GPUs a job may be resized to; its samples per iteration stay the "
        "same. By default it keeps its size.",
    )
    elastic_batch: tuple[float, float] | None = Field(
        None,
        description="Smallest and largest batch per GPU of a resized job, relative to the one that it asked for. "
        "Beyond these limits its samples per iteration change. By default there is no limit.",
    )
    iterations: tuple[int, int] | None = Field(None, description="Iterations of a job, uniform in [low, high].")
    shortest_s: Positive | None = Field(
        None, description="With iterations: a job that would be shorter than this, alone on its GPUs, gets more."
    )
    apps: bool = Field(
        False,
        description="Jobs of one model are one application, as in a hyper-parameter search; themis is fair to "
        "applications.",
    )
    duration_median_s: Positive | None = Field(
        None, description="Median of log-normal durations, instead of iterations."
    )
    duration_sigma: NotNegative = Field(1.0, le=10, description="Standard deviation of the logarithm of durations.")
    draw_from: str | None = Field(
        None,
        description="Draw GPUs and durations together from this trace file, or from published figures: acme-seren, "
        "acme-kalos (synthetic).",
    )
    present: int | None = Field(
        None, ge=0, description="dynamic: jobs that are there at time 0; by default half, or all but those in arriving."
    )
    arriving: list[str] = Field(
        default_factory=list, description="dynamic: the models of the last jobs, in order; by default they are drawn."
    )
    arrive_s: NotNegative = Field(600.0, description="dynamic: when the others begin to arrive.")
    gap_s: NotNegative = Field(0.0, description="dynamic: mean time between them; 0 lets them arrive together.")
    burst_share: float = Field(0.1, gt=0, lt=1, description="bursty: fraction of time spent in bursts.")
    burst_factor: float = Field(10.0, ge=1, le=1e6, description="bursty: arrival rate in a burst over that outside.")
    burst_s: Positive = Field(600.0, description="bursty: mean length of a burst.")
    trace: str | None = Field(None, description="Trace file or folder; relative to the scenario, or to WEFT_TRACES.")
    trace_format: str | None = Field(None, description="Format of the trace, where it is not detected.")
    trace_map: str | None = Field(
        None,
        description="Columns of a trace that is a table: `submit=Submit,gpus=NGPUS,duration=Runtime:h`; by default "
        "guessed from their names.",
    )
    reading: Literal["alone", "compute", "one-gpu"] | None = Field(
        None,
        description="What a duration means: alone = time alone on its GPUs with communication; compute = compute only, "
        "communication comes on top (Titan); one-gpu = compute only, on one GPU, shared evenly by those of the "
        "job. By default alone where the network's time is known.",
    )
    length: Literal["duration", "iterations"] = Field(
        "duration", description="For a trace that has both durations and iterations: which to use."
    )
    trace_models: bool = Field(True, description="Use the models a trace names; false draws all of them from models.")
    trace_shapes: bool = Field(
        False,
        description="Jobs of a trace that says so (philly-rfold, or a column shape) have as many workers on each of "
        "their servers as recorded, where these are equal; false leaves that to the stack.",
    )
    damaged_rows: Literal["skip", "fail"] = Field("skip", description="What to do with a damaged row of a trace.")
    oversize: Literal["refuse", "leave-out", "cap"] = Field(
        "refuse",
        description="What to do with jobs of a trace that want more GPUs than the cluster has; leave-out is also for "
        "shapes (trace_shapes) that do not fit.",
    )
    vc: list[str] = Field(default_factory=list, description="Virtual clusters of a trace to use; by default all.")
    from_s: NotNegative | None = Field(None, description="Use jobs of a trace submitted at this time or later.")
    until_s: NotNegative | None = Field(None, description="Use jobs of a trace submitted before this time.")
    pick: Literal["first", "random"] = Field("first", description="Which jobs of a trace to take, if not all.")
    job: list[JobSpec] = Field(default_factory=list, description="The jobs themselves, for source = jobs.")
    mix: list[MixSpec] = Field(
        default_factory=list, description="Kinds of jobs to draw from, instead of models, gpus and a length for all."
    )

    @model_validator(mode="before")
    @classmethod
    def _no_truth(cls, table: Any) -> Any:
        """Refuse `jobs = true`, which would otherwise pass as the number 1."""
        for name, value in table.items() if isinstance(table, dict) else ():
            if isinstance(value, bool) and name not in ("trace_models", "trace_shapes", "overlap", "apps"):
                raise ValueError(f"{name} is {str(value).lower()}; give a number, not true or false")
        return table

    @field_validator("models")
    @classmethod
    def _some_model(cls, models: list[str] | dict[str, float]) -> list[str] | dict[str, float]:
        if not models or (isinstance(models, dict) and not sum(models.values()) > 0):
            raise ValueError("name at least one model")
        return models

    @field_validator("gpus")
    @classmethod
    def _sizes(cls, gpus: dict[int, float] | None) -> dict[int, float] | None:
        return None if gpus is None else sizes_with_weights(gpus)

    @field_validator("iterations", "elastic")
    @classmethod
    def _range(cls, value: tuple[int, int] | None) -> tuple[int, int] | None:
        return low_high(value)

    @field_validator("elastic_batch")
    @classmethod
    def _span(cls, value: tuple[float, float] | None) -> tuple[float, float] | None:
        if value is not None and not 0 < value[0] <= 1 <= value[1] < math.inf:
            raise ValueError(f"[{value[0]}, {value[1]}] must be [low, high] with 0 < low <= 1 <= high")
        return value

    @model_validator(mode="after")
    def _complete(self) -> WorkloadSpec:
        if self.source in DRAWN:
            if self.jobs is None:
                raise ValueError(f"jobs is missing; source = {self.source!r} needs the number of jobs")
            if not (self.mix or self.iterations or self.duration_median_s or self.draw_from):
                raise ValueError("the job length is missing; give iterations, duration_median_s, draw_from or mix")
        self._only_mix()
        if self.iterations is not None and self.duration_median_s is not None:
            raise ValueError("iterations and duration_median_s exclude each other; remove one")
        if self.source == "trace" and self.trace is None:
            raise ValueError("trace is missing; source = 'trace' needs the path of a trace file")
        if self.source != "trace" and self.trace is not None:
            raise ValueError(f"trace has no meaning with source {self.source!r}; write source = 'trace'")
        if self.source == "jobs" and not self.job:
            raise ValueError("job is missing; source = 'jobs' needs at least one [[workload.job]]")
        if self.source == "ada-srsf" and self.jobs not in (None, 160):
            raise ValueError("jobs must be 160, or absent: the Ada-SRSF recipe has 160 jobs")
        if self.present is not None and self.jobs is not None and self.present > self.jobs:
            raise ValueError(f"present is {self.present}, more than the {self.jobs} jobs there are")
        if self.arriving and (self.source != "dynamic" or self.draw_from is not None):
            raise ValueError('arriving names models of jobs that are drawn here; it needs source = "dynamic" alone')
        if len(self.arriving) > (self.jobs or len(self.arriving)):
            raise ValueError(f"arriving has {len(self.arriving)} models, more than the {self.jobs} jobs there are")
        if self.from_s is not None and self.until_s is not None and self.from_s >= self.until_s:
            raise ValueError("from_s must be before until_s")
        return self

    def _only_mix(self) -> None:
        if not self.mix:
            return
        if self.source not in DRAWN:
            raise ValueError(f"mix has no meaning with source {self.source!r}; use one of {', '.join(DRAWN)}")
        if twice := sorted(_OF_A_KIND & self.model_fields_set):
            raise ValueError(f"{twice[0]} has no meaning beside mix; give it to each kind of job")

    @property
    def named_models(self) -> list[str]:
        """All models that jobs can have by what is written here."""
        if self.source == "jobs":
            return [job.model for job in self.job]
        return [kind.model for kind in self.mix] or list(self.models)

    @property
    def drawn_sizes(self) -> list[int]:
        """Sizes that a drawn job can have, as far as they are written here."""
        tables = [kind.gpus for kind in self.mix] or [self.gpus or {}]
        return [size for table in tables for size, weight in table.items() if weight > 0]

    @property
    def bursts(self) -> Bursts:
        """The burst parameters as a value."""
        return Bursts(self.burst_share, self.burst_factor, self.burst_s)
