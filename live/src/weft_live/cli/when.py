"""`weft when`, `weft what-if`, `weft defrag`: what comes, simulated forward from now."""

from __future__ import annotations

from contextlib import closing
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from weft.cli.common import DirOption, JsonOption, deliver, notice, phases, run_folder
from weft.errors import InputError

if TYPE_CHECKING:
    from weft_live.asking import Situation

SlurmOption = Annotated[
    bool, typer.Option("--slurm", help="Look at Slurm itself, where weft does not schedule (squeue, sinfo, sacct).")
]
PartitionOption = Annotated[
    str, typer.Option("--partition", metavar="NAMES", help="With --slurm: partitions to look at (default: all).")
]
SamplesOption = Annotated[
    int | None, typer.Option("--samples", min=4, max=1000, help="Simulate so often (default: for about a second).")
]
StackOption = Annotated[
    list[str] | None, typer.Option("--stack", help="Also under this stack; may be repeated (weft stacks lists them).")
]


def _situation(folder: Path, slurm: bool, partition: str) -> Situation:
    from weft_live.asking import situation
    from weft_live.slurm.commands import Slurm

    at = situation(folder, Slurm() if slurm else None, frozenset(filter(None, partition.split(","))))
    for line in at.notes:
        notice(f"note: {line}")
    return at


def when(
    job: Annotated[
        str | None, typer.Argument(help="A job that waits; none with --gpus, --accuracy or --replay.")
    ] = None,
    gpus: Annotated[
        int | None, typer.Option("--gpus", min=1, help="A job with so many GPUs, not submitted yet.")
    ] = None,
    length: Annotated[str, typer.Option("--length", metavar="TIME", help="What it would claim: 90, 30m, 4h, 2d.")] = "",
    user: Annotated[str, typer.Option("--user", help="Whose job it would be.")] = "",
    stack: StackOption = None,
    slurm: SlurmOption = False,
    partition: PartitionOption = "",
    accuracy: Annotated[bool, typer.Option("--accuracy", help="Say how earlier answers have come true.")] = False,
    replay: Annotated[
        Path | None, typer.Option("--replay", metavar="TRACE", help="Ask at random moments of a replayed trace.")
    ] = None,
    questions: Annotated[int, typer.Option("--questions", min=10, help="With --replay: how many.")] = 200,
    jobs: Annotated[int, typer.Option("--jobs", min=1000, help="With --replay: jobs from the trace's middle.")] = 8000,
    samples: SamplesOption = None,
    dir: DirOption = None,
    json: JsonOption = False,
) -> None:
    """Say when a job starts, and what it waits for.

    It simulates forward from now, many times, with lengths that past jobs showed relative to what was claimed of them.
    The state comes from the ledger of weft serve, or with --slurm from Slurm itself. With --replay, --gpus is the size
    of the cluster, and the first --stack schedules it.

    Example: weft when 1234 --stack srsf
    """
    folder = run_folder(dir)
    given = [job is not None or (gpus is not None and replay is None), accuracy, replay is not None]
    if sum(given) != 1 or (job is not None and gpus is not None):
        raise InputError("when: give a JOB, or --gpus N for one not submitted yet, or --accuracy, or --replay TRACE")
    if accuracy:
        _accuracy(folder, json)
        return
    if replay is not None:
        _replay(replay, (stack or ["fifo-backfill"])[0], gpus, questions, jobs, samples, json)
        return
    from weft_live.asking import answer_words, ask, job_of, keep, seconds

    at = _situation(folder, slurm, partition)
    if gpus is not None:
        from dataclasses import replace

        job, there = job_of(gpus, seconds(length, "--length") if length else None, user, at.present)
        at = replace(at, present=there)
    elif length or user:
        raise InputError("when: --length and --user belong to --gpus, for a job not submitted yet")
    assert job is not None
    answer = ask(at, job, stack or (), samples)
    if gpus is None and (why := keep(folder, at, [answer.own])):
        notice(f"note: {why}")
    value: dict[str, Any] = {
        **answer.own.to_dict(at.zero_s + at.present.now_s), "stack": at.stack.name, "notes": list(at.notes),
        "fewer": answer.fewer.to_dict() if answer.fewer else None,
        "stacks": {name: one.to_dict() for name, one in answer.stacks.items()}, "words": answer_words(at, answer),
    }  # fmt: skip
    deliver(value, json, lambda _: "\n".join(value["words"]))


def _accuracy(folder: Path, json: bool) -> None:
    from weft.results.display import duration, percent
    from weft_live.answers import Answers
    from weft_live.asking import note_starts
    from weft_live.server.ledger import FILE, Ledger

    if (folder / FILE).exists():
        with closing(Ledger(folder, read_only=True)) as ledger:
            if (clock := ledger.meta("clock")) is not None:
                note_starts(folder, ledger, clock["wall_s"])
    with closing(Answers(folder, read_only=True)) as answers:
        found = answers.accuracy()

    def words(_: Any) -> str:
        told = f"{found['answers']} answers; of {found['known']} it is known what came."
        if not found["known"]:
            return told
        return (
            f"{told} {percent(found['inside'])} of these jobs started between 10 and 90 % of their range, "
            f"{percent(found['earlier'])} earlier, {percent(found['later'])} later. The middle was off by "
            f"{duration(found['median_error_s'])} (median), of waits of {duration(found['median_wait_s'])}."
        )

    deliver(found, json, words)


def _replay(
    trace: Path, stack: str, gpus: int | None, questions: int, jobs: int, samples: int | None, json: bool
) -> None:
    from weft.results.display import duration, percent
    from weft.stacks import resolve
    from weft_live.calibration import calibrate, replayed, summary

    policies = resolve(stack)
    run = replayed(trace, policies, jobs, gpus)
    with phases() as tell:
        found = summary(calibrate(run, policies, questions, samples, tell=lambda done, of: tell("asking", done, of)))
    value = {"trace": str(trace), "stack": stack, "gpus": run.cluster.n_gpus, **found}

    def words(_: Any) -> str:
        return (
            f"{found['asked']} questions about jobs that waited {duration(found['median_wait_s'])} more (median), on "
            f"{run.cluster.n_gpus} GPUs under {stack}: {percent(found['inside'])} of starts lie between 10 and 90 %, "
            f"{percent(found['below'])} before and {percent(found['above'])} after. The range is "
            f"{duration(found['median_width_s'])} wide (median); a start from claims alone is off by "
            f"{duration(found['median_error_of_claims_s'])}."
        )

    deliver(value, json, words)


def what_if(
    drain: Annotated[
        list[str] | None, typer.Option("--drain", metavar="RACK", help="Nothing starts any more on a rack or server.")
    ] = None,
    add_nodes: Annotated[int, typer.Option("--add-nodes", min=0, help="So many servers more, in a new rack.")] = 0,
    stack: Annotated[str | None, typer.Option("--stack", help="Another stack schedules.")] = None,
    limit: Annotated[
        list[str] | None, typer.Option("--limit", metavar="USER=GPUS", help="A user may hold so many GPUs.")
    ] = None,
    slurm: SlurmOption = False,
    partition: PartitionOption = "",
    samples: SamplesOption = None,
    dir: DirOption = None,
    json: JsonOption = False,
) -> None:
    """Say what a change would do, and to whom: a drained rack, more servers, another stack, a limit.

    The same draws are simulated with and without the change.

    Example: weft what-if --drain n1..n4 --limit alice=16
    """
    from weft_live.ahead import drained, effect, limited, with_nodes
    from weft_live.asking import effect_words, under

    if not (drain or add_nodes or stack or limit):
        raise InputError("what-if: name a change: --drain, --add-nodes, --stack or --limit")
    at = _situation(run_folder(dir), slurm, partition)
    after, other = at.present, under(at, stack).stack
    for name in drain or ():
        after = drained(after, name)
    if add_nodes:
        after = with_nodes(after, add_nodes)
    for text in limit or ():
        other = limited(other, text)
    parts = [*(f"without {name}" for name in drain or ()), *([f"with {add_nodes} servers more"] if add_nodes else []),
             *([f"under {stack}"] if stack else []), *(f"with {text}" for text in limit or ())]  # fmt: skip
    found = effect(at.present, at.stack, after, other, samples or 8)
    change = ", ".join(parts).capitalize()
    deliver({"change": change, **asdict(found)}, json, lambda _: "\n".join(effect_words(at, change, found)))


def defrag(
    slurm: SlurmOption = False, partition: PartitionOption = "", samples: SamplesOption = None, dir: DirOption = None,
    json: JsonOption = False,
) -> None:  # fmt: skip
    """Say which running jobs to move so that whole racks become free, what that costs, and what it wins.

    Only jobs that resume where they were are moved. Nothing is carried out.

    Example: weft defrag --json
    """
    from weft_live.ahead import defrag as find
    from weft_live.asking import defrag_words

    at = _situation(run_folder(dir), slurm, partition)
    found = find(at.present, at.stack, samples or 8)
    deliver(asdict(found), json, lambda _: "\n".join(defrag_words(at, found)))
