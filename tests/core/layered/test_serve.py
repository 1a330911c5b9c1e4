from hypothesis import given, settings
from hypothesis import strategies as st

from testkit.draws import examples
from weft.core.layered.serve import serve
from weft.core.table import Table
from weft.core.view import View
from weft.model.events import Started, Submitted
from weft.policies.order.srsf import ShortestRemainingServiceFirst
from weft.policies.place.best_fit import BestFit
from weft.testing import toy_cluster, toy_job
from weft.testing.toy import ToyWorld

CLUSTER = toy_cluster(2, 3, 4)


@given(
    st.sets(st.integers(0, CLUSTER.n_gpus - 1)),
    st.lists(st.tuples(st.sampled_from([1, 2, 3, 4, 6, 8, 16]), st.integers(1, 9)), max_size=25),
    st.booleans(),
)
@settings(max_examples=examples(150))
def test_the_outcome_is_the_same(busy: set[int], waiting: list[tuple[int, int]], preemptive: bool) -> None:
    table = Table(CLUSTER)
    world = ToyWorld(CLUSTER, [])
    for i, gpu in enumerate(sorted(busy)):
        table.take(Submitted(0.0, toy_job(f"r{gpu}", 1, iterations=1 + i % 5)))
        table.starting(f"r{gpu}", (gpu,), None)
        world.log = []
        table.take(Started(0.0, f"r{gpu}"))
    for i, (gpus, iterations) in enumerate(waiting):
        table.take(Submitted(0.0, toy_job(f"w{i}", gpus, iterations=iterations)))
    view = View(table, world, 0)
    view.iterations_left = lambda job_id: table.jobs[job_id].job.iterations  # type: ignore[method-assign]
    order, place = ShortestRemainingServiceFirst("preemptive" if preemptive else "service"), BestFit()
    outcomes = [serve(view, order.rank(view, {}), place, {}, once=once) for once in (False, True)]
    assert outcomes[0] == outcomes[1]
    assert view._passes is None
