"""Traffic of others: python stream.py serve PORT, python stream.py send ADDRESS PORT CONNECTIONS [LOG].

A sender fills its connections for ever. Every 100 ms it writes the time and the bytes that it has handed over.
"""

from __future__ import annotations

import selectors
import socket
import sys
import time


def serve(port: int) -> None:
    """Take whatever comes."""
    with selectors.DefaultSelector() as ready:
        listener = socket.create_server(("0.0.0.0", port), backlog=64)
        ready.register(listener, selectors.EVENT_READ)
        while True:
            for key, _ in ready.select():
                assert isinstance(key.fileobj, socket.socket)
                if key.fileobj is listener:
                    ready.register(listener.accept()[0], selectors.EVENT_READ)
                elif not key.fileobj.recv(1 << 18):
                    ready.unregister(key.fileobj)
                    key.fileobj.close()


def send(address: str, port: int, connections: int, log: str) -> None:
    """Keep that many connections full."""
    data, sent, noted = bytes(1 << 16), 0, 0.0
    with selectors.DefaultSelector() as ready, open(log, "w", encoding="ascii") as file:
        for _ in range(connections):
            connection = _connect(address, port)
            connection.setblocking(False)
            ready.register(connection, selectors.EVENT_WRITE)
        while True:
            for key, _ in ready.select(0.1):
                assert isinstance(key.fileobj, socket.socket)
                sent += key.fileobj.send(data)
            if time.monotonic() - noted > 0.1:
                noted = time.monotonic()
                file.write(f"{noted} {sent}\n")
                file.flush()


def _connect(address: str, port: int) -> socket.socket:
    for _ in range(250):
        try:
            return socket.create_connection((address, port))
        except ConnectionRefusedError:
            time.sleep(0.02)
    raise ConnectionRefusedError(address)


if __name__ == "__main__":
    if sys.argv[1] == "serve":
        serve(int(sys.argv[2]))
    else:
        send(sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), sys.argv[5] if len(sys.argv) > 5 else "/dev/null")
