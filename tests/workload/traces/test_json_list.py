import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.errors import TraceError
from weft.workload.traces import text as text_module
from weft.workload.traces.text import elements

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**6), 10**6) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


def _write(folder: Path, text: str) -> Path:
    path = folder / "list.json"
    path.write_text(text, encoding="utf-8")
    return path


@given(values=st.lists(st.dictionaries(st.text(max_size=5), JSON, max_size=4), max_size=6), chunk=st.integers(1, 40),
       indent=st.sampled_from([None, 0, 1, 4]))  # fmt: skip
def test_same_as_the_json_module(
    tmp_path_factory: pytest.TempPathFactory, values: list[object], chunk: int, indent: int | None
) -> None:
    text = json.dumps(values, indent=indent, ensure_ascii=False)
    path = _write(tmp_path_factory.mktemp("json"), text)
    before = text_module.CHUNK
    text_module.CHUNK = chunk
    try:
        found = list(elements(path))
    finally:
        text_module.CHUNK = before
    assert [value for _, value in found] == values
    if indent == 1:
        assert [line for line, _ in found] == [i for i, row in enumerate(text.split("\n"), 1) if row.startswith(" {")]


def test_a_broken_element_is_one_report_and_reading_goes_on(tmp_path: Path) -> None:
    lines = json.dumps([{"a": 1}, {"a": {"b": [2, 3]}}, {"a": 4}], indent=2).split("\n")
    broken = lines.index('      "b": [')
    lines[broken] = '      "b: ['
    found = list(elements(_write(tmp_path, "\n".join(lines))))
    assert [line for line, _ in found] == [2, 5, lines.index('    "a": 4')]
    assert found[0][1] == {"a": 1}
    assert isinstance(found[1][1], str)
    assert f"in line {broken + 1}" in found[1][1]
    assert found[2][1] == {"a": 4}


def test_a_list_that_breaks_off(tmp_path: Path) -> None:
    text = json.dumps([{"a": 1}, {"a": 2}], indent=2)
    for end, sound in ((text.index("2") + 1, 1), (text.rindex("}") + 1, 2), (text.index(",") + 1, 1)):
        found = [value for _, value in elements(_write(tmp_path, text[:end]))]
        assert found[:sound] == [{"a": 1}, {"a": 2}][:sound]
        assert len(found) == sound + 1
        assert isinstance(found[-1], str)


def test_broken_in_one_line_is_fatal(tmp_path: Path) -> None:
    path = _write(tmp_path, '[{"a": 1}, {"a": }, {"a": 3}]')
    with pytest.raises(TraceError, match=r":1: is not JSON .* mend the file"):
        list(elements(path))


@pytest.mark.parametrize("text", ["", "{}", "null", '"a"', "x"])
def test_not_a_list(text: str, tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="not a JSON list"):
        list(elements(_write(tmp_path, text)))


@pytest.mark.parametrize("inside", ["[" * 100_000, "9" * 10_000, '{"a": ' * 50_000])
def test_depth_and_digits_do_not_overflow(inside: str, tmp_path: Path) -> None:
    found = list(elements(_write(tmp_path, f'[\n {{"a": 0}},\n {inside}\n,\n {{"a": 1}}\n]')))
    assert found[0] == (2, {"a": 0})
    assert isinstance(found[1][1], str)


def test_an_unended_string_does_not_read_the_whole_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_module, "CHUNK", 100)
    monkeypatch.setattr(text_module, "MAX_ELEMENT", 1000)
    jobs = [{"a": i, "text": "x" * 20} for i in range(500)]
    text = json.dumps(jobs, indent=1).replace('"a": 7,', '"a: 7,')
    found = list(elements(_write(tmp_path, text)))
    assert len(found) == 500
    assert [i for i, (_, value) in enumerate(found) if isinstance(value, str)] == [7]
