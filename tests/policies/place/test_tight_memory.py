"""What tight remembers between answers changes none of them: a differential test against one that remembers nothing."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from weft.core.occupancy import Draft
from weft.core.table import Table
from weft.core.view import View
from weft.model.events import Finished, Started, Submitted
from weft.model.view import JobView, Offer
from weft.policies.place.best_fit import Share
from weft.policies.place.tight import Tight
from weft.testing import ToyWorld, toy_cluster, toy_job


class Counting(ToyWorld):
    """A toy world that only the table moves on: how far a job is depends on its name."""

    def iterations_done(self, job_id: str) -> int:
        return 3 + 7 * len(job_id) % 11


def plainly_met(view: View, offer: Offer, shares: list[Share]) -> list[JobView]:
    """Running jobs on several servers that would stay and have a server in common with these machines, or a rack where
    both are in several racks."""
    server_of, racks = view.cluster.server_of_gpu, view.cluster.rack_of_server
    mine, found = {server for server, _ in shares}, []
    for job in view.running.values():
        theirs = {int(server_of[gpu]) for gpu in job.gpus}
        across = [{int(racks[server]) for server in servers} for servers in (mine, theirs)]
        common = min(map(len, across)) > 1 and across[0] & across[1]
        if len(theirs) > 1 and offer.residents[job.gpus[0]] > 0 and (mine & theirs or common):
            found.append(job)
    return found


@settings(deadline=None)
@given(st.integers(1, 4), st.integers(1, 4), st.sampled_from([1, 2, 4]), st.integers(0, 2**32))
def test_answers_do_not_depend_on_what_was_asked_before(racks: int, servers: int, gpus: int, seed: int) -> None:
    """Jobs come, start where tight puts them, and end; each one that waits is asked about the GPUs as they are, and as
    they would be without some running jobs."""
    draw = np.random.default_rng(seed)
    cluster = toy_cluster(racks, servers, gpus)
    table = Table(cluster)
    view, asked = View(table, Counting(cluster, []), 0), Tight()
    state = asked.initial_state()
    for step in range(12):
        view.move_to(50.0 * step, step + 1)
        size, sends = int(draw.integers(1, min(cluster.n_gpus, 16) + 1)), float(draw.choice([0.0, 1e8, 5e9]))
        table.take(Submitted(view.now, toy_job(f"j{step}", size, int(draw.integers(1, 2000)), 1.0, sends)))
        if table.running and draw.random() < 0.3:
            table.take(Finished(view.now, str(draw.choice(list(table.running)))))
        for job in list(table.waiting.values()):
            draft = Draft(cluster, table.gpus.offer)
            for other in list(table.running.values())[: int(draw.integers(0, 3))]:
                draft.leave(other.gpus, other.job.profile.memory_bytes)
            for offer in (draft.offer, table.gpus.offer):
                answer = asked.place(view, job, job.job.gpus, offer, state)
                cluster.known.clear()
                assert Tight().place(view, job, job.job.gpus, offer, state) == answer
                whole = [(server, 1) for server in range(0, len(cluster.servers), int(draw.integers(1, 3)))]
                assert asked._senders(view, offer, whole) == plainly_met(view, offer, whole)
            if answer.gpus is not None and draw.random() < 0.9:
                table.starting(job.id, answer.gpus, None)
                table.take(Started(view.now, job.id))
        state = asked.observe(view, (), state)
