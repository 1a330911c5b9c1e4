"""Every policy keeps the rules of its layer, whatever it is told (planners and paces with rates of their own: in their
files)."""

from collections.abc import Callable, Iterable

import pytest

from weft.stacks.registry import make
from weft.testing import check_order, check_pace, check_place, check_route
from weft.testing.check_policies import WORKLOADS
from weft.testing.toy import DOMAINS, UNEQUAL

CASES: list[tuple[Callable[..., None], str, Iterable[int] | None, str]] = [
    (check_order, "order", WORKLOADS, "fifo fifo:backfill sjf srsf srsf:preemptive srsf:size srsf:length"),
    (check_order, "order", WORKLOADS, "weft weft:rigid weft:attained weft:rigid,attained"),
    (
        check_order,
        "order",
        (0, 1, DOMAINS, UNEQUAL),
        "las las:5 las-queues las-queues:10/50 gittins gittins:10/50 defrag:20",
    ),
    (
        check_order,
        "order",
        (0, 1, DOMAINS, UNEQUAL),
        "nw-sens nw-sens:5 nw-sens:together nw-sens:together@5 nw-sens:staying",
    ),
    (check_order, "order", (0, 1, DOMAINS, UNEQUAL), "nw-sens:together@staying@5 time-slice time-slice:30"),
    (check_route, "route", (0, 1, DOMAINS, UNEQUAL), "ecmp ecmp:8 spray least-loaded least-loaded:bytes"),
    (check_route, "route", (0, 1, DOMAINS), "adaptive adaptive:every=700ms crux crux:flows"),
    (check_route, "route", (0, 1, DOMAINS), "edge-colouring sglb"),
    (check_place, "place", WORKLOADS, "best-fit first-fit first-fit:shared random random:shared"),
    (
        check_place,
        "place",
        (0, 1, DOMAINS, UNEQUAL),
        "arnold arnold:alpha=0.5 elasticflow hived packing titan titan:printed titan:plus titan:plus/ring/0.5",
    ),
    (check_place, "place", (1, DOMAINS, UNEQUAL), "affinity skew delay delay:auto@20 delay:3/9 delay:no-wait"),
    (check_place, "place", (1, DOMAINS, UNEQUAL), "delay:consolidated delay:benefit"),
    (check_place, "place", (0, 1, 2, DOMAINS, UNEQUAL), "tight tight:ring lwf:1"),
    (check_place, "place", (1, DOMAINS, UNEQUAL), "lwf:4"),
    (check_place, "place", (5, DOMAINS, UNEQUAL), "ls"),
    (
        check_pace,
        "pace",
        None,
        "fair crux crux:2 mltcp mltcp:slope=4 at-most:1 at-most:2 at-most:7 adadual:1 adadual:2 adadual:3 adadual:8",
    ),
]


@pytest.mark.parametrize(
    ("check", "layer", "workloads", "name"),
    [(check, layer, workloads, name) for check, layer, workloads, names in CASES for name in names.split()],
)
def test_conforms(check: Callable[..., None], layer: str, workloads: Iterable[int] | None, name: str) -> None:
    check(lambda: make(layer, name), *(() if workloads is None else (workloads,)))
