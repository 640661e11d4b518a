"""The systems of the bench. Each builds its copy of a workload in a folder, opens the copy, and answers the workload's queries.

The answer to a query is a list of rows or a numpy array; the answers of all systems are compared. `queries` lists what a system can answer;
it leaves out a query for which the system has no form that its users would write.
"""
import json

import numpy as np

from data import ATTRIBUTES, DIMENSIONS, SIDE, TILES, columns, tile_order

DECLARED = {"raster": "y INTEGER, x INTEGER, v REAL", "cube": "t INTEGER, lat INTEGER, lon INTEGER, v REAL",
            "points": "x INTEGER, y INTEGER, v REAL, k INTEGER, name TEXT", "genes": "contig TEXT, pos INTEGER, v REAL, depth INTEGER"}
GROUPED = {"raster": "y", "genes": "contig"}


def sql_queries(workload, p):
    """Returns the SQL and the arguments of each query of the workload. All systems with SQL get the same text."""
    dimensions = DIMENSIONS[workload]
    found = {"rare": (f"SELECT count(*), sum(v) FROM r WHERE v > ?", [p["threshold"]]), "total": ("SELECT sum(v) FROM r", [])}
    if "point" in p:
        found["point"] = ("SELECT v FROM r WHERE " + " AND ".join(f"{d} = ?" for d in dimensions), p["point"])
    for name in ("tile", "tenth", "small", "large"):
        if name in p:
            where = " AND ".join(f"{d} BETWEEN ? AND ?" for d in dimensions)
            found[name] = (f"SELECT count(*), sum(v) FROM r WHERE {where}", [bound for pair in p[name] for bound in pair])
    if workload in GROUPED:
        found["group"] = (f"SELECT {GROUPED[workload]} AS g, sum(v) FROM r GROUP BY g", [])
    if "pairs" in p:
        found["join"] = (f"SELECT count(*), sum(r.v) FROM pairs p JOIN r ON " + " AND ".join(f"r.{d} = p.{d}" for d in dimensions), [])
    if workload in ("raster", "points"):
        by = ", ".join(dimensions)
        found["first"] = (f"SELECT {by}, v FROM r ORDER BY {by} LIMIT 100", [])
    return found


def column_queries(p, dialect):
    """Returns the SQL of the queries whose values are expressions, which tessera_query evaluates over columns: the names are those in ROWS of bench.py. Results
    with many rows are counted and added up, so that no system's way of handing out rows is measured."""
    month = {"sqlite": "strftime('%m', '2001-01-01', t || ' days')", "duckdb": "strftime(DATE '2001-01-01' + t, '%m')"}[dialect]
    div = {"sqlite": "/", "duckdb": "//"}[dialect]
    return {"column_parts": f"SELECT t{div}30 AS g, count(*) AS n, avg(v) AS mean FROM r GROUP BY 1",
            "column_months": f"SELECT {month} AS m, lat{div}4 AS g, avg(v - 273.15) AS mean FROM r WHERE t >= {p['from']} AND v > 200 GROUP BY 1, 2",
            "column_climatology": f"SELECT {month} AS m, lat, lon, avg(v) AS mean FROM r GROUP BY 1, 2, 3",
            "column_case": "SELECT lat, max(v) - min(v) AS span, avg(CASE WHEN v > 293.15 THEN 1.0 ELSE 0.0 END) AS share FROM r GROUP BY 1",
            "column_coarsen": f"SELECT t, lat{div}4 AS y, lon{div}4 AS x, avg(v) AS mean FROM r GROUP BY 1, 2, 3",
            "column_histogram": "SELECT floor(v/5)*5 AS g, count(*) AS n FROM r GROUP BY 1",
            "column_moments": "SELECT sum(v*v) AS a, sum(v) AS b, count(*) AS n FROM r WHERE lat BETWEEN 30 AND 60"}


LARGE = {"column_climatology", "column_coarsen"}   # results with many rows


def anomaly_queries(dialect):
    """Returns the SQL that gives the climatology, which each system keeps as a table or array `clim`, and the query that joins it."""
    month = {"sqlite": "CAST(strftime('%m', '2001-01-01', t || ' days') AS INTEGER)", "duckdb": "month(DATE '2001-01-01' + t)"}[dialect]
    part = {"sqlite": "t/30", "duckdb": "t//30"}[dialect]
    return (f"SELECT {month} AS m, lat, lon, avg(v) AS mean FROM r GROUP BY 1, 2, 3",
            f"SELECT {part} AS g, max(v - mean) AS most, avg(abs(v - mean)) AS size FROM r JOIN clim "
            f"ON clim.m = {month} AND clim.lat = r.lat AND clim.lon = r.lon GROUP BY 1")


def counted(name, sql):
    return f"SELECT count(*), sum(mean) FROM ({sql})" if name in LARGE else sql


def column_blocks(z, p):
    """Returns the same results, computed with numpy from the whole cube. `z` reads it."""
    days = p["days"]
    starts = [d for d in np.cumsum([0, 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30]) if d < days]
    lengths = np.diff(starts + [days])

    def rows(*columns):
        return list(zip(*[np.asarray(c).ravel().tolist() for c in columns]))

    def parts(v):
        first = np.arange(0, days, 30)
        n = np.diff(np.append(first, days)) * v[0].size
        return rows(first // 30, n, np.add.reduceat(v.sum(axis=(1, 2), dtype="f8"), first) / n)

    def months(v):
        v = v[p["from"]:]
        good = v > 200
        inside = [max(d - p["from"], 0) for d in starts if d + 31 > p["from"]]
        inside = sorted(set(i for i in inside if i < len(v)))
        sums = [np.add.reduceat(np.add.reduceat(x, inside, axis=0), np.arange(0, v.shape[1], 4), axis=1)
                for x in (np.where(good, v, 0).sum(axis=2, dtype="f8"), good.sum(axis=2))]
        return rows(sums[1], sums[0] / sums[1] - 273.15)

    def climatology(v):
        means = np.add.reduceat(v, starts, axis=0, dtype="f8") / lengths[:, None, None]
        return [(means.size, means.sum())]

    known = {}

    def anomaly(v):
        if not known:  # the climatology is at hand, as a table is
            known["means"] = np.add.reduceat(v, starts, axis=0, dtype="f8") / lengths[:, None, None]
        first, size, most = np.arange(0, days, 30), np.zeros(days), np.zeros(days)
        for day in range(days):
            off = v[day] - known["means"][np.searchsorted(starts, day, side="right") - 1]
            size[day], most[day] = np.abs(off).sum(), off.max()
        n = np.diff(np.append(first, days)) * v[0].size
        return rows(first // 30, np.maximum.reduceat(most, first), np.add.reduceat(size, first) / n)

    def coarsen(v):
        means = v.reshape(days, v.shape[1] // 4, 4, v.shape[2] // 4, 4).mean(axis=(2, 4), dtype="f8")
        return [(means.size, means.sum())]

    def histogram(v):
        keys = np.floor(v.ravel() / np.float32(5)).astype(np.int32)
        n = np.bincount(keys - keys.min())
        return rows(np.flatnonzero(n), n[n > 0])

    def moments(v):
        v = v[:, 30:61].ravel()
        return [(np.dot(v.astype("f8"), v), v.sum(dtype="f8"), v.size)]

    forms = {"column_parts": parts, "column_months": months, "column_climatology": climatology, "column_coarsen": coarsen, "column_histogram": histogram,
             "column_moments": moments, "column_anomaly": anomaly,
             "column_case": lambda v: rows(v.max(axis=(0, 2)) - v.min(axis=(0, 2)), (v > 293.15).mean(axis=(0, 2)))}
    return {name: (lambda handle, form=form: form(z(handle))) for name, form in forms.items()}


def rows_of(cells, order=None, step=200_000):
    names = list(cells)
    for start in range(0, len(cells[names[0]]), step):
        part = order[start:start + step] if order is not None else slice(start, start + step)
        yield from zip(*[cells[n][part].tolist() for n in names])


def fill_pairs(execute_many, execute, p):
    execute("CREATE TEMP TABLE pairs(y INTEGER, x INTEGER)")
    execute_many("INSERT INTO pairs VALUES (?, ?)", list(zip(*p["pairs"])))


class Sqlite:
    """A table WITHOUT ROWID whose primary key is the dimensions, so that it stores its cells in that order."""
    name, title, suffix = "sqlite", "SQLite key", ".db"
    needs = ["apsw"]
    borrows = False  # another one's copy

    def connect(self, path):
        import apsw
        connection = apsw.Connection(path)
        for pragma in ("mmap_size=4000000000", "cache_size=-65536"):
            connection.execute("PRAGMA " + pragma).fetchall()
        return connection

    def has(self, workload):
        return True

    def fill(self, connection, workload, cells):
        keys = [cells[d].astype(str) if cells[d].dtype == object else cells[d] for d in DIMENSIONS[workload]]
        connection.execute(f"CREATE TABLE r({DECLARED[workload]}, PRIMARY KEY({', '.join(DIMENSIONS[workload])})) WITHOUT ROWID")
        order = None if workload in TILES else np.lexsort(keys[::-1])
        connection.executemany(f"INSERT INTO r VALUES ({', '.join('?' * len(cells))})", rows_of(cells, order))

    def build(self, workload, data, path):
        connection = self.connect(path)
        connection.execute("PRAGMA journal_mode=OFF").fetchall()
        connection.execute("BEGIN")
        self.fill(connection, workload, columns(workload, data))
        connection.execute("COMMIT")
        connection.execute("ANALYZE")
        connection.close()

    def open(self, workload, path, p):
        connection = self.connect(path)
        if "pairs" in p:
            fill_pairs(connection.executemany, connection.execute, p)
        return connection

    def close(self, handle):
        handle.close()

    def queries(self, workload, p):
        found = dict(sql_queries(workload, p))
        if workload == "cube" and self.name == "sqlite":
            found |= {name: (counted(name, sql), []) for name, sql in column_queries(p, "sqlite").items()}
        return {name: (lambda handle, q=q: handle.execute(*q).fetchall()) for name, q in found.items()}


class Covering(Sqlite):
    """An ordinary table, in the order in which the cells were inserted, with an index on the dimensions and the value."""
    name, title, suffix = "covering", "SQLite index", ".covering.db"

    def has(self, workload):
        return workload not in TILES

    def fill(self, connection, workload, cells):
        connection.execute(f"CREATE TABLE r({DECLARED[workload]})")
        connection.executemany(f"INSERT INTO r VALUES ({', '.join('?' * len(cells))})", rows_of(cells))
        connection.execute(f"CREATE UNIQUE INDEX ri ON r({', '.join(DIMENSIONS[workload])}, v)")


class Rtree(Sqlite):
    """SQLite's R*Tree with the attributes as auxiliary columns, filled in Z-order."""
    name, title, suffix = "rtree", "R*Tree", ".rtree.db"
    declared = "CREATE VIRTUAL TABLE r USING rtree_i32(id, x0, x1, y0, y1, +v, +k, +name)"

    def has(self, workload):
        return workload == "points"

    def fill(self, connection, workload, cells):
        connection.execute(self.declared)
        x, y = cells["x"], cells["y"]
        cells = {"id": np.arange(len(x)), "x0": x, "x1": x, "y0": y, "y1": y, **{a: cells[a] for a in ATTRIBUTES[workload]}}
        connection.executemany("INSERT INTO r VALUES (?, ?, ?, ?, ?, ?, ?, ?)", rows_of(cells, tile_order(workload, {"x": x, "y": y})))

    def queries(self, workload, p):
        where = "x0 >= ? AND x1 <= ? AND y0 >= ? AND y1 <= ?"
        return {name: (lambda handle, box=p[name]: handle.execute(f"SELECT count(*), sum(v) FROM r WHERE {where}",
                                                                   [bound for pair in box for bound in pair]).fetchall())
                for name in ("small", "large")}


SHUFFLED, PACKED = "FILTERS(byteshuffle, zstd(5))", "FILTERS(zstd(5))"
TESSERA_COLUMNS = {
    "points": f"x INT64 DIMENSION(0, {SIDE - 1}, {SIDE // 10}) {SHUFFLED}, y INT64 DIMENSION(0, {SIDE - 1}, {SIDE // 10}) {SHUFFLED}, "
              f"v FLOAT64 NOT NULL {SHUFFLED}, k INT32 NOT NULL {SHUFFLED}, name TEXT NOT NULL {PACKED}, "
              "cell_order=hilbert, capacity=10000, offsets_filters=(byteshuffle, zstd(5))",
    "genes": f"contig TEXT DIMENSION {PACKED}, pos INT64 DIMENSION(0, 1000000000) {SHUFFLED}, "
             f"v FLOAT64 NOT NULL {SHUFFLED}, depth INT32 NOT NULL {SHUFFLED}, capacity=10000, offsets_filters=(byteshuffle, zstd(5))"}


def tessera_columns(workload, shape=None):
    if workload in TESSERA_COLUMNS:
        return TESSERA_COLUMNS[workload]
    dimensions = ", ".join(f"{d} INT32 DIMENSION(0, {n - 1}, {min(n, t)}) FILTERS(none)"
                           for d, n, t in zip(DIMENSIONS[workload], shape, TILES[workload]))
    return f"{dimensions}, v FLOAT32 NOT NULL {SHUFFLED}, kind=dense"


def npy(array):
    import io
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


class Tessera(Sqlite):
    """This extension, over an array that it has written itself, with the same tiles and filters as TileDB's array."""
    name, title, suffix = "tessera", "tessera", ".tessera"
    library = None

    def connect(self, path):
        connection = super().connect(path)
        connection.enable_load_extension(True)
        connection.load_extension(self.library)
        return connection

    def build(self, workload, data, path):
        connection = self.connect(":memory:")
        shape = data.shape if workload in TILES else None
        connection.execute(f"CREATE VIRTUAL TABLE r USING tessera('{path}', {tessera_columns(workload, shape)})")
        if workload in TILES:
            connection.execute("SELECT tessera_write_npy(?, 'v', ?)", (path, npy(data))).fetchall()
        else:
            cells = columns(workload, data)
            connection.execute("BEGIN")
            connection.executemany(f"INSERT INTO r VALUES ({', '.join('?' * len(cells))})", rows_of(cells))
            connection.execute("COMMIT")
        connection.close()

    def open(self, workload, path, p):
        connection = self.connect(":memory:")
        connection.execute(f"CREATE VIRTUAL TABLE r USING tessera('{path}')")
        if "pairs" in p:
            fill_pairs(connection.executemany, connection.execute, p)
        return connection


class TesseraFunctions(Tessera):
    """The same arrays, read through tessera_npy and tessera_aggregate."""
    name, title = "function", "tessera function"
    borrows = True

    def has(self, workload):
        return workload == "raster"

    def queries(self, workload, p):
        box = {name: json.dumps(dict(zip(DIMENSIONS[workload], p[name]))) for name in ("tile", "tenth")}

        def block(handle):
            found = handle.execute("SELECT tessera_npy('db:r', 'v', ?)", (box["tile"],)).fetchall()[0][0]
            header = int.from_bytes(found[8:10], "little")
            return np.frombuffer(found, dtype=np.float32, offset=10 + header)

        found = {"tile": block}
        probe = self.connect(":memory:")
        if probe.execute("SELECT count(*) FROM pragma_module_list WHERE name = 'tessera_aggregate'").fetchall()[0][0]:
            aggregate = "FROM tessera_aggregate('db:r', 'v'"
            found["tenth"] = lambda handle: handle.execute(f"SELECT count, sum {aggregate}, ?)", (box["tenth"],)).fetchall()
            found["total"] = lambda handle: handle.execute(f"SELECT sum {aggregate})").fetchall()
            found["group"] = lambda handle: handle.execute(f"SELECT key1, sum {aggregate}, '{{}}', 'y')").fetchall()
        probe.close()
        return found


class TesseraQuery(Tessera):
    """The same arrays, read through tables of tessera_query."""
    name, title = "query", "tessera_query"
    borrows = True

    def has(self, workload):
        return workload == "cube"

    def open(self, workload, path, p):
        connection = super().open(workload, path, p)
        for name, sql in column_queries(p, "sqlite").items():
            connection.execute(f"CREATE VIRTUAL TABLE temp.{name} USING tessera_query({sql})")
        climatology, anomaly = anomaly_queries("sqlite")
        connection.execute("CREATE VIRTUAL TABLE clim USING tessera(kind=dense, m INT32 DIMENSION(1, 12, 12), lat INT32 DIMENSION(0, 179, 60), "
                           "lon INT32 DIMENSION(0, 359, 60), mean FLOAT64 NOT NULL)")
        connection.execute(f"CREATE VIRTUAL TABLE temp.climatology USING tessera_query({climatology})")
        connection.execute("INSERT INTO clim SELECT * FROM climatology")
        connection.execute(f"CREATE VIRTUAL TABLE temp.column_anomaly USING tessera_query({anomaly})")
        return connection

    def queries(self, workload, p):
        return {name: (lambda handle, sql=counted(name, f"SELECT * FROM {name}"): handle.execute(sql).fetchall())
                for name in [*column_queries(p, "sqlite"), "column_anomaly"]}


class Tiledb:
    """TileDB-Py: reads into numpy, with TileDB's own query condition and multi_index."""
    name, title, suffix = "tiledb", "TileDB", ".tiledb"
    needs = ["tiledb"]
    borrows = False
    duplicates, cell_order = False, "hilbert"

    def has(self, workload):
        return True

    def schema(self, workload, shape=None):
        import tiledb
        shuffled, packed = tiledb.FilterList([tiledb.ByteShuffleFilter(), tiledb.ZstdFilter(5)]), tiledb.FilterList([tiledb.ZstdFilter(5)])
        if workload in TILES:
            sides = zip(DIMENSIONS[workload], shape, TILES[workload])
            domain = tiledb.Domain(*[tiledb.Dim(d, domain=(0, n - 1), tile=min(n, t), dtype="int32") for d, n, t in sides])
            return tiledb.ArraySchema(domain, attrs=[tiledb.Attr("v", dtype="f4", filters=shuffled)])
        attributes = [tiledb.Attr("v", dtype="f8", filters=shuffled)]
        if workload == "points":
            domain = tiledb.Domain(*[tiledb.Dim(d, domain=(0, SIDE - 1), tile=SIDE // 10, dtype="int64", filters=shuffled) for d in "xy"])
            attributes += [tiledb.Attr("k", dtype="i4", filters=shuffled), tiledb.Attr("name", dtype=str, var=True, filters=packed)]
        else:
            domain = tiledb.Domain(tiledb.Dim("contig", domain=(None, None), tile=None, dtype="ascii", filters=packed),
                                   tiledb.Dim("pos", domain=(0, 10**9), tile=None, dtype="int64", filters=shuffled))
            attributes += [tiledb.Attr("depth", dtype="i4", filters=shuffled)]
        return tiledb.ArraySchema(domain, sparse=True, capacity=10_000, allows_duplicates=self.duplicates, offsets_filters=shuffled,
                                  cell_order=self.cell_order if workload == "points" else "row-major", attrs=attributes)

    def build(self, workload, data, path):
        import tiledb
        tiledb.Array.create(path, self.schema(workload, data.shape if workload in TILES else None))
        with tiledb.open(path, "w") as array:
            if workload in TILES:
                array[:] = data
            else:
                coordinates = tuple(data[d].astype("S") if data[d].dtype == object else data[d] for d in DIMENSIONS[workload])
                array[coordinates] = {a: data[a] for a in ATTRIBUTES[workload]}

    def open(self, workload, path, p):
        import tiledb
        return tiledb.open(path)

    def close(self, handle):
        handle.close()

    def dense(self, workload, p, read):
        """Returns the queries that numpy answers from blocks of a dense array. `read(slices)` reads a block. Zarr uses this function, too."""
        box = {name: tuple(slice(low, high + 1) for low, high in p[name]) for name in ("tile", "tenth") if name in p}

        def rare(values):
            values = values[values > np.float32(p["threshold"])]
            return [(values.size, values.sum(dtype="f8"))]

        found = {"total": lambda handle: [(read(handle, slice(None)).sum(dtype="f8"),)],
                 "rare": lambda handle: rare(read(handle, slice(None)))}
        if workload == "raster":
            found["point"] = lambda handle: [(float(np.ravel(read(handle, tuple(slice(i, i + 1) for i in p["point"])))[0]),)]
            found["tile"] = lambda handle: read(handle, box["tile"])
            found["tenth"] = lambda handle: (lambda z: [(z.size, z.sum(dtype="f8"))])(read(handle, box["tenth"]))
            found["group"] = lambda handle: list(enumerate(read(handle, slice(None)).sum(axis=1, dtype="f8").tolist()))
            found["join"] = lambda handle: (lambda z: [(len(z), z.sum(dtype="f8"))])(read(handle, slice(None))[tuple(p["pairs"])])
            found["first"] = lambda handle: [(0, x, v) for x, v in enumerate(read(handle, (slice(0, 1), slice(0, 100))).ravel().tolist())]
        if workload == "cube" and self.name == "tiledb":
            found |= column_blocks(lambda handle: read(handle, slice(None)), p)
        return found

    def queries(self, workload, p):
        if workload in TILES:
            return self.dense(workload, p, lambda handle, box: handle[box]["v"])

        def read(handle, box, dimensions=False, condition=None):
            return handle.query(attrs=["v"], dims=dimensions, cond=condition).multi_index[box]

        def summed(found):
            return [(found["v"].size, found["v"].sum())]

        everything = (slice(None), slice(None))

        def first(handle):
            found = read(handle, everything, DIMENSIONS[workload])
            order = np.argsort(found["x"] * SIDE + found["y"])[:100]
            return list(zip(*[found[n][order].tolist() for n in ("x", "y", "v")]))

        found = {"rare": lambda handle: summed(read(handle, everything, condition=f"v > {p['threshold']!r}")),
                 "total": lambda handle: [(read(handle, everything)["v"].sum(),)]}
        for name in ("small", "large"):
            if name in p:  # a string dimension has one value here
                box = tuple(low if isinstance(low, str) else slice(low, high) for low, high in p[name])
                found[name] = lambda handle, box=box: summed(read(handle, box))
        if workload == "points":
            found["first"] = first
        return found


class TiledbRows(Tiledb):
    """The points in the form that TileDB reads fastest: row-major, with duplicates allowed, so that TileDB compares no cells."""
    name, title, suffix = "tiledb_rows", "TileDB, row-major with duplicates", ".rows.tiledb"
    duplicates, cell_order = True, "row-major"

    def has(self, workload):
        return workload == "points"


class TiledbAggregates(Tiledb):
    """TileDB's own sums and counts over the array of Tiledb. For whole tiles TileDB takes them from the tiles' statistics."""
    name, title = "tiledb_aggregates", "TileDB, aggregates"
    borrows = True

    def has(self, workload):
        return workload == "raster"

    def queries(self, workload, p):
        def summed(handle, box):
            found = handle.query(attrs=["v"]).agg({"v": ["sum", "count"]})[box]
            return [(int(np.ravel(found["count"])[0]), float(np.ravel(found["sum"])[0]))]

        box = {name: tuple(slice(low, high + 1) for low, high in p[name]) for name in ("tile", "tenth")}
        return {"tile": lambda handle: summed(handle, box["tile"]), "tenth": lambda handle: summed(handle, box["tenth"]),
                "total": lambda handle: [(summed(handle, slice(None))[0][1],)]}


class Duckdb:
    """A table of DuckDB, filled in the order of the array's tiles."""
    name, title, suffix = "duckdb", "DuckDB", ".duckdb"
    borrows = False
    needs = ["duckdb", "pyarrow"]

    def has(self, workload):
        return True

    def load(self, connection, workload, data):
        order, cells = tile_order(workload, data), columns(workload, data)
        cells = {name: values[order] for name, values in cells.items()}
        import pyarrow
        table = pyarrow.table({n: pyarrow.array(v.tolist(), pyarrow.string()) if v.dtype == object else pyarrow.array(v) for n, v in cells.items()})
        connection.register("cells", table)
        connection.execute("CREATE TABLE r AS SELECT * FROM cells")

    def build(self, workload, data, path):
        import duckdb
        connection = duckdb.connect(path)
        self.load(connection, workload, data)
        connection.execute("CHECKPOINT")
        connection.close()

    def open(self, workload, path, p):
        import duckdb
        connection = duckdb.connect(path, read_only=True)
        if "pairs" in p:
            self.pairs(connection, p)
        if workload == "cube":
            connection.execute(f"CREATE TEMP TABLE clim AS {anomaly_queries('duckdb')[0]}")
        return connection

    def pairs(self, connection, p):
        y, x = (np.array(side) for side in p["pairs"])
        connection.execute("CREATE TEMP TABLE pairs AS SELECT unnest($1) AS y, unnest($2) AS x", [y, x])

    def close(self, handle):
        handle.close()

    def queries(self, workload, p):
        found = dict(sql_queries(workload, p))
        if workload == "cube" and self.name == "duckdb":
            found |= {name: (counted(name, sql), []) for name, sql in column_queries(p, "duckdb").items()}
            found["column_anomaly"] = (anomaly_queries("duckdb")[1], [])
        return {name: (lambda handle, q=q: handle.execute(*q).fetchall()) for name, q in found.items()}


class Parquet(Duckdb):
    """The same rows in a Parquet file with zstd, which DuckDB reads."""
    name, title, suffix = "parquet", "Parquet", ".parquet"

    def build(self, workload, data, path):
        import duckdb
        connection = duckdb.connect(":memory:")
        self.load(connection, workload, data)
        connection.execute(f"COPY r TO '{path}' (FORMAT parquet, COMPRESSION zstd, COMPRESSION_LEVEL 5)")
        connection.close()

    def open(self, workload, path, p):
        import duckdb
        connection = duckdb.connect(":memory:")
        connection.execute(f"CREATE VIEW r AS SELECT * FROM read_parquet('{path}')")
        if "pairs" in p:
            self.pairs(connection, p)
        return connection


class Zarr(Tiledb):
    """zarr with the same chunks, blosc's zstd and byte shuffle."""
    name, title, suffix = "zarr", "zarr", ".zarr"
    needs = ["zarr"]

    def has(self, workload):
        return workload in TILES

    def build(self, workload, data, path):
        import zarr
        codec = zarr.codecs.BloscCodec(cname="zstd", clevel=5, shuffle="shuffle")
        chunks = tuple(min(n, t) for n, t in zip(data.shape, TILES[workload]))
        array = zarr.create_array(store=path, shape=data.shape, chunks=chunks, dtype="f4", compressors=codec)
        array[...] = data

    def open(self, workload, path, p):
        import zarr
        return zarr.open_array(path, mode="r")

    def close(self, handle):
        pass

    def queries(self, workload, p):
        return self.dense(workload, p, lambda handle, box: handle[box])


SYSTEMS = [Tessera, TesseraFunctions, TesseraQuery, Sqlite, Covering, Rtree, Tiledb, TiledbAggregates, TiledbRows, Duckdb, Parquet, Zarr]
