"""Runs jobs (wait, then send, again and again) in SimGrid; for Debian's own interpreter, which has python3-simgrid.

Reads {"capacity": [bytes/s], "jobs": [{"start", "compute", "bytes", "links", "rate", "iterations"}]} and prints
{"ends": [s], "cpu_s": s of the run alone} as JSON. CM02 without cross-traffic and latency is max-min fair sharing per
flow.
"""

# mypy: ignore-errors

import json
import sys
import time

if __name__ == "__main__":  # asv looks into every module here
    import simgrid

CONFIG = (
    "network/model:CM02",
    "network/crosstraffic:0",
    "network/bandwidth-factor:1",
    "network/latency-factor:1",
    "network/weight-S:0",
)
PRECISION = (
    ("surf/precision:1e-12", "precision/timing:1e-12"),
    ("maxmin/precision:1e-9", "precision/work-amount:1e-9"),
)


def configure():
    """The finest precision; the names of these settings depend on the version."""
    for names in PRECISION:
        for name in names:
            try:
                simgrid.Engine.set_config(name)
                break
            except (IndexError, RuntimeError):
                continue


def train(job, source, target, ends, i):
    """An actor: one job."""
    simgrid.this_actor.sleep_until(job["start"])
    for _ in range(job["iterations"]):
        if job["compute"] > 0:
            simgrid.this_actor.sleep_for(job["compute"])
        simgrid.Comm.sendto(source, target, job["bytes"])
    clock = simgrid.Engine.clock  # a function in some versions
    ends[i] = clock() if callable(clock) else clock


def main():
    """One pair of hosts for each job, with a route over its links."""
    case = json.load(sys.stdin)
    engine = simgrid.Engine([sys.argv[0], "--log=root.thres:critical", *(f"--cfg={c}" for c in CONFIG)])
    configure()
    zone = simgrid.NetZone.create_full_zone("zone")
    links = [
        zone.create_link(f"link{k}", capacity).set_latency(0).seal() for k, capacity in enumerate(case["capacity"])
    ]
    ends = [None] * len(case["jobs"])
    for i, job in enumerate(case["jobs"]):
        source, target = (zone.create_host(f"{end}{i}", 1e9).seal() for end in ("source", "target"))
        route = [simgrid.LinkInRoute(links[k]) for k in job["links"]]
        if job["rate"] is not None:  # a link of its own is a cap
            route.append(simgrid.LinkInRoute(zone.create_link(f"cap{i}", job["rate"]).set_latency(0).seal()))
        zone.add_route(source.netpoint, target.netpoint, None, None, route, True)
        simgrid.Actor.create(f"job{i}", source, train, job, source, target, ends, i)
    zone.seal()
    began = time.process_time()
    engine.run()
    print(json.dumps({"ends": ends, "cpu_s": time.process_time() - began}))


if __name__ == "__main__":
    main()
