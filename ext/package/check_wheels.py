"""Checks the packages that wheels.py has made: looks into each library, installs each wheel and the npm package as a user would, and runs the
scripts of sql/ wherever this machine can run a platform's programs. wheels.py calls check_packages().

A platform's answers are compared with those of the manylinux wheel on this machine, and those with sql/*.expected. A line for each platform
says "runs", with how, or "built, never run", with why.
"""
import glob
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile

import check
import cross
import sources
from command import Fault, run

ROOT = cross.ROOT
EXPORTS = ["sqlite3_tessera_init", "tessera_api"]
ZIG_ADDS = ("__mh_dylib_header", "___dso_handle") # its linker for macOS exports its own names for the library's beginning
SYSTEM = { # the libraries that every host of a platform has
    "linux-gnu": {"libc.so.6", "libm.so.6", "libpthread.so.0", "libdl.so.2"},
    "linux-musl": {"libc.so"},
    "macos": {"/usr/lib/libSystem.B.dylib"},
    "windows": {"KERNEL32.dll", "bcrypt.dll", "ADVAPI32.dll", "ntdll.dll", "WS2_32.dll"}, # and those of the C library, api-ms-win-crt-*
}
OLDEST_GLIBC = (2, 17)
OLDEST_MACOS = "11.0"
SCRIPTS = sorted(glob.glob(f"{ROOT}/sql/[0-9]*.sql")) # those that need no command of the shell but .load and .print
DATA = f"{ROOT}/sql/data"


# ---- What is in a library -------------------------------------------------------------------------------------------

def look_into(name, target, library):
    """Checks the exported names, the needed libraries and the oldest system of a library. Returns what it found as a text."""
    kind = next(k for k in SYSTEM if k in target)
    if kind == "windows":
        return look_into_dll(name, library)
    flags = ["--extern-only"] if kind == "macos" else ["--dynamic"]
    words = [line.split()[-1] for line in run(["llvm-nm", "--defined-only", *flags, library]).splitlines() if line.strip()]
    exported = sorted(w[1:] if kind == "macos" else w for w in words if w not in ZIG_ADDS)
    if exported != EXPORTS:
        raise Fault(f"{name} exports {exported[:10]}")
    headers = run(["llvm-objdump", "--private-headers", *(["--macho"] if kind == "macos" else []), library])
    if kind == "macos":
        needed = set(re.findall(r"cmd LC_LOAD_DYLIB\n.*?name (\S+)", headers, re.S))
        oldest = re.search(r"minos (\S+)", headers).group(1)
        if oldest != OLDEST_MACOS:
            raise Fault(f"{name} is for macOS {oldest}")
        if "arm64" in name and "LC_CODE_SIGNATURE" not in headers:
            raise Fault(f"{name} has no signature, without which arm64 does not load it")
        oldest = f"macOS {oldest}"
    else:
        needed = set(re.findall(r"^\s*NEEDED\s+(\S+)", headers, re.M))
        versions = sorted({tuple(map(int, v.split("."))) for v in re.findall(r"GLIBC_([\d.]+)", headers)})
        if versions and (kind == "linux-musl" or versions[-1] > OLDEST_GLIBC):
            raise Fault(f"{name} needs glibc {versions[-1]}")
        if not re.search(r"^\s*STACK off.*\n.*flags rw-", headers, re.M):
            raise Fault(f"{name} wants a stack that can be executed, which hardened systems refuse")
        if not re.search(r"FLAGS_1\s+0x0*[0-9a-f]*[89a-f]$", headers, re.M): # DF_1_NODELETE is 8
            raise Fault(f"{name} can be unmapped while its threads run")
        oldest = f"glibc {'.'.join(map(str, versions[-1]))}" if versions else "musl"
    foreign = needed - SYSTEM[kind]
    if foreign:
        raise Fault(f"{name} needs {sorted(foreign)}")
    return f"exports {', '.join(exported)}; needs {', '.join(sorted(os.path.basename(n) for n in needed))}; newest symbol of {oldest}"


def look_into_dll(name, library):
    headers = run(["llvm-readobj", "--coff-exports", "--coff-imports", library])
    exported = sorted(re.findall(r"^Export \{\n(?:.*\n)*?  Name: (\w+)", headers, re.M))
    if exported != EXPORTS:
        raise Fault(f"{name} exports {exported[:10]}")
    needed = set(re.findall(r"^Import \{\n  Name: (\S+)", headers, re.M))
    foreign = {n for n in needed if n.lower() not in {s.lower() for s in SYSTEM["windows"]} and not n.lower().startswith("api-ms-win-crt-")}
    if foreign:
        raise Fault(f"{name} needs {sorted(foreign)}")
    return f"exports {', '.join(exported)}; needs {', '.join(sorted(needed))}"


# ---- Running --------------------------------------------------------------------------------------------------------

def runner(target):
    """Returns (the words before a command that run a program of this target here, None), or (None, why there are none)."""
    processor, system = target.split("-")[:2]
    if system != "linux" or not sys.platform.startswith("linux"):
        return None, {"macos": "there is no Mac", "windows": "there is no Windows (`./run windows` runs it under wine)"}.get(system.split(".")[0], "this is no Linux")
    own = processor == platform.machine()
    if not own and not shutil.which(f"qemu-{processor}"):
        return None, f"there is no qemu-{processor}"
    words = [] if own else [f"qemu-{processor}"]
    loader = f"/lib/ld-musl-{processor}.so.1" if "musl" in target else {"x86_64": "/lib64/ld-linux-x86-64.so.2"}.get(processor, f"/lib/ld-linux-{processor}.so.1")
    if os.path.exists(loader):
        return words, None
    cross_root = f"/usr/{processor}-linux-gnu" # of Debian's package libc6-arm64-cross and its like
    if not own and os.path.exists(cross_root + loader):
        return [*words, cross_root + loader, "--library-path", f"{cross_root}/lib"], None # with -L qemu would find that directory for "/", too
    return None, f"there is no {loader}"


def build_host(target, place):
    """Builds test/cross/host.c with SQLite for the target. Returns the program."""
    program = f"{place}/host"
    command = cross.compiler(target, "-O0") # SQLite takes a minute to optimize
    run([*command, f"{ROOT}/test/cross/host.c", *sources.files(f"{cross.BUILD}/sources", "SQLite"), "-dynamic", "-lm", "-ldl", "-pthread", "-s", "-o", program])
    return program


def run_scripts(words, host, library, folder):
    """Runs each script in a directory that looks like the project's root. Returns {script: what it printed}."""
    printed = {}
    for script in SCRIPTS:
        place = tempfile.mkdtemp(dir=folder)
        os.mkdir(f"{place}/sql")
        os.symlink(DATA, f"{place}/sql/data")
        done = subprocess.run([*words, host, library, "t.db", script], cwd=place, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=600)
        if done.returncode:
            raise Fault(f"{os.path.basename(script)} ended with {done.returncode}:\n{done.stdout[-2000:]}")
        if 'Error: near "."' in done.stdout or "no such table" in done.stdout:
            raise Fault(f"test/cross/host.c does not understand {os.path.basename(script)}:\n{done.stdout[:2000]}")
        printed[os.path.basename(script)] = done.stdout.replace(place, ".")
    return printed


def check_shell(library):
    """Checks sql/*.expected with the sqlite3 shell of this machine."""
    for script in SCRIPTS:
        run([sys.executable, f"{ROOT}/test/sql/run.py", "sqlite3", library, DATA, script])


def compare(name, printed, expected):
    for script, text in printed.items():
        if text != expected[script]:
            wrong = next((a, b) for a, b in zip(text.splitlines() + [""], expected[script].splitlines() + [""]) if a != b)
            raise Fault(f"{name}: {script} printed {wrong[0]!r} instead of {wrong[1]!r}")


# ---- Installing -----------------------------------------------------------------------------------------------------

def install_here(place, folder):
    """Installs from the directory of all wheels into a new environment, as pip chooses, and asks it (try_installed.py)."""
    python = sys.executable if check.loads_extensions(sys.executable) else "/usr/bin/python3"
    run([python, "-m", "venv", f"{folder}/env"])
    inside = f"{folder}/env/bin/python"
    run([inside, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-index", "--find-links", place, "sqlite-tessera"])
    run([inside, f"{cross.HERE}/try_installed.py", DATA], cwd=folder)


def install_for(place, tag, library, folder):
    """Lets pip choose a wheel for a platform's tag, and checks that it holds this library."""
    target = f"{folder}/{tag}"
    run([sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-index", "--find-links", place, "--only-binary=:all:", "--no-deps",
               "--platform", tag, "--target", target, "sqlite-tessera"])
    with open(library, "rb") as a, open(f"{target}/tessera/{os.path.basename(library)}", "rb") as b:
        if a.read() != b.read():
            raise Fault(f"pip chooses the wheel of another platform for {tag}")


def install_npm(place, platforms, made, folder):
    """Installs the npm package into an empty project, and lets its index.js choose the prebuild of each platform."""
    node, tool = shutil.which("node"), shutil.which("npm")
    if not node or not tool:
        return "skipped: there is no node or no npm"
    with open(f"{folder}/package.json", "w", encoding="utf-8") as f:
        f.write('{"private": true}')
    run([tool, "install", "--offline", "--no-audit", "--no-fund", check.one(place, "sqlite-tessera-*.tgz")], cwd=folder)
    ask = ("const [system, cpu, musl] = process.argv.slice(1);"
           "Object.defineProperty(process, 'platform', {value: system}); Object.defineProperty(process, 'arch', {value: cpu});"
           "process.report.getReport = () => ({header: musl ? {} : {glibcVersionRuntime: '2.36'}});"
           "try { console.log(require('sqlite-tessera').getLoadablePath()); } catch (e) { console.log(e.message); }")
    for name, p in platforms.items():
        chosen = run([node, "-e", ask, *p.npm.split("-")], cwd=folder).strip()
        with open(made[name][0], "rb") as a:
            if not os.path.exists(chosen) or open(chosen, "rb").read() != a.read():
                raise Fault(f"index.js chooses for {p.npm}: {chosen}")
    refused = run([node, "-e", ask, "freebsd", "x64"], cwd=folder)
    if "for freebsd-x64 is not in" not in refused:
        raise Fault(f"index.js says for freebsd-x64: {refused}")
    own = run([node, "-e", "console.log(require('sqlite-tessera').getLoadablePath())"], cwd=folder).strip()
    check.check_shell(own, folder)
    return f"installed; chooses a prebuild for each of {len(platforms)} platforms; that of this machine runs"


# ---- All of it ------------------------------------------------------------------------------------------------------

def check_platform(name, p, library, folder, expected):
    """Returns (what this platform printed or None, a line that says whether it ran)."""
    found = look_into(name, p.target, library)
    for tag in p.wheel:
        install_for(f"{folder}/../wheels", tag, library, folder)
    words, why = runner(p.target)
    if words is None:
        return None, f"built, never run: {why}. It {found}"
    printed = run_scripts(words, build_host(p.target, folder), library, folder)
    if expected:
        compare(name, printed, expected)
    else:
        check_shell(library)
    return printed, f"runs{' under ' + words[0] if words else ''}: {len(printed)} scripts of sql/. It {found}"


def check_packages(place, platforms, made):
    """Prints a line for each package. Returns the number of those that fail."""
    failures, expected = 0, None
    with tempfile.TemporaryDirectory() as root:
        root = os.path.realpath(root)
        os.symlink(place, f"{root}/wheels")
        for name, p in platforms.items():
            try:
                printed, line = check_platform(name, p, made[name][0], tempfile.mkdtemp(dir=root), expected)
                expected = expected or printed
            except Fault as reason:
                failures, line = failures + 1, f"FAILED: {reason}"
            print(f"{name}: {line}", flush=True)
        if any(p.target.startswith(f"{platform.machine()}-linux-gnu") for p in platforms.values()):
            try:
                install_here(place, tempfile.mkdtemp(dir=root))
                print("pip: chooses the wheel of this machine, which answers as docs/hosts/expected says")
                print(f"npm: {install_npm(place, platforms, made, tempfile.mkdtemp(dir=root))}")
            except Fault as reason:
                failures += 1
                print(f"packages: FAILED: {reason}")
    return failures
