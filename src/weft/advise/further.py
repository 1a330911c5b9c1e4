"""Further windows: the race goes on until its interval decides, or time or the log ends it undecided.

The interval is looked at after every batch, which makes a decision by chance a little more likely than the 5 % of a
single look.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from weft.advise.race import Race, race
from weft.advise.verdict import Advice


def go_on(
    advice: Advice,
    batch: int,
    minutes: float,
    elapsed_s: Callable[[], float],
    workers: int | None,
    say: Callable[[int, int], None],
) -> Advice:
    """The advice after as many further windows as it takes to decide. A batch begins only while there is time, and
    while a window still fits beside the others: the interval would not count it."""
    while not advice.decided and advice.has_room and (now_s := elapsed_s()) < 60 * minutes:
        say(int(now_s), int(60 * minutes))
        advice = _batch(advice, min(batch, advice.drawn.side_by_side - len(advice.drawn.spans)), workers)
    return replace(advice, further=_ending(advice, minutes))


def _batch(advice: Advice, n: int, workers: int | None) -> Advice:
    drawn, site, found = advice.drawn.longer(n), advice.site, advice.race
    places = drawn.in_turn(site)[-n:]
    drawn.fit(site, advice.reference.stack, places, workers, _quiet)
    every = [drawn.under(site, place) for place in places]
    more = race(list(found.entrants), found.refused, (n,), every, workers, _quiet, drawn.side_by_side)
    return replace(advice, drawn=drawn, race=Race(more.entrants, found.replicates + more.replicates, found.refused))


def _ending(advice: Advice, minutes: float) -> str:
    if (rival := advice.rival) is None:
        return ""
    n, of = len(advice.race.replicates), f"{rival.stack} over {advice.reference.stack}"
    if advice.decided:
        return f"Decided: after {n} windows the interval of {of} lies on one side of 1, or within 2 % of it."
    if advice.has_room:
        return (
            f"Not decided in {minutes:g} min: after {n} windows the interval of {of} still contains 1; more --minutes "
            "go on from here."
        )
    fit = advice.drawn.side_by_side
    return (
        f"Not decided, and further windows cannot decide: {fit} window{'s' * (fit > 1)} side by side fill the log, and "
        f"the interval of {of} contains 1; a longer log may decide."
    )


def _quiet(done: int, total: int) -> None:
    """Batches are short, and their number is not known: progress is that of the time."""
