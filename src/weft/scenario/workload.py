"""[workload]: where the jobs come from."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import Field, field_validator, model_validator

from weft.scenario.problems import problem
from weft.scenario.sections import Count, NotNegative, Positive, Section

__all__ = ["WorkloadSection"]


class WorkloadSection(Section):
    """[workload]: a generator and its numbers, a trace, or jobs one by one."""

    source: Literal["poisson", "batch", "dynamic", "snapshot", "bursty", "ada-srsf", "trace", "jobs"]
    jobs: Count = 100
    load: Positive = 0.9
    models: Annotated[list[str], Field(min_length=1)] = ["vgg16", "resnet50", "inception-v3", "lstm-ptb"]
    gpus: Annotated[dict[int, NotNegative], Field(min_length=1)] = {1: 1.0}
    iterations: Annotated[list[Count], Field(min_length=2, max_length=2)] = [200, 1000]

    @field_validator("gpus", mode="before")
    @classmethod
    def _sizes(cls, value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        sizes = {}
        for key, share in value.items():
            if not str(key).isdigit() or int(key) < 1:
                raise problem(f'has the key "{key}"; its keys are numbers of GPUs, at least 1')
            sizes[int(key)] = share
        return sizes

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.iterations[0] > self.iterations[1]:
            raise problem("runs from high to low; write [lowest, highest]", "iterations")
        if sum(self.gpus.values()) <= 0:
            raise problem("has no size with a share above 0; give at least one", "gpus")
        return self
