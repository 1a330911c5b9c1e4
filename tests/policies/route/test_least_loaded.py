from tests.policies.route.sights import fabric, job, numbers, sight
from weft.policies.route.least_loaded import LeastLoaded


def test_what_all_paths_share_hides_nothing() -> None:
    """Three flows leave one NIC for three others of a rack, over four spines: the NIC is each path's fullest link, and
    yet each flow has a spine of its own."""
    view = sight(fabric(), [job("a", [(0, 4), (0, 5), (0, 6)])])
    for by in ("flows", "bytes"):
        routing = LeastLoaded(by).route(view, {})
        assert numbers(routing.routes["a"]) == [0, 1, 2]
