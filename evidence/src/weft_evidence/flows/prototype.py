"""flow-prototype: what the authors' prototype does otherwise than their text, beside the settings of the pace `flow`.

`flow-prototype:volume=1.6` plans 1.6 times the bytes that a flow has left, `no-estimate` takes every link to be ours at
line rate, and `own-load` lets flows of one job count as load for each other.
"""

from __future__ import annotations

from typing import Self

import numpy as np
import numpy.typing as npt

from weft.errors import StackError
from weft.model.flows import FlowSet
from weft.model.policy import number
from weft.policies.pace.flow import Flow, FlowRule, FlowSpec, settings
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


class FlowPrototype(Flow):
    """`flow-prototype:volume=1.6,no-estimate,own-load`, and any setting of `flow`."""

    def __init__(
        self, spec: FlowSpec | None = None, volume: float = 1.0, estimate: bool = True, own_load: bool = False
    ) -> None:
        super().__init__(spec)
        self.volume, self.estimate, self.own_load = volume, estimate, own_load
        parts = ["no-estimate"] * (not estimate) + ["own-load"] * own_load
        parts += [f"volume={volume:g}"] * (volume != 1.0) + [self.spec.text] * bool(self.spec.text)
        self.name = ":".join(filter(None, ("flow-prototype", ",".join(parts))))

    @classmethod
    def from_text(cls, arg: str | None) -> Self:
        """Its own settings; the others are those of `flow`."""
        parts = arg.split(",") if arg is not None else []
        mine = [part for part in parts if part.partition("=")[0] in ("volume", *_FLAGS)]
        rest = [part for part in parts if part not in mine]
        own = {part.partition("=")[0]: part for part in mine}
        volume = number(own.get("volume", "volume=1").removeprefix("volume="))
        if not 1.0 <= volume <= 100.0:
            raise StackError(f"flow-prototype:{arg}: volume must be from 1 to 100 times what is left")
        if len(own) < len(mine) or any(own.get(flag, flag) != flag for flag in _FLAGS):
            raise StackError(f"flow-prototype:{arg}: write each of no-estimate, own-load and volume=1.6 once")
        spec = settings(",".join(rest)) if rest else None
        return cls(spec, volume, "no-estimate" not in own, "own-load" in own)

    def rates(self) -> PrototypeRule:
        """The rule of one run."""
        return PrototypeRule(self.spec, self.volume, self.estimate, self.own_load)


_FLAGS = ("no-estimate", "own-load")
