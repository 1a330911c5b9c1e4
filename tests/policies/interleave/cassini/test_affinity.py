from fractions import Fraction
from math import gcd

from hypothesis import given, settings
from hypothesis import strategies as st

from testkit.draws import examples
from weft.policies.interleave.cassini.affinity import components, merged, unique_shifts


@st.composite
def forests(draw: st.DrawFn) -> tuple[list[dict[str, float]], dict[str, float]]:
    """Loop-free affinity graphs: each link takes one job that is there (or none) and some new ones."""
    vertices: list[dict[str, float]] = []
    jobs: list[str] = []
    for _ in range(draw(st.integers(1, 6))):
        fresh = [f"j{len(jobs) + i}" for i in range(draw(st.integers(1, 3)))]
        old = [draw(st.sampled_from(jobs))] if jobs and draw(st.booleans()) else []
        if len(old) + len(fresh) < 2:
            fresh.append(f"j{len(jobs) + len(fresh)}")
        jobs += fresh
        vertices.append(dict.fromkeys([*old, *fresh], 0.0))
    periods = {job: float(draw(st.integers(2, 60))) for job in jobs}
    shifted = [{job: float(draw(st.integers(0, int(periods[job]) - 1))) for job in v} for v in vertices]
    return shifted, periods


@settings(max_examples=examples(100), deadline=None)
@given(forests())
def test_theorem_1_corrected(graph: tuple[list[dict[str, float]], dict[str, float]]) -> None:
    """Every pair on every link: difference of shifts congruent to that on the link, modulo the gcd of the periods."""
    vertices, periods = graph
    assert all(part.loops == 0 for part in components([list(v) for v in vertices]))
    shifts = unique_shifts(vertices, periods)
    assert set(shifts) == set(periods)
    assert shifts[next(iter(vertices[0]))] == 0.0
    for link in vertices:
        for a in link:
            for b in link:
                wanted = Fraction(link[a]) - Fraction(link[b])
                given_ = Fraction(shifts[a]) - Fraction(shifts[b])
                assert (given_ - wanted) % gcd(int(periods[a]), int(periods[b])) == 0


def test_theorem_1_as_printed_does_not_hold() -> None:
    """Periods 40 and 60, shifts 10 and 0 on a circle of 120: Algorithm 1 gives 50, which is not 110 modulo 120."""
    shifts = unique_shifts([{"a": 10.0, "b": 0.0}], {"a": 40.0, "b": 60.0})
    assert shifts == {"a": 0.0, "b": 50.0}
    assert (shifts["b"] - shifts["a"]) % 120 == 50
    assert (0.0 - 10.0) % 120 == 110
    assert (50 - 110) % gcd(40, 60) == 0


def test_appendix_example() -> None:
    """Figure 8(b): t1 = 0, t2 = -t1(l1) + t2(l1), t3 = t2 - t2(l2) + t3(l2)."""
    links = [{"j1": 7.0, "j2": 20.0}, {"j2": 3.0, "j3": 5.0}]
    assert unique_shifts(links, dict.fromkeys(("j1", "j2", "j3"), 100.0)) == {"j1": 0.0, "j2": 13.0, "j3": 15.0}


def test_both_directions_of_a_cable_are_one_vertex() -> None:
    vertices = merged({"up": ["a", "b"], "down": ["a", "b"], "elsewhere": ["b", "c"], "alone": ["a"]})
    assert vertices == {("a", "b"): ["up", "down"], ("b", "c"): ["elsewhere"]}
    assert [part.loops for part in components(list(vertices))] == [0]


def test_loops_are_counted() -> None:
    parts = components([("a", "b"), ("b", "c"), ("c", "a"), ("d", "e")])
    assert [(set(p.jobs), p.loops) for p in parts] == [({"a", "b", "c"}, 1), ({"d", "e"}, 0)]
