"""A job of one process that sends to itself over loopback for ever; it knows nothing of weft."""

import socket
import threading
import time

listener = socket.create_server(("127.0.0.1", 0))
sender = socket.create_connection(listener.getsockname())
receiver, _ = listener.accept()


def receive() -> None:
    while receiver.recv(1 << 20):
        pass


threading.Thread(target=receive, daemon=True).start()
while True:
    sender.sendall(bytes(1 << 16))
    time.sleep(0.002)  # other work on this machine has a right to live
