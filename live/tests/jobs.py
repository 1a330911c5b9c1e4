"""Tiny real jobs: scripts that do nothing for a while and say how far they are."""

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import weft
from weft.core.cycle import Core
from weft.model.cluster import Cluster
from weft.model.job import Job
from weft.testing import toy_cluster
from weft_live.clock import Clock
from weft_live.description import Description
from weft_live.local import LocalWorld
from weft_live.server.snapshot import Saver, assembled

# Iterations of a given length, reported one by one, from the last checkpoint on.
LOOP = """
import sys, time, weft
seconds, steps = float(sys.argv[1]), int(sys.argv[2])
for step in range(weft.resume_step(), steps):
    weft.progress(step, wait=True)
    time.sleep(seconds)
weft.progress(steps)
"""

# Has done six iterations, and goes on until it is stopped; whatever is started in its place ends at once.
STAYS = """
import os, time, weft
weft.progress(6)
if os.environ["WEFT_ATTEMPT"] == "1": time.sleep(600)
"""

_WITNESS = """
import fcntl, os, sys, time, weft
log, steps = sys.argv[1], int(sys.argv[2])
def tell(word):
    with open(log, "a") as file: file.write(f"{word} {os.environ['WEFT_JOB']} {os.environ['WEFT_ATTEMPT']}\\n")
lock = open(f"{log}.{os.environ['WEFT_JOB'].partition('-')[0]}", "w")
try: fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
except BlockingIOError: tell("doubled")
tell("start")
for step in range(weft.resume_step(), steps):
    weft.progress(step)
    time.sleep(PAUSE)
while len(sys.argv) > 3 and not os.path.exists(sys.argv[3]): time.sleep(0.01)
tell("end")
"""

ENVIRONMENT = {**os.environ, "PYTHONPATH": str(Path(weft.__file__).parent.parent)}


def python(code: str, *args: object) -> tuple[str, ...]:
    """The command that runs this code."""
    return (sys.executable, "-S", "-c", code, *map(str, args))  # -S: starts faster, and these jobs need nothing else


def witness(pause_s: float) -> str:
    """Code that says when it starts and ends, and if another process of the same job is there; it reports iterations
    of this length, and then waits for a file if one is named."""
    return _WITNESS.replace("PAUSE", str(pause_s))


def describe(name: str, argv: Sequence[str], **more: object) -> Description:
    """A description with the environment of the tests."""
    return Description(**{"name": name, "argv": tuple(argv), "env": ENVIRONMENT, "grace_s": 2.0, **more})  # type: ignore[arg-type]


def looping(job: Job) -> Description:
    """A process that behaves as the job says."""
    command = python(LOOP, job.profile.compute_s, job.iterations)
    return describe(
        job.id, command, gpus=job.gpus, iterations=job.iterations, iteration_s=job.profile.compute_s,
        checkpoint_every=job.checkpoint_every,
    )  # fmt: skip


def local_world(folder: Path, jobs: Sequence[Job], cluster: Cluster | None = None) -> LocalWorld:
    """A world in which these jobs arrive at their times; it ends when they have."""
    world = LocalWorld(cluster or toy_cluster(), folder, Clock.begin())
    for job in jobs:
        world.submit(job, looping(job))
    return world


def whole(core: Core) -> dict[str, Any]:
    """All of a core, as a ledger would have it."""
    changes = Saver().changes(core)
    return assembled(changes.small, changes.jobs, changes.profiles)
