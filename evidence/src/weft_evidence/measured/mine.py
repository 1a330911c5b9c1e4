"""A user's own measurements: how far weft is off, and which constant is to blame (`weft validate --mine FILE`).

FILE is TOML with the [cluster] and perhaps the [network] of a scenario, and a [[measured]] for each job that ran alone:

    [cluster]
    topology = "single-switch"
    servers = 4
    gpus_per_server = 8
    nic_gbps = 25

    [[measured]]
    model = "resnet50"     # of the zoo, with options behind it, or a file
    gpus = 16
    servers = 2            # how many servers they are on; by default as few as hold them
    iteration_s = 0.412    # or samples_per_s, of the whole job

or `measured = "runs.csv"`, a table beside FILE with these columns. Each constant that is written there, and the
factors on computing and on message sizes, are multiplied by what makes errors least, one at a time. Where several
explain the rows equally well none of them is named."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache
from pathlib import Path
from statistics import fmean, median
from typing import Any

import polars as pl

from weft.errors import InputError, near
from weft.model.profile import Profile, Transfer
from weft.model.view import Spread
from weft.network.estimates import Estimates, example_placement
from weft.scenario import Scenario
from weft.scenario.build import build_cluster, physics
from weft.scenario.problems import read_toml
from weft.sim.spec import estimates
from weft.workload import zoo
from weft_evidence.measured import Row

COLUMNS = ("model", "gpus", "servers", "iteration_s", "samples_per_s")
OF_CLUSTER = ("nic_gbps", "intra_server_gbps", "oversubscription", "latency_us", "intra_latency_us")
COMPUTING, BYTES = "computing", "message bytes"
MOST = 4.0  # a constant is looked for between a quarter and four times what it is
_STEPS = 33  # tried at first, evenly in the logarithm
SAME = 0.01  # a change that removes less of the misfit is none
ALIKE = 0.001  # constants whose misfits differ by less explain the rows equally well


@dataclass(frozen=True)
class Measured:
    """A job that ran alone."""

    id: str
    model: str
    gpus: int
    servers: int
    iteration_s: float


@dataclass(frozen=True)
class Blame:
    """A constant, the factor on it that makes the misfit least, that misfit, the median error then, and how much a
    prediction changes with it: the mean of its relative change over that of the constant."""

    name: str
    factor: float
    misfit: float
    error: float
    sensitivity: float


class Mine:
    """The measurements of a file, and what weft says of them."""

    def __init__(self, path: Path) -> None:
        told = read_toml(path)
        rows = told.pop("measured", None)
        some_job = {"source": "jobs", "job": [{"model": "resnet50", "iterations": 1}]}
        self._told, self._folder, self.rows = {"workload": some_job, **told}, path.parent, list[Measured]()
        scenario = self._scenario({})
        cluster, self._overlap = build_cluster(scenario), scenario.workload.overlap
        self._rooms, self.gpu = sorted(map(int, cluster.gpus_per_server), reverse=True), cluster.gpu
        if isinstance(rows, str):
            rows = _table(path.parent / rows)
        if not isinstance(rows, list) or not rows:
            raise InputError(f'{path}: measured is missing; give [[measured]] tables, or measured = "runs.csv"')
        self.rows = [self._row(path, i, row) for i, row in enumerate(rows)]

    def _row(self, path: Path, i: int, row: Mapping[str, Any]) -> Measured:
        where, most = f"{path}: measured[{i}]", sum(self._rooms)
        told = {key: value for key, value in row.items() if value is not None}
        if unknown := sorted(set(told) - set(COLUMNS)):
            guess = near(unknown[0], list(COLUMNS))
            raise InputError(f"{where}: {unknown[0]} is unknown{guess}; there are {', '.join(COLUMNS)}")
        model, gpus = told.get("model"), told.get("gpus")
        if not isinstance(model, str) or not isinstance(gpus, int) or not 1 <= gpus <= most:
            raise InputError(f"{where}: give a model, and its gpus as a whole number from 1 to {most}")
        timed = [key for key in ("iteration_s", "samples_per_s") if key in told]
        if len(timed) != 1 or not isinstance(told[timed[0]], (int, float)) or not 0 < told[timed[0]] < math.inf:
            raise InputError(f"{where}: give either iteration_s or samples_per_s, more than 0")
        least = next(n for n in range(1, len(self._rooms) + 1) if sum(self._rooms[:n]) >= gpus)
        servers, widest = told.get("servers", least), min(gpus, len(self._rooms))
        if not isinstance(servers, int) or not least <= servers <= widest:
            raise InputError(
                f"{where}: servers is {servers!r}; {gpus} GPUs of this cluster are on {least} to {widest} servers: "
                "give such a whole number, or mend [cluster]"
            )
        profile = self._profile(model, gpus, 1.0)
        seconds = told[timed[0]]
        if timed == ["samples_per_s"]:
            if not profile.batch:
                raise InputError(f"{where}: weft does not know the batch of {model}; give iteration_s")
            seconds = profile.batch * gpus / seconds
        return Measured(f"{model}.{gpus}x{servers}", model, gpus, servers, float(seconds))

    def _scenario(self, changes: Mapping[str, float]) -> Scenario:
        cluster = self._told.get("cluster")
        changed = {**cluster, **changes} if isinstance(cluster, dict) else cluster
        return Scenario.load({**self._told, "cluster": changed})

    @cache  # noqa: B019 (one object for one command)
    def _alone(self, name: str, value: float) -> Estimates:
        scenario = self._scenario({name: value} if name else {})
        return estimates(build_cluster(scenario), physics(scenario, 0)[0])

    @cache  # noqa: B019
    def _profile(self, model: str, gpus: int, bytes_factor: float) -> Profile:
        profile = zoo.profile(zoo.in_folder(model, self._folder), gpus, gpu=self.gpu, overlap=self._overlap)
        return profile if bytes_factor == 1.0 else _scaled(profile, bytes_factor)

    def predicted(self, row: Measured, constant: str = "", factor: float = 1.0) -> float:
        """Seconds of an iteration, with one of the constants multiplied."""
        value = self.constants().get(constant, 0.0)
        alone = self._alone(constant, value * factor) if constant in OF_CLUSTER else self._alone("", 0.0)
        profile = self._profile(row.model, row.gpus, factor if constant == BYTES else 1.0)
        gpus = example_placement(alone.cluster, row.gpus, Spread(row.servers, 1), profile.grouped)
        slower = factor if constant == COMPUTING or constant == f"{COMPUTING} of {row.model}" else 1.0
        return alone.seconds(profile, gpus, row.model, 0, slower)

    def constants(self) -> dict[str, float]:
        """What may be to blame: constants of the cluster that the file gives, and factors."""
        cluster = self._told["cluster"]
        models = list(dict.fromkeys(row.model for row in self.rows))
        return {
            **{name: float(cluster[name]) for name in OF_CLUSTER if cluster.get(name)},
            COMPUTING: 1.0, BYTES: 1.0,
            **({f"{COMPUTING} of {model}": 1.0 for model in models} if len(models) > 1 else {}),
        }  # fmt: skip

    def misfit(self, constant: str = "", factor: float = 1.0) -> float:
        """The mean of |log(predicted / measured)|, which counts twice as long like half as long."""
        return fmean(abs(math.log(self.predicted(row, constant, factor) / row.iteration_s)) for row in self.rows)

    def error(self, constant: str = "", factor: float = 1.0) -> float:
        """The median relative error, as the table of a validation states it."""
        return median(abs(self.predicted(row, constant, factor) / row.iteration_s - 1.0) for row in self.rows)

    def compared(self) -> list[Row]:
        """Measured and predicted iterations."""
        return [Row(row.id, "iterations alone", "s", row.iteration_s, self.predicted(row)) for row in self.rows]

    def blamed(self) -> list[Blame]:
        """All constants, the one whose change removes most error first."""
        found = [self._blame(name) for name in self.constants()]
        return sorted(found, key=lambda blame: (blame.misfit, abs(math.log(blame.factor))))

    def _blame(self, name: str) -> Blame:
        tried = [MOST ** (2.0 * i / (_STEPS - 1) - 1.0) for i in range(_STEPS)]
        best = min(tried, key=lambda factor: (self.misfit(name, factor), abs(math.log(factor))))
        width = MOST ** (2.0 / (_STEPS - 1))
        for _ in range(8):  # closer and closer around the best
            width = math.sqrt(width)
            best = min((best, best / width, best * width), key=lambda factor: self.misfit(name, factor))
        moved = fmean(abs(math.log(self.predicted(row, name, 1.01) / self.predicted(row))) for row in self.rows)
        return Blame(name, best, self.misfit(name, best), self.error(name, best), moved / math.log(1.01))


def _scaled(profile: Profile, factor: float) -> Profile:
    tasks = [replace(task, bytes=task.bytes * factor) if isinstance(task, Transfer) else task for task in profile.tasks]
    return replace(profile, tasks=tuple(tasks))


def _table(path: Path) -> list[dict[str, Any]]:
    try:
        return pl.read_csv(path).to_dicts()
    except (pl.exceptions.PolarsError, OSError) as error:
        raise InputError(f"{path}: this is no table of measurements ({str(error).splitlines()[0]})") from None


def as_json(mine: Mine, rows: Sequence[Row], blamed: Sequence[Blame], errors: Mapping[str, Any]) -> dict[str, Any]:
    """What `weft validate --mine FILE --json` prints."""
    return {
        "error": mine.error(),
        "errors": dict(errors),
        "constants": [asdict(blame) for blame in blamed],
        "to_blame": to_blame[0] if len(to_blame := verdict(mine.misfit(), blamed)) == 1 else "",
        "alike": to_blame if len(to_blame) > 1 else [],
        "rows": [row.to_dict() for row in rows],
    }


def verdict(misfit: float, blamed: Sequence[Blame]) -> list[str]:
    """The constant whose change removes most misfit. Several where the rows cannot tell them apart; none where no
    constant removes a noticeable part."""
    if not blamed or blamed[0].misfit >= misfit - SAME:
        return []
    return [blame.name for blame in blamed if blame.misfit < blamed[0].misfit + ALIKE]
