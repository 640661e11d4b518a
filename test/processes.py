"""Ends the processes that a test has started, and those that they have started, when the test ends, however it ends. One that lived
on would keep the pipe open through which ctest reads the test's output, and ctest would wait for it.

usage: processes.py PARENT COMMAND...      # with_this_process(COMMAND): becomes the command, which is killed when the process PARENT ends
"""
import atexit
import ctypes
import os
import signal
import sys

SUBREAPER = 36   # prctl: processes whose parent has ended become children of this one
DEATH_SIGNAL = 1   # prctl: the signal that this process gets when its parent ends


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


def with_this_process(command):
    """The words of a command that is killed when the thread that starts it ends, even if this process is killed and can end nothing any more. Only Linux tells a process of that."""
    return [sys.executable, os.path.abspath(__file__), str(os.getpid()), *command] if sys.platform.startswith("linux") else list(command)


def become(parent, *command):
    ctypes.CDLL(None).prctl(DEATH_SIGNAL, signal.SIGKILL, 0, 0, 0)
    if os.getppid() == int(parent):   # otherwise it has ended before it could be told
        os.execvp(command[0], command)


if __name__ == "__main__":
    become(*sys.argv[1:])
