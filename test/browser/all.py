"""The package sqlite-tessera-wasm and its page, tested: `./run browser`.

usage: all.py EXTENSION FOLDER BROWSER [STEP ...]

FOLDER has the built package in FOLDER/package, and gets the page in FOLDER/site. EXTENSION is the native tessera, which makes the database and
gives the answers to compare with. The steps, all of them by default:

  size     everything that a page loads is at most 1,150,000 bytes after gzip
  scripts  the SQL scripts of sql/ print in WebAssembly what they print natively
  node     the package in Node: servers that misbehave, values, files, errors
  browser  the package in Chromium: the same servers, another origin, OPFS
  page     the page: its pixels, requests and bytes, at several widths, by keyboard; with --pictures its pictures for the README
  docs     buttons that run the examples of the documentation's site, if ./run docs has built it after the package
  install  npm pack, installed into an empty project: the README's example in Node, and in a page that vite has bundled
"""
import glob
import gzip
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "docs"))
import browser as devtools

MOST = 1_150_000  # bytes after gzip
STEPS = ("size", "scripts", "node", "browser", "page", "docs", "install")
LOADED = ("tessera.wasm", "tessera-module.js", "index.js", "client.js", "worker.js", "server.js", "engine.js", "http.js", "ranges.js", "opfs.js", "script.js")
faults = []


def fault(text):
    faults.append(text)
    print(f"  WRONG {text}")


def native(extension, database, sql):
    """The rows of a query, by the sqlite3 shell with the native extension."""
    out = subprocess.run(["sqlite3", "-batch", "-init", os.devnull, "-cmd", f".load {extension}", "-json", database, sql], check=True, stdout=subprocess.PIPE).stdout
    return [list(row.values()) for row in json.loads(out)]


def make_site(extension, folder):
    """The page with the package and the database, as one would put it on a server. Returns its folder."""
    site = f"{folder}/site"
    shutil.rmtree(site, ignore_errors=True)
    shutil.copytree(f"{ROOT}/docs/browser", site, ignore=shutil.ignore_patterns("*.sql"))
    shutil.copytree(f"{folder}/package", f"{site}/package")
    database = f"{folder}/demo.db"
    source = f"{ROOT}/docs/browser/demo.sql"
    if not os.path.exists(database) or os.path.getmtime(database) < os.path.getmtime(source):
        with tempfile.TemporaryDirectory() as place, open(source, "rb") as sql:
            os.symlink(f"{ROOT}/sql", f"{place}/sql")
            os.symlink(os.path.abspath(extension), f"{place}/tessera{os.path.splitext(extension)[1]}")
            subprocess.run(["sqlite3", "-batch", "-bail", "-init", os.devnull, "demo.db"], stdin=sql, check=True, cwd=place, stdout=subprocess.DEVNULL)
            shutil.move(f"{place}/demo.db", database)
    shutil.copy(database, f"{site}/demo.db")
    return site


class Server:
    """server.mjs, as long as the program runs."""

    def __init__(self, *folders):
        self.process = subprocess.Popen(["node", f"{HERE}/server.mjs", *folders], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        addresses = json.loads(self.process.stdout.readline())
        self.here, self.other = addresses["here"], addresses["other"]

    def close(self):
        self.process.stdin.close()
        self.process.wait(timeout=10)


def node(*command, **more):
    """Runs a program of Node and shows what it prints."""
    done = subprocess.run(["node", *command], **more)
    if done.returncode:
        fault(f"node {os.path.basename(command[0])} ended with {done.returncode}")


def check_size(folder):
    sizes = {}
    for name in LOADED:
        with open(f"{folder}/package/{name}", "rb") as f:
            sizes[name] = len(gzip.compress(f.read(), 9))
    total = sum(sizes.values())
    print(f"  {total} bytes after gzip: " + ", ".join(f"{name} {size}" for name, size in sorted(sizes.items(), key=lambda item: -item[1])[:3]) + ", ...")
    if total > MOST:
        fault(f"{total} bytes after gzip are more than {MOST}")


def wait_for(browser, condition, what, seconds=60):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if browser.evaluate(condition):
            return True
        time.sleep(0.1)
    fault(f"{what}: not within {seconds} s: {browser.evaluate('document.getElementById(`note`)?.textContent')}")
    return False


def check_browser(browser, server, expected):
    """The package in a page: tests.html runs browser.mjs and leaves what was wrong in its title."""
    browser.open(f"{server.here}/tests/tests.html", "desktop")
    for step in ("cases", "opfs", "opfsLater"):
        if step == "opfsLater":
            browser.open(f"{server.here}/tests/tests.html", "desktop")  # what was written stays, and what was left half done is undone
        script = f"import('./browser.mjs').then((m) => m.{step}({json.dumps(server.here)}, {json.dumps(server.other)}, {json.dumps(expected)})).catch((e) => [String(e.stack ?? e)])"
        wrong = browser.evaluate(script)
        print(f"  {step}: {'nothing' if wrong == [] else len(wrong or [])} wrong")
        for text in wrong if wrong is not None else ["the script has no result"]:
            fault(f"{step}: {text}")


OUTPUT = """(() => {
  const made = window.runs[%d].closest('.highlight-sql').nextElementSibling, shown = made.nextElementSibling;
  return {made: made.textContent, failed: made.dataset.failed, shown: shown?.matches('.highlight-text, .highlight-default') ? shown.textContent.trimEnd() : ''};
})()"""


def check_docs(browser, server, manual):
    """Buttons beside the examples of the manual run them, on each page: without errors, and what they print is what the page shows, where it shows something."""
    pages, total = 0, 0
    for path in sorted(glob.glob(f"{manual}/docs/**/*.html", recursive=True)):
        name = os.path.relpath(path, manual)
        with open(path, encoding="utf-8") as f:
            if "highlight-sql" not in f.read():
                continue
        browser.open(f"{server.here}/manual/{name}", "desktop")
        count = browser.evaluate("window.runs = [...document.querySelectorAll('button.run')], window.runs.length")
        for k in range(count):
            browser.evaluate(f"window.runs[{k}].click()")
            if not wait_for(browser, f"window.runs[{k}].textContent === 'Run again'", f"{name}: example {k} runs", 120):
                break
            output = browser.evaluate(OUTPUT % k)
            if output["failed"] != "0" or not output["made"].startswith(output["shown"]):
                fault(f"{name}: example {k} prints {output['made']!r}, and the page shows {output['shown']!r}")
        pages, total = pages + (count > 0), total + count
        for message in browser.messages():
            fault(f"{name}: {message}")
    print(f"  {total} examples on {pages} pages run")
    if total < 40:
        fault(f"only {total} examples have buttons")


def main():
    extension, folder, program, *steps = sys.argv[1:]
    extension, folder = os.path.abspath(extension), os.path.abspath(folder)
    pictures = "--pictures" in steps
    steps = [s for s in steps if not s.startswith("--")] or STEPS
    unknown = set(steps) - set(STEPS)
    if unknown:
        sys.exit(f"there are no steps {unknown}: {STEPS}")
    site = make_site(extension, folder)
    expected = native(extension, f"{folder}/demo.db", "SELECT (SELECT sum(elevation) FROM relief) AS land, (SELECT count(*) FROM airports WHERE state = 'CO') AS airports")
    if "size" in steps:
        print("Size")
        check_size(folder)
    if "scripts" in steps:
        print("The scripts of sql/")
        node(f"{HERE}/ranges.mjs", ROOT)
        node(f"{HERE}/script.mjs", ROOT)
        node(f"{HERE}/scripts.mjs", f"{folder}/package", ROOT)
    manual = f"{ROOT}/build/docs"
    server = Server(site, f"{HERE}=/tests/", f"{manual}=/manual/")
    try:
        if "node" in steps:
            print("The package in Node")
            node(f"{HERE}/node.mjs", f"{folder}/package", server.here, f"{folder}/demo.db", json.dumps(expected))
        if {"browser", "page", "docs"} & set(steps):
            with tempfile.TemporaryDirectory() as profile:
                browser = devtools.Browser(program, profile)
                if "browser" in steps:
                    print("The package in the browser")
                    check_browser(browser, server, expected)
                if "page" in steps:
                    print("The page")
                    import page
                    page.check(browser, server, folder, fault, wait_for, f"{ROOT}/docs/pictures" if pictures else None)
                if "docs" in steps and os.path.exists(f"{manual}/docs/browser/package/tessera.wasm"):
                    print("The documentation's site")
                    check_docs(browser, server, manual)
                elif "docs" in steps:
                    print("The documentation's site has no package: run ./run docs, then ./run browser docs")
                browser.close()
    finally:
        server.close()
    if "install" in steps:
        print("The package, installed")
        import install
        install.check(folder, program, fault)
    print(f"{len(faults)} faults")
    return bool(faults)


if __name__ == "__main__":
    sys.modules["all"] = sys.modules["__main__"]  # install.py imports this program
    sys.exit(main())
