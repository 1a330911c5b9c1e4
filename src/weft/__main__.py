"""`python -m weft` is the `weft` command."""

from __future__ import annotations

from weft.cli.main import main

if __name__ == "__main__":
    main()
