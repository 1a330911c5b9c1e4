import os
import socket
import subprocess
from contextlib import closing
from pathlib import Path

import pytest

from live.tests.agent.moments import wait
from weft_live.agent.diag import Diag
from weft_live.agent.host import Agent
from weft_live.agent.processes import jobs_here, may_trace, namespace_of
from weft_live.agent.sockets import Process

if not may_trace():
    pytest.skip("looking into other processes needs root, or kernel.yama.ptrace_scope = 0", allow_module_level=True)


@pytest.mark.parametrize("family", ["127.0.0.1", "::1", "::ffff:127.0.0.1"])
def test_sockets_are_read_at_one_go_as_one_by_one(family: str) -> None:
    """The kernel is asked about each by its addresses and cookie, also where IPv4 is spoken by a socket of IPv6."""
    kind = socket.AF_INET if family == "127.0.0.1" else socket.AF_INET6
    with socket.create_server((family, 0), family=kind, dualstack_ipv6=family.startswith("::ffff")) as listener:
        senders = [socket.create_connection(listener.getsockname()[:2]) for _ in range(70)]
        takers = [listener.accept()[0] for _ in senders]
        for n, sender in enumerate(senders):
            sender.sendall(bytes(1000 + n))
        process, diag = Process(os.getpid()), Diag()
        try:
            mine = {os.fstat(sender.fileno()).st_ino for sender in senders}
            remotes = [remote for inode, remote in process.sockets({}).items() if inode in mine]
            assert len(remotes) == 70

            def said() -> list[int]:
                """Bytes of all that are there, if both ways say the same."""
                told = diag.read(remotes)
                same = told == [remote.read() for remote in remotes]
                return sorted(reading[0] for reading in told if reading) if same else []

            wait(lambda: said() == [1001 + n for n in range(70)])  # and the SYN
            takers[0].close()
            senders[0].close()
            wait(lambda: said() == [1002 + n for n in range(69)])
        finally:
            diag.close()
            process.close()
            for end in (*senders, *takers):
                end.close()


def test_a_pipe_that_nobody_reads_is_no_socket(tmp_path: Path) -> None:
    """Processes without connections are found, and there is nothing to pace."""
    with subprocess.Popen(["sleep", "600"], env={**os.environ, "WEFT_JOB": "quiet"}) as child:
        try:
            with closing(Agent("here", tmp_path, patience_s=600.0)) as agent:
                wait(lambda: agent.scan() or "quiet" in agent.jobs)
                assert agent.jobs["quiet"].sockets == {}
        finally:
            child.kill()


def test_a_job_whose_name_is_no_text_does_not_stop_the_agent() -> None:
    """Whoever may start a process may write anything into its environment."""
    with subprocess.Popen(["sleep", "600"], env={b"WEFT_JOB": b"\xff"}) as child:
        try:  # its environment comes after its start
            wait(lambda: jobs_here(namespace_of("self"), {}).get(child.pid) == "\ufffd")
        finally:
            child.kill()
