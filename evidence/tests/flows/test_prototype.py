import numpy as np
import pytest

import weft
from weft.errors import StackError
from weft.model.flows import FlowRows, FlowSet, flow_set
from weft.policies.pace.flow import FlowSpec
from weft.policies.pace.rates import Carried, Demand, Ints, Moment
from weft.stacks import resolve
from weft.testing import check_pace
from weft_evidence.flows.prototype import FlowPrototype, PrototypeRule

SPEC = FlowSpec(slot_s=1.0, slots=4)


def test_conforms() -> None:
    check_pace(FlowPrototype)


@pytest.mark.parametrize(
    "text", ["volume=1.6", "no-estimate", "own-load", "no-estimate,own-load,volume=1.6,host-only,slot=20ms,leaves=40%"]
)
def test_settings(text: str) -> None:
    pace = resolve(f"fifo[pace=flow-prototype:{text},place=random]").pace
    assert isinstance(pace, FlowPrototype)
    assert pace.name == f"flow-prototype:{text}"
    assert resolve("fifo", pace="flow-prototype").pace.name == "flow-prototype"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("volume=0.5", "volume takes"), ("volume=x", "volume takes"), ("volume=2,volume=3", "twice"),
        ("x", "not known"),
        ("own-load=1", "not known"), ("own-load,own-load", "twice"), ("", "not known"), ("slot=0ms", "slot takes"),
    ],
)  # fmt: skip
def test_settings_that_make_no_sense(text: str, words: str) -> None:
    with pytest.raises(StackError, match=words):
        FlowPrototype.from_text(text)


def test_a_run_ends() -> None:
    scene = {
        "cluster": {"topology": "single-switch", "servers": 3, "gpus_per_server": 2, "nic_gbps": 10.0},
        "workload": {
            "source": "poisson", "jobs": 5, "load": 1.2, "gpus": {"2": 1, "4": 1}, "iterations": [3, 8],
            "models": ["resnet50", "vgg16[parallel=parameter-server,servers=2]"],
        },
        "stack": {"name": "fifo", "pace": "flow-prototype:no-estimate,own-load,volume=1.6,leaves=40%"},
    }  # fmt: skip
    run = weft.simulate(scene)
    assert run.jobs["finish_s"].null_count() == 0


def test_more_volume_is_planned_than_there_is() -> None:
    """6 bytes on a link of 10 bytes a slot (of a second), where others have posted 6 for now: all of them in the next
    slot, which is empty. With 1.6 times the volume 9.6 are planned there, of which 3.6 never come."""
    for volume, planned in ((1.0, [0.0, 6.0]), (1.6, [0.0, 9.6])):
        rule, flows, live = _flows(PrototypeRule(SPEC, volume), 6.0)
        rule.table[0, 0] = 6.0
        rule.decide(Moment(0), flows, live)
        assert rule.plans[0, :2].tolist() == pytest.approx(planned)


def test_the_estimate_of_what_is_ours_can_be_left_out() -> None:
    """A full link carried 3 of 10: that is ours, unless the estimate is off."""
    for estimate, ours in ((True, 3.0), (False, 10.0)):
        rule, flows, live = _flows(PrototypeRule(SPEC, estimate=estimate), 60.0)
        rule.decide(Moment(0), flows, live)
        rule.carried(0, flows, live, Carried(np.array([3.0, 3.0]), np.array([True, False])))
        assert rule.available[0] == ours


def test_flows_of_a_job_as_load_for_each_other() -> None:
    """Two flows of a job of 8 bytes each on a link of 10: they share it, 5 each; as load for each other the first,
    whose last bytes fit into the slot, sends at all that is free, and the second waits."""
    for own, now in ((False, [5.0, 5.0]), (True, [10.0, 0.0])):
        rule, flows, live = _flows(PrototypeRule(SPEC, own_load=own), 8.0, 2)
        assert rule.decide(Moment(0), flows, live).caps[live].tolist() == pytest.approx(now, abs=1e-6)


def _flows(rule: PrototypeRule, size: float, n: int = 1) -> tuple[PrototypeRule, FlowSet, Ints]:
    capacity, flows = np.array([10.0, 10.0]), flow_set(n, 2)
    none, zeros = ((0, 0),) * n, (0.0,) * n
    flows.put(0, 0, FlowRows(((0, 1),) * n, (size,) * n, zeros, none, none), capacity)
    flows.active[:] = True
    rule.begin(Demand(capacity))
    return rule, flows, np.arange(n)
