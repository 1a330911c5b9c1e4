"""The Ada-SRSF benchmark runs the experiment at full length. How long that takes is for `python -m benchmarks` to
say."""

from collections.abc import Callable

from benchmarks import available, load


def test_full_length_on_one_core(record_property: Callable[[str, object], None]) -> None:
    """About 0.56 M iterations and 4 M worker tasks."""
    assert "ada-srsf" in available()
    figures = load("ada-srsf")(True, print)
    assert figures["iterations"] > 500_000
    assert figures["worker_tasks"] > 3_500_000
    assert figures["ada-srsf_s"] > 0.0
    authors = figures["authors_hundredth_least_s"], figures["authors_hundredth_most_s"]
    assert authors == (20.0, 44.0)  # published beside ours, and for one hundredth of the iterations
    record_property("summary", f"ada-srsf: {figures['ada-srsf_s']:.1f} s")
