"""The mutants: one broken place each, in words and in code. The place must occur exactly once in its file."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["MUTANTS", "Mutant"]


@dataclass(frozen=True)
class Mutant:
    """Replace `old` by `new` in a file, named from the root. `judges` are the tests that should notice; by default
    those of the engine. `also` are further places, each a file, old and new: a rule that a kernel and its readable twin
    both have is broken in both, so that comparing them does not give it away."""

    file: str
    why: str
    old: str
    new: str
    judges: tuple[str, ...] = ()
    also: tuple[tuple[str, str, str], ...] = ()

    @property
    def places(self) -> tuple[tuple[str, str, str], ...]:
        """All places: file, old and new."""
        return ((self.file, self.old, self.new), *self.also)


def _of(file: str, *changes: tuple[str, str, str]) -> list[Mutant]:
    return [Mutant(f"src/weft/{file}", *change) for change in changes]


MUTANTS: list[Mutant] = [
    *_of(
        "sim/compiled/maxmin_kernel.py",
        ("links that fill up are not let in", "        if not _find_tight(E):\n            break", "        break"),
        (
            "full links are forgotten",
            "link.tight = link.units - link.used < link.weight and not loose(E, m.work_links(E)[i])",
            "link.tight = False",
        ),
        ("links forget what is used by others", "link.free = link.units - link.used", "link.free = link.units"),
        ("solved from the fastest change on", "level = min(level, link.felt)", "level = max(level, link.felt)"),
        ("a full link fills later", "higher = (link.units - fixed) // weight", "higher = link.units // weight"),
        (
            "equally fast transfers are left out",
            "(node.stamp != stamp) & (node.units >= level)",
            "(node.stamp != stamp) & (node.units > level)",
        ),
        (
            "transfers in step are not taken along",
            "n_nodes = _take_joined(E, node, stamp, n_nodes)",
            "n_nodes = n_nodes + 0",
        ),
        ("links with room are those that are full", "m.loads(E)[k].caps <= m.links(E)[k].units", "True"),
        ("weights are solved as if equal", "UNLIMITED if m.scalars(E).ranked == 0 else 0", "UNLIMITED"),
    ),
    *_of(
        "sim/compiled/fill_kernel.py",
        ("a rate is added to what is free", "link.free -= rate * flow.n", "link.free += rate * flow.n"),
        ("flows are not counted off", "        link.weight_left -= flow.n * claim\n", ""),
        ("a share that has grown is not looked at again", "if share > key:", "if share > 2 * key:"),
        ("demands are not asked", "if node.demand_units < UNLIMITED:", "if node.demand_units < 0:"),
        (
            "followers that are not level are held",
            "if lead.tight != 0 and nodes[z].state == ACTIVE and nodes[z].fresh == THIS_LEVEL:",
            "if nodes[z].state == ACTIVE and nodes[z].fresh == THIS_LEVEL:",
        ),
        ("stalled followers move", "            _fix(E, x, int64(0))\n", "            pass\n"),
        ("weights are forgotten", "share * nodes[x].claim", "share"),
        ("low levels are not served", "level = _next_level(E, n_nodes, n_links, level)", "level = -1"),
        ("a queue's second child is never looked at", "if child + 1 < n and _before(", "if child + 1 < 0 and _before("),
    ),
    *_of(
        "sim/compiled/rates_kernel.py",
        ("k-way: eta counts once too often", "(k * b + (k - 1) * eta)", "(k * b + k * eta)"),
        (
            "k-way: the idlest server counts",
            "k = max(k, links[flows[f].link].count)",
            "k = max(1, min(k, links[flows[f].link].count))",
        ),
    ),
    *_of(
        "sim/compiled/tasks_kernel.py",
        ("waiting for the network is booked backwards", "job.comm_s += now - job.mark", "job.comm_s -= now - job.mark"),
        ("the fastest worker sets the pace", "factor = max(factor, mine)", "factor = min(factor, mine)"),
        ("a new transfer has no weight", "link.weight += flow.n", "link.weight += 0"),
        ("a gone transfer still uses its rate", "link.used -= node.units * flow.n", "link.used -= 0"),
        ("bytes are booked once for all flows", "link.bytes += sent * flow.n", "link.bytes += sent"),
        ("busy time is not closed", "link.busy += now - link.mark", "link.busy += 0.0"),
        ("last in line is admitted first", "a.key < b.key or (", "a.key > b.key or ("),
        ("one transfer too many is admitted", "if link.count >= k:", "if link.count > k:"),
        ("waiting transfers are never looked at again", "every = m.scalars(E).released != 0", "every = False"),
        ("latency is skipped", "heap_set(E, 2 * x, now + node.latency)", "heap_set(E, 2 * x, now)"),
        ("iteration times that differ are merged", "SAME = 1e-12", "SAME = 1e-2"),
    ),
    *_of(
        "sim/compiled/events_kernel.py",
        ("one iteration too many", "if job.done >= job.total:", "if job.done > job.total:"),
        (
            "a gate opens a period early",
            "opens = max(now, job.gate_epoch + (opening + 1.0) * job.gate_period)",
            "opens = max(now, job.gate_epoch + opening * job.gate_period)",
        ),
        ("missed openings are not counted", "        job.adjusted += 1\n", "        job.adjusted += 0\n"),
        ("GPUs go to the last turn", "better = key < other or", "better = key > other or"),
        (
            "GPU seconds ignore the number of workers",
            "job.gpu_s += node.weight * node.remaining",
            "job.gpu_s += node.remaining",
        ),
    ),
    *_of(
        "sim/compiled/rates_kernel.py",
        (
            "the first chunk counts against a follower",
            "- node.rate * node.mark - node.chunk",
            "- node.rate * node.mark + node.chunk",
        ),
        (
            "bytes sent are added to what remains",
            "node.remaining = max(node.remaining - node.rate * (now - node.mark), 0.0)",
            "node.remaining = max(node.remaining + node.rate * (now - node.mark), 0.0)",
        ),
    ),
    *_of(
        "sim/compiled/limits_kernel.py",
        ("a cap that is raised is not noticed", "if units != node.demand_units:", "if units < node.demand_units:"),
        (
            "transfers move where there is no room",
            "link.units - link.used - more * flow.n >= link.weight",
            "link.units >= link.weight",
        ),
        (
            "a new weight is not booked",
            "m.flows(E)[f].n * (claim - node.claim)",
            "m.flows(E)[f].n * 0",
        ),
    ),
    *_of(
        "sim/compiled/engine_kernel.py",
        (
            "an aborted transfer books what it has not sent",
            "sent = node.amount - remaining_bytes(E, x, now)",
            "sent = remaining_bytes(E, x, now)",
        ),
        ("an aborted task's GPU seconds are lost", "job.gpu_s += node.weight * (now - node.began)", "job.gpu_s += 0.0"),
        ("an aborted transfer stays in the queue", "if m.held(E)[i] != x:", "if m.held(E)[i] >= 0:"),
        (
            "a freed GPU is not handed over",
            "        gpu.running = -1\n        if gpu.dirty == 0:\n",
            "        gpu.running = -1\n        if gpu.dirty == 1:\n",
        ),
        ("events at the bound are left for later", "if now > until:", "if now >= until:"),
        ("ties are handled in the order of the queue", "        if n > 1:\n            order_batch(E, n)\n", ""),
    ),
    *_of(
        "sim/compiled/heap_kernel.py",
        ("events never move forward", "if keys[parent] <= key:", "if keys[parent] >= key:"),
        (
            "the later child moves up",
            "if child + 1 < n and keys[child + 1] < keys[child]:",
            "if child + 1 < n and keys[child + 1] > keys[child]:",
        ),
        (
            "a hole is filled without looking up",
            "    if m.heap_key(E)[i] < old:\n        heap_up(E, i)\n    else:\n",
            "    if True:\n",
        ),
        (
            "an event moved earlier stays where it is",
            "    if key < old:\n        heap_up(E, i)\n",
            "    if key < old:\n        pass\n",
        ),
    ),
    *_of(
        "sim/compiled/random_kernel.py",
        ("another hash", "np.uint64(30)", "np.uint64(31)"),
        (
            "half the spread",
            "z = (total / 65536.0 - 2.0) * 1.7320508075688772",
            "z = (total / 65536.0 - 2.0) * 0.8660254",
        ),
        ("everybody else straggles", "< straggle_p:", "> straggle_p:"),
        ("all workers are alike", "np.uint64(worker) * _A + np.uint64(2)", "np.uint64(2)"),
    ),
    *_of(
        "sim/compiled/components_kernel.py",
        (
            "a link must be twice overbooked to matter",
            "total > link.capacity * (1.0 - MARGIN)",
            "total > 2.0 * link.capacity",
        ),
        ("two jobs on a server do not count", "(counted and n_jobs > 1)", "(counted and n_jobs > 2)"),
        (
            "one flow's list entry is lost",
            "m.chain(E)[stands.next].prev = stands.prev",
            "m.chain(E)[stands.next].prev = -1",
        ),
    ),
    *_of(
        "sim/compiled/skip_kernel.py",
        ("the age of an iteration is not compared", " or abs(now - job.iter_start - job.snap_age) > tolerance", ""),
        (
            "what tasks are doing is not compared",
            "node.state != node.snap_state or abs(_clock(E, x, now) - node.snap) > tolerance",
            "node.state != node.snap_state",
        ),
        (
            "phases of gates are not compared",
            "if min(off, 1.0 - off) * job.gate_period > tolerance:",
            "if min(off, 1.0 - off) * job.gate_period > 1e9:",
        ),
        (
            "periods run past the end of a job",
            "math.floor((job.total - job.done - 1) / per)",
            "math.floor((job.total - job.done + 1) / per)",
        ),
        (
            "turns may change hands while parked",
            "if comp.ordered != 0 and periods >= 2.0:",
            "if comp.ordered != 0 and periods < 0.0:",
        ),
    ),
    *_of(
        "sim/compiled/park_kernel.py",
        (
            "bytes of skipped iterations are lost",
            "links[flows[f].link].bytes += each * flows[f].n",
            "links[flows[f].link].bytes += 0.0",
        ),
        ("bytes of iterations at a pace are lost", "link.bytes += carried", "link.bytes += 0.0"),
        ("busy time of iterations at a pace is lost", "link.busy += carried / link.capacity", "link.busy += 0.0"),
        (
            "waits of skipped iterations are lost",
            "job.comm_s += factor * (job.comm_s - job.snap_comm)",
            "job.comm_s += 0.0",
        ),
        (
            "busy time of skipped iterations is lost",
            "link.busy += periods * (at_park - link.snap_busy)",
            "link.busy += 0.0",
        ),
        (
            "one period too many is skipped",
            "periods = min(comp.periods, math.floor((now - comp.park_time) / comp.period))",
            "periods = min(comp.periods, 1.0 + math.floor((now - comp.park_time) / comp.period))",
        ),
    ),
    *_of(
        "sim/compiled/estimate_kernel.py",
        ("a window's pace is counted double", "job.per = seen / span", "job.per = 2.0 * seen / span"),
    ),
]
