// page.js: the page. It opens the database behind a URL, and connects the map, the console and the list of queries.
import { costText, errorOf, sizeText, tableOf } from "./console.js";
import { EarthMap } from "./map.js";

const $ = (id) => document.getElementById(id);
const address = new URL(new URLSearchParams(location.search).get("db") ?? "demo.db", location.href).href;

const PLACES = [
  ["Himalaya", 86, 29, 22], ["Andes", -69, -20, 12], ["Alps", 10, 46, 30], ["Rift Valley", 35, 1, 14], ["Mariana Trench", 143, 15, 16],
  ["Mid-Atlantic Ridge", -33, 12, 7], ["Hawaii", -158, 22, 20], ["Rockies", -108, 40, 22], ["Antarctica", 20, -76, 4], ["Indonesia", 118, -2, 14],
];

const EXAMPLES = [
  ["Highest cells", `SELECT elevation, (y + 0.5) / 3 AS latitude, (x + 0.5) / 3 AS longitude
  FROM relief ORDER BY elevation DESC LIMIT 5;`],
  ["Airports above 2,500 m", `-- Each airport looks its elevation up in the relief.
SELECT a.iata, a.name, s.state, r.elevation
  FROM airports a
  JOIN states s ON s.code = a.state
  JOIN relief r ON r.y = floor(a.lat * 3) AND r.x = floor(a.lon * 3)
 WHERE r.elevation > 2500 ORDER BY r.elevation DESC;`],
  ["A picture of July", `SELECT tessera_png('db:climate', 'sst', '{"month":7}',
  '{"width":720,"colormap":"turbo","min":-2,"max":31,"flip":true}') AS july;`],
  ["Tibet, in shades", `SELECT tessera_png('db:relief', 'elevation', '{"y":[72,126],"x":[216,318]}',
  '{"width":640,"colormap":"terrain","flip":true}') AS tibet;`],
  ["Time travel", `-- The same cells of the sea, as each of twelve commits left them.
SELECT m.name AS month,
       (SELECT round(avg(sst), 1) FROM sea(m.at) WHERE j BETWEEN 62 AND 65 AND i BETWEEN 52 AND 56) AS "off Cape Hatteras",
       (SELECT round(avg(sst), 1) FROM sea(m.at) WHERE j BETWEEN 26 AND 29 AND i BETWEEN 163 AND 167) AS "Tasman Sea"
  FROM moments m ORDER BY m.month;`],
  ["Sea by zones", `SELECT j/15*30 - 90 AS south, j/15*30 - 60 AS north,
       round(avg(sst) FILTER (WHERE month IN (1, 2, 3)), 1) AS jan_to_mar,
       round(avg(sst) FILTER (WHERE month IN (7, 8, 9)), 1) AS jul_to_sep
  FROM climate GROUP BY j/15 ORDER BY 1 DESC;`],
  ["Averages as a picture", `-- A SELECT over columns becomes a grid: the mean of 6 x 6 cells, drawn.
SELECT tessera_png('SELECT avg(elevation) FROM relief GROUP BY y/6, x/6',
  '{"width":720,"colormap":"terrain","flip":true}') AS earth;`],
  ["In letters", `SELECT tessera_preview('db:relief', 'elevation', NULL, '{"flip":true,"width":100,"height":30,"min":-500,"max":3000}') AS earth;`],
  ["What is in the file", `SELECT name, sum(pgsize) AS bytes, count(*) AS pages FROM dbstat GROUP BY name ORDER BY bytes DESC LIMIT 12;`],
  ["What a slice costs", `EXPLAIN QUERY PLAN
SELECT avg(elevation) FROM relief WHERE y BETWEEN 90 AND 149 AND x BETWEEN 0 AND 59;
SELECT count(*) AS cells, avg(elevation) AS mean FROM relief WHERE y BETWEEN 90 AND 149 AND x BETWEEN 0 AND 59;
SELECT name, value FROM tessera_stats WHERE name IN ('tiles_considered', 'tiles_skipped_by_domain', 'tiles_read');`],
];

let database, size = 0;
const totals = { requests: 0, bytes: 0 };

/** Runs a query of the map, and lists it. */
async function ask(sql, parameters = [], signal) {
  const result = await (await database).query(sql, parameters, { signal });
  account(result.traffic, sql);
  return result;
}

function account(traffic, sql) {
  totals.requests += traffic.requests;
  totals.bytes += traffic.bytes;
  $("meter-bytes").textContent = sizeText(totals.bytes);
  $("meter-requests").textContent = `${totals.requests} requests`;
  $("meter-bar").style.width = `${Math.min(100, (100 * totals.bytes) / (size || 1))}%`;
  if (!sql) return;
  const item = document.createElement("li"), button = document.createElement("button"), code = document.createElement("code"), cost = document.createElement("small");
  code.textContent = sql;
  const [first, ...rest] = costText(traffic).split(", "), bold = document.createElement("b");
  bold.textContent = first;
  cost.append(bold, ", " + rest.join(", "));
  button.append(code, cost);
  button.title = "Put this query into the console";
  button.onclick = () => {
    $("sql").value = sql;
    $("sql").focus();
  };
  item.append(button);
  $("queries").prepend(item);
  while ($("queries").children.length > 14) $("queries").lastChild.remove();
}

function note(text, bad = false) {
  $("note").textContent = text;
  $("note").hidden = !text;
  $("note").classList.toggle("bad", bad);
}

// ---- The map -------------------------------------------------------------------------------------------------------------

const map = new EarthMap($("canvas"), ask, {
  moved({ lon, lat, zoom }) {
    clearTimeout(moved.timer);
    moved.timer = setTimeout(() => history.replaceState(null, "", `#${lat.toFixed(2)},${lon.toFixed(2)},${zoom.toFixed(1)}${map.layer === "relief" ? "" : `,${map.layer},${map.month}`}`), 300);
  },
  read: readCell,
  busy: (error) => note(error.message, true),
});
window.tesseraMap = map; // for tests, and for those who look
const moved = { timer: 0 };
const format = (value, digits = 0) => value.toLocaleString("en", { minimumFractionDigits: digits, maximumFractionDigits: digits }).replace("-", "−");

/** The cell under a pointer: one row of the array, by its coordinates. */
async function readCell({ lon, lat }, at) {
  const y = Math.max(-270, Math.min(269, Math.floor(lat * 3))), x = Math.max(-540, Math.min(539, Math.floor(lon * 3)));
  const airport = map.airportAt(...at);
  const place = `${format(Math.abs(lat), 2)}° ${lat < 0 ? "S" : "N"}, ${format(Math.abs(lon), 2)}° ${lon < 0 ? "W" : "E"}`;
  let value, traffic;
  if (map.layer === "relief") {
    const { rows, traffic: cost } = await ask(`SELECT elevation FROM relief WHERE y = ${y} AND x = ${x}`);
    [value, traffic] = [`${format(rows[0][0])} m`, cost];
  } else {
    const j = Math.max(0, Math.min(89, Math.floor((lat + 90) / 2))), i = Math.max(0, Math.min(179, Math.floor((lon + 180) / 2)));
    const { rows, traffic: cost } = await ask(`SELECT ${map.layer} FROM sea(${map.moments[map.month].at}) WHERE j = ${j} AND i = ${i}`);
    const number = rows[0]?.[0];
    [value, traffic] = [number == null ? "land or ice" : map.layer === "sst" ? `${format(number, 1)} °C` : `${format(number, 1)} m/s`, cost];
  }
  $("cell").replaceChildren(Object.assign(document.createElement("b"), { textContent: airport ? `${airport[2]} ${airport[3]}, ${value}` : value }),
    document.createElement("br"), `${place} `, Object.assign(document.createElement("small"), { textContent: costText(traffic) }));
}

function showLayer(layer) {
  map.layer = layer;
  $("time").hidden = layer === "relief";
  if (layer === "relief") play(false);
  $("cell").textContent = "";
  const { css, texts } = map.scale, bar = document.createElement("i"), labels = document.createElement("span");
  bar.style.background = css;
  labels.append(...texts.map((text) => Object.assign(document.createElement("em"), { textContent: text, style: "font-style:normal" })));
  $("scale").replaceChildren(bar, labels);
  showMonth(map.month);
  map.place({});
}

function showMonth(month) {
  map.month = month;
  $("month").value = month;
  const moment = map.moments[month];
  $("month").setAttribute("aria-valuetext", map.monthName);
  $("moment").replaceChildren(map.monthName, Object.assign(document.createElement("small"), { textContent: moment ? `as of ${new Date(moment.at).toISOString().slice(11, 23)}` : "" }));
  map.draw();
}

let playing = 0;
function play(on) {
  clearInterval(playing);
  playing = on ? setInterval(() => { // the next month, as soon as this one is there
    if (map.seas.get(`${map.layer}/${map.month}`)) showMonth((map.month % 12) + 1);
  }, 750) : 0;
  $("play").setAttribute("aria-label", on ? "Stop" : "Play the year");
  $("play").querySelector("path").setAttribute("d", on ? "M4 3h3v10H4zM9 3h3v10H9z" : "M4 2.5v11L13 8z");
}

function listenToMap() {
  for (const radio of document.getElementsByName("layer")) radio.onchange = () => showLayer(radio.value);
  $("airports").onchange = ({ target }) => {
    map.showsAirports = target.checked;
    map.draw();
    if (target.checked && map.view.zoom < 6) map.fly({ lon: -100, lat: 40, zoom: Math.min(14, $("canvas").clientWidth / 66) });
  };
  $("in").onclick = () => map.zoomBy(1.6);
  $("out").onclick = () => map.zoomBy(1 / 1.6);
  $("home").onclick = () => map.home();
  $("month").oninput = ({ target }) => (play(false), showMonth(Number(target.value)));
  $("play").onclick = () => play(!playing);
  for (const [name, lon, lat, zoom] of PLACES) {
    const button = document.createElement("button");
    button.textContent = name;
    button.onclick = () => {
      map.fly({ lon, lat, zoom });
    };
    $("places").append(button);
  }
  const [, lat, lon, zoom, layer, month] = /^#(-?[\d.]+),(-?[\d.]+),([\d.]+)(?:,(\w+),(\d+))?$/.exec(location.hash) ?? [];
  map.place(lat === undefined ? { lon: 12, lat: 14, zoom: 0 } : { lat: Number(lat), lon: Number(lon), zoom: Number(zoom) });
  if (layer && $("map").querySelector(`[value="${layer}"]`)) {
    $("map").querySelector(`[value="${layer}"]`).checked = true;
    map.month = Math.max(1, Math.min(12, Number(month)));
    map.layer = layer;
  }
}

// ---- The console -----------------------------------------------------------------------------------------------------------

async function run(sql) {
  const button = $("ask").querySelector("button");
  button.disabled = true;
  $("cost").textContent = "…";
  try {
    const { output, traffic } = await (await database).script(sql, { limit: 200, stop: true });
    account(traffic);
    const parts = [];
    for (const part of output) {
      if (part.error !== undefined) parts.push(errorOf({ message: part.error }));
      else if (part.text !== undefined) parts.push(Object.assign(document.createElement("p"), { textContent: part.text }));
      else parts.push(...tableOf(part.plan ? { ...part, columns: ["plan"], rows: part.rows.map((row) => [row[3]]) } : part));
    }
    if (!parts.length) parts.push(Object.assign(document.createElement("p"), { className: "more", textContent: "Done. The statements have no result." }));
    $("result").replaceChildren(...parts);
    $("cost").textContent = costText(traffic);
  } catch (error) {
    $("result").replaceChildren(errorOf(error));
    $("cost").textContent = "";
  }
  button.disabled = false;
}

function listenToConsole() {
  const box = $("sql");
  for (const [name, sql] of EXAMPLES) {
    const button = document.createElement("button");
    button.textContent = name;
    button.type = "button";
    button.onclick = () => {
      for (const other of $("examples").children) other.setAttribute("aria-pressed", other === button);
      box.value = sql;
      run(sql);
    };
    $("examples").append(button);
  }
  box.value = EXAMPLES[1][1];
  $("ask").onsubmit = (event) => {
    event.preventDefault();
    run(box.value);
  };
  box.onkeydown = (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
      event.preventDefault();
      run(box.value);
    }
  };
}

// ---- The database -------------------------------------------------------------------------------------------------------------

async function start() {
  if (!/\/docs\/browser\/(index\.html)?$/.test(location.pathname)) // the page alone, without the documentation around it
    for (const link of document.querySelectorAll("a[href^='../']")) link.removeAttribute("href");
  listenToConsole();
  if (location.protocol === "file:") return note("Open this page over HTTP: a page from a file may not read the database. For example: npx http-server build/browser", true);
  const began = performance.now();
  database = import("./package/index.js").then(({ open }) => open(address));
  listenToMap();
  try {
    const opened = await database;
    account(opened.info.traffic);
    size = opened.info.size;
    $("meter-size").textContent = sizeText(size);
    document.documentElement.dataset.opened = Math.round(performance.now() - began);
  } catch (error) {
    return note(error.code === undefined ? `The package is missing next to this page: ./run browser makes both. (${error.message})` : `The database cannot be opened. ${error.message}`, true);
  }
  try {
    const { rows } = await ask("SELECT month, name, at FROM moments");
    map.moments = [null, ...rows.map(([, name, at]) => ({ name, at }))];
  } catch {
    return note("This is not the database of the demo, so there is no map. The console below asks it.");
  }
  showLayer(map.layer);
}

start();
