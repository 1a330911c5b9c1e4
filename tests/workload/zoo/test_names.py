import pytest

from weft.errors import InputError
from weft.model import Compute, Transfer
from weft.workload import zoo


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
