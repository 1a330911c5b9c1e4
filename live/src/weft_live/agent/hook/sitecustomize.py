"""Gives every DDP model a communication hook that waits at weft's gate. Imported by Python itself, before the script.

The hook asks before the first bucket of an iteration. Whatever goes wrong here, the script runs on without it.
"""

from __future__ import annotations

import contextlib
import importlib.abc
import importlib.machinery
import importlib.util
import os
import sys
import weakref

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import ModuleType
    from typing import Any

_DDP = "torch.nn.parallel.distributed"


def _next_sitecustomize() -> None:
    """Run the one that this file hides, if there is one."""
    here = os.path.dirname(os.path.abspath(__file__))
    others = [path for path in sys.path if os.path.abspath(path or ".") != here]
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", others)
    if spec is not None and spec.loader is not None:
        spec.loader.exec_module(importlib.util.module_from_spec(spec))


class _Finder(importlib.abc.MetaPathFinder):
    """Sees DDP being imported, and changes it then: importing torch by ourselves would slow down every program."""

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> Any:
        if name != _DDP:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec is None or spec.loader is None:
            return None
        run = spec.loader.exec_module

        def load(module: ModuleType) -> None:
            run(module)
            with contextlib.suppress(Exception):
                _arm(module)

        spec.loader.exec_module = load  # type: ignore[method-assign]
        return spec


def _finish(work: Any, future: Any, tensor: Any) -> None:
    """Wait for a reduction, and hand over what came of it."""
    try:
        work.wait()
        future.set_result(tensor)
    except Exception as error:
        future.set_exception(error)


def _arm(module: Any) -> None:
    """Models register the hook at their first forward pass; one that a script registers before is held at the gate."""
    from concurrent.futures import ThreadPoolExecutor

    import torch
    import torch.distributed as dist

    from weft.training import at_gate

    ddp = module.DistributedDataParallel
    register, forward = ddp.register_comm_hook, ddp.forward
    hooked: weakref.WeakSet[Any] = weakref.WeakSet()
    waits = ThreadPoolExecutor(1, "weft")  # Python waits for its thread before it ends

    def gated(act: Any) -> Any:
        steps = [0]

        def hook(state: Any, bucket: Any) -> Any:
            if bucket.index() == 0:
                at_gate(steps[0])
                steps[0] += 1
            return act(state, bucket)

        hook.__annotations__ = {}  # DDP reads them, and takes none but its own classes
        return hook

    def with_gate(model: Any, state: Any, hook: Any) -> None:
        register(model, state, gated(hook))
        hooked.add(model)

    def first_hooked(model: Any, *args: Any, **kwargs: Any) -> Any:
        def averaged(state: Any, bucket: Any) -> Any:
            group = model.process_group
            tensor = bucket.buffer().div_(dist.get_world_size(group))
            work = dist.all_reduce(tensor, group=group, async_op=True)
            if tensor.device.type != "cpu":
                return work.get_future().then(lambda done: done.value()[0])
            # Gloo would run that in a thread of its own, which may still hold it when the process ends, and abort it.
            future: Any = torch.futures.Future()
            waits.submit(_finish, work, future, tensor)
            return future

        if model not in hooked:
            hooked.add(model)
            with contextlib.suppress(Exception):  # it may have one that is built into PyTorch
                register(model, None, gated(averaged))
        return forward(model, *args, **kwargs)

    ddp.register_comm_hook, ddp.forward = with_gate, first_hooked


with contextlib.suppress(Exception):
    _next_sitecustomize()
if os.environ.get("WEFT_PROGRESS_SOCKET"):
    sys.meta_path.insert(0, _Finder())
