"""Control: the agents of hosts on this machine, switch tables, and the conductor that gives the agents their orders.

They talk outside the network namespaces of the hosts: the control network is not the data network.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from weft.errors import InputError
from weft.model.cluster import Cluster
from weft.policies.pace.base import Pace
from weft_live.agent.conductor import Conductor, Owner
from weft_live.agent.fabric import Keepers, Kept, addresses
from weft_live.agent.service import AgentService
from weft_live.agent.switch import SwitchService, links_of
from weft_live.agent.trust import secret_of
from weft_live.agent.wire import Line


class Control:
    """Use it as a context; agents let go of everything when it ends, or when this process does.

    `hosts` are the names of hosts with their network namespaces ("" is this process's own). `alias` is the host that
    stands for all servers of the cluster, where these are pretended. Agents of other machines call at `listen`.
    `switches` are the addresses of `weft switch` processes that keep the load tables, separated by commas; without any
    this process does. `say` is told, once, what is wrong with agents that call.
    """

    def __init__(
        self, cluster: Cluster, pace: Pace, folder: Path, hosts: Mapping[str, str], scale: float = 1.0, *,
        slot_s: float = 0.06, watch_s: float = 0.03, alias: str = "", listen: str = "",
        switches: str = "", say: Callable[[str], None] = lambda text: None,
    ) -> None:  # fmt: skip
        self.folder, self.hosts, self.slot_s, self.watch_s = folder, hosts, slot_s, watch_s
        folder.mkdir(parents=True, exist_ok=True)
        self.secret = secret_of(folder)
        self.switches: SwitchService | None = None
        links, kept, keepers = links_of(cluster), Kept(), addresses(switches)
        if not keepers:
            near = f"{listen.rpartition(':')[0] or '127.0.0.1'}:0"
            self.switches = SwitchService(links, near, self.secret)
            kept = {self.switches.address: [link for mine in links.values() for link in mine]}
        self.conductor = Conductor(cluster, pace, scale, alias=alias)
        (folder / "agents.sock").unlink(missing_ok=True)
        address = listen or f"unix:{(folder / 'agents.sock').absolute()}"
        self.service = AgentService(self.conductor, address, self.secret, kept, say)
        self._keepers: Keepers | None = None
        if keepers and self.conductor.flowing is not None:
            lines = [Line(address, self.secret) for address in keepers]
            self._keepers = Keepers(lines, links, self.service.set_switches, self.service.say)
            self._keepers.start()
        self.agents: dict[str, subprocess.Popen[Any]] = {}
        for host in hosts:
            self.start(host)

    def start(self, host: str) -> None:
        """The agent of a host."""
        argv = [
            sys.executable, "-m", "weft", "agent", "--host", host, "--server", self.service.address, "--dir",
            str(self.folder), "--slot-ms", f"{1e3 * self.slot_s:g}", "--watch-ms", f"{1e3 * self.watch_s:g}",
            "--parent", str(os.getpid()),
            *(["--netns", self.hosts[host]] if self.hosts[host] else ["--near"]),
        ]  # fmt: skip
        with open(self.folder / "agents.log", "ab") as log:  # it may outlive the server, and must not hold its terminal
            self.agents[host] = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def mend(self) -> None:
        """Restart agents that have ended."""
        for host, agent in list(self.agents.items()):
            if agent.poll() is not None:
                self.start(host)

    def wait(self, patience_s: float = 120.0) -> None:
        """Wait until all agents are here."""
        until = time.monotonic() + patience_s
        while self.service.hosts != self.agents.keys():
            if time.monotonic() > until:
                missing = ", ".join(sorted(self.agents.keys() - self.service.hosts))
                raise InputError(f"the agents of {missing} did not come within {patience_s:g} s")
            time.sleep(0.05)

    def add(
        self, job: str, gpus: Sequence[int], gate: Mapping[str, float] | None = None, turn: float = 0.0,
        owner: Owner | None = None,
    ) -> None:  # fmt: skip
        """A job that is going to run on these GPUs, as the user of this process unless an owner is named."""
        with self.service.lock:
            self.conductor.add(job, gpus, gate, turn, owner=owner)
            self.service.change()

    def set_gate(self, job: str, gate: Mapping[str, float] | None) -> None:
        """Give a job another gate, or none."""
        with self.service.lock:
            self.conductor.set_gate(job, gate)
            self.service.change()

    def set_turns(self, turns: Mapping[str, float]) -> None:
        """By job, by what those that wait to send are ranked from now on: the least goes first."""
        with self.service.lock:
            self.conductor.set_turns(turns)

    def own_s(self, job: str) -> tuple[int, float]:
        """Phases of a job that agents have seen, and the seconds of one of its iterations."""
        with self.service.lock:
            return self.conductor.own_s(job)

    def absent(self, job: str) -> set[str]:
        """Hosts of a job whose agents are not here."""
        with self.service.lock:
            return self.conductor.hosts_of(job) - self.service.hosts

    def unpaced(self) -> set[tuple[str, str]]:
        """Jobs and hosts on which they have means of communication that nobody can pace."""
        with self.service.lock:
            return self.conductor.unpaced()

    def remove(self, job: str) -> None:
        """A job that has ended."""
        with self.service.lock:
            self.conductor.remove(job)
            self.service.change()
        if self.switches is not None:
            self.switches.forget(job)

    def close(self) -> None:
        """End the agents and the services."""
        for agent in self.agents.values():
            agent.send_signal(signal.SIGTERM)
        for agent in self.agents.values():
            try:
                agent.wait(5.0)
            except subprocess.TimeoutExpired:
                agent.kill()
                agent.wait()
        if self._keepers is not None:
            self._keepers.close()
        self.service.close()
        if self.switches is not None:
            self.switches.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()


def cpu_s(pid: int) -> float:
    """Seconds of a core that a process has used, with its children that have ended."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")
