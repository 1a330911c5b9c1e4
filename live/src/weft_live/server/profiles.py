"""Profiles: models by name, as users write them. Files and options are read by a child process with limits."""

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
_START_S = 15.0  # more, for a child that has just been started
_PATIENCE_S = 0.02  # seconds to wait for a model on the spot: most are read in no time
_MOST = 1024  # models that are remembered
_REFUSED_S = 10.0  # seconds after which a model that was refused may have been mended
_LONGEST = 32 << 20  # bytes of an answer
_CHILD = "from weft_live.server.reading import main; main()"

_Key = tuple[str, int]


class Reading(Exception):  # noqa: N818 - it passes
    """The model is being read; ask again later."""


class Profiles:
    """Profiles on this cluster's GPUs: one object for each model and size, however many jobs.

    A plain name of the zoo is looked up here. Everything else (a file, options behind a name) is the word of a user
    and is read elsewhere, so a call may raise `Reading`: whoever schedules for others does not wait. `folders` are
    those that files may lie in; None: any. `now` is the clock by which reading takes too long.
    """

    def __init__(
        self,
        cluster: Cluster,
        folders: Sequence[Path] | None = None,
        limit_s: float = LIMIT_S,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._cluster, self._now = cluster, now
        self._folders = None if folders is None else [str(folder) for folder in folders]
        self._limit_s = limit_s
        self._known: OrderedDict[_Key, Profile] = OrderedDict()
        self._refused: dict[_Key, tuple[float, str]] = {}
        self._child: subprocess.Popen[bytes] | None = None
        self._asked: _Key | None = None
        self._until = self._up_s = 0.0
        self._answer = b""

    def __call__(self, model: str, gpus: int) -> Profile:
        """The profile; raises InputError if there is none, and Reading if it is not known yet."""
        key = (model, gpus)
        if key in self._known:
            self._known.move_to_end(key)
            return self._known[key]
        self._look()
        if key in self._known:
            return self._known[key]
        if key in self._refused:
            refused_s, words = self._refused[key]
            if self._now() - refused_s < _REFUSED_S:
                raise InputError(words)
            del self._refused[key]
        if "[" not in model and not zoo.is_path(model):
            return self._keep(key, zoo.profile(model, gpus, gpu=self._cluster.gpu))
        if self._asked is None:
            self._ask(key)
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
                self._look_for(max(0.0, self._until - self._now()) + 0.01)

    def warm(self) -> None:
        """Start the child: the first model is read sooner."""
        if self._child is None:
            self._start()

    def close(self) -> None:
        """End the child."""
        self._kill()

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

    # The child

    def _ask(self, key: _Key) -> None:
        if self._child is None:
            self._start()
        assert self._child is not None
        self._until = max(self._now(), self._up_s) + self._limit_s
        self._asked, self._answer = key, b""
        line = {"model": key[0], "gpus": key[1], "gpu": self._cluster.gpu, "folders": self._folders}
        try:
            assert self._child.stdin is not None
            self._child.stdin.write(json.dumps(line).encode() + b"\n")
            self._child.stdin.flush()
        except OSError:
            self._refuse("its reader has ended")

    def _look_for(self, seconds: float) -> None:
        if self._child is not None and self._child.stdout is not None:
            select.select([self._child.stdout], [], [], seconds)
            self._look()

    def _start(self) -> None:
        environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
        self._child = subprocess.Popen(
            [sys.executable, "-P", "-c", _CHILD], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL, cwd="/", env=environment, start_new_session=True,
        )  # fmt: skip
        assert self._child.stdout is not None
        os.set_blocking(self._child.stdout.fileno(), False)
        self._up_s = self._now() + _START_S

    def _look(self) -> None:
        """Take what the child has answered; end one that takes too long."""
        if self._asked is None or self._child is None or self._child.stdout is None:
            return
        while (part := self._child.stdout.read(1 << 16)) is not None:
            self._answer += part
            if not part or len(self._answer) > _LONGEST:
                self._refuse("reading it needs too much memory")
                return
        if self._answer.endswith(b"\n"):
            self._take(self._asked, json.loads(self._answer))
        elif self._now() > self._until:
            self._refuse(f"reading it takes more than {self._limit_s:g} s")

    def _take(self, key: _Key, answer: dict[str, Any]) -> None:
        self._asked, self._up_s = None, 0.0
        try:
            if "error" in answer:
                raise InputError(answer["error"])
            self._keep(key, Profile.from_json(answer["profile"]))
        except InputError as error:
            self._remember(key, str(error))

    def _refuse(self, words: str) -> None:
        """The model is not taken; the child may be half through anything, so another one follows it."""
        key, self._asked = self._asked, None
        self._kill()
        if key is not None:
            self._remember(key, f"submit: {key[0]:.80}: {words}; name another file")

    def _remember(self, key: _Key, words: str) -> None:
        now = self._now()
        if len(self._refused) >= _MOST:
            self._refused = {k: said for k, said in self._refused.items() if now - said[0] < _REFUSED_S}
            self._refused = dict(list(self._refused.items())[-_MOST // 2 :])
        self._refused[key] = (now, words)

    def _kill(self) -> None:
        if self._child is not None:
            self._child.kill()
            self._child.wait()
            for pipe in (self._child.stdin, self._child.stdout):
                if pipe is not None:
                    pipe.close()
            self._child = None
