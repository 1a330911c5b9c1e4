"""Where the runs of a comparison are executed: this process, worker processes, a Slurm cluster, or dask.

    with using("dask:tcp://scheduler:8786"):
        weft.compare("scenario.toml", ["fifo", "srsf"])

The results and their order do not depend on the executor. A worker is told what only this process knows: policies that
were registered by hand, and the folder that relative paths start from.
"""

from __future__ import annotations

import logging
import os
import pickle
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, as_completed
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial
from math import ceil
from pathlib import Path
from time import sleep
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

import cloudpickle

from weft.errors import InputError
from weft.runs.kept import current
from weft.runs.workers import in_processes
from weft.stacks.registry import by_hand, files_from, register

if TYPE_CHECKING:
    from weft.results.store import Store

KINDS = ("processes", "slurm", "dask")
Given = TypeVar("Given")
Outcome = TypeVar("Outcome")
_POLL_S = 0.5  # how often Slurm is asked
_DASK_S = 20.0  # after which nobody is taken to answer there
_chosen: ContextVar[str | Executor] = ContextVar("executor", default="processes")


class Keepable(Protocol):
    """A task whose outcome can be kept: the key that tells it from others, and what becomes of a kept outcome."""

    def identity(self) -> str | None: ...
    def again(self, run: Any) -> Any: ...


Piece = TypeVar("Piece", bound=Keepable)


@contextmanager
def using(executor: str | Executor | None) -> Iterator[None]:
    """Inside, runs are done by this executor: `processes`, `slurm`, `slurm:KEY=VALUE,...` (options of submitit),
    `dask:ADDRESS`, or any executor of `concurrent.futures`. None leaves things as they are."""
    if executor is None:
        yield
        return
    if isinstance(executor, str):
        check_executor(executor)
    token = _chosen.set(executor)
    try:
        yield
    finally:
        _chosen.reset(token)


def check_executor(text: str) -> None:
    """Refuse an executor that is not known, or whose package is not installed."""
    kind, _, detail = text.partition(":")
    if kind not in KINDS:
        raise InputError(f"--executor {text} is not known; choose processes, slurm, or dask:ADDRESS")
    if kind == "slurm" and text.endswith(":"):
        raise InputError("--executor slurm: nothing follows the colon; write slurm, or slurm:partition=NAME")
    if kind == "dask" and not detail:
        raise InputError("--executor dask needs the scheduler's address: dask:tcp://HOST:8786")
    if kind == "processes":
        return
    package = {"slurm": "submitit", "dask": "distributed"}[kind]
    from importlib.util import find_spec

    if find_spec(package) is None:
        raise InputError(f"--executor {kind} needs the package {package}; install it: pip install 'weft[{kind}]'")


def run_all(
    tasks: Sequence[Piece], workers: int | None, run: Callable[[Piece], Outcome]
) -> Iterator[tuple[int, Outcome]]:
    """Run all tasks, here or elsewhere; yields (index, outcome) as they end.

    Inside `weft.runs.kept.kept` outcomes are kept as soon as they are there, and those that were kept come first.
    """
    keeping = current()
    if keeping is None:
        yield from _run_each(tasks, workers, run)
        return
    keys = [task.identity() for task in tasks]
    to_do = []
    for i, (task, key) in enumerate(zip(tasks, keys, strict=True)):
        if (found := keeping.load(key)) is None:
            to_do.append(i)
        else:
            yield i, task.again(found)
    if len(to_do) < len(tasks) and keeping.say is not None:
        keeping.say(f"{len(tasks) - len(to_do)} of {len(tasks)} runs were kept from before; --fresh runs them again")
    pieces = [(tasks[i], keys[i]) for i in to_do]
    for k, outcome in _run_each(pieces, workers, partial(_run_and_keep, run, keeping.store)):
        yield to_do[k], outcome


def _run_and_keep(run: Callable[[Piece], Outcome], store: Store, piece: tuple[Piece, str | None]) -> Outcome:
    task, key = piece
    outcome = run(task)
    if key is not None:
        store.save(key, outcome)  # type: ignore[arg-type]
    return outcome


def _run_each(
    tasks: Sequence[Given], workers: int | None, run: Callable[[Given], Outcome]
) -> Iterator[tuple[int, Outcome]]:
    chosen = _chosen.get()
    if chosen == "processes":
        workers = min(len(tasks), workers or len(os.sched_getaffinity(0)))
        if workers <= 1:
            for i, task in enumerate(tasks):
                yield i, run(task)
            return
        yield from in_processes(tasks, workers, _Prepared.here(run))
    elif not tasks:
        return
    elif isinstance(chosen, Executor):
        yield from _submitted(chosen, tasks, _Prepared.here(run))
    elif chosen.startswith("dask:"):
        with _dask_client(chosen) as client:
            yield from _submitted(client.get_executor(pure=False), tasks, _Prepared.here(run))
    else:
        yield from _on_slurm(chosen.partition(":")[2], tasks, workers, _Prepared.here(run))


@dataclass(frozen=True)
class _Prepared(Generic[Given, Outcome]):
    """A function to run elsewhere, with what this process alone knows."""

    run: Callable[[Given], Outcome]
    registered: bytes  # by value what belongs to a notebook, a script or a function, which no worker could import
    folder: Path

    @classmethod
    def here(cls, run: Callable[[Given], Outcome]) -> _Prepared[Given, Outcome]:
        known = by_hand()
        try:
            return cls(run, cloudpickle.dumps(known) if known else b"", Path.cwd())
        except Exception as error:  # what somebody's class refers to may object in any way
            raise InputError(
                f"a policy cannot be sent to worker processes ({error}); keep open files and the like out of it, "
                "or use workers = 1"
            ) from error

    def __call__(self, task: Given) -> Outcome:
        for layer, name, policy in pickle.loads(self.registered) if self.registered else ():
            register(layer, name, policy)
        with files_from(self.folder):
            return self.run(task)


def _submitted(
    executor: Executor, tasks: Sequence[Given], run: Callable[[Given], Outcome]
) -> Iterator[tuple[int, Outcome]]:
    futures = {executor.submit(run, task): i for i, task in enumerate(tasks)}
    try:
        for future in as_completed(futures):
            yield futures[future], future.result()
    except BaseException:
        for future in futures:
            future.cancel()
        raise


def _dask_client(chosen: str) -> Any:
    from distributed import Client

    try:
        return Client(chosen.removeprefix("dask:"), timeout=_DASK_S, set_as_default=False)
    except (OSError, ValueError):
        raise InputError(f"--executor {chosen}: nobody answers there; start a scheduler, or mend the address") from None


def _on_slurm(
    options: str, tasks: Sequence[Given], workers: int | None, run: Callable[[Given], Outcome]
) -> Iterator[tuple[int, Outcome]]:
    """One array of Slurm jobs with a share of the tasks each; their logs lie in ./weft-slurm."""
    import submitit

    logging.getLogger("submitit").setLevel(logging.ERROR)  # its warnings (no accounting) would go to our stdout
    executor = submitit.SlurmExecutor(folder=Path.cwd() / "weft-slurm")
    n = min(len(tasks), workers or 16)
    given = dict(part.partition("=")[::2] for part in options.split(",")) if options else {}
    executor.update_parameters(array_parallelism=n, **{"time": 24 * 60, **{k: _typed(v) for k, v in given.items()}})
    share = ceil(len(tasks) / n)
    starts = range(0, len(tasks), share)
    waiting = dict(
        zip(executor.map_array(partial(_each, run), [tasks[i : i + share] for i in starts]), starts, strict=True)
    )
    try:
        while waiting:
            for job in [job for job in waiting if job.done()]:
                first = waiting.pop(job)
                for k, outcome in enumerate(job.result()):
                    yield first + k, outcome
            sleep(_POLL_S if waiting else 0.0)
    finally:
        for job in waiting:
            job.cancel()


def _each(run: Callable[[Given], Outcome], tasks: Sequence[Given]) -> list[Outcome]:
    return [run(task) for task in tasks]


def _typed(text: str) -> int | str:
    return int(text) if text.isdecimal() else text
