"""The blocks of docs/learning.md run, and the example learns."""

import contextlib
import importlib.util
import io
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import weft
from weft.learning import Chooser

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "learning.md").read_text(encoding="utf-8")
gymnasium = pytest.importorskip("gymnasium", reason="make dev installs it")


def test_the_blocks_of_the_page(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    names: dict[str, Any] = {"__name__": "page"}
    printed = io.StringIO()
    for block in re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL):
        with contextlib.redirect_stdout(printed):
            exec(compile(block, "learning.md", "exec"), names)
    (shown,) = re.findall(r"^```text\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    assert printed.getvalue() == shown
    made = gymnasium.make("weft.learning.env:weft/Queue-v0", scenario="examples/learned.toml")
    assert made.reset(seed=1)[0].keys() == names["seen"].keys()
    assert issubclass(names["Smallest"], Chooser)
    run = weft.simulate("examples/learned.toml", seed=1, stack=names["Smallest"])
    assert run.jobs["status"].unique().to_list() == ["finished"]


def _example() -> Any:
    spec = importlib.util.spec_from_file_location("learned_example", ROOT / "examples" / "learned.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_training_moves_the_weights(capsys: pytest.CaptureFixture[str]) -> None:
    """By the same steps each time it is run."""
    example = _example()
    first, again = (example.train(seconds=1e9, generations=1) for _ in range(2))
    assert "generation 1" in capsys.readouterr().out
    assert first.tolist() == again.tolist()
    assert np.abs(first).max() > 0.1


def test_what_is_kept_gains() -> None:
    """On seeds that training did not see, jobs complete sooner than without weights: first come, first served."""
    from weft.learning import QueueEnv

    example = _example()
    env = QueueEnv(ROOT / "examples" / "learned.toml")
    kept = example.Learned().weights
    learned = [example.completion_s(env, kept, seed) for seed in range(8)]
    untrained = [example.completion_s(env, np.zeros_like(kept), seed) for seed in range(8)]
    assert sum(learned) < 0.99 * sum(untrained)


def test_what_is_kept_is_played_alike() -> None:
    """The saved policy as a stack completes jobs as its weights do in the environment."""
    from weft.learning import QueueEnv

    example = _example()
    policy = example.Learned()
    total = example.completion_s(QueueEnv(ROOT / "examples" / "learned.toml"), policy.weights, 7)
    run = weft.simulate(ROOT / "examples" / "learned.toml", seed=7, stack=example.Learned)
    assert total == pytest.approx(run.jobs["jct_s"].sum(), rel=1e-9)
