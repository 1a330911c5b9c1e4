"""The commented scenario that `weft init` writes; a test loads it and compares its defaults with the schema."""

from __future__ import annotations

TEMPLATE = """\
# A weft scenario. Run it:       weft simulate {name}
# Compare schedulers on it:      weft compare {name} --stack fifo-backfill --stack weft
# Look at the cluster:           weft topology {name}
# Unknown keys are errors; lines that start with "# key =" show defaults.

[cluster]
topology = "leaf-spine"        # single-switch, leaf-spine, three-tier, fat-tree, rails, torus, ...
racks = 6
servers_per_rack = 4
gpus_per_server = 4
gpu = "V100"
gpu_memory_gb = 16
nic_gbps = 10                  # speed of each server's NIC
oversubscription = 2.0         # bandwidth into a rack's servers / bandwidth out of the rack
intra_server_gbps = 300        # between GPUs of one server
# latency_us = 0.0             # one message between servers
# intra_latency_us = 0.0       # one message inside a server

[workload]
source = "poisson"             # poisson, batch, dynamic, snapshot, bursty, ada-srsf, trace, jobs
jobs = 120
load = 0.9                     # GPUs that jobs would keep busy if each ran alone and none waited, over those there are:
                               # 0.9 is busy. GPUs compute less than that, since jobs also communicate and wait
models = ["vgg16", "resnet50", "inception-v3", "lstm-ptb"]
gpus = {{1 = 0.5, 2 = 0.1, 4 = 0.2, 8 = 0.2}}   # how often each size is asked for
iterations = [200, 1000]       # drawn between these

[stack]
name = "weft"                  # weft stacks lists them; or order, place, interleave, pace one by one
# place = "first-fit"          # a layer beside the name replaces that layer

[network]
sharing = "max-min"            # ideal, max-min, k-way: how transfers share links
cost = "links"                 # links: bytes over links; tiers: a fixed share of compute time
# collective = "ring"          # for transfers whose profile does not say
# packet_loss = 0.0            # share of packets lost at random; with paces that set rates (flow, tcp:cubic, ...)
# cross_traffic = {{every_s = 2.0, seconds = [0.2, 2.0]}}        # every 2 s each server sends to another; likewise
# foreign = [{{src = "s0", dst = "s1", start_s = 60, gbps = 5}}]  # a TCP flow that is not ours; likewise

[run]
seed = 1
exact = true                   # false: measure a window and extrapolate, error stated
# effort = 1.0                 # with exact = false: higher is more accurate and slower
restart_s = 30                 # what a stopped job pays when it starts again
jitter = 0.0                   # spread of compute times, relative
# stragglers = 0.0             # share of worker iterations that are slow, by straggler_factor
# straggler_factor = 2.0
# start_latency_s = 0.0        # from the decision to the start of a job
# failure_rate = 0.0           # share of starts that fail
# checkpoint_every = 1         # iterations between checkpoints: where a stopped job resumes
# until_s = 86400.0            # stop the simulation there; default: when all jobs are done

[compare]                      # what weft compare does when no --stack is given
stacks = ["fifo-backfill", "weft"]
seeds = 5
"""
