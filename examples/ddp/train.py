"""A plain PyTorch DDP job over gloo that knows nothing of weft: 300 ms of computing, 5 MB of gradients.

The computing is a wait, so that two jobs on one laptop disturb each other on the network only; JITTER=0.03 makes it
vary by 3 % (its standard deviation). If WEFT_LOG is set, each iteration writes there when it began, when its backward
pass began and ended, and when it ended.
"""

import os
import random
import time

import torch
import torch.distributed as dist
from torch import nn

compute_s = float(os.environ.get("COMPUTE_S", "0.3"))
jitter = float(os.environ.get("JITTER", "0"))
iterations = int(os.environ.get("ITERATIONS", "20"))

torch.set_num_threads(1)
dist.init_process_group("gloo")
torch.manual_seed(0)
model = nn.parallel.DistributedDataParallel(nn.Sequential(*(nn.Linear(559, 559) for _ in range(4))))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
data = torch.randn(4, 559)
log = open(os.environ.get("WEFT_LOG", os.devnull), "w")  # noqa: SIM115 - open until the job ends
while "START_FILE" in os.environ and not os.path.exists(os.environ["START_FILE"]):  # so that two jobs begin together
    time.sleep(0.002)

for _ in range(iterations):
    start = time.monotonic()
    loss = model(data).square().mean()
    time.sleep(compute_s * max(0.0, random.gauss(1.0, jitter)))
    backward = time.monotonic()
    loss.backward()
    done = time.monotonic()
    optimizer.step()
    optimizer.zero_grad()
    print(start, backward, done, time.monotonic(), file=log, flush=True)
dist.destroy_process_group()
