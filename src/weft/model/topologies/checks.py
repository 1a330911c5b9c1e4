"""Checks of the numbers a cluster is built from: each refusal names the field and the remedy."""

from __future__ import annotations

from math import isfinite

from weft.errors import ScenarioError

__all__ = ["MAX_SERVERS", "check_count", "check_not_negative", "check_positive", "check_total"]

MAX_SERVERS = 100_000  # more is a slip of the pen: the largest public clusters have a tenth of it


def check_count(field: str, value: object, least: int = 1) -> int:
    """A whole number of at least `least`, or a ScenarioError."""
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise ScenarioError(f"cluster.{field} is {value!r}; give a whole number of at least {least}")
    return value


def check_positive(field: str, value: object) -> float:
    """A number from 1e-9 to 1e9, so that a product of a few cannot overflow, or a ScenarioError."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 1e-9 <= value <= 1e9:
        raise ScenarioError(f"cluster.{field} is {value!r}; give a number above 0 (1e-9 to 1e9)")
    return float(value)


def check_not_negative(field: str, value: object) -> float:
    """A finite number of at least zero, or a ScenarioError."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not (value >= 0 and isfinite(value)):
        raise ScenarioError(f"cluster.{field} is {value!r}; give a number of at least 0")
    return float(value)


def check_total(servers: int, fields: str) -> None:
    """Refuse a cluster that is larger than anybody can have meant."""
    if servers > MAX_SERVERS:
        raise ScenarioError(f"cluster.{fields} make {servers} servers; give at most {MAX_SERVERS}")
