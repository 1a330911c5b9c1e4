"""Ada-SRSF (Wang, Shi, Wang and Chu 2020): Tables IV and V, Figures 4 to 6.

The readings are those of docs/papers/ada-srsf.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from weft_evidence.ada_srsf import alone
from weft_evidence.checks import Check, compared, equal, headed, order, saving, test, times, value
from weft_evidence.claims import Measured, Picture, Reproduction, Request, Runs, published
from weft_evidence.rows import read

TITLE = "Communication contention aware scheduling of multiple deep learning training jobs (2020)"

PAPER = "ada-srsf"
# Every claim is checked with GPUs of 16 GB and without a limit of GPU memory: prefix of the claims, scenario, words
MEMORY = (("16gb", "ada-srsf-16gb", "16 GB"), ("no-limit", "ada-srsf-no-limit", "no memory limit"))
ADA = "ada-srsf"
SEEDS, QUICK_SEEDS = 10, 5

PUBLISHED, RELEASED = published("ada_srsf"), published("ada_srsf", "released.toml")
STACKS = {
    "RAND": "ada-srsf[place=random:shared]", "FF": "ada-srsf[place=first-fit:shared]", "LS": "ada-srsf[place=ls]",
    "LWF-1": ADA, "SRSF(1)": "srsf-1", "SRSF(2)": "srsf-2", "SRSF(3)": "srsf-3", "Ada-SRSF": ADA,
}  # fmt: skip
Row = tuple[str, float, float, float, float]
# Method in the paper: stack here, then GPU utilisation (%), mean, median and 95th percentile of JCT (s)
TABLE_IV: dict[str, Row] = {name: (STACKS[name], *row) for name, row in PUBLISHED["table-iv"].items()}
TABLE_V: dict[str, Row] = {name: (STACKS[name], *row) for name, row in PUBLISHED["table-v"].items()}
TABLE_V["Ada-SRSF"] = TABLE_IV["LWF-1"]  # the same runs
KAPPAS = {1: ADA, **{k: f"ada-srsf[place=lwf:{k}]" for k in (2, 4, 8, 16)}}
COLUMNS = (
    ("gpu-utilisation", "gpu_utilisation", "average GPU utilisation", "%", 100.0),
    ("jct-mean", "jct_mean_s", "average JCT", "s", 1.0),
    ("jct-median", "jct_median_s", "median JCT", "s", 1.0),
    ("jct-p95", "jct_p95_s", "95th percentile of JCT", "s", 1.0),
)

NOTES = (
    "The paper's 160 jobs were never published; ours are drawn anew for each seed from the same recipe.",
    "The published simulator lets a running all-reduce advance whenever it is asked how much of it is left, which "
    "creates bandwidth; ours conserves every byte.",
    "GPU utilisation here is GPU seconds computed over GPUs x makespan; the paper does not define its own.",
)


def _table(name: str, rows: dict[str, Row]) -> dict[str, Check]:
    """The numbers of a table, one claim each."""
    return {
        f"{name}.{_slug(method)}.{short}": value(f"{method}: {words}", number, unit, stack, metric, factor)
        for method, (stack, *published) in rows.items()
        for (short, metric, words, unit, factor), number in zip(COLUMNS, published, strict=True)
    }


def _kappa() -> Check:
    """The kappa with the least average JCT. Beside it, as an interval, all that chance alone may separate from it."""

    def measure(runs: Runs) -> Measured:
        jct = {kappa: runs.values(stack, "jct_mean_s") for kappa, stack in KAPPAS.items()}
        best = min(KAPPAS, key=lambda kappa: runs.metric(KAPPAS[kappa], "jct_mean_s").value or 0.0)
        level = [float(kappa) for kappa in KAPPAS if kappa == best or compared(jct[kappa], jct[best])[1] <= 0]
        return Measured(float(best), (min(level), max(level)))

    return Check(
        "Figure 5: kappa with the least average JCT, of 1, 2, 4, 8, 16", 1.0, "kappa", tuple(KAPPAS.values()), measure,
        equal, slow=True,
    )  # fmt: skip


def _slug(method: str) -> str:
    return method.lower().replace("(", "-").replace(")", "")


def _jct(table: dict[str, Row], method: str) -> float:
    return table[method][2]


_TABLES: dict[str, Check] = {
    **_table("table-iv", TABLE_IV),
    **{
        f"table-iv.saving-over-{name.lower()}": saving(
            f"LWF-1 saves average JCT over {name}", published, ADA, TABLE_IV[name][0]
        )
        for name, published in PUBLISHED["saving"].items()
        if name in TABLE_IV
    },
    **{
        f"table-iv.utilisation-over-{name.lower()}": times(
            f"LWF-1's GPU utilisation over {name}'s", published, ADA, TABLE_IV[name][0], "gpu_utilisation"
        )
        for name, published in PUBLISHED["utilisation"].items()
        if name in TABLE_IV
    },
    "table-iv.ls-over-ff": times(
        "LS's average JCT over FF's", _jct(TABLE_IV, "LS") / _jct(TABLE_IV, "FF"), TABLE_IV["LS"][0],
        TABLE_IV["FF"][0], "jct_mean_s",
    ),
    "table-iv.rand-over-ls": times(
        "RAND's average JCT over LS's", _jct(TABLE_IV, "RAND") / _jct(TABLE_IV, "LS"), TABLE_IV["RAND"][0],
        TABLE_IV["LS"][0], "jct_mean_s",
    ),
    "table-iv.order": order(
        "LWF-1 < FF < LS < RAND by average JCT: pairs in this order",
        tuple(TABLE_IV[name][0] for name in ("LWF-1", "FF", "LS", "RAND")),
    ),
    **{k: v for k, v in _table("table-v", TABLE_V).items() if ".ada-srsf." not in k},
    "table-v.saving-over-srsf-1": saving(
        "Ada-SRSF saves average JCT over SRSF(1)", PUBLISHED["saving"]["SRSF(1)"], ADA, "srsf-1"
    ),
    "table-v.saving-over-srsf-2": saving(
        "Ada-SRSF saves average JCT over SRSF(2)", PUBLISHED["saving"]["SRSF(2)"], ADA, "srsf-2"
    ),
    "table-v.saving-over-srsf-3": saving(
        "Ada-SRSF saves average JCT over SRSF(3)",
        100 * (1 - _jct(TABLE_V, "Ada-SRSF") / _jct(TABLE_V, "SRSF(3)")), ADA, "srsf-3",
    ),
    "table-v.p95-over-ada": times(
        "SRSF(1)'s 95th percentile of JCT over Ada-SRSF's", PUBLISHED["p95"]["SRSF(1)"], "srsf-1", ADA, "jct_p95_s"
    ),
    "table-v.utilisation-over-srsf-1": times(
        "Ada-SRSF's GPU utilisation over SRSF(1)'s", PUBLISHED["utilisation"]["SRSF(1)"], ADA, "srsf-1",
        "gpu_utilisation",
    ),
    "table-v.srsf-2-over-srsf-1": times(
        "SRSF(2)'s average JCT over SRSF(1)'s", _jct(TABLE_V, "SRSF(2)") / _jct(TABLE_V, "SRSF(1)"), "srsf-2", "srsf-1",
        "jct_mean_s",
    ),
    "table-v.srsf-3-over-srsf-2": times(
        "SRSF(3)'s average JCT over SRSF(2)'s", _jct(TABLE_V, "SRSF(3)") / _jct(TABLE_V, "SRSF(2)"), "srsf-3", "srsf-2",
        "jct_mean_s",
    ),
    "table-v.order": order(
        "Ada-SRSF < SRSF(1) < SRSF(2) < SRSF(3) by average JCT: pairs in this order",
        (ADA, "srsf-1", "srsf-2", "srsf-3"),
    ),
    "figure-5.best-kappa": _kappa(),
}  # fmt: skip


def _released() -> dict[str, tuple[float, float]]:
    """By claim with 32 GB, what the authors' simulator gives: as released, and repaired."""
    told = {
        f"table-{'iv' if method in TABLE_IV else 'v'}.{_slug(method)}.{column[0]}": (pair[0], pair[1])
        for method, rows in RELEASED["rows"].items()
        for column, *pair in zip(COLUMNS, *rows, strict=True)
    }
    return told | _pairs("compared")


def _pairs(memory: str) -> dict[str, tuple[float, float]]:
    return {name: (pair[0], pair[1]) for name, pair in RELEASED[memory].items()}


def _again(prefix: str, scenario: str, words: str) -> dict[str, Check]:
    """The claims of the tables with another limit of memory."""
    told, starts = _pairs(prefix), ("table-v.", "table-iv." if prefix == "16gb" else "table-iv.lwf-1.")
    return {
        f"{prefix}.{name}": replace(
            check, what=f"{words}: {check.what}", scenario=scenario, slow=True, released=told.get(name)
        )
        for name, check in _TABLES.items()
        if name.startswith(starts)
    }


def _named(method: str) -> str:
    """The stack of a method of the paper, or of LWF with any kappa."""
    kappas = {f"LWF-{kappa}": stack for kappa, stack in {**KAPPAS, 0: f"{ADA}[place=lwf:0]"}.items()}
    return (STACKS | kappas)[method]


CLAIMS: dict[str, Check] = headed(
    PAPER,
    {
        **{name: replace(check, released=_released().get(name)) for name, check in _TABLES.items()},
        **{name: check for memory in MEMORY for name, check in _again(*memory).items()},
        **read(__package__, _named),
        **alone.checks(),
    },
)


def reproduce(request: Request) -> Reproduction:
    """Tables IV and V, Figures 4 to 6."""
    claims, runs, notes = test(PAPER, CLAIMS, request, SEEDS, QUICK_SEEDS)
    pictures = tuple(picture for scenario, found in runs.items() for picture in _pictures(scenario, found))
    orders = [line for scenario, found in runs.items() for line in _orders(scenario, found)]
    return Reproduction(PAPER, claims, (*orders, *NOTES, *notes), pictures)


def _orders(scenario: str, runs: Runs) -> list[str]:
    """Methods by their mean JCT here and in the paper, for each table that was run."""
    lines = []
    for title, rows in (("Table IV", TABLE_IV), ("Table V", TABLE_V)):
        if all(row[0] in runs.by_stack for row in rows.values()):
            here = {name: runs.metric(row[0], "jct_mean_s").value or 0.0 for name, row in rows.items()}
            published = {name: row[2] for name, row in rows.items()}
            where = f"{title}{_memory(scenario)}"
            lines.append(f"{where}, average JCT here: {_ranked(here)}; published: {_ranked(published)}.")
    return lines


def _ranked(values: Mapping[str, float]) -> str:
    return " < ".join(f"{name} {values[name]:,.0f} s" for name in sorted(values, key=lambda name: values[name]))


def _memory(scenario: str) -> str:
    return next((f", {words}" for _, name, words in MEMORY if name == scenario), "")


def _pictures(scenario: str, runs: Runs) -> list[Picture]:
    """Figures 4 to 6, as far as their stacks were run."""
    from weft_evidence.report import figure_row

    groups = {
        "Figure 4: placement, under Ada-SRSF": {name: row[0] for name, row in TABLE_IV.items()},
        "Figure 5: kappa of LWF, under Ada-SRSF": {f"kappa = {k}": stack for k, stack in KAPPAS.items()},
        "Figure 6: communication, under LWF-1": {name: row[0] for name, row in TABLE_V.items()},
    }
    return [
        Picture(
            f"{title}{_memory(scenario)}: job completion times, busy share of each GPU, "
            "and mean JCT with its 95 % interval",
            lambda stacks=stacks: figure_row({name: runs.by_stack[stack] for name, stack in stacks.items()}),  # type: ignore[misc]
        )
        for title, stacks in groups.items()
        if all(stack in runs.by_stack for stack in stacks.values())
    ]
