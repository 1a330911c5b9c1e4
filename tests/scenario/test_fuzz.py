import copy
import tomllib
from collections.abc import Iterator
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from testkit.draws import examples
from weft.errors import InputError
from weft.scenario import Scenario
from weft.scenario.build import Layers, build_cluster, build_stack, check
from weft.scenario.jobfile import load_job_file
from weft.scenario.template import TEMPLATE

SCENARIO = tomllib.loads(TEMPLATE.format(name="x.toml"))
SCENARIO["workload"]["job"] = [{"model": "vgg16", "gpus": 1, "iterations": 5}]
JOB_FILE: dict[str, Any] = {
    "links": {"l": {"gbps": 10}},
    "network": {"sharing": "k-way", "b_s_per_byte": 1e-9, "admission": {"kind": "ratio", "k": 2, "ratios": [2.0]}},
    "jobs": [
        {
            "id": "a",
            "iterations": 2,
            "gate": {"epoch_s": 0.1, "period_s": 1.0},
            "phases": [{"compute_s": 1.0, "bytes": 10.0, "flows": {"l": 1}, "demand_gbps": 1}],
        }
    ],
}

values = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 10**20) | st.floats() | st.text(max_size=8)
    | st.sampled_from(["leaf-spine", "fat-tree", "links", "file", "trace", "k-way", "fifo", "vgg16", "a[b].c"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=6,
)  # fmt: skip


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Every place in a nest of tables and lists."""
    if path:
        yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        yield from places(inner, (*path, key))


def changed(data: dict[str, Any], draw: st.DataObject) -> dict[str, Any]:
    """The data with one to three places replaced, removed or added to."""
    data = copy.deepcopy(data)
    for _ in range(draw.draw(st.integers(1, 3))):
        path = draw.draw(st.sampled_from(list(places(data))))
        here: Any = data
        for part in path[:-1]:
            here = here[part]
        how = draw.draw(st.sampled_from(["replace", "remove", "add"]))
        if how == "remove":
            del here[path[-1]]
        elif how == "add" and isinstance(here[path[-1]], dict):
            here[path[-1]][draw.draw(st.text(max_size=6))] = draw.draw(values)
        else:
            here[path[-1]] = draw.draw(values)
        if not data:
            break
    return data


def one_line(error: InputError) -> None:
    text = str(error)
    assert "\n" not in text
    assert len(text) < 600
    assert "pydantic" not in text


@settings(max_examples=examples(60))
@given(st.data())
def test_scenarios(draw: st.DataObject) -> None:
    try:
        scenario = Scenario.load(changed(SCENARIO, draw))
        check(scenario, build_cluster(scenario))
        build_stack(scenario, Layers())
    except InputError as error:
        one_line(error)


@settings(max_examples=examples(60))
@given(st.data())
def test_job_files(draw: st.DataObject) -> None:
    try:
        load_job_file(changed(JOB_FILE, draw))
    except InputError as error:
        one_line(error)
