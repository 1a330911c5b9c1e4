"""Every option of sbatch, srun and salloc that has to do with GPUs: weft holds the job and knows how many GPUs it asks
for, or the hook refuses it in words, or the job takes none.

The options are those that `sbatch --help`, `srun --help`, `salloc --help` and the manual of Slurm 22.05 list, the
variables in their environment that stand for them, and the fields that `scontrol update` can change.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.conftest import missing_engine
from tests.live.slurm.conftest import OtherUser, for_others
from weft.live.server.profiles import Profiles
from weft.live.slurm.records import read_jobs, read_nodes
from weft.live.slurm.request import describe
from weft.live.slurm.sandbox import Sandbox, missing
from weft.live.slurm.setup import HOOK, hook
from weft.live.slurm.topology import read_cluster, unusable
from weft.testing import toy_cluster

pytestmark = pytest.mark.engine

WHOLE = "weft gives GPUs to one job at a time"
BATCH = "runs batch jobs"
SHARED = "weft gives whole GPUs"
TASKS = "say how many GPUs"
NONE = 0  # the job runs, and has no GPU

# What is typed, and the GPUs that weft knows it asks for while it holds the job (NONE: it runs without), or the words
# with which it is refused.
SBATCH: tuple[tuple[str, int | str], ...] = (
    ("--gpus=3", 3),
    ("-G3", 3),
    ("--gpus=0", NONE),
    ("--gpus-per-node=2 --nodes=2", 4),
    ("--gpus-per-node=tesla:2 --nodes=2", 4),  # a type: weft looks whether its nodes have it
    ("--gpus-per-task=2 --ntasks=3", 6),
    ("--gpus-per-task=2 --nodes=2 --ntasks-per-node=2", 8),
    ("--gpus-per-socket=1 --sockets-per-node=2", "does not plan --gpus-per-socket"),
    ("--gres=gpu", 1),
    ("--gres=gpu:2", 2),
    ("--gres=gpu:2 --nodes=2", 4),
    ("--gres=gres:gpu:2", 2),
    ("--gres=gpu:0", NONE),
    ("--gres=none", NONE),
    ("--gres=gpu:0,gpu:2", 2),
    ("--gres=GPU:1", "Invalid generic resource"),
    ("--gres=shard:1", SHARED),
    ("--gres=shard:0", NONE),
    ("--ntasks-per-gpu=1 --ntasks=8", 8),
    ("--ntasks-per-gpu=2 --ntasks=8", 4),
    ("--ntasks-per-tres=1 --ntasks=8", 8),  # its old name
    ("--ntasks-per-gpu=1 --nodes=2", 2),
    ("--ntasks-per-gpu=3 --ntasks=8", "multiple of"),
    ("--ntasks-per-gpu=1", "Invalid generic resource"),
    ("--ntasks-per-gpu=8 --ntasks=4", TASKS),
    ("--ntasks-per-gpu=2 --gpus=4", 4),
    ("--ntasks-per-gpu=2 --gres=gpu:2 --nodes=2", 4),
    ("--ntasks-per-gpu=2 --gpus=0 --ntasks=4", TASKS),
    ("--ntasks-per-gpu=1 --ntasks=8 --gres=shard:1", "Invalid generic resource"),
    ("--cpus-per-gpu=2", NONE),
    ("--cpus-per-gpu=2 --gpus=2", 2),
    ("--mem-per-gpu=1", "Invalid generic resource"),
    ("--mem-per-gpu=1 --gpus=2", 2),
    ("--gpu-bind=closest", NONE),
    ("--gpu-bind=single:2", NONE),
    ("--gpu-bind=map_gpu:0,1", NONE),
    ("--gpu-freq=low", NONE),
    ("--gres-flags=enforce-binding", NONE),
    ("--gres-flags=disable-binding", NONE),
    ("--exclusive", WHOLE),
    ("--exclusive=user", WHOLE),
    ("--exclusive=mcs", WHOLE),
    ("--exclusive --gpus=2", WHOLE),
    ("--oversubscribe", NONE),
    ("--partition=whole", WHOLE),
    ("--partition=train,whole", WHOLE),
    ("--partition=whole --gpus=1", WHOLE),
    ("--nodelist=n1", NONE),
    ("--nodes=2 --ntasks=128", NONE),
    ("--mem=0", NONE),
    ("--mincpus=64", NONE),
    ("--contiguous", NONE),
    ("--extra-node-info=2:2:1", NONE),
    ("--sockets-per-node=2 --cores-per-socket=4", NONE),
    ("--ntasks-per-socket=1 --ntasks=2", NONE),
    ("--hint=compute_bound", NONE),
    ("--overcommit", NONE),
    ("--licenses=solver", NONE),
    ("--switches=1", NONE),
    ("--array=0-1 --gpus=2", 2),
    ("--begin=tomorrow --gpus=2", 2),
    ("--hold --gpus=2", 2),
    ("--ntasks=1 : --gpus=1", BATCH),
    ("--gpus=1 : --ntasks=1", 1),  # weft says that it does not take jobs of several parts, and all of them wait
    ("--ntasks=1 : --ntasks=4 --ntasks-per-gpu=1", BATCH),
)
# The same in the environment; sbatch, salloc and srun read it under SBATCH_, SALLOC_ and SLURM_.
VARIABLES: tuple[tuple[str, str, int | str], ...] = (
    ("GPUS=3", "", 3),
    ("GPUS_PER_NODE=2", "--nodes=2", 4),
    ("GPUS_PER_TASK=2", "--ntasks=3", 6),
    ("GPUS_PER_SOCKET=1", "--sockets-per-node=2", "does not plan --gpus-per-socket"),
    ("GRES=gpu:2", "", 2),
    ("CPUS_PER_GPU=2", "", NONE),
    ("MEM_PER_GPU=1", "", "Invalid generic resource"),
    ("GPU_BIND=closest", "", NONE),
    ("GPU_FREQ=low", "", NONE),
    ("GRES_FLAGS=enforce-binding", "", NONE),
    ("EXCLUSIVE=user", "", WHOLE),
    ("PARTITION=whole", "", WHOLE),
)
# Steps within a job that has no GPUs.
STEPS = ("--gpus=1", "--gres=gpu:1", "--gpus-per-task=1", "--ntasks-per-gpu=1", "--overlap --gpus=1", "--exclusive")
# What a user may change about a job without GPUs that waits, in this partition or in another one.
CHANGES = (
    "Gres=gpu:8", "TresPerNode=gres:gpu:8", "TresPerJob=gres:gpu:8", "TresPerTask=gres:gpu:1",
    "TresPerSocket=gres:gpu:1", "Gres=shard:1", "OverSubscribe=NO", "CoreSpec=1", "ThreadSpec=1", "Partition=whole",
)  # fmt: skip
ELSEWHERE = ("--gpus=2", "--exclusive", "--ntasks-per-gpu=1 --ntasks=8", "--gres=shard:1")
SHOW = "scontrol -d show job $SLURM_JOB_ID"
NO_SRUN = ("--array", "--ntasks=1 :", "--gpus=1 :", "--begin", "--hold")


@dataclass(frozen=True)
class Case:
    """What somebody types, and what is to become of it."""

    command: str
    options: str
    becomes: int | str
    environment: Mapping[str, str] = field(default_factory=dict)
    script: str = SHOW

    def __str__(self) -> str:
        variables = [f"{name}={value}" for name, value in self.environment.items()]
        script = self.script.removesuffix(SHOW).replace("\n", " ")
        return " ".join(filter(None, [*variables, self.command, self.options, script]))


def cases() -> Iterator[Case]:
    """All of them. What sbatch takes for weft to hold, srun and salloc are refused; what has no GPU is not asked of
    all three."""
    for options, becomes in SBATCH:
        yield Case("sbatch", options, becomes)
        if becomes != NONE and not options.startswith(NO_SRUN):
            yield from (Case(command, options, refusal(becomes)) for command in ("srun", "salloc"))
    for prefix, command in (("SBATCH", "sbatch"), ("SALLOC", "salloc"), ("SLURM", "srun")):
        for variable, options, becomes in VARIABLES:
            name, _, value = variable.partition("=")
            told = becomes if command == "sbatch" else refusal(becomes)
            if command != "srun" or name != "CPUS_PER_GPU":  # srun makes a step, too, which Slurm refuses
                yield Case(command, options, told, {f"{prefix}_{name}": value})
    for name in ("SLURM_NTASKS_PER_GPU", "SLURM_NTASKS_PER_TRES"):  # sbatch does not read them
        yield Case("srun", "--ntasks=8", BATCH, {name: "1"})
        yield Case("sbatch", "--ntasks=8", NONE, {name: "1"})
    for options in STEPS:
        yield Case("sbatch", "", NONE, script=f"srun {options} true; {SHOW}")
    for directive, becomes in (("--ntasks-per-gpu=1\n#SBATCH --ntasks=4", 4), ("--gpus=2", 2), ("--exclusive", WHOLE)):
        yield Case("sbatch", "", becomes, script=f"#SBATCH {directive}\ntrue")


def refusal(becomes: int | str) -> int | str:
    """What srun and salloc are told."""
    return BATCH if isinstance(becomes, int) and becomes else becomes


CASES = {str(case): case for case in cases()}


class WithShards(Sandbox):
    """Two nodes with GPUs that may be shared, a partition of whole nodes, and one that weft does not serve."""

    def _write(self) -> None:
        super()._write()
        etc = self.conf.parent
        with open(etc / "gres.conf", "a", encoding="utf-8") as file:
            file.write("NodeName=n[1-2] Name=shard Count=32\n")
        (etc / HOOK).write_text(hook(("train", "whole"), {0}), encoding="utf-8")


MORE = """\
GresTypes=gpu,shard
NodeName=DEFAULT CPUs=64 Sockets=2 CoresPerSocket=32 ThreadsPerCore=1 RealMemory=1000 Gres=gpu:8,shard:32
PartitionName=whole Nodes=n[1-2] OverSubscribe=EXCLUSIVE
PartitionName=other Nodes=n[1-2]
"""


@pytest.fixture(scope="module")
def shards(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sandbox]:
    if why := missing():
        missing_engine(f"Slurm ({why})")
    with WithShards(tmp_path_factory.mktemp("shards"), 2, prolog=False, more=MORE) as box:
        yield box


@pytest.fixture(scope="module")
def somebody(shards: Sandbox) -> Iterator[OtherUser]:
    with for_others(shards) as user:
        yield user


@pytest.fixture(scope="module")
def submitted(somebody: OtherUser) -> dict[str, subprocess.CompletedProcess[str]]:
    """What Slurm said to each of them; they are submitted side by side."""

    def submit(case: Case) -> subprocess.CompletedProcess[str]:
        command = [case.command, *case.options.split()]
        if case.command == "sbatch":
            file = somebody.work / f"{abs(hash(str(case)))}.sh"
            file.write_text(f"#!/bin/sh\n{case.script}\n")
            command = ["sbatch", "--parsable", f"--output={somebody.work}/%j.out", *command[1:], str(file)]
        else:
            command += ["sh", "-c", case.script]
        return somebody.run(*command, environment=case.environment)

    with ThreadPoolExecutor(8) as pool:
        return dict(zip(CASES, pool.map(submit, CASES.values()), strict=True))


@pytest.mark.parametrize("name", CASES)
def test_no_way_to_ask_for_gpus_goes_past_weft(
    name: str, shards: Sandbox, somebody: OtherUser, submitted: Mapping[str, subprocess.CompletedProcess[str]]
) -> None:
    done, case = submitted[name], CASES[name]
    if isinstance(case.becomes, str):
        assert done.returncode != 0, done.stdout
        assert case.becomes in done.stderr
        return
    assert done.returncode == 0, done.stderr
    if case.becomes:
        key = done.stdout.strip()
        record = next(record for record in read_jobs(shards.slurm.jobs()) if record.number == key)
        assert (record.state, record.held, record.batch) == ("PENDING", True, True)
        assert describe(record, key, Profiles(toy_cluster())).gpus == case.becomes
        return
    shown = done.stdout if case.command != "sbatch" else told_in(somebody.work / f"{done.stdout.strip()}.out", shards)
    assert " CPU_IDs=" in shown
    assert "GRES=gpu" not in shown


def told_in(path: Path, box: Sandbox) -> str:
    """What a job wrote, once it has."""
    box.wait(lambda: path.exists() and "StdOut=" in path.read_text())
    return path.read_text()


@pytest.mark.parametrize("change", CHANGES)
def test_a_job_that_waits_is_given_no_gpus(change: str, somebody: OtherUser) -> None:
    plain = somebody.sbatch("--begin=tomorrow")
    assert somebody.run("scontrol", "update", f"JobId={plain}", change).returncode != 0


@pytest.mark.parametrize("options", ELSEWHERE)
def test_no_job_comes_from_another_partition(options: str, somebody: OtherUser) -> None:
    """Slurm does not tell the hook all that it had asked for there."""
    job = somebody.sbatch("--partition=other", "--begin=tomorrow", *options.split())
    done = somebody.run("scontrol", "update", f"JobId={job}", "Partition=train")
    assert done.returncode != 0


@pytest.mark.parametrize("options", ELSEWHERE)
def test_gpus_that_another_partition_takes_are_seen(options: str, shards: Sandbox, somebody: OtherUser) -> None:
    """weft places nothing on that node until the job is over, however it came by its GPUs."""
    cluster = read_cluster(shards.slurm, frozenset({"train"}))
    job = somebody.sbatch("--partition=other", *options.split(), script="sleep 600")

    def taken() -> Mapping[int, str]:
        jobs = {record.key: record for record in read_jobs(shards.slurm.jobs())}
        return unusable(cluster, {node.name: node for node in read_nodes(shards.slurm.nodes())}, jobs, set())

    try:
        shards.wait(lambda: bool(taken()))
        assert set(taken().values()) == {f"job {job}, which weft did not start, has GPUs of it"}
    finally:
        somebody.run("scancel", job)
        shards.wait(lambda: not taken())
