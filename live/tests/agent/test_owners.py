import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from live.tests.agent.moments import wait
from weft.network.topologies import Machine, leaf_spine
from weft.stacks.registry import make
from weft_live.agent import processes, sockets
from weft_live.agent.conductor import HELD_BYTES_PER_S, Conductor
from weft_live.agent.host import Agent
from weft_live.agent.processes import belongs, jobs_here, namespace_of
from weft_live.agent.service import AgentService
from weft_live.agent.sockets import UNLIMITED, Process
from weft_live.agent.trust import secret_of

if os.geteuid() or shutil.which("setpriv") is None or not Path("/usr/bin/python3").exists():
    pytest.skip("processes of other users need root, setpriv and a Python that they can run", allow_module_level=True)
STREAM = Path(__file__).with_name("stream.py").read_text()
NOBODY = 65534
AS_NOBODY = ("setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups")


@contextmanager
def _stream(job: str, *who: str) -> Iterator[int]:
    """A process that sends to itself, and says that it is of this job."""
    argv = [*who, "/usr/bin/python3", "-S", "-c", STREAM]
    with subprocess.Popen(argv, env={"WEFT_JOB": job, "PATH": os.environ["PATH"]}, cwd="/") as child:
        try:
            wait(lambda: len(_limits(child.pid)) == 2)
            yield child.pid
        finally:
            child.kill()


def _limits(pid: int) -> list[int]:
    process = Process(pid)
    try:
        return [remote.paced() for remote in process.sockets({}).values()]
    finally:
        process.close()


@contextmanager
def _served(folder: Path, owner: tuple[int, str], *rights: str) -> Iterator[AgentService]:
    """A server that holds the job "new" of this owner back for the job "old", and the agent that does it."""
    conductor = Conductor(leaf_spine(1, 2, Machine(gpus_per_server=2, nic_gbps=10.0)), make("pace", "priority"))
    conductor.add("old", (0, 2))
    conductor.add("new", (1, 3), owner=owner)
    service = AgentService(conductor, f"unix:{folder / 'agents.sock'}", secret_of(folder))
    argv = ["agent", "--host", "s0", "--server", service.address, "--dir", str(folder), "--watch-ms", "10", "--near"]
    with subprocess.Popen([*rights, sys.executable, "-m", "weft", *argv]) as agent:
        try:
            yield service
        finally:
            agent.kill()
            service.close()


def _found(*pids: int) -> None:
    """Until an agent would find all of these."""
    wait(lambda: set(pids) <= jobs_here(namespace_of("self"), {}).keys())


def test_a_process_of_another_user_that_names_a_job_is_left_alone(tmp_path: Path) -> None:
    """Whoever may start a process may write the name of anybody's job into its environment."""
    conductor = Conductor(leaf_spine(1, 2, Machine(gpus_per_server=2)), make("pace", "priority"))
    conductor.add("new", (1, 3))
    agent = Agent("s0", tmp_path, near=True, patience_s=600.0)
    with _stream("new") as mine, _stream("new", *AS_NOBODY) as theirs, closing(agent):
        _found(mine, theirs)
        agent.hear({"owners": conductor.owners()}, 100.0)
        for _ in range(2):  # every other scan is for processes
            agent.scan()
        assert agent.jobs["new"].processes.keys() == {mine}
        agent.order("new", 1e6)
        assert set(_limits(mine)) == {1_000_000}
        assert set(_limits(theirs)) == {UNLIMITED}


def test_cap_sys_ptrace_is_all_that_an_agent_needs_to_pace_the_jobs_of_other_users(tmp_path: Path) -> None:
    """As weft-agent.service starts it: root's user without root's rights, so that files of others are closed to it."""
    rights = ("setpriv", "--bounding-set=-all,+sys_ptrace", "--inh-caps=-all")
    with _stream("old"), _stream("new", *AS_NOBODY) as job:
        with _served(tmp_path, (NOBODY, ""), *rights):
            wait(lambda: set(_limits(job)) == {HELD_BYTES_PER_S})
        wait(lambda: set(_limits(job)) == {UNLIMITED})  # its guardian may do as much


@pytest.mark.parametrize(("caps", "found"), [("+sys_ptrace", ["2", "root"]), ("-all", ["0", ""])])
def test_another_user_with_that_capability_alone_finds_and_paces_sockets_of_root(caps: str, found: list[str]) -> None:
    code = "import sys; sys.path.insert(0, sys.argv[1]); import processes, sockets; n = int(sys.argv[2])\n"
    code += "p = sockets.Process(n); print(sum(s.pace(10**6) and s.paced() == 10**6 for s in p.sockets({}).values()))\n"
    code += "print(processes.jobs_here(processes.namespace_of(n), {}).get(n, ''))"
    folder = Path(tempfile.mkdtemp(prefix="weft-caps-"))  # nobody can reach it there
    folder.chmod(0o755)
    try:
        for module in (processes, sockets):
            shutil.copy(module.__file__, folder)
        with _stream("root") as job:
            _found(job)
            argv = [*AS_NOBODY, f"--inh-caps={caps}", f"--ambient-caps={caps}", "/usr/bin/python3", "-S", "-c", code]
            said = subprocess.run([*argv, str(folder), str(job)], capture_output=True, text=True, check=True).stdout
        assert said.split("\n")[:2] == found
    finally:
        shutil.rmtree(folder)


def test_whose_a_process_is_by_both_users_and_by_slurms_cgroup() -> None:
    me = os.geteuid()
    with _stream("a") as mine, _stream("a", *AS_NOBODY) as theirs, _stream("a", "setpriv", "--ruid=65534") as mixed:
        assert [belongs(pid, me) for pid in (mine, theirs, mixed, 2**22 + 1)] == [True, False, False, False]
        assert belongs(theirs, NOBODY)
        assert not belongs(mixed, NOBODY)
        assert belongs(mine, me, "77")  # this Slurm has no cgroups
        group = Path("/sys/fs/cgroup/pids/job_77") if Path("/sys/fs/cgroup/pids").exists() else None
        group = group or Path("/sys/fs/cgroup/job_77")
        try:
            group.mkdir()
            (group / "cgroup.procs").write_text(str(mine))
        except OSError as error:
            pytest.skip(f"no cgroup can be made here: {error}")
        try:
            assert belongs(mine, me, "77")
            assert not belongs(mine, me, "7")
            assert belongs(mine, me)
        finally:
            Path(group.parent, "cgroup.procs").write_text(str(mine))
            group.rmdir()
