"""TileDB reads the same from a copy by tessera_copy and from an export as from the array itself: for a sample of the
corpus, and for arrays that TileDB has evolved, with cells that lack attributes.

usage: copies.py SHELL EXTENSION CORPUS [PATTERN]      (77: the package `tiledb` is not installed)
"""
import os
import sys

from cases import Cases
from create import Failed, arrays, literal, sql, uses_webp  # create.py beside this one

try:
    import numpy
    import tiledb
except ImportError:
    tiledb = None

EACH = 15  # one of so many arrays of the corpus is taken
# The package does not read labels and nulls. The library does not read key-value stores, and reads sparse fragments in dense arrays wrong (errata.md, 30).
LEFT_OUT = ("/labels/", "nullable", "/kv/", "sparse_in_dense", "mixed/")


def values_of(column):
    """Returns a column as a list of comparable texts, also for NaN and null."""
    cells = column.ravel().tolist() if isinstance(column, numpy.ma.MaskedArray) else numpy.asarray(column, dtype=object).ravel()
    return [repr(cell.tolist() if isinstance(cell, (numpy.ndarray, numpy.generic)) else cell) for cell in cells]


def contents(path, key):
    """Returns what TileDB reads: the rows of a sparse array, the non-empty domain of a dense one."""
    context = tiledb.Ctx({"sm.encryption_type": "AES_256_GCM", "sm.encryption_key": key} if key else None)
    with tiledb.open(path, ctx=context, key=key) as array:
        domain = array.nonempty_domain()
        if domain is None:
            return None
        if array.schema.sparse:
            cells = array[:]
            return sorted(zip(*(values_of(cells[name]) for name in cells)))
        cells = array.multi_index[tuple(slice(low, high) for low, high in domain)]
        names = [array.schema.attr(i).name for i in range(array.schema.nattr)]
        return repr(domain), [(name, values_of(cells[name])) for name in names]


def compare(folder, shell, extension, path, key):
    try:
        before = contents(path, key)
    except Exception:  # the package knows fewer datatypes than the library
        return {"not read": 1}
    copy, export = os.path.join(folder, "copy"), os.path.join(folder, "export")
    keys = [f"SELECT tessera_set_key({literal(p)}, {literal(key)}) IS NULL" for p in (path, copy, export)] if key else []
    sql(shell, extension, keys + [f"SELECT tessera_copy({literal(path)}, {literal(copy)}) AS cells", f"SELECT tessera_sync({literal(path)}, 'db:t') > 0",
                                  f"SELECT tessera_sync('db:t', {literal(export)}) AS files"])
    for what, place in (("copy", copy), ("export", export)):
        after = contents(place, key)
        if after != before:
            raise Failed(f"the {what}: {str(after)[:400]} instead of {str(before)[:400]}")
    return {"compared": 1}


def make_evolved(path, sparse, again):
    """Makes fragments with a, with a and b, with b alone, and if `again` with a once more. They do not overlap: of overlapping dense fragments the library takes
    an attribute that the newest lacks from an older one (errata.md, 94)."""
    dimension = tiledb.Dim("x", domain=(0, 99), tile=10, dtype=numpy.int32)
    attributes = [tiledb.Attr("a", dtype=numpy.int32)]
    tiledb.Array.create(path, tiledb.ArraySchema(domain=tiledb.Domain(dimension), attrs=attributes, sparse=sparse))
    time = 10

    def write(first, count, **values):
        with tiledb.open(path, "w") as array:
            if sparse:
                array[numpy.arange(first, first + count, dtype=numpy.int32)] = values
            else:
                array[first:first + count] = values if len(values) > 1 else next(iter(values.values()))

    def evolve(change):
        evolution = tiledb.ArraySchemaEvolution()
        change(evolution)
        evolution.array_evolve(path)

    write(0, 15, a=numpy.arange(15, dtype=numpy.int32))
    evolve(lambda e: e.add_attribute(tiledb.Attr("b", dtype=numpy.float64, fill=7.5)))
    write(20, 10, a=numpy.arange(10, dtype=numpy.int32), b=numpy.arange(10, dtype=numpy.float64))
    evolve(lambda e: e.drop_attribute("a"))
    write(40, 25, b=numpy.arange(25, dtype=numpy.float64))
    if again:
        evolve(lambda e: e.add_attribute(tiledb.Attr("a", dtype=numpy.int32, fill=3)))
        write(70, 3, a=numpy.arange(3, dtype=numpy.int32), b=numpy.arange(3, dtype=numpy.float64))


def evolved(folder, shell, extension, sparse, again):
    path = os.path.join(folder, "evolved")
    make_evolved(path, sparse, again)
    return compare(folder, shell, extension, path, None)


def follows(folder, shell, extension):
    """Two copies that were both written, merged both ways; then one of them merged and vacuumed, which the other follows."""
    one, other = os.path.join(folder, "one"), os.path.join(folder, "other")
    both = [f"SELECT tessera_sync({literal(a)}, {literal(b)}, '{{\"merge\":true}}') > 0" for a, b in ((one, other), (other, one))]
    sql(shell, extension, [
        f"CREATE VIRTUAL TABLE one USING tessera({literal(one)}, x INT32 DIMENSION(0, 99, 10), v INT32 NOT NULL)", "INSERT INTO one VALUES (1, 1), (2, 2)",
        both[0], f"CREATE VIRTUAL TABLE other USING tessera({literal(other)})", "INSERT OR REPLACE INTO one VALUES (2, 20), (3, 3)", "DELETE FROM other WHERE x = 1",
        "INSERT OR REPLACE INTO other VALUES (2, 21)", *both, f"SELECT tessera_consolidate({literal(one)}) + tessera_vacuum({literal(one)}, '{{\"grace_s\":0}}')", both[0]])
    expected = {"v": ["21", "3"], "x": ["2", "3"]}
    for place in (one, other):
        with tiledb.open(place) as array:
            found = {name: values_of(column) for name, column in array[:].items()}
        if found != expected:
            raise Failed(f"{place}: {found} instead of {expected}")
    return {"compared": 1}


def full_range(folder, shell, extension, sparse):
    """A domain over all of INT8 without a tile extent: TileDB stores an extent of -1."""
    path = os.path.join(folder, "full")
    dimension = tiledb.Dim("x", domain=(-128, 126), tile=None, dtype=numpy.int8)
    filters = tiledb.FilterList([tiledb.ZstdFilter(4)], chunksize=0)
    tiledb.Array.create(path, tiledb.ArraySchema(domain=tiledb.Domain(dimension), attrs=[tiledb.Attr("v", dtype=numpy.int32, filters=filters)], sparse=sparse))
    with tiledb.open(path, "w") as array:
        if sparse:
            array[numpy.array([-128, 0, 126], numpy.int8)] = numpy.array([1, 2, 3], numpy.int32)
        else:
            array[0:100] = numpy.arange(100, dtype=numpy.int32)
    return compare(folder, shell, extension, path, None)


def main():
    if not tiledb:
        print("SKIPPED: the package `tiledb` is not installed")
        return 77
    shell, extension, corpus = sys.argv[1], os.path.abspath(sys.argv[2]), os.path.abspath(sys.argv[3])
    cases = Cases("copies")
    for sparse in (True, False):
        for again in (True, False):
            cases.run(f"evolved, sparse={sparse}, again={again}", evolved, shell, extension, sparse, again)
        cases.run(f"full range, sparse={sparse}", full_range, shell, extension, sparse)
    cases.run("copies that were merged", follows, shell, extension)
    found = [item for item in arrays.find(corpus, sys.argv[4] if len(sys.argv) > 4 else "")
             if not uses_webp(item[2]) and not any(part in item[0] for part in LEFT_OUT)]
    for name, directory, description in found[::EACH] if len(sys.argv) < 5 else found:
        cases.run(name, compare, shell, extension, directory, description.get("encryption_key"))
    failed = cases.end(f"{cases.tally['compared']} compared, {cases.tally['not read']} that the package does not read")
    return failed or not cases.tally["compared"]


if __name__ == "__main__":
    sys.exit(main())
