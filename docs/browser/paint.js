// paint.js: colours. It makes pictures of blocks of numbers: the relief with its shadows, and the sea by a scale.

const stops = (text) => text.trim().split(/\s+/).map((stop) => {
  const [at, hex] = stop.split(":");
  return [Number(at), parseInt(hex.slice(0, 2), 16), parseInt(hex.slice(2, 4), 16), parseInt(hex.slice(4, 6), 16)];
});

const SEA = stops("-11000:081d38 -7000:0b2a4c -5000:103a63 -3500:17507f -2000:21699b -800:3585b3 -200:5aa5c6 -60:86c3d4 0:aedce0");
const LAND = stops("0:7fa06b 120:93ad72 350:b3bd82 700:cfc08c 1200:cda878 1900:b98a65 2800:a17764 3800:9d8583 4700:c9bfbd 5600:f4f1ef 9000:ffffff");
const QUIET = stops("0:6d746c 700:7b7f74 1900:8d8a80 3800:a5a199 5600:d2d0cc 9000:eeeeee");
export const SCALES = {
  sst: { low: -2, high: 31, unit: "°C", stops: stops("0:1b1f6b 0.14:2456b0 0.3:2e9bc4 0.46:5cc9a7 0.6:b9dd6f 0.72:f6d746 0.85:f58b32 1:c2263a") },
  wind_speed: { low: 0, high: 14, unit: "m/s", stops: stops("0:14213d 0.2:1f4e79 0.4:2a8c8c 0.6:7bc47f 0.8:f2e28a 1:fff6e0") },
};

function colour(scale, value, out) {
  let k = 1;
  while (k < scale.length - 1 && scale[k][0] < value) k++;
  const a = scale[k - 1], b = scale[k], t = Math.min(1, Math.max(0, (value - a[0]) / (b[0] - a[0])));
  out[0] = a[1] + t * (b[1] - a[1]);
  out[1] = a[2] + t * (b[2] - a[2]);
  out[2] = a[3] + t * (b[3] - a[3]);
}

export const css = (scale) => `linear-gradient(90deg, ${scale.map(([at, r, g, b]) => `rgb(${r} ${g} ${b}) ${(100 * (at - scale[0][0])) / (scale.at(-1)[0] - scale[0][0])}%`).join(", ")})`;
export const RELIEF_CSS = css(stops("0:0b2a4c 0.3:21699b 0.5:aedce0 0.501:7fa06b 0.65:cfc08c 0.8:b98a65 0.92:c9bfbd 1:ffffff"));

/**
 * Draws heights. The block has a border of one cell around the picture, row 0 in the south.
 * @param {ArrayLike<number>} cells rows of `width` cells
 * @param {number} enlarge pixels of a cell, on both sides
 * @param {number} metres the length of a cell, for the shadows
 * @param {boolean} landOnly the sea is transparent
 * @param {number} south the latitude of the picture's lower edge; high land near the poles is ice
 */
export function drawRelief(cells, width, height, enlarge, metres, landOnly, south) {
  const w = (width - 2) * enlarge, h = (height - 2) * enlarge, image = new ImageData(w, h), data = image.data, rgb = [0, 0, 0];
  // Heights at the pixels and one pixel around them, by cubic interpolation where a cell has several pixels.
  const fine = enlarge === 1 ? cells : enlargeCells(cells, width, height, enlarge), fw = w + 2;
  const steep = 0.9 / (metres / enlarge) * 9, ramp = (value) => Math.max(0, Math.min(1, value));
  for (let py = 0; py < h; py++) {
    const polar = ramp((Math.abs(south + ((h - py) * metres) / enlarge / 111000) - 60) / 12);
    const row = (h - py) * fw + 1; // the picture begins in the north
    for (let px = 0; px < w; px++) {
      const at = row + px, z = fine[at], o = 4 * (py * w + px);
      if (z <= 0 && landOnly) continue;
      colour(z > 0 ? (landOnly ? QUIET : LAND) : SEA, z, rgb);
      if (polar && z > 0) {
        const ice = polar * ramp((z - 250) / 1200) * (landOnly ? 0.6 : 0.92);
        rgb[0] += ice * (240 - rgb[0]);
        rgb[1] += ice * (244 - rgb[1]);
        rgb[2] += ice * (248 - rgb[2]);
      }
      const dx = (fine[at + 1] - fine[at - 1]) * steep, dy = (fine[at + fw] - fine[at - fw]) * steep;
      const light = (1 + (0.5 * (dx - dy)) / 1) / Math.sqrt(1 + 0.35 * (dx * dx + dy * dy)); // from the north-west
      const depth = z > 0 ? 0.34 : 0.22, shade = 1 + depth * (Math.max(-1.2, Math.min(1.2, light - 1)) * 1.3);
      data[o] = rgb[0] * shade;
      data[o + 1] = rgb[1] * shade;
      data[o + 2] = rgb[2] * shade;
      data[o + 3] = 255;
    }
  }
  return image;
}

/** Catmull-Rom, first along the rows and then along the columns. The result has a border of one pixel. */
function enlargeCells(cells, width, height, n) {
  const w = (width - 2) * n + 2, h = (height - 2) * n + 2, rows = new Float32Array(w * height), out = new Float32Array(w * h);
  const clamp = (i, most) => (i < 0 ? 0 : i > most ? most : i);
  const weights = (t) => [-0.5 * t + t * t - 0.5 * t ** 3, 1 - 2.5 * t * t + 1.5 * t ** 3, 0.5 * t + 2 * t * t - 1.5 * t ** 3, -0.5 * t * t + 0.5 * t ** 3];
  const places = (size, most) => Array.from({ length: size }, (_, p) => {
    const x = 1 + (p - 1 + 0.5) / n - 0.5, i = Math.floor(x);
    return [[i - 1, i, i + 1, i + 2].map((k) => clamp(k, most)), weights(x - i)];
  });
  for (const [p, [at, k]] of places(w, width - 1).entries())
    for (let y = 0, r = 0; y < height; y++, r += width) rows[y * w + p] = k[0] * cells[r + at[0]] + k[1] * cells[r + at[1]] + k[2] * cells[r + at[2]] + k[3] * cells[r + at[3]];
  for (const [p, [at, k]] of places(h, height - 1).entries())
    for (let x = 0; x < w; x++) out[p * w + x] = k[0] * rows[at[0] * w + x] + k[1] * rows[at[1] * w + x] + k[2] * rows[at[2] * w + x] + k[3] * rows[at[3] * w + x];
  return out;
}

/** Draws a grid of the whole Earth with NaN where there is no sea. Row 0 is in the south. Coasts get the value of their nearest cells. */
export function drawSea(cells, width, height, enlarge, { low, high, stops: scale }) {
  let grid = Float32Array.from(cells);
  for (let round = 0; round < 3; round++) {
    const next = grid.slice();
    for (let y = 0; y < height; y++)
      for (let x = 0; x < width; x++) {
        if (!Number.isNaN(grid[y * width + x])) continue;
        let sum = 0, count = 0;
        for (let dy = -1; dy <= 1; dy++)
          for (let dx = -1; dx <= 1; dx++) {
            const v = y + dy < 0 || y + dy >= height ? NaN : grid[(y + dy) * width + ((x + dx + width) % width)];
            if (!Number.isNaN(v)) (sum += v), count++;
          }
        if (count) next[y * width + x] = sum / count;
      }
    grid = next;
  }
  const w = width * enlarge, h = height * enlarge, image = new ImageData(w, h), data = image.data, rgb = [0, 0, 0];
  for (let py = 0; py < h; py++) {
    const y = Math.max(0, Math.min(height - 1.001, height - (py + 0.5) / enlarge - 0.5)), y0 = Math.floor(y), ty = y - y0;
    for (let px = 0; px < w; px++) {
      const x = (px + 0.5) / enlarge - 0.5, x0 = Math.floor(x), tx = x - x0, xa = (x0 + width) % width, xb = (x0 + 1) % width;
      let sum = 0, weight = 0;
      for (const [yy, ky] of [[y0, 1 - ty], [y0 + 1, ty]])
        for (const [xx, kx] of [[xa, 1 - tx], [xb, tx]]) {
          const v = grid[yy * width + xx];
          if (!Number.isNaN(v)) (sum += v * kx * ky), (weight += kx * ky);
        }
      if (weight < 0.01) continue;
      colour(scale, (sum / weight - low) / (high - low), rgb);
      data.set([rgb[0], rgb[1], rgb[2], 255], 4 * (py * w + px));
    }
  }
  return image;
}

/** The values of an NPY file as a typed array, and its shape. */
export function readNpy(bytes) {
  const view = new DataView(bytes.buffer, bytes.byteOffset), begin = 10 + view.getUint16(8, true);
  const header = new TextDecoder().decode(bytes.subarray(10, begin));
  const type = /'descr': '([^']+)'/.exec(header)[1], shape = /'shape': \(([^)]*)\)/.exec(header)[1].split(",").filter((s) => s.trim()).map(Number);
  const Kind = { "<i2": Int16Array, "<i4": Int32Array, "<f4": Float32Array, "<f8": Float64Array, "|u1": Uint8Array, "<u2": Uint16Array }[type];
  if (!Kind) throw new Error(`no typed array for ${type}`);
  return { shape, cells: new Kind(bytes.slice(begin).buffer) };
}
