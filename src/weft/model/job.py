"""Job: what a user asks for. Its progress belongs to the world, its placement to the plan."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from weft.model.profile import Profile


@dataclass(frozen=True, slots=True)
class Job:
    """A training job as submitted.

    `profiles` maps a number of workers to one iteration at that size; a rigid job has one entry. `gpus` is the number
    asked for; an elastic job may run on any size in `profiles` between `min_gpus` and `max_gpus`. `batches` maps a
    number of workers to one iteration for each of the other batch sizes that the job can run with.
    """

    id: str
    submit_s: float
    gpus: int
    iterations: int
    profiles: dict[int, Profile]
    model: str = ""
    min_gpus: int = 0  # 0: same as gpus
    max_gpus: int = 0
    batch: int = 0
    user: str = ""
    vc: str = ""
    checkpoint_every: int = 1  # iterations between checkpoints: where a stopped job resumes
    per_server: int = 0  # workers that it must have on each of its servers; 0: any number
    priority: int = 0  # jobs with a higher one go first, whatever else the stack's order considers
    known: bool = True  # whether its iterations and their length were told; else `iterations` says nothing
    resumes: bool = True  # whether it goes on where it was when it is stopped and started again
    batches: dict[int, tuple[Profile, ...]] = field(default_factory=dict)
    gpu: str = ""  # the type of GPU that it asks for; empty: any, but one for all of its workers
    on: dict[str, dict[int, Profile]] = field(default_factory=dict)  # `profiles` on other types of GPU
    app: str = ""  # the application that it belongs to, such as a hyper-parameter search; empty: the job is its own

    @property
    def profile(self) -> Profile:
        """One iteration at the size asked for."""
        return self.profiles[self.gpus]

    def profile_on(self, workers: int, gpu: str) -> Profile:
        """One iteration with that many workers on that type of GPU."""
        return self.on.get(gpu, self.profiles)[workers]

    def as_on(self, gpu: str) -> Job:
        """The job as one that asks for that type of GPU; itself if it asks for a type already."""
        return self if self.gpu else replace(self, gpu=gpu, profiles=self.on.get(gpu, self.profiles), on={})

    @property
    def memory_bytes(self) -> float:
        """GPU memory of one worker."""
        return self.profile.memory_bytes

    @property
    def sizes(self) -> tuple[int, ...]:
        """Worker counts it may run with."""
        low, high, each = self.min_gpus or self.gpus, self.max_gpus or self.gpus, self.per_server or 1
        return tuple(n for n in sorted(self.profiles) if low <= n <= high and n % each == 0)

    @property
    def compute_s(self) -> float:
        """Seconds of computing in the whole job at the size asked for, on an infinitely fast network."""
        return self.profile.compute_s * self.iterations
