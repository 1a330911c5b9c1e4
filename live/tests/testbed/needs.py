"""What tests on real sockets need, and what happens where it is missing or late."""

import time
from collections.abc import Callable

import pytest

from testkit.engines import required
from weft.errors import InputError
from weft_live.testbed.build import refuse

__all__ = ["need_testbed", "within"]


def need_testbed() -> None:
    """Skip with the reason where no namespaces can be made; a package that is missing is a fault where CI runs."""
    try:
        refuse()
    except InputError as error:
        if required() and "pyroute2" in str(error):
            pytest.fail(str(error), pytrace=False)
        pytest.skip(str(error), allow_module_level=True)


def within(seconds: float, true: Callable[[], bool]) -> bool:
    """Whether something becomes true in that time."""
    until = time.monotonic() + seconds
    while not (came := true()) and time.monotonic() < until:
        time.sleep(0.01)
    return came
