from typing import Any

import weft


def test_a_release_in_the_past_of_others_lets_nobody_in() -> None:
    """Two jobs on `a` repeat and are skipped; each newcomer there brings them up to date from a moment in the past.

    On `b` a transfer of 157 MB never finds 2.549 times as much left of one of 400 MB, so the rule is the same as one
    at a time; looked at a little too early it would be another.
    """
    b, eta = 8.56e-10, 2.35e-10
    compute = (0.0797913, 0.0812347, 0.1178931)
    jobs: list[dict[str, Any]] = [
        {"id": f"b{i}", "iterations": 300, "phases": [{"compute_s": c}, {"bytes": size * 1e6, "flows": {"b": 1}}]}
        for i, (c, size) in enumerate(zip(compute, (400.0371, 157.3093, 157.3093), strict=True))
    ]
    jobs += [
        {
            "id": f"a{i}", "start_s": 7.0031 * max(0, i - 1), "iterations": 3 if i > 1 else 400,
            "phases": [{"compute_s": 0.4}, {"bytes": 30e6, "flows": {"a": 1}}],
        }
        for i in range(20)
    ]  # fmt: skip
    ends = []
    for admission in ({"kind": "at-most", "k": 1}, {"kind": "ratio", "k": 2, "ratios": [2 * (b + eta) / b]}):
        for skip in (False, True):
            network = {"sharing": "k-way", "b_s_per_byte": b, "eta_s_per_byte": eta, "admission": admission}
            links = {"a": {"gbps": 10}, "b": {"gbps": 10}}
            done = weft.replay({"links": links, "network": network, "jobs": jobs}, skip=skip)["jobs"]
            ends.append([round(done[f"b{i}"]["finish_s"], 6) for i in range(3)])
    assert ends[0] == ends[1] == ends[2] == ends[3]
