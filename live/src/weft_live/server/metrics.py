"""Metrics of a live run in Prometheus' text format, and the small server that hands them out on request."""

from __future__ import annotations

import socket
import threading
from bisect import bisect_left
from collections.abc import Callable, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from weft.core.table import Table
from weft.errors import InputError
from weft.model.events import Event, Failed, Finished, Started, Stopped, Withdrawn
from weft.model.plan import Decision, Start, Stop
from weft.model.view import JobStatus

_MOST = 8  # callers at a time; more are turned away
_PATIENCE_S = 2.0  # seconds that a caller may say nothing
_DECISION_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0)
_WAIT_S = (0.1, 1.0, 10.0, 60.0, 300.0, 1800.0, 3600.0, 14400.0, 86400.0)


class _Histogram:
    def __init__(self, name: str, what: str, bounds: tuple[float, ...]) -> None:
        self.name, self.what, self.bounds = name, what, bounds
        self.counts = [0] * (len(bounds) + 1)
        self.sum = 0.0

    def add(self, value: float) -> None:
        self.counts[bisect_left(self.bounds, value)] += 1
        self.sum += value

    def lines(self) -> list[str]:
        total, lines = 0, [f"# HELP {self.name} {self.what}", f"# TYPE {self.name} histogram"]
        for bound, count in zip((*map(str, self.bounds), "+Inf"), self.counts, strict=True):
            total += count
            lines.append(f'{self.name}_bucket{{le="{bound}"}} {total}')
        return [*lines, f"{self.name}_sum {self.sum:.9g}", f"{self.name}_count {total}"]


class Metrics:
    """What is counted since this server started. Written by the loop, read as text by any thread."""

    def __init__(self, n_gpus: int, look_age_s: Callable[[], float] = lambda: 0.0) -> None:
        self.n_gpus, self._look_age_s = n_gpus, look_age_s
        self.decision = _Histogram("weft_decision_seconds", "From events to decisions on disk.", _DECISION_S)
        self.wait = _Histogram("weft_wait_seconds", "Waiting time before each start.", _WAIT_S)
        self.counts = dict.fromkeys(
            ("cycles", "starts", "preemptions", "failures", "finished", "withdrawn"), 0
        )  # each is weft_NAME_total
        self.text = ""

    def cycle(
        self, events: Sequence[Event], decisions: Sequence[Decision], seconds: float, now: float, table: Table
    ) -> None:
        """One cycle went by."""
        self.decision.add(seconds)
        self.counts["cycles"] += 1
        self.counts["preemptions"] += sum(isinstance(d, Stop) for d in decisions)
        for event in events:
            match event:
                case Started():
                    self.counts["starts"] += 1
                case Failed():
                    self.counts["failures"] += 1
                case Stopped() if not event.reason.startswith("stopped as asked"):
                    self.counts["failures"] += 1
                case Finished():
                    self.counts["finished"] += 1
                case Withdrawn():
                    self.counts["withdrawn"] += 1
        for decision in decisions:
            if isinstance(decision, Start) and decision.job in table.jobs:
                self.wait.add(now - table.jobs[decision.job].waiting_since_s)
        self.text = "\n".join(self._lines(table)) + "\n"

    def page(self) -> str:
        """What is handed out now."""
        age = "# HELP weft_look_age_seconds Since the cluster was last seen.\n# TYPE weft_look_age_seconds gauge\n"
        return f"{self.text}{age}weft_look_age_seconds {self._look_age_s():.3f}\n"

    def _lines(self, table: Table) -> list[str]:
        lines = [*self.decision.lines(), *self.wait.lines()]
        for name, value in self.counts.items():
            lines += [f"# TYPE weft_{name}_total counter", f"weft_{name}_total {value}"]
        by_status = dict.fromkeys((JobStatus.WAITING, JobStatus.STARTING, JobStatus.RUNNING, JobStatus.STOPPING), 0)
        for job in table.running.values():
            by_status[job.status] += 1
        by_status[JobStatus.WAITING] = len(table.jobs) - len(table.running)
        lines += ["# HELP weft_jobs Jobs that have not ended.", "# TYPE weft_jobs gauge"]
        lines += [f'weft_jobs{{status="{status.value}"}} {n}' for status, n in by_status.items()]
        busy = sum(len(gpus) for gpus in table.placements.values())
        lines += ["# TYPE weft_gpus gauge", f"weft_gpus {self.n_gpus}", "# TYPE weft_gpus_busy gauge"]
        return [*lines, f"weft_gpus_busy {busy}"]


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

        class Handler(BaseHTTPRequestHandler):
            timeout = _PATIENCE_S

            def do_GET(self) -> None:
                found = self.path == "/metrics"
                body = metrics.page().encode() if found else b"see /metrics\n"
                self.send_response(200 if found else 404)
                self.send_header("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                pass

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
