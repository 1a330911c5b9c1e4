"""first-fit: the first GPUs in order of their numbers."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from weft.model.plan import Placement
from weft.model.view import ClusterView, JobView
from weft.place.fitting import AlwaysShared, Fitting


class FirstFit(Fitting):
    """The lowest-numbered free GPUs; with `first-fit:shared` the lowest-numbered GPUs with enough memory left.

    The latter is FF of the Ada-SRSF paper (section V), where a GPU may have several jobs.
    """

    kind, why = "first-fit", "first GPUs that will do"

    def choose(self, view: ClusterView, job: JobView, gpus: int, fit: npt.NDArray[np.int64]) -> Placement:
        """The first."""
        return tuple(fit[:gpus].tolist())


class FF(AlwaysShared, FirstFit):
    """`ff`: `first-fit:shared` under the name it has in the Ada-SRSF paper."""

    name = "ff"
