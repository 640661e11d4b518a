"""Dense arrays are made of blocks: a CREATE by the types and shapes of ndarrays, then the blocks themselves, without a row in between.

In a directory the array is made beside its path and takes its place at the end, so that there is all of it or nothing. In a database a
savepoint does that. In a bucket the array is there before its cells; on an error it is dropped.
"""
from __future__ import annotations

import contextlib
import contextvars
import ctypes
import itertools
import json
import math
import os
import re
import shutil
import uuid
import warnings

import numpy

from . import statements as sql
from .arrays import LENGTHS, Array, exists, is_empty
from .boxes import box_json
from .connections import own_connection
from .paths import need_connection, secret
from .values import is_duration, plain_value
from .columns import check_names, object_type
from .errors import Constraint, Denied, Exists, Mismatch, Range, Unsupported

__all__ = ["POSITIONS", "append_grid", "check_place", "check_types", "create_at", "create_grid", "label_values", "last_label", "make_grid", "new_place", "place_grid", "remove_place", "rises_or_falls", "runs_of",
           "set_metadata", "take_place", "typed_metadata", "written"]

written = contextvars.ContextVar("written", default=None)   # is told how many bytes each write of a block had
POSITIONS = "_index"   # ends the name of a dimension whose own name a label has
_CELLS, _WRITE_BYTES = 262144, 256 << 20   # of a tile at most; of one write of a chunked source
_UNITS = {"Y": "YEAR", "M": "MONTH", "W": "WEEK", "D": "DAY", "h": "HR", "m": "MIN", "s": "SEC", "ms": "MS", "us": "US", "ns": "NS", "ps": "PS", "fs": "FS",
          "as": "AS"}
_COARSE = ("Y", "M", "W", "D", "h", "m", "s", "ms", "us", "ns")   # units of instants that Arrow has, or makes of its own
_NUMBERS = {**{f"{'U' if kind == 'u' else ''}INT{8 * size}": f"{kind}{size}" for kind in "iu" for size in (1, 2, 4, 8)}, "FLOAT32": "f4", "FLOAT64": "f8", "BOOL": "?"}
_OPTIONS = {"dimensions", "domains", "extents", "filters", "types", "metadata", "labels", "cell_order", "tile_order", "format_version", "kind",
            "origin", "explain", "memory_mb", "fills", "key_file", "grow"}


def _number(value, datatype):
    """Returns a coordinate as an integer; a date or its text as the count of the datatype's unit."""
    if not str(datatype).startswith("DATETIME_") or isinstance(value, (int, numpy.integer)):
        return int(value) if isinstance(value, str) and value.isdecimal() else value   # JSON has large integers as text
    letters = next(letters for letters, unit in _UNITS.items() if unit == datatype[9:])
    return int(numpy.datetime64(value if isinstance(value, (str, numpy.datetime64)) else plain_value(value)).astype(f"M8[{letters}]").astype("i8"))


def sql_type(name, dtype):
    """Returns the type of an attribute as CREATE has it."""
    kind, size = dtype.kind, dtype.itemsize
    if kind in "iu":
        return f"{'INT' if kind == 'i' else 'UINT'}{8 * size}"
    if kind == "f" and size in (4, 8):
        return f"FLOAT{8 * size}"
    if kind == "b":
        return "BOOL"
    if kind in "Mm":
        unit, step = numpy.datetime_data(dtype)
        if unit in _UNITS and step == 1 and not (kind == "m" and unit in ("Y", "M", "W", "D")):
            return f"{'DATETIME' if kind == 'M' else 'TIME'}_{_UNITS[unit]}"
    if kind in "OUST":   # of a block without cells; others go in as rows
        return "BLOB" if kind == "S" else "UTF8"
    raise TypeError(f"{name!r} is {dtype}, for which cells have no type: convert it")


def _stored(values):
    """Returns values in a type that arrays have: halves widened, days as hours."""
    if values.dtype.kind == "f" and values.dtype.itemsize == 2:
        return values.astype("f4")
    if values.dtype.kind == "m" and numpy.datetime_data(values.dtype)[0] in ("Y", "M", "W", "D"):
        return values.astype("m8[h]")
    return values


def label_values(values):
    """Returns the values of a label in a type that labels have: instants with a zone are those of UTC, dates and texts of Python what numpy has for them."""
    if getattr(getattr(values, "dtype", None), "tz", None) is not None:   # of pandas
        import pandas
        return pandas.DatetimeIndex(values).tz_convert(None).to_numpy()
    values = numpy.asarray(values)
    if values.dtype.kind in "MmfiuU" or not values.size:
        return _stored(values)
    values = numpy.asarray(values, object)
    if all(map(is_duration, values.ravel())):
        return _stored(numpy.array([v.to_timedelta64() if hasattr(v, "to_timedelta64") else numpy.timedelta64(v) for v in values.ravel()]).reshape(values.shape))
    if all(hasattr(v, "isoformat") and not is_duration(v) for v in values.ravel()):
        return numpy.array([numpy.datetime64(plain_value(v)) for v in values.ravel()]).reshape(values.shape)
    return values


def rises_or_falls(values):
    """Whether the values can be a label: numbers, instants, durations or texts that rise, or fall, strictly."""
    if values.ndim != 1 or not values.size or values.dtype.kind not in "MmfiuUO":
        return False
    if values.dtype.kind in "UO":
        listed = values.tolist()
        steps = [one < other for one, other in zip(listed, listed[1:])] if all(isinstance(v, str) for v in listed) else [True, False]
        return all(steps) or not any(steps) and len(set(listed)) == len(listed)
    missing = numpy.isnat(values) if values.dtype.kind in "Mm" else ~numpy.isfinite(values)
    return not missing.any() and bool((values[1:] > values[:-1]).all() or (values[1:] < values[:-1]).all())


def choose_extents(lengths, given):
    """The rule of tessera_create_as: the longest extent that is not given is halved until a tile has at most 262,144 cells. lengths: of the domains."""
    extents = {name: int(given.get(name, max(length, 1))) for name, length in lengths.items()}
    free = [name for name in extents if name not in given]
    while math.prod(extents.values()) > _CELLS and any(extents[name] > 1 for name in free):
        longest = max(free, key=extents.get)
        extents[longest] = (extents[longest] + 1) // 2
    return extents


def _widest(name, kind, extent):
    """The highest end of a domain, behind which a tile still has room."""
    signed, bits = kind.upper().startswith("INT"), kind.upper().lstrip("U")[3:]
    if bits not in ("8", "16", "32", "64"):
        raise TypeError(f"'grow': dimension {name!r} is {kind}, not of integers: give its end in 'domains'")
    return 2 ** (int(bits) - signed) - 1 - extent


def definition(place, lengths, types, labels, options):
    """Returns the arguments of CREATE VIRTUAL TABLE ... USING tessera(...)."""
    unknown = set(options) - _OPTIONS
    if unknown:
        raise TypeError(f"an array of ndarrays has no option {', '.join(sorted(unknown))}; there are {', '.join(sorted(_OPTIONS))}")
    if options.get("kind", "dense") != "dense":
        raise Constraint("ndarrays make dense arrays; for a sparse one give columns")
    for option in ("domains", "extents", "grow"):
        for name in set(options.get(option, {})) - set(lengths):
            raise KeyError(f"{option!r}: no dimension {name!r}")
    domains = {name: options.get("domains", {}).get(name, (0, max(length, 1) - 1)) for name, length in lengths.items()}
    extents = choose_extents({name: high - low + 1 for name, (low, high) in domains.items()}, options.get("extents", {}))
    parts = ([sql.text(place)] if place else []) + ["kind=dense"]
    parts += [f"{name}={sql.text(options[name])}" for name in ("cell_order", "tile_order", "format_version") if name in options]
    parts += ["encryption=aes_256_gcm", f"key_file={sql.text(os.path.abspath(options['key_file']))}"] if options.get("key_file") else []
    for name, (low, high) in domains.items():
        grows = name in options.get("grow", ())
        kind, extent = options.get("types", {}).get(name, "INT64"), extents[name] if grows else min(extents[name], high - low + 1)
        made = f"{sql.name(name)} {kind} DIMENSION({low}, {_widest(name, kind, extent) if grows else high}, {extent})"
        made += f" CURRENT({low}, {high})" if grows else ""
        for label, (dim, values) in labels.items():
            if dim == name:
                made += f" LABEL {sql.name(label)} {'TEXT' if values.dtype.kind in 'OU' else sql_type(label, values.dtype)}{' DURATION' if values.dtype.kind == 'm' else ''}"
                made += " DECREASING" if len(values) > 1 and values[0] > values[-1] else ""
        parts.append(made)
    for name, (dtype, nullable) in types.items():
        bare = dtype.itemsize == 1 or dtype.kind in "US"
        filters = options.get("filters", {}).get(name) or ("zstd(5)" if bare else "byteshuffle, zstd(5)")
        fill = f" DEFAULT {options['fills'][name]}" if name in options.get("fills", {}) else ""
        kind = options.get("types", {}).get(name) or sql_type(name, dtype) + (" DURATION" if dtype.kind == "m" else "")
        parts.append(f"{sql.name(name)} {kind}{'' if nullable else ' NOT NULL'}{fill} FILTERS({filters})")
    if any(nullable or dtype.kind in "US" for dtype, nullable in types.values()):
        parts.append("offsets_filters=(zstd(5)), validity_filters=(rle)")
    return ", ".join(parts)


# ---- Places ------------------------------------------------------------------------------------------------------------

def new_place(path):
    """Returns where something that will be at `path` is made: beside it, or in a bucket there. Warns of what a process that has ended left beside it."""
    if "://" in path:
        return path
    target = os.path.abspath(path).rstrip("/")
    for name in _left_beside(target):
        warnings.warn(f"{name}: a create() that was cut off has left it: remove it", stacklevel=2)
    return f"{target}.new-{os.getpid()}-{uuid.uuid4().hex[:12]}"


def _left_beside(target):
    """Returns the places of processes that have ended. One of another machine or container may have: so nothing is removed."""
    left, folder = re.compile(re.escape(os.path.basename(target)) + r"\.new-([0-9]{1,9})-[0-9a-f]{12}(\.old)?"), os.path.dirname(target)
    names = os.listdir(folder) if os.name != "nt" and os.path.isdir(folder) else []   # there kill() would end the process
    return sorted(os.path.join(folder, name) for name in names for found in [left.fullmatch(name)] if found and not _runs(int(found[1])))


def _runs(process):
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:   # it is another user's
        pass
    return True


def exchange(one, other):
    """Gives each of two directories the other's path, in one step. False: the system has no such call."""
    one, other = os.fsencode(one), os.fsencode(other)
    try:
        libc = ctypes.CDLL(None)
        if hasattr(libc, "renamex_np"):   # macOS
            return libc.renamex_np(one, other, 2) == 0   # RENAME_SWAP
        return libc.renameat2(-100, one, -100, other, 2) == 0   # AT_FDCWD, RENAME_EXCHANGE
    except (AttributeError, OSError, TypeError):
        return False


def already(path, there, *ways):
    """Returns the message for a path at which something is. ways: the values of if_exists that go on."""
    means = {"append": "adds to it", "replace": "makes a new one in its place"}
    return f"{path}: there is {there} already: " + ", ".join(f"if_exists={way!r} {means[way]}" for way in ways)


def check_place(path, there):
    """Fails if something is at a path that is neither an array nor a group: nothing adds to it, or takes its place."""
    if there == "something":
        raise Exists(f"{path}: there is something that is neither an array nor a group, and stays: choose another path; what a create() has left that was cut off, rm -r removes")


def take_place(place, path, if_exists):
    """Gives what was made at `place` its path. What was there before is gone after it, with if_exists "replace": both are exchanged in one step,
    or, where the system has no such call, renamed one after the other."""
    if place == path:
        return
    target = os.path.abspath(path)
    if os.path.islink(target):
        raise Denied(f"{path}: it is a symbolic link: say where the link leads")
    if if_exists == "replace" and os.path.lexists(target):
        if not exchange(place, target):
            os.rename(target, f"{place}.old")
            os.rename(place, target)
            os.rename(f"{place}.old", place)
        shutil.rmtree(place, ignore_errors=True)
        return
    if os.path.lexists(target) and not is_empty(target):
        raise Exists(already(path, "something", "replace"))
    os.rename(place, target)


def remove_place(connection, place, *arrays):
    """Removes what was made at `place`; in a bucket, where nothing else can be removed, these arrays."""
    for array in arrays if "://" in place else ():
        with contextlib.suppress(Exception):
            Array(connection, array)._rows("SELECT tessera_drop(?)", array)
    shutil.rmtree(place, ignore_errors=True)


@contextlib.contextmanager
def savepoint(connection):
    connection.execute("SAVEPOINT tessera_new")
    try:
        yield
    except BaseException:
        connection.execute("ROLLBACK TO tessera_new")
        raise
    finally:
        connection.execute("RELEASE tessera_new")


# ---- Writing -----------------------------------------------------------------------------------------------------------

def _parts(blocks, lengths, extents, origin):
    """Cuts chunked blocks at tiles into parts of some 256 MiB: along the first axis, and where one row of tiles is larger, along the next ones, too.
    Yields the coordinates of each part and its ndarrays. ndarrays stay whole, so they are one commit: the extension reads them where they lie."""
    if all(isinstance(block, numpy.ndarray) for block in blocks.values()):
        yield origin, blocks
        return
    steps, cell = dict(lengths), sum(numpy.dtype(block.dtype).itemsize for block in blocks.values())
    for name in lengths:
        size = cell * math.prod(steps.values())
        if size <= _WRITE_BYTES:
            break
        row = size // steps[name] * extents[name]
        steps[name] = min(lengths[name], max(1, _WRITE_BYTES // max(row, 1)) * extents[name])
    for starts in itertools.product(*(range(0, length, steps[name]) for name, length in lengths.items())):
        cut = tuple(slice(start, start + steps[name]) for start, name in zip(starts, lengths))
        yield ({name: origin[name] + start for start, name in zip(starts, lengths)},
               {name: numpy.asarray(_values(block[cut])) for name, block in blocks.items()})


def _values(block):
    return block.values if hasattr(block, "values") else block


def _type_of(name, block, by_rows):
    """Returns the dtype of a block's cells, as arrays have it, and whether some are null. Texts have "U", bytes "S"."""
    mask = numpy.ma.getmaskarray(block).any() if isinstance(block, numpy.ma.MaskedArray) else False
    if block.dtype.kind not in "OT" or not block.size:
        missing = mask or by_rows and block.dtype.kind in "Mm" and numpy.isnat(_values(block)).any()
        return numpy.dtype("U") if block.dtype.kind in "OT" else _stored(numpy.empty(0, block.dtype)).dtype, bool(missing)
    values = numpy.ma.asarray(_values(block)).astype(object).filled(None) if mask else numpy.asarray(_values(block), object)
    dtype, valid = object_type(name, values.ravel().tolist())
    return _stored(numpy.empty(0, dtype)).dtype, not valid.all()


def make_grid(place, table, blocks, lengths, labels, options, connection):
    """Makes a dense array at `place`, or one in the database if it is None, and fills it."""
    connection = connection or own_connection()
    types = {name: _type_of(name, block, _by_rows(blocks)) for name, block in blocks.items()}
    origin = {name: options.get("domains", {}).get(name, (0,))[0] for name in lengths}
    origin.update(options.get("origin", {}))
    for label, (_, values) in labels.items():
        if values.size > 1 and not rises_or_falls(values):
            raise Constraint(f"label {label!r}: its values must rise or fall strictly")
    text = definition(place, lengths, types, labels, options)
    if options.get("explain"):
        return f"CREATE VIRTUAL TABLE {sql.table(table)} USING tessera({text})"
    array = Array(connection, place or f"db:{table}", state=secret(options))
    name = f"temp.{sql.name('tessera_new_' + uuid.uuid4().hex)}" if place else sql.table(table)
    array._rows(f"CREATE VIRTUAL TABLE {name} USING tessera({text})")
    try:
        for label, (dim, values) in labels.items():
            array.write_label(label, values, origin[dim])
        for key, value in (options.get("metadata") or {}).items():   # older than the cells, so that the state of the last write has it
            set_metadata(array, key, value)
        fill_grid(array, blocks, lengths, origin)
    finally:
        if place:
            array._rows(f"DROP TABLE {name}")
    return None


def fill_grid(array, blocks, lengths, origin):
    if not all(lengths.values()):
        return
    fields = {name: (kind, tile) for name, kind, tile in array._about("name, datatype, tile", "tessera_schema", "role = 'dimension'")}
    if _by_rows(blocks):
        from .making import create
        origin = {name: _number(value, fields[name][0]) for name, value in origin.items()}
        columns = _columns(blocks, lengths, origin)
        columns.update({name: columns[name].astype(f"M8[{letters}]") for name in lengths for letters in _COARSE if fields[name][0] == f"DATETIME_{_UNITS[letters]}"})
        create(array.path, columns, connection=array._connection, if_exists="append",
               **secret(array._state))
        return
    for start, parts in _parts(blocks, lengths, {name: int(fields[name][1]) for name in lengths}, origin):
        array.write_all({name: _stored(part) for name, part in parts.items()}, start)
        if written.get():
            written.get()(sum(part.nbytes for part in parts.values()))


def set_metadata(array, key, value):
    """Sets a key of the metadata of an array or a group: a number, a text, bytes, or a list of numbers or of texts. Numbers of numpy keep their type."""
    if isinstance(value, (str, bytes)):
        array._do("SELECT tessera_set_metadata(?, ?, ?)", array.path, key, value)
        return
    values = numpy.asarray(value if isinstance(value, (bool, int, float, list, tuple, numpy.ndarray, numpy.generic)) else plain_value(value))
    if values.dtype.kind in "biufM" and values.dtype.itemsize <= 8:
        values = _stored(values)
        kind = sql_type(key, values.dtype)
        text = box_json([_element(v) for v in values.ravel()])
    elif isinstance(value, (list, tuple, numpy.ndarray)):
        text, kind = json.dumps([str(v) for v in values.ravel()]), "ASCII"   # as a text is UTF8, this is known as a list again
    else:
        text, kind = str(values), "UTF8"
    array._do("SELECT tessera_set_metadata(?, ?, ?, ?)", array.path, key, text, kind)


def _element(value):
    """Returns a number or an instant of numpy as JSON has it for tessera_set_metadata."""
    if value.dtype.kind == "M":
        return None if numpy.isnat(value) else str(value)
    value = value.item()
    if isinstance(value, float) and math.isnan(value):
        return None
    return str(value) if isinstance(value, int) and value >= 1 << 63 else value


def typed_metadata(array):
    """Returns the metadata of an array or a group as set_metadata() took it: numbers with their types, lists of texts as such."""
    return {key: _typed(kind, num, value) for key, kind, num, value in array._about("key, datatype, num, value", "tessera_metadata")}


def _typed(kind, num, value):
    if kind == "ASCII" and value.startswith('["') and value.endswith('"]'):
        try:
            return json.loads(value)
        except ValueError:
            return value
    if kind.startswith("DATETIME_"):
        unit = next(letters for letters, unit in _UNITS.items() if unit == kind[9:])
        made = numpy.array(json.loads(value) if num > 1 else [value] * num, f"M8[{unit}]")
        return made if num != 1 else made[0]
    if kind not in _NUMBERS:
        return json.loads(value) if num > 1 and kind.startswith("TIME_") else value
    dtype = numpy.dtype(_NUMBERS[kind])
    values = json.loads(value) if num > 1 else [value] * num
    made = numpy.array([numpy.nan if v is None else int(v) if isinstance(v, str) else v for v in values], dtype)
    return made if num != 1 else made[0]


def create_grid(path, blocks, connection, if_exists, options):
    """Makes a dense array of ndarrays of one shape."""
    check_names(blocks)
    blocks = {str(name): block if hasattr(block, "dims") else numpy.asanyarray(block) for name, block in blocks.items()}   # what has dims is read part by part
    shapes = {block.shape for block in blocks.values()}
    if len(shapes) != 1 or not next(iter(shapes)):
        raise ValueError(f"the ndarrays have the shapes {', '.join(map(str, sorted(shapes)))}: they must have one, with an axis at least")
    shape = shapes.pop()
    need_connection(connection, path)
    names = list(options.get("dimensions") or [f"dim_{i}" for i in range(len(shape))])
    if len(set(names)) != len(names):
        raise ValueError(f"two dimensions have one name: {', '.join(names)}")
    if len(names) != len(shape):
        raise ValueError(f"{len(names)} dimensions are named, the ndarrays have {len(shape)} axes")
    lengths = dict(zip(names, shape))
    labels = options.get("labels") or {}
    for label, given in labels.items():
        if not isinstance(given, tuple) or len(given) != 2:
            raise TypeError(f"label {label!r}: expected (dimension, values), as in labels={{{label!r}: ({names[-1]!r}, [...])}}")
    labels = {label: (dim, label_values(values)) for label, (dim, values) in labels.items()}
    for label, (dim, values) in labels.items():
        if values.shape != (lengths.get(dim),):
            raise ValueError(f"label {label!r} has {values.size} values, and dimension {dim!r} {lengths.get(dim, 'is missing')}")
        if values.dtype.kind == "f" and not numpy.isfinite(values).all():
            raise ValueError(f"label {label!r} has NaN or infinite values")
    renamed = {name: f"{name}{POSITIONS}" for name in names if name in labels and labels[name][0] == name}   # lat is the latitude, lat_index its number
    if renamed:
        lengths = {renamed.get(name, name): length for name, length in lengths.items()}
        labels = {label: (renamed.get(dim, dim), values) for label, (dim, values) in labels.items()}
        options = {**options, **{option: {renamed.get(name, name): given for name, given in options[option].items()}
                                 for option in set(options) & {"domains", "extents", "origin", "types"}},
                   **({"grow": [renamed.get(name, name) for name in options["grow"]]} if "grow" in options else {})}
    kinds = options.get("types", {})
    for option in set(options) & {"domains", "origin"}:
        given = options[option].items()
        options[option] = {name: [_number(end, kinds.get(name)) for end in value] if option == "domains" else _number(value, kinds.get(name)) for name, value in given}
    path = os.fspath(path)
    if if_exists not in ("fail", "append", "replace"):
        raise ValueError(f"if_exists {if_exists!r}: expected fail, append or replace")
    if 0 in shape and not (if_exists == "append" and exists(connection, path)):
        options = {**options, "metadata": {LENGTHS: list(shape), **(options.get("metadata") or {})}}
    made = create_at(path, blocks, lengths, labels, connection, if_exists, options)
    return made if isinstance(made, str) else Array(connection, path, state=secret(options))._now()


def _expand(array, runs, current):
    """Makes the current domain so large that it has all runs of cells. runs: by dimension, as runs_of() gives them."""
    box = {name: [min(low, runs[name][0][1]), max(high, max(begin + len(places) - 1 for places, begin in runs[name]))] for name, (low, high) in current.items()
           if isinstance(runs[name][0][1], int) and all(len(places) for places, _ in runs[name])}
    if any(box[name] != current[name] for name in box):
        array._do("SELECT tessera_expand_domain(?, ?)", array.path, json.dumps(box))


def _check_same(array, options, fields):
    """Fails if an option asks for another array than the one to which blocks are added."""
    unknown = set(options) - _OPTIONS
    if unknown:
        raise TypeError(f"an append of ndarrays has no option {', '.join(sorted(unknown))}; there are {', '.join(sorted(_OPTIONS))}")
    cell_order, tile_order, version = array._about("cell_order, tile_order, format_version", "tessera_array")[0]
    has = {"kind": "dense", "cell_order": cell_order, "tile_order": tile_order, "format_version": version}
    for option in has.keys() & options.keys():
        if options[option] != has[option]:
            raise Constraint(f"{option}={options[option]!r}: the array at {array.path} has {has[option]!r}")
    for name, (kind, domain, current, tile, fill, filters) in fields.items():
        domain, current = ([_number(end, kind) for end in json.loads(ends)] if ends else None for ends in (domain, current))
        grows = name in options.get("grow", ())
        for option, same in (("types", lambda said: said.upper() == kind), ("extents", lambda said: said == tile or said > tile == domain[1] - domain[0] + 1),
                             ("domains", lambda said: list(said) == domain or grows and said[0] >= domain[0] and said[1] <= domain[1]),
                             ("filters", lambda said: said.replace(" ", "") == (filters or "").replace(" ", "")), ("fills", lambda said: str(said).strip("'") == str(fill))):
            if name in options.get(option, {}) and not same(options[option][name]):
                raise Constraint(f"{option}: {name!r}: {options[option][name]!r} is not what the array at {array.path} has")
        if grows and current in (None, domain):
            raise Constraint(f"grow: the array at {array.path} was made without it: {name!r} does not grow")
    for option in ("types", "extents", "domains", "filters", "fills", "grow", "origin"):
        for name in set(options.get(option, ())) - set(fields):
            raise KeyError(f"{option!r}: the array at {array.path} has no {name!r}")


def _by_name(array, blocks, lengths, labels, options):
    """Returns blocks, their lengths and labels with the dimensions of the array, in its order. Without `dimensions` the axes have no names."""
    dims = array.dims
    if len(dims) != len(lengths):
        raise ValueError(f"the blocks have {len(lengths)} axes, the array at {array.path} has {len(dims)} dimensions: {', '.join(dims)}")
    if "dimensions" not in options and list(lengths) == [f"dim_{i}" for i in range(len(dims))]:
        return blocks, dict(zip(dims, lengths.values())), {label: (dict(zip(lengths, dims))[dim], values) for label, (dim, values) in labels.items()}
    if set(lengths) != set(dims):
        raise ValueError(f"dimensions {', '.join(map(str, lengths))}: the array at {array.path} has {', '.join(dims)}")
    if list(lengths) != list(dims):
        axes = [list(lengths).index(name) for name in dims]   # a block's own names of its axes may be others
        blocks = {name: block.transpose(*(block.dims[axis] for axis in axes)) if hasattr(block, "dims") else block.transpose(axes) for name, block in blocks.items()}
    return blocks, {name: lengths[name] for name in dims}, labels


def _coordinates(array, label, values):
    """Returns for each value the coordinates whose labels are the nearest ones before and after it, which are one if it is a label, and None where there is
    none; and the last coordinate that has a label."""
    given = [str(v) for v in values] if values.dtype.kind == "M" else _counts(values).tolist()
    found = array._do("SELECT tessera_nearest(?1, ?2, value, 'before'), tessera_nearest(?1, ?2, value, 'after') FROM json_each(?3) ORDER BY key", array.path, label, json.dumps(given))
    return found, last_label(array, label)


def last_label(array, label):
    """Returns the last coordinate that has a label, or None."""
    kind = array._about("datatype", "tessera_schema", f"role = 'label' AND name = {sql.text(label)}")[0][0]
    ends = ("", "\U0010ffff") if kind in ("ASCII", "UTF8") else ("0001-01-01", "9999-12-31") if kind.startswith("DATETIME_") else (-9e307, 9e307)
    return array._do("SELECT max(tessera_nearest(?1, ?2, ?3, 'after'), tessera_nearest(?1, ?2, ?4, 'before'))", array.path, label, *ends)[0][0]


def _counts(values):
    """Returns durations as the numbers of their unit that the values of a label are."""
    return _stored(values).view("i8") if values.dtype.kind == "m" else values


def _said(values, number):
    return str(values[number]) if values.dtype.kind in "Mm" else repr(values.tolist()[number])


def _place(array, label, dim, values, origin, domain, current):
    """Returns where values of a label lie along its dimension: at the coordinates that have them, and, as far as they continue the labels, behind the last
    one, in the order of the labels. None if the array has no labels yet. Also returns the new labels in this order, and the coordinate of the first one."""
    found, last = _coordinates(array, label, values)
    if last is None:
        return None, values, origin
    known = dict(zip(values.tolist(), range(len(values))))
    if len(known) < len(values):
        twice = next(number for number, value in enumerate(values.tolist()) if known[value] != number)
        raise Constraint(f"label {label!r}: {_said(values, twice)} is there twice, and a coordinate has one label: leave one of the two out")
    new = [number for number, (before, after) in enumerate(found) if before is None or before != after]
    rises, falls = (all(found[number] == beyond for number in new) for beyond in ((last, None), (None, last)))
    if new and not rises and not falls:
        number = next((number for number in new if found[number] not in ((last, None), (None, last))), new[0])
        raise Constraint(f"label {label!r}: the array lacks {_said(values, number)}, which does not continue the labels, whose last one is that of {dim}={last}: blocks replace what is "
                         "there, and add to it behind the last label; to insert something, make the array again (if_exists='replace')")
    begin = last + 1 if origin is None or len(new) < len(values) else origin
    highest = begin + len(new) - 1
    if new and begin <= last:
        raise Constraint(f"origin {origin}: label {label!r} has other values up to {dim}={last}")
    if new and current in (None, domain) and highest > domain[1]:
        raise Constraint(f"label {label!r}: the array has no {_said(values, new[0])}, and no room for it: dimension {dim!r} ends at {domain[1]}, and does not grow. Give the labels that "
                         f"are there, or make the array with grow=[...]")
    new.sort(key=values.tolist().__getitem__, reverse=not rises)
    at = [before for before, _ in found]
    for place, number in enumerate(new):
        at[number] = begin + place
    if origin is not None and min(at) != origin:
        raise Constraint(f"origin {origin!r}: label {label!r} has these values from {min(at)} on")
    return at, values[new], begin


def runs_of(at):
    """Cuts cells at these coordinates into runs of neighbours: for each run which cells it has, in the order of the coordinates, and where it begins."""
    order = numpy.argsort(at, kind="stable")
    ends = numpy.flatnonzero(numpy.diff(numpy.asarray(at)[order]) != 1) + 1
    return [(part, at[part[0]]) for part in numpy.split(order, ends)] if len(at) else [(order, 0)]


def _behind(array, grows):
    """Returns where blocks go that say nothing of their place: behind the cells that are there, along the dimension that grows. grows: datatypes, by name."""
    bounds = array.bounds
    if len(grows) == 1 or not bounds:
        return {name: _number(bounds[name][1], kind) + 1 for name, kind in grows.items()} if bounds else {}
    raise Constraint(f"array {array.path} has cells {', '.join(f'from {low} to {high} along {name!r}' for name, (low, high) in bounds.items())}, and nothing tells where "
                     f"the blocks go: say origin={{{next(iter(bounds))!r}: ...}}, give labels, or make the array with grow=[...] for one dimension")


def check_types(array, blocks):
    """Fails if a block has another dtype than the cells of the array. Nulls, texts and bytes go in as rows, whose values decide."""
    for name, block in {} if _by_rows(blocks) else blocks.items():
        given, has = _stored(numpy.empty(0, block.dtype)).dtype, numpy.dtype(array._header(name)[2])
        if given != has:
            raise Mismatch(f"{name!r} is {given}, and the cells of array {array.path} are {has}: convert it with astype({has.str!r})")


def place_grid(array, blocks, lengths, labels, options, at=None):
    """Finds where blocks go in an array, by the names of the dimensions and the values of labels. at: coordinates along dimensions that are known already.
    Returns what write_placed() takes; nothing is written."""
    fields = {name: rest for name, *rest in array._about("name, datatype, domain, current_domain, tile, fill, filters", "tessera_schema", "role <> 'label'")}
    _check_same(array, options, fields)
    blocks, lengths, labels = _by_name(array, dict(blocks), lengths, labels, options)
    known, origin, at, new = array.labels, dict(options.get("origin", {})), dict(at or {}), []
    for label, (dim, values) in labels.items():
        if known.get(label) != dim:
            raise Constraint(f"label {label!r}: the array at {array.path} has no such label of the dimension {dim!r}")
        if not len(values):
            continue
        there, added, begin = _place(array, label, dim, values, origin.get(dim), *(ends and json.loads(ends) for ends in fields[dim][1:3]))
        if there is not None and at.setdefault(dim, there) != there:
            raise Constraint(f"label {label!r}: its values have other places along {dim!r} than those of another label, or array, from {min(there)} and from {min(at[dim])} on")
        if len(added):
            new.append((label, dim, added, begin))
    grows = {name: fields[name][0] for name in lengths if fields[name][2] not in (None, fields[name][1])}
    if "origin" not in options and not (grows.keys() & at.keys() if grows else at):
        origin.update(_behind(array, grows))
    for name in lengths:
        _, domain, current, *_ = fields[name]
        origin.setdefault(name, json.loads(current or domain)[0])
    runs = {name: runs_of(at[name]) if name in at else [(range(length), origin[name])] for name, length in lengths.items()}
    current = {name: json.loads(fields[name][2]) for name in lengths if fields[name][2]}
    new = [(label, dim, values, begin if begin is not None else min(at[dim]) if dim in at else origin[dim]) for label, dim, values, begin in new]
    return array, blocks, runs, new, current, options.get("metadata") or {}


def write_placed(array, blocks, runs, new, current, metadata):
    """Makes the current domain of an array large enough, writes labels behind the others, and then the cells: a commit for each run of neighbours."""
    _expand(array, runs, current)
    for label, dim, values, begin in new:
        array.write_label(label, values, begin)
    for chosen in itertools.product(*runs.values()):
        parts, lengths = blocks, {name: len(places) for name, (places, _) in zip(runs, chosen)}
        for axis, (places, _) in enumerate(chosen):
            if len(places) and (numpy.diff(places) == 1).all():
                places = slice(int(places[0]), int(places[-1]) + 1)
            parts = {name: block[(slice(None),) * axis + (places,)] for name, block in parts.items()}
        fill_grid(array, parts, lengths, {name: begin for name, (_, begin) in zip(runs, chosen)})
    for key, value in metadata.items():
        set_metadata(array, key, value)


def append_grid(array, blocks, lengths, labels, options):
    """Adds blocks to an array, by the names of the dimensions and the values of labels."""
    write_placed(*place_grid(array, blocks, lengths, labels, options))


def create_at(path, blocks, lengths, labels, connection, if_exists, options):
    if options.get("explain"):
        inside = path.startswith("db:")
        return make_grid(None if inside else path, path[3:] if inside else sql.name(os.path.basename(path.rstrip("/"))), blocks, lengths, labels, options, connection)
    there = exists(connection, path)
    check_place(path, there)
    if there and if_exists == "fail":
        raise Exists(already(path, there, "append", "replace"))
    if there and if_exists == "append":
        array = Array(connection, path, state=secret(options))._now()
        with savepoint(connection) if path.startswith("db:") else contextlib.nullcontext():
            return append_grid(array, blocks, lengths, labels, options)
    if path.startswith("db:"):
        with savepoint(connection):
            if there:
                connection.execute(f"DROP TABLE {sql.table(path[3:])}")
            return make_grid(None, path[3:], blocks, lengths, labels, options, connection)
    place = new_place(path)
    if there and place == path:
        raise Unsupported(f"{path}: in a bucket an array is not replaced")
    try:
        make_grid(place, None, blocks, lengths, labels, options, connection)
        take_place(place, path, if_exists)
    except BaseException:
        remove_place(connection, place, place)
        raise
    return None


# ---- Texts, objects and masked values ------------------------------------------------------------------------------------

def _by_rows(blocks):
    """Whether blocks go in as rows with their coordinates, since blocks have no nulls and no values of variable length."""
    return any(0 not in block.shape and (block.dtype.kind in "OUST" or isinstance(block, numpy.ma.MaskedArray)) for block in blocks.values())


def _columns(blocks, lengths, origin):
    """Returns the coordinates and values of all cells as columns."""
    columns = {name: origin[name] + index.ravel() for name, index in zip(lengths, numpy.indices(tuple(lengths.values())))}
    columns.update({name: numpy.asanyarray(_values(block)).ravel() for name, block in blocks.items()})
    return columns


def write_rows(array, blocks, origin):
    """Writes blocks with masked cells or texts into an array, as rows. Returns the number of cells."""
    shapes, lacking = {block.shape for block in blocks.values()}, set(array.attributes) ^ set(blocks)
    fields = array._about("name, datatype, domain, current_domain", "tessera_schema", "role = 'dimension'")
    if lacking:
        raise Constraint(f"array {array.path}: a write has a block for each attribute, and {', '.join(sorted(lacking))} has no block or is not an attribute")
    if len(shapes) != 1 or len(next(iter(shapes))) != len(fields):
        raise Mismatch(f"array {array.path}: the blocks have the shapes {', '.join(map(str, sorted(shapes)))}: they must have one, with {len(fields)} axes")
    shape, ends = shapes.pop(), {name: [_number(end, kind) for end in json.loads(current or domain)] for name, kind, domain, current in fields}
    unknown = set(origin) - set(ends)
    if unknown:
        raise KeyError(f"array {array.path} has no dimension {', '.join(sorted(unknown))}")
    kinds = {name: kind for name, kind, _, _ in fields}
    begins = {name: _number(origin[name], kinds[name]) if name in origin else _number(json.loads(domain)[0], kind) for name, kind, domain, _ in fields}
    for (name, (low, high)), length in zip(ends.items(), shape):
        if length and not low <= begins[name] <= begins[name] + length - 1 <= high:
            raise Range(f"array {array.path}: dimension {name!r}: {length} cells from {begins[name]} on reach beyond {low} to {high}: expand_domain() makes a current domain larger")
    fill_grid(array, blocks, dict(zip(ends, shape)), begins)
    if "as_of" in array._state:
        array._now()
    return math.prod(shape)
