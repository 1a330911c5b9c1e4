"""The local world keeps the promises of every world, and its processes come and go as they should."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import count
from pathlib import Path

import pytest

from tests.live.jobs import local_world
from weft.core.world import World
from weft.live.local import LocalWorld
from weft.model.job import Job
from weft.testing import check_world


@pytest.fixture
def worlds() -> Iterator[list[LocalWorld]]:
    """Worlds whose sockets are closed in the end."""
    made: list[LocalWorld] = []
    yield made
    for world in made:
        world.close()


def test_it_is_a_world(tmp_path: Path, worlds: list[LocalWorld]) -> None:
    number = count()

    def make(jobs: Sequence[Job], *, latency_s: float, failure_rate: float, seed: int) -> World:
        worlds.append(local_world(tmp_path / str(next(number)), jobs))
        return worlds[-1]

    check_world(make, iteration_s=0.01, deterministic=False)
