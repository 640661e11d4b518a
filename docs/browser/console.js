// console.js: results as tables, pictures and texts. The page uses it, and so do the examples of the documentation.

const PNG = [137, 80, 78, 71];

/** A size in bytes as a person reads it. */
export function sizeText(bytes) {
  if (bytes < 1000) return `${bytes} B`;
  if (bytes < 1e6) return `${(bytes / 1e3).toFixed(bytes < 1e4 ? 1 : 0)} KB`;
  return `${(bytes / 1e6).toFixed(bytes < 1e7 ? 2 : 1)} MB`;
}

export function costText({ requests, bytes, ms }) {
  const time = ms < 10 ? `${ms.toFixed(1)} ms` : `${Math.round(ms)} ms`;
  return requests ? `${requests} request${requests === 1 ? "" : "s"}, ${sizeText(bytes)}, ${time}` : `no request, ${time}`;
}

function element(name, properties = {}, ...children) {
  const made = Object.assign(document.createElement(name), properties);
  made.append(...children);
  return made;
}

function cell(value) {
  if (value === null) return element("td", { className: "null", textContent: "NULL" });
  if (typeof value === "number" || typeof value === "bigint") return element("td", { className: "n", textContent: String(value) });
  if (value instanceof Uint8Array) {
    if (PNG.every((byte, i) => value[i] === byte)) {
      const url = URL.createObjectURL(new Blob([value], { type: "image/png" }));
      const image = element("img", { alt: "A picture that the query has drawn", src: url });
      image.onload = () => URL.revokeObjectURL(url);
      return element("td", {}, image);
    }
    const hex = [...value.subarray(0, 16)].map((byte) => byte.toString(16).padStart(2, "0")).join(" ");
    return element("td", { textContent: `${value.length} bytes: ${hex}${value.length > 16 ? " …" : ""}` });
  }
  return value.includes("\n") ? element("td", {}, element("pre", { textContent: value })) : element("td", { textContent: value });
}

/** A result as a table. */
export function tableOf({ columns, rows, more }) {
  const numbers = columns.map((_, i) => rows.length > 0 && rows.every((row) => row[i] === null || typeof row[i] === "number" || typeof row[i] === "bigint"));
  const head = element("tr", {}, ...columns.map((name, i) => element("th", { textContent: name, className: numbers[i] ? "n" : "", scope: "col" })));
  const body = rows.map((row) => element("tr", {}, ...row.map(cell)));
  const table = element("div", { className: "table", tabIndex: 0 }, element("table", {}, element("thead", {}, head), element("tbody", {}, ...body)));
  table.setAttribute("role", "region");
  table.setAttribute("aria-label", "Result");
  const under = more ? `The first ${rows.length} rows are shown.` : rows.length === 0 ? "No rows." : "";
  return under ? [table, element("p", { className: "more", textContent: under })] : [table];
}

export function errorOf(error) {
  return element("div", { className: "error", textContent: error.message, role: "alert" });
}
