"""./run fuzz: runs fuzz targets, each for some time, on the stored inputs, on inputs made from the corpus of arrays,
and on inputs that earlier runs have found.

usage: fuzz.py FUZZ DEV run [TARGET] [SECONDS]    FUZZ: the build with libFuzzer; DEV: the build with tests, which makes the first inputs. Arguments that begin with - are libFuzzer's
       fuzz.py FUZZ DEV keep TARGET               rewrites test/fuzz/corpus/TARGET.tar.xz: the smallest set with the coverage of all inputs
       fuzz.py FUZZ DEV add TARGET NAME FILE      stores FILE, a finding that has been fixed, as finding-NAME

New inputs are collected in FUZZ/found/TARGET, findings (crashes, leaks, timeouts, too much memory) in FUZZ/findings. Stored
inputs whose names begin with "finding-" are kept whatever they cover.
"""
import hashlib
import io
import lzma
import os
import re
import resource
import struct
import subprocess
import sys
import tarfile
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
TARGETS = ["objects", "filters", "answers", "array", "ingest", "sql", "create", "query", "front", "geometry"]
LENGTHS = {"objects": 8192, "filters": 4096, "answers": 4096, "array": 16384, "ingest": 4096, "sql": 4096, "create": 4096, "query": 2048, "front": 2048, "geometry": 2048}
KEPT_MOST = {"objects": 200_000, "filters": 60_000, "answers": 60_000, "array": 1_000_000, "ingest": 60_000, "sql": 1_000_000, "create": 100_000, "query": 200_000, "front": 200_000, "geometry": 60_000}  # bytes, before compression


def archive(target):
    return os.path.join(HERE, "corpus", target + ".tar.xz")


def unpack(target, folder):
    os.makedirs(folder, exist_ok=True)
    if os.path.exists(archive(target)):
        with tarfile.open(archive(target)) as tar:
            for member in tar.getmembers():
                with open(os.path.join(folder, os.path.basename(member.name)), "wb") as f:
                    f.write(tar.extractfile(member).read())


def seeds(fuzz, dev):
    """Makes inputs from the corpus of arrays and from the SQL of tests, once."""
    folder = os.path.join(fuzz, "seeds")
    for target in TARGETS:
        os.makedirs(os.path.join(folder, target), exist_ok=True)
    if not os.path.exists(os.path.join(folder, "made")):
        subprocess.run([os.path.join(dev, "test/fuzz/fuzz_seeds"), os.path.join(dev, "arrays"), folder], check=True)
        subprocess.run([sys.executable, os.path.join(HERE, "texts.py"), ROOT] + [os.path.join(folder, target) for target in ("create", "query", "front")], check=True)
        open(os.path.join(folder, "made"), "w").close()
    return folder


def processor_seconds():
    """Of all programs that this one has run. On a busy machine they say more than the clock does."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def command(fuzz, target, *arguments):
    # Without -entropic=0 libFuzzer spends most of its time on weights of inputs: their features are many.
    line = [os.path.join(fuzz, "test/fuzz/fuzz_" + target), f"-max_len={LENGTHS[target]}", "-rss_limit_mb=512", "-malloc_limit_mb=64", "-timeout=10", "-entropic=0"]
    dictionary = os.path.join(HERE, target + ".dict")
    if os.path.exists(dictionary):
        line.append("-dict=" + dictionary)
    return line + list(arguments)


def unpack_history(path, folder):
    """The inputs that one connection served (database_note in database.c), a file each, in their order. How many there are."""
    with open(path, "rb") as f:
        data = f.read()
    (count,), at, room = struct.unpack_from("<I", data), 4, LENGTHS["sql"]
    os.makedirs(folder)
    for n in range(count):
        (size,) = struct.unpack_from("<I", data, at)
        with open(os.path.join(folder, f"{n:03}"), "wb") as f:
            f.write(data[at + 4:at + 4 + size])
        at += 4 + room
    return count


def run(fuzz, dev, target, seconds, options):
    found, findings, stored = (os.path.join(fuzz, name, target) for name in ("found", "findings", "stored"))
    for folder in (found, os.path.dirname(findings)):
        os.makedirs(folder, exist_ok=True)
    unpack(target, stored)
    before = set(os.listdir(os.path.dirname(findings)))
    line = command(fuzz, target, f"-max_total_time={seconds}", "-print_final_stats=1", f"-artifact_prefix={findings}-", *options, found, stored,
                   os.path.join(seeds(fuzz, dev), target))
    log = os.path.join(fuzz, f"{target}.log")
    start, used = time.monotonic(), processor_seconds()
    history = os.path.join(fuzz, target + ".history")
    with open(log, "w", encoding="utf-8") as out:
        result = subprocess.run(line, stdout=out, stderr=subprocess.STDOUT,
                                env=dict(os.environ, ASAN_OPTIONS="quarantine_size_mb=16", UBSAN_OPTIONS="print_stacktrace=1", FUZZ_HISTORY=history))
    lasted, used = time.monotonic() - start, processor_seconds() - used
    with open(log, encoding="utf-8", errors="replace") as f:
        text = f.read()
    executions = re.findall(r"^stat::number_of_executed_units:\s*(\d+)|^#(\d+)\t", text, re.M)
    edges, all_edges = re.findall(r" cov: (\d+)", text), re.findall(r"\((\d+) inline 8-bit counters\)", text)
    new = sorted(set(os.listdir(os.path.dirname(findings))) - before)
    print(f"{target}: {max((int(a or b) for a, b in executions), default=0):,} executions in {lasted:.0f} s ({used:.0f} s of a core), {edges[-1] if edges else 0} of {all_edges[0] if all_edges else '?'} edges, "
          f"{len(os.listdir(found))} inputs kept; findings: {', '.join(new) or 'none'}", flush=True)
    if result.returncode:
        print(f"it stopped: see {os.path.relpath(log, ROOT)}; once more: {os.path.relpath(line[0], ROOT)} FINDING")
        if os.path.exists(history):
            folder = f"{findings}-history-{time.strftime('%Y%m%d-%H%M%S')}"
            print(f"or, with the inputs of its connections before it: {os.path.relpath(line[0], ROOT)} {os.path.relpath(folder, ROOT)}/*, {unpack_history(history, folder)} of them")
    if os.path.exists(history):
        os.remove(history)
    return result.returncode


def keep(fuzz, dev, target):
    with tempfile.TemporaryDirectory() as work:
        stored, small = os.path.join(work, "stored"), os.path.join(work, "small")
        unpack(target, stored)
        os.makedirs(small)
        sources = [stored] + [f for f in (os.path.join(fuzz, "found", target), os.path.join(seeds(fuzz, dev), target)) if os.path.isdir(f)]
        subprocess.run(command(fuzz, target, "-merge=1", small, *sources), check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        chosen = {}
        for name in os.listdir(stored):
            if name.startswith("finding-"):
                with open(os.path.join(stored, name), "rb") as f:
                    chosen[name] = f.read()
        for size, name in sorted((os.path.getsize(os.path.join(small, name)), name) for name in os.listdir(small)):
            if sum(map(len, chosen.values())) + size > KEPT_MOST[target]:
                break  # the remaining, larger inputs cover little more
            with open(os.path.join(small, name), "rb") as f:
                data = f.read()
            if data not in chosen.values():
                chosen[hashlib.sha256(data).hexdigest()[:12]] = data
    pack(target, chosen)


def pack(target, chosen):
    os.makedirs(os.path.dirname(archive(target)), exist_ok=True)
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for name in sorted(chosen):
            entry = tarfile.TarInfo(name)
            entry.size = len(chosen[name])
            tar.addfile(entry, io.BytesIO(chosen[name]))
    with open(archive(target), "wb") as f:
        f.write(lzma.compress(raw.getvalue(), preset=9 | lzma.PRESET_EXTREME))
    print(f"{target}: {len(chosen)} inputs, {os.path.getsize(archive(target)):,} bytes packed")


def add(target, name, path):
    with tempfile.TemporaryDirectory() as work:
        unpack(target, work)
        chosen = {}
        for stored in os.listdir(work):
            with open(os.path.join(work, stored), "rb") as f:
                chosen[stored] = f.read()
    with open(path, "rb") as f:
        chosen["finding-" + name] = f.read()
    pack(target, chosen)


def main():
    fuzz, dev, action = (os.path.abspath(a) if n < 2 else a for n, a in enumerate(sys.argv[1:4]))
    arguments = sys.argv[4:]
    if action == "keep":
        keep(fuzz, dev, arguments[0])
        return 0
    if action == "add":
        add(*arguments)
        return 0
    targets = [a for a in arguments if a in TARGETS]
    seconds = [a for a in arguments if a.isdigit()]
    options = [a for a in arguments if a.startswith("-")]
    wrong = [a for a in arguments if a not in targets + seconds + options]
    if wrong:
        print(f"no target and no number: {wrong[0]}; ./run fuzz [target] [seconds]; targets are {', '.join(TARGETS)}")
        return 2
    failed = 0
    for target in targets or TARGETS:
        failed |= run(fuzz, dev, target, int(seconds[0]) if seconds else 300, options)
    return failed != 0


if __name__ == "__main__":
    sys.exit(main())
