"""`weft run` arms a DDP script that nobody edited: it asks at the gate before each iteration's communication."""

import json
import os
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

SCRIPT = """
import os, sys, time, torch
import torch.distributed as dist
torch.set_num_threads(1)
dist.init_process_group("gloo")
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(2, 2, bias=False))
if sys.argv[1] == "own":
    from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook
    model.register_comm_hook(state=None, hook=allreduce_hook)
with torch.no_grad():
    model.module.weight.zero_()
for step in range(3):
    began = time.monotonic()
    model.zero_grad()
    (model(torch.ones(1, 2)).sum() * (dist.get_rank() + 1)).backward()
    print(step, time.monotonic() - began, model.module.weight.grad.sum().item(), flush=True)
dist.destroy_process_group()
"""


def _port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        return int(free.getsockname()[1])


@pytest.mark.parametrize("hook", ["none", "own"])
@pytest.mark.usefixtures("pytorch")
@pytest.mark.alone
def test_every_iteration_waits_at_the_gate_and_gradients_are_averaged(tmp_path: Path, hook: str) -> None:
    """Also where the script registers a communication hook of its own, which DDP allows once."""
    asked: list[dict[str, object]] = []
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(tmp_path / "p.sock"))
    listener.listen()

    def answer(connection: socket.socket) -> None:
        with connection, connection.makefile("rwb", buffering=0) as lines:
            for line in lines:
                asked.append(json.loads(line))
                late = 0.3 if asked[-1]["step"] == 1 else 0.0
                lines.write(json.dumps({"at": time.monotonic() + late}).encode() + b"\n")

    def serve() -> None:
        while True:
            try:
                connection = listener.accept()[0]
            except OSError:
                return
            threading.Thread(target=answer, args=(connection,), daemon=True).start()

    threading.Thread(target=serve, daemon=True).start()
    script = tmp_path / "train.py"
    script.write_text(SCRIPT)
    env = {
        **os.environ, "WEFT_PROGRESS_SOCKET": str(tmp_path / "p.sock"), "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(_port()), "WORLD_SIZE": "2", "OMP_NUM_THREADS": "1",
    }  # fmt: skip
    command = [sys.executable, "-m", "weft", "run", "--", sys.executable, str(script), hook]
    ranks = [
        subprocess.Popen(command, env={**env, "RANK": str(rank)}, stdout=subprocess.PIPE, text=True, cwd=Path.cwd())
        for rank in range(2)
    ]
    output = [rank.communicate(timeout=110)[0] for rank in ranks]
    listener.close()
    assert [rank.returncode for rank in ranks] == [0, 0]
    rows = [[float(word) for word in line.split()] for line in output[0].splitlines()]
    assert [row[2] for row in rows] == [6.0] * 3  # the mean of 1 and 2, four weights
    assert rows[1][1] > 0.28  # the second iteration waited
    assert rows[2][1] < rows[1][1]
    by_rank = {r: [a["step"] for a in asked if a["rank"] == r] for r in (0, 1)}
    assert by_rank == {0: [0, 1, 2], 1: [0, 1, 2]}
    assert all(a["inside"] is True for a in asked)


def test_without_a_server_the_script_runs_as_ever(tmp_path: Path) -> None:
    env = {key: value for key, value in os.environ.items() if key != "WEFT_PROGRESS_SOCKET"}
    command = [sys.executable, "-m", "weft", "run", "--", sys.executable, "-c", "import sys; print(len(sys.meta_path))"]
    plain = subprocess.run(command[-3:], capture_output=True, text=True, env=env, check=True).stdout
    assert subprocess.run(command, capture_output=True, text=True, env=env, check=True).stdout == plain
