"""TileDB opens arrays that CREATE VIRTUAL TABLE has made: for every array of the corpus one is created from
tessera_ddl's statement. TileDB must see the same schema in both; and if TileDB can copy the cells of the one into the
other, the extension must read the same.

usage: create.py SHELL EXTENSION CORPUS [PATTERN]      (77: the package `tiledb` is not installed)
The package's Python often loads no SQLite extensions, so the shell does.
"""
import json
import os
import subprocess
import sys

from cases import Cases

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "corpus"))
import arrays  # noqa: E402
from read import uses_webp  # noqa: E402

try:
    import numpy
    import tiledb
except ImportError:
    tiledb = None


class Failed(Exception):
    pass


def literal(text):
    return "'" + text.replace("'", "''") + "'"


def sql(shell, extension, statements):
    """Returns the rows of the last statement."""
    text = f".load {extension}\n.mode json\n" + ";\n".join(statements) + ";\n"
    environment = dict(os.environ, LD_PRELOAD=os.environ.get("TESSERA_PRELOAD", ""), ASAN_OPTIONS=os.environ.get("ASAN_OPTIONS", "") + ":detect_leaks=0")
    result = subprocess.run([shell, "-batch", "-init", os.devnull, ":memory:"], input=text.encode(), env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    if result.stderr.strip() or result.returncode:
        raise Failed(result.stderr.decode("utf-8", "replace").strip() or f"exit code {result.returncode}")
    output, rows_of_last = result.stdout.decode("utf-8", "surrogateescape").strip(), []
    while output:
        rows_of_last, end = json.JSONDecoder().raw_decode(output)
        output = output[end:].strip()
    return rows_of_last


def plain(value):
    """Returns any value as comparable text, also NaN and NaT."""
    return repr(value.tolist() if isinstance(value, numpy.ndarray) else value)


def describe_attribute(context, uri, schema, i, key):
    a = schema.attr(i)
    described = {"name": a._internal_name, "nullable": a.isnullable, "filters": str(a.filters)}
    if a.enum_label:
        with tiledb.open(uri, ctx=context, key=key) as array:
            e = array.enum(a.enum_label)
            return dict(described, labels=plain(numpy.array(e.values())), ordered=e.ordered)
    simple = a.dtype.kind in "iuf" and a.ncells == 1 and not a.isvar  # other fill values crash the package
    return dict(described, type=str(a.dtype), variable=a.isvar, values=a.ncells, fill=plain(a.fill) if simple else None)


def describe_label(schema, name):
    label = schema.dim_label(name)
    return {each: str(getattr(label, each)) for each in ("dim_index", "dtype", "isascii", "isvar", "label_attr_name", "order")} | {"folder": label.uri[-2:]}


def describe(context, uri, key=None, labels=()):
    """Returns an array's schema as TileDB describes it. A dimension without filters of its own has those of the coordinates."""
    s = tiledb.ArraySchema.load(uri, ctx=context, key=key)
    dims = [s.domain.dim(i) for i in range(s.domain.ndim)]
    current = s.current_domain
    return {
        "sparse": s.sparse, "orders": (s.cell_order, s.tile_order), "capacity": s.capacity, "duplicates": s.sparse and s.allows_duplicates,
        "filters": [str(f) for f in (s.coords_filters, s.offsets_filters, s.validity_filters)],
        "dims": [(d.name, str(d.dtype), plain(d.domain), plain(d.tile), str(d.filters if len(d.filters) else s.coords_filters)) for d in dims],
        "attrs": [describe_attribute(context, uri, s, i, key) for i in range(s.nattr)],
        "labels": {name: describe_label(s, name) for name in labels},
        "current": None if current.is_empty else [plain(current.ndrectangle.range(d.name)) for d in dims],
    }


def copy_cells(context, old, new, key):
    """Copies the cells. Returns False if the package cannot: it does not know all datatypes and nulls."""
    with tiledb.open(old, ctx=context, key=key) as array:
        schema = array.schema
        if any(schema.attr(i).isnullable for i in range(schema.nattr)):
            return False
        if not schema.sparse and any(low < numpy.zeros(1, low.dtype)[0] for low, _ in array.nonempty_domain() or ()):
            return False  # the package counts negative indexes from the end
        box = tuple(slice(None) if schema.sparse else slice(low, high + 1) for low, high in array.nonempty_domain())
        cells = array[:] if schema.sparse else array[box]
        dims = [schema.domain.dim(i).name for i in range(schema.domain.ndim)]
    if not isinstance(cells, dict):
        cells = {schema.attr(0).name: cells}
    with tiledb.open(new, "w", ctx=context, key=key) as array:
        values = {name: v for name, v in cells.items() if name not in dims}
        if schema.sparse:
            array[tuple(cells[d] for d in dims)] = values
        else:
            array[box] = values if len(values) > 1 else next(iter(values.values()))
    return True


def rows(shell, extension, path):
    found = sql(shell, extension, [f"CREATE VIRTUAL TABLE t USING tessera({literal(path)}, {arrays.OPTIONS})", "SELECT *, written_at IS NULL AS unwritten FROM t"])
    return sorted(json.dumps(row, sort_keys=True) for row in found)


def check(folder, shell, extension, directory, description):
    """Returns (whether TileDB has described the array, whether it has copied the cells)."""
    new, key = os.path.join(folder, "new"), description.get("encryption_key")
    keys = [f"SELECT tessera_set_key({literal(p)}, {literal(key)}) IS NULL" for p in (directory, new)] if key else []
    text = sql(shell, extension, keys[:1] + [f"SELECT tessera_ddl({literal(directory)}) AS ddl"])
    text = text[-1]["ddl"]
    body = text.split(literal(directory), 1)[1]
    sql(shell, extension, keys + [f"CREATE VIRTUAL TABLE t USING tessera({literal(new)}{body}"])
    context = tiledb.Ctx({"sm.encryption_type": "AES_256_GCM", "sm.encryption_key": key} if key else None)
    labels = [row["name"] for row in sql(shell, extension, keys + [f"SELECT name FROM tessera_schema({literal(new)}) WHERE role = 'label'"]) if "name" in row]
    try:
        old = describe(context, directory, key, labels)
    except Exception:  # the package knows fewer datatypes than the library
        return {}
    made = describe(context, new, key, labels)
    if old != made:
        raise Failed("; ".join(f"{k}: {old[k]}, now {made[k]}" for k in old if old[k] != made[k]))
    if key:
        return {"described": 1, "labels": len(labels)}
    try:
        copied = copy_cells(context, directory, new, key)
    except Exception as e:
        if isinstance(e, tiledb.TileDBError):
            raise Failed(f"TileDB cannot write: {e}") from None
        return {"described": 1}
    before = rows(shell, extension, directory) if copied else []
    if any('"unwritten": 1' in row for row in before):  # the package copies them as fill values
        return {"described": 1}
    if before and before != rows(shell, extension, new):
        raise Failed("the rows differ")
    return {"described": 1, "copied": int(copied)}


def main():
    if not tiledb:
        print("SKIPPED: the package `tiledb` is not installed")
        return 77
    shell, extension, corpus = sys.argv[1:4]
    pattern = sys.argv[4] if len(sys.argv) > 4 else ""
    tests = Cases("create")
    for name, directory, description in arrays.find(os.path.abspath(corpus), pattern):
        if uses_webp(description) or "/kv/" in name or not arrays.sampled(name):  # the names of a key-value store change
            continue
        tests.run(name, check, shell, os.path.abspath(extension), directory, description)
    failed = tests.end(f"TileDB sees the same schema in {tests.tally['described']}, wrote into {tests.tally['copied']} of them")
    return failed or not tests.tally["copied"]


if __name__ == "__main__":
    sys.exit(main())
