"""Measures statistics within polygons (the cover of a polygon, many small zones by all steps of time, and few large zones) beside exactextract,
rasterstats and the product of scipy's sparse matrix of shares with the cube; values at points beside xarray and scipy; the points of a plot beside
tsdownsample; and map tiles beside rio-tiler. The ways
of a row take turns in one process, and a ratio is that of their least times, which are processor time of all threads: other work on the machine changes
that little. What cannot be installed is left out. Compares the answers of the ways. exactextract cuts the polygons anew each time, the others do not.

usage: space.py EXTENSION FOLDER [--only TEXT]
"""
import argparse
import io
import math
import os
import random
import sqlite3
import time
import warnings

import environment

PACKAGES = [["numpy"], ["exactextract"], ["scipy"], ["xarray"], ["tsdownsample"], ["rasterstats"], ["rio-tiler"]]   # each line by itself: one that cannot be installed is left out
TURNS = 3
STEPS, NY, NX = 365, 180, 360   # of the cube
ZONES, CORNERS = 1000, 110
WIDE = (1800, 3600)             # of the large grid
LARGE, LARGE_CORNERS = 20, 10_000
POINTS = 100_000
VALUES, BUCKETS, TILE = 10_000_000, 611, 4096   # of a series, of its plot, and of its array: a bucket is four tiles


def ring(chance, x, y, reach, corners):
    """A ring with bays, whose sides are about as long as they would be on a circle."""
    angles = sorted(chance.uniform(0, 2 * math.pi) for _ in range(corners))
    radii = [reach * (.85 + .1 * math.sin(7 * a) + chance.uniform(-8, 8) / corners) for a in angles]
    points = [(x + r * math.cos(a), y + r * math.sin(a)) for a, r in zip(angles, radii)]
    return points + points[:1]


def wkt(points):
    return "POLYGON((" + ",".join(f"{x!r} {y!r}" for x, y in points) + "))"


def measure(title, ways, only):
    """Runs the ways in turns, and prints their least times and the ratio to the first. Returns the last answers."""
    if only and only not in title:
        return
    least, answers = {}, {}
    for _ in range(TURNS):
        for name, way in ways.items():
            begin = time.process_time()
            answers[name] = way()
            least[name] = min(least.get(name, math.inf), time.process_time() - begin)
    first = next(iter(least))
    print(f"{title}: " + "; ".join(f"{name} {1000 * t:.1f} ms" + ("" if name == first else f" ({t / least[first]:.2f} times)") for name, t in least.items()), flush=True)
    values = [v for v in answers.values() if isinstance(v, list)]
    for other in values[1:]:
        worst = max((abs(a - b) / abs(b) for a, b in zip(values[0], other)), default=0)
        assert len(other) == len(values[0]) and worst < 1e-5, f"{title}: the answers differ: {len(values[0])} and {len(other)}, by {worst}"


def exact(np, bands, ny, nx, zones):
    """Returns a function that has exactextract's means of all zones and bands, in this order; None without exactextract."""
    try:
        from exactextract import exact_extract
        from exactextract.feature import JSONFeatureSource
        from exactextract.raster import NumPyRasterSource
    except ImportError:
        return None
    # its first row is the northern one, ours the one of the lowest y
    sources = [NumPyRasterSource(np.ascontiguousarray(band[::-1]), 0, 0, nx, ny, name=f"b{i}") for i, band in enumerate(bands)]
    features = JSONFeatureSource([{"type": "Feature", "id": str(i), "properties": {}, "geometry": {"type": "Polygon", "coordinates": [points]}} for i, points in enumerate(zones)])

    def run():
        found = exact_extract(sources if len(sources) > 1 else sources[0], features, ["mean"])
        names = [f"b{i}_mean" for i in range(len(bands))] if len(bands) > 1 else ["mean"]
        return [feature["properties"][name] for feature in found for name in names]
    return run


def sparse(np, db, cube):
    """Returns a function that has the means of all zones and steps by a product of matrices; None without scipy."""
    try:
        from scipy.sparse import csr_matrix
    except ImportError:
        return None
    rows, cells, shares = [], [], []
    for zone, y, first, last, share in db.execute("SELECT zone, y, x_from, x_to, coverage FROM zones_cover"):
        rows += [zone] * (last - first + 1)
        cells += range(y * NX + first, y * NX + last + 1)
        shares += [share] * (last - first + 1)
    matrix = csr_matrix((shares, (rows, cells)), shape=(ZONES, NY * NX))
    whole = np.asarray(matrix.sum(axis=1))
    flat = cube.reshape(STEPS, NY * NX)
    return lambda: (matrix @ flat.T.astype("f8") / whole).ravel().tolist()


def centres(np, db, axes, band, zones, only):
    """Means of the cells whose centres are in each zone, of one step. All ways cut the polygons anew."""
    db.execute("CREATE TABLE centres_cover(zone, y, x_from, x_to)")
    db.execute("CREATE VIRTUAL TABLE zonal_centres USING tessera_query(threads=1, SELECT zone, avg(v) AS mean FROM cube g JOIN centres_cover c "
               "ON g.y = c.y AND g.x BETWEEN c.x_from AND c.x_to WHERE t = 0 GROUP BY zone)")

    def ours():
        db.execute("DELETE FROM centres_cover")
        db.execute(f"INSERT INTO centres_cover SELECT z.zone, c.y, c.x_from, c.x_to FROM zones z JOIN tessera_cover('db:cube', z.shape, 'centre', '{axes}') c")
        return [row[0] for row in db.execute("SELECT mean FROM zonal_centres ORDER BY zone")]
    ways = {"tessera": ours}
    try:
        from affine import Affine
        from rasterstats import zonal_stats
        shapes, flipped = [{"type": "Polygon", "coordinates": [points]} for points in zones], np.ascontiguousarray(band[::-1])
        ways["rasterstats"] = lambda: [row["mean"] for row in zonal_stats(shapes, flipped, affine=Affine(1, 0, 0, 0, -1, NY), stats=["mean"], nodata=-9999)]
    except ImportError:
        pass
    measure(f"{ZONES} zones by centres, 1 step, cover made anew", ways, only)


def tiles(np, db, folder, wide, only):
    """Map tiles of 256 x 256 pixels as PNG, of a grid that covers the Earth, without overviews."""
    places = [(3, x, y) for x in range(0, 8, 2) for y in range(1, 7, 2)] + [(5, x, y) for x in range(0, 32, 8) for y in range(4, 28, 8)]
    axes = f'"axes":{{"y":[-90,{180 / WIDE[0]!r}],"x":[-180,{360 / WIDE[1]!r}]}}'

    def ours():
        texts = [f'{{"tile":[{z},{x},{y}],"min":250,"max":310,"colormap":"gray",{axes}}}' for z, x, y in places]
        return [db.execute("SELECT tessera_png('db:wide', 'v', NULL, ?)", (text,)).fetchone()[0] for text in texts]
    ways = {"tessera": lambda: len(ours())}
    try:
        import rasterio
        from rio_tiler.io import Reader
        warnings.simplefilter("ignore")   # of rio-tiler: there are no overviews
        path = os.path.join(folder, "tiles.tif")
        with rasterio.open(path, "w", driver="GTiff", width=WIDE[1], height=WIDE[0], count=1, dtype="float32", crs="EPSG:4326", tiled=True, blockxsize=256, blockysize=256,
                           compress="zstd", transform=rasterio.transform.from_origin(-180, 90, 360 / WIDE[1], 180 / WIDE[0])) as out:
            out.write(np.ascontiguousarray(wide[::-1]), 1)

        def peer():
            with Reader(path) as reader:
                for z, x, y in places:
                    image = reader.tile(x, y, z)
                    image.rescale(((250, 310),))
                    image.render(img_format="PNG")
            return len(places)
        ways["rio-tiler"] = peer
    except ImportError:
        pass
    measure(f"{len(places)} map tiles", ways, only)


def points(np, db, wide, only):
    """Values at points between cells, of a grid in memory and of the array."""
    chance = np.random.default_rng(3)
    y, x = chance.uniform(0, WIDE[0] - 1, POINTS), chance.uniform(0, WIDE[1] - 1, POINTS)
    db.execute("CREATE TABLE points(y REAL, x REAL)")
    db.executemany("INSERT INTO points VALUES(?, ?)", zip(y.tolist(), x.tolist()))
    ways = {"tessera": lambda: [row[0] for row in db.execute("SELECT tessera_sample('db:wide', 'v', json_object('y', y, 'x', x)) FROM points ORDER BY rowid")]}
    try:
        from scipy.ndimage import map_coordinates
        ways["scipy"] = lambda: map_coordinates(wide, [y, x], order=1).tolist()
    except ImportError:
        pass
    try:
        import xarray
        grid, at = xarray.DataArray(wide, coords={"y": np.arange(WIDE[0]), "x": np.arange(WIDE[1])}, dims=("y", "x")), {"y": xarray.DataArray(y, dims="p"), "x": xarray.DataArray(x, dims="p")}
        grid.interp(at)   # needs scipy
        ways["xarray"] = lambda: grid.interp(at).values.tolist()
    except ImportError:
        pass
    measure(f"{POINTS} points, linear", ways, only)


def plots(np, db, array, only):
    """The least and the greatest value of each bucket of a long series."""
    series = np.random.default_rng(4).normal(0, 1, VALUES).cumsum().astype("<f4")
    array("series", f"t INT64 DIMENSION(0, {VALUES - 1}, {TILE})", series)
    db.execute(f"CREATE VIRTUAL TABLE plot USING tessera_query(threads=1, SELECT t/{4 * TILE} AS b, min(v) AS low, max(v) AS high FROM series GROUP BY t/{4 * TILE})")
    ways = {"tessera": lambda: sorted(value for row in db.execute("SELECT low, high FROM plot") for value in row)}
    try:
        from tsdownsample import MinMaxDownsampler
        cut = series[:VALUES // BUCKETS // 4 * 4 * BUCKETS]
        ways["tsdownsample, other buckets, in memory"] = lambda: len(MinMaxDownsampler().downsample(cut, n_out=2 * BUCKETS))
    except ImportError:
        pass
    measure(f"{VALUES} values to {BUCKETS} pixels", ways, only)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("extension")
    parser.add_argument("folder")
    parser.add_argument("--only", default="")
    args = parser.parse_args()
    environment.inside(args.folder, "space", PACKAGES)
    import numpy as np
    db = sqlite3.connect(":memory:")
    db.enable_load_extension(True)
    db.load_extension(args.extension)
    chance, values = random.Random(5), np.random.default_rng(1)
    axes = '{"axes":{"y":[0,1],"x":[0,1]}}'

    def array(name, dimensions, block):
        db.execute(f"CREATE VIRTUAL TABLE {name} USING tessera(kind=dense, {dimensions}, v FLOAT32 FILTERS(bitshuffle, zstd(3)), cache_mb=1000)")
        npy = io.BytesIO()
        np.save(npy, block)
        db.execute("SELECT tessera_write_npy(?, 'v', ?)", ("db:" + name, npy.getvalue())).fetchall()

    cube = values.normal(280, 10, (STEPS, NY, NX)).astype("<f4")
    array("cube", f"t INT32 DIMENSION(0, {STEPS - 1}, 73), y INT32 DIMENSION(0, {NY - 1}, 60), x INT32 DIMENSION(0, {NX - 1}, 60)", cube)
    wide = values.normal(280, 10, WIDE).astype("<f4")
    array("wide", f"y INT32 DIMENSION(0, {WIDE[0] - 1}, 180), x INT32 DIMENSION(0, {WIDE[1] - 1}, 360)", wide)
    zones = [ring(chance, chance.uniform(6, NX - 6), chance.uniform(6, NY - 6), chance.uniform(2, 5.4), CORNERS) for _ in range(ZONES)]
    large = [ring(chance, chance.uniform(400, WIDE[1] - 400), chance.uniform(400, WIDE[0] - 400), 290, LARGE_CORNERS) for _ in range(LARGE)]
    for name, grid, shapes in (("zones", "cube", zones), ("large", "wide", large)):
        db.execute(f"CREATE TABLE {name}(zone INTEGER PRIMARY KEY, shape)")
        db.executemany(f"INSERT INTO {name} VALUES(?, ?)", [(i, wkt(points)) for i, points in enumerate(shapes)])
        db.execute(f"CREATE TABLE {name}_cover AS SELECT z.zone, c.y, c.x_from, c.x_to, c.coverage FROM {name} z JOIN tessera_cover('db:{grid}', z.shape, 'fraction', '{axes}') c")
    print(f"{ZONES} zones: {db.execute('SELECT sum(x_to - x_from + 1) FROM zones_cover').fetchone()[0]} pairs of a cell and a zone; "
          f"{LARGE} large ones: {db.execute('SELECT sum(x_to - x_from + 1) FROM large_cover').fetchone()[0]}")

    def query(grid, name, key):
        return f"SELECT zone{key}, sum(v * coverage) / sum(coverage) AS mean FROM {grid} g JOIN {name}_cover c ON g.y = c.y AND g.x BETWEEN c.x_from AND c.x_to GROUP BY zone{key}"

    def answer(text):
        return lambda: [row[0] for row in db.execute(text)]
    db.execute(f"CREATE VIRTUAL TABLE zonal USING tessera_query(threads=1, {query('cube', 'zones', ', t')})")
    db.execute(f"CREATE VIRTUAL TABLE zonal_large USING tessera_query(threads=1, {query('wide', 'large', '')})")
    for name, grid, corners in (("zones", "cube", CORNERS), ("large", "wide", LARGE_CORNERS)):
        text = f"SELECT count(*) FROM {name} z JOIN tessera_cover('db:{grid}', z.shape, 'fraction', '{axes}')"
        measure(f"cover of {ZONES if name == 'zones' else LARGE} polygons of {corners} corners", {"tessera": lambda: db.execute(text).fetchone()[0]}, args.only)
    ways = {"tessera": answer("SELECT mean FROM zonal")}
    peer = exact(np, cube, NY, NX, zones)
    ways.update({"exactextract": peer} if peer else {})
    peer = sparse(np, db, cube)
    ways.update({"scipy, cover kept, in memory": peer} if peer else {})
    measure(f"{ZONES} zones by {STEPS} steps", ways, args.only)
    centres(np, db, axes, cube[0], zones, args.only)
    ways = {"tessera": answer("SELECT mean FROM zonal_large")}
    peer = exact(np, [wide], *WIDE, large)
    ways.update({"exactextract": peer} if peer else {})
    measure(f"{LARGE} large zones, cover kept", ways, args.only)
    points(np, db, wide, args.only)
    plots(np, db, array, args.only)
    tiles(np, db, args.folder, wide, args.only)


if __name__ == "__main__":
    main()
