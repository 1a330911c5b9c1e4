"""The benchmarks as asv keeps them (`make bench`). Less is better in all of them, so a speed is kept as microseconds
for one. WEFT_BENCH_QUICK=1 takes the small sizes."""

from __future__ import annotations

import math
import os
import sys

from benchmarks import load

Figures = dict[str, float]


def figures(name: str) -> Figures:
    """What a benchmark measures, once for all of its figures."""
    found = load(name)(bool(os.environ.get("WEFT_BENCH_QUICK")), lambda text: print(text, file=sys.stderr))
    return {key: kept(key, value) for key, value in found.items() if not isinstance(value, str)}


def kept(figure: str, value: float | None) -> float:
    """A figure as it is kept: what is not defined here is no number, and a speed is turned round."""
    if value is None:
        return math.nan
    return 1e6 / value if figure.endswith("_per_s") else float(value)


class _Tracked:
    param_names = ("figure",)
    timeout = 3600.0

    def track_figure(self, found: Figures, figure: str) -> float:
        """One of them; no number where what it needs is not there."""
        return found.get(figure, math.nan)


# asv runs each setup_cache, known by its line, once for all parameters of its class.
class AdaSrsf(_Tracked):
    params = (("ada-srsf_s", "iterations_per_s", "worker_tasks_per_s"),)

    def setup_cache(self) -> Figures:
        return figures("ada-srsf")


class Cassini(_Tracked):
    params = (("two_jobs_ms", "three_jobs_ms", "three_jobs_gap_max", "decision_cpu_s", "decision_near_cpu_s"),)

    def setup_cache(self) -> Figures:
        return figures("cassini")


class Dally(_Tracked):
    params = (("dally_cpu_s", "tiresias_cpu_s", "gandiva_cpu_s"),)

    def setup_cache(self) -> Figures:
        return figures("dally")


class Engine(_Tracked):
    params = (
        (
            "iterations_per_s", "flow_completions_per_s", "dense_events_per_s", "skip_cost_ratio", "skip_error_max",
            "estimate_cost_ratio", "estimate_error_mean", "estimate_error_p95", "cold_compile_s", "warm_start_s",
        ),
    )  # fmt: skip

    def setup_cache(self) -> Figures:
        return figures("engine")


class Flows(_Tracked):
    params = (("cpu_s", "decision_ms_median", "decision_ms_p90"),)

    def setup_cache(self) -> Figures:
        return figures("flows")


class Scale(_Tracked):
    params = (("cpu_s", "peak_mb"),)

    def setup_cache(self) -> Figures:
        return figures("scale")


class Titan(_Tracked):
    params = (("elasticflow_cpu_s", "elasticflow_peak_gb", "elasticflow_decision_p99_ms"),)

    def setup_cache(self) -> Figures:
        return figures("titan")


class Traces(_Tracked):
    params = (("elasticflow_raw_cpu_s", "elasticflow_sim_cpu_s", "helios_venus_cpu_s"),)

    def setup_cache(self) -> Figures:
        return figures("traces")
