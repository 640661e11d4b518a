"""Runs the JavaScript of the manual's pages in Node, and compares what it prints with what the pages show.

usage: node_pages.py EXTENSION PAGE ...
Node loads no native module here: `better-sqlite3` and `sqlite-tessera-wasm` are stand-ins that pass each statement on to Python's sqlite3, which has loaded the
extension. So the test needs nothing but node, of any version, and the sanitizer sees the extension. `./run hosts`, `./run package` and `./run browser` try the
drivers themselves. `sqlite-tessera` is the package's own code.

Blocks of ```js that follow each other are one program, until one of them has an `import`: it begins another. Where a block without a language is right behind
one, that must be what it prints. The exit code is 77, which ctest takes for "skipped", if there is no node.
"""
import base64
import json
import os
import re
import shutil
import sqlite3
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
import examples

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
MARK = "---- block"

# Asks Python, and waits for the answer.
ASK = """
const fs = require('node:fs');
const [to, from] = process.env.ASK_PYTHON.split(',').map(Number);
module.exports = (request) => {
  const line = JSON.stringify(request, (key, value) => (value?.type === 'Buffer' ? { blob: Buffer.from(value.data).toString('base64') } : value));
  fs.writeSync(to, `${line}\\n`);
  const size = Buffer.alloc(8);
  fs.readSync(from, size, 0, 8, null);
  const answer = Buffer.alloc(Number(size.readBigUInt64LE()));
  for (let n = 0; n < answer.length;) n += fs.readSync(from, answer, n, answer.length - n, null);
  const { error, ...found } = JSON.parse(answer, (key, value) => (value?.blob !== undefined ? Buffer.from(value.blob, 'base64') : value));
  if (error) throw new Error(error);
  return found;
};
"""
# As much of better-sqlite3 as the pages use. It binds every number as a REAL.
DRIVER = """
const ask = require('ask-python');
module.exports = class Database {
  constructor(path) { this.number = ask({ open: path }).number; }
  loadExtension(path) { ask({ number: this.number, load: path }); }
  exec(text) { ask({ number: this.number, text, script: true }); return this; }
  prepare(text) {
    let first = false;
    const all = (...values) => {
      const { columns, rows } = ask({ number: this.number, text, values, real: true });
      return first ? rows.map((row) => row[0]) : rows.map((row) => Object.fromEntries(columns.map((name, i) => [name, row[i]])));
    };
    return { all, get: (...values) => all(...values)[0], iterate: (...values) => all(...values).values(), run: all, pluck() { first = true; return this; } };
  }
};
"""
# As much of the package for browsers as the pages use. Whatever is opened is the file demo.db.
WASM = """
import ask from 'ask-python';
export async function open(path) {
  const { number } = ask({ open: path.split('/').pop() || ':memory:', ready: true });
  const query = async (text, values = []) => ({ ...ask({ number, text, values }), traffic: { requests: 1, bytes: 65536 } });
  return { query, sql: query, close: async () => {} };
}
"""


def make_packages(folder, extension):
    """node_modules with the stand-ins, and with sqlite-tessera as npm installs it."""
    for name, main, code in (("ask-python", "index.js", ASK), ("better-sqlite3", "index.js", DRIVER), ("sqlite-tessera-wasm", "index.mjs", WASM)):
        os.makedirs(os.path.join(folder, "node_modules", name))
        for file, text in ((main, code), ("package.json", json.dumps({"name": name, "main": main, "exports": f"./{main}"}))):
            with open(os.path.join(folder, "node_modules", name, file), "w", encoding="utf-8") as f:
                f.write(text)
    package = os.path.join(folder, "node_modules", "sqlite-tessera")
    os.makedirs(package)
    shutil.copyfile(os.path.join(ROOT, "ext", "npm", "index.js"), os.path.join(package, "index.js"))
    shutil.copytree(os.path.join(ROOT, "sql", "data"), os.path.join(package, "demo"))
    platform = subprocess.run(["node", "-p", "`${process.platform}-${process.arch}${process.platform === 'linux' && "
                               "!process.report.getReport().header.glibcVersionRuntime ? '-musl' : ''}`"], stdout=subprocess.PIPE, text=True, check=True, env=environment())
    prebuild = os.path.join(package, "prebuilds", platform.stdout.strip())
    os.makedirs(prebuild)
    os.symlink(extension, os.path.join(prebuild, "tessera" + os.path.splitext(extension)[1]))


def environment(**more):
    return {**{name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}, **more}  # the sanitizer's library is for the extension


def programs(text):
    """(name of the file, [(title, code, what is shown)]) of each program of a page."""
    found = []
    for block in examples.examples(text, "js"):
        module = re.search(r"^import ", block[1], re.M) is not None
        if module or not found or found[-1][0] == "page.mjs":
            found.append(("page.mjs" if module else "page.js", []))
        found[-1][1].append(block)
    return found


class Databases:
    """Answers the stand-ins."""

    def __init__(self, extension):
        self.extension, self.open = extension, []

    def connect(self, path):
        db = sqlite3.connect(path, isolation_level=None)
        db.enable_load_extension(True)
        return db

    def answer(self, request):
        if "open" in request:
            db = self.connect(request["open"])
            if request.get("ready"):
                db.load_extension(self.extension)
                for name in ("relief", "climate") if not db.execute("SELECT 1 FROM sqlite_schema").fetchone() else ():
                    db.execute("SELECT tessera_sync(?, ?)", (os.path.join(ROOT, "sql", "data", name), f"db:{name}"))
            self.open.append(db)
            return {"number": len(self.open) - 1}
        db = self.open[request["number"]]
        if "load" in request:
            db.load_extension(request["load"])
            return {}
        if request.get("script"):
            db.executescript(request["text"])
            return {}
        values = [base64.b64decode(v["blob"]) if isinstance(v, dict) else float(v) if request.get("real") and isinstance(v, int) else v for v in request["values"]]
        cursor = db.execute(request["text"], values)
        rows = [[{"blob": base64.b64encode(v).decode()} if isinstance(v, bytes) else v for v in row] for row in cursor]
        return {"columns": [column[0] for column in cursor.description or ()], "rows": rows}

    def serve(self, requests, answers):
        for line in requests:
            try:
                answer = self.answer(json.loads(line))
            except sqlite3.Error as e:
                answer = {"error": str(e)}
            text = json.dumps(answer).encode()
            answers.write(len(text).to_bytes(8, "little") + text)
            answers.flush()


def run(file, blocks, extension):
    """What each block of a program prints."""
    with open(file, "w", encoding="utf-8") as f:
        f.write("".join(f"console.log({json.dumps(MARK)});\n{code}" for _, code, _ in blocks))
    requests, ask = os.pipe()
    answers, reply = os.pipe()
    with open("printed", "w+", encoding="utf-8") as printed:
        node = subprocess.Popen(["node", file], stdout=printed, stderr=subprocess.STDOUT, pass_fds=(ask, answers), env=environment(ASK_PYTHON=f"{ask},{answers}"))
        os.close(ask)
        os.close(answers)
        with os.fdopen(requests, encoding="utf-8") as lines, os.fdopen(reply, "wb") as out:
            Databases(extension).serve(lines, out)
        code = node.wait()
        printed.seek(0)
        text = printed.read()
    return [part.lstrip("\n") for part in text.split(MARK)[1:]] if code == 0 else [text]


def check(page, extension):
    """The number of faults of a page."""
    with open(page, encoding="utf-8") as f:
        found = programs(f.read())
    wrong, before = 0, os.getcwd()
    for file, blocks in found:
        with tempfile.TemporaryDirectory() as folder:
            make_packages(folder, extension)
            os.chdir(folder)
            printed = run(file, blocks, extension)
            os.chdir(before)
        if len(printed) != len(blocks):
            print(f"{page}: {blocks[0][0]}: it ends with\n{printed[-1]}")
            wrong += 1
            continue
        wrong += examples.wrong_outputs(page, blocks, printed)
    return wrong + (not found)


def main():
    if not shutil.which("node"):
        print("SKIPPED: there is no node")
        return 77
    extension, pages = os.path.abspath(sys.argv[1]), [os.path.abspath(p) for p in sys.argv[2:]]
    wrong = sum(check(page, extension) for page in pages)
    print(f"{len(pages)} pages, {wrong} wrong")
    return wrong != 0


if __name__ == "__main__":
    sys.exit(main())
