"""Ada-SRSF (Wang, Shi, Wang and Chu 2020): Tables IV and V, Figures 4 to 6.

The readings are those of docs/papers/ada-srsf.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from weft_evidence.ada_srsf import alone
from weft_evidence.checks import Check, compared, equal, headed, order, saving, test, times, value
from weft_evidence.claims import Measured, Picture, Reproduction, Request, Runs
from weft_evidence.rows import read

TITLE = "Communication contention aware scheduling of multiple deep learning training jobs (2020)"

PAPER = "ada-srsf"
# Every claim is checked with GPUs of 16 GB and without a limit of GPU memory: prefix of the claims, scenario, words
MEMORY = (("16gb", "ada-srsf-16gb", "16 GB"), ("no-limit", "ada-srsf-no-limit", "no memory limit"))
ADA = "ada-srsf"
SEEDS, QUICK_SEEDS = 10, 5

# Method in the paper: stack here, then GPU utilisation (%), mean, median and 95th percentile of JCT (s)
TABLE_IV = {
    "RAND": ("ada-srsf[place=random:shared]", 19.52, 2881.6, 680.3, 8910.9),
    "FF": ("ada-srsf[place=first-fit:shared]", 26.76, 1921.1, 766.1, 6224.6),
    "LS": ("ada-srsf[place=ls]", 25.14, 2282.41, 749.9, 7224.9),
    "LWF-1": (ADA, 42.78, 1098.57, 487.2, 4024.0),
}
TABLE_V = {
    "SRSF(1)": ("srsf-1", 30.65, 1374.84, 459.0, 6283.1),
    "SRSF(2)": ("srsf-2", 25.95, 1734.74, 477.0, 7658.6),
    "SRSF(3)": ("srsf-3", 25.14, 1750.9, 520.7, 7578.7),
    "Ada-SRSF": TABLE_IV["LWF-1"],  # the same runs
}
KAPPAS = {1: ADA, **{k: f"ada-srsf[place=lwf:{k}]" for k in (2, 4, 8, 16)}}
# The same columns by the authors' simulator, means over draws of the jobs (docs/papers/ada-srsf.md): as released, and
# repaired so that asking how much of an all-reduce is left changes nothing. Under SRSF(n) nobody asks.
RELEASED = {
    "RAND": ((20.7, 2652.0, 647.0, 9102.0), (7.1, 6324.0, 753.0, 27784.0)),
    "FF": ((30.4, 1804.0, 802.0, 5863.0), (14.8, 3113.0, 854.0, 12654.0)),
    "LS": ((24.7, 2081.0, 619.0, 7186.0), (9.6, 4411.0, 668.0, 19277.0)),
    "LWF-1": ((41.0, 1167.0, 501.0, 4188.0), (24.7, 1656.0, 504.0, 7150.0)),
    "SRSF(1)": ((26.5, 1620.0, 503.0, 6887.0),) * 2,
    "SRSF(2)": ((25.8, 1733.0, 501.0, 7480.0),) * 2,
    "SRSF(3)": ((25.6, 1801.0, 503.0, 7863.0),) * 2,
}
# Two methods compared, by the same simulator: the mean over draws of the ratio on the same jobs (60 draws for Table IV,
# 100 for Table V), and the pairs of methods whose mean JCTs are in the published order.
RELEASED_COMPARED = {
    "table-iv.saving-over-rand": (56.4, 74.5),
    "table-iv.saving-over-ff": (36.1, 47.9),
    "table-iv.saving-over-ls": (44.5, 63.3),
    "table-iv.utilisation-over-rand": (2.02, 3.54),
    "table-iv.utilisation-over-ff": (1.37, 1.71),
    "table-iv.utilisation-over-ls": (1.69, 2.62),
    "table-iv.ls-over-ff": (1.16, 1.42),
    "table-iv.rand-over-ls": (1.28, 1.44),
    "table-iv.order": (6.0, 6.0),
    "table-v.saving-over-srsf-1": (27.3, -2.5),
    "table-v.saving-over-srsf-2": (32.1, 4.1),
    "table-v.saving-over-srsf-3": (34.7, 7.8),
    "table-v.p95-over-ada": (1.64, 0.97),
    "table-v.utilisation-over-srsf-1": (1.57, 0.94),
    "table-v.srsf-2-over-srsf-1": (1.07, 1.07),
    "table-v.srsf-3-over-srsf-2": (1.04, 1.04),
    "table-v.order": (6.0, 5.0),
}
# The same with other limits of memory, 60 draws each; under SRSF(n) both are the same.
RELEASED_16GB = {
    "table-iv.rand.gpu-utilisation": (20.7, 7.1), "table-iv.rand.jct-mean": (2581.0, 6335.0),
    "table-iv.rand.jct-median": (681.0, 882.0), "table-iv.rand.jct-p95": (9003.0, 27691.0),
    "table-iv.ff.gpu-utilisation": (29.9, 13.1), "table-iv.ff.jct-mean": (1676.0, 3287.0),
    "table-iv.ff.jct-p95": (5698.0, 13804.0),
    "table-iv.ls.gpu-utilisation": (26.1, 10.1), "table-iv.ls.jct-mean": (1859.0, 4087.0),
    "table-iv.ls.jct-median": (572.0, 660.0), "table-iv.ls.jct-p95": (6548.0, 17588.0),
    "table-iv.lwf-1.gpu-utilisation": (33.8, 15.6), "table-iv.lwf-1.jct-mean": (1341.0, 2442.0),
    "table-iv.lwf-1.jct-p95": (4751.0, 10945.0),
    "table-v.srsf-1.jct-mean": (2346.0,) * 2, "table-v.srsf-2.jct-mean": (2466.0,) * 2,
    "table-v.srsf-3.jct-mean": (2545.0,) * 2, "table-v.srsf-3.jct-median": (508.0,) * 2,
    "table-v.saving-over-srsf-1": (42.0, -4.0), "table-v.saving-over-srsf-2": (45.0, 1.0),
    "table-v.saving-over-srsf-3": (47.0, 4.0), "table-v.p95-over-ada": (2.16, 0.94),
    "table-v.utilisation-over-srsf-1": (1.98, 0.91), "table-v.srsf-2-over-srsf-1": (1.06,) * 2,
    "table-v.srsf-3-over-srsf-2": (1.03,) * 2,
}  # fmt: skip
RELEASED_NO_LIMIT = {
    "table-iv.lwf-1.gpu-utilisation": (45.8, 31.3), "table-iv.lwf-1.jct-mean": (1041.0, 1322.0),
    "table-iv.lwf-1.jct-median": (456.0, 456.0), "table-iv.lwf-1.jct-p95": (3922.0, 5871.0),
    "table-v.srsf-1.gpu-utilisation": (32.7,) * 2, "table-v.srsf-1.jct-mean": (1316.0,) * 2,
    "table-v.srsf-1.jct-median": (452.0,) * 2, "table-v.srsf-1.jct-p95": (5751.0,) * 2,
    "table-v.srsf-2.gpu-utilisation": (31.8,) * 2, "table-v.srsf-2.jct-mean": (1406.0,) * 2,
    "table-v.srsf-2.jct-median": (454.0,) * 2, "table-v.srsf-2.jct-p95": (6275.0,) * 2,
    "table-v.srsf-3.gpu-utilisation": (31.4,) * 2, "table-v.srsf-3.jct-mean": (1454.0,) * 2,
    "table-v.srsf-3.jct-median": (459.0,) * 2, "table-v.srsf-3.jct-p95": (6511.0,) * 2,
    "table-v.saving-over-srsf-1": (20.5, -0.6), "table-v.saving-over-srsf-2": (25.5, 5.8),
    "table-v.saving-over-srsf-3": (28.0, 8.9), "table-v.p95-over-ada": (1.47, 0.98),
    "table-v.utilisation-over-srsf-1": (1.41, 0.96), "table-v.srsf-2-over-srsf-1": (1.07,) * 2,
    "table-v.srsf-3-over-srsf-2": (1.03,) * 2, "table-v.order": (6.0, 5.0),
}  # fmt: skip
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


def _table(name: str, rows: dict[str, tuple[str, float, float, float, float]]) -> dict[str, Check]:
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


def _jct(table: dict[str, tuple[str, float, float, float, float]], method: str) -> float:
    return table[method][2]


CLAIMS: dict[str, Check] = {
    **_table("table-iv", TABLE_IV),
    **{
        f"table-iv.saving-over-{name.lower()}": saving(
            f"LWF-1 saves average JCT over {name}", published, ADA, TABLE_IV[name][0]
        )
        for name, published in (("RAND", 61.9), ("FF", 42.8), ("LS", 51.9))
    },
    **{
        f"table-iv.utilisation-over-{name.lower()}": times(
            f"LWF-1's GPU utilisation over {name}'s", published, ADA, TABLE_IV[name][0], "gpu_utilisation"
        )
        for name, published in (("RAND", 2.19), ("FF", 1.59), ("LS", 1.7))
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
    "table-v.saving-over-srsf-1": saving("Ada-SRSF saves average JCT over SRSF(1)", 20.1, ADA, "srsf-1"),
    "table-v.saving-over-srsf-2": saving("Ada-SRSF saves average JCT over SRSF(2)", 36.7, ADA, "srsf-2"),
    "table-v.saving-over-srsf-3": saving(
        "Ada-SRSF saves average JCT over SRSF(3)",
        100 * (1 - _jct(TABLE_V, "Ada-SRSF") / _jct(TABLE_V, "SRSF(3)")), ADA, "srsf-3",
    ),
    "table-v.p95-over-ada": times(
        "SRSF(1)'s 95th percentile of JCT over Ada-SRSF's", 1.56, "srsf-1", ADA, "jct_p95_s"
    ),
    "table-v.utilisation-over-srsf-1": times(
        "Ada-SRSF's GPU utilisation over SRSF(1)'s", 1.396, ADA, "srsf-1", "gpu_utilisation"
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

for _method, _rows in RELEASED.items():
    for _column, *_pair in zip(COLUMNS, *_rows, strict=True):
        _name = f"table-{'iv' if _method in TABLE_IV else 'v'}.{_slug(_method)}.{_column[0]}"
        CLAIMS[_name] = replace(CLAIMS[_name], released=(_pair[0], _pair[1]))
CLAIMS |= {name: replace(CLAIMS[name], released=told) for name, told in RELEASED_COMPARED.items()}
CLAIMS |= {
    f"{prefix}.{name}": replace(
        check, what=f"{words}: {check.what}", scenario=scenario, slow=True, released=told.get(name)
    )
    for (prefix, scenario, words), told in zip(MEMORY, (RELEASED_16GB, RELEASED_NO_LIMIT), strict=True)
    for name, check in CLAIMS.items()
    if name.startswith(("table-v.", "table-iv." if prefix == "16gb" else "table-iv.lwf-1."))
}
_NAMED = {name: row[0] for name, row in {**TABLE_IV, **TABLE_V}.items()}
_NAMED |= {f"LWF-{kappa}": stack for kappa, stack in {**KAPPAS, 0: f"{ADA}[place=lwf:0]"}.items()}
CLAIMS |= read(__package__, _NAMED.__getitem__)
CLAIMS |= alone.checks()
CLAIMS = headed(PAPER, CLAIMS)


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
