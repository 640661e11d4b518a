"""./run mutate [count] [seed]: do the tests notice a small change of the program? Plants mutants in all of core/ and ext/ (plant.py), builds them all at
once, runs each test once to see which mutants it reaches, and then, for `count` random mutants, runs the tests that reach it, the fastest first,
until one fails. A mutant that no test reaches, or that passes all of them, has survived: it is listed, unless equivalent.txt says why it changes nothing.

usage: mutate.py ROOT DIRECTORY [COUNT [SEED]]
       mutate.py ROOT DIRECTORY --only TEXT    the mutants whose "file:line kind before" has the text
"""
import collections
import concurrent.futures
import json
import os
import random
import re
import subprocess
import sys
import tempfile
import time

ROOT, PLACE = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
HERE = os.path.dirname(os.path.abspath(__file__))
BUILD = f"{PLACE}/build"
# Tests of sources, documents and packages see no mutant; the last ones need other builds.
LEFT_OUT = re.compile(r"^(lint|docs/.*|hosts|environment/.*|static/(?!core|sqlite).*|package/.*|browser/.*|sqlite/bounded|README.md)$")
SECONDS = 240  # at most, for the tests of one mutant; the report says if some were not run


def say(text):
    print(text, flush=True)


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
    """What the sources and tests are. If it differs, the build and the map are made again."""
    return subprocess.run(["sh", "-c", f"cd '{ROOT}' && git ls-files -s core ext test && git diff -- core ext test"], capture_output=True, text=True, check=True).stdout


def build():
    say("planting mutants")
    sys.path.insert(0, f"{ROOT}/ext/package")
    import amalgamate
    sources = [path for base in ("core", "ext") for path in amalgamate.source_paths(ROOT, base) if "windows" not in path]
    program = f"import sys; sys.path.insert(0, {HERE!r}); import plant; print(plant.plant({ROOT!r}, {PLACE!r}, {sources!r}), 'mutants')"
    subprocess.run([python_with_clang(), "-c", program], check=True)
    say("building them")
    flags = f"-O1 -g0 -w -include {PLACE}/tree/mutant.h"
    for line in (["cmake", "-G", "Ninja", "-S", f"{PLACE}/tree", "-B", BUILD, "-DCMAKE_BUILD_TYPE=Debug", f"-DCMAKE_C_FLAGS_DEBUG={flags}"], ["cmake", "--build", BUILD]):
        subprocess.run(line, check=True, stdout=subprocess.DEVNULL)


def run_test(name, seconds, **variables):
    """Runs one test, with the environments that it needs. Returns (whether it passed, seconds)."""
    with tempfile.TemporaryDirectory(dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None, ignore_cleanup_errors=True) as place:
        begin = time.time()
        line = ["ctest", "--test-dir", BUILD, "-R", f"^{re.escape(name)}$", "--timeout", str(int(seconds)), "--no-tests=error"]
        done = subprocess.run(line, env=dict(os.environ, TMPDIR=place, **variables), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        return done.returncode == 0, time.time() - begin


def make_map(count):
    """Runs each test once. Returns {mutant: [(seconds, test), ...]}, the fastest first."""
    say("running each test once")
    shown = json.loads(subprocess.run(["ctest", "--test-dir", BUILD, "--show-only=json-v1"], capture_output=True, text=True, check=True).stdout)
    subprocess.run(["ctest", "--test-dir", BUILD, "-R", "^environment/"], stdout=subprocess.DEVNULL)
    reached, failed = collections.defaultdict(list), []

    def one(name):
        with tempfile.NamedTemporaryFile() as seen:
            seen.truncate(count + 1)
            passed, seconds = run_test(name, 900, TESSERA_MUTANTS_SEEN=seen.name)
            return name, passed, seconds, [n for n, byte in enumerate(open(seen.name, "rb").read()) if byte]

    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for name, passed, seconds, numbers in pool.map(one, [test["name"] for test in shown["tests"] if not LEFT_OUT.match(test["name"])]):
            if not passed:
                failed.append(name)
                continue
            for number in numbers:
                reached[number].append((seconds, name))
    if failed:
        say(f"these fail without a mutant, and are left out: {' '.join(failed)}")
    return {number: sorted(tests) for number, tests in reached.items()}


def prepare():
    """Returns (mutants, map) of the present sources."""
    os.makedirs(PLACE, exist_ok=True)
    known, now = f"{PLACE}/map.json", stamp()
    if os.path.exists(known):
        with open(known, encoding="utf-8") as f:
            stored = json.load(f)
        if stored["stamp"] == now:
            return stored["mutants"], {int(n): tests for n, tests in stored["map"].items()}
    build()
    with open(f"{PLACE}/mutants.json", encoding="utf-8") as f:
        mutants = json.load(f)
    reached = make_map(len(mutants))
    with open(known, "w", encoding="utf-8") as f:
        json.dump({"stamp": now, "mutants": mutants, "map": reached}, f)
    return mutants, reached


def judge(mutant, tests):
    """Returns (verdict, detail)."""
    if not tests:
        return "unreached", "no test reaches it"
    begin = time.time()
    for at, (seconds, name) in enumerate(tests):
        if time.time() - begin > SECONDS:
            return "survived", f"{at} of the {len(tests)} tests that reach it, in {SECONDS} seconds"
        if not run_test(name, 4 * seconds + 20, TESSERA_MUTANT=str(mutant["number"]))[0]:
            return "killed", name
    return "survived", f"all {len(tests)} tests that reach it"


def equivalent():
    """Mutants that change nothing: the lines of equivalent.txt, `file: kind: before | why`."""
    with open(f"{HERE}/equivalent.txt", encoding="utf-8") as f:
        return dict(line.rstrip("\n").split(" | ", 1) for line in f if line.strip() and not line.startswith("#"))


def report(results):
    folders = collections.defaultdict(collections.Counter)
    for mutant, verdict, _ in results:
        folders["/".join(mutant["file"].split("/")[:2])][verdict] += 1
    say(f"\n{'folder':24} killed survived unreached")
    for folder, counts in sorted(folders.items()):
        say(f"{folder:24} {counts['killed']:6} {counts['survived']:8} {counts['unreached']:9}")
    killed = sum(verdict == "killed" for _, verdict, _ in results)
    say(f"{killed} of {len(results)} killed: {100 * killed / max(len(results), 1):.1f} %")


def main():
    arguments = sys.argv[3:]
    mutants, reached = prepare()
    if arguments[:1] == ["--only"]:
        chosen = [m for m in mutants if arguments[1] in f"{m['file']}:{m['line']} {m['kind']} {m['before']}"]
    else:
        count, seed = int(arguments[0] if arguments else 300), arguments[1] if len(arguments) > 1 else "1"
        known = equivalent()
        chosen = random.Random(seed).sample([m for m in mutants if f"{m['file']}: {m['kind']}: {m['before']}" not in known], min(count, len(mutants)))
    say(f"{len(mutants)} mutants, of which tests reach {len(reached)}; trying {len(chosen)}")
    results = []
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for mutant, (verdict, detail) in zip(chosen, pool.map(lambda m: judge(m, reached.get(m["number"], [])), chosen)):
            results.append((mutant, verdict, detail))
            if verdict != "killed":
                say(f"{verdict}: {mutant['file']}:{mutant['line']}: {mutant['kind']}: {mutant['before'][:100]}  ->  {mutant['after'][:100]}  ({detail})")
    report(results)


if __name__ == "__main__":
    main()
