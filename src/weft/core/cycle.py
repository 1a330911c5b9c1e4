"""Core: the decision cycle that every world shares. It takes events and returns decisions, without I/O or a clock."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial

from weft.core.blame import of_error
from weft.core.checker import check
from weft.core.decide import decide, wake_time
from weft.core.journal import Journal, MemoryJournal
from weft.core.refusal import refuse
from weft.core.returned import expect
from weft.core.routing import Router
from weft.core.stack import Stack
from weft.core.table import Table
from weft.core.view import View
from weft.core.world import World
from weft.errors import DecisionError, PolicyError, StackError, WeftError
from weft.model.events import Event, Submitted
from weft.model.plan import Decision, Hold, SetGate, SetRoutes, Start, State, Stop
from weft.policies.interleave.base import Pick


class Core:
    """A stack at work: it keeps the job table and the policies' memory, and asks the policies once per cycle.

    The core only asks `world` questions: what it can do and knows, how far jobs are, how fast they would be. `run` in
    core/loop.py carries decisions to the world and events back.
    """

    def __init__(self, stack: Stack, world: World, seed: int = 0, journal: Journal | None = None) -> None:
        self.left_out: tuple[str, ...] = ()  # what the stack does without in this world
        if stack.suited is not None:
            stack, self.left_out = stack.suited(stack, world.capabilities, world.facts)
        refuse(stack, world)
        self.stack = stack
        self.seed = seed
        self.journal: Journal = MemoryJournal() if journal is None else journal
        self.table = Table(world.cluster)
        self.view = View(self.table, world, seed)
        self.cycle = 0  # cycles so far; also the decision number that keys random streams
        self._plan_wake_s: float | None = None  # when planner and interleave want to be asked again at the latest
        self.router = Router(stack.route, self.table, world) if stack.route.steers else None
        self.planner_state: State = stack.planner.initial_state()
        self.interleave_state: State = stack.interleave.initial_state()
        self.capabilities = world.capabilities
        self.paced = False  # whether the world has been given the pace
        self.deciding = False  # whether a policy is being asked
        # Half of all cycles follow the end of a job; where nobody waits, they have nothing to decide.
        self._idle_without_jobs = stack.planner.idle_without_jobs and stack.interleave.idle_without_gates

    @property
    def wake_s(self) -> float | None:
        """When the policies want to be asked again at the latest."""
        times = (self._plan_wake_s, self.router.wake_s if self.router is not None else None)
        return min((t for t in times if t is not None), default=None)

    @wake_s.setter
    def wake_s(self, when: float | None) -> None:
        self._plan_wake_s = when

    def step(self, now: float, events: Sequence[Event]) -> list[Decision]:
        """One cycle: takes what has happened and returns what to do."""
        stack, table, view = self.stack, self.table, self.view

        # 1. Take the events.
        self.confirm(events)

        # 2. Bring the view to this moment.
        self.cycle += 1
        view.move_to(now, self.cycle, bool(events))

        idle = self._idle_without_jobs and not table.waiting
        if idle:
            self._plan_wake_s = None
        if self.router is None and idle:
            return []
        # 3. Ask the planner for whole-cluster plans, best first. 4. Interleave: choose one and set its gates. 5. Turn
        # the difference between plan and present into decisions; each start gets its turn on shared GPUs.
        pick, routing = None, None
        decisions: list[Decision] = []
        with self._asking():
            if not idle and (self.router is None or not self._only_routes(now, events)):
                pick = self._asked(view)
                decisions = decide(table, pick, stack.planner.shares_gpus, partial(stack.planner.turn, view))
            # 6. Ask which paths flows take.
            if self.router is not None:
                decisions, routing = self.router.routed(view, decisions)

        # 7. Check them. A refusal raises before any decision is written down or committed. The table then holds what
        # the world has reported and the cycle is counted, but no job has moved and the policies' memory is as it was.
        if decisions:
            try:
                check(decisions, table, self.capabilities, stack.planner.shares_gpus)
            except DecisionError as error:
                raise DecisionError(f"{(stack.planner if pick else stack.route).name}: {error}") from None

        # 8. Write the journal, before anything is carried out.
        if decisions:
            self.journal.write(self.cycle, now, decisions)

        # 9. Commit, and hand over.
        if pick is not None:
            self.planner_state = pick.candidate.state
            self.interleave_state = pick.state
            self._plan_wake_s = wake_time(pick.candidate, now)
        if self.router is not None and routing is not None:
            self.router.keep(routing)
        for decision in decisions:
            self._commit(decision)
        return decisions

    @contextmanager
    def _asking(self) -> Iterator[None]:
        """While policies are asked; an error of their own is told with file and line."""
        self.deciding = True
        try:
            yield
        except Exception as error:
            if isinstance(error, WeftError) or not (where := of_error(error, self.stack)):
                raise
            raise PolicyError(f"{where}: {type(error).__name__}: {error}, at {self.view.now:g} s of the run") from error
        finally:
            self.deciding = False

    def _only_routes(self, now: float, events: Sequence[Event]) -> bool:
        """Whether the route policy alone has asked for this cycle."""
        planned = self._plan_wake_s is not None and self._plan_wake_s <= now
        return self.router is not None and not events and not planned and self.router.due(now)

    def _asked(self, view: View) -> Pick:
        """What the policies choose."""
        planner, interleave = self.stack.planner, self.stack.interleave
        candidates = planner.propose(view, self.planner_state, interleave.candidates)
        if not candidates:
            raise DecisionError(f"{planner.name} proposed nothing; a planner proposes at least the plan as it is")
        pick = interleave.pick(view, candidates, self.interleave_state)
        expect(interleave, "interleave", "pick", pick, Pick, "a Pick")
        return pick

    def confirm(self, events: Iterable[Event]) -> None:
        """Take events without planning: confirmations that free nothing."""
        for event in events:
            if isinstance(event, Submitted) and (words := self.stack.planner.refusal(event.job.per_server)):
                raise StackError(f"job {event.job.id}: {words}")
            self.table.take(event)

    def _commit(self, decision: Decision) -> None:
        match decision:
            case Start():
                self.table.starting(decision.job, decision.gpus, decision.gate, decision.routes)
            case Stop():
                self.table.stopping(decision.job)
            case SetGate():
                self.table.set_gate(decision.job, decision.gate)
            case SetRoutes():
                self.table.routes[decision.job] = decision.routes
            case Hold():
                self.table.hold(decision.job, decision.reason)
