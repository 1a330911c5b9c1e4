"""A job of several ranks that knows nothing of weft: 150 ms of computing, then a ring over real sockets.

python trainer.py FOLDER-OF-REPLAY.PY LOG ITERATIONS BYTES
"""

import os
import sys

sys.path.insert(0, sys.argv[1])
from replay import Trainer

Trainer(
    {
        "name": os.environ["WEFT_JOB"], "addresses": os.environ["WEFT_ADDRESSES"].split(","),
        "port": int(os.environ["MASTER_PORT"]), "collective": "ring", "servers": 1, "seed": 0, "jitter": 0.0,
        "tasks": [["compute", 0.15, []], ["transfer", int(sys.argv[4]), [0]]], "iterations": int(sys.argv[3]),
        "log": sys.argv[2],
    },
    int(os.environ["RANK"]),
).run()  # fmt: skip
