from pathlib import Path

import pytest

from weft_live.agent.namespaces import coarse, refine


@pytest.mark.parametrize("log", ["9", None])
def test_settings_that_the_kernel_has_are_judged_and_set(log: str | None, tmp_path: Path) -> None:
    (tmp_path / "tcp_min_tso_segs").write_text("2\n")
    if log is not None:
        (tmp_path / "tcp_tso_rtt_log").write_text(log)
    said = "net.ipv4.tcp_tso_rtt_log=0 net.ipv4.tcp_min_tso_segs=1" if log else "net.ipv4.tcp_min_tso_segs=1"
    assert coarse(tmp_path).endswith(f"; sysctl {said}")
    refine(tmp_path)
    assert coarse(tmp_path) == ""
    assert (tmp_path / "tcp_tso_rtt_log").exists() == (log is not None)


def test_a_kernel_with_none_of_them_has_nothing_to_be_told(tmp_path: Path) -> None:
    refine(tmp_path)
    assert (coarse(tmp_path), list(tmp_path.iterdir())) == ("", [])
