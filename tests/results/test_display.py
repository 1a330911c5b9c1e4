import pytest

from weft.results.display import MISSING, amount, count, duration, number, percent, time_unit


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (None, MISSING), (0.0, "0 s"), (2.5e-5, "25.0 µs"), (0.0123, "12.3 ms"), (0.9999, "1,000 ms"), (1.0, "1.00 s"),
        (59.94, "59.9 s"), (299.0, "299 s"), (300.0, "5.00 min"), (7200.0, "120 min"), (10800.0, "3.00 h"),
        (345600.0, "4.00 d"), (1e9, "11,574 d"),
    ],
)  # fmt: skip
def test_duration(value: float | None, words: str) -> None:
    assert duration(value) == words


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (0.0, "0"), (0.001234, "0.0012"), (0.1234, "0.123"), (0.99949, "0.999"), (0.9996, "1.00"), (9.994, "9.99"),
        (9.996, "10.0"), (99.94, "99.9"), (99.96, "100"), (1234.5, "1,234"), (-12.34, "-12.3"), (float("nan"), MISSING),
    ],
)  # fmt: skip
def test_number_has_three_significant_digits(value: float, words: str) -> None:
    assert number(value) == words


def test_values_that_are_compared_share_the_unit_of_the_largest() -> None:
    unit = time_unit([0.5, None, 600.0])
    assert (unit.name, unit.of(30.0), unit.of(None)) == ("min", "0.500", MISSING)


def test_percent_count_and_amount() -> None:
    assert (percent(0.1234), percent(None)) == ("12.3 %", MISSING)
    assert (count(1234567), count(None)) == ("1,234,567", MISSING)
    assert (amount(999.0), amount(1.5e9), amount(2e15), amount(None)) == ("999 B", "1.50 GB", "2.00 PB", MISSING)
