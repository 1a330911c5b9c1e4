"""Where metrics are served."""

from __future__ import annotations

import socket

import pytest

from weft.errors import InputError
from weft_live.server.metrics import Metrics, MetricsServer


@pytest.mark.parametrize(("address", "there"), [("0", "127.0.0.1"), ("127.0.0.1:0", "127.0.0.1"), ("[::1]:0", "::1")])
def test_metrics_are_there_by_either_protocol(address: str, there: str) -> None:
    if ":" in there:
        try:
            with socket.socket(socket.AF_INET6) as trial:
                trial.bind(("::1", 0))
        except OSError:
            pytest.skip("this machine has no IPv6")
    served = MetricsServer(address, Metrics(4))
    try:
        with socket.create_connection((there, served.port), timeout=60):
            pass
    finally:
        served.close()


@pytest.mark.parametrize(
    ("address", "words"),
    [("::1:9100", r"an IPv6 address has brackets; write --metrics \[::1\]:9400"), ("[::1]", "not a port"),
     ("[::1]:x", "not a port")],
)  # fmt: skip
def test_metrics_addresses_that_are_none(address: str, words: str) -> None:
    with pytest.raises(InputError, match=words):
        MetricsServer(address, Metrics(4))
