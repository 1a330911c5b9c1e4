"""What is built and installed works away from its sources: the core alone, and all three packages together."""

import json
import os
import subprocess
import sys
import zipfile
from collections.abc import Sequence
from pathlib import Path

import pytest

pytestmark = pytest.mark.long

ROOT = Path(__file__).resolve().parent.parent
SOURCES = {"weft": "src", "weft_live": "live/src", "weft_evidence": "evidence/src"}
LIMITS = {name: str(ROOT / "constraints.txt") for name in ("PIP_CONSTRAINT", "PIP_BUILD_CONSTRAINT")}


def said(command: Sequence[str | Path], folder: Path, code: int = 0, **more: str) -> str:
    """What a command prints (its errors, where it is to fail), in a folder that is not ours and without our paths."""
    ours = ("PYTHON", "WEFT", "VIRTUAL_ENV")
    environment = {name: value for name, value in os.environ.items() if not name.startswith(ours)} | LIMITS | more
    done = subprocess.run(
        list(map(str, command)), cwd=folder, env=environment, capture_output=True, text=True, timeout=900, check=False
    )
    assert done.returncode == code, done.stdout + done.stderr
    return done.stderr if code else done.stdout


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A wheel of each package, by its name in Python."""
    folder = tmp_path_factory.mktemp("wheels")
    packages = [ROOT, ROOT / "live", ROOT / "evidence"]
    said([sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", folder, *packages], folder)
    return {file.name.partition("-")[0]: file for file in folder.glob("*.whl")}


def installed(folder: Path, *wheels: str) -> Path:
    """A new environment with these; its folder of commands."""
    said([sys.executable, "-m", "venv", folder], folder.parent)
    said([folder / "bin" / "python", "-m", "pip", "install", "--quiet", *wheels], folder.parent)
    return folder / "bin"


@pytest.fixture(scope="module")
def alone(wheels: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    return installed(tmp_path_factory.mktemp("alone") / "venv", str(wheels["weft"]))


@pytest.fixture(scope="module")
def whole(wheels: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    live = f"{wheels['weft_live']}[agent,testbed]"
    return installed(tmp_path_factory.mktemp("whole") / "venv", str(wheels["weft"]), live, str(wheels["weft_evidence"]))


@pytest.mark.parametrize("package", SOURCES)
def test_a_wheel_holds_every_file_of_its_package_and_nothing_else(package: str, wheels: dict[str, Path]) -> None:
    """Also those that are no Python: tables, units for systemd, scripts, the source of a BPF program."""
    source = ROOT / SOURCES[package]
    there = {
        str(file.relative_to(source))
        for file in (source / package).rglob("*")
        if file.is_file() and "__pycache__" not in file.parts
    }
    with zipfile.ZipFile(wheels[package]) as archive:
        inside = {name for name in archive.namelist() if ".dist-info/" not in name}
    assert inside == there


def test_the_core_alone_runs_the_demo(alone: Path, tmp_path: Path) -> None:
    said([alone / "weft", "init", "d.toml", "--demo"], tmp_path)
    told = json.loads(said([alone / "weft", "simulate", "d.toml", "--json"], tmp_path))
    assert told["finished"] == told["jobs"] > 0
    said([alone / "python", "-c", "import weft_live"], tmp_path, code=1)


def test_the_core_alone_says_how_to_install_the_rest_from_a_checkout(alone: Path, tmp_path: Path) -> None:
    """The names are registered nowhere: whoever installs them by name gets a stranger's package."""
    for command, package in (("serve", "live"), ("reproduce", "evidence")):
        told = " ".join(said([alone / "weft", command], tmp_path, code=2).split())
        assert f"pip install ./{package}" in told
        assert f"pip install weft-{package}" not in told


def test_what_entry_points_name_is_in_the_wheels(whole: Path, tmp_path: Path) -> None:
    script = """
from importlib.metadata import entry_points
points = [point for group in entry_points().groups if group.startswith("weft.") for point in entry_points(group=group)]
for point in points:
    point.load()
print(len(points))
"""
    assert int(said([whole / "python", "-c", script], tmp_path)) > 20


def test_a_profile_is_read_by_a_child_that_is_named_in_a_string(whole: Path, tmp_path: Path) -> None:
    script = """
from weft.testing import toy_cluster
from weft_live.server.profiles import Profiles
profiles = Profiles(toy_cluster(), [], limit_s=60.0)
print(profiles.wait("resnet50[batch=8]", 2).memory_bytes > 0)
profiles.close()
"""
    assert said([whole / "python", "-c", script], tmp_path) == "True\n"


def test_what_slurm_needs_is_written_out(whole: Path, tmp_path: Path) -> None:
    said([whole / "weft", "serve", "--setup", "--out", "etc", "--python", "/usr/bin/python3"], tmp_path)
    written = {file.name for file in (tmp_path / "etc").iterdir()}
    assert written == {
        "reports.py", "job_submit.lua", "relay.py", "weft-agent.service", "weft-task-prolog", "weft.service",
    }  # fmt: skip
    said(["/usr/bin/python3", "-I", "-S", "-m", "py_compile", tmp_path / "etc" / "relay.py"], tmp_path)


def test_a_job_runs_in_the_local_world(whole: Path, tmp_path: Path) -> None:
    """Server and runner come from the wheel: the runner is started by its path."""
    folder = {"WEFT_DIR": str(tmp_path / "run")}
    script = """
import pathlib, subprocess, sys, time
weft, folder = sys.argv[1:]
def wait_for(name):
    until = time.monotonic() + 120
    while not (pathlib.Path(folder) / name).exists() and time.monotonic() < until:
        time.sleep(0.1)
server = subprocess.Popen([weft, "serve", "--world", "local", "--stack", "fifo"])
try:
    wait_for("control.sock")
    job = ["--name", "a", "--gpus", "1", "--iterations", "1", "--iteration-s", "0.1"]
    subprocess.run([weft, "submit", *job, "--", "touch", folder + "/done"], check=True)
    wait_for("done")
finally:
    server.terminate()
    server.wait()
"""
    said([whole / "python", "-c", script, whole / "weft", folder["WEFT_DIR"]], tmp_path, **folder)
    assert (tmp_path / "run" / "done").exists()


def test_the_claims_of_a_paper_are_listed(whole: Path, tmp_path: Path) -> None:
    claims = json.loads(said([whole / "weft", "reproduce", "dally", "--list", "--json"], tmp_path))
    assert len(claims) > 10
