"""TestbedWorld: jobs of `weft serve` as processes in the namespaces of a testbed that is up."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from weft.errors import InputError
from weft.model.cluster import Cluster
from weft.policies.pace.base import Pace
from weft_live.agent.control import Control
from weft_live.agent.worlds import PacedLocalEngine, PacedWorld
from weft_live.clock import Clock
from weft_live.engine import Site
from weft_live.local import LocalTask, LocalWorld
from weft_live.testbed.keeper import Standing, standing

_ENTER = Path(__file__).with_name("enter.py")


class TestbedWorld(PacedWorld):
    """A local world whose ranks run on the hosts of a testbed, over its links."""

    __test__ = False  # pytest must not collect it
    name = "testbed"

    def __init__(
        self, cluster: Cluster, folder: Path, bed: Standing, clock: Clock | None = None,
        say: Callable[[str], None] = lambda text: None, switches: str = "",
    ) -> None:  # fmt: skip
        super().__init__(cluster, folder, clock, open=True, say=say, switches=switches)
        self.bed = bed

    def hosts(self) -> Mapping[str, str]:
        """Every server is a namespace."""
        return {name: host["netns"] for name, host in self.bed.hosts.items()}

    def make_control(self, pace: Pace) -> Control:
        """One agent per host; rates are those of the scaled network."""
        return Control(
            self.cluster, pace, self.folder, self.hosts(), self.bed.scale, switches=self.switches, say=self.plane.say
        )

    def _spec(self, task: LocalTask) -> dict[str, Any]:
        """Every rank enters the namespace of its server; a job of one process that of its first."""
        spec = super()._spec(task)
        names = [self.cluster.servers[int(self.cluster.server_of_gpu[gpu])].name for gpu in task.gpus]
        ranks = [{**rank, "WEFT_NETNS": self.bed.hosts[names[i]]["netns"]} for i, rank in enumerate(spec["ranks"])]
        env = {
            **spec["env"], "MASTER_ADDR": self.bed.hosts[names[0]]["address"], "GLOO_SOCKET_IFNAME": "eth0",
            "WEFT_ADDRESSES": ",".join(self.bed.hosts[name]["address"] for name in names),
        }  # fmt: skip
        return {
            **spec, "argv": [sys.executable, "-I", "-S", str(_ENTER), "-", "0", *spec["argv"]], "env": env,
            "ranks": ranks,
        }  # fmt: skip


class TestbedEngine(PacedLocalEngine):
    """Jobs come by `weft submit`; `weft testbed up` must have been called with the same folder."""

    __test__ = False
    name = "testbed"

    def cluster(self, seed: int, say: Callable[[str], None]) -> Cluster:
        """Raises: a testbed does not describe its cluster, its scenario does."""
        raise InputError("--world testbed: give the scenario of weft testbed up (weft serve SCENARIO.toml)")

    def refuse(self, cluster: Cluster, folder: Path) -> None:
        """Raise if no testbed is up, or if it is another one."""
        bed = standing(folder)
        if bed is None:
            raise InputError(f"--world testbed: no testbed is up in {folder}; weft testbed up SCENARIO --dir {folder}")
        if set(bed.hosts) != {server.name for server in cluster.servers}:
            raise InputError(f"--world testbed: the testbed in {folder} has other servers than the scenario")

    def open(self, site: Site) -> LocalWorld:
        """A world that starts processes in namespaces or, in a dry run, only says what it would do."""
        if site.dry_run:
            return super().open(site)
        bed = standing(site.folder)
        assert bed is not None, "refuse() has looked"
        site.say(bed.words)
        return TestbedWorld(site.cluster, site.folder, bed, site.clock, site.say, self.switches)
