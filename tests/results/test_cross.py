import pytest

from tests.results.test_compare import fake
from weft.results.cross import rank
from weft.results.cross_report import heat_map, ranking_grid
from weft.results.words import ranking_verdict


def runs(*jct: float, finished: int = 9) -> list[dict[str, object]]:
    return [{**fake(seed, t), "jobs": 9, "finished": finished} for seed, t in enumerate(jct)]


def test_ranking_by_hand() -> None:
    """Means 15, 10 and 5; the last leaves a job unfinished, so it stands behind."""
    layers = {n: {"order": n, "place": "p", "interleave": "none", "pace": "fair"} for n in ("a", "b", "c")}
    table = {"a": runs(10, 20), "b": runs(5, 15), "c": runs(4, 6, finished=8)}
    found = rank("demo", table, layers, [("d", "why"), ("e", "why")])
    assert [e["stack"] for e in found["combinations"]] == ["b", "a", "c"]
    assert found["combinations"][0]["ratio_to_reference"]["jct_mean_s"]["mean"] == pytest.approx((0.5 + 0.75) / 2)
    assert found["combinations"][1]["ratio_to_best"]["mean"] == pytest.approx((2 + 4 / 3) / 2)
    assert found["combinations"][2]["unfinished"] == 2
    assert found["skipped"] == [{"reason": "why", "count": 2, "combinations": ["d", "e"]}]
    assert found["layers"]["order"][0]["policy"] == "c"
    axes = heat_map(found).axes[0]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["c/p", "b/p", "a/p"]  # by their ratios
    assert ranking_grid(found).rows[1][2].text == "15.0"
    assert ranking_verdict(found).startswith("b is best of 3 by jct_mean_s, at 0.62 [")
    assert ranking_verdict({**found, "reference": "b"}).startswith("b, the reference, is best of 3 by jct_mean_s; ")


def test_more_may_be_better() -> None:
    layers = {n: {"order": n, "place": "p", "interleave": "none", "pace": "fair"} for n in ("a", "b")}
    table = {"a": runs(10), "b": [{**runs(10)[0], "gpu_utilisation": 0.9}]}
    assert [e["stack"] for e in rank("demo", table, layers, [], "gpu_utilisation")["combinations"]] == ["b", "a"]
