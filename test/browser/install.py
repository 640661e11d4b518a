"""What a newcomer does with the npm package: npm pack, an empty project, the example of the README in Node, and in a page that vite has
bundled. all.py calls check()."""
import json
import os
import re
import shutil
import subprocess
import tempfile

import all as suite
import browser as devtools

VITE = "vite@7"
TYPES = """import { open, TesseraError, type Database, type Result } from "sqlite-tessera-wasm";
import { createEngine } from "sqlite-tessera-wasm/engine";
export async function first(): Promise<number | null> {
  const db: Database = await open(new Uint8Array(0), { timeout: 1000 });
  const r: Result = await db.query("SELECT ?", [1n], { limit: 1 });
  const engine = await createEngine({ wasm: fetch("x") });
  (await engine.open()).createFunction("f", (x) => x, 1);
  try { await db.close(); } catch (e) { if (e instanceof TesseraError) console.log(e.code, e.sql?.length); }
  return r.rows.length;
}
"""


def run(command, place, fault):
    done = subprocess.run(command, cwd=place, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode:
        fault(f"{' '.join(command)}: {done.stdout[-1500:]}")
    return done.stdout


def check(folder, program, fault):
    with open(f"{folder}/package/README.md", encoding="utf-8") as f:
        examples = re.findall(r"^```js\n(.*?)^```$", f.read(), re.M | re.S)
    if len(examples) != 2:
        return fault(f"the README has {len(examples)} examples, not 2")
    packed = run(["npm", "pack", "--silent", "--pack-destination", folder, f"{folder}/package"], folder, fault).strip().split("\n")[-1]
    print(f"  {packed}: {os.path.getsize(f'{folder}/{packed}')} bytes")
    project = f"{folder}/project"
    shutil.rmtree(project, ignore_errors=True)
    os.makedirs(project)
    with open(f"{project}/package.json", "w", encoding="utf-8") as f:
        json.dump({"name": "project", "private": True, "type": "module"}, f)
    run(["npm", "install", "--silent", "--no-audit", "--no-fund", f"{folder}/{packed}", VITE, "typescript@5"], project, fault)

    server = suite.Server(f"{folder}/site")
    address = f"{server.other}/demo.db" # another origin: its headers must be right
    try:
        with open(f"{project}/node.js", "w", encoding="utf-8") as f:
            f.write(examples[0].replace("https://example.org/demo.db", address))
        text = run(["node", "node.js"], project, fault)
        print(f"  Node: {' '.join(text.split())}")
        if not re.search(r"\d+ requests, \d+ bytes", text):
            fault(f"the example of the README in Node prints {text!r}")
        with open(f"{project}/engine.js", "w", encoding="utf-8") as f:
            f.write(examples[1])
        if "42" not in run(["node", "engine.js"], project, fault):
            fault("the second example of the README does not print 42")
        with open(f"{project}/types.ts", "w", encoding="utf-8") as f:
            f.write(TYPES)
        run(["npx", "tsc", "--noEmit", "--strict", "--target", "es2022", "--module", "nodenext", "--moduleResolution", "nodenext", "--lib", "es2022,dom", "types.ts"], project, fault)
        bundle(project, examples[0].replace("https://example.org/demo.db", address), program, fault)
    finally:
        server.close()


def bundle(project, example, program, fault):
    """The example in a page that vite builds, opened in the browser."""
    with open(f"{project}/index.html", "w", encoding="utf-8") as f:
        f.write('<!doctype html><title>working</title><link rel="icon" href="data:,"><script type="module" src="/main.js"></script>')
    with open(f"{project}/main.js", "w", encoding="utf-8") as f:
        f.write(example + "document.title = JSON.stringify({ rows, requests: traffic.requests });\n")
    run(["npx", "vite", "build", "--logLevel", "warn"], project, fault)
    wasm = [name for name in os.listdir(f"{project}/dist/assets") if name.endswith(".wasm")]
    if len(wasm) != 1:
        fault(f"vite's bundle has {wasm}")
    server = suite.Server(f"{project}/dist")
    try:
        with tempfile.TemporaryDirectory() as profile:
            browser = devtools.Browser(program, profile)
            browser.open(f"{server.here}/", "desktop")
            suite.wait_for(browser, "document.title !== 'working'", "the page that vite has bundled")
            print(f"  vite: {browser.evaluate('document.title')}")
            for message in browser.messages():
                fault(f"the page that vite has bundled: {message}")
            browser.close()
    finally:
        server.close()
