"""The operator's cluster as scenarios: read from a scenario or Slurm's topology, or put together from a few numbers.

What the operator does not say is assumed, and every assumption is listed. What the log does not say about the jobs
(models, how much they communicate) becomes several *guesses*: the same jobs with little, some and much communication.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from math import ceil
from pathlib import Path
from typing import Any

from weft.advise.jobs import JobLog
from weft.errors import InputError
from weft.scenario import Scenario
from weft.scenario.build import build_cluster, check, located
from weft.scenario.changes import Change, Setting, changed, settings
from weft.scenario.problems import read_toml
from weft.workload import zoo

GUESSES: Mapping[str, Mapping[str, Any]] = {
    "little communication": {"models": ["resnet50"], "overlap": True},
    "some communication": {"models": ["vgg16", "resnet50", "inception-v3", "lstm-ptb"]},
    "much communication": {"models": ["vgg16"]},
}
DEFAULTS: Mapping[str, Any] = {"gpu": "V100", "gpu_memory_gb": 32.0, "nic_gbps": 25.0, "oversubscription": 4.0}
ANY = "*"  # jobs whose model the log does not name
NAMED: Mapping[str, Mapping[str, Any]] = {"as the log names models": {}, "overlapped": {"overlap": True}}


@dataclass(frozen=True)
class Flags:
    """What the command line says about the cluster; None where it says nothing."""

    gpus: int | None = None
    gpus_per_server: int | None = None
    servers_per_rack: int | None = None
    gpu: str | None = None
    nic_gbps: float | None = None
    oversubscription: float | None = None


@dataclass(frozen=True)
class Site:
    """The cluster with the log's jobs, one scenario for each guess of what is unknown, and what was assumed."""

    guesses: Mapping[str, Scenario]
    n_gpus: int
    assumed: tuple[str, ...]
    size_guessed: bool = False  # nobody said how many GPUs there are
    faster: Mapping[str, Mapping[str, float]] = field(default_factory=dict)  # guess: model: part of its recorded length

    @property
    def middle_guess(self) -> str:
        """The guess between the extremes."""
        return list(self.guesses)[len(self.guesses) // 2]

    @property
    def middle(self) -> Scenario:
        """The scenario of that guess."""
        return self.guesses[self.middle_guess]


def site_of(log: JobLog, cluster: Path | None, flags: Flags, models: list[str]) -> Site:
    """The site: the cluster of a file with what flags add, or of the flags alone."""
    assumed: list[str] = []
    rest: dict[str, Any] = {}
    if cluster is not None and flags.gpus is not None:
        raise InputError(
            f"--gpus: {cluster} says how many GPUs there are; change it there, or ask --what-if gpus={flags.gpus}"
        )
    if cluster is not None and cluster.suffix == ".toml":
        data = read_toml(cluster)
        section = _section(cluster, data)
        rest = {name: data[name] for name in ("network", "run") if name in data}
        if not models and (named := list(data.get("workload", {}).get("models", []))):
            models = named
            assumed.append(f"models = {', '.join(named)} (from {cluster.name}; without them weft guesses)")
        section |= _said(flags)
        if flags.gpu is not None:
            section["gpu_memory_gb"] = _memory_gb(flags.gpu, "--gpu")
    elif cluster is not None:
        if flags.servers_per_rack is not None:
            raise InputError(f"--servers-per-rack: {cluster} says which servers share a switch; leave it out")
        section = {"topology": "file", "file": str(cluster.resolve()), **_said(flags)}
        if flags.gpu is not None:
            section["gpu_memory_gb"] = _memory_gb(flags.gpu, "--gpu")
        _assume(section, {"gpus_per_server": 8, **DEFAULTS}, assumed)
    else:
        section = _from_flags(log, flags, assumed)
    workload = {"source": "trace", "trace": str(log.file), "oversize": "leave-out"}
    chosen = {"as given": {"models": models}} if models else NAMED if log.has_models else GUESSES
    run = {"exact": False, **rest.get("run", {})}
    _assume(run, {"restart_s": 30.0}, assumed)  # at 0, stacks that stop jobs would look better than they are
    guesses = {
        name: Scenario.load({"cluster": section, "workload": {**workload, **guess}, **rest, "run": run})
        for name, guess in chosen.items()
    }
    built = build_cluster(next(iter(guesses.values())))
    for scenario in guesses.values():
        check(scenario, built)
    return Site(guesses, built.n_gpus, tuple(assumed), cluster is None and flags.gpus is None)


def what_if(site: Site, log: JobLog, text: str) -> Site:
    """The site with one thing changed: any key of a scenario (`oversubscription=1`), or `gpus=+25%`, `gpus=512`. With
    another type of GPU the log's jobs take as much shorter or longer as their models compute there."""
    key, _, value = text.partition("=")
    if site.middle.cluster.group and key.strip().rpartition(".")[2] in ("racks", "servers"):
        raise InputError(f"--what-if {text}: servers or racks are not all alike here; ask for gpus=+N")
    guesses, faster = {}, {}
    for name, scenario in site.guesses.items():
        if key.strip() == "gpus":
            setting: Setting = _other_size(scenario, site.n_gpus, value.strip())
        else:
            points = settings([text], "--what-if")
            if len(points) != 1:
                raise InputError(f"--what-if {text}: give one value; repeat --what-if for others")
            setting = points[0]
            if any(full == "workload.trace" or full.startswith("stack.") for full in setting):
                raise InputError(f"--what-if {text}: it changes the cluster alone; --stack tries other stacks")
        if "cluster.gpu" in setting:
            setting = {**setting, "cluster.gpu_memory_gb": _memory_gb(str(setting["cluster.gpu"]), "--what-if")}
        guesses[name] = changed(scenario, setting, "--what-if")
        if "cluster.gpu" in setting:
            faster[name] = _faster(scenario, guesses[name], log)
    built = build_cluster(next(iter(guesses.values())))
    for scenario in guesses.values():
        check(scenario, built)
    return replace(site, guesses=guesses, n_gpus=built.n_gpus, faster=faster)


def _memory_gb(gpu: str, option: str) -> float:
    with located(option):
        return zoo.find_gpu(gpu).memory_gb


def _faster(now: Scenario, then: Scenario, log: JobLog) -> dict[str, float]:
    """Compute times on another type of GPU over those on today's, for each model of a guess or of the log."""
    found = [build_cluster(scenario).gpu_types for scenario in (now, then)]
    types = [kinds[0] for kinds in found]
    if max(map(len, found)) > 1 or types[1] != then.cluster.gpu:
        raise InputError(
            f"--what-if gpu={then.cluster.gpu}: groups of servers name their own GPUs here; change them in a copy of "
            "the scenario, and give that with --cluster"
        )
    named = log.trace.frame["model"].drop_nulls().unique().to_list() if not now.workload.models else []
    models = named or list(now.workload.models)
    if not models or any(map(zoo.is_path, models)):
        raise InputError(
            f"--what-if gpu={types[1]}: the log's lengths are those on {types[0]}, and of a model from a file nobody "
            "knows how fast it is elsewhere; name models of the zoo with --models"
        )
    parts = {}
    for model in models:
        before, after = (zoo.work_of(model, gpu=gpu) for gpu in types)
        parts[model] = (after.forward_s + after.backward_s) / (before.forward_s + before.backward_s)
    return parts if named else {ANY: math.fsum(parts.values()) / len(parts)}


def change_of_size(site: Site, other: Site) -> str:
    """What a changed cluster has more or fewer of, and its GPUs: `2 more racks: 320 GPUs`; for other GPUs what becomes
    of the log's lengths. Empty if it has as many of the same."""
    if other.faster:
        factors = [part for models in other.faster.values() for part in models.values()]
        low, high = f"{min(factors):.2f}", f"{max(factors):.2f}"
        return f"the log's lengths times {low}" + f" to {high}" * (high != low) + ", as models compute there"
    if other.n_gpus == site.n_gpus:
        return ""
    parts = []
    for key, one, many in (
        ("racks", "rack", "racks"),
        ("servers_per_rack", "server in each rack", "servers in each rack"),
        ("servers", "server", "servers"),
    ):
        more = _how_many(other.middle, key) - _how_many(site.middle, key)
        if more:
            parts.append(f"{abs(more):,} {'more' if more > 0 else 'fewer'} {one if abs(more) == 1 else many}")
    return ", ".join(parts) + ": " * bool(parts) + f"{other.n_gpus:,} GPUs"


def _how_many(scenario: Scenario, key: str) -> int:
    if scenario.cluster.group and key == "servers":
        return sum(group.count for group in scenario.cluster.group)
    count = getattr(scenario.cluster, key)
    return count if isinstance(count, int) else 0


def _other_size(scenario: Scenario, n_gpus: int, text: str) -> Setting:
    """A change of the number of racks, or of servers, whichever comes nearest to the wanted number of GPUs; of unequal
    servers, those that are the most change."""
    try:
        wanted = change.from_(n_gpus) if (change := Change.of(text)) else float(text)
    except ValueError:
        wanted = math.nan
    if not 1 <= wanted < math.inf:
        raise InputError(f"--what-if gpus={text}: give a number of GPUs, or a change like +25% or +64 that leaves some")
    step = (wanted > n_gpus) - (wanted < n_gpus)  # a server or a rack at least, where a change is asked for
    if scenario.cluster.group:
        return _other_group(scenario, wanted - n_gpus, step)
    counts = {
        f"cluster.{key}": count
        for key in ("racks", "servers_per_rack", "servers")
        if isinstance(count := getattr(scenario.cluster, key), int)
    }
    if not counts:
        raise InputError(
            "--what-if gpus: the topology's file has the number of GPUs; edit it, or describe the cluster by flags"
        )
    offers = {key: round(count * wanted / n_gpus) for key, count in counts.items()}
    offers = {key: max(1, n if n != counts[key] else n + step) for key, n in offers.items()}
    offers = {key: n for key, n in offers.items() if n != counts[key] or not step}
    if not offers:
        raise InputError(f"--what-if gpus={text}: the cluster has one server, which weft does not divide")
    key = min(offers, key=lambda k: abs(offers[k] / counts[k] - wanted / n_gpus))
    return {key: offers[key]}


def _other_group(scenario: Scenario, more_gpus: float, step: int) -> Setting:
    """A change of the number of servers of the largest group."""
    rows = [row.model_dump(exclude_unset=True) for row in scenario.cluster.group or ()]
    counts = [int(row["count"]) for row in rows]
    largest = counts.index(max(counts))
    gpus = len(build_cluster(scenario).servers[sum(counts[:largest])].gpus)  # servers follow each other by group
    rows[largest]["count"] = count = max(1, counts[largest] + (round(more_gpus / gpus) or step))
    if count == counts[largest] and step:
        raise InputError("--what-if gpus: the largest group has one server, which weft does not divide")
    said = [key for key in ("racks", "servers") if getattr(scenario.cluster, key) is not None]
    return {"cluster.group": rows, **{f"cluster.{key}": None for key in said}}


def _section(path: Path, data: Mapping[str, Any]) -> dict[str, Any]:
    if not isinstance(data.get("cluster"), dict):
        raise InputError(f"{path}: [cluster] is missing; give a scenario with one, or describe the cluster by flags")
    section = dict(data["cluster"])
    if "file" in section:
        section["file"] = str((path.parent / section["file"]).resolve())
    return section


def _said(flags: Flags) -> dict[str, Any]:
    return {name: value for name, value in vars(flags).items() if value is not None}


def _assume(section: dict[str, Any], defaults: Mapping[str, Any], assumed: list[str]) -> None:
    for key, value in defaults.items():
        if key not in section:
            section[key] = value
            assumed.append(f"{key} = {value:g}" if isinstance(value, float) else f"{key} = {value}")


def _from_flags(log: JobLog, flags: Flags, assumed: list[str]) -> dict[str, Any]:
    section: dict[str, Any] = {"topology": "leaf-spine", **_said(flags)}
    gpus = section.pop("gpus", None)
    if gpus is not None and gpus < 8:
        section.setdefault("gpus_per_server", gpus)
    _assume(section, {"gpus_per_server": 8}, assumed)
    per_server, per_rack = section["gpus_per_server"], section.pop("servers_per_rack", 4)
    wanted, why = (gpus, "") if gpus is not None else _guessed_size(log)
    if gpus is not None and gpus < per_server:
        raise InputError(f"--gpus {gpus}: a server alone has {per_server} (--gpus-per-server)")
    servers = ceil(wanted / per_server)
    racks = ceil(servers / per_rack)
    section["servers_per_rack"] = even = ceil(servers / racks)  # racks of one size come nearest to all GPUs
    if flags.servers_per_rack != even:
        assumed.insert(
            0, f"servers_per_rack = {even}" + (f" ({per_rack} at most, in racks of like size)" * (even < per_rack))
        )
    total = racks * even * per_server
    if gpus in (None, total):
        section["racks"] = racks
    else:
        section["group"] = _last_rack_smaller(gpus, per_server)
        for n, of, where, what in (
            (servers % even, even, "rack", "servers"),
            (gpus % per_server, per_server, "server", "GPUs"),
        ):
            assumed += [f"the last {where} has {n} of {of} {what}"] * (n > 0)
    if gpus is None:
        assumed.insert(0, f"gpus = {total} ({why})")
    if flags.gpu is not None:
        section["gpu_memory_gb"] = memory = _memory_gb(flags.gpu, "--gpu")
        assumed.append(f"gpu_memory_gb = {memory:g}")
    _assume(section, DEFAULTS, assumed)
    section["intra_server_gbps"] = 300.0
    return section


def _last_rack_smaller(gpus: int, per_server: int) -> list[dict[str, int]]:
    """Servers for exactly so many GPUs: the last one has what is left, and its rack as many servers as are left."""
    full, rest = divmod(gpus, per_server)
    return [{"count": full}] + [{"count": 1, "gpus_per_server": rest}] * (rest > 0)


def _guessed_size(log: JobLog) -> tuple[int, str]:
    largest = int(log.trace.frame["gpus"].max())  # type: ignore[arg-type]
    if log.has_waits:
        return max(log.most_busy(), largest), "as many as the log shows busy at once"
    mean = log.gpu_seconds() / max(log.span_s, 1.0)
    if ceil(mean / 0.75) < largest:
        return largest, "as many as the largest job asks for"
    return ceil(mean / 0.75), f"for a load of 0.75: jobs keep {mean:.0f} busy on average"
