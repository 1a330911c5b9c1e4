"""Caller: an agent's end of its line to the server. It keeps calling, and reports each fault once."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Iterator

from weft.errors import InputError
from weft_live.agent.trust import SECRET
from weft_live.agent.wire import Line, LostError, Message

_AGAIN_S = (0.1, 0.5)  # seconds before another call: the first ones, and the most
_REFUSED_S = 5.0  # and after the server has refused this host
_PATIENT_S = 2.0  # seconds without an answer that nobody is told of: a server may be started again


class Caller:
    """Calls in a thread of its own until it is closed; `heard` is called there with what the server says."""

    def __init__(
        self,
        line: Line,
        first: Message,
        heard: Callable[[Message], None],
        say: Callable[[str], None],
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self.line, self._first, self._heard, self._say, self._now = line, first, heard, say, now
        self._outbox: queue.SimpleQueue[Message | None] = queue.SimpleQueue()
        self._over = threading.Event()
        self._since = now()  # when the server was last heard
        self._complaint, self._pause_s = "", _AGAIN_S[0]

    def start(self) -> None:
        """Call again and again."""
        threading.Thread(target=self._work, daemon=True).start()

    def tell(self, message: Message) -> None:
        """To the server, if it is there."""
        self._outbox.put(message)

    def close(self) -> None:
        """Hang up."""
        self._over.set()
        self._outbox.put(None)
        self.line.close()

    def _work(self) -> None:
        while not self._over.is_set():
            self._over.wait(self.call())

    def call(self) -> float:
        """Call once; returns how long to wait before another call."""
        heard, refused = self._since, False
        try:
            refused = self._talk()
        except LostError as error:
            self._judge(error)
        except InputError as error:
            self._complain(str(error))
        self._pause_s = _AGAIN_S[0] if self._since > heard else min(2 * self._pause_s, _AGAIN_S[1])
        return _REFUSED_S if refused else self._pause_s

    def _talk(self) -> bool:
        """One conversation; True if the server has refused to have it."""
        self._outbox = outbox = queue.SimpleQueue[Message | None]()
        outbox.put(self._first)

        def said() -> Iterator[Message]:
            while (message := outbox.get()) is not None:
                yield message

        try:
            for message in self.line.talk("join", said()):
                if "refused" in message:
                    self._complain(str(message["refused"]))
                    return True
                self._since = self._now()
                if self._complaint:
                    self._complaint = ""
                    self._say(f"the server at {self.line.address} answers")
                self._heard(message)
        finally:
            outbox.put(None)
        return False

    def _judge(self, error: LostError) -> None:
        where = self.line.address
        if error.kind == "secret":
            self._complain(f"the server at {where} has another secret; copy {SECRET} from its folder to --dir")
        elif error.kind == "forged":
            self._complain(f"whoever answers at {where} does not know the secret; no order from there is obeyed")
        elif self._now() - self._since > _PATIENT_S:
            self._complain(f"no server answers at {where}; it is called again and again ({error})")

    def _complain(self, words: str) -> None:
        """Once, until something else is wrong."""
        if words.partition(" (")[0] != self._complaint and not self._over.is_set():
            self._complaint = words.partition(" (")[0]
            self._say(words)
