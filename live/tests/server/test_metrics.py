import socket

import pytest
from prometheus_client import generate_latest

from weft.core.table import Table
from weft.errors import InputError
from weft.model import Start, Started, Submitted
from weft.testing import toy_cluster, toy_job
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


def test_what_dashboards_show_keeps_its_name() -> None:
    table, metrics = Table(toy_cluster()), Metrics(16, lambda: 2.5)
    came = [Submitted(0.0, toy_job(name, 2)) for name in ("a", "b")]
    for event in came:
        table.take(event)
    table.starting("b", (0, 1), None)
    metrics.cycle([*came, Started(1.0, "b")], [Start("b", (0, 1), "", None)], 0.003, 3.0, table)
    lines = generate_latest(metrics.registry).decode().splitlines()
    found = {name: float(value) for name, _, value in (x.rpartition(" ") for x in lines if not x.startswith("#"))}
    for histogram, sum_s, least, bounds in (("decision", 0.003, "0.005", 10), ("wait", 3.0, "10.0", 10)):
        name = f"weft_{histogram}_seconds"
        assert found.pop(f"{name}_sum") == pytest.approx(sum_s)
        assert found.pop(f"{name}_count") == found[f'{name}_bucket{{le="{least}"}}'] == 1
        buckets = [key for key in found if key.startswith(f"{name}_bucket")]
        assert [found.pop(key) for key in buckets] == [0.0] * 2 + [1.0] * (bounds - 2)
    assert found == {
        "weft_cycles_total": 1, "weft_starts_total": 1, "weft_preemptions_total": 0, "weft_failures_total": 0,
        "weft_finished_total": 0, "weft_withdrawn_total": 0, 'weft_jobs{status="waiting"}': 1,
        'weft_jobs{status="starting"}': 1, 'weft_jobs{status="running"}': 0, 'weft_jobs{status="stopping"}': 0,
        "weft_gpus": 16, "weft_gpus_busy": 2, "weft_nodes_down": 0, "weft_strangers": 0,
            "weft_look_age_seconds": 2.5,
    }  # fmt: skip
