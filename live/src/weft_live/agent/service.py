"""AgentService: the part of a server that agents talk to. It feeds a conductor and sends its orders."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Collection, Iterator
from typing import Any

from weft import __version__
from weft_live.agent.conductor import Conductor
from weft_live.agent.fabric import Kept
from weft_live.agent.wire import Message, listen

_NAMED = 6  # servers that are named where there are many
_MOST = 1000  # things that are said
_BEAT_S = 0.35  # seconds between signs of life to an agent


def listed(names: Collection[str]) -> str:
    """Names in words, a few of many."""
    some = sorted(names)
    return ", ".join(some[:_NAMED]) + (f" and {len(some) - _NAMED} more" if some[_NAMED:] else "")


class AgentService:
    """Runs in threads of its own, until it is closed."""

    def __init__(
        self, conductor: Conductor, address: str, secret: str, switches: Kept | None = None,
        say: Callable[[str], None] = lambda text: None,
    ) -> None:  # fmt: skip
        self.conductor, self.switches = conductor, switches
        self._say, self._said = say, set[str]()
        self.lock = threading.Lock()
        self._changed = threading.Condition(self.lock)
        self._due = True
        self._boxes: dict[str, queue.SimpleQueue[Message | None]] = {}
        self._sent: dict[str, Any] = {}
        self._known: dict[str, Any] = {}  # whose jobs are, and their flows, as agents were told
        self.costs: dict[str, list[float]] = {"waited_s": [], "decided_s": []}  # what planning costs agents
        self.closed = False
        self._server, self.address = listen(address, secret, talks={"join": self._join}, refused=self._refused)
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._thread.start()

    @property
    def hosts(self) -> set[str]:
        """Hosts whose agents are here."""
        return set(self._boxes)

    def set_switches(self, kept: Kept) -> None:
        """Who keeps the tables of which links, from now on."""
        with self._changed:
            self.switches = kept
            self.change()

    def say(self, words: str) -> None:
        """To whoever watches the server; everything once."""
        with self.lock:
            new = words not in self._said and len(self._said) < _MOST
            self._said.add(words)
        if new:
            self._say(words)

    def _refused(self, peer: str) -> None:
        self.say(f"agents: one called with another secret ({peer}); it needs a copy of this server's")

    def change(self) -> None:
        """The conductor was told something: look again. To be called with the lock held."""
        self._due = True
        self._changed.notify()

    def _join(self, messages: Iterator[Message]) -> Iterator[Message]:
        """One agent: what it says goes to the conductor, what the conductor says goes to it."""
        first = next(messages)
        host, version = str(first.get("host", "")), str(first.get("version", "0.0"))[:20]
        if version != __version__:
            words = f"the agent of {host[:80]!r} is weft {version}, and this server is {__version__}"
            self.say(f"agents: {words}")
            yield {"refused": f"{words}: install the same version on both"}
            return
        if host not in self.conductor.known:
            words = f"the cluster has no server {host[:80]!r}; it has {listed(self.conductor.known)}"
            self.say(f"agents: {words}")
            yield {"refused": f"{words}: name one of them with --host"}
            return
        if first.get("blind"):
            self.say(f"agents: that of {host} {first['blind']}")
        box: queue.SimpleQueue[Message | None] = queue.SimpleQueue()
        with self._changed:
            self._boxes[host] = box
            self._sent.pop(host, None)
            self._known.pop(host, None)
            self.change()

        def hear() -> None:
            try:
                for message in messages:
                    with self._changed:
                        for key, cost in self.costs.items():
                            cost += message.get(key, ())
                        new = [
                            self.conductor.hear(host, report, time.monotonic()) for report in message.get("jobs", ())
                        ]
                        if "job" in message:
                            new.append(self.conductor.hear(host, message, time.monotonic()))
                        if "again" in message:  # it has forgotten its orders
                            self._sent.pop(host, None)
                        if any(new) or "again" in message:
                            self.change()
            except Exception:  # the stream broke: whatever the reason, this agent is gone
                pass
            box.put(None)

        threading.Thread(target=hear, daemon=True).start()
        try:
            while True:
                try:
                    message = box.get(timeout=_BEAT_S)
                except queue.Empty:
                    message = {}
                if message is None or self.closed:
                    return
                yield message
        finally:
            last = False
            with self._changed:
                if self._boxes.get(host) is box:
                    del self._boxes[host]
                    self.conductor.lost(host)
                    self.change()
                    last = not self._boxes and not self.closed
            if last:
                self._say(f"agents: the last one, that of {host}, is gone: nothing is paced or shifted from outside")

    def _work(self) -> None:
        """Orders, until the service is closed; if they cannot be given any more, agents are to let go of everything."""
        try:
            self._conduct()
        finally:
            self.closed = True

    def _conduct(self) -> None:
        """Ask the conductor when something changed, and when it wants to be asked."""
        wake = time.monotonic()
        while not self.closed:
            with self._changed:
                while not self._due and not self.closed and time.monotonic() < wake:
                    self._changed.wait(min(wake - time.monotonic(), 0.2))
                self._due = False
                orders, wake = self.conductor.decide(time.monotonic())
                flow = self.conductor.flowing
                facts: Message = {"owners": self.conductor.owners()}
                if flow is not None:  # agents carry out their own plans, when gates let them
                    facts["flow"] = self.conductor.planned(flow.slot_s, flow.slots, self.switches)
                for host, box in self._boxes.items():
                    if facts != self._known.get(host):
                        self._known[host] = facts
                        box.put(facts)
                    message = {"orders": orders.get(host, {}), "report_s": self.conductor.report_s}
                    if message != self._sent.get(host):
                        self._sent[host] = message
                        box.put(message)

    def close(self) -> None:
        """Agents notice, and let go of everything."""
        self.closed = True
        with self._changed:
            self._changed.notify()
        for box in list(self._boxes.values()):
            box.put(None)
        self._server.stop(0.1).wait()  # else it might remove the socket of the server after it
        self._thread.join(1.0)
