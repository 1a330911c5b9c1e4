"""Readers of network descriptions that clusters already have: Slurm's topology.conf, and a table of nodes and racks."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from weft.errors import InputError
from weft.model.cluster import Cluster
from weft.model.policy import number
from weft.network.topologies.clos import Node, racks_of_nodes
from weft.network.topologies.fabric import MAX_SERVERS, Fabric, Machine, check_count, check_positive
from weft.network.topologies.slurm import Block, Switch, as_topology_conf, parse_topology_conf, upwards


def read_topology(
    path: str | Path,
    machine: Machine | None = None,
    *,
    oversubscription: float = 1.0,
    spines: int | None = None,
    seed: int = 0,
) -> Cluster:
    """The cluster of a topology.conf (`.conf`), a topology.yaml (`.yaml`) or of a node/rack table (`.csv`)."""
    suffix = Path(path).suffix.lower()
    if suffix not in (".conf", ".yaml", ".yml", ".csv"):
        raise InputError(
            f"{path}: its format cannot be told from its name; call it .conf or .yaml (Slurm's) or .csv (node,rack)"
        )
    text = _text(path)
    if suffix in (".yaml", ".yml"):
        text = as_topology_conf(text, str(path))
    parse = parse_rack_csv if suffix == ".csv" else parse_slurm_topology
    return parse(text, str(path), machine, oversubscription=oversubscription, spines=spines, seed=seed)


def parse_slurm_topology(
    text: str,
    source: str = "topology.conf",
    machine: Machine | None = None,
    *,
    gpus: Mapping[str, int] | None = None,
    oversubscription: float = 1.0,
    spines: int | None = None,
    seed: int = 0,
) -> Cluster:
    """The cluster that the text of a topology.conf describes; the file knows no GPUs, so `machine` (or `gpus`, by node
    name) gives them.

    LinkSpeed, which Slurm itself leaves without a unit, is read as Gbit/s of each link from that switch down to what
    its line lists. Where it is missing, a node's link runs at the machine's NIC speed, and the uplinks of a switch
    have, together, the bandwidth below it divided by `oversubscription`. A leaf switch is a rack. A switch may have
    several parents (equal-cost paths). Blocks become racks under `spines` of a leaf-spine, since the file says nothing
    of what joins them; with the `nvlink_gbps` of a machine, they are NVLink domains too.
    """
    machine = machine or Machine()
    ratio = check_positive("oversubscription", oversubscription)
    for node, n in (gpus or {}).items():
        check_count(f"gpus[{node}]", n)
    parsed = parse_topology_conf(text, source)
    if parsed and isinstance(parsed[0], Block):
        blocks = [block for block in parsed if isinstance(block, Block)]
        rows = [
            [Node(n, _in_block(machine, b).with_gpus((gpus or {}).get(n, machine.gpus_per_server))) for n in b.nodes]
            for b in blocks
        ]
        names = [block.name for block in blocks]
        return racks_of_nodes("slurm-blocks", rows, names, machine, oversubscription=ratio, spines=spines, seed=seed)
    switches = {switch.name: switch for switch in parsed if isinstance(switch, Switch)}
    return _SlurmTree(switches, machine, ratio).cluster(gpus or {}, seed)


def _in_block(machine: Machine, block: Block) -> Machine:
    return machine if machine.nvlink_gbps is None else replace(machine, nvlink_domain=len(block.nodes))


class _SlurmTree:
    """Switches of a checked topology.conf on their way to a cluster."""

    def __init__(self, switches: dict[str, Switch], machine: Machine, ratio: float) -> None:
        self.switches = switches
        self.machine = machine
        self.ratio = ratio
        self.parents: dict[str, list[str]] = {name: [] for name in switches}
        for switch in switches.values():
            for child in switch.switches:
                self.parents[child].append(switch.name)
        self.heights: dict[str, int] = {}
        self.below: dict[str, float] = {}  # downlink bandwidth of a switch in Gbit/s
        for name in upwards(switches):
            switch = switches[name]
            self.heights[name] = 1 + max((self.heights[c] for c in switch.switches), default=0)
            up_gbps = sum(self._up_gbps(child, switch) for child in switch.switches)
            self.below[name] = len(switch.nodes) * self.machine.nics_per_server * self._nic_gbps(switch) + up_gbps

    def _nic_gbps(self, switch: Switch) -> float:
        return self.machine.nic_gbps if switch.link_gbps is None else switch.link_gbps

    def _up_gbps(self, child: str, parent: Switch) -> float:
        if parent.link_gbps is not None:
            return parent.link_gbps
        return self.below[child] / self.ratio / len(self.parents[child])

    def _domains(self, leaf: str) -> list[str]:
        path = [leaf]
        while self.parents[path[-1]]:
            path.append(self.parents[path[-1]][0])
        return path

    def cluster(self, gpus: Mapping[str, int], seed: int) -> Cluster:
        """Racks are leaf switches in the order of the file."""
        fabric = Fabric("slurm-tree", self.machine, seed)
        leaves, number = [switch for switch in self.switches.values() if switch.nodes], dict[str, int]()
        for rack, leaf in enumerate(leaves):
            domains = self._domains(leaf.name)
            for node in leaf.nodes:
                number[node] = fabric.server(node, rack, domains, gpus.get(node))
        for leaf in leaves:
            for node in leaf.nodes:
                fabric.nics(number[node], leaf.name, gbps=self._nic_gbps(leaf))
        for name in sorted(self.switches, key=self.heights.__getitem__):
            height = self.heights[name]
            tier = {1: "leaf", 2: "spine"}.get(height, f"level{height}")
            for parent in self.parents[name]:
                fabric.cable(name, parent, self._up_gbps(name, self.switches[parent]), tier)
        return fabric.cluster()


def parse_rack_csv(
    text: str,
    source: str = "racks.csv",
    machine: Machine | None = None,
    *,
    oversubscription: float = 1.0,
    spines: int | None = None,
    seed: int = 0,
) -> Cluster:
    """A leaf-spine of the nodes in a table with the columns node, rack and, where nodes differ, gpus and nic_gbps.

    Racks are numbered in the order in which they first appear. Empty lines and lines that start with # are skipped.
    """
    machine = machine or Machine()
    table = _CsvTable(source, machine)
    table.read(text)
    rows = list(table.racks.values())
    leaves = [f"rack {label}" for label in table.racks]
    return racks_of_nodes("racks", rows, leaves, machine, oversubscription=oversubscription, spines=spines, seed=seed)


@dataclass
class _CsvTable:
    """A node/rack table being read, row by row."""

    source: str
    machine: Machine
    racks: dict[str, list[Node]] = field(default_factory=dict)
    lines: dict[str, int] = field(default_factory=dict)  # node: the line that it stands in

    def read(self, text: str) -> None:
        reader = csv.reader(io.StringIO(text, newline=""))
        columns: list[str] | None = None
        try:
            for cells in reader:
                row = [cell.strip() for cell in cells]
                if not any(row) or row[0].startswith("#"):
                    continue
                if columns is None:
                    columns = self._header(row, reader.line_num)
                else:
                    self._row(columns, row, reader.line_num)
        except csv.Error as error:
            raise self._wrong(reader.line_num, f"it is no CSV ({error}); write plain comma-separated values") from None
        if not self.racks:
            raise InputError(f"{self.source}: it lists no nodes; give a header node,rack and one line per node")

    def _header(self, row: list[str], line: int) -> list[str]:
        columns = [name.lower() for name in row]
        for name in columns:
            if name not in ("node", "rack", "gpus", "nic_gbps") or columns.count(name) > 1:
                raise self._wrong(line, f"column {name!r} is unknown or there twice; use node,rack,gpus,nic_gbps")
        for name in ("node", "rack"):
            if name not in columns:
                raise self._wrong(line, f"column {name!r} is missing; begin with a header such as node,rack")
        return columns

    def _row(self, columns: list[str], row: list[str], line: int) -> None:
        if len(row) != len(columns):
            raise self._wrong(line, f"it has {len(row)} cells; give {len(columns)}: {','.join(columns)}")
        cells = dict(zip(columns, row, strict=True))
        node, rack = cells["node"], cells["rack"]
        if not node or not rack:
            raise self._wrong(line, "node or rack is empty; fill it in or remove the line")
        if len(node.split()) > 1:
            raise self._wrong(line, f"node {node!r} has blanks in its name; rename it")
        if node in self.lines:
            raise self._wrong(line, f"node {node!r} is there already on line {self.lines[node]}; remove one of them")
        if len(self.lines) == MAX_SERVERS:
            raise self._wrong(line, f"more than {MAX_SERVERS} nodes; shorten the file")
        self.lines[node] = line
        gpus, speed = self._gpus(cells.get("gpus", ""), line), self._speed(cells.get("nic_gbps", ""), line)
        machine = replace(self.machine.with_gpus(gpus), nic_gbps=speed)
        self.racks.setdefault(rack, []).append(Node(node, machine))

    def _gpus(self, cell: str, line: int) -> int:
        if not cell:
            return self.machine.gpus_per_server
        if not (cell.isascii() and cell.isdigit() and len(cell) < 6 and int(cell) >= 1):
            raise self._wrong(line, f"gpus is {cell!r}; give a whole number from 1 to 99999, or leave it empty")
        return int(cell)

    def _speed(self, cell: str, line: int) -> float:
        if not cell:
            return self.machine.nic_gbps
        gbps = number(cell)
        if not 1e-9 <= gbps <= 1e9:
            raise self._wrong(line, f"nic_gbps is {cell!r}; give Gbit/s above 0, or leave it empty")
        return gbps

    def _wrong(self, line: int, why: str) -> InputError:
        return InputError(f"{self.source}, line {line}: {why}")


def _text(path: str | Path) -> str:
    try:
        return Path(path).read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: byte {error.start} is not UTF-8; save the file as plain text") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise InputError(f"{path}: it cannot be read ({reason}); check the path") from None
