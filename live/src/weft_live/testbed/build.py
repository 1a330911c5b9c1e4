"""Testbed: a blueprint made real, with the kernel's own TCP between namespaces."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self

from weft.errors import InputError
from weft_live.agent.namespaces import cookie, inside, new_namespace, refine
from weft_live.testbed import dctcp
from weft_live.testbed.packets import Marks, attach
from weft_live.testbed.plan import Blueprint, Forwarding

BURST_BYTES, QUEUE_BYTES = 64 * 1024, 256 * 1024
_ENTER, _WARDEN = (Path(__file__).with_name(name) for name in ("enter.py", "warden.py"))
_PREFIX = "weft-testbed-"  # of folders for temporary files; the number of their process follows
_MASTER, _STATIC = 0x04, 0x40  # an entry of the bridge rather than of the interface; one that is configured
_CONTROLS = Path("/proc/sys/net/ipv4/tcp_available_congestion_control")


@dataclass(frozen=True)
class Links:
    """How links and senders behave: congestion control, share of packets lost at random, delay, queue, marks.

    `routes` has another control for some: by the name of the sender and of the receiver ("": to all).
    """

    control: str = "cubic"
    loss: float = 0.0
    delay_s: float = 0.0
    queue_bytes: int = QUEUE_BYTES
    marks: Marks | None = None
    routes: Mapping[tuple[str, str], str] = field(default_factory=dict)


def refuse() -> None:
    """Raise, in one line, if this process cannot make a testbed here."""
    try:
        import pyroute2  # noqa: F401 - only whether it is there
    except ImportError:
        raise InputError("testbed: pyroute2 is missing; pip install 'weft[testbed]' brings it") from None
    if os.geteuid() != 0:
        raise InputError("testbed: network namespaces need root; run it with sudo")
    try:
        os.close(new_namespace())
    except OSError as error:
        raise InputError(f"testbed: this machine makes no network namespaces ({error.strerror})") from None


def controls() -> list[str]:
    """Congestion controls that this kernel has, without those that testbeds have registered."""
    return [name for name in _CONTROLS.read_text().split() if not name.startswith(dctcp.PREFIXES)]


def no_dctcp(control: str = "dctcp") -> str:
    """Why a testbed here cannot have DCTCP (or `fixed`), neither the kernel's nor ours; nothing if it can."""
    if control in controls():
        return ""
    try:
        os.close(dctcp.register(control)[1])
    except InputError as error:
        return str(error)
    return ""


def _forget() -> None:
    """Remove folders of processes that are gone, where their warden was killed as well."""
    for old in Path(tempfile.gettempdir()).glob(f"{_PREFIX}[0-9]*-*"):
        owner = old.name.removeprefix(_PREFIX).partition("-")[0]
        with suppress(FileNotFoundError):  # another testbed that starts has removed it
            if not os.path.exists(f"/proc/{owner}/ns/net") and old.stat().st_uid == os.geteuid():
                shutil.rmtree(old, ignore_errors=True)


class Testbed:
    """Hosts as namespaces under bridges. Use it as a context; what it made ends with it, or with this process.

    Everything that runs on its hosts ends then, too, and `folder`, which is for temporary files, is removed.
    """

    __test__ = False  # pytest must not collect it

    def __init__(self, blueprint: Blueprint, links: Links | None = None) -> None:
        refuse()
        self.blueprint, self.links = blueprint, links or Links()
        self._table: Forwarding = blueprint.forwarding
        known, asked = set(controls()), {self.links.control, *self.links.routes.values()}
        for control in sorted(asked - known - {*dctcp.OWN}):
            raise InputError(f"testbed: this kernel has no {control}; it has {', '.join(sorted(known))}")
        self._files: dict[str, int] = {}  # namespaces by host; "" is the one of the switches
        self._children: list[subprocess.Popen[Any]] = []
        self._warden: subprocess.Popen[str] | None = None
        self._own: dict[str, tuple[str, int]] = {}  # controls of our own, where the kernel has none: name and file
        try:
            for control in sorted((asked - known) & {*dctcp.OWN}):
                self._own[control] = dctcp.register(control)
            self._guard()
            self._build()
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def namespace(self, host: str) -> str:
        """A path by which another process finds the namespace of a host."""
        return f"/proc/{os.getpid()}/fd/{self._files[host]}"

    def cookie(self, host: str) -> int:
        """The number of the namespace of a host, which no other one has until the machine starts anew."""
        return cookie(self._files[host])

    def inode(self, host: str) -> int:
        """The inode by which /proc knows the namespace of a host."""
        return os.fstat(self._files[host]).st_ino

    def start(
        self,
        host: str,
        command: Sequence[str],
        env: Mapping[str, str] | None = None,
        output: IO[Any] | int | None = None,
        **more: Any,
    ) -> subprocess.Popen[Any]:
        """Start a command on a host. It ends when this process does."""
        argv = [sys.executable, "-I", "-S", str(_ENTER), self.namespace(host), str(os.getpid()), *command]
        whole = {**os.environ, "GLOO_SOCKET_IFNAME": "eth0", "OMP_NUM_THREADS": "1", **(env or {})}
        child = subprocess.Popen(
            argv,
            env=whole,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT if output else None,
            **more,
        )
        self._children.append(child)
        return child

    def queued(self, end: str, other: str) -> dict[str, int]:
        """Statistics of the queue of the link from `end` to `other`: bytes, packets, drops, backlog."""
        name, place = self._interfaces[end, other]

        def look() -> dict[str, int]:
            from pyroute2 import IPRoute

            with IPRoute() as ip:
                (index,) = ip.link_lookup(ifname=name)
                for row in ip.get_qdiscs(index):
                    stats = row.get_attr("TCA_STATS2")
                    if stats is not None:
                        basic, queue = stats.get_attr("TCA_STATS_BASIC"), stats.get_attr("TCA_STATS_QUEUE")
                        return {
                            "bytes": basic["bytes"], "packets": basic["packets"], "drops": queue["drops"],
                            "backlog": queue["backlog"],
                        }  # fmt: skip
            return {}

        return inside(self._files[place], look)

    def forward(self, table: Forwarding) -> None:
        """From now on switches forward like this; frames that are under way may be lost."""
        old, self._table = self._table, table

        def change() -> None:
            from pyroute2 import IPRoute

            with IPRoute() as ip:
                index = {name: ip.link_lookup(ifname=name)[0] for name, place in self._interfaces.values() if not place}
                for (switch, mac), onwards in table.items():
                    was = old.get((switch, mac))
                    if was == onwards:
                        continue
                    how = {"lladdr": mac, "flags": _MASTER}
                    if was is not None:
                        ip.fdb("del", ifindex=index[self._interfaces[switch, was][0]], **how)
                    ip.fdb("add", ifindex=index[self._interfaces[switch, onwards][0]], state=_STATIC, **how)

        inside(self._files[""], change)

    def close(self) -> None:
        """End what runs here and let go of the namespaces."""
        for child in self._children:
            if child.poll() is None:
                with suppress(OSError):
                    child.kill()
        for child in self._children:
            child.wait()
        self._children.clear()
        if self._warden is not None:
            self._warden.communicate()  # what children have left behind ends now, and the folder goes
            self._warden = None
        while self._own:
            os.close(self._own.popitem()[1][1])
        for file in self._files.values():
            os.close(file)
        self._files.clear()

    # Building

    def _guard(self) -> None:
        """The namespaces and the folder, and the warden that removes both when this process ends."""
        _forget()
        for name in ("", *(host.name for host in self.blueprint.hosts)):
            self._files[name] = new_namespace()
        files = list(self._files.values())
        self._warden = subprocess.Popen(
            [sys.executable, "-I", "-S", str(_WARDEN), *map(str, files)],
            stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True, pass_fds=files, start_new_session=True,
        )  # fmt: skip
        self.folder = Path(tempfile.mkdtemp(prefix=f"{_PREFIX}{os.getpid()}-"))
        assert self._warden.stdin is not None
        self._warden.stdin.write(f"{self.folder}\n")
        self._warden.stdin.flush()

    def _build(self) -> None:
        plan = self.blueprint
        self._interfaces: dict[tuple[str, str], tuple[str, str]] = {}  # (end, other): interface, namespace
        servers = {host.name for host in plan.hosts}
        for n, cable in enumerate(plan.cables):
            for end, other in ((cable.a, cable.b), (cable.b, cable.a)):
                name = "eth0" if end in servers else f"p{n}{'a' if end == cable.a else 'b'}"
                self._interfaces[end, other] = (name, end if end in servers else "")
        inside(self._files[""], self._make_fabric)
        for host in plan.hosts:
            inside(self._files[host.name], partial(self._make_host, host.name))

    def _make_fabric(self) -> None:
        """Bridges, cables and what they forward, in the namespace of the switches."""
        from pyroute2 import IPRoute

        plan, macs = self.blueprint, {host.name: host.mac for host in self.blueprint.hosts}
        with IPRoute() as ip:
            bridge: dict[str, int] = {}
            for n, switch in enumerate(plan.switches):
                ip.link("add", ifname=f"s{n}", kind="bridge", br_stp_state=0, br_forward_delay=0, br_mcast_snooping=0)
                (bridge[switch],) = ip.link_lookup(ifname=f"s{n}")
                ip.link("set", index=bridge[switch], state="up")
            for cable in plan.cables:
                (near, near_place), (far, far_place) = (
                    self._interfaces[cable.a, cable.b], self._interfaces[cable.b, cable.a],
                )  # fmt: skip
                ends: list[dict[str, Any]] = []
                for end, name, place in ((cable.a, near, near_place), (cable.b, far, far_place)):
                    here = {"ifname": name, "net_ns_fd": self._files[place]}
                    ends.append(here | ({"address": macs[end]} if end in macs else {}))
                ip.link("add", kind="veth", peer=ends[1], **ends[0])
            for (end, other), (name, place) in self._interfaces.items():
                if place:
                    continue
                (index,) = ip.link_lookup(ifname=name)
                ip.link("set", index=index, master=bridge[end], state="up")
                # Frames go by the table below alone, so that switches in a loop are as good as a tree.
                ip.brport("set", index=index, learning=0, unicast_flood=0, mcast_flood=0, bcast_flood=0)
                self._shape(ip, index, self._rate(end, other))
                for (switch, mac), onwards in plan.forwarding.items():
                    if (switch, onwards) == (end, other):
                        ip.fdb("add", ifindex=index, lladdr=mac, flags=_MASTER, state=_STATIC)

    def _make_host(self, name: str) -> None:
        """The interface of one host, its neighbours and its route."""
        from pyroute2 import IPRoute

        me = next(host for host in self.blueprint.hosts if host.name == name)
        refine()
        with IPRoute() as ip:
            (index,) = ip.link_lookup(ifname="eth0")
            ip.link("set", index=ip.link_lookup(ifname="lo")[0], state="up")
            ip.link("set", index=index, state="up")
            ip.addr("add", index=index, address=me.address, prefixlen=16)
            usual = self.links.routes.get((name, ""), self.links.control)
            routes = [("10.77.0.0/16", usual)]
            for host in self.blueprint.hosts:
                if host != me:
                    ip.neigh("add", dst=host.address, lladdr=host.mac, ifindex=index, state="permanent")
                    if (name, host.name) in self.links.routes:
                        routes.append((f"{host.address}/32", self.links.routes[name, host.name]))
            for dst, control in routes:
                ours = self._own.get(control)
                metrics: dict[str, str | int] = {"cc_algo": ours[0] if ours else control}
                if self.links.marks is not None:
                    metrics["features"] = 1  # RTAX_FEATURE_ECN
                ip.route("replace", dst=dst, oif=index, scope="link", prefsrc=me.address, metrics=metrics)
            other = next(b for a, b in self._interfaces if a == name)
            self._shape(ip, index, self._rate(name, other))

    def _rate(self, end: str, other: str) -> float:
        for cable in self.blueprint.cables:
            if (cable.a, cable.b) == (end, other):
                return cable.a_to_b_bytes_per_s
            if (cable.b, cable.a) == (end, other):
                return cable.b_to_a_bytes_per_s
        raise KeyError((end, other))

    def _shape(self, ip: Any, index: int, rate: float) -> None:
        """One direction of a cable: its rate and queue, then loss and marks, then delay."""
        ip.tc("add", "tbf", index, handle=0x10000, rate=int(rate), burst=BURST_BYTES, limit=self.links.queue_bytes)
        if self.links.loss or self.links.marks:
            ip.link("set", index=index, gso_max_segs=1)  # packets as on a wire: a bundle would be lost as a whole
            attach(ip, index, rate, self.links.loss, self.links.marks)
        if self.links.delay_s:
            try:
                ip.tc("add", "netem", index, parent=0x10001, handle=0x20000, delay=int(self.links.delay_s * 1e6))
            except Exception as error:
                raise InputError(
                    f"testbed: this kernel cannot delay packets (netem: {error}); leave --delay-ms out"
                ) from None
