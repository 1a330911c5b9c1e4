"""`weft fit`: constants of the network models from measurements."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from weft.cli.common import JsonOption, notice, plain_table, print_json, stdout

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from weft_evidence.allreduce_fit import AllReduceFit

app = typer.Typer(
    help="Fit the constants of network models to measurements.",
    epilog="Example: weft fit allreduce results.csv",
    no_args_is_help=True,
)


@app.callback()
def _fit() -> None:
    """Fit the constants of network models to measurements."""


@app.command("allreduce")
def allreduce(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="CSV: job_num, msg_size (bytes), avg_latency (us).")],
    max_k: Annotated[
        int | None, typer.Option("--max-k", min=1, help="Leave out timings with more jobs at once than this.")
    ] = None,
    absolute: Annotated[bool, typer.Option("--absolute", help="Weigh seconds instead of relative errors.")] = False,
    plot: Annotated[Path | None, typer.Option("--plot", metavar="FILE.svg", help="Draw timings and fit.")] = None,
    json: JsonOption = False,
) -> None:
    """Fit a, b and eta of T = a + k b M + (k - 1) eta M, the time of an all-reduce while k of them share the nodes.

    The constants go into a scenario's [network] with sharing = "k-way".

    Example: weft fit allreduce results.csv --max-k 4 --plot fit.svg
    """
    from weft.errors import InputError
    from weft_evidence.allreduce_fit import fit_allreduce, read_allreduce

    samples = read_allreduce(file)
    try:
        fit = fit_allreduce(samples, max_k=max_k, weighted=not absolute)
    except InputError as error:
        raise InputError(f"{file}: {error}") from error
    if plot is not None:
        from weft.results.pictures.style import save_picture

        save_picture(_figure(fit), plot)
        notice(f"wrote {plot}")
    if json:
        print_json(_as_dict(file, fit))
        return
    _print(fit)


def _print(fit: AllReduceFit) -> None:
    table = plain_table("constant", "value", "95 % interval", "what it is", gap=3)
    rows = (
        ("a", fit.a_s, "a_s", "s", "latency of one all-reduce"),
        ("b", fit.b_s_per_byte, "b_s_per_byte", "s/B", "time per byte alone"),
        ("eta", fit.eta_s_per_byte, "eta_s_per_byte", "s/B", "time per byte for each further job, beyond its share"),
    )
    for symbol, value, key, unit, what in rows:
        if value is None:
            table.add_row(symbol, "-", "", "cannot be separated: all timings have the same number of jobs")
            continue
        interval = fit.ci95.get(key)
        bounds = f"{interval[0]:.3g} .. {interval[1]:.3g}" if interval else "held at 0" if value == 0 else "-"
        table.add_row(symbol, f"{value:.4g} {unit}", bounds, what)
    console = stdout()
    console.print(table)
    threshold = "" if fit.threshold is None else f"; AdaDUAL's threshold 2 (b + eta) / b = {fit.threshold:.3f}"
    console.print(
        f"\n{len(fit.samples)} timings, R2 {fit.r2:.4f}, RMS error {fit.rmse_s:.3g} s, "
        f"worst {100 * fit.max_relative_error:.0f} %{threshold}",
        highlight=False,
    )


def _figure(fit: AllReduceFit) -> Figure:
    """Seconds over jobs at once, measured and fitted, one line per message size."""
    from weft.results.pictures.style import PALETTE, house_style, new_figure, tidy_axes

    with house_style():
        figure, (axes,) = new_figure(6.4, 3.8)
        for i, size in enumerate(sorted({s.bytes for s in fit.samples})):
            colour = PALETTE[i % len(PALETTE)]
            points = sorted((s.k, s.seconds) for s in fit.samples if s.bytes == size)
            at = sorted({k for k, _ in points})
            axes.plot(
                at, [fit.predict_s(k, size) for k in at], color=colour, linewidth=1.2, label=f"{size / 1e6:.3g} MB"
            )
            axes.plot([k for k, _ in points], [t for _, t in points], "o", color=colour, markersize=3.5)
        tidy_axes(axes, "All-reduce under contention", "all-reduces at once (k)", "seconds", "both")
        axes.set_ylim(bottom=0)
        axes.legend(title="message", ncols=2)
    return figure


def _as_dict(file: Path, fit: AllReduceFit) -> dict[str, Any]:
    return {
        "file": str(file),
        "a_s": fit.a_s,
        "b_s_per_byte": fit.b_s_per_byte,
        "eta_s_per_byte": fit.eta_s_per_byte,
        "ci95": {k: None if v is None else list(v) for k, v in fit.ci95.items()},
        "r2": fit.r2,
        "rmse_s": fit.rmse_s,
        "max_relative_error": fit.max_relative_error,
        "adadual_threshold": fit.threshold,
        "weighted": fit.weighted,
        "samples": [
            {"k": s.k, "bytes": s.bytes, "seconds": s.seconds, "residual_s": r}
            for s, r in zip(fit.samples, fit.residuals_s, strict=True)
        ],
    }
