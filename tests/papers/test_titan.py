"""weft reproduce titan: what needs no long run, and one short trace run measured by hand."""

from __future__ import annotations

import pytest

from weft.errors import InputError
from weft.papers import claims_of, reproduce
from weft.papers.claims import Request
from weft.papers.titan_runs import STACKS, bytes_between, measured, on_testbed, scenario

SHORT = (
    "section-ii.elasticflow", "section-ii.hived", "section-ii.titan", "figure-8.idle", "figure-8.none",
    "exp-5.over-elasticflow", "exp-6.near-elasticflow", "exp-7.under-hived",
)  # fmt: skip


def test_section_ii_and_the_testbed() -> None:
    """0, 3K/2 and K; one of two idle servers left with 12 workers, none taken with 8."""
    result = reproduce("titan", Request(quick=True, claims=SHORT))
    found = {claim.id: claim for claim in result.claims}
    assert set(found) == set(SHORT)
    assert all(claim.holds for claim in result.claims)
    assert found["section-ii.hived"].measured == 1.5
    assert "Figure 8" in "".join(result.notes)


def test_every_claim_has_words_and_a_number() -> None:
    for name, check in claims_of("titan").items():
        assert check.what
        assert check.published >= 0
        assert "." in name
    with pytest.raises(InputError, match="there is no claim exp-9"):
        reproduce("titan", Request(claims=("exp-9",)))


def test_machine_hours_of_the_testbed() -> None:
    """8 workers: ElasticFlow takes both idle servers (8 in use), Titan none (6 in use)."""
    titan, elastic = on_testbed("titan", "vgg16", 8), on_testbed("elasticflow", "vgg16", 8)
    assert (titan.in_use, elastic.in_use) == (6, 8)
    assert titan.machine_hours / elastic.machine_hours == pytest.approx(
        6 * titan.iteration_s / (8 * elastic.iteration_s)
    )
    assert titan.throughput == pytest.approx(512 / titan.iteration_s)


def test_bytes_between() -> None:
    """4 workers of ResNet-50, two and two in rank order: the halves that cross are 2 x 2 x K/2 = 2K."""
    from weft.workload import zoo

    message = zoo.profile("resnet50", 4).message_bytes
    assert bytes_between("resnet50", [0, 1, 2, 3], (0, 0, 1, 1)) == pytest.approx(2 * message)
    assert bytes_between("resnet50", [0, 2, 1, 3], (0, 0, 1, 1)) == pytest.approx(message)
    assert bytes_between("resnet50", [0, 1], (0, 0)) == 0.0


def test_a_short_trace() -> None:
    """Synthetic jobs on two racks: numbers are defined, and Titan uses no more machines than ElasticFlow."""
    import weft

    made = scenario("trace-2", quick=True)
    made["workload"] = {
        "source": "poisson", "jobs": 40, "load": 0.5, "reading": "compute", "gpus": {1: 5.0, 4: 1.0, 16: 1.0},
        "duration_median_s": 600.0, "models": ["resnet50"],
    }  # fmt: skip
    made["cluster"]["racks"] = 2
    found = {name: measured(weft.simulate(made, stack=STACKS[name], seed=1)) for name in ("titan", "elasticflow")}
    assert 0 < found["titan"].used <= found["elasticflow"].used
    assert 0 <= found["titan"].fragmentation <= 100
    assert found["titan"].overhead_gb > 0  # 16 workers need two machines
    assert found["titan"].profit_rate > 0


def test_pictures_can_be_drawn() -> None:
    import weft
    from weft.papers.titan_figures import curves, pareto

    made = scenario("trace-2", quick=True)
    made["workload"] = {"source": "batch", "jobs": 5, "iterations": [10, 20], "models": ["resnet50"]}
    made["cluster"]["racks"] = 1
    runs = {"titan": measured(weft.simulate(made, stack="titan"))}
    assert len(curves(runs).axes) == 3
    assert len(pareto(runs).axes) == 1
