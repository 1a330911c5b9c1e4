"""This process as a job: an agent paces its sockets as it would those of any other."""

import os
import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from weft_live.agent.sockets import Process
from weft_live.agent.watched import Watched


@contextmanager
def connected() -> Iterator[tuple[socket.socket, socket.socket]]:
    """Two ends of a connection."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        sender = socket.create_connection(listener.getsockname())
        taker = listener.accept()[0]
    with sender, taker:
        yield sender, taker


def watched(name: str, ends: Sequence[socket.socket]) -> Watched:
    """The job whose sockets these are."""
    job, process = Watched(name), Process(os.getpid())
    job.processes[process.pid] = process
    mine = {os.fstat(end.fileno()).st_ino for end in ends}
    job.take({inode: remote for inode, remote in process.sockets({}).items() if inode in mine})
    return job
