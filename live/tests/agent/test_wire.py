import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("grpc")

from weft.errors import InputError
from weft_live.agent.trust import secret_of
from weft_live.agent.wire import Line, Message, listen


def test_as_many_agents_talk_at_once_as_a_cluster_has() -> None:
    """Each keeps its stream open, so each needs a thread of the server; 40 are more than a small pool would hear."""
    over = threading.Event()

    def join(messages: Iterator[Message]) -> Iterator[Message]:
        yield next(messages)
        over.wait(30.0)

    server, address = listen("127.0.0.1:0", "secret", talks={"join": join})
    lines = [Line(address, "secret") for _ in range(40)]
    try:
        talks = [line.talk("join", iter([{"host": n}])) for n, line in enumerate(lines)]
        assert [next(talk) for talk in talks] == [{"host": n} for n in range(40)]
    finally:
        over.set()
        for line in lines:
            line.close()
        server.stop(0)


def test_a_secret_is_made_once_and_never_empty(tmp_path: Path) -> None:
    secret = secret_of(tmp_path)
    assert len(secret) == 32
    assert secret_of(tmp_path) == secret
    file = tmp_path / "agents.secret"
    assert [path.name for path in tmp_path.iterdir()] == [file.name]
    assert file.stat().st_mode & 0o777 == 0o600
    file.write_text("")
    with pytest.raises(InputError, match="is empty, so anybody could give orders"):
        secret_of(tmp_path)


def test_an_address_that_is_none_of_this_machine_is_refused_in_words() -> None:
    with pytest.raises(InputError, match="cannot listen at nonsense: it is in use, or it is no HOST:PORT"):
        listen("nonsense", "secret")
