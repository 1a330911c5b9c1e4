"""Hand-written rows of every format in the folder `examples`; in `examples.json` the jobs in it, and what is no job."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from weft.workload.traces.rows import TraceJob

HERE = Path(__file__).parent
UNKNOWN: dict[str, Any] = {  # what a file may leave out
    "duration_s": None, "iterations": None, "model": None, "user": "", "vc": "", "status": "", "batch": None, "line": 0,
    "wait_s": None, "shape": None,
}  # fmt: skip


@dataclass(frozen=True)
class Example:
    """A small file, its jobs, and (line, field, left out) of the rows that are reported."""

    format: str
    name: str
    text: str
    jobs: list[TraceJob]
    reported: list[tuple[int, str, bool]]
    start: str


def _example(told: dict[str, Any]) -> Example:
    text = (HERE / "examples" / told["name"]).read_bytes().decode()
    jobs = [TraceJob(**(UNKNOWN | job)) for job in told["jobs"]]
    reported = [(line, field, left_out) for line, field, left_out in told["reported"]]
    return Example(told["format"], told["name"], text, jobs, reported, told["start"])


EXAMPLES = [_example(told) for told in json.loads((HERE / "examples.json").read_text())]
PHILLY = next(example.text for example in EXAMPLES if example.format == "philly")
