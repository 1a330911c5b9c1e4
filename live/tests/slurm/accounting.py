"""A Slurm with accounting: slurmdbd and its database beside the sandbox, so that users have QOS and fair shares."""

import shutil
import subprocess
from pathlib import Path

import pytest

from testkit.sandbox import Sandbox, free_ports

_DBD = """\
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
DbdHost=localhost
DbdPort={port}
SlurmUser=root
StorageType=accounting_storage/mysql
StorageHost=127.0.0.1
StoragePort={database}
StorageUser=slurm
StoragePass=slurm
StorageLoc=slurm
PidFile={folder}/slurmdbd.pid
LogFile={folder}/log/slurmdbd.log
"""
_CONF = """\
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost=localhost
AccountingStoragePort={port}
AccountingStoragePass={folder}/munge.socket
AccountingStorageEnforce=associations,qos
AcctGatherNodeFreq=0
PriorityType=priority/multifactor
PriorityDecayHalfLife=7-0
PriorityUsageResetPeriod=NONE
PriorityCalcPeriod=1
PriorityWeightQOS=1000
PriorityWeightFairshare=1000
"""


def missing() -> str:
    """Why there can be no accounting here; "" if there can."""
    lacks = [name for name in ("slurmdbd", "mariadbd", "mariadb-install-db") if _find(name) is None]
    return f"{lacks[0]} is not installed (apt-get install slurmdbd mariadb-server-core)" if lacks else ""


class Accounted(Sandbox):
    """The database and slurmdbd come up before the controller, which asks them who its users are."""

    def __init__(self, folder: Path, nodes: int) -> None:
        self._dbd_port, self._database_port = free_ports(2)
        super().__init__(folder, nodes, more=_CONF.format(port=self._dbd_port, folder=folder.resolve()))

    def start_controller(self, *, fresh: bool = False) -> None:
        """With what it needs, the first time."""
        if fresh:
            self._start_database()
            file = self.conf.parent / "slurmdbd.conf"
            file.write_text(_DBD.format(folder=self.folder, port=self._dbd_port, database=self._database_port))
            file.chmod(0o600)
            self._spawn("slurmdbd", ["slurmdbd", "-D"])
            daemon, log = self._daemons["slurmdbd"], self.folder / "log" / "slurmdbd.log"
            self.wait(lambda: self.tells("sacctmgr", "-i", "add", "cluster", "weft") or daemon.poll() is not None)
            if daemon.poll() is not None and "mysql_query failed: 5027" in log.read_text():
                pytest.skip("this slurmdbd ends with error 5027 of this MariaDB's client library")
        super().start_controller(fresh=fresh)

    def __exit__(self, *_: object) -> None:
        """The accounting goes last."""
        super().__exit__()
        for name in ("slurmdbd", "mariadbd"):
            self.kill(name)

    def stop(self, name: str) -> None:
        """Let a daemon end by itself, with all that it knows written down."""
        self._daemons[name].terminate()
        self._daemons[name].wait(30)

    def tells(self, *argv: str) -> bool:
        """Whether a command succeeds."""
        done = subprocess.run(argv, env=self.environment, capture_output=True, timeout=120, check=False)
        return done.returncode == 0

    def _start_database(self) -> None:
        data, socket = self.folder / "database", self.folder / "database.socket"
        quick = ["--skip-test-db", "--auth-root-authentication-method=normal", "--user=root"]
        subprocess.run(
            [str(_find("mariadb-install-db")), "--no-defaults", f"--datadir={data}", *quick],
            check=True, capture_output=True, timeout=120,
        )  # fmt: skip
        words = self.folder / "database.sql"
        words.write_text("CREATE USER slurm@'%' IDENTIFIED BY 'slurm';\nGRANT ALL ON slurm.* TO slurm@'%';\n")
        where = [f"--datadir={data}", f"--socket={socket}", f"--port={self._database_port}"]
        loopback = ["--bind-address=127.0.0.1", "--skip-name-resolve", "--user=root"]
        small = ["--innodb-buffer-pool-size=16M", "--innodb-flush-log-at-trx-commit=0"]
        older = ["--loose-innodb-snapshot-isolation=OFF"]  # what slurmdbd counts on; older databases know nothing else
        self._spawn(
            "mariadbd", ["mariadbd", "--no-defaults", *where, *loopback, *small, *older, f"--init-file={words}"]
        )
        self.wait(socket.exists)


def _find(name: str) -> str | None:
    return shutil.which(name) or shutil.which(name, path="/usr/sbin:/sbin")
