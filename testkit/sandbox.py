"""Sandbox: a real Slurm of many nodes on this machine, in a folder of its own.

The sandbox needs root and Debian's slurm-wlm and munge (whose slurmd may run many times on one machine); GPUs are
device files that stand for nothing. weft's hook and TaskProlog are installed as `weft serve --setup` writes them.
"""

from __future__ import annotations

import os
import pwd
import random
import re
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path

from weft.errors import InputError
from weft_live.slurm.commands import Slurm, Unreachable
from weft_live.slurm.records import read_nodes
from weft_live.slurm.setup import PROLOG, write_files

GPUS_PER_NODE = 8
NODES_PER_LEAF = 4
_DAEMONS = ("munged", "slurmctld", "slurmd", "sbatch", "scontrol", "squeue", "sinfo")
_SBIN = ("/usr/sbin", "/sbin")

_CONF = """\
ClusterName=weft
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={port}
SlurmUser={user}
SlurmdUser=root
AuthInfo=socket={folder}/munge.socket
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool/%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/spool/%n.pid
SlurmctldLogFile={folder}/log/slurmctld.log
SlurmdLogFile={folder}/log/%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
MailProg=/bin/true
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerParameters=batch_sched_delay=0,sched_interval=1,sched_min_interval=0,bf_interval=1
TopologyPlugin=topology/tree
GresTypes=gpu
SlurmdParameters=config_overrides
ReturnToService=2
KillWait=2
SlurmdTimeout=10
MessageTimeout=30
MinJobAge=120
JobRequeue=1
AccountingStorageType=accounting_storage/none
JobSubmitPlugins=lua
Licenses=solver:1
NodeName=DEFAULT CPUs=64 Sockets=2 CoresPerSocket=32 ThreadsPerCore=1 RealMemory=1000 Gres=gpu:{gpus}
"""


def missing(path: Sequence[str] = ()) -> str:
    """Why no sandbox can be made here; "" if one can. `path` are the folders to look into, if not the usual ones."""
    for name in _DAEMONS:
        if shutil.which(name, path=":".join(path or [*os.get_exec_path(), *_SBIN])) is None:
            return f"{name} is not installed (apt-get install slurm-wlm munge)"
    if os.geteuid() != 0:
        return "a Slurm of many nodes on one machine needs root"
    return ""


@cache
def release() -> tuple[int, ...]:
    """The version of the Slurm that is installed."""
    path = ":".join([*os.get_exec_path(), *_SBIN])
    told = subprocess.run([shutil.which("slurmctld", path=path) or "", "-V"], capture_output=True, text=True).stdout
    return tuple(map(int, re.findall(r"\d+", told)))


class Sandbox:
    """Use it as a context: the daemons run while it lasts. `slurm` talks to it, `environment` makes others do so.

    Without `prolog` jobs are not told what weft decided, and start faster. `user` is SlurmUser. `prefix` is where
    another Slurm is installed than the packaged one. `more` is added to slurm.conf.
    """

    def __init__(
        self, folder: Path, nodes: int = 16, *, prolog: bool = True, user: str = "root", prefix: Path | None = None,
        more: str = "",
    ) -> None:  # fmt: skip
        self._path = [*([f"{prefix}/bin", f"{prefix}/sbin"] if prefix else []), *os.get_exec_path(), *_SBIN]
        if why := missing(self._path):
            raise InputError(f"no Slurm can be started here: {why}")
        self._user, self._more = pwd.getpwnam(user), more
        self.folder = folder.resolve()
        self.names = [f"n{i}" for i in range(1, nodes + 1)]
        self.conf = self.folder / "etc" / "slurm.conf"
        self.slurm = Slurm(str(self.conf), path=":".join(self._path))
        self.environment = {**os.environ, "SLURM_CONF": str(self.conf), "PATH": ":".join(self._path)}
        self._prolog = prolog
        self._daemons: dict[str, subprocess.Popen[bytes]] = {}
        self._ports = free_ports(nodes + 1)

    def __enter__(self) -> Sandbox:
        try:
            self._write()
            self._start_munge()
            self.start_controller(fresh=True)
            for name in self.names:
                self.start_node(name)
            self.wait(self.up)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        """End every process that was started, jobs included."""
        for name in ("slurmctld", *self.names):  # first nobody starts anything any more
            self.kill(name)
        _end_processes_of(self.folder)
        self.kill("munged")

    # Daemons, to be killed and started again

    def start_controller(self, *, fresh: bool = False) -> None:
        """slurmctld; it goes on with the jobs it had."""
        self._spawn("slurmctld", ["slurmctld", "-D", *(["-i"] if fresh else []), "-f", str(self.conf)])

    def start_node(self, name: str) -> None:
        """The slurmd of a node."""
        self._spawn(name, ["slurmd", "-D", "-N", name, "-f", str(self.conf)])

    def kill(self, name: str) -> None:
        """kill -9 of slurmctld, munged, or the slurmd of a node."""
        daemon = self._daemons.pop(name, None)
        if daemon is not None:
            daemon.kill()
            daemon.wait()

    def pause(self, name: str, paused: bool = True) -> None:
        """Let a daemon hang, or go on."""
        self._daemons[name].send_signal(signal.SIGSTOP if paused else signal.SIGCONT)

    # What tests ask

    def run(self, *argv: str, limit_s: float = 120) -> str:
        """A client command; returns what it prints."""
        done = subprocess.run(
            argv, env=self.environment, cwd=self.folder, capture_output=True, text=True, timeout=limit_s, check=False
        )
        if done.returncode != 0:
            raise RuntimeError(f"{' '.join(argv)}: {done.stderr or done.stdout}")
        return done.stdout

    def sbatch(self, *argv: str, wrap: str = "") -> str:
        """Submit a job; returns its number."""
        command = ["--wrap", wrap] if wrap else []
        return self.run("sbatch", "--parsable", "--output=/dev/null", *argv, *command).strip()

    def clear(self) -> None:
        """Cancel every job, and wait until nothing is left of them."""
        self.run("scancel", "--partition=train")
        self.wait(lambda: not self.run("squeue", "--noheader", "--states=PD,R,CG,S,CF"))

    def up(self) -> bool:
        """Whether the controller answers and every node can be used."""
        try:
            return all(node.usable for node in read_nodes(self.slurm.nodes()))
        except Unreachable:
            return False

    def wait(self, ready: Callable[[], bool], within_s: float = 120.0) -> None:
        """Until something is so."""
        until = time.monotonic() + within_s
        while not ready():
            if time.monotonic() > until:
                raise TimeoutError(f"it takes more than {within_s:g} s; see {self.folder}/log")
            time.sleep(0.1)

    # How it is put together

    def _write(self) -> None:
        for name in ("etc", "state", "spool", "log", "dev"):
            (self.folder / name).mkdir(parents=True, exist_ok=True)
        host = socket.gethostname().partition(".")[0]
        conf = _CONF.format(
            host=host, port=self._ports[0], folder=self.folder, gpus=GPUS_PER_NODE, user=self._user.pw_name
        )  # fmt: skip
        conf += self._more
        if self._prolog:
            conf += "".join(f"Task{when}={self.conf.parent}/{PROLOG}\n" for when in ("Prolog", "Epilog"))
        for name, port in zip(self.names, self._ports[1:], strict=True):
            conf += f"NodeName={name} NodeHostname={host} NodeAddr=127.0.0.1 Port={port}\n"
        every = f"n[1-{len(self.names)}]"
        conf += f"PartitionName=train Nodes={every} Default=YES MaxTime=INFINITE State=UP\n"
        self.conf.write_text(conf)
        leaves = range(-(-len(self.names) // NODES_PER_LEAF))
        lines = []
        for leaf in leaves:
            first, last = NODES_PER_LEAF * leaf + 1, min(NODES_PER_LEAF * (leaf + 1), len(self.names))
            lines.append(f"SwitchName=leaf{leaf + 1} Nodes=n[{first}-{last}] LinkSpeed=100\n")
        lines.append(f"SwitchName=spine Switches=leaf[1-{len(leaves)}] LinkSpeed=200\n")
        (self.conf.parent / "topology.conf").write_text("".join(lines))
        devices = f"{self.folder}/dev/gpu[0-{GPUS_PER_NODE - 1}]"
        (self.conf.parent / "gres.conf").write_text(f"NodeName={every} Name=gpu File={devices}\n")
        for i in range(GPUS_PER_NODE):
            with suppress(FileExistsError):
                os.mknod(self.folder / "dev" / f"gpu{i}", 0o20666, os.makedev(1, 3))  # as good as any: /dev/null
        everybodys = "/usr/bin/python3"  # ours may lie where other users cannot read
        python = everybodys if os.access(everybodys, os.X_OK) else ""
        write_files(self.conf.parent, python=python, owners={0, self._user.pw_uid})
        for name in ("state", "log"):
            os.chown(self.folder / name, self._user.pw_uid, -1)
        if self._user.pw_uid:  # slurmctld and its jobs' users come through here
            self.folder.chmod(0o755)

    def _start_munge(self) -> None:
        key = self.folder / "munge.key"
        key.write_bytes(random.randbytes(1024))
        key.chmod(0o400)
        names = ("socket", "pid", "log", "seed")
        options = [f"--{name}{'-file' * (name != 'socket')}={self.folder}/munge.{name}" for name in names]
        self._spawn("munged", ["munged", "--foreground", "--force", f"--key-file={key}", *options])
        self.wait((self.folder / "munge.socket").exists)

    def _spawn(self, name: str, argv: list[str]) -> None:
        program = shutil.which(argv[0], path=":".join(self._path))
        assert program is not None
        with open(self.folder / "log" / f"{name}.out", "ab") as log:
            self._daemons[name] = subprocess.Popen(
                [program, *argv[1:]], stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
                env=self.environment,
            )  # fmt: skip


_BLOCK = 64


def free_ports(n: int) -> list[int]:
    """Ports below those that the system hands out, none of them in use. They come in blocks, and this process keeps the
    first port of a block until it ends: another one that looks at the same time chooses another block."""
    blocks = -(-n // (_BLOCK - 1))
    while True:
        first = _BLOCK * random.randrange(11000 // _BLOCK, 31000 // _BLOCK)
        ports = range(first, first + _BLOCK * blocks)
        with suppress(OSError):
            for port in ports:
                with socket.socket() as trial:
                    trial.bind(("127.0.0.1", port))
                    if port % _BLOCK == 0:
                        trial.detach()
            return [port for port in ports if port % _BLOCK][:n]


def _end_processes_of(folder: Path) -> None:
    """Kill whatever still runs with this sandbox in its environment or command line: step daemons, jobs. In another
    chroot there may be a sandbox of the same path."""
    mark, root = os.fsencode(str(folder)), os.stat("/")
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            told = (process / "cmdline").read_bytes() + (process / "environ").read_bytes()
            if (
                mark + b"/" in told
                and int(process.name) != os.getpid()
                and os.path.samestat(root, (process / "root").stat())
            ):
                os.kill(int(process.name), signal.SIGKILL)
