import socket
import stat
import threading
from pathlib import Path

from weft_live.unix import ask, bound


def test_a_socket_that_can_be_seen_is_listened_to(tmp_path: Path) -> None:
    """A caller that connects as soon as the file is there is never refused."""
    path = tmp_path / "control.sock"
    refused: list[OSError] = []

    def caller() -> None:
        while not path.exists():
            pass
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            try:
                connection.connect(str(path))
            except OSError as error:
                refused.append(error)

    for _ in range(200):
        waiting = threading.Thread(target=caller)
        waiting.start()
        listener = bound(path, socket.SOCK_STREAM, 5)
        waiting.join()
        listener.close()
        path.unlink()
    assert refused == []


def test_it_is_its_owners_alone_and_replaces_what_was_left(tmp_path: Path) -> None:
    path = tmp_path / ("long" * 30) / "control.sock"  # longer than an address can be
    path.parent.mkdir()
    for left in (path, path.with_name("control.sock.new")):
        left.write_text("left by a process that was killed")
    with bound(path, socket.SOCK_STREAM, 5) as listener:
        assert stat.S_ISSOCK(path.stat().st_mode)
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert [entry.name for entry in path.parent.iterdir()] == ["control.sock"]

        def answer() -> None:
            listener.setblocking(True)
            with listener.accept()[0] as caller:
                caller.sendall(caller.recv(100).upper())

        answering = threading.Thread(target=answer)
        answering.start()
        assert ask(path, b"hello", 10.0) == b"HELLO\n"
        answering.join()
