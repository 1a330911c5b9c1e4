"""`weft calibrate`: a model whose simulated communication is what was measured."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from weft.cli.common import JsonOption, notice, print_json

if TYPE_CHECKING:
    from weft.model.profile import Profile
    from weft.network.hierarchy import Hierarchy


def calibrate(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="Model of the zoo, profile file or layer file.")],
    measured_ms: Annotated[
        float,
        typer.Option("--measured-ms", min=0, help="Measured communication per iteration that computing does not hide."),
    ],
    gpus: Annotated[int, typer.Option("--gpus", min=2, help="Workers of the measurement.")] = 8,
    machines: Annotated[int, typer.Option("--machines", min=1, help="Machines they were on, in one rack.")] = 1,
    gpu: Annotated[str, typer.Option("--gpu", help="Kind of GPU, for a model of the zoo.")] = "V100",
    network: Annotated[
        str, typer.Option("--network", help="modern, older, or an ASTRA-sim 1.0 network file.")
    ] = "modern",
    system: Annotated[Path | None, typer.Option("--system", help="An ASTRA-sim 1.0 system file.")] = None,
    out: Annotated[Path | None, typer.Option("--out", metavar="FILE", help="Write the scaled profile there.")] = None,
    json: JsonOption = False,
) -> None:
    """Scale a model's bytes so that its simulated communication matches a measurement.

    The factor goes into a scenario's [network] as scale; --out writes the scaled profile (a layer file if the name
    ends in .txt or .csv).

    Example: weft calibrate resnet50 --measured-ms 12 --gpus 8 --out resnet50.json
    """
    from weft.network.analytical import iteration_s
    from weft.network.cost import units
    from weft_evidence.calibration import calibrated, scaled

    if gpus % machines:
        raise typer.BadParameter(f"{gpus} GPUs do not divide evenly over {machines} machines")
    profile, hierarchy = _profile(model, gpus, gpu), _hierarchy(network, system)
    shape = ((gpus // machines,) * machines,)
    before = iteration_s(profile, hierarchy, units(shape)) - profile.compute_s
    scale = calibrated(profile, hierarchy, shape, measured_ms / 1e3)
    after = iteration_s(scaled(profile, scale), hierarchy, units(shape)) - profile.compute_s
    if out is not None:
        _write(scaled(profile, scale), out)
        notice(f"wrote {out}")
    if json:
        print_json({
            "model": profile.name, "gpus": gpus, "machines": machines, "scale": scale, "measured_ms": measured_ms,
            "before_ms": before * 1e3, "after_ms": after * 1e3,
        })  # fmt: skip
        return
    print(f"{profile.name} on {gpus} GPUs of {machines} machine{'s' * (machines > 1)}: bytes x {scale:.6g}")
    print(
        f"exposed communication {before * 1e3:.4g} ms before, {after * 1e3:.4g} ms now, {measured_ms:.4g} ms measured"
    )


def _profile(model: str, gpus: int, gpu: str) -> Profile:
    from weft.workload import zoo

    if model.endswith((".txt", ".csv", ".gz")):
        from weft.workload.profiles.layers import read_layers

        return read_layers(model).profile(gpus)
    return zoo.profile(model, gpus, gpu=gpu, overlap=True)


def _hierarchy(network: str, system: Path | None) -> Hierarchy:
    from weft.network.astra_files import read_network, read_system
    from weft.network.hierarchy import MODERN, OLDER

    named = {"modern": MODERN, "older": OLDER}
    found = named[network] if network in named else read_network(network)
    return found if system is None else read_system(system, found)


def _write(profile: Profile, out: Path) -> None:
    if out.suffix not in (".txt", ".csv"):
        from weft.workload.profiles.files import save_profile

        save_profile(profile, out)
        return
    from weft.errors import InputError
    from weft.network.astra_files import layer_text

    try:
        out.write_text(layer_text(profile), encoding="utf-8")
    except OSError as error:
        raise InputError(f"{out}: {error.strerror or error}; choose a path that can be written") from error
