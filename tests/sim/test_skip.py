"""Skipping: what repeats is not simulated, and nobody can tell from the result."""

from __future__ import annotations

import random

from .cases import (
    differences,
    draw_case,
    draw_features,
    lone_links,
    plain,
    run_case,
    thorough,
    well_posed,
)


def test_skipped_periods_leave_no_trace() -> None:
    """Finish times, bytes, waits, GPU seconds, missed slots and iteration times are those of the plain run."""
    for seed in range(thorough(60)):
        rng = random.Random(seed)
        case = draw_case(rng, draw_features(rng, skip="exact"), iterations=40)
        whole = run_case(plain(case))
        differ = differences(run_case(case), whole, 1e-9, lone_links(case))
        assert not differ or not well_posed(case, whole), (seed, differ)
