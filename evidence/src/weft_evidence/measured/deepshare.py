"""Throughput ratios of pairs of training jobs that share a network, beside what weft says of the same pairs.

`isolated.csv` has one row for each job alone (`model, gpus, nodes, step_s, kind`), `pairs.csv` one for each job beside
another (`model, gpus, nodes, other_model, other_gpus, other_nodes, ratio, kind`), gzipped or not. Rows whose kind is
`extrapolated` are no measurements and are left out.

A job computes, then sends as a ring. What it does alone follows from its row alone: of the large models the step less
the computing of two GPUs is sending, of the small ones the step less what their bytes take is computing. Constants lie
in deepshare.toml. Pairs of equal GPUs and nodes were used to fit them; every such row counts as fitted."""

from __future__ import annotations

import gzip
import io
import math
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl

from weft.errors import InputError
from weft.model.plan import Placement
from weft.model.profile import Compute, Profile, Transfer
from weft.model.units import gbps_to_bytes_per_s
from weft.network.topologies import Machine, single_switch
from weft.sim.engine import Engine, EngineSpec
from weft.sim.lower import Lowering
from weft.sim.spec import NetworkSpec
from weft_evidence.measured import Row, Say

TITLE = "Throughput of pairs of training jobs that share a network, over that alone"
SOURCE = "gajagajago/deepshare (ICPADS 2023), commit a7044394"
NAME = "deepshare.toml"
HEAVY = ("FSDP", "Transformer-XL", "MoE")  # models that mostly send
STEPS = 100  # of the slower job of a pair, in a simulation
WEIGHT = 200  # flows have whole weights: a weight of 1 is so many
_GZIP = b"\x1f\x8b"
_COLUMNS = {
    "isolated": ("model", "gpus", "nodes", "step_s", "kind"),
    "pairs": ("model", "gpus", "nodes", "other_model", "other_gpus", "other_nodes", "ratio", "kind"),
}


class Run(NamedTuple):
    """A model on GPUs of nodes."""

    model: str
    gpus: int
    nodes: int

    def __str__(self) -> str:
        return f"{self.model}.{self.gpus}x{self.nodes}"


@dataclass(frozen=True)
class Constants:
    """What weft is told: see deepshare.toml."""

    servers: int
    gpus_per_server: int
    nic_gbps: float
    jitter: float
    sent_bytes: Mapping[str, float]
    link_weight: Mapping[str, float]
    host_loss: Mapping[str, float]
    untimed_s: Mapping[str, float]
    exposed: float

    @property
    def nic_bytes_per_s(self) -> float:
        """What a NIC carries."""
        return gbps_to_bytes_per_s(self.nic_gbps)


def constants() -> Constants:
    """As they are committed."""
    told = _table()
    plain = {key: one["value"] for key, one in told.items() if isinstance(one, dict) and "value" in one}
    return Constants(told["servers"], told["gpus_per_server"], sent_bytes=told["bytes"], **plain)


@cache
def _table() -> dict[str, Any]:
    return tomllib.loads(files("weft_evidence.measured").joinpath(NAME).read_text(encoding="utf-8"))


CONSTANTS = _table()


@dataclass
class Pairs:
    """weft's answers for pairs of jobs, from what each does alone."""

    step_s: Mapping[Run, float]
    told: Constants
    _known: dict[tuple[Run, Run], tuple[float, float]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        machine = Machine(gpus_per_server=self.told.gpus_per_server, nic_gbps=self.told.nic_gbps)
        self._lowering = Lowering(single_switch(self.told.servers, machine), NetworkSpec())

    def ratio(self, run: Run, other: Run) -> float:
        """Throughput of a job beside another over that alone."""
        first, second = sorted((run, other))
        if (first, second) not in self._known:
            self._known[first, second] = self._simulated(first, second)
        one, two = self._known[first, second]
        shared = 0.5 * (one + two) if run == other else (one if run == first else two)
        return min(1.0, shared * (1.0 - self.told.host_loss[run.model]))

    def parts(self, run: Run) -> tuple[float, float]:
        """Seconds that a job alone computes and sends in a step that is timed."""
        step, told = self.step_s[run], self.told
        if run.model in HEAVY:
            pair = Run(run.model, 2, 2)
            computing = self.step_s[pair] - told.sent_bytes[run.model] / told.nic_bytes_per_s
            return (computing, step - computing) if step > computing else (0.0, step)
        wire = 2.0 * (run.gpus - 1) / run.gpus * told.sent_bytes[run.model] / told.nic_bytes_per_s
        sending = min(told.exposed * wire, 0.9 * step)
        return step - sending, sending

    def _profile(self, run: Run) -> Profile:
        computing, sending = self.parts(run)
        message = sending * self.told.nic_bytes_per_s * run.gpus / (2.0 * (run.gpus - 1))
        tasks = (
            Compute("load", self.told.untimed_s.get(run.model, 0.0)), Compute("compute", computing, (0,)),
            Transfer("send", message, (1,), None, "ring"),
        )  # fmt: skip
        weight = max(1, round(WEIGHT * self.told.link_weight[run.model]))
        return Profile(run.model, tasks, run.gpus, link_weight=weight)

    def _placed(self, run: Run, first: int) -> Placement:
        each = run.gpus // run.nodes
        return tuple(self.told.gpus_per_server * node + first + i for node in range(run.nodes) for i in range(each))

    def _simulated(self, *runs: Run) -> tuple[float, float]:
        how = EngineSpec(self._lowering.capacity, self._lowering.ports, seed=1, jitter=self.told.jitter, skip=False)
        engine, rows = Engine(how), []
        for i, run in enumerate(runs):
            program = self._lowering.program(self._profile(run), self._placed(run, i * self.told.gpus_per_server // 2))
            rows.append(engine.attach(i, program, 10**9))
        engine.run(STEPS * max(self.step_s[run] + self.told.untimed_s.get(run.model, 0.0) for run in runs))
        done = [engine.iterations_done(row) for row in rows]  # and half of one more, on average
        sent = [engine.detach(row).comm_s / (n + 0.5) for row, n in zip(rows, done, strict=True)]
        return self._over_alone(runs[0], sent[0]), self._over_alone(runs[1], sent[1])

    def _over_alone(self, run: Run, sending_s: float) -> float:
        computing, sending = self.parts(run)
        return (computing + sending) / (computing + sending_s)


def read(folder: Path) -> tuple[dict[Run, float], list[tuple[Run, Run, float]]]:
    """Seconds of a step of each job alone, and the measured pairs with their ratios."""
    tables = {}
    for name, columns in _COLUMNS.items():
        path = next((path for end in ("", ".gz") if (path := folder / f"{name}.csv{end}").exists()), None)
        if path is None:
            raise InputError(f"{folder}: there is no {name}.csv or {name}.csv.gz")
        content = path.read_bytes()
        try:
            frame = pl.read_csv(io.BytesIO(gzip.decompress(content) if content[:2] == _GZIP else content))
        except (pl.exceptions.PolarsError, OSError, EOFError) as error:
            raise InputError(f"{path}: this is no table ({str(error).splitlines()[0]})") from None
        if missing := [column for column in columns if column not in frame.columns]:
            raise InputError(f"{path}: no column {', '.join(missing)}; it has {', '.join(columns)}")
        tables[name] = frame.filter(pl.col("kind") != "extrapolated").select(columns)
    alone = {Run(model, gpus, nodes): step for model, gpus, nodes, step, _ in tables["isolated"].iter_rows()}
    pairs = [(Run(*row[:3]), Run(*row[3:6]), row[6]) for row in tables["pairs"].iter_rows()]
    unknown = {run for a, b, _ in pairs for run in (a, b)} - set(alone)
    if unknown:
        raise InputError(f"{folder}: isolated.csv has no row for {min(map(str, unknown))}")
    return alone, pairs


def rows(folder: Path, say: Say) -> Iterator[Row]:
    """The measured pairs, and what weft simulates for them."""
    alone, pairs = read(folder)
    say(f"simulating {len(pairs)} pairs")
    weft = Pairs(alone, constants())
    for run, other, ratio in pairs:
        kind = "heavy beside heavy" if run.model in HEAVY and other.model in HEAVY else "others"
        yield Row(f"{run}+{other}", kind, "of alone", ratio, weft.ratio(run, other), run[1:] == other[1:])


def summary(found: Sequence[Row]) -> dict[str, float]:
    """Of rows that nothing was fitted to: mean absolute error, that of 'no effect' and of their mean, and how measured
    and predicted means of the nine pairs of heavy models correlate, and their cells."""
    free = [row for row in found if not row.fitted]
    measured, predicted = np.array([row.measured for row in free]), np.array([row.predicted for row in free])
    told = {
        "mean absolute error": float(np.abs(predicted - measured).mean()),
        "... if nothing had an effect": float(np.abs(1.0 - measured).mean()),
        "... of the mean of all": float(np.abs(measured.mean() - measured).mean()),
    }
    cells = [row for row in free if row.kind == "heavy beside heavy"]
    pairs: dict[tuple[str, ...], list[Row]] = {}
    for row in cells:
        pairs.setdefault(tuple(run.split(".")[0] for run in row.id.split("+")), []).append(row)
    for what, groups in (("nine heavy pairs", list(pairs.values())), ("heavy cells", [[row] for row in cells])):
        if len(groups) > 2:
            sides = [[float(np.mean([getattr(row, side) for row in group])) for group in groups]
                     for side in ("measured", "predicted")]  # fmt: skip
            told[f"correlation, {what}"] = float(np.corrcoef(np.array(sides))[0, 1])
    return told


def fit(folder: Path, rounds: int, say: Say) -> Constants:
    """The constants that the fitted rows ask for, from the committed ones on and within their ranges: least squares
    with soft ends."""
    from scipy.optimize import least_squares

    alone, pairs = read(folder)
    mine = [(run, other, ratio) for run, other, ratio in pairs if run[1:] == other[1:]]
    told, table = constants(), _table()
    models = list(told.sent_bytes)
    others, n = [model for model in models if model != "FSDP"], len(models) - 1

    def made(v: npt.NDArray[np.float64]) -> Constants:
        weights = dict(zip(others, np.exp(v[:n] - 1.0).tolist(), strict=True))
        losses = dict(zip(models, v[n:-2].tolist(), strict=True))
        untimed = {"GraphSage": float(v[-2])}
        weights["FSDP"] = 1.0
        return replace(told, link_weight=weights, host_loss=losses, untimed_s=untimed, exposed=float(v[-1]))

    def off(v: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        weft = Pairs(alone, made(v))
        return np.array([weft.ratio(run, other) - ratio for run, other, ratio in mine])

    ends = [[1.0 + math.log(end) for end in table["link_weight"]["range"]]] * n
    ends += [table["host_loss"]["range"]] * len(models) + [table[name]["range"] for name in ("untimed_s", "exposed")]
    start = [1.0 + math.log(told.link_weight[model]) for model in others]
    start += [*(told.host_loss[model] for model in models), told.untimed_s["GraphSage"], told.exposed]
    bounds = np.array(ends).T
    say(f"fitting {len(start)} constants to {len(mine)} rows")
    inside = np.clip(start, bounds[0] + 1e-3, bounds[1] - 1e-3)
    best = least_squares(off, inside, bounds=bounds, loss="soft_l1", f_scale=0.05, max_nfev=rounds, diff_step=0.1)
    return made(best.x)
