import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from testkit.draws import examples
from weft.errors import InputError
from weft.model import Compute, Profile, Transfer
from weft.workload import zoo
from weft.workload.profiles.files import MeasuredModel, save_measured, save_profile
from weft.workload.profiles.measured import Bucket, Measured
from weft.workload.zoo.build import read_model

MEASURED = Measured(
    "Some GPU", "bf16", 32, 0.010, 0.020, 0.001, (Bucket(3e6, 0.008), Bucket(5e6, 0.019)), 2_000_000, 8e6,
    memory_bytes=4e9, spread=0.01, repeats=10, date="2026-01-02", software="torch 2", library="user",
)  # fmt: skip


def test_measurements_come_back_as_they_were(tmp_path: Path) -> None:
    path = tmp_path / "m.json"
    save_measured("mine", [MEASURED], path)
    assert read_model(path) == MeasuredModel("mine", (MEASURED,))


@pytest.mark.parametrize("name", ["vgg16", "dlrm", "gpt2-a", "llama-7b"])
def test_a_graph_comes_back_equal(name: str, tmp_path: Path) -> None:
    path = tmp_path / "g.json"
    profile = zoo.profile(name, 4, overlap=True)
    save_profile(profile, path)
    assert read_model(path) == profile
    assert zoo.profile(str(path), 4) == profile


def test_a_measured_file_is_a_model_for_any_number_of_workers(tmp_path: Path) -> None:
    path = tmp_path / "m.json"
    save_measured("mine", [MEASURED], path)
    for workers in (1, 2, 7):
        profile = zoo.profile(str(path), workers, overlap=True)
        assert profile.workers == workers
        assert profile.compute_s == pytest.approx(0.031)
        assert profile.message_bytes == pytest.approx(8e6 if workers > 1 else 0)
    sends = [t for t in zoo.profile(str(path), 2, overlap=True).tasks if isinstance(t, Transfer)]
    assert [t.bytes for t in sends] == [3e6, 5e6]
    assert "measured on Some GPU, bf16, 2026-01-02" in profile.source


def test_batches_between_measurements_lie_on_the_line(tmp_path: Path) -> None:
    path = tmp_path / "m.json"
    twice = Measured("Some GPU", "bf16", 64, 0.030, 0.060, 0.001, (), 2_000_000, 8e6)
    save_measured("mine", [MEASURED, twice], path)
    profile = zoo.profile(str(path), 2, batch=48)
    assert [t.seconds for t in profile.tasks if isinstance(t, Compute)] == pytest.approx([0.020, 0.040, 0.001])


def _write(path: Path, **change: Any) -> Path:
    save_measured("mine", [MEASURED], path)
    content = json.loads(path.read_text())
    for key, value in change.items():
        if key in content:
            content[key] = value
        else:
            content["measurements"][0][key] = value
    path.write_text(json.dumps(content))
    return path


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"format": "other"}, "format must be"),
        ({"version": 7}, "version is 7, this weft reads 1"),
        ({"kind": "photo"}, "kind is 'photo'; give \"measured\""),
        ({"measurements": []}, "measurements"),
        ({"forward_s": -1}, "measurements.0.forward_s"),
        ({"batch": 0}, "measurements.0.batch"),
        ({"buckets": [{"bytes": 1}]}, "measurements.0.buckets.0.ready_s"),
        ({"surprise": 1}, "measurements.0.surprise"),
    ],
)
def test_a_wrong_field_is_named(tmp_path: Path, change: dict[str, Any], words: str) -> None:
    path = _write(tmp_path / "bad.json", **change)
    with pytest.raises(InputError) as error:
        read_model(path)
    assert words in str(error.value)
    assert str(path) in str(error.value)
    assert "\n" not in str(error.value)


def test_a_file_without_a_kind_is_told_which_there_are(tmp_path: Path) -> None:
    path = tmp_path / "bad.json"
    path.write_text('{"format": "weft-profile", "version": 1, "model": "mine"}')
    with pytest.raises(InputError, match=r'bad\.json: kind is missing; give "measured" .* or "graph"'):
        read_model(path)


def test_a_missing_file_and_no_json_are_said(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="No such file"):
        zoo.profile(str(tmp_path / "none.json"), 2)
    (tmp_path / "text.json").write_text("hello")
    with pytest.raises(InputError, match="not JSON"):
        read_model(tmp_path / "text.json")
    (tmp_path / "bytes.json").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InputError, match="UTF-8"):
        read_model(tmp_path / "bytes.json")


def test_a_graph_is_for_its_own_number_of_workers(tmp_path: Path) -> None:
    path = tmp_path / "g.json"
    save_profile(zoo.profile("vgg16", 4), path)
    with pytest.raises(InputError, match="4 workers, not 3"):
        zoo.profile(str(path), 3)


def test_measurements_have_no_layers_to_split(tmp_path: Path) -> None:
    save_measured("mine", [MEASURED], tmp_path / "m.json")
    with pytest.raises(InputError, match="know no layers"):
        zoo.profile(str(tmp_path / "m.json"), 2, parallel="pipeline")


def test_an_impossible_graph_is_refused_with_its_file(tmp_path: Path) -> None:
    path = tmp_path / "g.json"
    save_profile(Profile("p", (Compute("c", 1.0),), 1), path)
    content = json.loads(path.read_text())
    content["tasks"][0]["after"] = [5]
    path.write_text(json.dumps(content))
    with pytest.raises(InputError, match=r"g\.json: profile p: task 0"):
        read_model(path)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 10) | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
fields = st.sampled_from(
    ["kind", "model", "measurements", "name", "workers", "tasks", "version", "format", "batch", "gpu"]
)


@settings(max_examples=examples(100), deadline=None)
@given(st.dictionaries(fields, json_values, max_size=6), st.sampled_from(["measured", "graph", None]))
def test_damaged_files_never_end_in_a_traceback(
    tmp_path_factory: pytest.TempPathFactory, change: dict[str, Any], kind: str | None
) -> None:
    base: dict[str, Any] = {"format": "weft-profile", "version": 1}
    if kind:
        base["kind"] = kind
    path = tmp_path_factory.getbasetemp() / "fuzz.json"
    path.write_text(json.dumps(base | change, allow_nan=True))
    message = ""
    try:
        read_model(path)
    except InputError as error:
        message = str(error)
    assert "\n" not in message
