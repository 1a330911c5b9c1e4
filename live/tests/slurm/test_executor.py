"""`--executor slurm`: runs as an array of jobs of a real Slurm give the pool's answer."""

import subprocess
import sys
from pathlib import Path

import pytest

from testkit.sandbox import Sandbox

pytest.importorskip("submitit")
DEMO = Path(__file__).resolve().parents[3] / "examples" / "demo.toml"
COMPARE = ["--stack", "fifo", "--stack", "srsf", "--seeds", "2", "--set", "workload.jobs=8", "--workers", "2", "--json"]


@pytest.mark.long
@pytest.mark.engine
def test_byte_for_byte(box: Sandbox, tmp_path: Path) -> None:
    def compare(*options: str) -> bytes:
        command = [sys.executable, "-m", "weft", "compare", str(DEMO), *COMPARE, *options]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, check=False, timeout=240, env=box.environment)
        assert done.returncode == 0, done.stderr.decode()
        return done.stdout

    assert compare("--executor", "slurm:time=10") == compare()
    logs = list((tmp_path / "weft-slurm").glob("*_submission.sh"))
    assert len(logs) == 1  # one array
    assert "#SBATCH --array=0-1%2" in logs[0].read_text()
