"""Tests draw a quarter of their random cases. WEFT_THOROUGH asks for a share of those that tests draw themselves, and
for all those of Hypothesis."""

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from testkit import sandbox
from testkit.draws import examples, thorough
from testkit.engines import missing_engine
from weft.errors import InputError


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


def test_who_looks_for_ports_before_others_are_used_gets_different_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    """Daemons begin to listen seconds after that. Other processes cannot bind what this one keeps, either."""
    monkeypatch.setattr(sandbox.random, "randrange", lambda first, last: next(dice))
    dice = iter([300, 300, 299, 299, 280])
    assert sandbox.free_ports(17) == [*range(300 * 64 + 1, 300 * 64 + 18)]
    assert sandbox.free_ports(17) == [*range(299 * 64 + 1, 299 * 64 + 18)]
    assert sandbox.free_ports(64) == [*range(280 * 64 + 1, 281 * 64), 281 * 64 + 1]


@pytest.mark.skipif(os.geteuid() != 0, reason="a chroot needs root")
def test_a_sandbox_ends_no_processes_of_its_path_in_another_chroot(tmp_path: Path) -> None:
    code = "import os, sys; os.chroot(sys.argv[1]); print(); sys.stdin.read()"
    ours, other = (
        subprocess.Popen(
            [sys.executable, "-S", "-c", code, root, f"{tmp_path}/x"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        for root in ("/", str(tmp_path))
    )
    with ours, other:
        assert [process.stdout.readline() for process in (ours, other) if process.stdout] == [b"\n", b"\n"]
        sandbox._end_processes_of(tmp_path)
        assert ours.wait() == -signal.SIGKILL
        other.communicate()
        assert other.returncode == 0


@pytest.mark.engine
def test_another_installation_is_taken_by_its_prefix(tmp_path: Path) -> None:
    """Its programs here note that they were called, and go on as the packaged ones. Daemons, the sandbox's own commands
    and those of weft all come from there; what it lacks (munged) is the machine's own."""
    if why := sandbox.missing():
        missing_engine(f"Slurm ({why})")
    prefix, called = tmp_path / "other", tmp_path / "called"
    for name in sandbox._DAEMONS:
        packaged = shutil.which(name, path=":".join([*os.get_exec_path(), *sandbox._SBIN]))
        if name != "munged":
            program = prefix / ("sbin" if name.startswith("slurm") else "bin") / name
            program.parent.mkdir(parents=True, exist_ok=True)
            program.write_text(f'#!/bin/sh\necho {name} >> {called}\nexec {packaged} "$@"\n')
            program.chmod(0o755)
    with sandbox.Sandbox(tmp_path / "slurm", 1, prefix=prefix) as box:
        assert set(called.read_text().split()) == {"slurmctld", "slurmd", "sinfo"}
        job = box.sbatch("--gpus=1", wrap="true")
        assert job in box.slurm.jobs()
        box.slurm.scontrol([f"release {job}"])
        box.wait(lambda: "COMPLETED" in box.slurm.jobs())
    assert set(called.read_text().split()) == set(sandbox._DAEMONS) - {"munged"}


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({}, (15, 15)),
        ({"WEFT_THOROUGH": "10"}, (600, 60)),
        ({"WEFT_THOROUGH": "0.25"}, (15, 60)),
        ({"WEFT_THOROUGH": ""}, (15, 60)),
    ],
)
def test_numbers(variables: dict[str, str], expected: tuple[int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WEFT_THOROUGH", raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert (thorough(60), examples(60)) == expected


def test_nobody_draws_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WEFT_THOROUGH", "0.01")
    assert thorough(4) == 1
