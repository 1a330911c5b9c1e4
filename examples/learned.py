"""Train an order for a minute, with an evolution strategy (Salimans et al., 2017) and nothing but numpy.

    python learned.py            # plays episodes, writes learned.json
    weft compare learned.toml --stack fifo-backfill --stack srsf --stack learned.py:Learned

The policy gives each waiting job a score, linear in what is seen of it, and starts the job with the highest.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from weft.learning import FEATURES, Chooser, Seen

HERE = Path(__file__).parent
KEPT = HERE / "learned.json"
Weights = npt.NDArray[np.float64]


def best(weights: Weights, seen: dict[str, Any]) -> int:
    """The row with the highest score of those that may be chosen; the score of none is 0."""
    scores = np.append(seen["jobs"] @ weights, 0.0)
    return int(np.argmax(np.where(seen["mask"], scores, -np.inf)))


class Learned(Chooser):
    """What was learned, as a policy."""

    name = "learned"

    def __init__(self) -> None:
        super().__init__()
        kept = json.loads(KEPT.read_text())
        self.weights = np.array([kept[feature] for feature in FEATURES])

    def choose(self, seen: Seen) -> int | None:
        """The job with the highest score."""
        return best(self.weights, seen.arrays)


def completion_s(env: Any, weights: Weights, seed: int) -> float:
    """Summed completion time of one episode."""
    seen, _ = env.reset(seed=seed)
    total, done = 0.0, False
    while not done:
        seen, reward, terminated, truncated, _ = env.step(best(weights, seen))
        total, done = total - reward, terminated or truncated
    return total


def train(seconds: float, generations: int = 10**9, seed: int = 0) -> Weights:
    """Try pairs of opposite steps from the weights, and go in the direction of what was better."""
    from weft.learning import QueueEnv

    env = QueueEnv(HERE / "learned.toml")
    rng = np.random.default_rng(seed)
    weights = np.zeros(len(FEATURES))
    until = time.monotonic() + seconds
    for generation in range(1, generations + 1):
        if time.monotonic() > until:
            break
        steps = rng.standard_normal((6, len(FEATURES)))
        gains = []
        for step in steps:
            game = int(rng.integers(1000, 2**31))  # the seeds that are compared are 0 and the next few
            there, back = (completion_s(env, weights + sign * 0.3 * step, game) for sign in (1, -1))
            gains.append((back - there) / (back + there))
        gain = np.array(gains) / (np.std(gains) + 1e-9)
        weights += 0.5 * gain @ steps / len(steps)
        print(f"generation {generation}: {', '.join(f'{n} {w:+.2f}' for n, w in zip(FEATURES, weights, strict=True))}")
    return weights


def main(seconds: float = 60.0) -> None:
    """Train, and keep what was learned."""
    weights = train(seconds)
    KEPT.write_text(json.dumps(dict(zip(FEATURES, weights.round(4).tolist(), strict=True)), indent=2) + "\n")


if __name__ == "__main__":
    main(*map(float, sys.argv[1:]))
