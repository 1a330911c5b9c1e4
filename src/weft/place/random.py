"""random: any GPUs, by lot."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from weft.model.plan import Placement
from weft.model.view import ClusterView, JobView
from weft.place.fitting import AlwaysShared, Fitting


class RandomPlace(Fitting):
    """Free GPUs drawn by lot; with `random:shared` GPUs with enough memory left (RAND of the Ada-SRSF paper).

    Each job has its own lot, so what one is given does not depend on who was asked before it.
    """

    kind, why = "random", "drawn by lot"

    def choose(self, view: ClusterView, job: JobView, gpus: int, fit: npt.NDArray[np.int64]) -> Placement:
        """Whatever the lot says; ranks follow the numbers of the GPUs."""
        drawn = view.rng(f"{self.name}:{job.id}").choice(fit, gpus, replace=False)
        return tuple(sorted(drawn.tolist()))


class Rand(AlwaysShared, RandomPlace):
    """`rand`: `random:shared` under the name it has in the Ada-SRSF paper."""

    name = "rand"
