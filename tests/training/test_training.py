import json
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

import weft
from weft import training


@pytest.fixture
def own_line(monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    """The connection of this process is closed in the end."""

    yield monkeypatch
    training._line.hang_up()
    training._line.path = ""


def test_without_weft_it_does_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WEFT_PROGRESS_SOCKET", raising=False)
    monkeypatch.delenv("WEFT_RESUME_STEP", raising=False)
    assert weft.progress(3) == 0.0
    assert weft.progress(3, wait=True, saved=True) == 0.0
    assert weft.resume_step() == 0
    assert callable(weft.progress), "the function, not a module of that name"


@pytest.mark.parametrize("path", ["/no/such/socket", "", "x" * 300, "/dev/null", "/tmp"])
def test_it_never_raises(path: str, own_line: pytest.MonkeyPatch) -> None:
    own_line.setenv("WEFT_PROGRESS_SOCKET", path)
    for step in (0, 1, "no number", None, float("nan"), 10**400):
        assert weft.progress(step) == 0.0  # type: ignore[arg-type]


def test_who_does_not_answer_is_not_waited_for(tmp_path: Path, own_line: pytest.MonkeyPatch) -> None:
    """A listener that never answers is asked again after 1, 2, 4, ... 60 s, and not in every iteration."""
    path = str(tmp_path / "s")
    own_line.setenv("WEFT_PROGRESS_SOCKET", path)
    own_line.setattr(training, "_FIRST_S", 0.01)
    own_line.setattr(training, "_PATIENCE_S", 0.01)
    asked = []
    with socket.socket(socket.AF_UNIX) as silent:
        silent.bind(path)
        silent.listen(100)
        silent.setblocking(False)
        for now in range(300):
            own_line.setattr(training._line, "now", lambda now=now: float(now))
            assert weft.progress(now) == 0.0
            with suppress(BlockingIOError):
                silent.accept()[0].close()
                asked.append(now)
    assert asked == [0, 1, 3, 7, 15, 31, 63, 123, 183, 243]


def test_who_stood_still_for_a_moment_is_asked_again_at_once(tmp_path: Path, own_line: pytest.MonkeyPatch) -> None:
    """A runner that was held up once misses one report. The reports of a whole second were not even sent."""
    path = str(tmp_path / "s")
    own_line.setenv("WEFT_PROGRESS_SOCKET", path)
    own_line.setattr(training, "_FIRST_S", 60.0)
    own_line.setattr(training, "_PATIENCE_S", 60.0)
    own_line.setattr(training._line, "now", lambda: 0.0)
    heard: list[int] = []
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(path)
        server.listen(5)

        def serve(answers: int) -> None:
            connection, _ = server.accept()
            with connection:
                for _ in range(answers):
                    heard.append(json.loads(connection.recv(4096))["step"])
                    connection.sendall(b"{}\n")

        for first in (1, 3):
            thread = threading.Thread(target=serve, args=(1,))
            thread.start()
            weft.progress(first)
            thread.join()
            weft.progress(first + 1)  # nobody answers
    assert heard == [1, 3]


@pytest.mark.parametrize("answer", [b"nonsense\n", b"[]\n", b'{"at": "soon"}\n', b'{"at": null}\n', b"\xff\n", b"1\n"])
def test_nonsense_in_answer_is_no_delay(answer: bytes, tmp_path: Path, own_line: pytest.MonkeyPatch) -> None:
    path = str(tmp_path / "s")
    own_line.setenv("WEFT_PROGRESS_SOCKET", path)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(path)
        server.listen(1)

        def reply() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(4096)
                connection.sendall(answer)

        thread = threading.Thread(target=reply)
        thread.start()
        assert weft.progress(1) == 0.0
        thread.join()


def test_importing_it_loads_no_numpy() -> None:
    check = (
        "import weft, sys; weft.progress(1); print(*(m for m in ('numpy', 'typer', 'weft.core') if m in sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []
