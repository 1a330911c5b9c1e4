"""All-reduces that nccl-tests timed on machines of several clouds, beside what weft says of the same messages.

A bus bandwidth is 2 (n - 1) / n of the message over the time, for n GPUs: what a ring would send over each link. weft
builds the servers from what their vendors say, joins them by one switch, and plays the all-reduce that NCCL would
choose, or the one that a run was held to. Nothing is fitted, and no message has a latency. Sources and figures lie in
nccl.toml, which comes with weft; `--data` names a folder of other files of the same form."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from dataclasses import fields
from importlib.resources import files
from pathlib import Path
from typing import Any

from weft.errors import InputError
from weft.model.profile import Profile, Transfer
from weft.network.iteration import play_on
from weft.network.topologies import Machine, single_switch
from weft_evidence.measured import Row, Say

TITLE = "Bus bandwidth of all-reduces by nccl-tests"
SOURCE = "outputs of nccl-tests that Oracle, AWS and users of NCCL published"
OWN = True  # the data comes with this module
CONSTANTS: dict[str, float] = {}
LARGE = 1 << 30  # from so many bytes on, latency no longer counts


def rows(folder: Path | None, say: Say) -> Iterator[Row]:
    """A row for each message of each run."""
    for where, text in _texts(folder):
        for run in _runs(where, text):
            for size, busbw in run["rows"]:
                kind = "1 GiB and more" if size >= LARGE else "16 to 512 MiB"
                yield Row(f"{run['id']}.{size >> 20}MiB", kind, "GB/s", busbw, bus_gb_s(run, size))


def bus_gb_s(run: dict[str, Any], size: float) -> float:
    """What weft says for a message of so many bytes."""
    machine = Machine(**run["machine"])
    n = int(run["servers"]) * machine.gpus_per_server
    profile = Profile("all-reduce", (Transfer("all-reduce", float(size)),), n)
    cluster = single_switch(run["servers"], machine)
    seconds = play_on(cluster, profile, tuple(range(n)), run.get("collective", "nccl")).seconds
    return 2 * (n - 1) / n * size / seconds / 1e9


def _texts(folder: Path | None) -> list[tuple[str, str]]:
    if folder is None:
        return [("nccl.toml", files("weft_evidence.measured").joinpath("nccl.toml").read_text("utf-8"))]
    found = sorted(folder.glob("*.toml"))
    if not found:
        raise InputError(f"validate nccl: {folder} has no .toml; give a folder that has some")
    return [(str(path), path.read_text("utf-8")) for path in found]


def _runs(where: str, text: str) -> list[dict[str, Any]]:
    try:
        runs = tomllib.loads(text)["run"]
        for run in runs:
            unknown = {*run["machine"]} - {field.name for field in fields(Machine)}
            if unknown:
                raise InputError(f"{where}: run {run['id']} has machine.{min(unknown)}, which no machine has")
            if not (run["rows"] and run["servers"] >= 1 and all(min(size, rate) > 0 for size, rate in run["rows"])):
                raise InputError(f"{where}: run {run['id']} needs servers and rows of [bytes, GB/s], all more than 0")
    except (tomllib.TOMLDecodeError, KeyError, TypeError, ValueError) as error:
        raise InputError(f"{where}: no runs of nccl-tests ({error}); nccl.toml in weft shows the form") from error
    return list(runs)
