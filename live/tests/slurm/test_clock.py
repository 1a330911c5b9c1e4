"""A controller whose clock is not that of the machine on which weft runs: jobs start as ever, and when they may."""

from __future__ import annotations

import shutil
import subprocess
import time
from contextlib import closing
from pathlib import Path

import pytest

from live.tests.slurm.serving import Serving, ended, running, serve_until
from testkit.engines import missing_engine
from testkit.sandbox import Sandbox, missing
from weft_live.slurm.patience import SCARCE_S

# Time of day as one process sees it, moved.
SHIM = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <sys/time.h>
#include <time.h>
static long moved(void) { const char *s = getenv("WEFT_TEST_AHEAD_S"); return s ? atol(s) : 0; }
time_t time(time_t *out) {
    struct timespec now; clock_gettime(CLOCK_REALTIME, &now);
    if (out) *out = now.tv_sec;
    return now.tv_sec;
}
int gettimeofday(struct timeval *tv, void *tz) {
    struct timespec now; clock_gettime(CLOCK_REALTIME, &now);
    tv->tv_sec = now.tv_sec; tv->tv_usec = now.tv_nsec / 1000;
    return 0;
}
int clock_gettime(clockid_t clock, struct timespec *out) {
    static int (*real)(clockid_t, struct timespec *);
    if (!real) real = dlsym(RTLD_NEXT, "clock_gettime");
    int done = real(clock, out);
    if (!done && clock == CLOCK_REALTIME) out->tv_sec += moved();
    return done;
}
"""


class Ahead(Sandbox):
    """Its controller lives in another time."""

    shim = ""
    ahead_s = 0

    def start_controller(self, *, fresh: bool = False) -> None:
        before = self.environment
        self.environment = {**before, "LD_PRELOAD": self.shim, "WEFT_TEST_AHEAD_S": str(self.ahead_s)}
        try:
            super().start_controller(fresh=fresh)
        finally:
            self.environment = before


@pytest.mark.long
@pytest.mark.engine
@pytest.mark.parametrize("ahead_s", [15, -15])
def test_the_controllers_clock_is_another(ahead_s: int, tmp_path: Path) -> None:
    """A job starts at once, is preempted and starts again; one that begins later, by the controller's clock, waits.

    Slurm puts a job off that it has requeued, and all that scontrol can tell it then is the time of this machine: if
    that is ahead of the controller's, the job starts so much later, and nothing is given up meanwhile (as a job that
    Slurm has put off would be otherwise, after a third of that time)."""
    if why := missing():
        missing_engine(f"Slurm ({why})")
    if shutil.which("gcc") is None:
        pytest.skip("needs gcc, for a clock that can be moved")
    assert abs(ahead_s) >= 3 * SCARCE_S
    (tmp_path / "shim.c").write_text(SHIM)
    shim = tmp_path / "shim.so"
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", shim, tmp_path / "shim.c", "-ldl"], check=True)
    box = Ahead(tmp_path / "slurm", 2)
    box.shim, box.ahead_s = str(shim), ahead_s
    with box, closing(Serving(box, tmp_path)) as serving:
        assert box.slurm.ahead_s() == pytest.approx(ahead_s, abs=2.5)
        behind_s = max(0, -ahead_s)
        server = serving.start("srsf-preemptive[place=even:best-fit]")
        began = time.monotonic()
        long = serving.sbatch(16, "sleep 60", says="iterations=1000 iteration_s=1")
        serve_until(server, running(server, long), within_s=60)
        start_s = time.monotonic() - began  # what a start takes on this machine, now
        later = serving.sbatch(1, "sleep 0.1", "--begin=now+6", says="iterations=1 iteration_s=0.1")
        submitted = time.monotonic()
        short = serving.sbatch(8, "sleep 0.1", says="iterations=1 iteration_s=0.1")
        serve_until(server, ended(server, short), within_s=60)
        serve_until(server, running(server, long), within_s=60 + behind_s)
        serve_until(server, ended(server, later), within_s=40 + behind_s)
        assert time.monotonic() - submitted < max(20, 8 * start_s) + behind_s
        assert server.core.table.jobs[long].failures == 0
