"""Mutants of the paces of flow scheduling: each breaks one rule that a page of docs/baselines claims."""

from __future__ import annotations

from tools.mutant_list import Mutant

__all__ = ["PACES"]


def _named(file: str, judges: str, *changes: tuple[str, str, str]) -> list[Mutant]:
    return [Mutant(file, *change, judges=tuple(judges.split())) for change in changes]


def _of(file: str, judges: str, *changes: tuple[str, str, str]) -> list[Mutant]:
    return _named(f"src/weft/policies/pace/{file}", judges, *changes)


def _both(folder: str, judges: str, *changes: tuple[str, tuple[str, str], tuple[str, str]]) -> list[Mutant]:
    """Break a rule in the readable twin and in the kernel, so that only a sequence by hand can notice."""
    twin, kernel = f"testkit/oracles/{folder}.py", f"src/weft/policies/pace/{folder}/{folder}_kernel.py"
    named = tuple(judges.split())
    return [Mutant(twin, why, *plain, named, ((kernel, *compiled),)) for why, plain, compiled in changes]


_CCML = "tests/policies/pace/test_ccml.py"
_PCC = "tests/policies/pace/test_pcc.py"
_MCS = "tests/policies/pace/test_mcs.py tests/policies/pace/test_tcp.py::test_two_jobs_on_one_nic_by_hand"
_TCP = "tests/policies/pace/test_tcp.py"
_SHORTEST = "tests/policies/pace/test_shortest.py"
_PATIENT = "tests/policies/pace/test_patient.py"
_FLOW = "tests/policies/pace/test_flow.py"
_HOSTS = " ".join(f"live/tests/flow/test_{name}.py" for name in ("plan", "switch_table", "host"))

PACES: list[Mutant] = [
    *_of(
        "ccml.py", _CCML,
        ("arcs may be longer than their circle", "<= span[i, j] * (1.0 + SLACK)", "< 1e9"),
        ("arcs may meet", "self.jobs[i].arc_s - slack <= shift <= span - self.jobs[j].arc_s + slack", "True"),
        ("arcs begin where another begins", "(at + self.jobs[i].arc_s + turn", "(at + turn"),
        ("a circle is turned once at most", "range(round(period / self.span[i, j]))", "range(1)"),
        ("the first pair will do", "for size in range(len(jobs), 1, -1)", "for size in range(2, len(jobs) + 1)"),
        ("jobs that drift are compatible", "    found = 0.0\n", "    found = min(one, other)\n"),
        ("who came last goes first", "len(members) - 1 - k for", "k for"),
        ("a job without a partner is among them", "range(len(jobs), 1, -1)", "range(len(jobs), 0, -1)"),
        ("two flows of a job weigh twice as much", " / self.beside[job]), 1)", "), 1)"),
        ("a job that is gone still counts", "            self._weigh(uid, nics)\n\n", "\n"),
        ("a foreign flow weighs nothing", "foreign_weight=int(FINE)", "foreign_weight=1"),
        ("iterations may differ by a tenth", "CLOSE = 0.05", "CLOSE = 0.1"),
        ("ratios are of numbers up to 3", "LARGEST = 4", "LARGEST = 3"),
        ("ratios are of numbers up to 5", "LARGEST = 4", "LARGEST = 5"),
        ("weights have no bound", "self.unfair ** min(steps, deepest)", "self.unfair**steps"),
    ),
    *_of(
        "pcc.py", _PCC,
        ("one pair of trials is enough", "agree = np.abs(votes) == 2.0", "agree = np.abs(votes) >= 0.0"),
        ("trials are in a fixed order", "first = self.draw.integers(2, size=(len(rows), 2)).astype(np.bool_)",
         "first = np.ones((len(rows), 2), np.bool_)"),
        ("it does not return when its utility falls", "self.rate[back] = self.before[back]", "pass"),
        ("steps do not grow", "self.steps[on] += 1.0", "pass"),
        ("trials are not wider apart when pairs disagree", "self.eps[again] + LEAST_EPS", "self.eps[again]"),
        ("the buffer takes nothing", "BUFFER_BYTES / (flows.line[tried] * self.slot_s)", "0.0"),
        ("Vivace's steps are not bounded", "side * np.minimum(wanted, most)", "side * wanted"),
        ("Vivace's bound does not grow", "np.where(wanted > most, before + 1.0, 0.0)", "0.0"),
        ("Vivace's gradient is not amplified", "np.abs(gradient) * amplified(self.steps[rows])", "np.abs(gradient)"),
        ("trials are ever wider apart", "np.minimum(self.eps[again] + LEAST_EPS, MOST_EPS)",
         "self.eps[again] + LEAST_EPS"),
        ("trials stay wide after a return", "self._try(back, LEAST_EPS)", "self._try(back, self.eps[back])"),
        ("Vivace turns round with large steps", "np.where(same, self.steps[rows] + 1.0, 1.0)",
         "self.steps[rows] + 1.0"),
        ("who waits for others learns as from loss", "beyond = np.where(full, ", "beyond = np.where(True, "),
        ("random loss is not noticed", "np.maximum(beyond - kept, came.loss)", "beyond - kept"),
        ("a slot that it began in counts", "self.tried[live] = when.begins", "self.tried[live] = True"),
    ),
    *_named(
        "testkit/oracles/mcs.py", _MCS,
        ("the order is that of arrival", "        for j in there:\n            weight[j] -=", "        for j in ():\n"
         "            weight[j] -="),
    ),
    *_of(
        "mcs/__init__.py", _MCS,
        ("stages that are done count", "& ~self.done & (flows", "& (flows"),
        ("the order is made once", "if when.begins or len(again):", "if len(again):"),
        ("the order is not remade when an iteration begins", "if when.begins or len(again):", "if when.begins:"),
        ("foreign flows keep their share", "Transport.leaving(self.leaves, ", "Transport.leaving(1.0, "),
        ("broadcasts follow their pushes", "self.leaves, start_after=True", "self.leaves"),
    ),
    *_of(
        "mcs/mcs_kernel.py", _MCS,
        ("what is left is not backfilled", "            rates[flow[a]] += more\n", ""),
        ("others do not pay for the last", "weight[j] -= least * there[j]\n", "weight[j] -= 0.0\n"),
        ("the least busy NIC is looked at", "busiest = winner[1]", "busiest = np.argmin(total)"),
        ("the busiest NIC stays the busiest", "play_up(winner, total, int(need[b, 1]), leaves)", "pass"),
        ("a coflow's flows do not end together", "rate = left[a] / seconds", "rate = room[out[a]]"),
    ),
    *_both(
        "mcs", _MCS,
        ("others lose no weight", ("weight[j] -= cost[last] * loads[j].get(busiest, 0.0)", "weight[j] -= 0.0"),
         ("weight[j] -= least * there[j]\n", "weight[j] -= 0.0\n")),
        ("backfilling is in reverse order",
         ("for name in ranked:\n        for i in", "for name in reversed(ranked):\n        for i in"),
         ("for g in ranked:\n        for a in", "for g in ranked[::-1]:\n        for a in")),
    ),
    *_of(
        "tcp/__init__.py", _TCP,
        ("CUBIC gains above its last peak as below", "Congestion(0.7, 3.0 * 0.3 / 1.7)",
         "Congestion(0.7, 3.0 * 0.3 / 1.7, 3.0 * 0.3 / 1.7)"),
        ("a window is idle after a tenth of a second", "IDLE_S = 0.2", "IDLE_S = 0.1"),
        ("marks come four times later", "MARK_S = 7.6e-5", "MARK_S = 4 * 7.6e-5"),
        ("buffers hold 3 MB", "BUFFER_BYTES = 1e6", "BUFFER_BYTES = 3e6"),
        ("BBR keeps half a pipe", "self.window[new] = 2.0 * flows", "self.window[new] = 0.5 * flows"),
        ("slow start costs nothing", "caps[fresh] -= missed_bytes(caps[fresh], self.rtt_s) / lasts", "pass"),
        ("what a slow start lost is not sent again", "caps[rows] - self.lost[rows] / lasts", "caps[rows]"),
        ("an idle window is kept", "* self.slot_s >= IDLE_S", "* self.slot_s >= 1e9"),
        ("an idle window starts from nothing", "np.where(seen, np.maximum(", "np.where(seen & False, np.maximum("),
        ("a window that is not used is kept", "self.window[idle] * 2.0 * used", "self.window[idle] * 9.0 + 0.0 * used"),
        ("CUBIC gains as Reno does", "Congestion(0.7, 3.0 * 0.3 / 1.7)", "Congestion(0.7, 1.0)"),
        ("DCTCP waits for loss", '"dctcp": Congestion(smooth=True)', '"dctcp": Congestion()'),
        ("BBR drains for nothing", "_BBR_GOODPUT = 0.98", "_BBR_GOODPUT = 1.0"),
        ("loss limits dctcp-ecn", 'NOT_BY_LOSS = ("bbr", "dctcp-ecn")', 'NOT_BY_LOSS = ("bbr",)'),
        ("the own NIC drops packets", "self.rate[alone] = flows.line[alone]", "pass"),
        ("what foreign traffic leaves is not noticed", "came.link, self.capacity)", "self.capacity, self.capacity)"),
    ),
    *_of(
        "tcp/tcp_kernel.py", _TCP,
        ("no buffer ever overflows", "if total[held[i]] <= holds * (1.0 + 1e-9):", "if True:"),
        ("buffers hold nothing", "= capacity[held[i]] * rtt_s + room[held[i]]", "= capacity[held[i]] * rtt_s"),
        ("a queue takes no time", "trips = seconds / max(window[i] / rate[i], rtt_s)", "trips = seconds / rtt_s"),
        ("slow start ends where there is room", "2.0 * max(free, first)", "1.0 * max(free, first)"),
        ("a tooth idles for nothing", "idle, full = (knee - low) * rtt_s / gain,", "idle, full = 0.0,"),
    ),
    *_both(
        "shortest", _SHORTEST,
        ("a job needs the sum over its links", ("max(needs.values(), default=0.0) for", "sum(needs.values()) for"),
         ("longest[j] = max(longest[j], need[link])", "longest[j] += left[live[a]] / capacity[link]")),
    ),
    *_named(
        "testkit/oracles/shortest.py", _SHORTEST,
        ("links do not add up in a price", "cost = sum(n * price[link] for link, n in flows.items())",
         "cost = max([n * price[link] for link, n in flows.items()], default=0.0)"),
    ),
    *_of(
        "shortest/rule.py", _SHORTEST,
        ("who sends little weighs no more", "if len(part) else 1.0) / part, np", "if len(part) else 1.0) / 1.0, np"),
        ("a job that computes for long sends all the time", "/ (sends_s + compute_s)", "/ sends_s"),
        ("it is not told of others", "    minds_others = True\n", ""),
        ("it is not asked when transfers end", "    everyone = True\n", ""),
    ),
    *_of(
        "shortest/shortest_kernel.py", _SHORTEST,
        ("others are owed nothing", "room[link] = max(room[link] - kept[k], 0.0)", "pass"),
        ("others are owed what they do not ask for", "rate[k] = min(1.0 / (cost * cost), most[k])",
         "rate[k] = 1.0 / (cost * cost)"),
        ("the longest goes first", "    order = np.argsort(seconds,", "    order = np.argsort(-seconds,"),
        ("what is left is not given away", "caps[live[a]] += more", "pass"),
        ("flows of a job on one link pay once", "cost += n_of[e] * price", "cost += price"),
        ("a link without others has a price", "met, asked, price = np.zeros(", "met, asked, price = np.ones("),
    ),
    *_of(
        "shortest/patient.py", _PATIENT,
        ("the age of a flow does not count", "now_s - self.there.since_s", "0.0 * self.there.since_s"),
        ("an old flow is about to leave", "np.maximum(self._longer[0] / n, age)", "self._longer[0] / n + 0.0 * age"),
        ("who waits for GPUs does not count", "** POWER / (1.0 + self.waiting)", "** POWER"),
        ("it knows at once how long flows last", "if len(self._lasted) < ENOUGH or", "if not len(self._lasted) or"),
        ("the price is the same on all links", "(usual_s * self._jobs / self._sends_s) ** POWER", "1.0"),
        ("who waited in the last iteration pushes", "            self._began.pop(uid, None)\n", "            pass\n"),
        ("what a job needed is forgotten", "            each[1] = needed\n", "            pass\n"),
    ),
    *_of(
        "shortest/shortest_kernel.py", _PATIENT,
        ("who pushes costs nothing", "if lost <= BUSY or price * lost", "if lost <= BUSY or 0.0 * lost"),
        ("who pushes costs once", "                theirs[k] = then[k]\n", "                pass\n"),
        ("waiting costs what the first to leave stays", "stay = max(stay, stays[k])", "stay = stays[k]"),
        ("a job waits for ever", "usual + stay + 0.5 * waited", "usual + stay"),
        ("sending counts as waiting", "late[j] - (whole[j] - seconds[j])", "late[j]"),
        ("who waits goes before others", "    leave(others, theirs, room)\n", ""),
        ("flows far away do not count", "max(free[link] - theirs[other], 0.0)", "free[link]"),
        ("a slow job costs less", "* seconds[j] * alone / rate <", "* seconds[j] <"),
    ),
    *_named(
        "live/src/weft_live/flow/plan.py", _HOSTS,
        ("the cheapest slot is not looked for", "load[order[at - 1]] * TIGHT > load[d]", "False"),
        ("waiting costs nothing", "cost, rest = d + 1.0, left", "cost, rest = 0.0, left"),
        ("a job gives way to itself", "(room - others) * part", "room - b"),
        ("a push is not raised", "max(followers, default=0.0)", "0.0"),
        ("a raised rate takes what is not free", "min(rate + increase, most, free)", "min(rate + increase, most)"),
        ("a raised rate jumps", "min(rate + increase, most, free)", "min(rate + increase, free)"),
    ),
    *_of(
        "flow/flow_kernel.py", _FLOW,
        ("who pauses sends what it had planned", "if a.pauses and a.part == 1.0:", "if False:"),
        ("who pauses does so in the middle of a slot", "if a.pauses and a.part == 1.0:", "if a.pauses:"),
    ),
    *_named(
        "live/src/weft_live/flow/switch_table.py", _HOSTS,
        ("a schedule is added to the old one", "row[t % self.slots] += rate - held[t % self.slots]",
         "row[t % self.slots] += rate"),
        ("slots do not expire", "            self._load[:, column] = 0.0\n", ""),
        ("a flow that has ended stays", "            self._load[self._row[link]] -= held\n", "            pass\n"),
    ),
]  # fmt: skip
