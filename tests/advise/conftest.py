from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cache of its own for copies of logs; compiled kernels stay where they are."""
    from weft import kernels
    from weft.advise import jobs

    kernels.cache_dir()
    monkeypatch.setattr(jobs, "cache_root", lambda: tmp_path / "cache")
