"""Worker processes of this machine, each of which gets one task at a time over a pipe of its own.

There are no threads and no locks here, so nothing waits for the lock of a process that was killed, and a signal
interrupts nothing half done. `concurrent.futures` has both, and waited for ever when another thread received the
signal."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import islice
from multiprocessing import Pipe, get_context
from multiprocessing.connection import Connection, wait
from traceback import format_exception
from typing import TYPE_CHECKING, Any, TypeVar, cast

from weft import kernels
from weft.errors import WeftError

if TYPE_CHECKING:
    from multiprocessing.context import SpawnProcess

Given = TypeVar("Given")
Outcome = TypeVar("Outcome")
_LISTEN_S = 0.2  # how soon a signal is acted upon that came while nothing else did


def in_processes(
    tasks: Sequence[Given], workers: int, run: Callable[[Given], Outcome]
) -> Iterator[tuple[int, Outcome]]:
    """Run all tasks; yields (index, outcome) as they end."""
    signals = _Signals()
    pool: dict[Connection, SpawnProcess] = {}
    try:
        with _unheard():
            for _ in range(workers):
                here, there = Pipe()
                with there:  # the worker alone has that end, so its death is seen here
                    pool[here] = get_context("spawn").Process(target=_work, args=(there, run, kernels.own_process))
                    pool[here].start()
        yield from _handed_out(tasks, pool, signals)
    except BaseException as error:
        for process in pool.values():
            if process.pid is not None:
                process.kill()
        if isinstance(error, _DiedError):
            signals.act()  # an interrupt from a terminal ends workers, too
            raise WeftError(
                "compare: a worker process died (out of memory, or a script without if __name__ == '__main__'); "
                "use fewer workers, or workers = 1 to run in this process"
            ) from None
        raise
    finally:
        for pipe, process in pool.items():
            pipe.close()  # ends a worker that waits for a task
            if process.pid is not None:
                process.join()
        signals.close()
    signals.act()


class _DiedError(Exception):
    """A worker is gone."""


def _handed_out(tasks: Sequence[Given], pool: Iterable[Connection], signals: _Signals) -> Iterator[tuple[int, Any]]:
    """Yields each outcome as it comes, after its worker has got the next task."""
    left = iter(enumerate(tasks))
    busy: dict[Connection, int] = {}

    def give(pipe: Connection) -> None:
        for i, task in islice(left, 1):
            busy[pipe] = i
            with _seen_to_die():
                pipe.send(task)

    for pipe in pool:
        give(pipe)
    while busy:
        ready = wait(list(busy), _LISTEN_S)
        signals.act()
        for pipe in cast("list[Connection]", ready):
            with _seen_to_die():
                failed, outcome = pipe.recv()
            i = busy.pop(pipe)
            if failed:
                raise outcome
            give(pipe)
            yield i, outcome
            signals.act()  # before the next outcome, where several came together


@contextmanager
def _seen_to_die() -> Iterator[None]:
    try:
        yield
    except (EOFError, OSError):  # it had sent nothing, or a part
        raise _DiedError from None


class _Signals:
    """SIGINT and SIGTERM while workers run. They are noted here and acted upon between two outcomes: an exception that
    comes at any moment can be lost in a finalizer, or leave a worker half started. No code relies on being woken
    either, since another thread of this process may receive the signal."""

    def __init__(self) -> None:
        self._came: list[int] = []
        self._before: dict[int, Any] = {}
        if threading.current_thread() is threading.main_thread():
            if callable(interrupted := signal.getsignal(signal.SIGINT)):  # else somebody else is told, or nobody
                self._before[signal.SIGINT] = interrupted
            if signal.getsignal(signal.SIGTERM) == signal.SIG_DFL:
                self._before[signal.SIGTERM] = signal.SIG_DFL
        for number in self._before:
            signal.signal(number, lambda number, _: self._came.append(number))

    def act(self) -> None:
        """Act on the signals that came: SIGTERM ends this process in order, workers first."""
        for number in self._came:
            if callable(before := self._before[number]):
                before(number, None)
            else:
                raise SystemExit(128 + number)
        self._came.clear()

    def close(self) -> None:
        """They are heard as before."""
        for number, before in self._before.items():
            signal.signal(number, before)


@contextmanager
def _unheard() -> Iterator[None]:
    """Inside, a new process ignores interrupts until `_begin_worker`, so that one during its imports leaves no
    traceback."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _work(pipe: Connection, run: Callable[[Given], Outcome], own_process: bool) -> None:
    """What a worker does, until its pipe is closed."""
    _begin_worker(own_process)
    with suppress(EOFError, ConnectionError):
        while True:
            task = pipe.recv()
            try:
                outcome: tuple[bool, Any] = (False, run(task))
            except Exception as error:
                error.add_note("".join(format_exception(error)))
                outcome = (True, error)
            pipe.send(outcome)


def _begin_worker(own_process: bool) -> None:
    """A worker loads kernels as its parent does. An interrupted worker dies without a traceback of its own, because the
    parent tells the user. A worker whose parent was killed ends too, instead of computing for nobody."""
    kernels.own_process = own_process
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    parent = multiprocessing.parent_process()

    def follow() -> None:
        if parent is not None:
            parent.join()
        os._exit(1)

    threading.Thread(target=follow, daemon=True).start()
