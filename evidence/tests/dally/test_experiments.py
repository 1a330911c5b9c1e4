"""Table I with the authors' factors, as docs/papers/dally.md has it."""

from pathlib import Path

import pytest

from weft_evidence.dally.experiments import factors
from weft_evidence.dally.shapes import layer_files

PAGE = Path(__file__).parents[3] / "docs" / "papers" / "dally.md"


@pytest.mark.skipif(not layer_files(), reason="the authors' layer files are not under WEFT_TRACES")
def test_the_page_has_table_i_with_the_authors_factors() -> None:
    rows = [line.strip("| ").split(" | ") for line in factors().splitlines()[2:]]
    page = [line.strip("| ").split(" | ") for line in PAGE.read_text("utf-8").splitlines()]
    for _, *cells, near in rows:
        shares = [float(part.replace(",", "")) for cell in cells for part in cell.split(", ")]
        for told in page:
            try:
                theirs = [float(part.replace(",", "")) for cell in told[1:-1] for part in cell.split(", ")]
            except ValueError:
                continue
            if len(theirs) == len(shares) and told[-1] == near and theirs == pytest.approx(shares, rel=0.1, abs=0.6):
                break
        else:
            raise AssertionError(f"the page has no row {cells}")
