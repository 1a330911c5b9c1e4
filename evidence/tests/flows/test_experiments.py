from weft.scenario import Scenario
from weft.scenario.shipped import scenario_path
from weft_evidence.flows.experiments import UNCONTENDED, uncontended


def test_jobs_by_themselves_are_faster_than_together_and_faster_the_harder_they_push() -> None:
    data = Scenario.load(scenario_path("flows")).model_dump(exclude_unset=True)
    data["workload"] |= {"jobs": 5, "iterations": [5, 10]}
    found = uncontended(Scenario.load(data), seed=1)
    assert found["mcs"][0] == 1.0
    assert found["fair"][1] == 1.0
    by_itself = [found[f"{pace}, each job by itself"] for pace in UNCONTENDED]
    assert [time for time, _ in by_itself] == sorted((time for time, _ in by_itself), reverse=True)
    assert by_itself[0][1] < by_itself[-1][1]
    assert by_itself[UNCONTENDED.index("shortest")][0] < found["shortest"][0]
