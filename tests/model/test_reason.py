"""Reasons are values: they are kept and read again as they are, and become words only where somebody reads them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from weft.model.reason import Why, because, both, code_of, read_why, speak, teach, written

FIELDS = st.dictionaries(
    st.from_regex(r"[a-z]{1,6}", fullmatch=True).filter(lambda name: name != "code"),
    st.one_of(st.integers(), st.floats(allow_nan=False), st.text(), st.booleans(), st.lists(st.text()).map(tuple)),
)
REASONS: st.SearchStrategy[Why] = st.recursive(
    st.one_of(st.text(), FIELDS.map(lambda fields: because("my.code", **fields))),
    lambda inner: inner.map(lambda why: because("my.outer", how=why if not isinstance(why, str) else because("my.x"))),
)


@given(st.one_of(REASONS, st.text().map(lambda text: '{"code":' + text)))
def test_what_is_written_is_read_again(why: Why) -> None:
    assert read_why(written(why)) == why


def test_a_code_that_nobody_taught_is_shown_with_its_fields_and_one_with_other_fields_does_no_harm() -> None:
    assert speak(because("mypolicy.too-hot", degrees=93)) == "mypolicy.too-hot degrees=93"
    teach({"mypolicy.hot": "{degrees} is too hot"})
    assert speak(because("mypolicy.hot", degrees=93)) == "93 is too hot"
    assert speak(because("mypolicy.hot", kelvin=366)) == "mypolicy.hot kelvin=366"


def test_a_plain_string_is_a_text() -> None:
    whys: list[Why] = ["", "its turn", because("weft.being-freed")]
    assert [code_of(why) for why in whys] == ["", "text", "weft.being-freed"]


def test_two_reasons_are_one_with_both_inside() -> None:
    gives_way = because("weft.gives-way", to="b")
    assert both("a", "b") == "a; b"
    assert both("", gives_way) == gives_way
    assert speak(both("its lease is over", gives_way)) == "its lease is over; gives way to b"
    assert both("x", gives_way)["second"] == gives_way  # type: ignore[index]
