"""Every option of sbatch, srun and salloc that has to do with GPUs: weft holds the job and knows how many GPUs it asks
for, or the hook refuses it in words, or the job takes none.

The options are those that `sbatch --help`, `srun --help`, `salloc --help` and the manual of Slurm 22.05 list, and what
24.11 and 26.05 have beyond them; the variables in their environment that stand for them; and the fields that `scontrol
update` can change.
"""

import json
import subprocess
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import pytest

from live.tests.slurm.conftest import OtherUser, for_others
from testkit.engines import missing_engine
from testkit.sandbox import Sandbox, missing, release
from weft.model.reason import speak
from weft.testing import toy_cluster
from weft_live.server.profiles import Profiles
from weft_live.slurm.records import read_jobs, read_nodes
from weft_live.slurm.request import describe, on_fewest_nodes
from weft_live.slurm.setup import HOOK, hook
from weft_live.slurm.topology import read_cluster, unusable

pytestmark = pytest.mark.engine

WHOLE = "weft gives GPUs to one job at a time"
BATCH = "runs batch jobs"
REFUSED_SINCE = ("Invalid generic resource", "Invalid Trackable RESource")  # what 22.05 takes and newer ones do not
SINCE = {"--tres-per-task": 23, "--tres-bind": 23, "--segment": 24, "--spread-segments": 26}  # unknown before
NONE = 0  # the job runs, and has no GPU

# What is typed, and the GPUs that weft knows it asks for while it holds the job (NONE: it runs without), or the words
# with which it is refused.
SBATCH: list[tuple[str, int | str]] = []
for line in Path(__file__).with_name("ways_to_gpus.tsv").read_text().splitlines()[2:]:
    typed, becomes, *_ = line.split("\t")
    SBATCH.append((typed, int(becomes) if becomes.isdigit() else becomes))
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


class Became(NamedTuple):
    """What became of it: what Slurm answered, and what the job has (as it says itself) or what weft takes it for."""

    code: int
    said: str  # to its user
    held: int = -1  # GPUs that weft knows it asks for, while it holds the job
    has: str = ""


@pytest.fixture(scope="session")
def became(made_once: Callable[[str, Callable[[Path], None]], Path]) -> dict[str, Became]:
    """All of them on one Slurm, whichever processes run the tests."""
    if why := missing():
        missing_engine(f"Slurm ({why})")
    told = json.loads((made_once("ways", try_all) / "became.json").read_text(encoding="utf-8"))
    return {name: Became(*fields) for name, fields in told.items()}


def try_all(folder: Path) -> None:
    """Everything is submitted side by side; GPUs that are taken elsewhere are looked at when the rest is done."""
    with WithShards(folder / "slurm", 2, prolog=False, more=MORE) as box, for_others(box) as user:
        with ThreadPoolExecutor(6) as pool:
            answers = dict(zip(CASES, pool.map(lambda case: submit(user, case), CASES.values()), strict=True))
            changes = dict(zip(CHANGES, pool.map(lambda change: changed(user, change), CHANGES), strict=True))
            moves = dict(zip(ELSEWHERE, pool.map(lambda options: moved(user, options), ELSEWHERE), strict=True))
        found = {name: outcome(box, user, CASES[name], done) for name, done in answers.items()} | changes | moves
        found |= {f"taken by {options}": taken(box, user, options) for options in ELSEWHERE}
    (folder / "became.json").write_text(json.dumps(found), encoding="utf-8")


def submit(user: OtherUser, case: Case) -> subprocess.CompletedProcess[str]:
    command = [case.command, *case.options.split()]
    if case.command == "sbatch":
        file = user.work / f"{abs(hash(str(case)))}.sh"
        file.write_text(f"#!/bin/sh\n{case.script}\n")
        command = ["sbatch", "--parsable", f"--output={user.work}/%j.out", *command[1:], str(file)]
    else:
        command += ["sh", "-c", case.script]
    return user.run(*command, environment=case.environment)


def outcome(box: Sandbox, user: OtherUser, case: Case, done: subprocess.CompletedProcess[str]) -> Became:
    """A job that its user was given is held, or it runs, and then it says what it has."""
    if done.returncode != 0 or case.command != "sbatch":
        return Became(done.returncode, done.stderr, has=done.stdout)
    key = done.stdout.strip()
    record = next((record for record in read_jobs(box.slurm.jobs()) if record.number == key), None)
    if record is not None and record.pending and record.held and record.batch:  # Slurm soon forgets one that ran
        asked = on_fewest_nodes(record, read_nodes(box.slurm.nodes()))
        return Became(0, done.stderr, describe(asked, key, Profiles(toy_cluster())).gpus)
    path = user.work / f"{key}.out"
    box.wait(lambda: path.exists() and "StdOut=" in path.read_text())
    return Became(0, done.stderr, has=path.read_text())


def changed(user: OtherUser, change: str) -> Became:
    plain = user.sbatch("--begin=tomorrow")
    done = user.run("scontrol", "update", f"JobId={plain}", change)
    return Became(done.returncode, done.stderr)


def moved(user: OtherUser, options: str) -> Became:
    job = user.sbatch("--partition=other", "--begin=tomorrow", *options.split())
    done = user.run("scontrol", "update", f"JobId={job}", "Partition=train")
    return Became(done.returncode, done.stderr)


def taken(box: Sandbox, user: OtherUser, options: str) -> Became:
    """Why nothing can be placed on a node while a job of another partition runs there; it has ended then."""
    cluster = read_cluster(box.slurm, frozenset({"train"}))
    job = user.sbatch("--partition=other", *options.split(), script="sleep 600")

    def words() -> list[str]:
        jobs = {record.key: record for record in read_jobs(box.slurm.jobs())}
        nodes = {node.name: node for node in read_nodes(box.slurm.nodes())}
        return list(map(speak, unusable(cluster, nodes, jobs, set()).values()))

    box.wait(lambda: bool(words()))
    found = words()
    user.run("scancel", job)
    box.wait(lambda: not words())
    return Became(0, " ".join(found).replace(job, "JOB"))


@pytest.mark.parametrize("name", CASES)
def test_no_way_to_ask_for_gpus_goes_past_weft(name: str, became: Mapping[str, Became]) -> None:
    case, found = CASES[name], became[name]
    if release() > (23,) and found.code and any(words in found.said for words in REFUSED_SINCE):
        return  # by Slurm itself, before the hook is asked
    if release()[0] < max(SINCE.get(word.partition("=")[0], 0) for word in ["", *case.options.split()]):
        assert "unrecognized option" in found.said
    elif isinstance(case.becomes, str):
        assert found.code != 0, found
        assert case.becomes in found.said
    elif case.becomes:
        assert (found.code, found.held) == (0, case.becomes), found
    else:
        assert found.code == 0, found
        assert " CPU_IDs=" in found.has
        assert "GRES=gpu" not in found.has


@pytest.mark.parametrize("change", CHANGES)
def test_a_job_that_waits_is_given_no_gpus(change: str, became: Mapping[str, Became]) -> None:
    assert became[change].code != 0


@pytest.mark.parametrize("options", ELSEWHERE)
def test_no_job_comes_from_another_partition(options: str, became: Mapping[str, Became]) -> None:
    """Slurm does not tell the hook all that it had asked for there."""
    assert became[options].code != 0


@pytest.mark.parametrize("options", ELSEWHERE)
def test_gpus_that_another_partition_takes_are_seen(options: str, became: Mapping[str, Became]) -> None:
    """weft places nothing on that node until the job is over, however it came by its GPUs."""
    assert became[f"taken by {options}"].said == "job JOB, which weft did not start, uses its GPUs"
