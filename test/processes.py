"""Ends the processes that a test has started, and those that they have started, when the test ends, however it ends. One that lived
on would keep the pipe open through which ctest reads the test's output, and ctest would wait for it.
"""
import atexit
import ctypes
import os
import signal
import sys

SUBREAPER = 36   # prctl: processes whose parent has ended become children of this one


def children():
    """The processes whose parent is this one."""
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/stat", "rb") as f:
                parent = int(f.read().rpartition(b")")[2].split()[1])
        except OSError:
            continue   # it has ended
        if parent == os.getpid():
            found.append(int(name))
    return found


def end_all(process):
    while os.getpid() == process and (found := children()):   # not in a copy that a test has forked
        for child in found:
            try:
                os.kill(child, signal.SIGKILL)
                os.waitpid(child, 0)
            except (ProcessLookupError, ChildProcessError):
                pass


def end_with_this_process():
    """Call it when a test begins. Only Linux tells a process of its children's children; on other systems it does nothing."""
    if sys.platform.startswith("linux"):
        ctypes.CDLL(None).prctl(SUBREAPER, 1, 0, 0, 0)
        atexit.register(end_all, os.getpid())
