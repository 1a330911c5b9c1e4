"""Metrics of a live run for Prometheus, and the small server that hands them out on request."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import threading
from collections import Counter as Tally
from collections.abc import Callable, Sequence
from contextlib import suppress
from http.server import ThreadingHTTPServer
from pathlib import Path
from typing import Any

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    MetricsHandler,
    disable_created_metrics,
)

from weft.core.table import Table
from weft.errors import InputError
from weft.model.events import Event, Failed, Finished, Started, Stopped, Withdrawn
from weft.model.plan import Decision, Start, Stop
from weft.model.reason import code_of
from weft.model.view import JobStatus

_MOST = 8  # callers at a time; more are turned away
_PATIENCE_S = 2.0  # seconds that a caller may say nothing
_DECISION_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0)
_WAIT_S = (0.1, 1.0, 10.0, 60.0, 300.0, 1800.0, 3600.0, 14400.0, 86400.0)
ESTIMATE_S = 60.0  # between two looks at what comes
_MOST_JOBS = 1000  # first in the queue, with an estimated start
_COUNTED = {  # each is weft_NAME_total
    "cycles": "Decision cycles.",
    "starts": "Starts of jobs.",
    "preemptions": "Jobs that were stopped for others.",
    "failures": "Starts and runs that failed.",
    "finished": "Jobs that have finished.",
    "withdrawn": "Jobs that were taken back.",
}
_STATUSES = (JobStatus.WAITING, JobStatus.STARTING, JobStatus.RUNNING, JobStatus.STOPPING)


class Metrics:
    """What is counted since this server started. Written by the loop, read by any thread."""

    def __init__(self, n_gpus: int, look_age_s: Callable[[], float] = lambda: 0.0) -> None:
        disable_created_metrics()  # type: ignore[no-untyped-call]  # when this server started is no series
        self.registry = own = CollectorRegistry()
        self.decision = Histogram(
            "weft_decision_seconds", "From events to decisions on disk.", registry=own, buckets=_DECISION_S
        )
        self.wait = Histogram("weft_wait_seconds", "Waiting time before each start.", registry=own, buckets=_WAIT_S)
        self.counts = {name: Counter(f"weft_{name}_total", what, registry=own) for name, what in _COUNTED.items()}
        self.jobs = Gauge("weft_jobs", "Jobs that have not ended.", ["status"], registry=own)
        self.down = Gauge("weft_nodes_down", "Servers that cannot be used, jobs outside weft included.", registry=own)
        self.strangers = Gauge(
            "weft_strangers", "Jobs that weft did not start and that have GPUs of its servers.", registry=own
        )
        self.busy = Gauge("weft_gpus_busy", "GPUs that jobs hold.", registry=own)
        Gauge("weft_gpus", "GPUs of the cluster.", registry=own).set(n_gpus)
        self.estimated = Gauge(
            "weft_job_estimated_start_seconds", "Until a job that waits starts: the middle of what is simulated.",
            ["job"], registry=own,
        )  # fmt: skip
        age = Gauge("weft_look_age_seconds", "Since the cluster was last seen.", registry=own)
        age.set_function(look_age_s)

    def cycle(
        self, events: Sequence[Event], decisions: Sequence[Decision], seconds: float, now: float, table: Table
    ) -> None:
        """One cycle went by."""
        self.decision.observe(seconds)
        self.counts["cycles"].inc()
        self.counts["preemptions"].inc(sum(isinstance(d, Stop) for d in decisions))
        for event in events:
            match event:
                case Started():
                    self.counts["starts"].inc()
                case Failed():
                    self.counts["failures"].inc()
                case Stopped() if code_of(event.reason) != "live.stopped":
                    self.counts["failures"].inc()
                case Finished():
                    self.counts["finished"].inc()
                case Withdrawn():
                    self.counts["withdrawn"].inc()
        for decision in decisions:
            if isinstance(decision, Start) and decision.job in table.jobs:
                self.wait.observe(now - table.jobs[decision.job].waiting_since_s)
        there = Tally(job.status for job in table.running.values())
        there[JobStatus.WAITING] = len(table.jobs) - len(table.running)
        for status in _STATUSES:
            self.jobs.labels(status.value).set(there[status])
        self.busy.set(sum(len(gpus) for gpus in table.placements.values()))


class Estimated(threading.Thread):
    """Sets the gauge of estimated starts now and then. Another process simulates, at a low priority, so that deciding
    never waits for it; without an answer the gauge has no series."""

    def __init__(self, metrics: Metrics, folder: Path, every_s: float = ESTIMATE_S) -> None:
        super().__init__(name="estimated", daemon=True)
        self._metrics, self._every_s, self._over = metrics, every_s, threading.Event()
        asked = ("-m", "weft", "queue", "--when", "--json", "--dir", str(folder))
        self._argv = ("nice", "-n", "10", sys.executable, *asked)
        self.start()

    def run(self) -> None:
        """Ask, wait, and ask again."""
        while not self._over.wait(self._every_s):
            self.ask()

    def ask(self) -> None:
        """Ask once."""
        starts: dict[str, float] = {}
        with suppress(OSError, subprocess.SubprocessError, ValueError, KeyError):
            done = subprocess.run(self._argv, capture_output=True, text=True, timeout=10 * self._every_s, check=True)
            for job in json.loads(done.stdout)["jobs"][:_MOST_JOBS]:
                if job["starts_in_s"] is not None and job["starts_in_s"]["p50"] is not None:
                    starts[job["job"]] = job["starts_in_s"]["p50"]
        self._metrics.estimated.clear()
        for name, seconds in starts.items():
            self._metrics.estimated.labels(name).set(seconds)

    def close(self) -> None:
        """Ask no more."""
        self._over.set()


class MetricsServer:
    """GET /metrics, on this machine only unless another address is given."""

    def __init__(self, address: str, metrics: Metrics) -> None:
        """`address` is PORT, HOST:PORT or [IPV6]:PORT."""
        host, _, port = address.rpartition(":")
        bracketed = host.startswith("[") and host.endswith("]")
        if not port.isdecimal() or int(port) > 65535:
            raise InputError(f"--metrics {address}: not a port; write --metrics 9400, HOST:PORT or [IPV6]:PORT")
        if ":" in host and not bracketed:
            raise InputError(f"--metrics {address}: an IPv6 address has brackets; write --metrics [::1]:9400")
        host = host[1:-1] if bracketed else host

        class Listener(ThreadingHTTPServer):
            address_family = socket.AF_INET6 if bracketed else socket.AF_INET
            request_queue_size = 128  # with the usual 5, callers that come together try again after a second
            room = threading.BoundedSemaphore(_MOST)

            def process_request(self, request: Any, client_address: Any) -> None:
                if self.room.acquire(blocking=False):
                    super().process_request(request, client_address)
                else:  # files and threads of this process are for scheduling
                    self.shutdown_request(request)

            def process_request_thread(self, request: Any, client_address: Any) -> None:
                try:
                    super().process_request_thread(request, client_address)
                finally:
                    self.room.release()

            def handle_error(self, request: Any, client_address: Any) -> None:
                """A caller that hangs up is nobody's concern."""

        class Handler(MetricsHandler):
            registry = metrics.registry
            timeout = _PATIENCE_S

        try:
            self._server = Listener((host or "127.0.0.1", int(port)), Handler)
        except OSError as error:
            raise InputError(f"--metrics {address}: {error.strerror}; choose another address or port") from None
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, name="metrics", daemon=True)
        self._thread.start()

    @property
    def port(self) -> int:
        """Where it listens."""
        return int(self._server.server_address[1])

    def close(self) -> None:
        """Stop listening."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
