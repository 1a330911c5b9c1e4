from benchmarks import available, load


def test_quick() -> None:
    assert "dally" in available()
    figures = load("dally")(True, lambda text: None)
    assert figures["dally_cpu_s"] > 0
    assert figures["dally_jobs"] == 500
    assert figures["dally_starts"] > 100
