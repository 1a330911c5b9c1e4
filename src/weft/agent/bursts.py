"""Bursts: the settings of TCP with which a paced sender sends small ones; else it sends 64 kB at once."""

from __future__ import annotations

from pathlib import Path

_WANTED = {"tcp_tso_rtt_log": "0", "tcp_min_tso_segs": "1"}  # the first is missing before Linux 5.18
_SETTINGS = Path("/proc/sys/net/ipv4")


def coarse(folder: Path = _SETTINGS) -> str:
    """What keeps this host from keeping to short slots, in words; "" if nothing does."""
    there = {key: value for key, value in _WANTED.items() if (folder / key).exists()}
    wrong = [f"net.ipv4.{key}={value}" for key, value in there.items() if (folder / key).read_text().strip() != value]
    words = "a paced sender sends bursts of 64 kB here, so short slots are not kept; sysctl "
    return words + " ".join(wrong) if wrong else ""


def refine(folder: Path = _SETTINGS) -> None:
    """Set them in this network namespace, as far as the kernel has them."""
    for key, value in _WANTED.items():
        if (folder / key).exists():
            (folder / key).write_text(value)
