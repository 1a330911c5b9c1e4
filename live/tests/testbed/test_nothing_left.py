"""What is left of a testbed after its end, also after kill -9: no process, no namespace, no interface, no folder.

The jobs here start a daemon: a process that forks twice and makes a session of its own, so that it belongs to nobody.
"""

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from live.tests.testbed.needs import need_testbed, within
from weft.cli.main import run
from weft.network.topologies import Machine, leaf_spine
from weft_live.agent.namespaces import cookie
from weft_live.testbed.build import Testbed
from weft_live.testbed.keeper import announce, standing
from weft_live.testbed.plan import blueprint

need_testbed()
pytestmark = pytest.mark.testbed

SCENARIO = Path(__file__).parents[3] / "examples" / "ddp" / "two-racks.toml"
PLAN = blueprint(leaf_spine(1, 2, Machine(nic_gbps=50.0)), 125.0)
DAEMON = """
import os, sys, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        time.sleep(1000)
    os._exit(0)
os.wait()
open(os.environ.get("WEFT_LOG", os.devnull), "w").close()
time.sleep(float(sys.argv[2]))
"""


@pytest.fixture
def daemon(tmp_path: Path) -> list[str]:
    """A job whose daemon is known by the name of this folder."""
    script = tmp_path / "daemon.py"
    script.write_text(DAEMON)
    return [sys.executable, str(script), str(tmp_path)]


def _processes(word: str) -> list[int]:
    found = []
    for process in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if word.encode() in process.read_bytes():
                found.append(int(process.parent.name))
        except OSError:
            continue
    return found


def _namespaces(*pids: int) -> set[int]:
    """Cookies of network namespaces that these processes, or all, are in or hold by a file. Inodes are used again."""
    links: dict[str, Path] = {}
    for process in [Path(f"/proc/{pid}") for pid in pids] or list(Path("/proc").glob("[0-9]*")):
        try:
            for link in (process / "ns" / "net", *(process / "fd").iterdir()):
                links.setdefault(os.readlink(link), link)
        except OSError:
            continue
    found = set()
    for name, link in links.items():
        if name.startswith("net:["):
            try:
                file = os.open(link, os.O_RDONLY)
            except OSError:
                continue
            found.add(cookie(file))
            os.close(file)
    return found - {_own()}


def _own() -> int:
    with open("/proc/self/ns/net", "rb") as file:
        return cookie(file.fileno())


def _folders(pid: int) -> list[Path]:
    return list(Path(tempfile.gettempdir()).glob(f"weft-testbed-{pid}-*"))


def test_the_end_of_a_testbed_is_the_end_of_what_its_jobs_have_started(daemon: list[str]) -> None:
    with Testbed(PLAN) as bed:
        bed.start("s0", [*daemon, "0"]).wait()
        assert len(_processes(daemon[1])) == 1  # the daemon is there, and its parent is not
        folder, made = bed.folder, {bed.cookie("s0"), bed.cookie("s1")}
        assert folder.is_dir()
        assert made <= _namespaces()
    assert not _processes(daemon[1])
    assert not folder.exists()
    assert not made & _namespaces()


def test_kill_9_of_a_run_leaves_nothing_behind(daemon: list[str]) -> None:
    """Of a run by the command line whose jobs have daemons. Interfaces go with their namespaces."""
    jobs = [f"--job={' '.join([*daemon, '1000'])}@s0,s2", f"--job={' '.join([*daemon, '1000'])}@s1,s3"]
    argv = [sys.executable, "-m", "weft", "testbed", "run", str(SCENARIO), *jobs]
    running = subprocess.Popen(argv, stderr=subprocess.DEVNULL)
    try:
        assert within(60.0, lambda: len(_processes(daemon[1])) == 5)  # itself; the first job alone, and two daemons
        made = _namespaces(running.pid)
        assert len(made) == 5  # four servers and the switches
        assert len(_folders(running.pid)) == 1
    finally:
        running.send_signal(signal.SIGKILL)
        running.wait()
    assert within(60.0, lambda: not (_processes(daemon[1]) or made & _namespaces() or _folders(running.pid)))


def test_down_ends_what_a_keeper_that_was_killed_with_its_warden_has_left(
    daemon: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nobody is left to remove anything but the next command."""
    up = [sys.executable, "-m", "weft", "testbed", "up", str(SCENARIO), "--dir", str(tmp_path)]
    subprocess.run(up, check=True, capture_output=True)  # a process of its own: it leaves a child behind
    bed = standing(tmp_path)
    assert bed is not None
    subprocess.run(["nsenter", f"--net={bed.hosts['s0']['netns']}", *daemon, "0"], check=True)
    made = _namespaces(bed.pid)
    (warden,) = [pid for pid in _processes("warden.py") if _parent(pid) == bed.pid]
    (mine,) = _folders(bed.pid)
    for pid in (warden, bed.pid):
        os.kill(pid, signal.SIGKILL)
    assert within(60.0, lambda: standing(tmp_path) is None)
    (left,) = _processes(daemon[1])
    assert made & _namespaces() == _namespaces(left) != set()
    assert run(["testbed", "down", "--dir", str(tmp_path)]) == 0
    assert "one process ran on it" in capsys.readouterr().err
    assert within(60.0, lambda: not _processes(daemon[1]))
    assert not made & _namespaces()
    with Testbed(PLAN):
        assert not mine.exists()  # the next testbed has removed the folder


def test_down_leaves_a_namespace_alone_that_has_the_inode_of_one_of_before(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with Testbed(PLAN) as other:
        announce(tmp_path, other)
        said = tmp_path / "testbed.json"
        text = said.read_text()
        assert str(other.cookie("s0")) in text
        text = text.replace(f": {other.cookie('s0')}", ": 1").replace(f"/proc/{os.getpid()}/", "/proc/0/")
        said.write_text(text)  # a keeper that is gone, and a namespace that has gone with it
        child = other.start("s0", ["sleep", "1000"])
        assert run(["testbed", "down", "--dir", str(tmp_path)]) == 2
        assert "no testbed is up there" in capsys.readouterr().err
        assert child.poll() is None


def _parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
