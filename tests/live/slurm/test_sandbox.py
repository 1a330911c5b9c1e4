"""Where no Slurm can be started the reason is told."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from weft.errors import InputError
from weft.live.slurm import sandbox


def test_what_is_missing_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandbox, "_SBIN", ())
    monkeypatch.setenv("PATH", str(tmp_path))
    assert sandbox.missing() == "munged is not installed (apt-get install slurm-wlm munge)"
    with pytest.raises(InputError, match="no Slurm can be started here: munged is not installed"):
        sandbox.Sandbox(tmp_path)
    for name in sandbox._DAEMONS:
        (tmp_path / name).touch(0o755)
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert sandbox.missing() == "a Slurm of many nodes on one machine needs root"
