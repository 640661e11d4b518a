// The shell's commands in the WebAssembly package, over a database that only notes what it is asked. usage: node script.mjs ROOT
import assert from "node:assert/strict";
import path from "node:path";
import { pathToFileURL } from "node:url";

const { Script, textOf } = await import(pathToFileURL(path.resolve(process.argv[2], "ext/wasm/script.js")));

/** A script in which the table `here` exists and `file.csv` has this text, and what its database was asked. */
function make(csv) {
  const asked = [];
  const database = {
    createFunction() {},
    exec(sql, parameters = []) {
      if (sql.includes("pragma_table_list")) return [{ columns: ["1"], rows: parameters[0] === "here" ? [[1n]] : [] }];
      asked.push([sql, ...parameters]);
      return [];
    },
  };
  return { script: new Script({ module: { FS: { readFile: () => csv } }, complete: () => true }, database), asked };
}

// A table that is not there gets the names of the first line; a table that is there gets all lines.
let { script, asked } = make('a,"b ""c"""\n1,\n"x,y",2\n');
assert.deepEqual(script.run(".import --csv file.csv gone"), []);
assert.deepEqual(asked, [['CREATE TABLE "gone"("a" TEXT, "b ""c""" TEXT)'], ["BEGIN"], ['INSERT INTO "gone" VALUES(?,?)', "1", ""],
  ['INSERT INTO "gone" VALUES(?,?)', "x,y", "2"], ["COMMIT"]]);
({ script, asked } = make("1,2\n"));
script.run(".import --csv file.csv here");
assert.deepEqual(asked, [["BEGIN"], ['INSERT INTO "here" VALUES(?,?)', "1", "2"], ["COMMIT"]]);
({ script, asked } = make("a,b\n1,2\n"));
script.run(".import --csv --skip 1 file.csv here");
assert.equal(asked.length, 3);
({ script, asked } = make(""));
assert.deepEqual([script.run(".import --csv file.csv gone"), asked], [[], []]);

// As in the shell, a box has the names of its columns, and a list after it has none.
script.database.exec = () => [{ columns: ["a"], rows: [["1"]], sql: "SELECT 1" }];
assert.equal(textOf(script.run(".mode box\n.mode list\nSELECT 1;")), "1\n");
assert.equal(textOf(script.run(".headers on\nSELECT 1;")), "a\n1\n");

assert.match(textOf(script.run(".once file")), /does not know/);
