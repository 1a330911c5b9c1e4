"""Mutants of places: each breaks one rule that a page of docs/baselines claims."""

from __future__ import annotations

from tools.mutant_list import Mutant

__all__ = ["PLACES"]


def _of(file: str, judges: str, *changes: tuple[str, str, str]) -> list[Mutant]:
    return [Mutant(f"src/weft/{file}", *change, judges=tuple(judges.split())) for change in changes]


_KEPT = "tests/policies/place/test_tight_kept.py"

PLACES: list[Mutant] = [
    *_of(
        "policies/place/tight.py", _KEPT,
        ("running counts as waiting", "view.now - job.job.submit_s - job.run_s, PATIENCE",
         "view.now - job.job.submit_s, PATIENCE"),
        ("an unknown length counts as known", "        if not job.job.known:\n", "        if False:\n"),
        ("a job of unknown length is protected to its end", "return None if enough else kept", "return kept"),
        ("the protected job changes more than once at a moment", 'if view.now > state["changed_s"]:', "if True:"),
        ("a server that is down may be kept", "np.bincount(view.cluster.server_of_gpu[usable], minlength",
         "np.bincount(view.cluster.server_of_gpu, minlength"),
        ("a kept server that fails stays kept", "if name in started or all(", "if True or all("),
        ("who cannot run is protected", "sizes.sum() < gpus or", "False or"),
        ("the memory of a job is not looked at", " or job.memory_bytes > view.cluster.gpu_memory_bytes", ""),
        ("the shape of a job is not looked at", "    if job.per_server:\n", "    if False:\n"),
        ("the least free rack is kept", "return max(by_rack)[1]", "return min(by_rack)[1]"),
        ("the least free machines are kept", "(members, -free[members], -sizes", "(members, free[members], -sizes"),
    ),
    *_of(
        "core/layered/__init__.py", _KEPT,
        ("machines are kept though nobody passes", "if not (ranking.strict and self.place.reserves):", "if True:"),
    ),
    *_of(
        "policies/place/tight.py", "tests/policies/place/test_tight.py",
        ("rack or anywhere, whichever is slower", "inside_s <= anywhere_s", "inside_s >= anywhere_s"),
        ("moving need not gain twice its cost", "> 2.0 * lost_s", "> lost_s"),
        ("a job moves to a place that is not the closest", "or spread != closest or", "or"),
        ("senders that are about to leave count", "        meets &= offer.residents[self.first] != 0\n", ""),
        ("the rack with the most to spare is taken", "float(room[rack]), rack)", "-float(room[rack]), rack)"),
        ("others may be there for ever",
         "min(left * there.iteration_s, _left(view, other) * beside.iteration_s)", "left * there.iteration_s"),
        ("an unknown length says how much is left", "if job.job.known else max(1, view.iterations_done(job.id))", ""),
    ),
    *_of(
        "core/layered/even.py", "tests/core/layered/test_dealt.py",
        ("ranks of small jobs are not dealt out", "len(answer.gpus) < 3:", "len(answer.gpus) < 8:"),
    ),
    *_of(
        "policies/place/pattern.py", "tests/core/layered/test_dealt.py",
        ("the smallest share is dealt first", "key=len, reverse=True)", "key=len)"),
    ),
    *_of(
        "policies/place/titan/search.py", "tests/policies/place/titan/test_titan.py",
        ("the search gives up early", "TRIES = 4000", "TRIES = 60"),
        ("limits from others are not compared", " and between(other, a) == between(other, b)", ""),
        ("limits to others are not compared", "between(a, other) == between(b, other) and ", ""),
        ("limits between the two are not compared", "return between(a, b) == between(b, a) and all(", "return all("),
    ),
    *_of(
        "policies/place/delay/__init__.py", "tests/policies/place/delay/test_delay.py",
        ("over several racks, racks do not matter", "tightest(inside, view.cluster.rack_of_server, gpus)",
         "tightest(inside, 0 * view.cluster.rack_of_server, gpus)"),
    ),
    *_of(
        "core/layered/even.py", "tests/policies/place/delay/test_delay.py tests/core/layered/test_shaped.py",
        ("a place sees servers that a shape cannot have", "seen = view if servers == 1 else", "seen = view or"),
        ("a place may keep to another shape", "return set(view.cluster.counts(gpus).values()) == {each}",
         "return True"),
    ),
    *_of(
        "core/layered/pool.py", "tests/core/layered/test_pool.py",
        ("who is not claimed waits for ever", "if not (view.running or pool.outcome.placed):", "if False:"),
        ("who is not claimed never waits", "if not (view.running or pool.outcome.placed):", "if True:"),
    ),
    *_of(
        "policies/place/delay/timers.py", "tests/policies/place/delay/test_delay.py",
        ("waits of a shape count for all", "if job.job.per_server else str(gpus)", "if False else str(gpus)"),
    ),
]  # fmt: skip
