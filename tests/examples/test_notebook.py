"""The notebook runs from its first cell to its last, in a kernel of Jupyter."""

from pathlib import Path
from typing import Any

import pytest

from testkit.engines import missing_engine

NOTEBOOK = Path(__file__).resolve().parents[2] / "examples" / "notebook.ipynb"


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """What each code cell shows, by kind."""
    try:
        import nbformat
        from nbclient import NotebookClient
    except ImportError:
        missing_engine("Jupyter (make dev)")
    notebook = nbformat.read(NOTEBOOK, 4)
    nbformat.validate(notebook)
    where = {"metadata": {"path": str(tmp_path_factory.mktemp("notebook"))}}
    NotebookClient(notebook, timeout=900, kernel_name="python3", resources=where).execute()
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    return [
        {kind: data for output in cell.outputs for kind, data in {**output.get("data", {}), **output}.items()}
        for cell in cells
    ]


def test_every_cell_shows_what_it_says(shown: list[dict[str, Any]]) -> None:
    _, both, plot, own, swept, latex = shown
    assert all(found["text/html"].count("<table") for found in (both, own, swept))
    assert "fifo" in both["text/html"]
    assert "RoomiestRack" in own["text/html"]
    assert len(plot["image/png"]) > 10_000
    assert latex["text"].count(r"\begin{tabular}") == 1


def test_it_is_kept_without_results() -> None:
    """What a run shows differs from machine to machine; who opens it runs it."""
    text = NOTEBOOK.read_text(encoding="utf-8")
    assert '"outputs": []' in text
    assert text.count('"execution_count": null') == text.count('"outputs": []') == 6
