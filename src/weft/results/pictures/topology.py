"""Drawings of a cluster: for the terminal (rich) and as a picture (SVG). Large clusters are summarised, not crammed."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from io import StringIO
from itertools import groupby, pairwise
from typing import TYPE_CHECKING

from rich.columns import Columns
from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from weft.errors import InputError
from weft.model.cluster import Cluster, Server
from weft.model.units import GB, bytes_per_s_to_gbps
from weft.network.topologies import TierSummary, node_levels, tier_summary
from weft.network.topologies.hostlist import compress

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_RACKS_DRAWN = 16  # more are listed by shape
_SERVERS_DRAWN = 10  # servers that are drawn in a rack; more are written as a hostlist
_ROWS = 20  # lines of that hostlist
_SERVER_DOTS = 160  # servers; where there are more, only the first and the last cable of each rack are drawn
_LABELS = 24  # more nodes than these in a row go without names
_WIDTH = 10.0  # inches


# For the terminal


def draw_topology(cluster: Cluster) -> RenderableType:
    """The cluster from its topmost switches down to the racks, with the links and oversubscription between them."""
    racks = _racks(cluster)
    rows: RenderableType
    if len(racks) <= _RACKS_DRAWN:
        rows = Columns([_rack_panel(cluster, i, rack) for i, rack in enumerate(racks)], padding=(0, 1))
    else:
        rows = _rack_table(cluster, racks)
    return Group(Text(_headline(cluster), style="bold"), Text(), _ladder(cluster), Text(), rows)


def tier_sentence(tier: TierSummary) -> str:
    """One tier in words: how many cables, how fast, how oversubscribed."""
    slow, fast = bytes_per_s_to_gbps(tier.slowest_bytes_per_s), bytes_per_s_to_gbps(tier.fastest_bytes_per_s)
    speed = _gbps(slow) if slow == fast else f"{_gbps(slow)} to {_gbps(fast)}"
    cables = _count(tier.links // 2, "cable")
    words = f"{tier.tier}: {cables} of {speed} Gbit/s"
    if tier.up_bytes_per_s > 0:
        words += f", {_gbps(bytes_per_s_to_gbps(tier.up_bytes_per_s))} up in all"
    if tier.oversubscription is not None:
        words += (
            f", {tier.oversubscription:.3g}:1 oversubscribed" if tier.oversubscription > 1 else ", not oversubscribed"
        )
    return words


def _headline(cluster: Cluster) -> str:
    kinds = Counter(zip(map(cluster.type_of_gpu, range(cluster.n_gpus)), cluster.memory_of_gpu.tolist(), strict=True))
    gpus = " and ".join(f"{n} {gpu} GPUs of {memory / GB:g} GB" for (gpu, memory), n in kinds.items())
    speeds = [bytes_per_s_to_gbps(speed) for speed in sorted(set(cluster.intra_of_server))]
    inside = " to ".join(
        "no limit" if each == float("inf") else f"{_gbps(each)} Gbit/s"
        for each in (speeds[0], speeds[-1])[: len(speeds)]
    )
    fabric = f"{inside} inside a server"
    groups = [_count(len(level.gpus), level.name) for level in reversed(cluster.levels[1:-1])]
    parts = [*groups, _count(len(cluster.servers), "server"), gpus]
    if cluster.n_nics > len(cluster.servers):
        parts.append(_count(cluster.n_nics, "NIC"))
    return f"{cluster.topology.name}: {', '.join(parts)}, {fabric}"


def _ladder(cluster: Cluster) -> RenderableType:
    """Levels of switches from the top, with the tiers that join them."""
    levels = node_levels(cluster)
    tiers = _tiers_by_level(cluster, levels)
    lines = []
    for level in range(max(levels.values()), 0, -1):
        names = [node for node, height in levels.items() if height == level]
        lines.append(Text(f"  {_together(names)}", style="cyan"))
        lines.extend(Text(f"   ╠═ {tier_sentence(tier)}") for tier in tiers.get(level, ()))  # among equals
        lines.extend(Text(f"   ║ {tier_sentence(tier)}") for tier in tiers.get(level - 0.5, ()))
    servers = f"{_count(len(cluster.servers), 'server')} of {_per_server(cluster.servers)}"
    lines.append(Text(f"  {servers}", style="green"))
    lines.extend(Text(f"   ╠═ {tier_sentence(tier)}") for tier in tiers.get(0, ()))
    return Group(*lines)


def _tiers_by_level(cluster: Cluster, levels: dict[str, int]) -> dict[float, list[TierSummary]]:
    """Tiers by height: x.5 for links between the levels x and x + 1, x for links within level x."""
    lowest: dict[str, float] = {}
    for link in cluster.topology.links:
        a, b = levels[link.src], levels[link.dst]
        lowest[link.tier] = min(lowest.get(link.tier, 1e9), a if a == b else min(a, b) + 0.5)
    found: dict[float, list[TierSummary]] = {}
    for tier in tier_summary(cluster):
        found.setdefault(lowest[tier.tier], []).append(tier)
    return found


def _rack_panel(cluster: Cluster, index: int, servers: Sequence[Server]) -> Panel:
    if len(servers) <= _SERVERS_DRAWN:
        body = Text("\n").join(Text.assemble(s.name, " ", (_squares(s), "green")) for s in servers)
    else:
        body = Text(f"{_hosts(servers)}\n{_gpus(servers)}")
    return Panel(body, title=f"{cluster.level_names[0]} {index}", title_align="left", border_style="dim", expand=False)


def _rack_table(cluster: Cluster, racks: Sequence[Sequence[Server]]) -> Table:
    """Racks of one shape that stand side by side share a row."""
    name_of = f"{cluster.level_names[0]}s"
    table = Table(name_of, "servers in each", "GPUs in each", "names", box=None, header_style="dim", padding=(0, 2))
    numbered = groupby(enumerate(racks), key=lambda row: tuple(len(s.gpus) for s in row[1]))
    groups = [list(rows) for _, rows in numbered]
    for rows in groups[:_ROWS]:
        first, last = rows[0][0], rows[-1][0]
        name = f"{first}" if first == last else f"{first} to {last}"
        servers = rows[0][1]
        everyone = [server for _, rack in rows for server in rack]
        table.add_row(name, str(len(servers)), _gpus(servers), _hosts(everyone))
    if len(groups) > _ROWS:
        table.add_row(f"... {sum(len(rows) for rows in groups[_ROWS:])} {name_of} more", "", "", "")
    return table


def _squares(server: Server) -> str:
    return "■" * len(server.gpus) if len(server.gpus) <= 8 else f"{len(server.gpus)} GPUs"


def _gpus(servers: Sequence[Server]) -> str:
    counts = sorted({len(s.gpus) for s in servers})
    total = sum(len(s.gpus) for s in servers)
    if len(counts) == 1:
        return f"{total} ({len(servers)} x {counts[0]})"
    return f"{total} ({counts[0]} to {counts[-1]} per server)"


def _hosts(servers: Sequence[Server]) -> str:
    names = [s.name for s in servers]
    try:
        text = compress(names)
    except InputError:  # a name that no hostlist can hold
        text = ", ".join(names)
    return text if len(text) <= 40 else f"{names[0]} ... {names[-1]}"


def _together(names: Sequence[str]) -> str:
    """Nodes of one level: by name while they are few, else by what their names have in common."""
    if len(names) <= 4:
        return "  ".join(names)
    stems = {re.sub(r"[\d.]+$", "", name) for name in names}
    if len(stems) == 1:
        return f"{len(names)} x {stems.pop() or 'node'}"
    return f"{names[0]} ... {names[-1]} ({len(names)} in all)"


def _gbps(value: float) -> str:
    return f"{value:.4g}" if value < 1000 else f"{value:.0f}"


def _count(n: int, noun: str) -> str:
    return f"{n} {noun}" if n == 1 else f"{n} {noun}s"


def _racks(cluster: Cluster) -> list[list[Server]]:
    racks: list[list[Server]] = [[] for _ in range(cluster.n_racks)]
    for server in cluster.servers:
        racks[server.rack].append(server)
    return racks


# As a picture


def topology_svg(cluster: Cluster) -> str:
    """The picture as one self-contained SVG document, the same text every time."""
    from matplotlib import rc_context
    from matplotlib.backends.backend_svg import FigureCanvasSVG

    buffer = StringIO()
    figure = topology_figure(cluster)
    with rc_context({"svg.hashsalt": "topology", "svg.fonttype": "none"}):
        FigureCanvasSVG(figure).print_svg(buffer, metadata={"Date": None, "Creator": None})  # type: ignore[no-untyped-call]
    return buffer.getvalue()


def topology_figure(cluster: Cluster) -> Figure:
    """Servers (racks of a large cluster) at the bottom, switches above; the faster a cable, the thicker its line."""
    from weft.results.pictures.style import house_style, new_figure

    with house_style():
        levels = node_levels(cluster)
        top = max(levels.values())
        figure, (axes,) = new_figure(_WIDTH, 1.3 + 1.05 * top)
        at = _positions(cluster, levels)
        _draw_cables(axes, cluster, at)
        _draw_nodes(axes, cluster, at, levels)
        _draw_captions(axes, cluster, levels)
        axes.set_title(_headline(cluster))
        axes.set_xlim(-0.02, 1.3)
        axes.set_ylim(-0.55, top + 0.45)
        axes.set_axis_off()
    return figure


def _positions(cluster: Cluster, levels: dict[str, int]) -> dict[str, tuple[float, float]]:
    """Servers side by side by rack; a switch over the middle of what is below it, unless they would crowd."""
    gap = 0.6  # between racks, in servers
    columns: dict[str, float] = {}
    x = 0.0
    for rack in _racks(cluster):
        for server in rack:
            columns[server.name] = x
            x += 1.0
        x += gap
    width = max(x - gap, 1.0)
    at = {name: ((column + 0.5) / width, 0.0) for name, column in columns.items()}
    below: dict[str, list[str]] = {}
    for link in cluster.topology.links:
        if levels[link.src] < levels[link.dst]:
            below.setdefault(link.dst, []).append(link.src)
    for level in range(1, max(levels.values()) + 1):
        names = [node for node, height in levels.items() if height == level]
        middle = {n: _mean([at[b][0] for b in below.get(n, ()) if b in at]) for n in names}
        names.sort(key=lambda n: middle[n])  # stable: equals stay in their order
        even = 1.0 / len(names)
        crowded = any(middle[b] - middle[a] < 0.5 * even for a, b in pairwise(names))
        for i, name in enumerate(names):
            at[name] = ((i + 0.5) * even if crowded else middle[name], float(level))
    return at


def _draw_cables(axes: Axes, cluster: Cluster, at: dict[str, tuple[float, float]]) -> None:
    from matplotlib.collections import LineCollection

    from weft.results.pictures.style import PALETTE

    tiers = [tier.tier for tier in tier_summary(cluster)]
    fastest = max(link.bytes_per_s for link in cluster.topology.links)
    left_out: set[str] = set()
    if len(cluster.servers) > _SERVER_DOTS:
        left_out = {server.name for rack in _racks(cluster) for server in rack[1:-1]}
    summed: dict[tuple[str, str, str], float] = {}  # parallel cables are one line
    for link in cluster.topology.links:
        if at[link.src] <= at[link.dst] and link.src not in left_out:
            key = (link.src, link.dst, link.tier)
            summed[key] = summed.get(key, 0.0) + link.bytes_per_s
    thin = min(1.0, (80 / max(len(summed), 1)) ** 0.5)
    for number, tier in enumerate(tiers):
        rows = [(at[a], at[b], speed) for (a, b, where), speed in summed.items() if where == tier]
        widths = [max(0.3, 2.6 * thin * (speed / fastest) ** 0.5) for _, _, speed in rows]
        colour = PALETTE[number % len(PALETTE)]
        axes.add_collection(LineCollection([(a, b) for a, b, _ in rows], linewidths=widths, colors=colour, alpha=0.55))


def _draw_nodes(axes: Axes, cluster: Cluster, at: dict[str, tuple[float, float]], levels: dict[str, int]) -> None:
    from weft.results.pictures.style import INK, MUTED, SURFACE

    box = {"facecolor": SURFACE, "edgecolor": "none", "alpha": 0.8, "pad": 0.6}  # names stand before cables
    for level in range(1, max(levels.values()) + 1):
        names = [node for node, height in levels.items() if height == level]
        x, y = [at[n][0] for n in names], [at[n][1] for n in names]
        few = len(names) <= _LABELS
        axes.scatter(
            x, y, s=90 if few else 16, marker="s", facecolors=SURFACE, edgecolors=INK, linewidths=1.0, zorder=3
        )
        if few:
            for name in names:
                axes.text(at[name][0], level + 0.14, name, ha="center", fontsize=7.5, color=INK, bbox=box)
    racks = _racks(cluster)
    if len(cluster.servers) <= _SERVER_DOTS:
        for name in (s.name for s in cluster.servers):
            axes.plot(*at[name], marker="o", markersize=5, color=MUTED, zorder=3)
    for i, rack in enumerate(racks):
        left, right = (f(at[s.name][0] for s in rack) for f in (min, max)) if rack else (0.0, 0.0)
        axes.plot([left, right], [-0.14, -0.14], color=MUTED, linewidth=3, solid_capstyle="butt", zorder=2)
        if len(racks) <= _LABELS // 2:
            label = f"{cluster.level_names[0]} {i}\n{len(rack)} x {_per_server(rack)}"
            axes.text((left + right) / 2, -0.2, label, ha="center", va="top", fontsize=7.5, color=INK)
    if len(racks) > _LABELS // 2:
        servers = f"{_count(len(cluster.servers), 'server')} of {_per_server(cluster.servers)}"
        everyone = f"{len(racks)} {cluster.level_names[0]}s, {servers}"
        axes.text(0.5, -0.22, everyone, ha="center", va="top", fontsize=8.5, color=INK)


def _draw_captions(axes: Axes, cluster: Cluster, levels: dict[str, int]) -> None:
    """What each tier is, in its colour, to the right of it."""
    from weft.results.pictures.style import PALETTE

    colours = {tier.tier: PALETTE[i % len(PALETTE)] for i, tier in enumerate(tier_summary(cluster))}
    for height, tiers in _tiers_by_level(cluster, levels).items():
        for i, tier in enumerate(tiers):
            words = tier_sentence(tier).replace(": ", "\n", 1).replace(", ", "\n")
            y = height - 0.5 * (i - (len(tiers) - 1) / 2)
            axes.text(1.03, y, words, color=colours[tier.tier], fontsize=8, va="center", linespacing=1.35)


def _per_server(servers: Sequence[Server]) -> str:
    counts = sorted({len(s.gpus) for s in servers})
    if not counts:
        return "0 GPUs"
    return _count(counts[0], "GPU") if len(counts) == 1 else f"{counts[0]} to {counts[-1]} GPUs"


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.5
