"""Buckets against PyTorch's own rule."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from testkit.draws import examples
from testkit.engines import torch
from weft.workload.profiles.measured import bucket_groups

pytestmark = pytest.mark.usefixtures("pytorch")


@settings(max_examples=examples(60), deadline=None)
@given(st.lists(st.integers(1, 4000), min_size=1, max_size=40), st.integers(1, 8000), st.integers(1, 8000))
def test_buckets_are_those_of_distributed_data_parallel(sizes: list[int], first: int, cap: int) -> None:
    """torch.distributed assigns tensors in a given order to buckets with a first limit and one for the others."""
    distributed = pytest.importorskip("torch.distributed", reason="this PyTorch has no distributed package")
    if not distributed.is_available():
        pytest.skip("this PyTorch has no distributed package")
    tensors = [torch.empty(n, dtype=torch.float32, device="meta") for n in sizes]
    groups, _ = distributed._compute_bucket_assignment_by_size(tensors, [first, cap])
    assert [list(g) for g in bucket_groups([4.0 * n for n in sizes], cap, first)] == groups
