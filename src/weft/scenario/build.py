"""From what a scenario says to what runs: the cluster, the jobs, the stack. Errors name the scenario's file."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from functools import cache, cached_property
from math import ceil, inf
from re import sub
from typing import Any

from weft.errors import InputError, ScenarioError
from weft.model.cluster import Cluster
from weft.model.job import Job
from weft.model.profile import Profile
from weft.model.units import GB, gbps_to_bytes_per_s
from weft.model.view import Spread
from weft.network.cost import CostModel
from weft.network.estimates import Estimates
from weft.network.topologies import Cable, Machine, Via
from weft.network.topologies import build_cluster as build_topology
from weft.network.topologies.build import check_nvlinks, machine_of
from weft.network.topologies.files import read_topology
from weft.policies.order.limited import Limits
from weft.scenario.costs import build_cost
from weft.scenario.problems import near, quoted
from weft.scenario.run_section import OutageRow
from weft.scenario.scenario import Scenario
from weft.scenario.sections import NetworkSection
from weft.sim.failures import FAILURES, FailureSpec
from weft.sim.spec import CrossTraffic, Foreign, NetworkSpec, RunSpec, estimates
from weft.stacks import Stack, default_stack, resolve
from weft.stacks.registry import files_from
from weft.workload import zoo
from weft.workload.generators import Workload, generate
from weft.workload.generators.draft import sharing
from weft.workload.zoo.names import has_layout


@dataclass(frozen=True)
class Layers:
    """A stack by name, and layers that replace its own; None leaves the choice to the scenario."""

    stack: str | None = None
    order: str | None = None
    place: str | None = None
    interleave: str | None = None
    pace: str | None = None
    route: str | None = None


@dataclass(frozen=True)
class Experiment:
    """What a scenario comes to at a seed: all that a run is made of."""

    scenario: Scenario
    seed: int
    stack: Stack
    cluster: Cluster
    network: NetworkSpec
    run: RunSpec

    @cached_property
    def workload(self) -> Workload:
        """The jobs, drawn when they are asked for."""
        return build_workload(self.scenario, self.cluster, self.seed, self.network)


def build(scenario: Scenario, seed: int | None = None, stack: Layers | Stack | None = None) -> Experiment:
    """What a scenario comes to, at its own seed and with its own stack or at others. What cannot run is refused."""
    seed = scenario.run.seed if seed is None else seed
    made = stack if isinstance(stack, Stack) else build_stack(scenario, stack or Layers())
    cluster = build_cluster(scenario, seed)
    check(scenario, cluster)
    return Experiment(scenario, seed, made, cluster, *physics(scenario, seed))


@contextmanager
def located(where: str) -> Iterator[None]:
    """Put the file's name in front of errors raised inside."""
    try:
        yield
    except InputError as error:
        text = str(error)
        raise error if text.startswith(where) else type(error)(f"{where}: {text}") from None


def build_stack(scenario: Scenario, layers: Layers) -> Stack:
    """The stack: the one named in `layers`, or the scenario's, with single layers replaced.

    A file with a policy is looked for in the working folder, or else beside the scenario.
    """
    with files_from(scenario.folder):
        return within_limits(_stack(scenario, layers), scenario)


def within_limits(stack: Stack, scenario: Scenario) -> Stack:
    """The stack with the scenario's limits, if there are any."""
    limits = _limits(scenario)
    if limits is None:
        return stack
    with located(scenario.where):
        return replace(stack, planner=stack.planner.limited(limits))


def _limits(scenario: Scenario) -> Limits | None:
    return None if scenario.limits is None else Limits(**scenario.limits.model_dump())


def _stack(scenario: Scenario, layers: Layers) -> Stack:
    asked = (layers.order, layers.place, layers.interleave, layers.pace, layers.route)
    if layers.stack is not None:
        return resolve(layers.stack, *asked)
    section = scenario.stack
    if section is None:
        return resolve(default_stack(), *asked)
    own = (section.order, section.place, section.interleave, section.pace, section.route)
    with located(f"{scenario.where}: stack"):
        resolve(section.name, *own)  # so that an error in the file is not blamed on the options
    return resolve(section.name, *(b if a is None else a for a, b in zip(asked, own, strict=True)))


class _Speeds:
    """How fast models are on one type of GPU, each asked for once."""

    def __init__(self, scenario: Scenario, cluster: Cluster, alone: Estimates, gpu: str) -> None:
        self.gpu = gpu
        self._scenario, self._cluster, self._alone = scenario, cluster, alone
        self.profile_of = cache(self._profile_of)
        self._with_batch = cache(self._of_batch)

    def _profile_of(self, model: str, gpus: int) -> Profile:
        scenario = self._scenario
        name = zoo.in_folder(model, scenario.folder)
        return zoo.profile(name, gpus, gpu=self.gpu, overlap=scenario.workload.overlap)

    def _of_batch(self, name: str, gpus: int, batch: int | None) -> Profile:
        name = sub(r"\bbatch=\d+", f"batch={batch}", name) if batch else name  # a batch size in the name comes first
        return zoo.profile(name, gpus, batch=batch, gpu=self.gpu, overlap=self._scenario.workload.overlap)

    def rescaled(self, model: str, gpus: int, asked: int, share: float | None) -> Profile:
        """An iteration at another size than the one asked for."""
        limits = self._scenario.workload.elastic_batch
        name, batch = zoo.in_folder(model, self._scenario.folder), self.profile_of(model, asked).batch
        replicas = zoo.replicas(name, gpus)
        if share is None or replicas != gpus:  # the batch of a replica of several GPUs is left alone
            share = zoo.replicas(name, asked) / replicas
            if limits is not None:
                share = min(max(share, limits[0]), limits[1])
        return self._with_batch(name, gpus, max(1, round(batch * share)) if batch else None)

    def iteration_s(self, model: str, gpus: int, cap: float | None = None) -> float:
        """Seconds of an iteration on as few servers as can hold it, if it sends at most that through a NIC."""
        spread = Spread(ceil(gpus / self._cluster.of_type(self.gpu).largest_server), 1)
        profile = sharing(self.profile_of(model, gpus), 1, cap)
        return self._alone.of(profile, model, spread, self.gpu).iteration_s


def build_workload(
    scenario: Scenario, cluster: Cluster, seed: int, network: NetworkSpec | None = None
) -> Workload:  # fmt: skip
    """The jobs, the same for every stack at a seed, and notes about where they come from.

    Arrivals by load and iterations from durations need to know how long an iteration takes: alone on the network, on
    as few servers as can hold it. A run passes the `network` that it simulates, whose cost model is then asked once.
    """
    network = network or physics(scenario, seed)[0]
    with located(scenario.where):
        alone = estimates(cluster, network)

    first, *others = (_Speeds(scenario, cluster, alone, gpu) for gpu in cluster.gpu_types)
    with located(scenario.where):
        workload = generate(
            scenario.workload, cluster.n_gpus, cluster.gpu_types[0], first.profile_of, seed, scenario.folder,
            first.iteration_s, first.rescaled,
            {other.gpu: (other.profile_of, other.iteration_s, other.rescaled) for other in others},
            lambda each, gpus: _fits(cluster, each, gpus),
        )  # fmt: skip
        if (every_s := scenario.run.checkpoint_s) is not None:
            workload = replace(workload, jobs=[
                replace(job, checkpoint_every=max(1, round(every_s / alone_s)))
                for job in workload.jobs
                for alone_s in [first.iteration_s(job.model, job.gpus, job.profile.nic_bytes_per_s)]
            ])  # fmt: skip
        if "collective" in scenario.network.model_fields_set and (note := _unused(workload.jobs)):
            workload = replace(workload, notes=(*workload.notes, note))
        _check_jobs(workload, cluster, network.cost)
        _check_limits(workload, _limits(scenario))
        _check_outages(scenario.run.outages, [server.name for server in cluster.servers])
    return workload


def _unused(jobs: Sequence[Job]) -> str:
    """What to tell of network.collective, where there are jobs that it is not for."""
    own = sorted({job.model for job in jobs if has_layout(job.model)})
    if not own:
        return ""
    more = f" and {len(own) - 1} more" * (len(own) > 1)
    return (
        f"network.collective is not for {own[0]}{more}: a named layout says of each transfer how it is sent, and "
        "sums go in rings"
    )


def _check_outages(outages: Sequence[OutageRow], servers: Sequence[str]) -> None:
    for row in outages:
        if row.server not in servers:
            raise ScenarioError(
                f"run.outages: there is no server {row.server}; there are {', '.join(servers[:5])}, ..."
            )


def _check_jobs(workload: Workload, cluster: Cluster, cost: CostModel | None) -> None:
    """Refuse a model that fits into no GPU and would wait for ever, and one that the cost model does not know."""
    for job in workload.jobs:
        if cost is not None:
            cost.check(job.model)
        if not cluster.alike:
            _check_type(job, cluster)
        if job.per_server and not _fits(cluster, job.per_server, job.gpus):
            n = job.gpus // job.per_server
            raise ScenarioError(
                f"workload.trace_shapes: job {job.id} needs {n} {'server' if n == 1 else 'servers'} with "
                f"{job.per_server} GPUs for itself, which the cluster does not have; enlarge it, set oversize to "
                '"leave-out", or set trace_shapes to false'
            )
        if job.memory_bytes > cluster.gpu_memory_bytes:
            needs, there = job.memory_bytes / GB, cluster.gpu_memory_bytes / GB
            raise ScenarioError(
                f"workload.models: {job.model} on {job.gpus} GPUs needs {needs:.3g} GB of each, they have {there:g}; "
                "leave it out, or raise cluster.gpu_memory_gb"
            )


def _fits(cluster: Cluster, each: int, gpus: int) -> bool:
    """Whether a job with `each` workers on each of its servers fits into the empty cluster."""
    return int((cluster.gpus_per_server >= each).sum()) * each >= gpus


def _check_type(job: Job, cluster: Cluster) -> None:
    types = (job.gpu,) if job.gpu else cluster.gpu_types
    room = max(int(cluster.suited(name, job.memory_bytes).sum()) for name in types)
    if job.gpus > room:
        raise ScenarioError(
            f"workload: job {job.id} wants {job.gpus} GPUs of type {' or '.join(types)} with "
            f"{job.memory_bytes / GB:.3g} GB; there are {room} of one type; make it smaller, or enlarge that group"
        )


def _check_limits(workload: Workload, limits: Limits | None) -> None:
    for job in workload.jobs if limits is not None else ():
        if limits is not None and (why := limits.held(()).refuses(job, job.gpus)):
            raise ScenarioError(f"limits: job {job.id} wants {job.gpus} GPUs and can never start: {why}; raise that")


def physics(scenario: Scenario, seed: int) -> tuple[NetworkSpec, RunSpec]:
    """The physics and the circumstances, as the simulator takes them."""
    section = scenario.network
    plain = section.model_dump(include={f.name for f in fields(NetworkSpec)} - {"cost", "foreign", "cross_traffic"})
    with located(scenario.where), located("network"):
        cost = build_cost(section, scenario.folder)
    network = NetworkSpec(**plain, cost=cost, foreign=_foreign(section), cross_traffic=_cross_traffic(section))
    run = scenario.run
    outages = tuple((row.server, row.at_s, row.for_s) for row in run.outages)
    failures = (
        FAILURES[run.failures]
        if isinstance(run.failures, str)
        else run.failures and FailureSpec(**run.failures.model_dump())
    )
    plain = run.model_dump(exclude={"checkpoint_s"})
    return network, RunSpec(**{**plain, "outages": outages, "failures": failures, "seed": seed})


def _foreign(section: NetworkSection) -> tuple[Foreign, ...]:
    return tuple(
        Foreign(row.src, row.dst, row.start_s, inf if row.end_s is None else row.end_s, _bytes_per_s(row.gbps))
        for row in section.foreign
    )


def _cross_traffic(section: NetworkSection) -> CrossTraffic | None:
    drawn = section.cross_traffic
    if drawn is None:
        return None
    return CrossTraffic(drawn.every_s, drawn.seconds[0], drawn.seconds[1], _bytes_per_s(drawn.gbps))


def _bytes_per_s(gbps: float | None) -> float:
    return inf if gbps is None else gbps_to_bytes_per_s(gbps)


def check(scenario: Scenario, cluster: Cluster) -> None:
    """Refuse, before anything is drawn, a size that the cluster cannot hold or an unknown model or server."""
    spec = scenario.workload
    largest = max(spec.drawn_sizes, default=1)
    if largest > cluster.n_gpus:
        raise ScenarioError(
            f"{scenario.where}: workload.gpus has jobs of {largest} GPUs, the cluster has {cluster.n_gpus}; "
            "remove that size or enlarge the cluster"
        )
    _check_foreign(scenario, cluster)
    models = spec.named_models
    if not all(map(zoo.is_path, models)):  # model files may name any GPU
        with located(f"{scenario.where}: cluster.gpu"):
            for gpu in cluster.gpu_types:
                zoo.find_gpu(gpu)
    with located(f"{scenario.where}: workload.models"):
        for model in models:
            zoo.check(zoo.in_folder(model, scenario.folder))


def _check_foreign(scenario: Scenario, cluster: Cluster) -> None:
    names = [server.name for server in cluster.servers]
    for i, row in enumerate(scenario.network.foreign):
        for end in ("src", "dst"):
            name = getattr(row, end)
            if name not in names:
                guess = near(name, names) or f"{names[0]} to {names[-1]}"
                raise ScenarioError(
                    f"{scenario.where}: network.foreign[{i}].{end} is {quoted(name)}, which is no server; "
                    f"did you mean {guess}?"
                )
    if scenario.network.cross_traffic is not None and len(names) < 2:
        raise ScenarioError(f"{scenario.where}: network.cross_traffic needs two servers; enlarge the cluster")


def build_cluster(scenario: Scenario, seed: int | None = None) -> Cluster:
    """The cluster; equal-cost routes are drawn from the run's seed."""
    section = scenario.cluster
    seed = scenario.run.seed if seed is None else seed
    if section.file is not None:
        return _from_file(scenario, section.file, seed)
    given = section.model_dump(exclude_unset=True, exclude={"topology", "links", "routes", "uplink_gbps", "group"})
    given = _with_memory(given)
    with located(scenario.where):
        return build_topology(
            section.topology,
            links=None if section.links is None else [Cable(r.a, r.b, r.gbps, r.tier) for r in section.links],
            routes=None if section.routes is None else [Via(r.src, r.dst, tuple(r.via)) for r in section.routes],
            group=None
            if section.group is None
            else [_with_memory(r.model_dump(exclude_none=True), section.gpu_memory_gb) for r in section.group],
            uplink_gbps=None if section.uplink_gbps is None else (section.uplink_gbps[0], section.uplink_gbps[1]),
            seed=seed,
            **given,
        )


def _with_memory(machine: dict[str, Any], stated: float | None = None) -> dict[str, Any]:
    """A machine that names its GPU type, with the memory stated for all, or else that of its data sheet, if it does not
    say how much it has."""
    if machine.get("gpu") is None or machine.get("gpu_memory_gb") is not None or "preset" in machine:
        return machine
    if stated is not None:
        return {**machine, "gpu_memory_gb": stated}
    try:
        return {**machine, "gpu_memory_gb": zoo.find_gpu(machine["gpu"]).memory_gb}
    except InputError:  # a model file may time a type that the zoo does not know
        return machine


def _from_file(scenario: Scenario, file: str, seed: int) -> Cluster:
    """The cluster of a topology.conf or a node/rack table, whose name is relative to the scenario's folder."""
    known = {f.name for f in fields(Machine)}
    given = _with_memory(scenario.cluster.model_dump(exclude_unset=True, exclude={"topology", "file"}))
    network = {name: given.pop(name) for name in ("oversubscription", "spines") if name in given}
    with located(scenario.where):
        for name in given:
            if name not in known and name != "preset":
                raise ScenarioError(f"cluster.{name} has no meaning beside a file; leave it out")
        if isinstance(network.get("oversubscription"), list):
            raise ScenarioError("cluster.oversubscription is a list, which only rails take; give one number")
        asked = dict(given)
        machine = machine_of(given, Machine())
        return check_nvlinks(read_topology(scenario.folder / file, machine, seed=seed, **network), asked)
