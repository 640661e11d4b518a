"""An attribute of a dense array as something that numpy's indices read lazily: what dask and xarray take."""
from __future__ import annotations

import fractions
import json
import math

import numpy

from .arrays import Array
from .values import attoseconds_of, is_duration, plain_value
from .errors import Mismatch
from .instants import in_utc

__all__ = ["Block", "Booleans", "Labelled", "bounds_of", "near", "read_objects"]


class Block:
    """An attribute of an Array, as it is bounded now. block[key] reads what the key needs; the key has integers, slices and lists of integers."""

    def __init__(self, array, attribute, bounds=None):
        """bounds: the lowest and the highest coordinate by dimension; without it those of the Array's box."""
        fields = {name: (kind, domain, tile) for name, kind, domain, tile in array._about("name, datatype, domain, tile", "tessera_schema", "role = 'dimension'")}
        bounds = bounds_of(array, bounds)
        _, shape, descr = array._header(attribute)
        self.array, self.attribute, self.dims, self.dtype = array, attribute, tuple(fields), numpy.dtype(descr)
        self.low, lengths, self.chunks = [], [], []
        for name, (kind, domain, tile) in fields.items():
            first, length = bounds[name]
            self.low.append(first)
            lengths.append(length)
            begin = int((first - _coordinate(json.loads(domain)[0], kind, name)) / _one(first))
            self.chunks.append(tuple(_cut(begin, lengths[-1], int(tile))) or (0,))
        more = tuple(shape[len(fields):])   # several values in a cell
        self.shape, self.chunks = (*lengths, *more), tuple(self.chunks) + tuple((length,) for length in more)
        self.ndim = len(self.shape)

    @property
    def coordinates(self):
        """The coordinates of the cells, an ndarray for each dimension."""
        return [first + numpy.arange(length) for first, length in zip(self.low, self.shape)]

    def __getitem__(self, key):
        key = key if isinstance(key, tuple) else (key,)
        for at in [at for at, part in enumerate(key) if part is Ellipsis]:
            key = key[:at] + (slice(None),) * (self.ndim - len(key) + 1) + key[at + 1:]
        key += (slice(None),) * (self.ndim - len(key))
        lists = [axis for axis, part in enumerate(key) if not isinstance(part, (slice, int, numpy.integer))]
        if lists:   # a list is read in runs of neighbours, one axis after the other
            axis = lists[0]
            return self._list(key, axis, numpy.asarray(key[axis]))
        box, inside = {}, []
        for name, low, length, part in zip(self.dims, self.low, self.shape, key):
            if isinstance(part, slice):
                indices = range(*part.indices(length))
                inside.append(slice(None, None, part.step))
            else:
                if not -length <= part < length:
                    raise IndexError(f"{part} is outside of dimension {name}, which has {length} cells")
                indices = range(int(part) % length, int(part) % length + 1)
                inside.append(0)
            if not indices:
                return numpy.empty([len(range(*p.indices(n))) for p, n in zip(key, self.shape) if isinstance(p, slice)], self.dtype)
            box[name] = (in_utc(low + min(indices[0], indices[-1])), in_utc(low + max(indices[0], indices[-1])))
        return self._read(self.array.sel(**box))[tuple(inside) + key[len(self.dims):]]

    def _read(self, array):
        return array.numpy(self.attribute)

    def _list(self, key, axis, wanted):
        length = self.shape[axis]
        if wanted.dtype == bool:
            wanted = numpy.flatnonzero(wanted)
        if wanted.size and (wanted.min() < -length or wanted.max() >= length):
            raise IndexError(f"an index is outside of axis {axis}, which has {length} cells")
        sorted_, back = numpy.unique(wanted.astype(int) % max(length, 1), return_inverse=True)
        ends = numpy.flatnonzero(numpy.diff(sorted_) > 1) + 1   # where a run of neighbours ends
        runs = numpy.split(sorted_, ends) if sorted_.size else []
        parts = [self[key[:axis] + (slice(int(run[0]), int(run[-1]) + 1),) + key[axis + 1:]] for run in runs]
        place = axis - sum(isinstance(part, (int, numpy.integer)) for part in key[:axis])
        if not parts:
            return self[key[:axis] + (slice(0, 0),) + key[axis + 1:]]
        return numpy.concatenate(parts, axis=place).take(back, axis=place)


class Booleans(Block):
    """A BOOL that may be NULL: -1 where it is, so that a reader can mask it."""

    def __init__(self, array, attribute, bounds=None):
        super().__init__(array, attribute, bounds)
        self.dtype = numpy.dtype("i1")

    def _read(self, array):
        return array.numpy(self.attribute, masked=True).astype("i1").filled(-1)


class Labelled(Block):
    """The labels of an enumeration in place of its codes: None where there is none, or NaN if labels are numbers."""

    def __init__(self, array, attribute, bounds=None):
        super().__init__(array, attribute, bounds)
        labels = array.categories(attribute)
        numbers = bool(labels) and all(isinstance(label, (int, float)) for label in labels)
        self.labels = numpy.array([*labels, None], float if numbers else object)
        self.dtype = self.labels.dtype

    def _read(self, array):
        codes = array.numpy(self.attribute, masked=True)
        known = ~numpy.ma.getmaskarray(codes) & (codes.data >= 0) & (codes.data < len(self.labels) - 1)
        return self.labels[numpy.where(known, codes.data, len(self.labels) - 1).astype("i8")]


_UNITS = {"YEAR": "Y", "MONTH": "M", "WEEK": "W", "DAY": "D", "HR": "h", "MIN": "m"}   # the others in numpy's own letters


def _unit(kind):
    """Returns numpy's letters for the unit of DATETIME_... or TIME_..."""
    unit = kind.rpartition("_")[2]
    return _UNITS.get(unit, "s" if unit == "SEC" else unit.lower())


def _coordinate(value, kind, name):
    """Returns a coordinate as numpy counts it: an integer, or a datetime64 of the dimension's unit."""
    if kind.startswith("DATETIME_"):
        return numpy.datetime64(value.rstrip("Z") if isinstance(value, str) else value, _unit(kind))
    if not isinstance(value, int):
        raise NotImplementedError(f"dimension {name!r} is {kind}, which has no lazy blocks")
    return value


def bounds_of(array, bounds=None):
    """Returns the first coordinate and the number of cells of each dimension of the Array's box, or of other bounds."""
    bounds, found = bounds or array._resolved(), {}
    nothing = array._nothing()
    for name, kind in array._about("name, datatype", "tessera_schema", "role = 'dimension'"):
        first, last = (_coordinate(end, kind, name) for end in bounds[name]) if name in bounds else (0, -1)
        found[name] = first, 0 if name in nothing or name not in bounds else int((last - first) / _one(first)) + 1
    return found


def near(array, name, value, side, tolerance):
    """Returns the coordinate of a dense array's part that is nearest to a value; side: "nearest", "before" or "after" it."""
    if array.kind != "dense":
        raise ValueError(f"a method is for dense arrays and for labels: the dimension {name!r} of a sparse array has the coordinates of its cells alone")
    first, length = bounds_of(array)[name]
    last, one = first + (length - 1) * _one(first), 1
    low, high = (int(end) if isinstance(end, int) else int(end.view("i8")) for end in (first, last))
    exact = value if isinstance(first, int) else _exactly(name, value, first.dtype)
    if exact is None:
        raise KeyError(f"no coordinate of {name} is near {value!r}")
    below = math.floor(exact)
    up = below != exact if side == "after" else side == "nearest" and below + 1 - exact < exact - below
    found = below + one if up else below
    found = max(found, low) if side != "before" else found
    found = min(found, high) if side != "after" else found
    if not low <= found <= high or tolerance is not None and abs(exact - found) > _tolerated(tolerance, first):
        raise KeyError(f"no coordinate of {name} is near {value!r}")
    return found if isinstance(first, int) else str(numpy.datetime64(found, numpy.datetime_data(first.dtype)[0]))


def _tolerated(tolerance, first):
    """Returns a tolerance in units of a dimension: a number is one already."""
    if isinstance(first, int) or not is_duration(tolerance):
        return tolerance
    unit = numpy.datetime_data(first.dtype)[0]
    if unit in "YM":
        raise ValueError(f"tolerance={tolerance}: years and months differ in length: give a number of them")
    return fractions.Fraction(attoseconds_of(tolerance), attoseconds_of(numpy.timedelta64(1, unit)))


def _exactly(name, value, dtype):
    """Returns an instant as a number of units of a dtype since 1970, a fraction if it lies between two; where numpy would overflow, too."""
    given = value
    try:
        value = value if isinstance(value, numpy.datetime64) else numpy.datetime64(value if isinstance(value, str) else plain_value(value))
    except ValueError:
        raise Mismatch(f"{name}={given!r}: the dimension has instants: give text such as '2024-06-01', or an instant of numpy, pandas or Python") from None
    unit, count = numpy.datetime_data(dtype)[0], numpy.datetime_data(value.dtype)
    number = int(value.view("i8")) * count[1]
    months = {"Y": 12, "M": 1}
    if unit in months and count[0] in months:
        return fractions.Fraction(number * months[count[0]], months[unit])
    if unit in months:   # of differing length
        days = number * attoseconds_of(numpy.timedelta64(1, count[0])) // attoseconds_of(numpy.timedelta64(1, "D"))
        if abs(days) > 10 ** 15:   # beyond all
            return fractions.Fraction(days * 4800, 146097 * months[unit])
        low = value.astype(dtype)
        one = low.astype(value.dtype), (low + 1).astype(value.dtype)
        return int(low.view("i8")) + fractions.Fraction(int((value - one[0]).view("i8")), int((one[1] - one[0]).view("i8")))
    if count[0] in "YM":
        if abs(number) > 10 ** 15:
            number, count = number * (365 if count[0] == "Y" else 30), ("D", 1)   # beyond all
        else:
            value, count = numpy.datetime64(number, count[0]).astype("M8[D]"), ("D", 1)
            number = int(value.view("i8"))
    return fractions.Fraction(number * attoseconds_of(numpy.timedelta64(1, count[0])), attoseconds_of(numpy.timedelta64(1, unit)))


def read_objects(array, attribute):
    """Reads an attribute of variable length, which has no block, as a stream; cells that have none are None."""
    from .streamed import batches
    kind, = next(kind for name, *kind in array._about("name, datatype", "tessera_schema", "role = 'attribute'") if name == attribute)
    bounds, options = bounds_of(array), {name: value for name, value in array._options.items() if name in ("as_of", "since", "memory_mb", "cache_mb", "threads")}
    found = numpy.full([length for _, length in bounds.values()], None, object)
    part = Array(array._connection, array.path, array._box, {**options, "columns": [*bounds, attribute], "datetimes": "duration"}, array._state)
    for *places, values in batches(*part._stream()):
        at = [_distances(place, first).tolist() for place, (first, _) in zip(places, bounds.values())]
        for place, value in zip(zip(*at), values):
            found[place] = _as_json(value, kind) if isinstance(value, numpy.ndarray) else value
    return found


def _as_json(values, kind):
    """Returns several values of a cell as a table shows them; a stream has instants in lists as integers."""
    if kind.startswith(("DATETIME_", "TIME_")):
        values = values.view(f"{'M' if kind[0] == 'D' else 'm'}8[{_unit(kind)}]")
        return json.dumps([None if numpy.isnat(value) else plain_value(value) for value in values], separators=(",", ":"))
    return json.dumps(values.tolist(), separators=(",", ":"))


def _distances(coordinates, first):
    """Returns how many cells behind the first one coordinates are."""
    if isinstance(first, int):
        return coordinates - first if coordinates.dtype.kind == "i" else coordinates - numpy.uint64(first)
    return (coordinates.astype(first.dtype) - first) // _one(first)


def _one(coordinate):
    return numpy.timedelta64(1, numpy.datetime_data(coordinate.dtype)[0]) if isinstance(coordinate, numpy.datetime64) else 1


def _cut(offset, length, tile):
    """The lengths of the parts into which tiles cut a range that begins `offset` behind the beginning of a tile."""
    while length:
        part = min(tile - offset % tile, length)
        yield part
        offset, length = offset + part, length - part
