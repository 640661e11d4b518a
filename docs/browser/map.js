// map.js: the map. It is drawn from slices of arrays: tiles of the relief, at the level of detail that the zoom wants, and a
// grid of the sea for each month. `ask(sql, parameters, signal)` is the only source of data.
import { RELIEF_CSS, SCALES, css, drawRelief, drawSea, readNpy } from "./paint.js";

const SIDE = 90; // cells of a tile of the map: as many as a tile of the array has
const WORLD = { west: -180, east: 180, south: -90, north: 90 };
// The relief has three cells for a degree, and its coordinates begin at -270 and -540. Each overview halves them, from 0 on.
const LEVELS = [
  { table: "relief", perDegree: 3, y: -270, x: -540 },
  { table: "relief_overview_1", perDegree: 1.5, y: 0, x: 0 },
  { table: "relief_overview_2", perDegree: 0.75, y: 0, x: 0 },
];
const MONTHS = ["January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November", "December"];
const still = matchMedia("(prefers-reduced-motion: reduce)");

export class EarthMap {
  constructor(canvas, ask, { moved, read, busy }) {
    Object.assign(this, { canvas, ask, moved, read, busy });
    this.context = canvas.getContext("2d");
    this.view = { lon: 0, lat: 20, zoom: 2 }; // zoom: CSS pixels of a degree
    this.layer = "relief";
    this.month = 1;
    this.moments = [];
    this.tiles = new Map(); // name -> { cells, pictures by style } or { waiting: AbortController }
    this.seas = new Map(); // layer/month -> picture
    this.airports = null;
    this.frame = 0;
    new ResizeObserver(() => this.resize()).observe(canvas);
    this.listen();
  }

  // ---- Where things are -----------------------------------------------------------------------------------------------

  resize() {
    const { clientWidth: w, clientHeight: h } = this.canvas, ratio = Math.min(2, devicePixelRatio || 1);
    this.canvas.width = w * ratio;
    this.canvas.height = h * ratio;
    this.ratio = ratio;
    this.place({});
  }

  get least() {
    return Math.max(this.canvas.clientWidth / 360, this.canvas.clientHeight / 180);
  }

  /** Moves the view, within the world. */
  place(change) {
    const { clientWidth: w, clientHeight: h } = this.canvas, view = Object.assign(this.view, change);
    view.zoom = Math.max(this.least, Math.min(60, view.zoom));
    const half = { lon: w / view.zoom / 2, lat: h / view.zoom / 2 };
    view.lon = Math.max(-180 + half.lon, Math.min(180 - half.lon, view.lon));
    view.lat = Math.max(-90 + half.lat, Math.min(90 - half.lat, view.lat));
    this.draw();
    this.moved(view);
  }

  home() {
    this.fly({ lon: 0, lat: 12, zoom: 0 });
  }

  point(lon, lat) {
    const { view, canvas } = this;
    return [(lon - view.lon) * view.zoom + canvas.clientWidth / 2, (view.lat - lat) * view.zoom + canvas.clientHeight / 2];
  }

  place_of(x, y) {
    const { view, canvas } = this;
    return { lon: view.lon + (x - canvas.clientWidth / 2) / view.zoom, lat: view.lat - (y - canvas.clientHeight / 2) / view.zoom };
  }

  get bounds() {
    const a = this.place_of(0, this.canvas.clientHeight), b = this.place_of(this.canvas.clientWidth, 0);
    return { west: a.lon, south: a.lat, east: b.lon, north: b.lat };
  }

  zoomBy(factor, x = this.canvas.clientWidth / 2, y = this.canvas.clientHeight / 2) {
    const before = this.place_of(x, y), zoom = Math.max(this.least, Math.min(60, this.view.zoom * factor));
    this.place({ zoom, lon: before.lon - (x - this.canvas.clientWidth / 2) / zoom, lat: before.lat + (y - this.canvas.clientHeight / 2) / zoom });
  }

  /** Flies to a place: out, across, and in. */
  fly(to) {
    cancelAnimationFrame(this.flight);
    if (still.matches) return this.place(to);
    const from = { ...this.view }, zoom = Math.max(this.least, to.zoom), far = Math.hypot(to.lon - from.lon, to.lat - from.lat);
    const low = Math.min(from.zoom, zoom, Math.max(this.least, 260 / Math.max(far, 1))), time = 500 + 9 * Math.min(far, 120), began = performance.now();
    const step = (now) => {
      const t = Math.min(1, (now - began) / time), s = t * t * (3 - 2 * t);
      const dip = Math.log(low) - Math.min(Math.log(from.zoom), Math.log(zoom));
      this.place({ lon: from.lon + s * (to.lon - from.lon), lat: from.lat + s * (to.lat - from.lat), zoom: Math.exp(Math.log(from.zoom) * (1 - s) + Math.log(zoom) * s + dip * 4 * s * (1 - s) * 0.8) });
      if (t < 1) this.flight = requestAnimationFrame(step);
    };
    this.flight = requestAnimationFrame(step);
  }

  // ---- Tiles of the relief ----------------------------------------------------------------------------------------------

  /** The coarsest level whose cells are about three pixels or smaller, or the finest. */
  get level() {
    const pixels = (level) => (this.view.zoom * this.ratio) / LEVELS[level].perDegree;
    for (let level = 2; level > 0; level--) if (pixels(level) <= 3.2) return level;
    return 0;
  }

  /** The tiles of a level that the view shows, those in its middle first. */
  visible(level) {
    const { perDegree } = LEVELS[level], b = this.bounds, cells = { w: 360 * perDegree, h: 180 * perDegree };
    const range = (low, high, most) => [Math.max(0, Math.floor((low * perDegree) / SIDE)), Math.min(Math.ceil(most / SIDE) - 1, Math.floor((high * perDegree) / SIDE))];
    const [x0, x1] = range(b.west + 180, b.east + 180, cells.w), [y0, y1] = range(b.south + 90, b.north + 90, cells.h), found = [];
    for (let y = y0; y <= y1; y++) for (let x = x0; x <= x1; x++) found.push({ level, x, y, name: `${level}/${x}/${y}` });
    const middle = [(x0 + x1) / 2, (y0 + y1) / 2];
    return found.sort((a, b2) => Math.hypot(a.x - middle[0], a.y - middle[1]) - Math.hypot(b2.x - middle[0], b2.y - middle[1]));
  }

  /** Asks for a tile: a slice of the array with a border of one cell, for shadows that go on in the next tile. */
  async request(tile) {
    const controller = new AbortController(), { table, perDegree, y: y0, x: x0 } = LEVELS[tile.level];
    this.tiles.set(tile.name, { waiting: controller });
    const w = 360 * perDegree, h = 180 * perDegree, left = tile.x * SIDE, low = tile.y * SIDE;
    const width = Math.min(SIDE, w - left), height = Math.min(SIDE, h - low); // without the border
    const x = [Math.max(0, left - 1), Math.min(w - 1, left + width)], y = [Math.max(0, low - 1), Math.min(h - 1, low + height)];
    const box = JSON.stringify({ y: [y0 + y[0], y0 + y[1]], x: [x0 + x[0], x0 + x[1]] });
    try {
      const { rows } = await this.ask(`SELECT tessera_npy('db:${table}', 'elevation', '${box}')`, [], controller.signal);
      const block = readNpy(rows[0][0]), wide = block.shape[1];
      const cells = new Float32Array((width + 2) * (height + 2)); // at the edges of the world the border repeats them
      for (let row = 0; row < height + 2; row++)
        for (let column = 0; column < width + 2; column++) {
          const r = Math.max(y[0], Math.min(y[1], low - 1 + row)) - y[0], c = Math.max(x[0], Math.min(x[1], left - 1 + column)) - x[0];
          cells[row * (width + 2) + column] = block.cells[r * wide + c];
        }
      this.tiles.set(tile.name, { cells, width, height, pictures: {} });
      this.draw();
    } catch (error) {
      this.tiles.delete(tile.name);
      if (!controller.signal.aborted) this.busy(error);
    }
  }

  picture(tile, style) {
    const held = this.tiles.get(tile.name);
    if (!held?.cells) return null;
    const size = (this.view.zoom * this.ratio) / LEVELS[tile.level].perDegree;
    const enlarge = size < 1.2 ? 1 : size < 2 ? 2 : size < 5 ? 3 : size < 12 ? 6 : 8;
    const name = `${style}${enlarge}`;
    if (held.pictures[name]) return held.pictures[name];
    const image = drawRelief(held.cells, held.width + 2, held.height + 2, enlarge, 111000 / LEVELS[tile.level].perDegree, style === "land", (tile.y * SIDE) / LEVELS[tile.level].perDegree - 90);
    const picture = document.createElement("canvas");
    picture.width = image.width;
    picture.height = image.height;
    picture.getContext("2d").putImageData(image, 0, 0);
    return (held.pictures = { [name]: picture })[name]; // one at a time: memory
  }

  // ---- The sea -----------------------------------------------------------------------------------------------------------

  async requestSea(layer, month) {
    const name = `${layer}/${month}`;
    if (this.seas.has(name) || !this.moments[month]) return;
    this.seas.set(name, null);
    try {
      const { rows } = await this.ask(`SELECT tessera_npy('SELECT ${layer} FROM sea(${this.moments[month].at})')`);
      const { cells, shape } = readNpy(rows[0][0]), image = drawSea(cells, shape[1], shape[0], 4, SCALES[layer]);
      const picture = document.createElement("canvas");
      picture.width = image.width;
      picture.height = image.height;
      picture.getContext("2d").putImageData(image, 0, 0);
      this.seas.set(name, picture);
      this.draw();
    } catch (error) {
      this.seas.delete(name);
      this.busy(error);
    }
  }

  async requestAirports() {
    if (this.airports) return;
    this.airports = [];
    const { rows } = await this.ask("SELECT lat, lon, iata, name FROM airports");
    this.airports = rows;
    this.draw();
  }

  // ---- Drawing -----------------------------------------------------------------------------------------------------------

  draw() {
    if (!this.frame) this.frame = requestAnimationFrame((now) => {
      this.frame = 0;
      this.paint(now);
    });
  }

  paint(now) {
    const { context, ratio, layer } = this, sea = layer !== "relief", level = this.level;
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.imageSmoothingEnabled = true;
    context.imageSmoothingQuality = "high";
    context.fillStyle = sea ? "#27333b" : "#0b2a4c";
    context.fillRect(0, 0, this.canvas.clientWidth, this.canvas.clientHeight);
    if (sea) this.paintSea(now);
    const wanted = this.visible(level);
    for (let coarse = 2; coarse >= level; coarse--) // coarser tiles stand in for those that have not come
      for (const tile of coarse === level ? wanted : this.visible(coarse)) this.paintTile(tile, sea ? "land" : "full");
    const names = new Set(wanted.map((tile) => tile.name));
    for (const [name, tile] of this.tiles)
      if (tile.waiting && !names.has(name)) tile.waiting.abort(), this.tiles.delete(name);
    for (const tile of wanted) if (!this.tiles.has(tile.name)) this.request(tile);
    if (this.showsAirports) this.paintAirports();
    this.canvas.dataset.ready = wanted.every((tile) => this.tiles.get(tile.name)?.cells) && (!sea || this.seas.get(`${layer}/${this.month}`)) ? "yes" : "no";
  }

  paintTile(tile, style) {
    const picture = this.picture(tile, style);
    if (!picture) return;
    const { perDegree } = LEVELS[tile.level], { width, height } = this.tiles.get(tile.name);
    const west = (tile.x * SIDE) / perDegree - 180, south = (tile.y * SIDE) / perDegree - 90;
    const [x, y] = this.point(west, south + height / perDegree), scale = this.view.zoom / perDegree, snap = (v) => Math.round(v * this.ratio) / this.ratio;
    const left = snap(x), top = snap(y);
    this.context.drawImage(picture, left, top, snap(x + width * scale) - left, snap(y + height * scale) - top);
  }

  paintSea(now) {
    const { layer, month, context } = this, at = (m) => this.seas.get(`${layer}/${m}`);
    this.requestSea(layer, month);
    const [x, y] = this.point(WORLD.west, WORLD.north), size = [360 * this.view.zoom, 180 * this.view.zoom];
    if (at(month) && this.shown?.month !== month) this.shown = { month, before: this.shown?.layer === layer ? this.shown.month : 0, since: now, layer };
    if (!this.shown || this.shown.layer !== layer) return;
    const t = still.matches ? 1 : Math.min(1, (now - this.shown.since) / 450);
    if (t < 1 && at(this.shown.before)) context.drawImage(at(this.shown.before), x, y, ...size);
    context.globalAlpha = at(this.shown.before) ? t : 1;
    if (at(this.shown.month)) context.drawImage(at(this.shown.month), x, y, ...size);
    context.globalAlpha = 1;
    if (t < 1) this.draw();
  }

  paintAirports() {
    const { context } = this, size = Math.max(1.4, Math.min(4, this.view.zoom / 3)), b = this.bounds;
    this.requestAirports();
    context.fillStyle = "#ffb454";
    context.strokeStyle = "rgb(40 20 0 / .75)";
    context.lineWidth = 0.8;
    context.beginPath();
    for (const [lat, lon] of this.airports ?? []) {
      if (lat < b.south || lat > b.north || lon < b.west || lon > b.east) continue;
      const [x, y] = this.point(lon, lat);
      context.moveTo(x + size, y);
      context.arc(x, y, size, 0, 7);
    }
    context.fill();
    if (size > 2) context.stroke();
  }

  /** The airport that is nearest to a point of the canvas, within 12 pixels. */
  airportAt(x, y) {
    let best = null, least = 12;
    if (this.showsAirports)
      for (const airport of this.airports ?? []) {
        const [px, py] = this.point(airport[1], airport[0]), far = Math.hypot(px - x, py - y);
        if (far < least) (best = airport), (least = far);
      }
    return best;
  }

  get scale() {
    if (this.layer === "relief") return { css: RELIEF_CSS, texts: ["−8,000 m", "0", "6,000 m"] };
    const { low, high, unit, stops } = SCALES[this.layer];
    return { css: css(stops), texts: [`${low} ${unit}`, `${high} ${unit}`] };
  }

  get monthName() {
    return MONTHS[this.month - 1];
  }

  // ---- Pointers and keys -------------------------------------------------------------------------------------------------

  listen() {
    const { canvas } = this, pointers = new Map();
    const where = (event) => [event.offsetX, event.offsetY];
    let travelled = 0, pinch = 0;
    canvas.addEventListener("pointerdown", (event) => {
      cancelAnimationFrame(this.flight);
      canvas.setPointerCapture(event.pointerId);
      pointers.set(event.pointerId, where(event));
      travelled = pinch = 0;
    });
    canvas.addEventListener("pointermove", (event) => {
      const now = where(event), before = pointers.get(event.pointerId);
      if (!before) return this.rest(...now);
      pointers.set(event.pointerId, now);
      if (pointers.size === 1) {
        travelled += Math.hypot(now[0] - before[0], now[1] - before[1]);
        if (travelled > 3) canvas.classList.add("moving");
        return this.place({ lon: this.view.lon - (now[0] - before[0]) / this.view.zoom, lat: this.view.lat + (now[1] - before[1]) / this.view.zoom });
      }
      const [a, b] = [...pointers.values()], apart = Math.hypot(a[0] - b[0], a[1] - b[1]);
      if (pinch) this.zoomBy(apart / pinch, (a[0] + b[0]) / 2, (a[1] + b[1]) / 2);
      pinch = apart;
      travelled = 99;
    });
    const up = (event) => {
      if (!pointers.delete(event.pointerId)) return;
      canvas.classList.remove("moving");
      if (travelled <= 3 && event.type === "pointerup") this.read(this.place_of(...where(event)), where(event));
    };
    canvas.addEventListener("pointerup", up);
    canvas.addEventListener("pointercancel", up);
    canvas.addEventListener("pointerleave", () => clearTimeout(this.resting));
    canvas.addEventListener("wheel", (event) => {
      event.preventDefault();
      cancelAnimationFrame(this.flight);
      this.zoomBy(Math.exp(-event.deltaY * (event.deltaMode ? 0.05 : 0.0016)), ...where(event));
    }, { passive: false });
    canvas.addEventListener("dblclick", (event) => this.zoomBy(2, ...where(event)));
    canvas.addEventListener("keydown", (event) => {
      const step = 60 / this.view.zoom, { lon, lat } = this.view;
      const keys = {
        ArrowLeft: () => this.place({ lon: lon - step }), ArrowRight: () => this.place({ lon: lon + step }),
        ArrowUp: () => this.place({ lat: lat + step }), ArrowDown: () => this.place({ lat: lat - step }),
        "+": () => this.zoomBy(1.5), "=": () => this.zoomBy(1.5), "-": () => this.zoomBy(1 / 1.5), 0: () => this.home(),
        Enter: () => this.read({ lon, lat }, [canvas.clientWidth / 2, canvas.clientHeight / 2]),
      };
      if (!keys[event.key] || event.ctrlKey || event.metaKey || event.altKey) return;
      event.preventDefault();
      cancelAnimationFrame(this.flight);
      keys[event.key]();
    });
  }

  /** A pointer that rests reads the cell under it. */
  rest(x, y) {
    clearTimeout(this.resting);
    this.resting = setTimeout(() => this.read(this.place_of(x, y), [x, y]), 140);
  }
}
