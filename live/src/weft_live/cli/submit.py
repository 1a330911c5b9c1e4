"""`weft submit` and `weft cancel`: jobs for a running `weft serve`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from weft.cli.common import DirOption, JsonOption, print_json, run_folder
from weft.errors import InputError


def submit(
    command: Annotated[list[str], typer.Argument(metavar="-- COMMAND...", help="What to run.")],
    gpus: Annotated[int, typer.Option("--gpus", min=1, help="GPUs it wants.")] = 1,
    iterations: Annotated[int, typer.Option("--iterations", min=0, help="Iterations it will do, if known.")] = 0,
    model: Annotated[str, typer.Option("--model", help="Model of the zoo, or a profile file.")] = "",
    iteration_s: Annotated[
        float, typer.Option("--iteration-s", min=0, help="Seconds of an iteration, if there is no model.")
    ] = 0.0,
    name: Annotated[str, typer.Option("--name", help="Name of the job (default: job-N).")] = "",
    per_rank: Annotated[bool, typer.Option("--per-rank", help="Start the command once for each GPU.")] = False,
    restarts: Annotated[int, typer.Option("--restarts", min=0, help="Times to start it again if it fails.")] = 0,
    checkpoint_every: Annotated[
        int, typer.Option("--checkpoint-every", min=1, help="Iterations between its checkpoints.")
    ] = 1,
    resumes: Annotated[
        bool, typer.Option("--resumes", help="It goes on where it was when it is stopped and started again.")
    ] = False,
    grace_s: Annotated[float, typer.Option("--grace-s", min=0, help="Seconds between SIGTERM and SIGKILL.")] = 5.0,
    dir: DirOption = None,
    json: JsonOption = False,
) -> None:
    """Hand a job to the running weft serve; prints its name.

    The job runs in this folder with this environment. Some stacks must know more about it: srsf needs --iterations, and
    --model or --iteration-s.

    Example: weft submit --gpus 2 --iterations 1000 --model resnet50 -- python train.py
    """
    from weft_live.server.control import call

    job = {
        "name": name, "argv": list(command), "gpus": gpus, "iterations": iterations, "model": _model(model),
        "iteration_s": iteration_s, "per_rank": per_rank, "restarts": restarts, "checkpoint_every": checkpoint_every,
        "resumes": resumes, "grace_s": grace_s, "user": os.environ.get("USER", ""), "cwd": _here(),
        "env": dict(os.environ),
    }  # fmt: skip
    answer = call(run_folder(dir), {"do": "submit", "job": job})
    if json:
        print_json({"job": answer["job"]})
    else:
        print(answer["job"])


def cancel(
    job: Annotated[str, typer.Argument(metavar="JOB", help="Its name.")],
    dir: DirOption = None,
) -> None:
    """End a job for good: SIGTERM, and SIGKILL when its grace is over.

    Example: weft cancel job-3
    """
    from weft_live.server.control import call

    call(run_folder(dir), {"do": "cancel", "job": job})


def _here() -> str:
    try:
        return os.getcwd()
    except FileNotFoundError:
        raise InputError("submit: the folder that you are in has been removed; change to another one") from None


def _model(model: str) -> str:
    """The path of a profile file is made absolute, because the server reads it from another folder."""
    return str(Path(model).resolve()) if model and Path(model).is_file() else model
