"""Fabric: the `weft switch` processes of a cluster. Each keeps the tables of some switches, and together those of all.

The server finds out which process keeps which switches and tells its agents; an agent sends each process what concerns
its switches.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence

from weft import __version__
from weft_live.agent.wire import Line, LostError, Message, refuse_address

Kept = dict[str, list[int]]  # links whose tables are kept, by the address of who keeps them
_LOOK_S = 1.0  # seconds between looks at who keeps what
_PATIENT_S = 5.0  # before somebody is told that a table is kept nowhere: processes are started one after the other


def addresses(text: str) -> tuple[str, ...]:
    """Addresses from the command line, separated by commas; raises if one of them is none."""
    found = tuple(filter(None, (part.strip() for part in text.split(","))))
    for address in found:
        refuse_address(address, "--switches")
    return found


class Keepers:
    """Asks, in a thread of its own, which switches each process keeps; `links` are those of the cluster by switch."""

    def __init__(
        self, lines: Sequence[Line], links: Mapping[str, Sequence[int]], changed: Callable[[Kept], None],
        say: Callable[[str], None],
    ) -> None:  # fmt: skip
        self._lines = lines
        self._links, self._changed, self._say = links, changed, say
        self._told: dict[str, dict[str, list[int]]] = {}  # by address: links by switch
        self._kept: Kept | None = None
        self._wrong: dict[str, float] = {}  # what is wrong, and since when
        self._over = threading.Event()

    def start(self) -> None:
        """Look again and again."""
        threading.Thread(target=self._work, daemon=True).start()

    def _work(self) -> None:
        while not self._over.is_set():
            self.look(time.monotonic())
            self._over.wait(_LOOK_S)

    def look(self, now: float) -> None:
        """Ask each, and say what has been wrong for long."""
        wrong = [words for line in self._lines if (words := self._ask(line))]
        kept = self._who()
        if kept != self._kept:
            self._kept = kept
            self._changed(kept)
        known = {link for links in kept.values() for link in links}
        if missing := [name for name, links in self._links.items() if not known.issuperset(links)]:
            wrong.append(f"nobody keeps the tables of {', '.join(missing)}: flows over them are not paced")
        self._wrong = {words: self._wrong.get(words, now) for words in wrong}
        for words, since in self._wrong.items():
            if now - since > _PATIENT_S:
                self._say(words)

    def _ask(self, line: Line) -> str:
        """What is wrong with one process; "" if nothing is. A silent one may come back."""
        try:
            answer = line.ask("keeps", {})
        except LostError as error:
            if error.kind == "silent":
                return f"no weft switch answers at {line.address}"
            return f"the weft switch at {line.address} has another secret; give it the folder of this server with --dir"
        if (version := str(answer.get("version", "0.0"))[:20]) != __version__:
            self._told.pop(line.address, None)
            return f"the weft switch at {line.address} is weft {version}, not {__version__}: install the same on both"
        self._told[line.address] = told = answer["switches"]
        other = [name for name, links in told.items() if list(self._links.get(name, ())) != links]
        if other:
            return f"the weft switch at {line.address} keeps {', '.join(other)} of another cluster: give it this one's"
        return ""

    def _who(self) -> Kept:
        kept: Kept = {}
        for name, links in self._links.items():
            for address, told in self._told.items():
                if told.get(name) == list(links):
                    kept.setdefault(address, []).extend(links)
                    break
        return kept

    def close(self) -> None:
        """Ask no more."""
        self._over.set()
        for line in self._lines:
            line.close()


class Fabric:
    """An agent's lines to them."""

    def __init__(self, secret: str, line: Callable[[str, str], Line] = Line) -> None:
        self._secret, self._line = secret, line
        self._lines: dict[str, Line] = {}
        self._keeper: dict[int, str] = {}

    def keep(self, kept: Mapping[str, Sequence[int]]) -> None:
        """Who keeps what."""
        for address in self._lines.keys() - kept.keys():
            self._lines.pop(address).close()
        for address in kept.keys() - self._lines.keys():
            self._lines[address] = self._line(address, self._secret)
        self._keeper = {link: address for address, links in kept.items() for link in links}

    def renew(self, secret: str) -> None:
        """Another secret from the next call on."""
        self._secret = secret
        for line in self._lines.values():
            line.renew(secret)

    def keeps(self, links: Iterable[int]) -> bool:
        """Whether somebody keeps the tables of all of these."""
        return all(link in self._keeper for link in links)

    def ask(self, message: Message, timeout_s: float) -> Message:
        """The answers of all processes that a message concerns, as one; LostError if one does not come in time."""
        parts = self._parts(message)
        if len(parts) == 1:
            ((address, part),) = parts.items()
            return self._lines[address].ask("slot", part, timeout_s)
        load: Message = {}
        told: dict[str, dict[str, Sequence[float]]] = {}
        for answer in [self._lines[address].begin("slot", part, timeout_s) for address, part in parts.items()]:
            said = answer()
            load |= said["load"]
            for job, flows in said["told"].items():
                known = told.setdefault(job, {})
                known |= {flow: news for flow, news in flows.items() if flow not in known or known[flow][0] < news[0]}
        return {"load": load, "told": told}

    def tell(self, message: Message) -> None:
        """Tell all whom it concerns, and wait for no answer."""
        for address, part in self._parts(message).items():
            self._lines[address].tell("post", part)

    def _parts(self, message: Message) -> dict[str, Message]:
        """The message to each process. What the hosts of a job tell each other goes to all of them, because the switch
        next to a host is asked by that host and by every host that sends to it."""
        keeper, parts = self._keeper, {}
        for address in self._lines:
            asks = [row for row in message.get("ask", ()) if keeper.get(row[0]) == address]
            over, posts = (
                [row for row in message.get(key, ()) if any(keeper.get(link) == address for link in row[1])]
                for key in ("over", "posts")
            )
            if asks or over or posts:
                parts[address] = {
                    "slot": message["slot"], "told": message["told"], "ask": asks, "over": over, "posts": posts
                }  # fmt: skip
        return parts
