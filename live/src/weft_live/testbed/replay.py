"""The replay trainer: one process of a job that computes by waiting and communicates over real sockets.

    python replay.py SPEC.json [RANK]

Without a RANK the environment of `weft submit` says what the spec cannot know: RANK, the addresses of all ranks and
the port.

The graph of an iteration is that of the profile. Transfers go one after another, as in a communication library, beside
the computing that does not wait for them. The trainer needs only the standard library. Every iteration is a line of the
log: its start, the start and end of its communication, its end, and when it could have begun to communicate, by the
machine's monotonic clock.
"""

from __future__ import annotations

import json
import os
import random
import selectors
import socket
import struct
import sys
import threading
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_PIECE = bytes(1 << 18)
_PATIENCE_S = 30.0
_SO_MAX_PACING_RATE = 47


class Mesh:
    """A connection with every other process of the job."""

    def __init__(self, addresses: list[str], rank: int, port: int, demand: int = 0) -> None:
        self.rank, self.size = rank, len(addresses)
        self.peers: dict[int, socket.socket] = {}
        listener = socket.create_server((addresses[rank], port + rank))
        listener.settimeout(_PATIENCE_S)
        for peer in range(rank):
            self.peers[peer] = self._connect(addresses[peer], port + peer)
            self.peers[peer].sendall(struct.pack("!I", rank))
        while len(self.peers) < self.size - 1:
            joined, _ = listener.accept()
            (peer,) = struct.unpack("!I", _exactly(joined, 4))
            self.peers[peer] = joined
        listener.close()
        for connection in self.peers.values():
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if demand:  # as if its NIC had this rate
                connection.setsockopt(socket.SOL_SOCKET, _SO_MAX_PACING_RATE, struct.pack("=Q", demand))
        self.buffer = bytearray(1 << 18)

    def _connect(self, address: str, port: int) -> socket.socket:
        until = time.monotonic() + _PATIENCE_S
        while True:
            try:
                return socket.create_connection((address, port), timeout=_PATIENCE_S)
            except ConnectionRefusedError:
                if time.monotonic() > until:
                    raise
                time.sleep(0.02)

    def exchange(self, sends: dict[int, int], receives: dict[int, int]) -> None:
        """Send and receive that many bytes to and from each peer, all at once."""
        left = {peer: [sends.get(peer, 0), receives.get(peer, 0)] for peer in {*sends, *receives}}
        with selectors.DefaultSelector() as ready:
            for peer, (out, come) in left.items():
                if out or come:
                    self.peers[peer].setblocking(False)
                    ready.register(self.peers[peer], _wanted(out, come), peer)
            while ready.get_map():
                able = ready.select(_PATIENCE_S)
                if not able:
                    raise TimeoutError("the other processes of the job have fallen silent")
                for key, mask in able:
                    out, come = self._some(self.peers[key.data], mask, left[key.data])
                    if not out and not come:
                        ready.unregister(key.fileobj)
                    elif key.events != _wanted(out, come):
                        ready.modify(key.fileobj, _wanted(out, come), key.data)

    def _some(self, peer: socket.socket, mask: int, left: list[int]) -> list[int]:
        if mask & selectors.EVENT_WRITE and left[0]:
            left[0] -= peer.send(memoryview(_PIECE)[: min(left[0], len(_PIECE))])
        if mask & selectors.EVENT_READ and left[1]:
            came = peer.recv_into(self.buffer, min(left[1], len(self.buffer)))
            if not came:
                raise ConnectionError("a process of the job has gone")
            left[1] -= came
        return left

    def agree(self, value: float) -> float:
        """What rank 0 says, passed around the ring."""
        if self.size == 1:
            return value
        if self.rank:
            before = self.peers[self.rank - 1]
            before.setblocking(True)
            (value,) = struct.unpack("!d", _exactly(before, 8))
        if self.rank < self.size - 1:
            self.peers[self.rank + 1].setblocking(True)
            self.peers[self.rank + 1].sendall(struct.pack("!d", value))
        return value


def ring(mesh: Mesh, wire_bytes: int) -> None:
    """Each process sends that many bytes to the next, in 2 (n - 1) steps that wait for each other."""
    if mesh.size == 1:
        return
    after, before, steps = (mesh.rank + 1) % mesh.size, (mesh.rank - 1) % mesh.size, 2 * (mesh.size - 1)
    for step in range(steps):
        part = wire_bytes * (step + 1) // steps - wire_bytes * step // steps
        mesh.exchange({after: part}, {before: part})


def parameter_server(mesh: Mesh, message_bytes: int, servers: int) -> None:
    """All push their share to each server, and have the sum back when the last push has come."""
    share = message_bytes // servers
    out = {peer: share for peer in range(servers) if peer != mesh.rank}
    come = {peer: share for peer in range(mesh.size) if peer != mesh.rank} if mesh.rank < servers else {}
    mesh.exchange(out, come)
    mesh.exchange(come, out)


class Trainer:
    """See the module."""

    def __init__(self, spec: dict[str, Any], rank: int) -> None:
        self.spec, self.rank = spec, rank
        self.mesh = Mesh(spec["addresses"], rank, spec["port"], spec.get("demand", 0))
        self.gate: dict[str, float] | None = spec.get("gate")
        self.random = random.Random(f"{spec['seed']} {spec['name']}")  # one for all ranks of a job
        self.done: list[threading.Event] = []
        self.talked, self.ready = [0.0, 0.0], 0.0
        self.failed: BaseException | None = None

    def run(self) -> None:
        """All iterations."""
        with open(f"{self.spec['log']}.{self.rank}", "w", encoding="utf-8") as log:
            begin = self.mesh.agree(time.monotonic() + self.spec.get("delay_s", 0.0))
            time.sleep(max(0.0, begin - time.monotonic()))
            for _ in range(self.spec["iterations"]):
                start = time.monotonic()
                self.iterate()
                log.write(f"{start} {self.talked[0]} {self.talked[1]} {time.monotonic()} {self.ready}\n")
                log.flush()

    def iterate(self) -> None:
        """One pass through the graph: computing here, transfers in a thread."""
        tasks = self.spec["tasks"]
        longer = max(0.2, 1.0 + self.random.gauss(0.0, self.spec["jitter"])) if self.spec["jitter"] else 1.0
        self.done = [threading.Event() for _ in tasks]
        talking = threading.Thread(target=self.talk)
        talking.start()
        for i, (kind, amount, after) in enumerate(tasks):
            if kind == "compute":
                self.wait_for(after)
                time.sleep(amount * longer)
                self.done[i].set()
        talking.join()
        if self.failed:
            raise self.failed

    def talk(self) -> None:
        """The transfers of an iteration, in order."""
        first = True
        for i, (kind, amount, after) in enumerate(self.spec["tasks"]):
            if kind != "transfer":
                continue
            try:
                self.wait_for(after)
                if first:
                    self.ready = time.monotonic()
                    self.at_the_gate()
                    self.talked[0], first = time.monotonic(), False
                if self.spec["collective"] == "ring":
                    ring(self.mesh, amount)
                else:
                    parameter_server(self.mesh, amount, self.spec["servers"])
            except OSError as error:
                self.failed = error
            self.talked[1] = time.monotonic()
            self.done[i].set()

    def wait_for(self, tasks: list[int]) -> None:
        """Until these are done."""
        for task in tasks:
            self.done[task].wait()

    def at_the_gate(self) -> None:
        """Wait for the opening that rank 0 chooses for all, by the simulator's rule: too late means the next one."""
        if self.gate is None:
            return
        now = time.monotonic()
        period, late = self.gate["period"], 0.0
        at = max(now, self.gate["epoch"])
        if period > 0 and now > self.gate["epoch"]:
            late = (now - self.gate["epoch"]) % period
            at = now if late <= self.gate["tolerance"] * period else now + period - late
        time.sleep(max(0.0, self.mesh.agree(at) - time.monotonic()))


def _wanted(out: int, come: int) -> int:
    return (selectors.EVENT_WRITE if out else 0) | (selectors.EVENT_READ if come else 0)


def _exactly(connection: socket.socket, n: int) -> bytes:
    data = b""
    while len(data) < n:
        part = connection.recv(n - len(data))
        if not part:
            raise ConnectionError("a process of the job has gone")
        data += part
    return data


if __name__ == "__main__":
    with open(sys.argv[1], encoding="utf-8") as file:
        said = json.load(file)
    if len(sys.argv) == 2:
        port = 20_000 + 100 * (int(os.environ["MASTER_PORT"]) % 100)  # room for a port of each rank
        said |= {"addresses": os.environ["WEFT_ADDRESSES"].split(","), "port": port}
    Trainer(said, int(sys.argv[2] if len(sys.argv) > 2 else os.environ["RANK"])).run()
