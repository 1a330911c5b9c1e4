import pytest

from weft.cli.main import run
from weft.errors import InputError
from weft.workload import zoo
from weft.workload.zoo.catalogue import shapes
from weft_live.profiling.architectures import NOT_BUILT, build
from weft_live.profiling.measure import profile
from weft_live.profiling.sweep import PLAN, runs

pytestmark = pytest.mark.usefixtures("pytorch")

# 175 billion parameters need no second look; grouped queries and experts are not built here.
NEWER = {name for name, shape in shapes().items() if not shape.classic} | NOT_BUILT
LARGE = {"gpt3", *NEWER}


@pytest.mark.parametrize("name", [n for n in zoo.names() if n not in LARGE])
def test_wefts_own_definition_trains_every_parameter_of_the_zoo(name: str) -> None:
    """On the meta device nothing is computed, but shapes must fit and gradients must reach all parameters."""
    made = build(name, 2, "meta", library="weft")
    assert made.library == "weft"
    assert sum(p.numel() for p in made.module.parameters()) == zoo.find(name)[0].params
    batch = made.batch if isinstance(made.batch, tuple) else (made.batch,)
    made.loss(made.module(*batch)).backward()
    assert all(p.grad is not None for p in made.module.parameters())


def test_an_unknown_library_is_refused() -> None:
    with pytest.raises(InputError, match="library"):
        build("vgg16", 2, "meta", library="keras")
    with pytest.raises(InputError, match="does not define it"):
        build("dlrm", 2, "meta", library="torchvision")


def test_a_model_beyond_the_memory_is_refused_before_it_is_built(monkeypatch: pytest.MonkeyPatch) -> None:
    """GPT-3: 175 billion parameters and as many gradients, 8 bytes for both, on a host with 2^20 pages of 4 KiB."""
    host = {"SC_PAGE_SIZE": 4096, "SC_PHYS_PAGES": 2**20}
    monkeypatch.setattr("os.sysconf", host.__getitem__)
    with pytest.raises(InputError, match=r"gpt3: its parameters and gradients need 1,39\d GB, cpu has 4;"):
        build("gpt3", 1, "cpu")


def test_a_model_on_no_device_is_refused() -> None:
    made = build("alexnet", 1, "meta", library="weft")
    with pytest.raises(InputError, match="the model is on meta"):
        profile(made.module, made.batch, loss=made.loss)


def test_a_real_model_is_measured() -> None:
    made = build("mobilenet-v3-small", 1, library="weft")
    seen = profile(made.module, made.batch, loss=made.loss, warmup=1, repeats=3, max_s=1.0)
    assert seen.params == 2_542_856
    assert seen.gradient_bytes == 4 * seen.params
    assert seen.backward_s > 0


def test_the_plan_covers_the_zoo() -> None:
    assert set(PLAN) == set(zoo.names()) - LARGE
    assert len({(m, b, d) for m, b, d in runs()}) == len(list(runs())) >= 12


def test_a_batch_beyond_all_memory_is_refused_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    """A hundred million images of 602 kB are 60 TB before anything is computed."""
    assert run(["profile", "alexnet", "--batch", "100000000", "--device", "cpu"]) == 2
    (said,) = capsys.readouterr().err.splitlines()
    assert said.startswith("error: model alexnet: batch 100000000 needs at least ")
    assert said.endswith("use a smaller --batch")


@pytest.mark.parametrize("name", sorted(NEWER))
def test_what_is_not_built_here_is_refused(name: str) -> None:
    with pytest.raises(InputError, match=f"{name}: weft profile does not build"):
        build(name, 2, "meta")
