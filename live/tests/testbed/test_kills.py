"""kill -9 of agents, guardians, `weft switch` and `weft serve` at random: no job fails, and no socket stays paced.

Where agents and guardians die at the same instant nobody is left to let go of a socket, until an agent starts again.

Two jobs over real TCP, paced by `flow`. `WEFT_KILLS=50` is the whole of it; the suite has one kill of each kind.
"""

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from live.tests.agent.moments import wait_until
from live.tests.jobs import ENVIRONMENT
from live.tests.serving import statuses
from live.tests.testbed.needs import need_testbed
from weft.network.topologies import Machine, leaf_spine
from weft_live.agent.sockets import UNLIMITED, Process
from weft_live.testbed import replay
from weft_live.testbed.build import Testbed
from weft_live.testbed.keeper import announce
from weft_live.testbed.plan import blueprint

need_testbed()
pytestmark = [pytest.mark.testbed, pytest.mark.long]
VICTIMS = ("server", "agent", "switch", "agents and guardians", "everything")
KILLS = int(os.environ.get("WEFT_KILLS", str(len(VICTIMS))))
SCENARIO = """
[cluster]
topology = "leaf-spine"
racks = 1
servers_per_rack = 3
gpus_per_server = 2
nic_gbps = 25
"""


class Scene:
    """A server, a switch service, agents, and two jobs of three ranks that share a NIC."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "cluster.toml").write_text(SCENARIO)
        self.serving: subprocess.Popen[bytes] | None = None
        self.switch = self.start_switch("127.0.0.1:0")

    def start(self) -> None:
        self.address = self._said("switch.log", " at ")
        self.serve()
        wait_until(lambda: "weft serves with" in (self.folder / "serve.log").read_text(), 60.0)
        for submitting in [self._submit(name) for name in "ab"]:
            assert submitting.wait() == 0
        wait_until(lambda: self.steps() >= 5 and self.paced(), 120.0)  # agents know the jobs and pace them

    def _weft(self, log: str, *argv: str) -> subprocess.Popen[bytes]:
        with open(self.folder / log, "ab") as file:
            return subprocess.Popen([sys.executable, "-m", "weft", *argv], stdout=file, stderr=file)

    def _said(self, log: str, after: str) -> str:
        wait_until(lambda: after in (self.folder / log).read_text(), 60.0)
        return (self.folder / log).read_text().rpartition(after)[2].split()[0]

    def start_switch(self, listen: str) -> subprocess.Popen[bytes]:
        where = ["--scenario", str(self.folder / "cluster.toml"), "--dir", str(self.folder), "--listen", listen]
        return self._weft("switch.log", "switch", *where)

    def serve(self) -> None:
        where = [str(self.folder / "cluster.toml"), "--world", "testbed", "--dir", str(self.folder)]
        self.serving = self._weft("serve.log", "serve", *where, "--pace", "flow:slot=20ms", "--switches", self.address)

    def _submit(self, name: str) -> subprocess.Popen[bytes]:
        code = [str(Path(__file__).with_name("trainer.py")), str(Path(replay.__file__).parent)]
        command = [sys.executable, "-S", *code, str(self.folder / name), "100000", "1000000", "0.05"]
        argv = ["submit", "--gpus", "3", "--per-rank", "--name", name, "--dir", str(self.folder), "--", *command]
        return subprocess.Popen([sys.executable, "-m", "weft", *argv], env=ENVIRONMENT, stdout=subprocess.DEVNULL)

    def processes(self, word: bytes) -> list[int]:
        """Processes of this scene with this word in their command line."""
        found = []
        for process in Path("/proc").glob("[0-9]*/cmdline"):
            try:
                told = process.read_bytes()
            except OSError:
                continue
            if word in told and str(self.folder).encode() in told and b"runner" not in told:
                found.append(int(process.parent.name))
        return sorted(found)

    def agents(self) -> list[int]:
        return self.processes(b"weft\0agent")

    def guardians(self) -> list[int]:
        return self.processes(b"guardian.py")

    def limits(self) -> dict[int, int]:
        """By rank's process: the least that the kernel allows one of its sockets."""
        found = {}
        for pid in self.processes(b"trainer.py"):
            try:
                there = Process(pid)
            except ProcessLookupError:
                continue
            known = [socket.paced() for socket in there.sockets({}).values()]
            there.close()
            if known:
                found[pid] = min(known)
        return found

    def paced(self) -> bool:
        return any(rate != UNLIMITED for rate in self.limits().values())

    def steps(self) -> int:
        """Iterations of the job that has done fewer."""
        files = [self.folder / f"{name}.0" for name in "ab"]
        return min(len(file.read_text().splitlines()) if file.exists() else 0 for file in files)

    def kill(self, victim: str, dice: random.Random) -> None:
        agents, guardians = self.agents(), self.guardians()
        chosen: list[int] = []
        if victim == "agent":
            chosen = [dice.choice(agents)] if agents else []
        elif victim == "agents and guardians":
            chosen = [*guardians, *agents]
        elif victim == "everything":
            assert self.serving is not None
            chosen = [self.serving.pid, self.switch.pid, *guardians, *agents]
        else:
            assert self.serving is not None
            chosen = [self.serving.pid if victim == "server" else self.switch.pid]
        for pid in chosen:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        self.mend(victim)

    def mend(self, victim: str) -> None:
        """Start again what nobody else does."""
        if victim in ("server", "everything"):
            assert self.serving is not None
            self.serving.wait()
            if victim == "server":  # agents go with it, and let go of everything
                assert wait_until(lambda: not self.paced(), 5.0) < 1.2
            self.serve()
        if victim in ("switch", "everything"):
            self.switch.wait()
            self.switch = self.start_switch(self.address)

    def close(self) -> None:
        for child in (self.serving, self.switch):
            if child is not None:
                child.kill()
                child.wait()
        for pid in [*self.guardians(), *self.agents(), *self.processes(b"trainer.py")]:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    with Testbed(blueprint(leaf_spine(1, 3, Machine(gpus_per_server=2, nic_gbps=25.0)), 125.0)) as bed:
        announce(tmp_path, bed)
        made = Scene(tmp_path)
        try:
            made.start()
            yield made
        finally:
            made.close()


def test_random_kills_of_every_part(scene: Scene) -> None:
    dice = random.Random(7)
    for n in range(KILLS):
        victim = VICTIMS[n] if n < len(VICTIMS) else dice.choice(VICTIMS)
        before = scene.steps()
        time.sleep(dice.random() * 0.3)
        scene.kill(victim, dice)
        wait_until(lambda before=before: scene.steps() >= before + 3, 120.0)  # both jobs go on
        wait_until(lambda: len(scene.agents()) == len(scene.guardians()) == 3, 120.0)
        time.sleep(0.5)  # they have let go of what those before them had left paced
        wait_until(scene.paced, 120.0)
        assert set(statuses(scene.folder).values()) == {""}, victim
    assert scene.serving is not None
    scene.serving.terminate()
    scene.serving.wait()
    assert wait_until(lambda: not scene.paced(), 10.0) < 1.2
    assert len(scene.limits()) == 6  # every rank of both jobs still runs
