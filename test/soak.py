"""./run soak [minutes]: what `./run test` takes samples of, whole: every cut and every fault of a disk in memory (fault/crashes.c, fault/faults.c), each fault at each
system call of transactions and of upkeep (fault/crash*.py all), and all tests of a build with clang's UndefinedBehaviorSanitizer, one after the other; and beside them random histories, queries, crowds and hostile databases, with a
seed of their own in each round, simulated worlds (simulate/), and storms of TileDB's and tessera's processes (interop/storm.py). When the time is over it says what has come to its end. The whole takes hours.

usage: soak.py BUILD CLANG MINUTES
"""
import os
import signal
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
CLANG = os.path.abspath(sys.argv[2])
SKIPPED = 77  # what it needs cannot be had
WHOLE = [["ctest"], ["fault_crashes", "0"], ["fault_faults", "0"], ["fault/crash.py", "all"], ["fault/crash_upkeep.py", "all"]]
ROUND = [["sqlite/histories.py", "ROUNDS=2"], ["sqlite/statements.py", "ROUNDS=20"], ["sqlite/evolutions.py", "2", "SEED"], ["corpus/pushdown.py", "20", "SEED"], ["corpus/aggregate.py", "10", "SEED"],
         ["corpus/queries.py", "20", "SEED"], ["sqlite/queries.py", "TEXTS=200"], ["sqlite/query_windows.py", "TEXTS=300", "texts"], ["sqlite/front_sql.py", "TEXTS=200", "differential"], ["sqlite/crowd.py", "20"], ["sqlite/hostile.py", "ROUNDS=200"], ["sqlite/failed_commits.py", "ROUNDS=200"], ["interop/storm.py", "120", "SEED"], ["interop/feed.py", "120", "SEED"], ["simulate", "SEED", "0", "120"]]


def start(build, words, seed, **files):
    """Starts a program of the build, or a script with the sanitizer's library. Words with = go to its environment, the seed too. ctest: all tests of clang's build."""
    if words[0] == "ctest":
        line = ["ctest", "--test-dir", CLANG, "--output-on-failure", "--no-tests=error", "-E", "^lint$"]  # the build with gcc has run it
        return subprocess.Popen(line, start_new_session=True, **files)
    script, arrays = words[0].endswith(".py"), os.path.join(build, "arrays")
    arguments = [str(seed) if word == "SEED" else word for word in words[1:] if "=" not in word]
    environment = dict(os.environ, ASAN_OPTIONS="detect_leaks=0" if script else "", SEED=str(seed), PYTHONDONTWRITEBYTECODE="1",
                       **dict(word.split("=") for word in words[1:] if "=" in word))
    if not script:
        return subprocess.Popen([os.path.join(build, "test", words[0])] + ([] if words[0] == "simulate" else [arrays]) + arguments, env=environment, start_new_session=True, **files)
    libraries = [subprocess.run(["cc", "-print-file-name=libasan.so"], stdout=subprocess.PIPE, text=True).stdout.strip()]
    if words[0].startswith("fault/"):
        libraries += [os.path.join(folder, name) for folder, _, names in os.walk(build) for name in names if name == "libinject.so"][:1]
    if words[0].startswith("interop/"):  # with TileDB's own Python; only the processes that load the extension have the sanitizer
        environment["TESSERA_PRELOAD"] = ":".join(libraries)
        line = [sys.executable, os.path.join(HERE, "interop/run.py"), os.path.join(build, "interop"), os.path.join(HERE, words[0]), os.path.join(build, "tessera.so")]
        return subprocess.Popen(line + arguments, env=environment, start_new_session=True, **files)
    environment["LD_PRELOAD"] = ":".join(libraries)
    return subprocess.Popen([sys.executable, os.path.join(HERE, words[0]), os.path.join(build, "tessera.so"), arrays] + arguments, env=environment,
                            start_new_session=True, **files)


def stop(process):
    if process and process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


class Whole:
    """Runs the parts that have an end, one after the other. The output of each is in build/soak."""

    def __init__(self, build):
        self.build, self.left, self.process, self.ended, self.failed = build, list(WHOLE), None, [], []
        self.folder = os.path.join(build, "soak")
        os.makedirs(self.folder, exist_ok=True)

    def log(self, words):
        return os.path.join(self.folder, os.path.basename(words[0]) + ".log")

    def go_on(self):
        if self.process and self.process.poll() is not None:
            words = self.left.pop(0)
            self.ended.append(words[0])
            if self.process.returncode:
                self.failed.append(words[0])
            print(f"==> {words[0]}: {'FAILED' if self.process.returncode else 'whole, no failure'}; see {os.path.relpath(self.log(words))}", flush=True)
            self.process = None
        if self.left and not self.process:
            with open(self.log(self.left[0]), "w", encoding="utf-8") as log:
                self.process = start(self.build, self.left[0], 1, stdout=log, stderr=log)


def main():
    build, end = os.path.abspath(sys.argv[1]), time.time() + 60 * float(sys.argv[3])
    whole, seed, rounds, failed = Whole(build), int(time.time()), 0, []
    process = None
    try:
        while time.time() < end:
            seed += 1
            rounds += 1
            for words in ROUND:
                print("==>", *words, f"seed {seed}", flush=True)
                with open(whole.log(words), "w", encoding="utf-8") as log:
                    process = start(build, words, seed, stdout=log, stderr=log)
                while process.poll() is None and time.time() < end:
                    whole.go_on()
                    time.sleep(0.2)
                with open(whole.log(words), encoding="utf-8") as log:
                    text = log.read()
                if process.returncode not in (None, 0, SKIPPED) or "FAILED" in text: # it may not have come to its end
                    failed.append(f"{words[0]} with seed {seed}")
                    print(text, flush=True)
                if process.poll() is None:
                    break
        whole.go_on()
    finally: # they are sessions of their own, which Ctrl-C does not reach
        stop(process)
        stop(whole.process)
    print(f"{rounds} rounds, the last perhaps in part; whole: {', '.join(whole.ended) or 'nothing'}; not at its end: {', '.join(words[0] for words in whole.left) or 'nothing'}")
    print(f"failed: {', '.join(whole.failed + failed) or 'nothing'}")
    return 1 if whole.failed + failed else 0


if __name__ == "__main__":
    sys.exit(main())
