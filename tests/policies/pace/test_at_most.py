import pytest

from weft.errors import StackError
from weft.policies.pace.admission import AtMost
from weft.policies.pace.base import Admission
from weft.testing import check_pace


@pytest.mark.parametrize("n", [1, 2, 7])
def test_conforms(n: int) -> None:
    check_pace(lambda: AtMost(n))
    assert AtMost.from_text(str(n)).admission(1e-9, 0.0) == Admission("at-most", n)
    assert AtMost(n).name == f"at-most:{n}"


@pytest.mark.parametrize("text", ["", "0", "-1", "x", "1.5", "1001", "9" * 30])
def test_parameter(text: str) -> None:
    with pytest.raises(StackError, match=r"not known|takes a (whole )?number|twice"):
        AtMost.from_text(text)
    assert AtMost.from_text(None).n == 1
