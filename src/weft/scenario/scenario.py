"""Scenario: everything one experiment needs, read from a TOML file or a dict and checked before anything runs."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, PrivateAttr

from weft.errors import ScenarioError, quoted
from weft.scenario.problems import checked, read_toml
from weft.scenario.run_section import RunSection
from weft.scenario.sections import (
    ClusterSection,
    Count,
    LimitsSection,
    NetworkSection,
    Section,
    StackSection,
)
from weft.workload.generators.spec import WorkloadSpec


class CompareSection(Section):
    """What `weft compare` does when the command line does not say."""

    stacks: Annotated[list[str], Field(min_length=1)] = Field(description="Stacks to compare; ratios are to the first.")
    seeds: Count = Field(5, description="How many seeds, from the run's on.")


class Scenario(Section):
    """A cluster, a workload, a stack, a network model and how to run them.

    Examples:
        >>> demo = weft.Scenario.load("demo")
        >>> demo.cluster.racks, demo.workload.jobs
        (4, 100)
    """

    cluster: ClusterSection
    workload: WorkloadSpec
    stack: StackSection | None = None
    limits: LimitsSection | None = None
    network: NetworkSection = Field(default_factory=NetworkSection)
    run: RunSection = Field(default_factory=RunSection)
    compare: CompareSection | None = None
    _path: Path | None = PrivateAttr(default=None)
    _changes: str = PrivateAttr(default="")  # what the command line changed, in its own words

    @staticmethod
    def load(source: Scenario | str | Path | dict[str, Any]) -> Scenario:
        """A scenario from a TOML file or a dict of its shape, by the name of one that comes with weft, or as it is."""
        if isinstance(source, Scenario):
            return source
        if isinstance(source, dict):
            return _checked(source, None)
        path = _by_name(source)
        return _without_code(_checked(read_toml(path), path))

    @staticmethod
    def load_site(source: str | Path) -> Scenario:
        """A file of which only the cluster counts: its [workload] may be missing."""
        path = _by_name(source)
        some_job = {"source": "jobs", "job": [{"model": "resnet50", "iterations": 1}]}
        return _checked({"workload": some_job, **read_toml(path)}, path)

    def again(self, data: dict[str, Any], changes: str) -> Scenario:
        """The same file with other values, checked; `changes` says which, for its text."""
        where = f"{self.where} with {changes}"
        scenario = checked(Scenario, data, where)
        scenario._path, scenario._changes = self._path, changes
        return scenario

    @property
    def where(self) -> str:
        """What messages call it: its file."""
        return str(self._path) if self._path else "scenario"

    @property
    def name(self) -> str:
        """What results call it: the stem of its file."""
        return self._path.stem if self._path else "scenario"

    @property
    def text(self) -> str:
        """The file as it was written; without one, the values that were given."""
        if self._path is not None:
            changes = f"\n# changed by {self._changes}\n" if self._changes else ""
            return self._path.read_text(encoding="utf-8-sig") + changes
        return json.dumps(self.model_dump(mode="json", exclude_unset=True), indent=2)

    @property
    def is_recorded(self) -> bool:
        """Whether its jobs are recorded, and so the same at every seed."""
        return self.workload.source == "jobs" or (self.workload.source == "trace" and self.workload.pick == "first")

    @property
    def folder(self) -> Path:
        """Files that it names are looked up from here."""
        return self._path.parent if self._path else Path()


def trusted(folder: Path) -> bool:
    """Whether code that files in this folder name may run: it lies in a folder that WEFT_TRUST lists."""
    listed = [Path(text).expanduser().resolve() for text in os.environ.get("WEFT_TRUST", "").split(os.pathsep) if text]
    here = folder.resolve()
    return any(one == here or one in here.parents for one in listed)


def _without_code(scenario: Scenario) -> Scenario:
    """Refuse a scenario that names policies in Python files: it may be somebody else's."""
    said = {f"stack.{key}": text for key, text in (scenario.stack.model_dump() if scenario.stack else {}).items()}
    said |= {f"compare.stacks[{i}]": text for i, text in enumerate(scenario.compare.stacks if scenario.compare else ())}
    for key, text in said.items():
        if re.search(r"\.py(:|$)", text or "") and not trusted(scenario.folder):
            raise ScenarioError(
                f"{scenario.where}: {key} = {quoted(text)} is code in a file, and the scenario may be somebody "
                "else's; read it, then add --allow-code, or list its folder in WEFT_TRUST"
            )
    return scenario


def _by_name(source: str | Path) -> Path:
    """The file; where there is none of that name, the scenario that comes with weft under it."""
    from weft.scenario.shipped import names, scenario_path

    path = Path(source)
    if path.exists() or path.suffix:
        return path
    if str(source) not in names():
        come = ", ".join(names())
        raise ScenarioError(f"{path}: no such file; write one with: weft init {path}; these come with weft: {come}")
    return scenario_path(str(source))


def _checked(data: dict[str, Any], path: Path | None) -> Scenario:
    scenario = checked(Scenario, data, str(path) if path else "scenario")
    scenario._path = path
    return scenario
