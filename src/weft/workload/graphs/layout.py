"""Layout: how a step of a transformer is spread over GPUs, and what of its communication hides behind what.

    tp4xcp2xpp8             4 tensor, 2 context, 8 pipeline; the rest of the workers are data-parallel
    tp2xep8xpp4xdp16        experts over 8 of the 16 data-parallel workers
    fsdp64xdp4              weights sharded over 64 workers, 4 copies of that (HSDP); fsdp64 alone shards over all

Workers are numbered as in Megatron-LM: tensor fastest, then context, then data, then pipeline. So those that talk
most stand beside each other, and the stages of a pipeline are far apart.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from weft.errors import InputError

NAMED = re.compile(r"(?:tp|cp|pp|ep|dp|fsdp)\d+", re.IGNORECASE)
RECOMPUTE = ("none", "full")
Ranks = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Layout:
    """Sizes of the groups, and settings. `copies`: of `data` workers so many groups hold the same shards (HSDP)."""

    tensor: int = 1
    context: int = 1
    pipeline: int = 1
    expert: int = 1
    data: int = 1
    copies: int = 1
    zero: int = 1  # 0: every worker has all states; 1 optimiser, 2 gradients, 3 weights, too, are sharded (by_pass)
    virtual: int = 1
    micro_batches: int = 1
    schedule: str = "1f1b"
    sequence: bool = True  # what tensor-parallel workers do not split otherwise, they split by tokens
    recompute: str = "none"
    gradient_overlap: bool = False  # gradients go while the backward pass goes on
    gather_overlap: bool = False  # weights arrive while the forward pass has begun
    tensor_overlap: bool = False  # activations are summed while matrices are multiplied
    context_overlap: bool = True  # keys and values arrive while attention computes
    expert_overlap: bool = False  # tokens go to experts while others are computed

    @property
    def stage_workers(self) -> int:
        """Workers of a pipeline stage."""
        return self.tensor * self.context * self.data

    @property
    def workers(self) -> int:
        """Workers in all."""
        return self.stage_workers * self.pipeline

    @property
    def by_pass(self) -> bool:
        """Whether gradients (zero 2) and weights (zero 3) are whole only while a part computes with them. A pipeline
        keeps both whole from a step's first pass to its last: else every micro-batch would have to send them."""
        return self.zero >= 2 and self.pipeline == 1

    @property
    def shards(self) -> int:
        """Workers over which a state is sharded, if it is."""
        return self.data * self.context // self.copies

    def shard(self, elements: float, experts: float) -> float:
        """Elements of a worker's shard of so many, among them so many of experts, which only every `expert`-th worker
        of the same shards holds: (elements - experts) / shards + experts / (shards / expert)."""
        return (elements + (self.expert - 1) * experts) / self.shards

    @lru_cache(maxsize=256)  # noqa: B019 - layouts are few, and many tasks have the same workers
    def stage(self, p: int) -> Ranks:
        """All workers of a stage."""
        return tuple(range(p * self.stage_workers, (p + 1) * self.stage_workers))

    @lru_cache(maxsize=256)  # noqa: B019 - layouts are few, and many tasks have the same workers
    def stages(self, p: int, other: int) -> Ranks:
        """All workers of a stage, then all of another."""
        return self.stage(p) + self.stage(other)

    def tensor_groups(self, p: int) -> tuple[Ranks, int]:
        """Workers of a stage, tensor group by tensor group, and the number of groups."""
        return self.stage(p), self.context * self.data

    @lru_cache(maxsize=256)  # noqa: B019 - layouts are few, and many tasks have the same workers
    def context_groups(self, p: int) -> tuple[Ranks, int]:
        """The same by context groups."""
        t, c = self.tensor, self.context
        first = p * self.stage_workers
        ranks = tuple(first + (d * c + i) * t + j for d in range(self.data) for j in range(t) for i in range(c))
        return ranks, self.data * t

    @lru_cache(maxsize=256)  # noqa: B019 - layouts are few, and many tasks have the same workers
    def shard_groups(self, p: int, size: int | None = None) -> tuple[Ranks, int]:
        """The same by the groups over which states are sharded: data and context together, or `size` of them."""
        t, both, first = self.tensor, self.data * self.context, p * self.stage_workers
        ranks = tuple(first + i * t + j for j in range(t) for i in range(both))
        return ranks, t * both // (size or self.shards)

    @lru_cache(maxsize=256)  # noqa: B019 - layouts are few, and many tasks have the same workers
    def expert_groups(self, p: int) -> tuple[Ranks, int]:
        """The same by workers among which states of a stage's experts are sharded: those that hold the same experts."""
        t, both, first, e = self.tensor, self.data * self.context, p * self.stage_workers, self.expert
        starts = [(b + k, b + self.shards) for b in range(0, both, self.shards) for k in range(e)]
        ranks = tuple(first + i * t + j for j in range(t) for start, end in starts for i in range(start, end, e))
        return ranks, t * e * self.copies

    @lru_cache(maxsize=256)  # noqa: B019 - layouts are few, and many tasks have the same workers
    def copy_groups(self, p: int, size: int) -> tuple[Ranks, int]:
        """The same by workers that hold equal shards of groups of `size`."""
        t, both, first = self.tensor, self.data * self.context, p * self.stage_workers
        ranks = tuple(
            first + i * t + j for j in range(t) for k in range(size) for i in range(k, both, size)
        )  # fmt: skip
        return ranks, t * size


def named(shape: str) -> bool:
    """Whether a shape names its factors, as in tp4xpp8."""
    return bool(NAMED.match(shape.strip()))


def factors(shape: str, workers: int, whose: str) -> dict[str, int]:
    """Sizes of a layout on so many workers; what is left of them is data-parallel."""
    what, found = f"{whose}parallel hybrid:{shape}", {}
    for part in shape.lower().split("x"):
        match = NAMED.fullmatch(part.strip())
        if match is None:
            raise InputError(
                f"{what}: {part!r} is no factor; write tp, cp, pp, ep, dp or fsdp and a number, as in tp4xpp8"
            )
        key = re.sub(r"\d", "", part.strip())
        if key in found:
            raise InputError(f"{what}: {key} is there twice; remove one")
        found[key] = int(part.strip()[len(key) :])
        if found[key] < 1:
            raise InputError(f"{what}: {key} is at least 1")
    fixed = found.get("tp", 1) * found.get("cp", 1) * found.get("pp", 1)
    if workers % fixed:
        raise InputError(
            f"{what}: {workers} workers are no multiple of {fixed}; give the job a multiple, and leave elastic "
            "out, which tries every size"
        )
    data = workers // fixed
    copies = found.get("dp", data if "fsdp" not in found else data // max(found["fsdp"], 1))
    given = copies * found.get("fsdp", 1)
    if given != data:
        raise InputError(f"{what}: it is for {given * fixed} workers, not {workers}; give so many, or leave dp out")
    shards = data * found.get("cp", 1) // (copies if "fsdp" in found else 1)
    if found.get("ep", 1) > shards or shards % found.get("ep", 1):
        raise InputError(f"{what}: ep divides the {shards} workers over which one copy of the states is sharded")
    return {
        "tensor": found.get("tp", 1), "context": found.get("cp", 1), "pipeline": found.get("pp", 1),
        "expert": found.get("ep", 1), "data": data, "copies": copies if "fsdp" in found else 1,
        **({"zero": 3} if "fsdp" in found else {}),
    }  # fmt: skip


def overlaps(layout: Layout) -> dict[str, bool]:
    """The settings that hide communication which the layout has, and whether they are on."""
    used = {
        "gradient_overlap": layout.data * layout.context > 1,
        "gather_overlap": layout.zero > 0 and layout.shards > 1,
        "tensor_overlap": layout.tensor > 1,
        "context_overlap": layout.context > 1,
        "expert_overlap": layout.expert > 1,
    }
    return {name: getattr(layout, name) for name, there in used.items() if there}


def replace_setting(layout: Layout, name: str, on: bool) -> Layout:
    """The layout with one of these settings on or off."""
    settings: dict[str, Any] = {name: on}
    return replace(layout, **settings)
