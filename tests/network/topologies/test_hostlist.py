import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from testkit.draws import examples
from weft.errors import InputError
from weft.network.topologies.hostlist import MAX_HOSTS, compress, expand

FAST = settings(max_examples=examples(100), deadline=None)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("n1", ["n1"]),
        ("login", ["login"]),
        ("n[1-4,09-12]", ["n1", "n2", "n3", "n4", "n09", "n10", "n11", "n12"]),
        ("tux[0-3,12,18-20]", ["tux0", "tux1", "tux2", "tux3", "tux12", "tux18", "tux19", "tux20"]),
        ("n[098-101]", ["n098", "n099", "n100", "n101"]),
        ("n[9-11]", ["n9", "n10", "n11"]),
        ("a,b[1-2],c-3.example.org", ["a", "b1", "b2", "c-3.example.org"]),
        ("r[0-1]n[1-2]", ["r0n1", "r0n2", "r1n1", "r1n2"]),
        ("n[1-2]-ib", ["n1-ib", "n2-ib"]),
        ("[1-3]", ["1", "2", "3"]),
    ],
)
def test_expand(text: str, names: list[str]) -> None:
    assert expand(text) == names


@pytest.mark.parametrize(
    ("names", "text"),
    [
        ([], ""),
        (["n1"], "n1"),
        (["n1", "n2", "n3", "n5"], "n[1-3,5]"),
        (["n08", "n09", "n10"], "n[08-10]"),
        (["n9", "n10"], "n[9-10]"),
        (["n9", "n010"], "n[9,010]"),
        (["n1", "m1", "n2"], "n1,m1,n2"),  # order is kept
        (["login", "n1", "n2"], "login,n[1-2]"),
        (["n3", "n2"], "n[3,2]"),
    ],
)
def test_compress(names: list[str], text: str) -> None:
    assert compress(names) == text


NAME = st.from_regex(r"[A-Za-z0-9._-]{1,12}", fullmatch=True)
NUMBERED = st.builds(
    lambda stem, n, width: f"{stem}{n:0{width}d}",
    st.sampled_from(["n", "gpu-", "r1n"]),
    st.integers(0, 120),
    st.integers(1, 4),
)


@FAST
@given(st.lists(NAME | NUMBERED, min_size=1, max_size=40))
def test_expand_undoes_compress(names: list[str]) -> None:
    assert expand(compress(names)) == names


@FAST
@given(st.integers(0, 2000), st.integers(1, 300), st.integers(1, 5))
def test_a_run_of_numbers_is_one_range(first: int, n: int, width: int) -> None:
    names = [f"node{i:0{width}d}" for i in range(first, first + n)]
    text = compress(names)
    assert text.count("-") == (1 if n > 1 else 0)
    assert "," not in text
    assert expand(text) == names


@FAST
@given(st.text(alphabet="n0129[]-, \t²٣", max_size=20) | st.text(max_size=20))
def test_any_text_expands_or_is_refused(text: str) -> None:
    refusal, names = "", []
    try:
        names = expand(text)
    except InputError as error:
        refusal = str(error)
    assert len(refusal.splitlines()) <= 1
    if not refusal:
        assert names
        assert all(names)
        assert expand(compress(names)) == names


@pytest.mark.parametrize(
    "text",
    ["", "n[1-4", "n1-4]", "n[[1-2]]", "n[]", "n[a-b]", "n[4-1]", "n[1-09]", "a,,b", "a b", f"n[0-{MAX_HOSTS}]",
     "n[1-1000]m[1-1000]", "n[1-" + "9" * 30 + "]", "n[-3]", "n[1--3]"],
)  # fmt: skip
def test_malformed_hostlists_are_refused(text: str) -> None:
    with pytest.raises(InputError, match="hostlist"):
        expand(text)


@pytest.mark.parametrize("name", ["", "a b", "a,b", "n[1"])
def test_names_that_no_hostlist_can_hold_are_refused(name: str) -> None:
    with pytest.raises(InputError, match="host name"):
        compress([name])
