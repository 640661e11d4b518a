// maplibre.js: a map of MapLibre whose tiles come from a database behind a URL: each is the answer to one SELECT.
// MapLibre itself is loaded from its own address; the page has no copy of it.
import { open } from "./package/index.js";

const note = document.getElementById("note");
const address = new URL(new URLSearchParams(location.search).get("db") ?? "demo.db", location.href).href;
const OPTIONS = { colormap: "terrain", min: -5000, max: 5000, nodata: "transparent" };
const SQL = "SELECT tessera_png('db:relief', 'elevation', NULL, ?) AS png";

/** The tile of an address such as tessera://5/16/11. */
const tileOf = (url) => url.split("://")[1].split("/").map(Number);

/** Asks the database for a tile. `signal` stops the query of a tile that has left the view. */
async function readTile(database, tile, signal) {
  const { rows } = await (await database).query(SQL, [JSON.stringify({ ...OPTIONS, tile })], { signal });
  const png = rows[0][0];
  return png.buffer.slice(png.byteOffset, png.byteOffset + png.byteLength);
}

if (!globalThis.maplibregl) note.textContent = "MapLibre could not be loaded: the page reads it from unpkg.com.";
else {
  const database = open(address);
  maplibregl.addProtocol("tessera", async ({ url }, abort) => ({ data: await readTile(database, tileOf(url), abort.signal) }));
  const map = new maplibregl.Map({
    container: "map",
    center: [10, 30],
    zoom: 2,
    style: {
      version: 8,
      sources: { relief: { type: "raster", tileSize: 256, maxzoom: 8, tiles: ["tessera://{z}/{x}/{y}"], attribution: "ETOPO20, NOAA" } },
      layers: [{ id: "relief", type: "raster", source: "relief" }],
    },
  });
  map.addControl(new maplibregl.NavigationControl());
  map.on("error", ({ error }) => (note.textContent = error.message));
  map.on("idle", () => (note.textContent = "Each tile is a SELECT over the relief in one SQLite file."));
}
