"""Runs the tests of object stores beside every server that can be had: moto, and versitygw if it is built or can be built with Go; minio and
rclone if they are built; Azurite if npm can install it, and Google's XML API before fake-gcs-server if Go can build that (servers.py). rclone ignores If-None-Match, so arrays are only read there.
Each test has a server of its own: one more run at a time than the machine has processors, since some wait, the longest first. What a test prints is shown
when it ends. Tests and servers end with this program, even if it is killed.

usage: all.py CLIENT FOLDER LIBRARY CORPUS TILEDB_ENVIRONMENT ARROW_ENVIRONMENT [SERVER | TEST ...]      # beside these servers alone, these tests alone
"""
import concurrent.futures
import os
import subprocess
import sys
import time

import servers

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from processes import with_this_process

HERE = os.path.dirname(os.path.abspath(__file__))
CALLS = ("calls", "faults") # of the client
ARRAYS = ("surface", "names", "requests", "costs", "both_ways", "options", "transactions", "deaths", "troubles", "corpus", "cluster", "frames") # of arrays, by SQL
CLOUDS = ("dialects", *ARRAYS) # beside servers of other protocols
LONGEST = ("deaths", "transactions", "troubles", "surface", "corpus")
TESTS = {"moto": CALLS + ARRAYS + ("between",), "versitygw": CALLS + ARRAYS, "minio": ("surface", "both_ways", "transactions", "corpus", "cluster"), "rclone": ("corpus",),
         "azurite": CLOUDS, "gcs": CLOUDS}


def command(test, kind, arguments, program, python):
    """The words of a test's command line."""
    client, folder, library, corpus, tiledb, arrow = arguments
    script = os.path.join(HERE, f"{test}.py")
    if test == "dialects":
        return [sys.executable, script, client, os.path.join(folder, f"{kind}-{test}"), kind]
    if test in CALLS:
        return [sys.executable, script, client, os.path.join(folder, f"{kind}-{test}"), kind] + [program] * (kind == "versitygw")
    more = {"both_ways": [tiledb], "corpus": [corpus], "frames": [arrow]}.get(test, [])
    options = {"between": ["--beside", "azurite", "gcs"], "requests": ["--many"] * (TESTS[kind] is not CLOUDS), "cluster": ["--dask", python] if python else []}.get(test, [])
    return [sys.executable, script, library, os.path.join(folder, test), *more, kind, *options]


def chosen(words):
    """The tests beside each server, as TESTS has them, of those that the words name. Raises ValueError if they name none, or what does not exist."""
    servers_named = [word for word in words if word in TESTS] or list(TESTS)
    tests_named = [word for word in words if word not in TESTS]
    unknown = sorted(set(tests_named) - {test for tests in TESTS.values() for test in tests})
    if unknown:
        raise ValueError(f"neither a server nor a test: {', '.join(unknown)}; servers are {', '.join(TESTS)}")
    found = {kind: [test for test in TESTS[kind] if not tests_named or test in tests_named] for kind in servers_named}
    if not any(found.values()):
        raise ValueError(f"{', '.join(tests_named)}: these tests do not run beside {', '.join(servers_named)}")
    return {kind: tests for kind, tests in found.items() if tests}


def run(test, kind, words, folder):
    """Runs a test and shows what it prints. Returns its exit code, and the seconds of processor time that it and its servers took."""
    print(f"==> {test} beside {kind} begins", flush=True)
    began, environment = time.monotonic(), dict(os.environ, TESSERA_VERSITYGW=folder)
    with subprocess.Popen(with_this_process(words), env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace") as process:
        said = process.stdout.read()
        _, status, usage = os.wait4(process.pid, 0)
        code = process.returncode = os.waitstatus_to_exitcode(status)
    text = {0: "passed", 77: "skipped"}.get(code, f"failed ({code})")
    took = usage.ru_utime + usage.ru_stime
    print(f"{said}==> {test} beside {kind} {text} after {time.monotonic() - began:.0f} s, {took:.0f} s of processor time", flush=True)
    return code, took


def main():
    arguments = sys.argv[1:7]
    try:
        wanted = chosen(sys.argv[7:])
    except ValueError as error:
        print(error)
        return 2
    folder, jobs, skipped = os.path.join(arguments[1], "go"), [], 0
    cluster = any("cluster" in tests for tests in wanted.values())
    python = servers.dask(arguments[1]) if cluster else None
    if cluster and not python:
        print("Dask could not be installed: plain processes take its place")
    for kind, tests in wanted.items():
        program = None if kind == "moto" else servers.program_of(kind, folder)
        if kind != "moto" and not program:
            print(f"{kind} is not built: its {len(tests)} tests are skipped; Go builds versitygw, and minio and rclone with TESSERA_STORES=all")
            skipped += len(tests)
            continue
        jobs += [(test, kind, command(test, kind, arguments, program, python)) for test in tests]
    jobs.sort(key=lambda job: LONGEST.index(job[0]) if job[0] in LONGEST else len(LONGEST))
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count() + 1) as pool:
        ends = list(pool.map(lambda job: run(*job, folder), jobs))
    codes, times = [code for code, _ in ends], [took for _, took in ends]
    passed, skipped = codes.count(0), skipped + codes.count(77)
    failed = [f"{test} beside {kind}" for (test, kind, _), code in zip(jobs, codes) if code not in (0, 77)]
    print(f"{passed} passed, {len(failed)} failed, {skipped} skipped, {sum(times):.0f} s of processor time", *failed, sep="\n  ")
    return 1 if failed or "versitygw" in wanted and not servers.versitygw(folder) else 0


if __name__ == "__main__":
    sys.exit(main())
