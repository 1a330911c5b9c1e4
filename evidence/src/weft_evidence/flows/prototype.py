"""flow-prototype: what the authors' prototype does otherwise than their text, beside the settings of the pace `flow`.

`flow-prototype:volume=1.6` plans 1.6 times the bytes that a flow has left, `no-estimate` takes every link to be ours at
line rate, and `own-load` lets flows of one job count as load for each other.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from weft.model.flows import FlowSet
from weft.model.policy import setting
from weft.policies.pace.flow import Flow, FlowRule, FlowSpec
from weft.policies.pace.rates import Floats


class PrototypeRule(FlowRule):
    """The rule of `flow` with these changes."""

    def __init__(self, spec: FlowSpec, volume: float = 1.0, estimate: bool = True, own_load: bool = False) -> None:
        super().__init__(spec)
        self.volume, self.estimate, self.own_load = volume, estimate, own_load

    def planned(self, flows: FlowSet) -> tuple[npt.NDArray[np.int32], Floats]:
        """Each flow as a job of its own, if flows of a job are load for each other; more bytes than are left."""
        job = np.arange(len(flows), dtype=np.int32) if self.own_load else flows.job
        return job, flows.size if self.volume == 1.0 else flows.sent + self.volume * (flows.size - flows.sent)

    def estimated(self, carried: Floats, full: npt.NDArray[np.bool_]) -> Floats:
        """All of a link, if nothing is estimated."""
        return super().estimated(carried, full) if self.estimate else self.capacity


@dataclass(eq=False)
class FlowPrototype(Flow):
    """`flow-prototype:volume=1.6,no-estimate,own-load`, and any setting of `flow`."""

    name, hint = "flow-prototype", ""
    estimate: bool = setting(True, words={"no-estimate": False})
    own_load: bool = setting(False, words={"own-load": True})
    volume: float = setting(1.0, "volume", within="[1, 100]")

    def rates(self) -> PrototypeRule:
        """The rule of one run."""
        return PrototypeRule(self.spec, self.volume, self.estimate, self.own_load)
