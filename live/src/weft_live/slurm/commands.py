"""Slurm's own commands, each with a time limit: the only way in which weft talks to Slurm."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass

from weft.errors import InputError
from weft.network.topologies.hostlist import compress

_LIMIT_S = 10.0
_PER_LINE_S = 0.1  # more for each line of a batch
_AT_ONCE = 4  # processes that carry out one batch
# What an operator has set for themselves would hide jobs, keep cancels from them, or write times in other words.
_ASKS_ELSE = re.compile(r"(SQUEUE|SINFO|SCANCEL|SACCT|SCONTROL|SSHARE|SDIAG)_|SLURM_(TIME_FORMAT|CLUSTERS)$")
_COMMANDS = ("squeue", "sinfo", "scontrol", "scancel")


class Unreachable(Exception):  # noqa: N818 - it passes
    """Slurm did not answer, or answered that it cannot now. It is asked again later."""


@dataclass(frozen=True, slots=True)
class Ended:
    """How a job ended, as the accounting tells."""

    state: str
    exit_code: int
    signal: int


def _code(text: str) -> tuple[int, int]:
    """`1:0`, an exit code and a signal."""
    match = re.fullmatch(r"(\d{1,5}):(\d{1,5})", text)
    return (int(match[1]), int(match[2])) if match else (0, 0)


class Slurm:
    """The client commands, of the cluster that SLURM_CONF or the machine's own configuration names."""

    def __init__(self, conf: str | None = None, limit_s: float = _LIMIT_S, path: str = "") -> None:
        self.limit_s = limit_s
        plain = {name: value for name, value in os.environ.items() if not _ASKS_ELSE.match(name)}
        whole = {"SLURM_BITSTR_LEN": "0"}  # arrays are listed whole, however long
        self._environment = {**plain, **whole, **({"SLURM_CONF": conf} if conf else {})}
        if path:
            self._environment["PATH"] = path
        # The limit holds even for a command whose weft has been killed meanwhile.
        self._limiter = [found, "-k", "1"] if (found := shutil.which("timeout")) else []

    def refuse_if_missing(self) -> None:
        """Raise if the commands are not there at all: that does not pass by itself."""
        for name in _COMMANDS:
            if shutil.which(name, path=self._environment.get("PATH")) is None:
                raise InputError(f"{name}: not found; install Slurm's client commands here, or serve --world local")

    # What is read

    def jobs(self) -> str:
        """Every job that the controller remembers, as JSON."""
        return self._ask("squeue", "--json", "--states=all")

    def completing(self) -> frozenset[str]:
        """Jobs whose processes are still being ended, by number; the JSON of older versions does not tell."""
        return frozenset(self._ask("squeue", "--noheader", "--states=COMPLETING", "--format=%A").split())

    def nodes(self) -> str:
        """Every node, as JSON."""
        return self._ask("sinfo", "--json")

    def topology(self, name: str = "") -> str:
        """Switches, one per line; "" where Slurm knows none. `name` is one of several topologies."""
        try:
            return self._ask("scontrol", "--oneliner", "show", "topology", *filter(None, [name]))
        except Unreachable as error:
            if "opology" in str(error):  # a plugin without switches says so, and that is an answer
                return ""
            raise

    def config(self) -> dict[str, str]:
        """What `scontrol show config` lists."""
        text = self._ask("scontrol", "show", "config")
        return dict(re.findall(r"^(\w+)\s*= (.*?)\s*$", text, re.MULTILINE))

    def up_s(self, ahead_s: float) -> float:
        """How long the controller has been up, given by how much its clock is ahead; a year if it does not say."""
        with suppress(ValueError, OverflowError):
            began = time.strptime(self.config().get("BOOT_TIME", ""), "%Y-%m-%dT%H:%M:%S")
            return time.time() + ahead_s - time.mktime(began)
        return 365 * 86400.0

    def silent(self, nodes: Iterable[str]) -> frozenset[str]:
        """The nodes among these that have not told the controller since its start what they run. Until a node does, the
        controller shows it as it was before, for half a minute even if the node is dead."""
        told = self._ask("scontrol", "--oneliner", "show", "node", compress(sorted(nodes)))
        return frozenset(re.findall(r"^NodeName=(\S+) .*\bSlurmdStartTime=(?:None|Unknown|N/A)\b", told, re.MULTILINE))

    def qos(self) -> str:
        """Every QOS with its limits and priority, as the controller has them; none where there is no accounting."""
        return self._ask("scontrol", "show", "assoc_mgr", "flags=qos")

    def shares(self) -> str:
        """Account, user, partition and fair-share factor of every association, one per line."""
        return self._ask("sshare", "--noheader", "--parsable2", "--all", "--format=Account,User,Partition,FairShare")

    def partitions(self) -> str:
        """Partitions, one per line."""
        return self._ask("scontrol", "--oneliner", "show", "partition")

    def ahead_s(self) -> float:
        """By how much the controller's clock is ahead of this machine's, in whole seconds; 0 if it does not tell."""
        try:
            told = re.search(r"output at .*\((\d{9,12})\)", self._ask("sdiag"))
        except Unreachable:
            return 0.0
        ahead = int(told[1]) - time.time() if told else 0.0
        return ahead if abs(ahead) > 2.0 else 0.0

    def accounting(self, keys: Iterable[str]) -> dict[str, Ended]:
        """How jobs ended, as sacct tells; nothing where there is no accounting, or where it does not know."""
        try:
            wanted = ("sacct", "-n", "-P", "-X", f"--jobs={','.join(sorted(keys))}", "--format=JobID,State,ExitCode")
            text = self._ask(*wanted)
        except Unreachable:
            return {}
        rows = (line.split("|") for line in text.splitlines())
        return {row[0]: Ended(row[1].split()[0], *_code(row[2])) for row in rows if len(row) == 3 and row[1]}

    def past(self, days: int = 30) -> list[list[str]]:
        """Jobs that ended lately, as sacct tells: name, user, resources, times, limit in minutes; none without
        accounting. Its lines are alike in all versions, its JSON is not."""
        form = "--format=JobID,User,AllocTRES,Submit,End,ElapsedRaw,TimelimitRaw"
        try:
            text = self._ask("sacct", "-n", "-P", "-X", "--allusers", f"--starttime=now-{days}days", form)
        except Unreachable:
            return []
        return [row for line in text.splitlines() if len(row := line.split("|")) == 7]

    # What is changed

    def scontrol(self, lines: Sequence[str]) -> str:
        """Run several commands of scontrol, in any order; returns its complaints, if any. A few processes share the
        commands, because each mostly waits for its answer."""
        if not lines:
            return ""
        limit_s = self.limit_s + _PER_LINE_S * len(lines)
        parts = ["".join(f"{line}\n" for line in lines[i::_AT_ONCE]) for i in range(min(_AT_ONCE, len(lines)))]
        if len(parts) == 1:
            return self._run(["scontrol"], limit_s, parts[0]).stderr
        with ThreadPoolExecutor(len(parts)) as pool:
            done = list(pool.map(lambda part: self._run(["scontrol"], limit_s, part), parts))
        return "".join(one.stderr for one in done)

    def cancel(self, jobs: Iterable[str]) -> None:
        """scancel; it is no error if the jobs have ended."""
        self._run(["scancel", *jobs], self.limit_s)

    def signal(self, name: str, jobs: Iterable[str]) -> None:
        """A signal to every process of jobs, their batch scripts too."""
        self._run(["scancel", "--full", f"--signal={name}", *jobs], self.limit_s)

    def _ask(self, *argv: str) -> str:
        done = self._run(argv, self.limit_s)
        if done.returncode != 0:
            words = " ".join(done.stderr.split()) or f"exit code {done.returncode}"
            raise Unreachable(f"{argv[0]}: {words}")
        return done.stdout

    def _run(self, argv: Sequence[str], limit_s: float, stdin: str | None = None) -> subprocess.CompletedProcess[str]:
        limiter = [*self._limiter, str(limit_s)] if self._limiter else []
        try:
            done = subprocess.run(
                [*limiter, *argv], input=stdin, stdin=subprocess.DEVNULL if stdin is None else None,
                capture_output=True, text=True, errors="replace", env=self._environment, timeout=limit_s + 2,
                check=False,
            )  # fmt: skip
        except OSError as error:
            raise Unreachable(f"{argv[0]}: {error}") from None
        except subprocess.TimeoutExpired:
            done = None
        if done is None or (done.returncode in (124, 137) and limiter):  # ended, or killed because it did not end
            raise Unreachable(f"{argv[0]}: no answer within {limit_s:g} s")
        return done
