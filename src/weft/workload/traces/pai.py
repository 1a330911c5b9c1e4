"""Alibaba PAI 2020 (NSDI '22), the converted sample of tasks: the columns of the converted Helios file.

A row is a task (all workers of one role), its arrival is its start, shared GPUs are rounded up, and durations are cut
at 48 h; all four are the converter's doing.
"""

from __future__ import annotations

from weft.workload.traces.base import Delimited, Head
from weft.workload.traces.helios import CONVERTED, parse_converted

__all__ = ["FORMATS"]


def _is_pai(head: Head) -> bool:
    return len(head.lines) > 1 and head.lines[1].startswith("ali-")


FORMATS = (Delimited("pai", "Alibaba PAI 2020, sample of tasks", parse_converted, CONVERTED, tell=_is_pai),)
