"""LocalEngine: processes on this machine, on GPUs that are pretended."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from weft.live.engine import Site
from weft.live.local import LocalWorld
from weft.live.local.dry import DryWorld
from weft.model.cluster import Cluster
from weft.model.topologies import Machine, leaf_spine

__all__ = ["LocalEngine"]


class LocalEngine:
    """Jobs come by `weft submit`, from the owner of the folder."""

    name = "local"
    submits = ""
    profile_folders = None

    @classmethod
    def from_options(cls, options: Mapping[str, Any]) -> LocalEngine:
        """It has no options."""
        return cls()

    def cluster(self, seed: int, say: Callable[[str], None]) -> Cluster:
        """Two racks of two servers with four GPUs each."""
        return leaf_spine(2, 2, Machine(gpus_per_server=4))

    def refuse(self, cluster: Cluster, folder: Path) -> None:
        """Anything can be pretended."""

    def layers(
        self, layers: tuple[str | None, ...], default: str, say: Callable[[str], None]
    ) -> tuple[str | None, ...]:
        """As they are."""
        return layers

    def jobs_folder(self, folder: Path) -> Path:
        """In the folder of the run."""
        return folder / "jobs"

    def open(self, site: Site) -> LocalWorld:
        """Processes, or words."""
        if site.dry_run:
            return DryWorld(site.cluster, site.folder, site.clock, site.say)
        return LocalWorld(site.cluster, site.folder, site.clock, open=True)
