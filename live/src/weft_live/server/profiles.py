"""Profiles: models by name, as users write them. Files and options are read by child processes with limits."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from weft.errors import InputError
from weft.model.cluster import Cluster
from weft.model.profile import Profile
from weft.workload import zoo

LIMIT_S = 5.0  # seconds that reading one model may take; one that takes longer is refused
BUDGET_S = 300.0  # seconds of reading that one user may cause within an hour
_START_S = 15.0  # more, for a child that has just been started
_PATIENCE_S = 0.02  # seconds to wait for a model on the spot: most are read in no time
_READERS = 2  # children that read files; one more reads options of the zoo's models
_QUEUED = 64  # models of one user that wait to be read; more are asked for again later
_MOST = 1024  # models that are remembered
_REFUSED_S = 10.0  # seconds after which a model that was refused may have been mended
_LONGEST = 32 << 20  # bytes of an answer
_CHILD = "from weft_live.server.reading import main; main()"

_Key = tuple[str, int]


class Reading(Exception):  # noqa: N818 - it passes
    """The model is being read, or will be; ask again later."""


class _Reader:
    """A child that reads one model at a time."""

    def __init__(self, files: bool) -> None:
        self.files = files  # or options of the zoo's models
        self.child: subprocess.Popen[bytes] | None = None
        self.key: _Key | None = None  # what it reads
        self.user = ""
        self.until = self.up_s = 0.0
        self.answer = b""

    def start(self, now: float) -> None:
        """Start the child, if there is none: the first model is read sooner."""
        if self.child is not None:
            return
        environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
        self.child = subprocess.Popen(
            [sys.executable, "-P", "-c", _CHILD], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL, cwd="/", env=environment, start_new_session=True,
        )  # fmt: skip
        assert self.child.stdout is not None
        os.set_blocking(self.child.stdout.fileno(), False)
        self.up_s = now + _START_S

    def ask(self, key: _Key, user: str, line: dict[str, Any], limit_s: float, now: float) -> bool:
        """Have a model read; False if the child has ended."""
        self.start(now)
        assert self.child is not None
        assert self.child.stdin is not None
        self.key, self.user, self.until, self.answer = key, user, max(now, self.up_s) + limit_s, b""
        try:
            self.child.stdin.write(json.dumps(line).encode() + b"\n")
            self.child.stdin.flush()
        except OSError:
            return False
        return True

    def look(self) -> dict[str, Any] | None:
        """What it has answered; None: nothing yet. Raises InputError if it has ended, or answers too much."""
        assert self.child is not None
        assert self.child.stdout is not None
        while (part := self.child.stdout.read(1 << 16)) is not None:
            self.answer += part
            if not part or len(self.answer) > _LONGEST:
                raise InputError("reading it needs too much memory")
        if not self.answer.endswith(b"\n"):
            return None
        self.up_s = 0.0
        found: dict[str, Any] = json.loads(self.answer)
        return found

    def kill(self) -> None:
        """End the child, if there is one."""
        if self.child is not None:
            self.child.kill()
            self.child.wait()
            for pipe in (self.child.stdin, self.child.stdout):
                if pipe is not None:
                    pipe.close()
            self.child = None


class Profiles:
    """Profiles on this cluster's GPUs: one object for each model and size, however many jobs.

    A plain name of the zoo is looked up here. Everything else (a file, options behind a name) is the word of a user
    and is read elsewhere, so a call may raise `Reading`: whoever schedules for others does not wait. Users take turns,
    each has one model read at a time, and `budget_s` of reading within an hour; options never wait for files. The user
    "" has no limit. `folders` are those that files may lie in; None: any. `now` is the clock by which reading takes
    too long.
    """

    def __init__(
        self, cluster: Cluster, folders: Sequence[Path] | None = None, limit_s: float = LIMIT_S,
        now: Callable[[], float] = time.monotonic, budget_s: float = BUDGET_S,
    ) -> None:  # fmt: skip
        if len(cluster.gpu_types) > 1:
            types = " and ".join(cluster.gpu_types)
            raise InputError(f"cluster.group: a live world knows one type of GPU, not {types}; serve each group apart")
        self._cluster, self._now = cluster, now
        self._folders = None if folders is None else [str(folder) for folder in folders]
        self._limit_s, self._budget_s = limit_s, budget_s
        self._known: OrderedDict[_Key, Profile] = OrderedDict()
        self._refused: dict[_Key, tuple[float, str]] = {}
        self._readers = [_Reader(files) for files in (*[True] * _READERS, False)]
        self._queues: dict[str, dict[_Key, None]] = {}  # what is to be read, by user; whose turn is next stands first
        self._spent: dict[str, tuple[float, float]] = {}  # seconds of reading that a user has caused, and at what time

    def __call__(self, model: str, gpus: int, user: str = "") -> Profile:
        """The profile; raises InputError if there is none, and Reading if it is not known yet."""
        key = (model, gpus)
        if key in self._known:
            self._known.move_to_end(key)
            return self._known[key]
        self._look()
        if key not in self._known and key in self._refused and self._now() - self._refused[key][0] >= _REFUSED_S:
            del self._refused[key]
        if key not in self._known and key not in self._refused:
            if "[" not in model and not zoo.is_path(model):
                return self._keep(key, zoo.profile(model, gpus, gpu=self._cluster.gpu))
            self._queue(key, user)
            if any(reader.key == key for reader in self._give()):
                self._look_for(_PATIENCE_S)
        if key in self._known:
            return self._known[key]
        if key in self._refused:  # nothing more comes, and whoever waits would wait as long as reading may take
            raise InputError(self._refused[key][1])
        raise Reading

    def wait(self, model: str, gpus: int) -> Profile:
        """The same, and waits for it as long as it may take."""
        while True:
            try:
                return self(model, gpus)
            except Reading:
                until = min((reader.until for reader in self._readers if reader.key), default=0.0)
                self._look_for(max(0.0, until - self._now()) + 0.01)

    def warm(self) -> None:
        """Start the children: the first models are read sooner."""
        for reader in self._readers:
            reader.start(self._now())

    def close(self) -> None:
        """End the children."""
        for reader in self._readers:
            reader.kill()

    def _keep(self, key: _Key, profile: Profile) -> Profile:
        if profile.memory_bytes > self._cluster.gpu_memory_bytes:
            needs, there = profile.memory_bytes / 1e9, self._cluster.gpu_memory_bytes / 1e9
            raise InputError(
                f"submit: {key[0]} on {key[1]} GPUs needs {needs:.3g} GB of each, they have {there:g}; "
                "ask for more GPUs"
            )
        self._known[key] = profile
        while len(self._known) > _MOST:
            self._known.popitem(last=False)
        return profile

    # Whose turn it is

    def _queue(self, key: _Key, user: str) -> None:
        """Note that it is to be read; raises if its user has had enough read."""
        if any(reader.key == key for reader in self._readers):
            return
        if user and self._had_s(user) >= self._budget_s:
            raise InputError(
                f"submit: {key[0]:.80}: reading models of {user} has taken {self._budget_s:g} s within an hour; name a "
                "plain model of the zoo, or submit it again later"
            )
        mine = self._queues.setdefault(user, {})
        if len(mine) < _QUEUED:
            mine[key] = None

    def _had_s(self, user: str) -> float:
        """Seconds of reading that count: what was read is forgotten evenly, so that after an hour all of it is."""
        spent_s, at = self._spent.get(user, (0.0, 0.0))
        return max(0.0, spent_s - (self._now() - at) * self._budget_s / 3600.0)

    def _give(self) -> list[_Reader]:
        """Give readers that have nothing to do something to read; returns them."""
        given = []
        for reader in self._readers:
            if reader.key is not None:
                continue
            busy = {other.user for other in self._readers if other.key is not None and other.user}
            for user, mine in self._queues.items():
                key = next((key for key in mine if zoo.is_path(key[0]) == reader.files), None)
                if key is None or user in busy:
                    continue
                del mine[key], self._queues[user]
                if mine:
                    self._queues[user] = mine  # behind all others
                line = {"model": key[0], "gpus": key[1], "gpu": self._cluster.gpu, "folders": self._folders}
                if reader.ask(key, user, line, self._limit_s, self._now()):
                    given.append(reader)
                else:
                    self._refuse(reader, "its reader has ended")
                break
        return given

    # What is answered

    def _look_for(self, seconds: float) -> None:
        select.select([r.child.stdout for r in self._readers if r.key and r.child and r.child.stdout], [], [], seconds)
        self._look()

    def _look(self) -> None:
        """Take what has been answered, end what takes too long, and go on with the next."""
        for reader in self._readers:
            if reader.key is None:
                continue
            try:
                answer = reader.look()
            except InputError as error:
                self._refuse(reader, str(error))
                continue
            if answer is not None:
                self._take(reader, reader.key, answer)
            elif self._now() > reader.until:
                self._refuse(reader, f"reading it takes more than {self._limit_s:g} s")
        self._give()

    def _take(self, reader: _Reader, key: _Key, answer: dict[str, Any]) -> None:
        self._charge(reader, answer["seconds"])
        try:
            if "error" in answer:
                raise InputError(answer["error"])
            self._keep(key, Profile.from_json(answer["profile"]))
        except InputError as error:
            self._remember(key, str(error))

    def _charge(self, reader: _Reader, seconds: float) -> None:
        """Its reader is free, and its user has had so much."""
        user, reader.key = reader.user, None
        self._spent[user] = (self._had_s(user) + seconds, self._now())
        if len(self._spent) > _MOST:
            self._spent = {name: spent for name, spent in self._spent.items() if self._had_s(name) > 0}

    def _refuse(self, reader: _Reader, words: str) -> None:
        """The model is not taken; the child may be half through anything, so another one follows it."""
        key = reader.key
        assert key is not None
        self._charge(reader, self._limit_s)
        reader.kill()
        self._remember(key, f"submit: {key[0]:.80}: {words}; name another file")

    def _remember(self, key: _Key, words: str) -> None:
        now = self._now()
        if len(self._refused) >= _MOST:
            self._refused = {k: said for k, said in self._refused.items() if now - said[0] < _REFUSED_S}
            self._refused = dict(list(self._refused.items())[-_MOST // 2 :])
        self._refused[key] = (now, words)
