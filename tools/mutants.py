"""Does the suite notice a broken engine, pace or place? python -m tools.mutants breaks one place at a time and sees.

Each mutant is applied to a copy of the packages. Kernels run there as plain Python (NUMBA_DISABLE_JIT=1), so nothing is
compiled, and a fast part of the suite is run against it until a test fails. A mutant that no test notices is a gap in
the tests: the exit code is 1, and so it is when the unbroken copy fails or a mutant's place is no longer found.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from tools.mutant_list import MUTANTS as ENGINE
from tools.mutant_list import Mutant
from tools.mutant_paces import PACES
from tools.mutant_places import PLACES

ROOT = Path(__file__).resolve().parent.parent
COPIED = ("src/weft", "live/src/weft_live", "testkit")
MUTANTS = [*ENGINE, *PACES, *PLACES]

# The quickest judges first: pytest stops at the first failure.
JUDGES = [
    "tests/sim/test_analytic.py",
    "tests/sim/test_replay.py",
    "tests/sim/engine/test_twins.py::test_seeded_cases",
    "tests/sim/compiled/test_skip.py::test_skipped_periods_leave_no_trace",
    "tests/sim/compiled/test_maxmin.py",
    "tests/sim/engine/test_engine.py",
    "tests/sim/compiled/test_skip.py",
    "tests/sim/compiled/test_estimate.py::test_a_measured_pace_leads_to_the_end_of_the_plain_run",
    "tests/sim/compiled/test_estimate.py::test_iterations_at_a_measured_pace_carry_their_bytes",
    "tests/sim/test_conservation.py::test_seeded_runs_with_stops",
    "tests/sim/engine/test_twins.py::test_kernel_equals_twin",
    "tests/sim/engine/test_twins.py::test_skipping_equals_plain",
]
# Tests that try nothing new with many iterations, which plain Python takes its time for.
LEFT_OUT = " and ".join(
    f"not {name}"
    for name in (
        "go_on", "close_and_cheap", "jitter", "hundred_times", "states_its_error", "pairs_equal", "adadual",
        "looking_changes", "not_estimated", "20-False",
    )
)  # fmt: skip
SHARE = "0.25"  # of the random cases that the suite tries by default


@dataclass(frozen=True)
class Verdict:
    """What became of a mutant."""

    mutant: Mutant | None
    how: str  # the test that failed, "no end", or "" if none noticed
    seconds: float  # of CPU


def misplaced(mutants: Iterable[Mutant] = MUTANTS) -> list[Mutant]:
    """Mutants of which a place in the source is not found exactly once."""
    return [m for m in mutants if any((ROOT / f).read_text(encoding="utf-8").count(old) != 1 for f, old, _ in m.places)]


def judge(mutant: Mutant | None, limit_s: int, judges: Sequence[str] = JUDGES) -> Verdict:
    """Run tests against a broken copy (or, without a mutant, against a faithful one), for so many CPU seconds."""
    with tempfile.TemporaryDirectory(prefix="weft-mutant-") as folder:
        for part in COPIED:
            shutil.copytree(ROOT / part, Path(folder) / part, ignore=shutil.ignore_patterns("__pycache__"))
        for name, old, new in () if mutant is None else mutant.places:
            file = Path(folder) / name
            file.write_text(file.read_text(encoding="utf-8").replace(old, new), encoding="utf-8")
        return Verdict(mutant, *_first_failure(folder, limit_s, judges))


# A limit on CPU time, which a busy machine does not use up.
LIMITED = (
    "import os, resource, sys; resource.setrlimit(resource.RLIMIT_CPU, ({0}, {0})); os.execv(sys.argv[1], sys.argv[1:])"
)


def _first_failure(folder: str, limit_s: int, judges: Sequence[str]) -> tuple[str, float]:
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([f"{folder}/src", f"{folder}/live/src", folder, str(ROOT)]),
        "PYTHONSAFEPATH": "1",  # the copies come first
        "PYTHONDONTWRITEBYTECODE": "1",
        "NUMBA_DISABLE_JIT": "1",
        "WEFT_CACHE_DIR": folder,
        "WEFT_THOROUGH": SHARE,
        "HYPOTHESIS_STORAGE_DIRECTORY": folder,
    }
    command = [sys.executable, "-m", "pytest", "-x", "-q", "--no-header", "--tb=no", "-p", "no:cacheprovider"]
    command += ["-o", "pythonpath=", "-W", "ignore", "-k", LEFT_OUT, *judges]
    process = subprocess.Popen(
        [sys.executable, "-c", LIMITED.format(limit_s), *command],
        cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
    assert process.stdout is not None
    output = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    seconds = usage.ru_utime + usage.ru_stime
    if process.returncode == 0:
        return "", seconds
    if process.returncode < 0:
        return "no end", seconds
    failed = [line for line in output.splitlines() if line.startswith(("FAILED", "ERROR"))]
    return (failed[0].split()[1].removeprefix("tests/") if failed else output[-2000:]), seconds


def main() -> int:
    """Judge every mutant; print a table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="how many at a time")
    parser.add_argument("--only", default="", help="only mutants whose file or description contains this")
    arguments = parser.parse_args()
    console = Console()
    chosen = [m for m in MUTANTS if arguments.only in m.file + " " + m.why]
    if lost := misplaced(chosen):
        for mutant in lost:
            console.print(f"{mutant.file}: the place of '{mutant.why}' is not found once: {mutant.old!r}")
        return 1
    limit_s: dict[tuple[str, ...], int] = {}
    for judges in dict.fromkeys(m.judges for m in chosen):
        whole = judge(None, 900, judges or JUDGES)
        if whole.how:
            console.print(f"the unbroken copy fails ({whole.how}); mend that first")
            return 1
        limit_s[judges] = int(2.0 * whole.seconds + 10.0)
        console.print(f"the unbroken copy passes {' '.join(judges) or 'all of the engine'} in {whole.seconds:.0f} s")
    console.print(f"{len(chosen)} mutants, {arguments.jobs} at once")
    verdicts = []
    with ThreadPoolExecutor(arguments.jobs) as pool, Progress(console=console, transient=True) as progress:
        bar = progress.add_task("mutants", total=len(chosen))
        for verdict in pool.map(lambda m: judge(m, limit_s[m.judges], m.judges or JUDGES), chosen):
            verdicts.append(verdict)
            progress.advance(bar)
            if not verdict.how and verdict.mutant:
                console.print(f"nobody notices: {verdict.mutant.file}: {verdict.mutant.why}")
    console.print(_table(verdicts))
    survivors = [v for v in verdicts if not v.how]
    console.print(f"{len(verdicts) - len(survivors)} of {len(verdicts)} mutants are noticed")
    return 1 if survivors else 0


def _table(verdicts: Iterable[Verdict]) -> Table:
    table = Table(box=None, pad_edge=False)
    for name in ("kernel", "what is broken", "noticed by", "s"):
        table.add_column(name, justify="right" if name == "s" else "left")
    for v in verdicts:
        if v.mutant is not None:
            table.add_row(Path(v.mutant.file).stem, v.mutant.why, v.how or "NOBODY", f"{v.seconds:.0f}")
    return table


if __name__ == "__main__":
    sys.exit(main())
