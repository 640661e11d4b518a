// script.js: runs texts as the sqlite3 shell does: statements, and those of its commands that the manual uses.

/** What a script prints is a list of { text }, { columns, rows, mode } for a result, or { error, line }. */
export class Script {
  constructor(engine, database, { open = null } = {}) {
    this.engine = engine;
    this.database = database;
        this.reopen = open; // () -> Database, for .open
    this.mode = "list";
    this.headers = false;
    this.addFunctions(database);
  }

  /** The functions that the shell has: files lie in the module's memory. */
  addFunctions(database) {
    const { FS } = this.engine.module;
    database.createFunction("writefile", (to, bytes) => (FS.writeFile(to, bytes), bytes.length), 2);
    database.createFunction("readfile", (from) => (FS.analyzePath(from).exists ? FS.readFile(from) : null), 1);
  }

  /** Runs a text. `options` are those of exec(); with `stop` the first error ends it. */
  run(text, options = {}) {
    const output = [];
    let pending = "", begin = 0;
    const flush = () => {
      if (pending.trim()) this.statements(pending, begin, options, output);
      pending = "";
    };
    const lines = text.split("\n");
    for (let i = 0; i < lines.length; i++) {
      if (options.stop && output.at(-1)?.error) return output;
      if (!pending && lines[i].startsWith(".")) {
        try {
          this.command(lines[i], output);
        } catch (error) {
          output.push({ error: error.message, line: i + 1 });
        }
        continue;
      }
      if (!pending && !lines[i].trim()) continue;
      if (!pending) begin = i + 1;
      pending += (pending ? "\n" : "") + lines[i];
      if (!withoutComments(pending).trim()) {
        pending = "";
        continue;
      }
      if (lines[i].includes(";") && this.engine.complete(pending + "\n")) flush();
    }
    flush();
    return output;
  }

  statements(sql, line, options, output) {
    try {
      for (const result of this.database.exec(sql, [], options))
        output.push({ ...result, mode: this.mode, headers: this.headers, plan: /^\s*explain\s+query\s+plan/i.test(result.sql) });
    } catch (error) {
      output.push(...(error.results ?? []), { error: error.message, code: error.code, line });
    }
  }

  command(line, output) {
    const words = [...line.matchAll(/'((?:[^'])*)'|"((?:[^"])*)"|(\S+)/g)].map((m) => m[1] ?? m[2] ?? m[3]);
    switch (words[0]) {
      case ".load": // tessera is there
      case ".timer":
      case ".changes":
        break;
      case ".mode":
        this.mode = words[1];
        if (this.mode === "table" || this.mode === "column") this.headers = true; // a box has them by itself, and a list after it none
        break;
      case ".headers":
        this.headers = words[1] === "on";
        break;
      case ".print":
        output.push({ text: words.slice(1).join(" ") });
        break;
      case ".open":
        if (!this.reopen) throw new Error(".open: open another page instead");
        this.database = this.reopen(words[1]);
        this.addFunctions(this.database);
        break;
      case ".import":
        this.importCsv(words);
        break;
      default:
        throw new Error(`${words[0]}: this console does not know the command`);
    }
  }

  /** The rows of a CSV file go into a table. As in the shell, a table that is not there is made, with the names of the first row. */
  importCsv(words) {
    const skip = words.includes("--skip") ? Number(words[words.indexOf("--skip") + 1]) : 0;
    const [file, table] = words.slice(-2);
    const rows = parseCsv(this.engine.module.FS.readFile(file, { encoding: "utf8" })).slice(skip);
    if (!rows.length) return;
    const [found] = this.database.exec("SELECT 1 FROM pragma_table_list WHERE name = ?", [table]);
    if (!found.rows.length) this.database.exec(`CREATE TABLE ${quoted(table)}(${rows.shift().map((name) => `${quoted(name)} TEXT`).join(", ")})`);
    this.database.exec("BEGIN");
    for (const row of rows) this.database.exec(`INSERT INTO ${quoted(table)} VALUES(${row.map(() => "?").join(",")})`, row);
    this.database.exec("COMMIT");
  }
}

/** A name as SQL has it. */
function quoted(name) {
  return `"${name.replaceAll('"', '""')}"`;
}

/** A text without its comments, also one that has not ended; its literals are untouched. */
function withoutComments(sql) {
  return sql.replace(/('[^']*'|"[^"]*")|--[^\n]*|\/\*(?:[^*]|\*(?!\/))*(?:\*\/|$)/g, (all, literal) => literal ?? " ");
}

function parseCsv(text) {
  const rows = [];
  let row = [];
  for (const m of text.matchAll(/(?:"((?:[^"]|"")*)"|([^",\r\n]*))(,|\r?\n|$)/g)) {
    if (m[0] === "" && row.length === 0) break;
    row.push(m[1] !== undefined ? m[1].replaceAll('""', '"') : m[2]);
    if (m[3] !== ",") rows.push(row), (row = []);
  }
  return rows;
}

/** Output as the shell's text. Results must have been made with the option `text`. */
export function textOf(output, nameError = (e) => `Error in line ${e.line}: ${e.error}\n`) {
  return output.map((part) => {
    if (part.error !== undefined) return nameError(part);
    if (part.text !== undefined) return part.text + "\n";
    if (part.plan) return planText(part.rows);
    if (part.mode === "box") return boxText(part);
    const rows = part.headers ? [part.columns, ...part.rows] : part.rows;
    return rows.map((row) => row.map((v) => v ?? "").join("|") + "\n").join("");
  }).join("");
}

function planText(rows) {
  let text = "QUERY PLAN\n";
  const walk = (parent, indent) => {
    const below = rows.filter((r) => Number(r[1]) === parent);
    below.forEach((r, i) => {
      const last = i === below.length - 1;
      text += `${indent}${last ? "`--" : "|--"}${r[3]}\n`;
      walk(Number(r[0]), indent + (last ? "   " : "|  "));
    });
  };
  walk(0, "");
  return text;
}

const lengthOf = (text) => [...text].length;

function boxText({ columns, rows }) {
  if (!rows.length) return "";
  const cells = rows.map((row) => row.map((v) => (v ?? "").split("\n")));
  const widths = columns.map((name, i) => Math.max(lengthOf(name), ...cells.map((row) => Math.max(...row[i].map(lengthOf)))));
  const line = (left, middle, right) => left + widths.map((w) => "─".repeat(w + 2)).join(middle) + right + "\n";
  const pad = (text, w) => text + " ".repeat(w - lengthOf(text));
  const center = (text, w) => " ".repeat((w - lengthOf(text)) >> 1) + text + " ".repeat((w - lengthOf(text) + 1) >> 1);
  let text = line("┌", "┬", "┐") + "│" + columns.map((name, i) => ` ${center(name, widths[i])} │`).join("") + "\n" + line("├", "┼", "┤");
  for (const row of cells)
    for (let k = 0; k < Math.max(...row.map((lines) => lines.length)); k++)
      text += "│" + row.map((lines, i) => ` ${pad(lines[k] ?? "", widths[i])} │`).join("") + "\n";
  return text + line("└", "┴", "┘");
}
