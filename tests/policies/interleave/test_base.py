from weft.policies.interleave.base import NoInterleave
from weft.testing import check_interleave


def test_conforms() -> None:
    check_interleave(NoInterleave)
