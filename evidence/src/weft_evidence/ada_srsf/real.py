"""Ada-SRSF on real TCP: Figure 2(b), AdaDUAL beside its two extremes, and the whole stack, live, scaled down.

Rates and bytes are divided by one factor. On the testbed a transfer that waits keeps a fiftieth of its link, and agents
see how much a phase sends after three of them, so first iterations do not count where single ones are measured.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any, cast

import numpy as np

from weft import api
from weft.errors import InputError
from weft.model.cluster import Cluster
from weft.model.profile import Phase, Profile
from weft.network.topologies import build_cluster
from weft.policies.pace.base import Pace
from weft.stacks import resolve
from weft.stacks.registry import make
from weft.workload import zoo
from weft_evidence.ada_srsf.alone import ETA, B
from weft_evidence.allreduce_fit import Sample, fit_allreduce
from weft_evidence.real import Say, judged, row
from weft_live.agent.control import Control
from weft_live.agent.flowing import PAYLOAD
from weft_live.agent.plane import steers
from weft_live.engine import find
from weft_live.server.server import Server
from weft_live.testbed import replay
from weft_live.testbed.build import Testbed
from weft_live.testbed.jobs import Replay, Timing, play
from weft_live.testbed.keeper import announce
from weft_live.testbed.plan import blueprint
from weft_live.testbed.stillness import Undisturbed

NIC_GBPS = 10.0
SCALE = 50.0  # 10 Gbit/s are 200 Mbit/s
MBYTES = (50.0, 100.0)  # of an all-reduce; Figure 2(b) has the second
MOST = 4  # all-reduces at once
RATIOS = (16, 4)  # between the messages of two jobs
PACES = {"fair": "at once", "at-most:1": "in turn", "adadual": "by AdaDUAL"}
MODELS = ("vgg16@ada-srsf", "resnet50@ada-srsf", "inception-v3@ada-srsf", "lstm-ptb@ada-srsf")
# Live stacks that give whole GPUs: what each is called in the paper, and the headline claim that its row stands beside
WHOLE = "ada-srsf-whole"
OTHERS = (
    (f"{WHOLE}[pace=at-most:1]", "SRSF(1)", "table-v.saving-over-srsf-1"),
    (f"{WHOLE}[pace=at-most:2]", "SRSF(2)", "table-v.saving-over-srsf-2"),
    (f"{WHOLE}[place=random]", "RAND", "table-iv.saving-over-rand"),
    (f"{WHOLE}[place=first-fit]", "FF", "table-iv.saving-over-ff"),
)
_LEARN = 5  # iterations of a job before it counts
_SERVERS, _GPUS = 3, 2  # of the live stacks: two jobs of three GPUs meet on the server in the middle
_JOBS = 6
_PATIENCE_S = 300.0


def table(quick: bool, say: Say) -> list[dict[str, Any]]:
    """Published, simulated and real, with intervals over repetitions."""
    repetitions, still = 2 if quick else 3, Undisturbed(say)
    return [
        *judged(_contention(repetitions + 1, 16 if quick else 40, still), still),
        *_admission(repetitions, 10 if quick else 14, still),
        *_stacks(repetitions, still),
    ]


# Figure 2(b)


def _contention(repetitions: int, iterations: int, still: Undisturbed) -> list[dict[str, Any]]:
    """All-reduces of two nodes, several at once: what each takes, times what one alone takes; and eta over b."""
    took: dict[tuple[int, float], list[float]] = {}
    with _bed(2, MOST) as bed:
        for n in range(repetitions):
            still.say(f"on the testbed: figure 2(b), repetition {n + 1} of {repetitions}")
            for mbytes in MBYTES:
                for k in range(1, MOST + 1):
                    took.setdefault((k, mbytes), []).append(still.run(partial(_at_once, bed, k, mbytes, iterations)))
    mbytes = MBYTES[-1]
    rows = []
    for k in range(2, MOST + 1):
        times = [many / one for many, one in zip(took[k, mbytes], took[1, mbytes], strict=True)]
        what = f"figure 2(b): {k} all-reduces of {mbytes:g} MB at once, over one"
        rows.append(row(what, "times", k + (k - 1) * ETA / B, float(k), times, 0.0))
    etas = []
    for n in range(repetitions):
        fit = fit_allreduce([Sample(k, 1e6 * size, seconds[n]) for (k, size), seconds in took.items()])
        etas.append((fit.eta_s_per_byte or 0.0) / fit.b_s_per_byte)
    return [*rows, row("figure 2(b): eta over b, fitted to all of these", "", ETA / B, 0.0, etas, 0.0)]


def _at_once(bed: Testbed, k: int, mbytes: float, iterations: int) -> float:
    """Mean seconds of an all-reduce while k of them are repeated between the same two nodes."""
    profile = Profile.from_phases("all-reduce", [Phase(bytes=1e6 * mbytes)], 2)
    ran = play(bed, [Replay(str(j), profile, (0, 1), iterations) for j in range(k)], bed.folder).values()
    begin, end = max(each.rows[2, 1] for each in ran), min(each.rows[-1, 2] for each in ran)
    rows = np.concatenate([each.rows for each in ran])
    within = np.clip(np.minimum(rows[:, 2], end) - np.maximum(rows[:, 1], begin), 0.0, None)  # seconds of each
    return float(k * (end - begin) / (within / (rows[:, 2] - rows[:, 1])).sum())


# AdaDUAL beside sharing at once and sending in turn


def _admission(repetitions: int, iterations: int, still: Undisturbed) -> list[dict[str, Any]]:
    """Two jobs on the same two nodes, one with a much larger message: how much longer iterations are than alone."""
    rows = []
    with _bed(2, 2) as bed:
        cluster = _cluster(2, 2)
        for ratio in RATIOS:
            jobs = _two(ratio, iterations)
            alone = [profile.compute_s + profile.message_bytes / (NIC_GBPS * 1e9 / 8) for profile, _ in jobs]
            found: dict[str, list[float]] = {pace: [] for pace in PACES}
            for n in range(repetitions):
                still.say(f"on the testbed: messages {ratio} : 1, repetition {n + 1} of {repetitions}")
                for pace, times in found.items():
                    ran = still.run(partial(_paced, bed, cluster, jobs, pace))
                    means = [float(np.mean(each.iterations_s[_LEARN - 1 :])) for each in ran]
                    times.append(float(np.mean(np.divide(means, alone))))
            made = [
                row(
                    f"two jobs, messages {ratio} : 1, {words}: iterations over alone", "times", None,
                    _simulated(jobs, alone, pace), found[pace], 0.0,
                )
                for pace, words in PACES.items()
            ]  # fmt: skip
            rows += judged(made, still)
    return rows


def _two(ratio: int, iterations: int) -> list[tuple[Profile, int]]:
    """A job that sends 800 MB after 0.3 s, and one that sends a part of that after 0.2 s, about as long in all."""
    line, found = NIC_GBPS * 1e9 / 8, []
    first_s = 0.3 + 8e8 / line
    for compute_s, message in ((0.3, 8e8), (0.2, 8e8 / ratio)):
        profile = Profile.from_phases("two", [Phase(compute_s), Phase(bytes=message)], 2)
        found.append((profile, round(iterations * first_s / (compute_s + message / line))))
    return found


def _paced(bed: Testbed, cluster: Cluster, jobs: Sequence[tuple[Profile, int]], pace: str) -> list[Timing]:
    """Both jobs between the same two nodes; a pace that is more than TCP's own sharing has agents."""
    chosen, names = cast(Pace, make("pace", pace)), [f"job{j}" for j in range(len(jobs))]
    with ExitStack() as beside, tempfile.TemporaryDirectory(dir=bed.folder) as made:
        if steers(chosen):
            hosts = {host.name: bed.namespace(host.name) for host in bed.blueprint.hosts}
            control = beside.enter_context(Control(cluster, chosen, Path(made, "control"), hosts, SCALE, watch_s=0.005))
            control.wait()
            for j, name in enumerate(names):
                control.add(name, [server.gpus[j] for server in cluster.servers])
        replays = [Replay(name, profile, (0, 1), n) for name, (profile, n) in zip(names, jobs, strict=True)]
        found = play(bed, replays, Path(made, "jobs"), _PATIENCE_S)
    return [found[name] for name in names]


def _simulated(jobs: Sequence[tuple[Profile, int]], alone: Sequence[float], pace: str) -> float:
    """The same under max-min sharing."""
    rule = cast(Pace, make("pace", pace)).admission(1.0, 0.0)
    said: dict[str, Any] = {"kind": rule.kind}
    said |= {"k": rule.k} if rule.kind != "all" else {}
    said |= {"ratios": list(rule.ratios)} if rule.kind == "ratio" else {}
    links = ("node0", "node1")
    ran = api.replay(
        {
            "links": {name: {"gbps": NIC_GBPS} for name in links},
            "network": {"admission": said},
            "jobs": [
                {
                    "id": str(j), "iterations": n,
                    "phases": [
                        {"compute_s": profile.compute_s},
                        {"bytes": profile.message_bytes, "flows": dict.fromkeys(links, 1)},
                    ],
                }
                for j, (profile, n) in enumerate(jobs)
            ],
        }
    )  # fmt: skip
    return float(np.mean([ran["jobs"][str(j)]["iteration_s"]["mean"] / alone[j] for j in range(len(jobs))]))


# The whole stack, live


def _stacks(repetitions: int, still: Undisturbed) -> list[dict[str, Any]]:
    """Jobs submitted to a live server with the stack that gives whole GPUs, and with one layer of it replaced."""
    names = [WHOLE, *(stack for stack, _, _ in OTHERS)]
    real: dict[str, list[float]] = {name: [] for name in names}
    simulated: dict[str, list[float]] = {name: [] for name in names}
    with _bed(_SERVERS, _GPUS) as bed:
        for seed in range(repetitions):
            jobs = drawn(seed)
            for name in names:
                still.say(f"on the testbed: {name}, jobs {seed + 1} of {repetitions}")
                real[name].append(still.run(partial(live, bed, _cluster(_SERVERS, _GPUS), jobs, name)))
                simulated[name].append(_mean_jct_s(jobs, name))
    rows = []
    for name, words, claim in OTHERS:
        pairs = {where: list(zip(of[WHOLE], of[name], strict=True)) for where, of in (("r", real), ("s", simulated))}
        saved = {where: [100.0 * (1.0 - a / b) for a, b in both] for where, both in pairs.items()}
        what = f"whole GPUs, {_JOBS} jobs: mean JCT saved over {words}"
        rows.append({**row(what, "%", None, float(np.mean(saved["s"])), saved["r"]), "claim": claim})
    return judged(rows, still)


def drawn(seed: int) -> list[dict[str, Any]]:
    """Jobs of the paper's models on two or three GPUs, 4 to 10 s alone, that come within 4 s."""
    random, jobs = np.random.default_rng(seed), []
    for j, submit_s in enumerate(sorted(random.uniform(0.0, 4.0, _JOBS))):
        gpus, model = int(random.choice([2, 3, 3])), str(random.choice(MODELS))
        profile = zoo.profile(model, gpus)
        iteration_s = profile.compute_s + 2 * (gpus - 1) / gpus * profile.message_bytes / (NIC_GBPS * 1e9 / 8)
        iterations = int(random.uniform(4.0, 10.0) / iteration_s)
        jobs.append({"id": f"job{j}", "model": model, "gpus": gpus, "iterations": iterations, "submit_s": submit_s})
    return jobs


def _mean_jct_s(jobs: Sequence[Mapping[str, Any]], stack: str) -> float:
    """As simulated, on links that share max-min."""
    cluster = {
        "topology": "single-switch", "servers": _SERVERS, "gpus_per_server": _GPUS, "nic_gbps": NIC_GBPS, "gpu": "V100",
    }  # fmt: skip
    ran = api.simulate({"cluster": cluster, "workload": {"source": "jobs", "job": list(jobs)}}, stack=stack, seed=0)
    return float(np.mean(ran.jobs["jct_s"].to_numpy()))


def live(bed: Testbed, cluster: Cluster, jobs: Sequence[Mapping[str, Any]], stack: str) -> float:
    """Mean JCT of the jobs, submitted at their times to `weft serve --world testbed` in this process."""
    with tempfile.TemporaryDirectory(dir=bed.folder) as made:
        folder = Path(made)
        announce(folder, bed)
        with Server(folder, cluster, resolve(stack), engine=find("testbed", {}), say=lambda text: None) as serving:
            world: Any = serving.world
            serving.run(world.now() + 0.02)
            if world.control is not None:
                world.control.wait()
            begin = world.now()
            for job in jobs:
                serving.run(begin + job["submit_s"])
                serving.submit(_said(job, folder))
            until = time.monotonic() + _PATIENCE_S
            while not all(found.status for found in serving.ledger.jobs()):
                if time.monotonic() > until:
                    raise InputError(f"reproduce ada-srsf: jobs under {stack} did not end within {_PATIENCE_S:g} s")
                serving.run(world.now() + 0.05)
            ended = serving.ledger.jobs()
    if bad := [f"{found.id} {found.status}" for found in ended if found.status != "finished"]:
        raise InputError(f"reproduce ada-srsf: under {stack} {', '.join(bad)}; its log is lost, run it again")
    return float(np.mean([found.end_s - found.submit_s for found in ended if found.end_s is not None]))


def _said(job: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """A job as `weft submit` sends it: the iteration of its model is replayed, and it knows nothing of weft."""
    name, profile = job["id"], zoo.profile(job["model"], job["gpus"])
    played = Replay(name, profile, tuple(range(job["gpus"])), job["iterations"])
    how, servers = played.communicates()
    spec = folder / f"{name}.spec"
    told = {
        "name": name, "collective": how, "servers": servers, "tasks": played.tasks(SCALE), "jitter": 0.0, "seed": 0,
        "iterations": job["iterations"], "log": str(folder / f"{name}.log"),
    }  # fmt: skip
    spec.write_text(json.dumps(told), encoding="utf-8")
    return {
        "name": name, "argv": [sys.executable, "-I", "-S", str(Path(replay.__file__)), str(spec)], "cwd": "/",
        "env": {"PATH": os.environ.get("PATH", "/usr/bin:/bin")}, "gpus": job["gpus"], "per_rank": True,
        "iterations": job["iterations"], "model": job["model"], "grace_s": 2.0,
    }  # fmt: skip


def _cluster(servers: int, gpus: int) -> Cluster:
    return build_cluster(
        "single-switch", servers=servers, gpus_per_server=gpus, nic_gbps=NIC_GBPS / PAYLOAD, gpu="V100"
    )


def _bed(servers: int, gpus: int) -> Testbed:
    """Servers under one switch."""
    return Testbed(blueprint(_cluster(servers, gpus), SCALE))
