// run.js: buttons that run the SQL examples of a page, in the page. The site has this file only if it has the package, too.
// The examples of a page are one session: a button first runs the examples before its own that have not run yet.
(() => {
  const base = new URL("../docs/browser/", document.currentScript.src);
  if (!/^https?:$/.test(location.protocol)) return; // a page from a file cannot start a worker

  // The demo's files have these paths in the manual: as `tessera demo` copies them, and in the project's directory.
  const FOLDERS = ["demo", "sql/data"];
  const ARRAYS = ["relief", "climate", "airports"];

  let session = null;
  const ran = new Set();

  /** Opens a database in memory, and beside it the files that the examples name: arrays out of the demo's database, and a CSV file. */
  async function start(text) {
    const [{ open }, { textOf }] = await Promise.all([import(new URL("package/index.js", base)), import(new URL("package/script.js", base))]);
    const db = await open(":memory:");
    const named = FOLDERS.filter((folder) => text.includes(`${folder}/`));
    if (named.length) await db.exec(`ATTACH '${new URL("demo.db", base).href}' AS demo`);
    for (const folder of named) {
      const csv = text.includes(`${folder}/airports.csv`);
      for (const name of ARRAYS)
        if (csv || new RegExp(`${folder}(/${name}\\b|')`).test(text)) // the array, or the whole folder
          await db.exec(`SELECT tessera_sync('db:demo.${name}', '${folder}/${name}')`);
      if (csv) {
        const bytes = new Uint8Array(await (await fetch(new URL("airports.csv", base))).arrayBuffer());
        await db.script(`SELECT writefile('${folder}/airports.csv', x'${Array.from(bytes, (b) => b.toString(16).padStart(2, "0")).join("")}')`, { text: true });
      }
    }
    if (named.length) await db.exec("DETACH demo");
    return { db, textOf };
  }

  /** Whether a block has no command of the shell but those that the page knows, and no bucket, which a page cannot reach. */
  const runs = (block) => !block.textContent.includes("tessera_configure(") && [...block.querySelector("pre").textContent.matchAll(/^\..*/gm)]
    .every(([line]) => /^\.(load|timer|changes|headers|print|import|mode (box|list))\b/.test(line));

  async function run(blocks, k, button) {
    button.disabled = true;
    button.textContent = session ? "Running" : "Starting";
    let shown = blocks[k].nextElementSibling;
    if (!shown?.classList.contains("ran")) {
      shown = document.createElement("pre");
      shown.className = "ran";
      shown.setAttribute("role", "status");
      blocks[k].after(shown);
    }
    try {
      session ??= start(blocks.map((block) => block.textContent).join("\n"));
      const { db, textOf } = await session;
      for (let i = 0; i <= k; i++) {
        if (ran.has(i) && i < k) continue;
        const { output, traffic } = await db.script(blocks[i].querySelector("pre").textContent, { text: true });
        ran.add(i);
        shown.dataset.failed = output.filter((e) => e.error).length;
        shown.textContent = (textOf(output, (e) => `${e.error}\n`) || "(no output)\n") + `-- ${Math.round(traffic.ms)} ms, in this page`;
      }
    } catch (error) {
      shown.dataset.failed = 1;
      shown.textContent = error.message;
    }
    button.disabled = false;
    button.textContent = "Run again";
  }

  document.addEventListener("DOMContentLoaded", () => {
    const blocks = [...document.querySelectorAll("article .highlight-sql")].filter(runs);
    blocks.forEach((block, k) => {
      const button = document.createElement("button");
      button.className = "run";
      button.type = "button";
      button.textContent = "Run";
      button.onclick = () => run(blocks, k, button);
      block.querySelector(".highlight").append(button);
    });
  });
})();
