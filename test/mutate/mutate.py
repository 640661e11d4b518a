"""./run mutate [count] [seed]: do the tests notice a small change of the program? Plants mutants in all of core/ and ext/ (plant.py), builds them all at
once, runs each test once to see which mutants it reaches, and then, for `count` random mutants, runs the tests that reach it until one fails. A mutant
that no test reaches, or that passes all of them, has survived: it is listed, unless equivalent.txt says why it changes nothing.

What is known stays in DIRECTORY. While core/ and ext/ are as they were, the next run builds and maps only the tests that have changed or are new, keeps
those that were killed, and shows the others to the tests that they have not met. A run that is cut off goes on where it was.

usage: mutate.py ROOT DIRECTORY [COUNT [SEED]] [OPTION ...]
  --in PATH,...    plants mutants only in files whose paths begin so: cheaper to build. Another choice makes all anew.
  --tests REGEX    runs only these tests; if they are all unit tests, only their programs are built
  --alone          plants the sample alone, in a build with the sanitizers of build/dev: built sooner, and a read behind an array is seen. Another sample
                   makes all anew.
  --only TEXT      tries the mutants whose "file:line kind before" has the text
  --jobs N         processes at a time (2)
"""
import argparse
import collections
import concurrent.futures
import contextlib
import hashlib
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

parser = argparse.ArgumentParser()
parser.add_argument("root")
parser.add_argument("directory")
parser.add_argument("count", type=int, nargs="?", default=300)
parser.add_argument("seed", nargs="?", default="1")
parser.add_argument("--in", dest="inside", type=lambda text: tuple(text.split(",")), default=("core/", "ext/"))
parser.add_argument("--tests", type=re.compile, default=re.compile(""))
parser.add_argument("--alone", action="store_true")
parser.add_argument("--only")
parser.add_argument("--jobs", type=int, default=min(os.cpu_count() or 1, 2))
ARGUMENTS = parser.parse_args()
ROOT, PLACE = os.path.abspath(ARGUMENTS.root), os.path.abspath(ARGUMENTS.directory)
HERE = os.path.dirname(os.path.abspath(__file__))
BUILD = f"{PLACE}/build"
# Tests of sources, documents and packages see no mutant; the last one needs another build.
LEFT_OUT = re.compile(r"^(lint|docs/(links|style|pictures|index|options_of|c-api.md)|hosts|environment/.*|static/(?!core|sqlite).*|package/.*|browser/.*|sqlite/bounded)$")
# How long the tests of one mutant may take in each round: most mutants fall in the first, and the slow tests see only what is left.
ROUNDS = [10, 60]
WORKERS = ARGUMENTS.jobs
# A mutant that never ends must not take the machine's memory and disk. The sanitizers have an address space of their own.
LIMITS = "ulimit -f 16000000" if ARGUMENTS.alone else "ulimit -d 6000000 && ulimit -f 16000000"


def say(text):
    print(text, flush=True)


def output(*line, **options):
    return subprocess.run(line, capture_output=True, text=True, check=True, **options).stdout


def load(name, otherwise):
    try:
        with open(f"{PLACE}/{name}", encoding="utf-8") as f:
            return json.load(f)
    except FileNotFoundError:
        return otherwise


def store(name, value):
    with open(f"{PLACE}/{name}.new", "w", encoding="utf-8") as f:
        json.dump(value, f, indent=0)
    os.replace(f"{PLACE}/{name}.new", f"{PLACE}/{name}")


def python_with_clang():
    """Makes a virtual environment with clang's parser. Returns its Python."""
    folder = f"{PLACE}/python"
    python = f"{folder}/bin/python"
    if not os.path.exists(f"{folder}/complete"):
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        subprocess.run([python, "-m", "pip", "install", "-q", "--disable-pip-version-check", "libclang==18.1.1"], check=True)
        open(f"{folder}/complete", "w").close()
    return python


def stamp():
    """What the mutants are made of. If it differs, everything is made anew."""
    whole = hashlib.sha256(repr([ARGUMENTS.inside, *((ARGUMENTS.count, ARGUMENTS.seed) if ARGUMENTS.alone else ())]).encode())
    for path in output("git", "-C", ROOT, "ls-files", "core", "ext", "test/mutate/plant.py").splitlines():
        if os.path.isfile(f"{ROOT}/{path}"):
            with open(f"{ROOT}/{path}", "rb") as f:
                whole.update(f"{path} {hashlib.sha256(f.read()).hexdigest()}\n".encode())
    return whole.hexdigest()


def plant_mutants():
    say("planting mutants")
    sys.path.insert(0, f"{ROOT}/ext/package")
    import amalgamate
    sources = [path for base in ("core", "ext") for path in amalgamate.source_paths(ROOT, base) if "windows" not in path and path.startswith(ARGUMENTS.inside)]
    choose = f"lambda all: random.Random({ARGUMENTS.seed!r}).sample(all, min({ARGUMENTS.count}, len(all)))" if ARGUMENTS.alone else None
    program = f"import random, sys; sys.path.insert(0, {HERE!r}); import plant; print(plant.plant({ROOT!r}, {PLACE!r}, {sources!r}, {choose}), 'mutants')"
    subprocess.run([python_with_clang(), "-c", program], check=True)
    level = 0 if ARGUMENTS.tests.pattern else 1  # a few tests run sooner than everything is optimized
    flags = f"-O{level} -g0 -w -include {PLACE}/tree/mutant.h"
    subprocess.run(["cmake", "-G", "Ninja", "-S", f"{PLACE}/tree", "-B", BUILD, "-DCMAKE_BUILD_TYPE=Debug", f"-DCMAKE_C_FLAGS_DEBUG={flags}",
                    "-DTESSERA_PLANTED=OFF", f"-DTESSERA_SANITIZE={'ON' if ARGUMENTS.alone else 'OFF'}"], check=True, stdout=subprocess.DEVNULL)


def bring_tests():
    """Copies what has changed outside of core/ and ext/ into the tree with the mutants. Returns the names of these files, without their endings."""
    changed = set()
    for path in output("git", "-C", ROOT, "ls-files", ":!core", ":!ext").splitlines():
        here, there = f"{ROOT}/{path}", f"{PLACE}/tree/{path}"
        if not os.path.isfile(here):
            continue
        with open(here, "rb") as f:
            content = f.read()
        if not os.path.exists(there) or open(there, "rb").read() != content:
            os.makedirs(os.path.dirname(there), exist_ok=True)
            shutil.copy(here, there)
            changed.add(os.path.splitext(os.path.basename(path))[0])
    return changed


def build():
    say("building")
    names = [test["name"] for test in shown_tests()]
    targets = ["--target", *[name.split("/")[-1] for name in names]] if all(name.startswith("unit/") for name in names) else []
    subprocess.run(["cmake", "--build", BUILD, "-j", str(WORKERS), *targets], check=True, stdout=subprocess.DEVNULL)


def shown_tests():
    """Returns what ctest knows of the tests that may run, built or not."""
    shown = json.loads(output("ctest", "--test-dir", BUILD, "--show-only=json-v1"))
    return [test for test in shown["tests"] if not LEFT_OUT.match(test["name"]) and ARGUMENTS.tests.search(test["name"])]


def known_tests():
    """Returns {name: what ctest knows of it} for the tests that are built."""
    return {test["name"]: dict(test, properties={p["name"]: p["value"] for p in test["properties"]}) for test in shown_tests() if "command" in test}


one_at_a_time = collections.defaultdict(threading.Lock)  # tests that work in a directory of their own in the build


def run_test(test, seconds, **variables):
    """Runs a test's command as ctest would, but without its setup, which has been done once. Returns (whether it passed, seconds)."""
    properties = test["properties"]
    own = next((word for word in test["command"] if word.startswith(f"{BUILD}/stores-")), None)
    with one_at_a_time[own] if own else contextlib.nullcontext(), \
         tempfile.TemporaryDirectory(dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None, ignore_cleanup_errors=True) as place:
        environment = dict(os.environ, TMPDIR=place, **variables)
        environment.update(line.split("=", 1) for line in properties.get("ENVIRONMENT", []))
        begin = time.time()
        process = subprocess.Popen(["sh", "-c", f'{LIMITS} && exec "$@"', "sh", *test["command"]], cwd=properties.get("WORKING_DIRECTORY", BUILD), env=environment,
                                   start_new_session=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            code = process.wait(seconds)
        except subprocess.TimeoutExpired:
            code = None
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)  # and what it has left behind
        process.wait()
        return code == 0, time.time() - begin


def map_file(name):
    return f"{PLACE}/reached/{name.replace('/', '+')}"


def make_map(tests, count):
    """Runs each test that has not been run yet. Returns ({test: its seconds}, {mutant: [test, ...]})."""
    times = load("times.json", {})
    missing = [name for name in tests if name not in times]
    if missing:
        say(f"running {len(missing)} tests without a mutant")
        os.makedirs(f"{PLACE}/reached", exist_ok=True)
        if any(name.startswith(("interop/", "stores/")) for name in missing):
            subprocess.run(["ctest", "--test-dir", BUILD, "-R", "^environment/"], stdout=subprocess.DEVNULL)

        def one(name):
            with open(map_file(name), "wb") as seen:
                seen.truncate(count + 1)
            passed, seconds = run_test(tests[name], 900, TESSERA_MUTANTS_SEEN=map_file(name))
            return name, seconds if passed else None

        with concurrent.futures.ThreadPoolExecutor(WORKERS) as pool:
            for name, seconds in pool.map(one, missing):
                times[name] = seconds
                store("times.json", times)
    failing = [name for name in tests if times[name] is None]
    if failing:
        say(f"these fail or are skipped without a mutant, and are left out: {' '.join(failing)}")
    reached = collections.defaultdict(list)
    for name in tests:
        if times[name] is not None:
            with open(map_file(name), "rb") as seen:
                for number, byte in enumerate(seen.read()):
                    if byte:
                        reached[number].append(name)
    return times, reached


def prepare():
    """Brings PLACE up to date. Returns (mutants, tests, their seconds, {mutant: [test, ...]})."""
    os.makedirs(PLACE, exist_ok=True)
    if load("stamp.json", None) != stamp():
        plant_mutants()
        shutil.rmtree(f"{PLACE}/reached", ignore_errors=True)
        store("times.json", {})
        store("verdicts.json", {})
        store("stamp.json", stamp())
    changed = bring_tests()
    build()
    times, verdicts = load("times.json", {}), load("verdicts.json", {})
    again = {name for name in times if name.split("/")[-1] in changed or times[name] is None}
    store("times.json", {name: seconds for name, seconds in times.items() if name not in again})
    for verdict in verdicts.values():
        verdict["passed"] = [name for name in verdict["passed"] if name not in again]
    store("verdicts.json", verdicts)
    tests, mutants = known_tests(), load("mutants.json", [])
    return mutants, tests, *make_map(tests, len(mutants))


class Judge:
    """Shows mutants to tests. verdicts: {number as text: {"killer": a test or None, "passed": [test, ...]}}."""

    def __init__(self, tests, times, reached):
        self.tests, self.times, self.reached = tests, times, reached
        self.verdicts = load("verdicts.json", {})
        self.lock = threading.Lock()
        self.kills = collections.Counter()  # by test and folder

    def judge(self, mutant, budget):
        """Runs those of the tests that the mutant has not met until one fails, for `budget` seconds. First are those that are quick, that are named like
        the mutant's file or folder, and that killed its neighbours."""
        with self.lock:
            verdict = self.verdicts.setdefault(str(mutant["number"]), {"killer": None, "passed": []})
        folder, begin = os.path.dirname(mutant["file"]), time.time()
        subject = re.compile(f"{os.path.basename(folder)}|{os.path.splitext(os.path.basename(mutant['file']))[0]}")
        left = set(self.reached.get(mutant["number"], [])) - set(verdict["passed"])
        while left and verdict["killer"] is None and time.time() - begin < budget:
            name = min(left, key=lambda name: (self.times[name] + 0.1) / (1 + self.kills[name, folder]) / (10 if subject.search(name) else 1))
            left.remove(name)
            passed, _ = run_test(self.tests[name], 4 * self.times[name] + 4, TESSERA_MUTANT=str(mutant["number"]))
            with self.lock:
                if passed:
                    verdict["passed"].append(name)
                else:
                    verdict["killer"] = name
                    self.kills[name, folder] += 1
        with self.lock:
            store("verdicts.json", self.verdicts)

    def run(self, mutants):
        for budget in ROUNDS:
            alive = [m for m in mutants if self.describe(m)[0] == "survived"]
            if alive:
                say(f"{len(alive)} mutants, at most {budget} seconds for each")
            with concurrent.futures.ThreadPoolExecutor(WORKERS) as pool:
                list(pool.map(lambda m: self.judge(m, budget), alive))

    def describe(self, mutant):
        """Returns (verdict, detail)."""
        reached = self.reached.get(mutant["number"], [])
        verdict = self.verdicts.get(str(mutant["number"]), {"killer": None, "passed": []})
        if verdict["killer"]:
            return "killed", verdict["killer"]
        if not reached:
            return "unreached", "no test reaches it"
        return "survived", f"{len(set(verdict['passed']) & set(reached))} of the {len(reached)} tests that reach it"


def name_of(mutant):
    return f"{mutant['file']}: {mutant['function']}: {mutant['kind']}: {mutant['before']}"


def equivalent():
    """Mutants that change nothing: the lines of equivalent.txt, `file: function: kind: before | why`."""
    with open(f"{HERE}/equivalent.txt", encoding="utf-8") as f:
        return dict(line.rstrip("\n").rsplit(" | ", 1) for line in f if line.strip() and not line.startswith("#"))


def report(results):
    folders = collections.defaultdict(collections.Counter)
    for mutant, verdict, detail in results:
        folders["/".join(mutant["file"].split("/")[:2])][verdict] += 1
        folders["all"][verdict] += 1
        if verdict in ("survived", "unreached"):
            say(f"{mutant['number']} {verdict}: {mutant['file']}:{mutant['line']}: {mutant['function']}: {mutant['kind']}: "
                f"{mutant['before'][:110]}  ->  {mutant['after'][:110]}  ({detail})")
    say(f"\n{'folder':24} killed equivalent survived unreached  share")
    for folder, counts in sorted(folders.items(), key=lambda item: (item[0] == "all", item[0])):
        share = 100 * (counts["killed"] + counts["equivalent"]) / counts.total()
        say(f"{folder:24} {counts['killed']:6} {counts['equivalent']:10} {counts['survived']:8} {counts['unreached']:9} {share:5.0f} %")


def main():
    mutants, tests, times, reached = prepare()
    if ARGUMENTS.only:
        chosen = [m for m in mutants if ARGUMENTS.only in f"{m['file']}:{m['line']} {m['kind']} {m['before']}"]
    else:
        chosen = random.Random(ARGUMENTS.seed).sample(mutants, min(ARGUMENTS.count, len(mutants)))
    known = equivalent()
    say(f"{len(mutants)} mutants, of which tests reach {len(reached)}; trying {len(chosen)}")
    judge = Judge(tests, times, reached)
    judge.run([m for m in chosen if name_of(m) not in known])
    report([(m, "equivalent", known[name_of(m)]) if name_of(m) in known else (m, *judge.describe(m)) for m in chosen])


if __name__ == "__main__":
    main()
