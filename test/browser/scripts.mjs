// The SQL scripts of sql/ in WebAssembly: what they print must be what the sqlite3 shell prints with the native extension.
//
// usage: node scripts.mjs PACKAGE ROOT
// Each script runs in an engine of its own, whose files (in memory) look like the project's root.
import fs from "node:fs";
import path from "node:path";
import { pathToFileURL } from "node:url";

const [place, root] = process.argv.slice(2);
const load = (name) => import(pathToFileURL(path.resolve(place, name)));
const { createEngine } = await load("engine.js"), { Script, textOf } = await load("script.js"), { readModule, transport } = await load("node-transport.js");

function copy(FS, from, to) {
  if (!fs.statSync(from).isDirectory()) return FS.writeFile(to, fs.readFileSync(from));
  FS.mkdirTree(to);
  for (const name of fs.readdirSync(from)) copy(FS, path.join(from, name), `${to}/${name}`);
}

async function run(file) {
  const engine = await createEngine({ wasm: readModule(), transport: transport() }), { FS } = engine.module;
  copy(FS, path.join(root, "sql/data"), "/project/sql/data");
  FS.chdir("/project");
  const connect = (name) => {
    const database = engine.connect(name, 6, null);
    const digits = engine.bytes(Uint8Array.of(15, 0, 0, 0, 0, 0, 0, 0)); // of doubles, as older releases of SQLite print them
    engine.module._sqlite3_db_config(database.db, 1023, digits);
    return database;
  };
  const script = new Script(engine, connect("t.db"), { open: connect });
  const printed = textOf(script.run(fs.readFileSync(file, "utf8"), { text: true })).replaceAll("/project", ".");
  return { printed, memory: engine.module.HEAPU8.length };
}

let wrong = 0, count = 0;
for (const name of fs.readdirSync(path.join(root, "sql")).filter((n) => n.endsWith(".sql"))) {
  const began = performance.now();
  const { printed, memory } = await run(path.join(root, "sql", name));
  const expected = fs.readFileSync(path.join(root, "sql", name.replace(/sql$/, "expected")), "utf8");
  count++;
  console.log(`${printed === expected ? "same " : "OTHER"} ${name}: ${(performance.now() - began).toFixed(0)} ms, memory ${memory >> 20} MiB`);
  if (printed === expected) continue;
  wrong++;
  const got = printed.split("\n"), want = expected.split("\n");
  const i = got.findIndex((line, k) => line !== want[k]);
  console.log(`  line ${i + 1}\n  printed:  ${got[i]}\n  expected: ${want[i]}`);
}
console.log(`${count} scripts, ${wrong} with other answers`);
process.exit(wrong || count < 10 ? 1 : 0);
