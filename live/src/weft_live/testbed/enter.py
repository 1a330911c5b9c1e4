"""Runs a command in a network namespace: python enter.py NAMESPACE-FILE PARENT COMMAND ...

The command ends when its parent does, in whatever way that ends; if PARENT is 0, the command lives on. "-" stands for
the NAMESPACE-FILE that WEFT_NETNS names. This script needs only the standard library.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG, CLONE_NEWNET = 1, 0x40000000


def main(arguments: list[str]) -> None:
    """Enter, and become the command."""
    namespace, parent, *command = arguments
    libc = ctypes.CDLL(None, use_errno=True)
    if namespace == "-":
        namespace = os.environ["WEFT_NETNS"]
    if int(parent):
        libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != int(parent):
            sys.exit("the process that started this one has gone")
    file = os.open(namespace, os.O_RDONLY | os.O_CLOEXEC)
    if libc.setns(file, CLONE_NEWNET) != 0:
        sys.exit(f"cannot enter {namespace}: {os.strerror(ctypes.get_errno())}")
    os.execvp(command[0], command)


if __name__ == "__main__":
    main(sys.argv[1:])
