from weft.policies.pace.admission import Fair
from weft.policies.pace.base import Admission
from weft.testing import check_pace


def test_conforms() -> None:
    check_pace(Fair)


def test_lets_everything_through() -> None:
    assert Fair().admission(8.53e-10, 2.35e-10) == Admission("all")
    assert not Fair.holds_back
