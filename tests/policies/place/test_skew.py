from dataclasses import replace

import pytest

from testkit.toys import decided, played, starts
from weft.core.cycle import Core
from weft.errors import StackError
from weft.model import Job, Start
from weft.model.reason import because
from weft.model.view import Spread
from weft.policies.place.skew import Skew, skew_of
from weft.stacks import resolve
from weft.testing import ToyWorld, toy_cluster, toy_job


def test_skew_of_the_models_of_dally() -> None:
    """Table I calls VGG11, AlexNet and MobileNetV3 high, ResNet18, ResNet50 and BERT low. VGG11's largest tensor is
    the first dense layer, 25088 x 4096 of 132.9 M parameters."""
    assert skew_of("vgg11") == pytest.approx(25088 * 4096 / 132_863_336)
    high = [skew_of(m) for m in ("vgg11", "alexnet", "mobilenet-v3")]
    low = [skew_of(m) for m in ("resnet18", "resnet50", "bert-large")]
    assert min(high) > 0.3 > max(low)
    assert skew_of("nobody's model") == 0.0


def job(name: str, gpus: int, model: str, iterations: int = 10, submit_s: float = 0.0) -> Job:
    return replace(toy_job(name, gpus, iterations, submit_s=submit_s), model=model)


def test_by_hand() -> None:
    """Two servers of 4 GPUs; a and b (1 GPU, low skew) take the fullest server. VGG (4)
    takes the other one whole; AlexNet (4) finds 2 GPUs and waits for a whole server; ResNet (2) goes to the two that
    are left. At 10 s both servers are free but for the ResNet: AlexNet starts on the other one."""
    jobs = [
        job("a", 1, "resnet50"), job("b", 1, "resnet50"), job("vgg", 4, "vgg11"), job("alex", 4, "alexnet"),
        job("res", 2, "resnet18", 20),
    ]  # fmt: skip
    core = played(ToyWorld(toy_cluster(1, 2, 4), jobs), "tiresias:1000")
    assert starts(core) == [
        (0.0, "a", (0,)), (0.0, "b", (1,)), (0.0, "vgg", (4, 5, 6, 7)), (0.0, "res", (2, 3)),
        (10.0, "alex", (4, 5, 6, 7)),
    ]  # fmt: skip
    waits = [d.reason for _, d in decided(core) if d.job == "alex" and not isinstance(d, Start)]
    assert waits[0] == because("weft.no-room", gpus=4, there="are on offer")


def test_fewest_servers() -> None:
    """10 GPUs with high skew: two whole servers of 4 and one with 2, not five with 2 each."""
    cluster = toy_cluster(2, 3, 4)
    blockers = [job(f"x{i}", 2, "resnet50", 100) for i in range(2)]
    world = ToyWorld(cluster, [*blockers, job("big", 10, "vgg11"), job("low", 6, "resnet50")])
    core = played(world, "tiresias", until=1.0)
    assert Spread.of(cluster, core.table.jobs["big"].gpus).servers == 3


def test_parameter() -> None:
    assert Skew.from_text("0.5").limit == 0.5
    for text in ("2", "much"):
        with pytest.raises(StackError, match=r"not known|takes a (whole )?number|twice"):
            Skew.from_text(text)


def test_a_skewed_model_waits_for_its_server() -> None:
    """2 GPUs are free on each server: enough for the low skew, not for the high one."""
    jobs = [
        job("a", 2, "vgg11", 10),
        job("b", 2, "vgg11", 10),
        job("c", 4, "alexnet", 10),
        job("d", 4, "bert-large", 10),
    ]
    world = ToyWorld(toy_cluster(1, 2, 4), jobs)
    core = Core(resolve("tiresias", place="skew"), world)
    core.confirm(world.next_events(None))
    for name, gpus in (("a", (0, 1)), ("b", (4, 5))):
        core.table.starting(name, gpus, None)
    decisions = {d.job: d for d in core.step(0.0, [])}
    assert decisions["c"].reason == "high skew: waits for 4 GPUs on one server"
    assert decisions["d"] == Start(
        "d", (2, 3, 6, 7), "least attained service first: 0 GPU s; low skew: anywhere, on 2 servers"
    )
