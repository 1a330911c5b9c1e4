import random
from dataclasses import replace

import pytest

from testkit.oracles.engine import ReferenceEngine
from tests.sim.cases import Case, draw_case, draw_features
from tests.sim.driver import run_case
from weft.errors import EngineError
from weft.model.flows import Ask, TransferView
from weft.sim.engine import EngineSpec


def as_function(spec: EngineSpec) -> Ask:
    """The rules that the engine knows, written as a function."""

    def ask(waiting: TransferView, beside: tuple[TransferView, ...]) -> bool:
        for port in waiting.ports:
            there = [other for other in beside if port in other.ports]
            if there and len(there) >= spec.admission_k:
                return False
            if there and spec.admission == "ratio":
                need = spec.admission_ratios[len(there) - 1] * waiting.bytes_left
                if not all(other.bytes_left > need for other in there):
                    return False
        return True

    return ask


def asked(case: Case) -> Case:
    return replace(case, spec=replace(case.spec, admission="ask", ask=as_function(case.spec)))


@pytest.mark.parametrize("admission", ["at-most", "ratio"])
def test_a_rule_that_is_asked_equals_the_one_that_is_told(admission: str) -> None:
    """Bit for bit, on the kernel and on its twin, whatever else is drawn."""
    held = 0
    for seed in range(30):
        rng = random.Random(seed)
        features = draw_features(rng, admission=admission, skip="off")
        if features["graph"] == "opened":
            continue  # a follower may wait for a leader that is not let in: nothing ends then, which is an error here
        case = draw_case(rng, features)
        told = run_case(case)
        assert run_case(asked(case)).usage == told.usage
        assert run_case(asked(case), ReferenceEngine).usage == told.usage
        free = replace(case, spec=replace(case.spec, admission="all"))
        held += run_case(free).usage != told.usage
    assert held > 5, "the rule must make a difference"


def test_a_rule_that_lets_nothing_start_is_an_error() -> None:
    rng = random.Random(1)
    case = draw_case(rng, draw_features(rng, admission="at-most", skip="off", stops="none"))
    never = replace(case, spec=replace(case.spec, admission="ask", ask=lambda waiting, beside: False))
    with pytest.raises(EngineError, match="waiting transfers start"):
        run_case(never)


def test_nothing_is_skipped_where_a_rule_is_asked() -> None:
    """What a function will say does not repeat just because the network does."""
    rng = random.Random(2)
    case = draw_case(rng, draw_features(rng, admission="at-most", skip="exact"), iterations=30)
    calls = 0
    ask = as_function(case.spec)

    def counted(waiting: TransferView, beside: tuple[TransferView, ...]) -> bool:
        nonlocal calls
        calls += 1
        return ask(waiting, beside)

    run_case(replace(case, spec=replace(case.spec, admission="ask", ask=counted)))
    transfers = sum(30 for job in case.jobs for spec in job.stays[0].specs if spec.links)
    assert calls >= transfers / 2
