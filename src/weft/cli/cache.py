"""`weft cache`: results that are kept between commands."""

from __future__ import annotations

from typing import Annotated

import typer

from weft.cli.common import JsonOption, notice, print_json


def cache(
    clear: Annotated[bool, typer.Option("--clear", help="Remove all kept results.")] = False, json: JsonOption = False
) -> None:
    """Show where the results of finished runs are kept, and how much room they take.

    weft compare, weft reproduce and weft advise keep every run that has finished, and do not run it again while the
    scenario, the files that it names, the stack, the seed and the sources of weft stay the same. Results lie in
    ~/.cache/weft/results (WEFT_CACHE_DIR or XDG_CACHE_HOME replaces ~/.cache). They take at most 2000 MB
    (WEFT_RESULTS_MB sets another limit; 0 keeps nothing); beyond that, the least recently used results are removed.

    Example: weft cache --clear
    """
    from weft.results.store import Store, results_folder, results_limit

    store = Store(results_folder(), results_limit())
    if clear:
        store.clear()
    count, size = store.size()
    if json:
        print_json(
            {"folder": str(store.folder), "results": count, "bytes": size, "most_bytes": store.most_bytes}
        )  # fmt: skip
        return
    if clear:
        notice(f"cleared {store.folder}")
        return
    print(f"{store.folder}: {count} results, {size / 1e6:.1f} of at most {store.most_bytes / 1e6:,.0f} MB")
