from hypothesis import given
from hypothesis import strategies as st

from weft.core.decide import Amended

names = st.sampled_from("abcdef")
placements = st.dictionaries(names, st.tuples(st.integers(0, 9)))


@given(placements, placements, st.frozensets(names))
def test_same_as_a_dictionary(
    base: dict[str, tuple[int]], added: dict[str, tuple[int]], removed: frozenset[str]
) -> None:
    plain = {**{job: gpus for job, gpus in base.items() if job not in removed}, **added}
    amended = Amended(base, added, removed)
    assert dict(amended) == plain
    assert len(amended) == len(plain)
    assert all((job in amended) == (job in plain) for job in "abcdef")
    assert amended == plain
