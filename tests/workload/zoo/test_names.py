from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.errors import InputError
from weft.model import Compute, Transfer
from weft.workload import zoo
from weft.workload.zoo.names import OPTIONS, split, without
from weft.workload.zoo.timings import find_gpu


@pytest.mark.parametrize(
    ("model", "size", "memory", "batch", "forward", "backward"),
    [
        ("vgg16", 526.4e6, 4527e6, 16, 0.0358, 0.0537),
        ("resnet50", 99.2e6, 3213e6, 16, 0.0250, 0.0374),
        ("inception-v3", 103.0e6, 3291e6, 16, 0.0349, 0.0524),
        ("lstm-ptb", 251.8e6, 2751e6, 64, 0.0315, 0.0473),
    ],
)
def test_ada_srsf_variant_is_table_three(
    model: str, size: float, memory: float, batch: int, forward: float, backward: float
) -> None:
    profile = zoo.profile(f"{model}@ada-srsf", 4)
    assert [t.seconds for t in profile.tasks if isinstance(t, Compute)] == pytest.approx([forward, backward])
    assert [t.bytes for t in profile.tasks if isinstance(t, Transfer)] == pytest.approx([size])
    assert profile.memory_bytes == pytest.approx(memory)
    assert profile.batch == batch
    assert "Table III" in profile.source


@pytest.mark.parametrize("name", ["VGG16", "vgg-16", "VGG_16", " vgg16 "])
def test_spelling_does_not_matter(name: str) -> None:
    assert zoo.find(name)[0].name == "vgg16"


def test_unknown_model_names_the_nearest() -> None:
    with pytest.raises(InputError, match=r"did you mean .*vgg16"):
        zoo.profile("vgg15", 2)


def test_unknown_variant_names_those_there_are() -> None:
    with pytest.raises(InputError, match="vgg16@ada-srsf"):
        zoo.profile("vgg16@sincronia", 2)


def test_one_worker_sends_nothing() -> None:
    assert zoo.profile("resnet50", 1).message_bytes == 0


@pytest.mark.parametrize(("kwargs", "word"), [({"workers": 0}, "workers"), ({"workers": 2, "batch": 0}, "batch")])
def test_bad_numbers_are_refused(kwargs: dict[str, int], word: str) -> None:
    with pytest.raises(InputError, match=word):
        zoo.profile("vgg16", **kwargs)  # type: ignore[arg-type]


SAME: list[tuple[str, int, dict[str, Any]]] = [
    ("vgg16[batch=64]", 4, {"batch": 64}),
    ("vgg16[batch=64,dtype=bf16,overlap=true]", 4, {"batch": 64, "dtype": "bf16", "overlap": True}),
    ("resnet50[parallel=parameter-server, servers=2]", 4, {"parallel": "parameter-server", "servers": 2}),
    ("gpt2[parallel=hybrid:2x2x1,micro_batches=5,schedule=1f1b]", 4,
     {"parallel": "hybrid:2x2x1", "micro_batches": 5, "schedule": "1f1b"}),
    ("vgg16[parallel=parameter-server,servers=2,apart=true]", 2,
     {"parallel": "parameter-server", "servers": 2, "apart": True}),
    ("gpt2-medium[gradient_gb=1.2]", 3, {"gradient_gb": 1.2}),
    ("dlrm[parallel=data]", 4, {"parallel": "data"}),
    ("vgg16@ada-srsf[batch=32]", 2, {"batch": 32}),
]  # fmt: skip


@pytest.mark.parametrize(("name", "workers", "options"), SAME)
def test_options_are_the_keyword_arguments(name: str, workers: int, options: dict[str, Any]) -> None:
    base = name.partition("[")[0]
    found, plain = zoo.profile(name, workers), zoo.profile(base, workers, **options)
    assert found.name == name.replace(base, plain.name)
    assert replace(found, name=plain.name) == plain
    assert found.tasks != zoo.profile(base, workers).tasks  # the option makes a difference
    assert zoo.find(name) == zoo.find(base)
    zoo.check(name)


def test_a_folder_may_have_brackets_of_its_own() -> None:
    assert split("run[3]/net.json[batch=4]") == ("run[3]/net.json", {"batch": 4})
    assert split("run[3]/net.json") == ("run[3]/net.json", {})


def test_what_the_name_says_comes_before_the_arguments() -> None:
    """A scenario's `overlap` holds for all its models, but for one that says otherwise."""
    assert zoo.profile("vgg16[overlap=false]", 4, overlap=True).tasks == zoo.profile("vgg16", 4).tasks
    assert zoo.work_of("vgg16[batch=64]").batch == 64


def test_times_that_a_paper_published_are_scaled_to_another_gpu_type() -> None:
    """By the ratio of peak rates in single precision; memory stays, and so does a circle."""
    here = zoo.profile("vgg16@ada-srsf", 4)
    for gpu in ("K80", "A100"):
        there = zoo.profile("vgg16@ada-srsf", 4, gpu=gpu)
        ratio = find_gpu("V100").tflops("fp32") / find_gpu(gpu).tflops("fp32")
        assert ratio != 1.0
        assert there.compute_s == pytest.approx(ratio * here.compute_s)
        assert there.gpu == gpu
        assert there.source.startswith("estimated from V100")
        assert there.memory_bytes == here.memory_bytes
    assert zoo.profile("vgg16@cassini", 4, gpu="K80").compute_s == zoo.profile("vgg16@cassini", 4).compute_s


WRONG = {
    "vgg16[btach=64]": "'btach' is no option of a model; did you mean batch?",
    "vgg16[colour=red]": "'colour' is no option of a model; use batch",
    "vgg16[]": "'' is no option of a model",
    "vgg16[batch=0]": "batch is '0'; it must be a whole number of at least 1",
    "vgg16[batch=1e3]": "batch is '1e3'",
    "vgg16[batch=²]": "batch is '²'",
    "vgg16[batch=99999999999999999999]": "batch is",
    "vgg16[batch]": "batch is ''",
    "vgg16[batch=1,batch=2]": "batch is there twice",
    "vgg16[overlap=yes]": "overlap is 'yes'; it must be true or false",
    "vgg16[parallel=]": "parallel has no value",
    "vgg16[apart=1]": "apart is '1'; it must be true or false",
    "vgg16[gradient_gb=-1]": "gradient_gb is '-1'; it must be a number of gigabytes above 0",
    "vgg16[workers=0]": "workers is '0'; it must be a whole number of at least 1",
    "vgg16[parallel=sideways]": "parallel 'sideways' is not known",
    "vgg16[parallel=pipeline:2]": "parallel 'pipeline:2' is not known",
    "vgg16[parallel=hybrid:xx4]": "hybrid:tp4xcp2",
    "vgg16[parallel=hybrid:3x3x3]": "the product must be the number of workers, 4",
    "vgg16[batch=64": "close the bracket; write options as vgg16[batch=64]",
    "vgg17[batch=64]": "'vgg17' is not in the zoo; did you mean vgg",
    "[batch=64]": "'' is not in the zoo",
    "vgg16@cassini[batch=64]": "its circle was published for one batch",
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_is_said_in_one_line(name: str) -> None:
    with pytest.raises(InputError) as error:
        zoo.profile(name, 4)
    assert WRONG[name] in str(error.value)
    assert "\n" not in str(error.value)


@given(st.text(alphabet="vgg16[]=,batchoverlp:x2 /.@", max_size=40))
def test_any_text_is_split_or_refused(text: str) -> None:
    try:
        base, options = split(text)
    except InputError as error:
        assert "\n" not in str(error)  # noqa: PT017 - most texts are refused
    else:
        assert base == without(text)
        assert set(options) <= set(OPTIONS)
