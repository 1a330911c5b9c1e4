from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from weft.errors import InputError
from weft.results.pictures.iteration import Block, IterationPicture, Rate, draw_iteration, iteration_figure
from weft.results.pictures.style import save_picture


def _picture() -> IterationPicture:
    """1 s: forward 0.25, backward 0.25, then half a second of sending at half speed."""
    blocks = (Block("workers 0-1", "forward", 0.0, 0.25), Block("workers 0-1", "backward", 0.25, 0.5))
    sends = (Rate(0.5, 1.0, 25.0),)
    return IterationPicture("a job", 1.0, 50.0, 0, blocks, sends, sends)


def _text(picture: IterationPicture) -> list[str]:
    buffer = StringIO()
    Console(width=120, file=buffer).print(draw_iteration(picture))
    return buffer.getvalue().splitlines()


def test_lanes_and_traffic_share_one_time_axis() -> None:
    lines = _text(_picture())
    lane = next(line for line in lines if line.startswith("workers 0-1 "))[12:84]
    sends = next(line for line in lines if line.lstrip().startswith("sends "))[12:84]
    assert lane == "█" * 36 + "─" * 36
    assert sends == "─" * 36 + "▄" * 36  # half of the NIC
    assert any("circle of 1" in line and "Down" in line for line in lines)
    assert any("Up 1:" in line and "180° to 360°" in line for line in lines)


def test_the_lower_half_of_the_circle_is_up() -> None:
    """Angles run counter-clockwise from the right, so the second half of the iteration is the lower half."""
    rows = [line[:38] for line in _text(_picture())]
    circle = [row for row in rows if row.strip() and not row.strip(" ·█")]
    assert len(circle) == 17
    assert all("█" not in row for row in circle[:8])
    assert all("·" not in row for row in circle[-8:])


def test_a_job_that_sends_nothing_is_all_down() -> None:
    blocks = (Block("worker 0", "forward", 0.0, 1.0),)
    picture = IterationPicture("alone", 1.0, 50.0, 0, blocks, (), ())
    assert picture.up_s == 0
    assert any("Down 1" in line and "(360°)" in line for line in _text(picture))


def test_many_phases_are_cut_short_in_words() -> None:
    sends = tuple(Rate(i / 40, (i + 0.5) / 40, 50.0) for i in range(40))
    picture = IterationPicture("busy", 1.0, 50.0, 0, (), sends, sends)
    assert any("more" in line for line in _text(picture))


def test_the_file_is_the_same_every_time(tmp_path: Path) -> None:
    first, second = tmp_path / "a.svg", tmp_path / "b.svg"
    save_picture(iteration_figure(_picture()), first)
    save_picture(iteration_figure(_picture()), second)
    assert first.read_bytes() == second.read_bytes()
    assert "a job" in first.read_text()


def test_the_figure_has_lanes_traffic_and_a_circle() -> None:
    figure = iteration_figure(_picture())
    assert len(figure.axes) == 3
    assert figure.axes[2].name == "polar"


def test_a_path_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="must end in"):
        save_picture(iteration_figure(_picture()), tmp_path / "a.txt")
    with pytest.raises(InputError, match="can be written"):
        save_picture(iteration_figure(_picture()), tmp_path / "none" / "a.svg")
