"""./run soak: what `./run test` takes samples of, whole. First each fault at each system call of transactions and of upkeep (fault/crash*.py all), every cut
and every fault of a disk in memory (fault/crashes.c, fault/faults.c), then, until the time is over, random histories, random queries, crowds and hostile databases with a seed of their own in each round.

usage: soak.py BUILD MINUTES
"""
import os
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))


def run(build, preload, script, *arguments, **environment):
    libraries = [subprocess.run(["cc", f"-print-file-name={name}"], stdout=subprocess.PIPE, text=True).stdout.strip() for name in ("libasan.so",)] + preload
    everything = dict(os.environ, LD_PRELOAD=":".join(libraries), ASAN_OPTIONS="detect_leaks=0", PYTHONDONTWRITEBYTECODE="1", **environment)
    command = [sys.executable, os.path.join(HERE, script), os.path.join(build, "tessera.so"), os.path.join(build, "arrays")] + list(arguments)
    print("==>", script, *arguments, *(f"{k}={v}" for k, v in environment.items()), flush=True)
    return subprocess.run(command, env=everything).returncode


def main():
    build, end = os.path.abspath(sys.argv[1]), time.time() + 60 * float(sys.argv[2])
    inject = [os.path.join(folder, name) for folder, _, names in os.walk(build) for name in names if name == "libinject.so"]
    failed = 0
    for script in ("fault/crash.py", "fault/crash_upkeep.py"):
        failed |= run(build, inject[:1], script, "all") if inject else 0
    for program in ("fault_crashes", "fault_faults"): # every fault that a disk in memory can have, every cut
        path = os.path.join(build, "test", program)
        if os.path.exists(path):
            print("==>", program, flush=True)
            failed |= subprocess.run([path, os.path.join(build, "arrays"), "0"]).returncode
    seed = int(time.time())
    while time.time() < end:
        seed += 1
        failed |= run(build, [], "sqlite/histories.py", ROUNDS="2", SEED=str(seed))
        failed |= run(build, [], "sqlite/evolutions.py", "2", str(seed))
        failed |= run(build, [], "corpus/pushdown.py", "20", str(seed))
        failed |= run(build, [], "corpus/aggregate.py", "10", str(seed))
        failed |= run(build, [], "sqlite/crowd.py", "20")
        failed |= run(build, [], "sqlite/hostile.py", ROUNDS="200", SEED=str(seed))
    return failed != 0


if __name__ == "__main__":
    sys.exit(main())
