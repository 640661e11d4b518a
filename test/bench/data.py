"""The data of the bench and the parameters of its queries: made from fixed seeds, so that every system and every run gets the same.

raster  a float32 image of terrain and sensor noise, y and x
cube    a float32 temperature, day, latitude and longitude, in steps of 1/128
points  random int64 x and y below a million, with float64 v, int32 k and text name
genes   a string and an integer dimension, with float64 quality and int32 depth
"""
import numpy as np

SIDE = 1_000_000  # of the plane of the points
PAIRS = 10_000  # of the join
SIZES = {  # side of the raster, days of the cube, points, genes, rows of the write, side of the dense write, fragments
    "smoke": (500, 30, 5_000, 5_000, 5_000, 250, 10),
    "quick": (1000, 60, 200_000, 100_000, 100_000, 1000, 200),
    "full": (4000, 365, 2_000_000, 1_000_000, 1_000_000, 1000, 1000),
}
DIMENSIONS = {"raster": ["y", "x"], "cube": ["t", "lat", "lon"], "points": ["x", "y"], "genes": ["contig", "pos"]}
ATTRIBUTES = {"raster": ["v"], "cube": ["v"], "points": ["v", "k", "name"], "genes": ["v", "depth"]}
TILES = {"raster": (250, 250), "cube": (30, 60, 60)}


def raster(side):
    random = np.random.default_rng(1)
    y, x = np.mgrid[0:side, 0:side].astype(np.float32) / np.float32(side)
    z = 800 + 600 * np.sin(5 * x + 2 * y) * np.cos(7 * y - 3 * x) + 150 * np.sin(40 * x * y + 9 * x)
    for blocks, height in ((20, 80), (100, 25), (500, 6)):  # detail of several sizes
        of_cell = np.arange(side) * blocks // side
        z += height * random.normal(size=(blocks, blocks))[of_cell][:, of_cell]
    z += random.normal(0, 0.25, size=(side, side))
    return np.ascontiguousarray(z, dtype=np.float32)


def cube(days):
    random = np.random.default_rng(2)
    t, lat, lon = np.arange(days)[:, None, None], np.linspace(-90, 90, 180)[:, None], np.arange(360.0)
    z = 288 - 45 * np.abs(lat) / 90 + 12 * np.sin(2 * np.pi * t / 365) * lat / 90
    z = z + 4 * np.sin(np.deg2rad(3 * lon + 2 * t)) * np.cos(np.deg2rad(lat))
    weather = random.normal(size=(days, 30, 60)).repeat(6, 1).repeat(6, 2)
    z = z + 1.5 * weather + random.normal(0, 0.05, size=z.shape)
    return np.ascontiguousarray(np.round(z * 128) / 128, dtype=np.float32)


def points(count, seed=3):
    random = np.random.default_rng(seed)
    code = random.permutation(np.unique(random.integers(0, SIDE * SIDE, count)))
    words = np.array(["alpha", "bravo", "charlie", "delta", "échô", "foxtrot", "golf-club"])
    numbers = random.integers(0, 100_000, len(code)).astype(str)
    names = np.char.add(np.char.add(words[random.integers(0, len(words), len(code))], "-"), numbers)
    v, k = random.normal(100, 15, len(code)), random.integers(0, 1000, len(code)).astype(np.int32)
    return {"x": code // SIDE, "y": code % SIDE, "v": v, "k": k, "name": names.astype(object)}


def genes(count):
    random = np.random.default_rng(4)
    names = np.array([f"chr{i}" for i in range(1, 23)] + ["chrX", "chrY"], dtype=object)
    length = np.linspace(250, 50, len(names))  # in millions
    contig = random.choice(len(names), count, p=length / length.sum())
    code = contig * 10**9 + (random.random(count) * length[contig] * 1e6).astype(np.int64)
    code = random.permutation(np.unique(code))
    v, depth = np.round(random.gamma(3, 20, len(code)), 2), random.poisson(30, len(code)).astype(np.int32)
    return {"contig": names[code // 10**9], "pos": code % 10**9, "v": v, "depth": depth}


def columns(workload, data):
    """Returns {name: values} of all columns, one value for each cell; the cells of a dense array in row-major order."""
    if workload in TILES:
        grids = np.meshgrid(*[np.arange(n, dtype=np.int32) for n in data.shape], indexing="ij")
        return dict(zip(DIMENSIONS[workload], [g.ravel() for g in grids]), v=data.ravel())
    return data


def tile_order(workload, data):
    """Returns the order of cells in which a columnar system can skip most of them: tile by tile for dense arrays, Z-order for the points."""
    cells = columns(workload, data)
    if workload in TILES:
        coordinates = [cells[d] for d in DIMENSIONS[workload]]
        return np.lexsort(coordinates[::-1] + [c // t for c, t in zip(coordinates, TILES[workload])][::-1])
    if workload == "points":
        code = np.zeros(len(cells["x"]), dtype=np.uint64)
        for bit in range(20):
            for place, name in enumerate(("x", "y")):
                code |= ((cells[name].astype(np.uint64) >> np.uint64(bit)) & np.uint64(1)) << np.uint64(2 * bit + place)
        return np.argsort(code)
    return np.lexsort((cells["pos"], cells["contig"].astype(str)))


def make(workload, size):
    side, days, point_count, gene_count = SIZES[size][:4]
    return {"raster": lambda: raster(side), "cube": lambda: cube(days), "points": lambda: points(point_count),
            "genes": lambda: genes(gene_count)}[workload]()


def parameters(workload, data):
    """Returns the parameters of the queries: `point`, boxes as (low, high) of each dimension, and the threshold that one value in a thousand exceeds."""
    values = data if workload in TILES else data["v"]
    found = {"threshold": float(np.quantile(values, 0.999))}
    if workload == "raster":
        side = data.shape[0]
        corner, tenth = side // 2 // 250 * 250, int(side * 0.1**0.5)
        found["point"] = [1234 % side, 2345 % side]
        found["tile"] = [(corner, corner + 249)] * 2
        found["tenth"] = [(side // 6, side // 6 + tenth - 1), (side // 5, side // 5 + tenth - 1)]
        random = np.random.default_rng(9)
        found["pairs"] = [random.integers(0, side, PAIRS).tolist() for _ in range(2)]
    elif workload == "cube":
        found["days"], found["from"] = len(data), len(data) // 12
    elif workload == "points":
        count = len(data["x"])
        small, large = int((1000 / count) ** 0.5 * SIDE), int(min(1, 200_000 / count) ** 0.5 * SIDE)
        found["small"] = [(410_000, min(410_000 + small, SIDE) - 1), (420_000, min(420_000 + small, SIDE) - 1)]
        low = min(150_000, SIDE - large)
        found["large"] = [(low, low + large - 1)] * 2
    elif workload == "genes":
        of_chr7 = np.sort(data["pos"][data["contig"] == "chr7"])
        first = len(of_chr7) // 3
        found["small"] = [("chr7", "chr7"), (int(of_chr7[first]), int(of_chr7[min(first + 999, len(of_chr7) - 1)]))]
    return found
