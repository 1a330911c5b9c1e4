"""How many random cases tests draw: a quarter, or what WEFT_THOROUGH asks for."""

import os

__all__ = ["examples", "share", "thorough"]


def share() -> float:
    """The share of its cases that a test draws; WEFT_THOROUGH=10 asks for ten times as many of some."""
    return float(os.environ.get("WEFT_THOROUGH") or 0.25)


def thorough(n: int) -> int:
    """How many cases to draw, where WEFT_THOROUGH may ask for more or fewer."""
    return max(1, int(n * share()))


def examples(n: int) -> int:
    """How many cases to draw, where WEFT_THOROUGH, whatever it says, asks for all of them."""
    return n if "WEFT_THOROUGH" in os.environ else max(1, int(n * share()))
