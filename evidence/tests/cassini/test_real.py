from pathlib import Path

import numpy as np
import pytest

from weft_evidence.cassini.real import _dctcp, _met, _quarters
from weft_live.testbed.build import controls
from weft_live.testbed.jobs import Timing


def test_jobs_that_move_apart_meet_in_the_first_quarter_and_not_in_the_last() -> None:
    """Iterations of 1 s with 0.4 s of communication; the other job's begins 0.05 s later each time, so that of n
    iterations the part that both share is 1 - 0.125 n, and nothing from the eighth on."""
    n = np.arange(18.0)
    one = Timing("one", np.stack([n, n + 0.5, n + 0.9, n + 1.0], axis=1))
    other = Timing("other", one.rows + 0.05 * np.minimum(n, 9.0)[:, None])
    parts = _quarters(18)
    assert parts == {"first quarter": slice(2, 6), "last quarter": slice(14, 18)}
    assert _met([one, other], parts["first quarter"]) == pytest.approx(100.0 * (1.0 - 0.125 * 3.5))
    assert _met([one, other], parts["last quarter"]) == 0.0


@pytest.mark.skipif("dctcp" in controls(), reason="the kernel has its own dctcp")
def test_figure_19_says_that_reno_stands_in_for_dctcp(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WEFT_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))  # no clang
    said: list[str] = []
    assert _dctcp(said.append) == ("reno", "Reno + ECN for DCTCP")
    assert len(said) == 1
    assert said[0].startswith("testbed: this kernel has no dctcp, and ours cannot be had: ")
    assert said[0].endswith("; figure 19 is run with reno, which halves its window for a mark")
