"""SwitchService: the load tables of one or many switches, for agents that ask and post.

A message carries whatever a host has for the switches of this process in a slot: schedules to post, flows that have
ended, links to ask about. Beside the tables there is a board on which the hosts of a job tell each other how far they
are; a real switch would know nothing of it, but it saves a message where one process serves many switches.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from weft import __version__
from weft.model.cluster import Cluster
from weft_live.agent.wire import Message, listen
from weft_live.flow.switch_table import SwitchTable


def links_of(cluster: Cluster, switches: Sequence[str] = ()) -> dict[str, list[int]]:
    """Outgoing links of all switches, or of those named, by switch."""
    servers = {server.name for server in cluster.servers}
    found: dict[str, list[int]] = {}
    for link in cluster.topology.links:
        if link.src not in servers and (not switches or link.src in switches):
            found.setdefault(link.src, []).append(link.id)
    return found


class SwitchService:
    """See the module."""

    def __init__(self, links: Mapping[str, Sequence[int]], address: str, secret: str, slots: int = 10) -> None:
        self.tables = {name: SwitchTable(mine, slots) for name, mine in links.items()}
        self._links = {name: list(mine) for name, mine in links.items()}
        self._table = {link: self.tables[name] for name, mine in links.items() for link in mine}
        self._board: dict[str, dict[str, tuple[int, float, float]]] = {}  # job: flow: slot, bytes sent, rate
        self._lock = threading.Lock()
        self.messages = self.bytes = 0
        answers = {"slot": self.slot, "keeps": self.keeps}
        talks = {"post": self._post}
        self._server, self.address = listen(address, secret, answers=answers, talks=talks, weigh=self._weigh)

    def keeps(self, message: Message) -> Message:
        """Which switches these are, with their links; how many messages they have had; which weft this is."""
        return {"switches": self._links, "messages": self.messages, "version": __version__}

    def _weigh(self, size: int) -> None:
        self.bytes += size

    def _post(self, messages: Iterator[Message]) -> Iterator[Message]:
        """What a host posts, slot by slot, and wants no answer to."""
        for message in messages:
            self.slot(message)
        yield from ()

    def slot(self, message: Message) -> Message:
        """What a host posts and asks in one slot."""
        with self._lock:
            self.messages += 1
            for table in self.tables.values():
                table.advance(int(message["slot"]))
            for flow, links in message.get("over", ()):
                for link in links:
                    if link in self._table:
                        self._table[link].withdraw(flow, link)
            for flow, links, rates in message.get("posts", ()):
                for link in links:
                    if link in self._table:
                        self._table[link].post(flow, link, int(message["slot"]), rates)
            for job, told in message.get("told", {}).items():
                board = self._board.setdefault(job, {})
                board.update({flow: (int(message["slot"]), *said) for flow, said in told.items()})
            return {
                "load": {str(k): self._answer(k, of) for k, of in message.get("ask", ()) if k in self._table},
                "told": {job: self._board.get(job, {}) for job in message.get("told", {})},
            }

    def _answer(self, link: int, mates: Sequence[int]) -> list[list[float]]:
        """The planned load of a link, and what of it the other flows of the asking job have planned."""
        table = self._table[link]
        return [table.load(link), table.load(link, mates)]

    def forget(self, job: str) -> None:
        """A job has ended."""
        with self._lock:
            self._board.pop(job, None)

    def close(self) -> None:
        """Hosts go on with what they had planned."""
        server: Any = self._server
        server.stop(0.1)
