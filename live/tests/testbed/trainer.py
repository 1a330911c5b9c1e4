"""A job of several ranks that knows nothing of weft: computing for COMPUTE seconds (0.15), then a ring.

python trainer.py FOLDER-OF-REPLAY.PY LOG ITERATIONS BYTES [COMPUTE]

LOG "-" is the one that WEFT_LOG names.
"""

import os
import sys

sys.path.insert(0, sys.argv[1])
from replay import Trainer

Trainer(
    {
        "name": os.environ["WEFT_JOB"], "addresses": os.environ["WEFT_ADDRESSES"].split(","),
        "port": int(os.environ["MASTER_PORT"]), "collective": "ring", "servers": 1, "seed": 0, "jitter": 0.0,
        "tasks": [
            ["compute", float(sys.argv[5]) if len(sys.argv) > 5 else 0.15, []],
            ["transfer", int(sys.argv[4]), [0]],
        ],
        "iterations": int(sys.argv[3]),
        "log": os.environ["WEFT_LOG"].rpartition(".")[0] if sys.argv[2] == "-" else sys.argv[2],
    },
    int(os.environ["RANK"]),
).run()  # fmt: skip
