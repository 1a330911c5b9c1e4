import json
import os
import socket
import sqlite3
import subprocess
import sys
import threading
from contextlib import closing, suppress
from pathlib import Path
from urllib.request import urlopen

import pytest

from live.tests.jobs import whole
from live.tests.serving import all_ended, said, serve_until, server, statuses, wait_for
from weft.errors import InputError
from weft_live.engine import find, names
from weft_live.server.control import call
from weft_live.server.folders import refuse_foreign, refuse_network
from weft_live.server.ledger import Ledger
from weft_live.server.server import notify
from weft_live.server.snapshot import Changes


def test_a_folder_of_somebody_else_runs_nothing(tmp_path: Path) -> None:
    """Its ledger says which commands to run: neither that folder nor one inside somebody else's is served or called."""
    if os.geteuid() != 0:
        pytest.skip("needs root, to give folders away")
    foreign = tmp_path / "foreign"
    server(foreign / "run").close()
    os.chown(foreign / "run", 65534, -1)
    with pytest.raises(InputError, match="belongs to somebody else"):
        server(foreign / "run")
    with pytest.raises(InputError, match="belongs to somebody else"):
        call(foreign / "run", {"do": "submit", "job": said("a", ["true"])})
    os.chown(foreign / "run", 0, -1)
    os.chown(foreign, 65534, -1)
    with pytest.raises(InputError, match="belongs to somebody else, who could replace it"):
        server(foreign / "run")
    os.chown(foreign, 0, -1)
    foreign.chmod(0o777)
    with pytest.raises(InputError, match=r"others may write in .* and replace it"):
        server(foreign / "run")
    foreign.chmod(0o1777)
    refuse_foreign(foreign / "run")


def test_a_folder_of_somebody_else_chooses_no_policy(tmp_path: Path) -> None:
    """Its ledger says with which policies it was served: files of them are run, so it is not even read."""
    if os.geteuid() != 0:
        pytest.skip("needs root, to give folders away")
    (tmp_path / "mine.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\n")
    (tmp_path / "run").mkdir(mode=0o700)
    ledger = Ledger(tmp_path / "run")
    layers = [None, None, f"{tmp_path}/mine.py:Mine", None, None]
    ledger.set_meta("chosen", {"world": "local", "scenario": None, "shared": None, "layers": layers})
    ledger.close()
    os.chown(tmp_path / "run", 65534, -1)
    command = [sys.executable, "-m", "weft", "serve", "--dir", str(tmp_path / "run")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert "belongs to somebody else" in done.stderr
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    ("kind", "refused"), [("nfs4", True), ("lustre", True), ("fuse.sshfs", True), ("ext4", False), ("xfs", False)]
)
def test_the_ledger_stays_on_a_local_disk(kind: str, refused: bool, tmp_path: Path) -> None:
    mounts = f"1 0 8:1 / / rw - ext4 /dev/a rw\n2 1 0:40 / {tmp_path} rw - {kind} host:/x rw\n"
    refuse_network(Path("/"), mounts)
    if refused:
        with pytest.raises(InputError, match=rf"network file system \({kind}\).* --shared"):
            refuse_network(tmp_path / "run", mounts)
    else:
        refuse_network(tmp_path / "run", mounts)


def test_systemd_hears_that_the_server_is_ready_and_alive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as heard:
        heard.bind(str(tmp_path / "n"))
        heard.settimeout(60.0)
        monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "n"))
        with server(tmp_path / "run") as serving:
            serving.run(serving.world.now() + 1.2)
        words = {heard.recv(100) for _ in range(3)}
        assert words == {b"READY=1", b"WATCHDOG=1"}
        monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "nobody"))
        notify("READY=1")  # nobody listens, and nothing happens


def open_files() -> int:
    return len(os.listdir("/proc/self/fd"))


def test_hundreds_of_connections_to_the_metrics_stop_nothing(tmp_path: Path) -> None:
    with server(tmp_path / "run", metrics="0") as serving:
        assert serving.metrics_server is not None
        address = ("127.0.0.1", serving.metrics_server.port)
        serving.submit(said("first", ["true"]))
        serve_until(serving, all_ended(serving))
        before, callers = open_files(), 300
        held = [socket.create_connection(address, timeout=60) for _ in range(callers)]
        assert threading.active_count() < 50, "each of those that hold on has a thread here"
        wait_for(lambda: open_files() - before - callers < 50)  # most are not kept open on this side
        serving.submit(said("second", ["true"]))
        serve_until(serving, all_ended(serving))
        pages: list[str] = []

        def answered() -> bool:
            with suppress(OSError), urlopen(f"http://127.0.0.1:{address[1]}/metrics", timeout=60) as answer:
                pages.append(answer.read().decode())
            return bool(pages)

        wait_for(answered)  # once some that said nothing have been let go
        text = pages[0]
        assert "weft_finished_total 2" in text
        age = float(next(line.split()[1] for line in text.splitlines() if line.startswith("weft_look_age_seconds ")))
        assert age >= 0
        for one in held:
            one.close()


def test_a_ledger_of_the_previous_version_is_taken_over(tmp_path: Path) -> None:
    """Version 1 kept the core's state in one row. A job that waited there runs; one that ended stays so."""
    folder = tmp_path / "run"
    with server(folder, "fifo", 1) as serving:
        serving.submit(said("ended", ["true"]))
        serve_until(serving, all_ended(serving))
        serving.submit(said("runs", ["sleep", "1"]))
        serving.submit(said("waits", ["true"]))
        serve_until(serving, lambda: {"runs", "waits"} <= serving.core.table.jobs.keys())
        saved = whole(serving.core)
    for record in saved["table"]["jobs"]:
        for name in ("per_server", "priority", "known", "resumes"):
            del record["job"][name]
        for name in ("barred", "silent", "iteration_s"):
            del record[name]
    with closing(sqlite3.connect(folder / "ledger.sqlite")) as db, db:
        for table in ("jobs", "events"):
            db.execute(f"ALTER TABLE {table} RENAME COLUMN reason TO words")
        db.execute("DROP TABLE core_jobs")
        db.execute("DROP TABLE core_profiles")
        db.execute("INSERT OR REPLACE INTO core VALUES (1, ?, ?)", (saved["cycle"], json.dumps(saved)))
        db.execute("UPDATE meta SET value = '1' WHERE key = 'version'")
    with server(folder, "fifo", 1) as serving:
        assert serving.ledger.meta("version") == 3
        serve_until(serving, all_ended(serving))
    assert statuses(folder) == {"ended": "finished", "runs": "finished", "waits": "finished"}
    ledger = Ledger(folder)
    ledger.set_meta("version", 99)
    ledger.close()
    with pytest.raises(InputError, match=r"written by another version of weft \(99\)"):
        server(folder, "fifo", 1)


def test_what_is_kept_is_what_changed(tmp_path: Path) -> None:
    """A hundred jobs wait; a cycle in which one starts writes a few of them."""
    with server(tmp_path / "run", "fifo", 1) as serving:
        sizes: list[int] = []
        keep = serving.ledger.keep

        def noted(changes: Changes, *rest: object) -> None:
            sizes.append(len(changes.jobs))
            keep(changes, *rest)  # type: ignore[arg-type]

        for number in range(100):
            serving.submit(said(f"j{number}", ["true"]))
        serve_until(serving, lambda: len(serving.core.table.jobs) >= 99)
        serving.ledger.keep = noted  # type: ignore[method-assign]
        serve_until(serving, lambda: len(serving.core.table.ended) >= 5)
        assert sizes
        assert max(sizes) <= 5
        for number in range(100):
            serving.world.cancel(f"j{number}")


COMPILED = """
import gc, sys, time
from pathlib import Path
from numba.extending import is_jitted
from live.tests.jobs import LOOP, python
from live.tests.serving import said, serve_until
from weft_live.local.engine import LocalEngine
from weft_live.server.server import Server
from weft.stacks import resolve
from weft.testing import toy_cluster

def compiled():
    found = filter(is_jitted, gc.get_objects())
    return {(d.py_func.__qualname__, str(signature)) for d in found for signature in d.signatures}

with Server(Path(sys.argv[1]), toy_cluster(1, 2, 2), resolve("fifo+cassini"), engine=LocalEngine()) as serving:
    before = compiled()
    for name in "ab":
        serving.submit(said(name, python(LOOP, 0.5, 50), gpus=2, per_node=1, model="vgg16", iterations=50))
    serve_until(serving, lambda: len(serving.core.table.gates) == 2)
    print(len(before), compiled() - before)
    for name in "ab":
        serving.cancel(name)
    serve_until(serving, lambda: all(row.status for row in serving.ledger.jobs()))
"""


def test_shifts_are_compiled_before_a_server_serves(tmp_path: Path) -> None:
    """Kernels that a decision takes, compiled or from the cache on disk: the first one brings none that were not there
    when the server began to serve."""
    root = Path(__file__).parents[2]
    command = [sys.executable, "-c", COMPILED, str(tmp_path / "run")]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr
    there, _, new = done.stdout.partition(" ")
    assert int(there) > 0
    assert new.strip() == "set()"


def test_worlds_are_found_by_name() -> None:
    assert {"local", "slurm"} <= set(names())
    assert find("local", {}).name == "local"
    with pytest.raises(InputError, match="--world mars: there is no such world; there are local, slurm"):
        find("mars", {})
