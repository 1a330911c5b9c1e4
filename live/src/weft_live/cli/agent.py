"""`weft agent`, `weft switch` and `weft run`: a data plane on hosts."""

from __future__ import annotations

import gc
import os
import signal
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from weft.cli.common import notice

if TYPE_CHECKING:
    from collections.abc import Callable

SecretFolder = Annotated[
    Path, typer.Option("--dir", metavar="DIR", help="The server's folder, or one with a copy of its agents.secret.")
]


def agent(
    server: Annotated[str, typer.Option("--server", metavar="ADDRESS", help="unix:PATH or HOST:PORT.")],
    dir: SecretFolder,
    host: Annotated[str, typer.Option("--host", help="This server's name in the cluster (default: its own).")] = "",
    slot_ms: Annotated[
        float, typer.Option("--slot-ms", min=1, max=1000, help="Length of a slot: rates change once per slot.")
    ] = 60,
    watch_ms: Annotated[float, typer.Option("--watch-ms", min=1, max=1000, help="Time between looks at sockets.")] = 30,
    netns: Annotated[str, typer.Option("--netns", metavar="FILE", help="Watch this network namespace instead.")] = "",
    parent: Annotated[int, typer.Option("--parent", hidden=True, help="End with this process.")] = 0,
    near: Annotated[bool, typer.Option("--near", help="Pace connections inside this host, too.")] = False,
) -> None:
    """Pace and shift the jobs of this host as the server says, until it is stopped.

    Jobs are processes with WEFT_JOB in their environment, as weft serve and Slurm start them. The agent finds and paces
    their TCP sockets from outside; it cannot pace RDMA, NVLink and shared memory. An agent that dies, hangs or loses
    its server lets go of every socket within a second. Jobs of other users need CAP_SYS_PTRACE, and nothing else does.

    Example: weft agent --server unix:weft-run/agents.sock --dir weft-run
    """
    import socket

    from weft.errors import InputError
    from weft_live.agent.host import Agent
    from weft_live.agent.namespaces import coarse, is_namespace
    from weft_live.agent.processes import end_with, may_trace, may_trace_others
    from weft_live.agent.wire import refuse_address
    from weft_live.server.folders import refuse_foreign

    if parent and not end_with(parent):
        return
    refuse_address(server, "--server")
    secret = _secret(dir)
    refuse_foreign(dir)  # an agent lets go of the sockets that a file in it names
    if netns and not is_namespace(netns):
        why = "this is no network namespace" if Path(netns).exists() else "there is no such file"
        raise InputError(f"--netns {netns}: {why}")
    blind = ""
    if not may_trace():
        blind = "may not look into other processes, so it paces none: it needs CAP_SYS_PTRACE"
    elif not parent and not may_trace_others():
        blind = "has no CAP_SYS_PTRACE, so it paces only jobs of its own user"
    made = Agent(
        host or socket.gethostname().partition(".")[0], dir, server, secret, slot_s=slot_ms / 1e3,
        watch_s=watch_ms / 1e3, netns=netns, near=near, say=notice, blind=blind,
    )  # fmt: skip
    if blind:
        notice(f"this agent {blind}")
    if not netns and (words := coarse()):
        notice(words)
    if made.let_go:
        notice(f"let go of {made.let_go} sockets that an agent before this one had paced")
    _stopped_by_signals(lambda: setattr(made, "stopping", True))
    if server:
        signal.signal(signal.SIGHUP, lambda *_: made.renew(_secret(dir)))
    gc.freeze()  # what is here now stays: no need to look through it again and again
    if parent and os.getppid() != parent:  # it went while we came
        made.stopping = True
    made.run()


def _secret(folder: Path) -> str:
    """The secret in a folder. Servers make it, so an agent waits for it."""
    from weft_live.agent.trust import SECRET, secret_in

    waits = False
    while (secret := secret_in(folder)) is None:
        if not waits:
            notice(f"waiting for {folder / SECRET}: weft serve makes it in its folder; copy it from there")
        waits = True
        time.sleep(0.5)
    return secret


def switch(
    scenario: Annotated[Path, typer.Option("--scenario", metavar="FILE.toml", help="Take the links from [cluster].")],
    dir: SecretFolder,
    listen: Annotated[
        str, typer.Option("--listen", metavar="ADDRESS", help="HOST:PORT, or unix:PATH.")
    ] = "127.0.0.1:0",
    only: Annotated[list[str] | None, typer.Option("--switch", help="Serve this switch; may be repeated.")] = None,
    slots: Annotated[int, typer.Option("--slots", min=1, max=1000, help="Slots that are planned ahead.")] = 10,
) -> None:
    """Keep the load tables of switches, for agents that plan rates (pace flow), until it is stopped.

    Example: weft switch --scenario cluster.toml --dir weft-run --listen 127.0.0.1:7077
    """
    import threading

    from weft.errors import InputError
    from weft.scenario import Scenario
    from weft.scenario.build import build_cluster
    from weft_live.agent.switch import SwitchService, links_of
    from weft_live.agent.trust import secret_of

    links = links_of(build_cluster(Scenario.load_site(str(scenario)), None), only or ())
    missing = sorted(set(only or ()) - links.keys())
    if missing or not links:
        raise InputError(f"{scenario}: the cluster has no switch {', '.join(missing)}".rstrip())
    dir.mkdir(parents=True, exist_ok=True)
    service = SwitchService(links, listen, secret_of(dir), slots)
    notice(f"keeps the tables of {', '.join(links)} at {service.address}")
    over = threading.Event()
    _stopped_by_signals(over.set)
    over.wait()
    service.close()


def run(
    command: Annotated[list[str], typer.Argument(metavar="-- COMMAND ...", help="A PyTorch DDP script to run.")],
) -> None:
    """Run a PyTorch DDP script so that weft can shift its communication, without a change to the script.

    weft gives DDP models a communication hook when the script makes them. The hook exchanges gradients as before,
    reports every iteration and waits at the gate. Outside of weft serve it changes nothing.

    Example: weft run -- python train.py (as a job: weft submit --gpus 2 --per-rank -- weft run -- python train.py)
    """
    from weft_live.agent import hook

    env = dict(os.environ)
    env["PYTHONPATH"] = os.pathsep.join(filter(None, [str(Path(hook.__file__).parent), env.get("PYTHONPATH", "")]))
    sys.stdout.flush()
    try:
        os.execvpe(command[0], command, env)
    except OSError as error:
        from weft.errors import InputError

        raise InputError(f"cannot run {command[0]}: {error.strerror}") from None


def _stopped_by_signals(stop: Callable[[], Any]) -> None:
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop())
