"""Claims and the pictures of docs/papers/flow-scheduling.md.

`python -m weft_evidence.flows.experiments` runs the frontier and draws it. `python -m weft_evidence.flows.experiments
claims` runs all claims over five seeds, with the experiments that change one thing in each, and writes what they
measured to claims.json and causes.json. Both take runs that were kept. `python -m weft_evidence.flows.experiments
figure-8` draws that figure (30 short runs). `python -m weft_evidence.flows.experiments
uncontended` prints the table of jobs that meet only the traffic of others (7 minutes beside other work), `python -m
weft_evidence.flows.experiments patient` that of shortest:patient on thirty seeds (two numbers after it are another
first seed and how many)."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace

from weft.core.layered import Layered
from weft.model.cluster import Cluster
from weft.model.plan import State
from weft.model.view import ClusterView, JobView, Offer
from weft.policies.order.fifo import Fifo
from weft.policies.place.base import Answer, Place
from weft.results.run import RunResult
from weft.scenario import Scenario
from weft.scenario.build import Layers, build, build_stack
from weft.scenario.shipped import scenario_path
from weft.sim import simulate
from weft.sim.spec import NetworkSpec
from weft_evidence.claims import Measured, Request
from weft_evidence.flows.beyond import AGAINST, EVEN, WHERE
from weft_evidence.flows.lab import delivered_alone
from weft_evidence.flows.orders import BASELINES
from weft_evidence.flows.runs import FlowRuns, Setting, bed, interval, others_more, others_more_together, saved
from weft_evidence.pages import ROOT, asked_for, save_figure, write_claims

FOLDER = ROOT / "docs" / "papers" / "flow-scheduling"
TOGETHER = ("mcs", "fair", "shortest")
FRESH = range(66, 96)  # seeds that shortest:patient was not chosen on
UNCONTENDED = ("shortest:4", "shortest", "shortest:20", "shortest:100")


def causes(claims: Iterable[str], notes: Sequence[str]) -> str:
    """The notes of a reproduction that belong to a claim: what was changed in it, and what came of that."""
    starts = tuple(f"{claim}{mark}" for claim in claims for mark in (",", ":"))
    return json.dumps([note for note in notes if note.startswith(starts)], indent=1) + "\n"


class Pinned(Place):
    """The GPUs that it was told, whatever the job."""

    name = "pinned"

    def __init__(self, gpus: Sequence[int]) -> None:
        self.gpus = tuple(gpus)

    def place(self, view: ClusterView, job: JobView, gpus: int, offer: Offer, state: State) -> Answer:
        """These."""
        return Answer(self.gpus, "where the job was in another run", state)


def lost_bytes(cluster: Cluster, network: NetworkSpec, seed: int, run: RunResult) -> float:
    """What cross traffic delivers less in a run than it would without any job."""
    end_s = float(run.jobs["finish_s"].max())  # type: ignore[arg-type]
    assert run.foreign_bytes_per_s is not None
    return float(delivered_alone(cluster, network, seed, [end_s])[0]) - run.foreign_bytes_per_s * end_s


def uncontended(given: Scenario, seed: int) -> dict[str, tuple[float, float]]:
    """Mean time on GPUs over MCS's, and bytes that cross traffic loses over those beside `fair`: of all jobs together,
    and of each job by itself, from the start and on the GPUs that it has with MCS."""
    made = build(given, seed)
    cluster, network, circumstances = made.cluster, made.network, made.run
    jobs = {job.id: job for job in made.workload.jobs}
    stacks = {
        pace: build_stack(given, Layers(f"fifo[place=first-fit,pace={pace}]")) for pace in (*TOGETHER, *UNCONTENDED)
    }

    def lost(run: RunResult) -> float:
        return lost_bytes(cluster, network, seed, run)

    whole = {pace: simulate(cluster, [*jobs.values()], stacks[pace], network, circumstances) for pace in TOGETHER}
    mcs_s, fair_lost = float(whole["mcs"].jobs["run_s"].sum()), lost(whole["fair"])
    found = {pace: (float(run.jobs["run_s"].sum()) / mcs_s, lost(run) / fair_lost) for pace, run in whole.items()}
    for pace in UNCONTENDED:
        runs = []
        for span in whole["mcs"].spans.iter_rows(named=True):
            stack = replace(stacks[pace], planner=Layered(Fifo(), Pinned(span["gpus"])))
            job = replace(jobs[span["job_id"]], submit_s=span["start_s"])
            runs.append(simulate(cluster, [job], stack, network, circumstances))
        run_s = sum(float(run.jobs["run_s"][0]) for run in runs)
        found[f"{pace}, each job by itself"] = run_s / mcs_s, sum(map(lost, runs)) / fair_lost
    return found


def uncontended_table(study: Callable[[Scenario, int], dict[str, tuple[float, float]]]) -> Iterator[str]:
    """Lines of a Markdown table over seeds 6 to 15 of `flows`: times over those with MCS, and losses over those beside
    `fair`."""
    given = Scenario.load(scenario_path("flows"))
    rows = [study(given, seed) for seed in range(6, 16)]
    yield "| | time on GPUs over that with MCS | what cross traffic loses, over its loss beside `fair` |"
    yield "|---|---:|---:|"
    for key in rows[0]:
        cells = [Measured.over_seeds([row[key][i] for row in rows]) for i in (0, 1)]
        yield f"| {key} | " + " | ".join(f"{c.value:.3f} [{c.ci95[0]:.3f}, {c.ci95[1]:.3f}]" for c in cells) + " |"


def patient_table(request: Request, places: Iterable[tuple[str, str, Callable[..., Setting]]]) -> Iterator[str]:
    """Lines of a Markdown table: what shortest:patient saves over other paces at two prices, and what others get."""
    yield f"| saved over | {' | '.join(AGAINST)} | others meanwhile, over `fair` | by the end of both, over `fair` |"
    yield "|---|" + "---:|" * (len(AGAINST) + 2)
    for _, words, place in places:
        theirs = [place(pace, held_out=True) for pace in AGAINST]
        both = [place(pace, held_out=True) for pace in ("shortest:patient", EVEN)]
        lab, fair = FlowRuns(request, (*both, *theirs)), theirs[AGAINST.index("fair")]
        for ours in both:
            found = [saved(lab, ours, other) for other in theirs]
            found += [others_more(lab, ours, fair), others_more_together(lab, ours, fair)]
            yield f"| `{ours.pace}`, {words} | " + " | ".join(interval(each) for each in found) + " |"


def main() -> None:
    """Write claims.json, or frontier.svg: the picture that the report of `weft reproduce flows` has."""
    from weft.runs.kept import kept
    from weft_evidence.flows import pictures, reproduce

    if sys.argv[1:] == ["uncontended"]:
        print(*uncontended_table(uncontended), sep="\n")
        return
    if sys.argv[1:2] == ["patient"]:
        first, n = (int(each) for each in sys.argv[2:] or (FRESH.start, len(FRESH)))
        with kept():
            for line in patient_table(Request(seed=first, seeds=n, workers=1), WHERE):
                print(line, flush=True)
        return
    asked_for(["claims", "figure-8", "uncontended", "patient"] if sys.argv[1:] else [])
    FOLDER.mkdir(parents=True, exist_ok=True)
    if sys.argv[1:] == ["figure-8"]:
        with kept():
            (picture,) = pictures(FlowRuns(Request(seed=1, seeds=5, workers=1), [bed(p) for p in ("flow", *BASELINES)]))
        save_figure(picture.draw(), FOLDER / "figure-8.svg")
        return
    whole = sys.argv[1:] == ["claims"]
    with kept():
        result = reproduce(Request(seed=1, seeds=5, workers=1, claims=() if whole else ("beyond.frontier",)))
    if whole:
        write_claims(result.claims, FOLDER)
        (FOLDER / "causes.json").write_text(causes([claim.id for claim in result.claims], result.notes), "utf-8")
    else:
        (picture,) = result.pictures
        save_figure(picture.draw(), FOLDER / "frontier.svg")


if __name__ == "__main__":
    main()
