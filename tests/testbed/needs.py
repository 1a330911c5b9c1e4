"""What tests on real sockets need, and what happens where it is missing."""

from __future__ import annotations

import pytest

from tests.engines import required
from weft.errors import InputError
from weft.testbed.build import refuse

__all__ = ["need_testbed"]


def need_testbed() -> None:
    """Skip with the reason where no namespaces can be made; a package that is missing is a fault where CI runs."""
    try:
        refuse()
    except InputError as error:
        if required() and "pyroute2" in str(error):
            pytest.fail(str(error), pytrace=False)
        pytest.skip(str(error), allow_module_level=True)
