"""Arrays: a part of an array that reads nothing until a library asks for its stream, or a method for cells.

numpy is imported where an ndarray is asked for. Without a connection, an Array reads through one of this thread (connections.py).
"""
from __future__ import annotations

import ast
import builtins
import contextlib
import functools
import io
import json
import os
import re
import time
import warnings
from typing import Any

from . import statements as sql
from .boxes import are_reversed, box_json, common_range, coordinate_of, coordinates_of, ends_of, is_word, sort_key, tolerance_in_units
from .connections import configure, functions_of, own_connection, working
from .errors import Corrupt, Denied, Error, Mismatch, NotFound, Range, Unknown, Unsupported, plain_errors
from .instants import Between, Refused, compared, has_text, in_utc, instant, is_beyond_texts, is_instant, number, time_of_day, zone_of
from .lent import Lent, described_block
from .paths import need_connection, place_of
from .streams import SCHEMA, Joined, Stream, make_capsule
from .values import LETTERS, count_units, exact_length, is_duration, is_missing, listed_durations, millisecond_of, plain_value, scalar_of

__all__ = ["ATTRS", "DTYPES", "DURATION", "LENGTHS", "Array", "drop", "exists", "is_empty", "open"]

_SIDES = {"nearest": "nearest", "pad": "before", "ffill": "before", "backfill": "after", "bfill": "after"}   # methods of xarray's sel()
DURATION = "__tessera_duration."   # metadata: the TIME field of that name has durations, and not times of day
ATTRS = "__tessera_pandas_attrs"   # metadata: the attrs of a DataFrame, as JSON
DTYPES = "__tessera_pandas_dtypes"   # metadata: the nullable types of pandas that columns of a DataFrame had, as JSON
LENGTHS = "__tessera_lengths"   # metadata: the lengths of the axes of an array that was made without cells
_TEXTS = ("ASCII", "UTF8", "UTF16", "UTF32", "UCS2", "UCS4")
_NUMBERS = re.compile("U?INT|FLOAT")   # datatypes of dimensions whose coordinates are numbers
_OPERATORS = ("=", "==", "<", "<=", ">", ">=", "in", "is", "is not")   # of where()
_LAST = ("array_key", "as_of", "since", "array_schema")   # the last arguments of the tables about arrays
_UNITS_AS_TEXT = re.compile(r"\s*(?:[-+]?\d+|\d+(?::\d+){1,2}(?:\.\d*)?)\s*")   # a number, or a time of day


class Array(Stream):
    """A part of an array. Methods that choose a part return a new Array and read nothing.

        a = tessera.open("data/weather")
        pyarrow.table(a.sel(day=("2024-06-01", "2024-06-30")).select("day", "temp"))

    It shows the array as it was when you opened it, or last wrote to it with write(): two reads agree, whatever others write.
    """

    def __init__(self, connection, path, box=None, options=None, state=None):
        self._connection, self.path = connection, path
        self._box, self._options = box or {}, options or {}
        self._state = state or {}   # as_of, past (it shows an earlier time), schema, key, key_file, database (a file): shared by all parts of what open() returned

    def __reduce__(self):
        in_database = self.path.startswith("db:")
        if self._connection and not in_database:
            raise TypeError("an Array that was opened with a connection cannot be pickled: open it by its path alone")
        if "key" in self._state:
            raise TypeError("an Array that was opened with a key cannot be pickled: a pickle would show the key. Open it with "
                            "key_file=, a path at which the other process finds the key too")
        if in_database and self._connection:
            file, name = in_file(self)
            return Array, (None, name, self._box, self._options, {**self._state, "database": file})
        path = self.path if "://" in self.path or in_database else os.path.abspath(self.path)   # the other process may be elsewhere
        return Array, (None, path, self._box, self._options, self._state)

    @property
    def connection(self):
        """The connection that was passed to open(), or else that of this thread."""
        return self._connection or own_connection(self._state.get("database"))

    def _dtypes(self):
        return {name: dtype for name, dtype in self._noted(DTYPES).items() if isinstance(dtype, str)}

    def _noted(self, key):
        """What metadata note of a DataFrame, a dict."""
        try:
            found = self._about("value", "tessera_metadata", f"key = '{key}'")
        except Corrupt as e:   # the rows are whole
            warnings.warn(f"the {'dtypes that columns had in' if key == DTYPES else 'attrs of'} a DataFrame are not known: {e}", stacklevel=5)
            return {}
        try:
            kept = json.loads(found[0][0]) if found else {}
        except (TypeError, ValueError):   # anybody may set metadata
            return {}
        return kept if isinstance(kept, dict) else {}

    def _rows(self, statement, *values):
        connection = self.connection
        with working(connection, self._connection is None, self.path):
            return sql.rows(connection, statement, values)

    def _do(self, statement, *values):
        """The same for functions that take no key: they find it in the connection. A connection of this module forgets it afterwards. Tables in a
        database know theirs."""
        key = None if self.path.startswith("db:") else self._key()
        if key:
            self._rows("SELECT tessera_set_key(?, ?)", self.path, key)
        try:
            return self._rows(statement, *values)
        finally:
            if key and not self._connection:
                self._rows("SELECT tessera_set_key(?, NULL)", self.path)

    def _key(self):
        if "key_file" not in self._state:
            return self._state.get("key")
        with builtins.open(self._state["key_file"], "rb") as f:
            key = f.read()
        return key.hex() if len(key) == 32 else key.decode("latin-1").strip()

    def _now(self):
        """Sets the time of which this Array and its parts show the state: now. Whatever is committed after the call has a later one."""
        last, self._state["schema"], shown = self._rows("SELECT last_write, schema, shown_as_of FROM tessera_array(?, ?)", self.path, self._key())[0]
        if shown is not None:   # db: names a table that has as_of
            self._state.update(as_of=shown, past=True)
            return self
        self._state["as_of"] = max(int(time.time() * 1000), last or 0)
        time.sleep(0.001)
        return self

    def _check_writable(self):
        if "past" in self._state:
            raise Denied(f"array {self.path}: this Array shows an earlier time, and the past is read-only: open it without as_of and since")

    def _times(self):
        """The options as_of, since, array_key and array_schema of functions. By its schema an array is known: if another has taken its place, each read is an error."""
        given = {"as_of": self._state.get("as_of"), "array_key": self._key(), "array_schema": self._state.get("schema"), **{name: self._options[name] for name in ("as_of", "since") if name in self._options}}
        return {name: value for name, value in given.items() if value is not None}

    def _about(self, columns, table, condition="1"):
        """Rows of one of the tables about an array, at the time and with the key of this Array."""
        times = self._times()
        return self._rows(f"SELECT {columns} FROM {table}(?, ?, ?, ?, ?) WHERE {condition}", self.path, *(times.get(name) for name in _LAST))

    def _lacks(self, what, name, *roles):
        """Returns the message that this array has no `what`, such as "column", called `name`, with the names that it has in these roles."""
        known = [f"{', '.join(names)} as {role}{'s' if len(names) > 1 else ''}" for role in roles for names in [self._fields(role)] if names]
        return f"array {self.path} has no {what} {name!r} (it has {'; '.join(known) or 'none'})"

    def check_names(self):
        """Raises an error if sel(), select(), where() or order() got a name that the array does not have. The message lists the names that exist."""
        fields = {name: role for role, name in self._about("role, name", "tessera_schema")}
        told = [("dimension or label", name, ("dimension", "label")) for name in self._box]
        told += [("column", name, ("dimension", "label", "attribute")) for name in self._options.get("columns", ())]
        told += [("column", name, ("attribute", "dimension", "label")) for name, *_ in self._options.get("where", ())]
        told += [("dimension", name, ("dimension", "label")) for name, *_ in self._options.get("order", ())]
        for what, name, roles in told:
            if fields.get(name) not in roles:
                raise Unknown(self._lacks(what, name, *roles) + self._shown_by_table(name))

    def _shown_by_table(self, name):
        """Says how a column is read that a table in a database has of another array, by its option `labels`."""
        if not self.path.startswith("db:"):
            return ""
        *_, table = sql.parts(self.path[3:])
        there = self._rows("SELECT 1 FROM pragma_table_xinfo(?) WHERE name = ? COLLATE NOCASE", table, name)
        return f"; the table has it of another array, by its option labels: tessera.sql(\"SELECT {name} FROM {table}\", connection=...) reads it" if there else ""

    def check_coordinates(self):
        """Raises an error if sel() got a text that a dimension or label cannot have, where it has no texts: SQLite would compare them, and find nothing."""
        texts = [(name, end) for name, ends in self._box.items() for end in ends_of(ends) if isinstance(end, str)]
        types = {name: about for name, *about in self._about("name, role, datatype", "tessera_schema", "role <> 'attribute'")} if texts else {}
        for name, text in texts:
            role, datatype = types.get(name, ("", ""))
            if _NUMBERS.match(datatype) and is_word(text):
                raise Mismatch(f"array {self.path}: {role} {name!r}: {text!r} is not a valid {datatype}")
            if datatype.startswith(("DATETIME_", "TIME_")):
                try:
                    Array(self._connection, self.path, {name: text}, {part: time for part, time in self._options.items() if part in ("as_of", "since")}, self._state)._check_box()
                except Mismatch as e:
                    raise Mismatch(f"array {self.path}: {e}") from e
                except Range:
                    pass   # nothing is there

    def check_comparisons(self):
        """Raises the error that a stream would if where() compares an attribute with what it cannot be: SQL would compare them, and find something or nothing."""
        attributes = self.attributes if self._options.get("where") else ()
        terms = [term for term in self._options.get("where", ()) if term[0] in attributes]
        if terms:
            Array(self._connection, self.path, None, {**{name: self._options[name] for name in ("as_of", "since", "enums", "datetimes") if name in self._options}, "where": terms}, self._state)._token_freed()

    def _token_freed(self):
        functions = functions_of(self.connection)
        functions.free_stream(functions.take_new(self._token().encode()))

    def _check_box(self):
        functions = functions_of(self.connection)
        functions.free_stream(functions.take_new(self._rows("SELECT tessera_stream(?, ?, ?)", self.path, box_json(self._box), box_json(self._times()))[0][0].encode()))

    @contextlib.contextmanager
    def _checking(self):
        """An error inside about a name becomes one that lists the labels, too, and says where they go."""
        try:
            yield
        except Error as e:
            if "has no " in str(e):
                self.check_names()
                labels = self.labels
                for name, *_ in self._options.get("where", ()):
                    if name in (*labels, *self.dims):
                        what = "label" if name in labels else "dimension"
                        raise Error(f"array {self.path}: where() compares attributes in a stream, and {name!r} is a {what}: sel({name}=...) takes values and ranges") from e
                for name, *_ in self._options.get("order", ()):
                    if name in labels:
                        raise Error(f"array {self.path}: order() takes dimensions, and {name!r} is a label: order({labels[name]!r})") from e
            raise

    def _fields(self, role):
        return tuple(name for name, in self._about("name", "tessera_schema", f"role = '{role}'"))

    @property
    def dims(self) -> tuple[str, ...]:
        """The names of the dimensions."""
        return self._fields("dimension")

    @property
    def attributes(self) -> tuple[str, ...]:
        """The names of the attributes."""
        return self._fields("attribute")

    @property
    def labels(self) -> dict[str, str]:
        """The dimension labels, each with the name of its dimension."""
        return {name: json.loads(dimension) for name, dimension in self._about("name, domain", "tessera_schema", "role = 'label'")}

    @property
    def kind(self) -> str:
        """"dense" or "sparse"."""
        return self._about("kind", "tessera_array")[0][0]

    def categories(self, attribute: str) -> list:
        """The values of an enumeration, in the order of their codes."""
        times = self._times()
        return [label for label, in self._rows("SELECT label FROM tessera_enumeration(?, ?, ?, ?, ?, ?) ORDER BY code", self.path, attribute,
                                               *(times.get(name) for name in _LAST))]

    @property
    def metadata(self) -> dict[str, Any]:
        """The metadata of the array. If a key has several numbers, they are a list."""
        return {key: json.loads(value) if num != 1 and isinstance(value, str) and value.startswith("[") and kind not in ("UTF8", "ASCII", "CHAR") else value
                for key, kind, num, value in self._about("key, datatype, num, value", "tessera_metadata")}

    @property
    def bounds(self) -> dict[str, tuple]:
        """The lowest and highest coordinate of each dimension that has been written; empty if nothing has been. Instants are in UTC; the text ends in Z if they had
        a time zone in a DataFrame."""
        found = {name: tuple(ends) for name, ends in json.loads(self._about("non_empty_domain", "tessera_array")[0][0] or "{}").items()}
        if any(isinstance(end, str) and end.isdecimal() for ends in found.values() for end in ends):
            large = {name for name, in self._about("name", "tessera_schema", "role = 'dimension' AND datatype = 'UINT64'")}
            found = {name: tuple(map(int, ends)) if name in large else ends for name, ends in found.items()}   # the digits of those past INTEGER
        if any(isinstance(end, str) for ends in found.values() for end in ends):
            found.update({name: tuple(f"{end}Z" if isinstance(end, str) else end for end in found[name]) for name in self._zones() if name in found})
        return found

    @property
    def shape(self) -> tuple[int, ...]:
        """The number of cells along each dimension, from the lowest to the highest that was written, or of the box that sel() set."""
        if self._has_lists():
            axis, parts, places = self._along()
            first = parts[0].shape
            return (*first[:axis], len(places), *first[axis + 1:])
        names = self._about("name", "tessera_schema", "role = 'attribute' AND cell_val_num IS NOT NULL") if self.kind == "dense" else ()
        if names:
            return self._header(names[0][0])[1][:len(self.dims)]
        bounds = self._resolved()
        if self.kind == "dense" and not bounds:
            return self._made_empty((0,) * len(self.dims))
        if any(not isinstance(end, int) for ends in bounds.values() for end in ends):
            raise Unsupported(f"array {self.path} has a dimension that is not of integers, so it has no shape")
        nothing = self._nothing()
        return tuple(bounds[name][1] - bounds[name][0] + 1 if name in bounds and name not in nothing else 0 for name in self.dims)

    def _nothing(self):
        """The dimensions on which no coordinate lies in all ranges that sel() was given."""
        names = [name for name, ends in self._cut_box().items() if ends == []]
        return {self.labels.get(name, name) for name in names} if names else set()

    def _cut_box(self):
        """Returns the box with its ranges of dimensions cut to the domains, as WHERE and the functions of SQL do; [] is outside."""
        if not any(isinstance(ends, list) for ends in self._box.values()):
            return self._box
        box, domains = dict(self._box), dict(self._about("name, domain", "tessera_schema", "role = 'dimension'"))
        for name, ends in self._box.items():
            if isinstance(ends, list) and ends and domains.get(name):
                with contextlib.suppress(ValueError):   # a number for an instant: the functions judge it
                    box[name] = common_range(name, ends, json.loads(domains[name]))
        return box

    def _resolved(self):
        """The ends of the box by dimension: open ones are those of what was written, and labels the coordinates that they belong to. A dimension is missing if
        nothing was written, and the box does not say both ends."""
        if self._has_lists():
            raise NotImplementedError("this needs ranges, and sel() was given a list of coordinates")
        bounds, labels = self.bounds, {}
        for name, given in self._cut_box().items():
            if given == []:
                continue
            low, high = given if isinstance(given, list) else (given, given)
            if name not in self.dims:
                labels = labels or self.labels
                if name not in labels:
                    raise Unknown(self._lacks("dimension or label", name, "dimension", "label"))
                if labels[name] not in bounds:   # the array has no cells
                    continue
                between, values = ((low, "backfill"), (high, "pad")), self._label_values(name)
                try:
                    ends = [None if end is None else next(iter(self.nearest(method=side, **{name: end}).values())) for end, side in between]
                except KeyError:   # all labels are on one side, so the range is empty
                    first = bounds[labels[name]][0]
                    if not isinstance(first, int):
                        raise
                    bounds[labels[name]] = (first, first - 1)
                    continue
                name = labels[name]
                low, high = ends if values(bounds[name][0], 1)[0] < values(bounds[name][1], 1)[0] else ends[::-1]
            if name in bounds or None not in (low, high):
                bounds[name] = (bounds[name][0] if low is None else low, bounds[name][1] if high is None else high)
        return bounds

    def _label_values(self, label):
        """Returns a function that gives the values of a label from a coordinate on, as an ndarray; texts are objects."""
        import numpy
        dim = self.labels[label]
        array = Array(self._connection, self.path, None, {name: value for name, value in self._options.items() if name in ("as_of", "since")}, self._state)

        def values(low, length):
            if not length:
                return numpy.empty(0)
            more = numpy.timedelta64(length - 1, numpy.datetime_data(low.dtype)[0]) if isinstance(low, numpy.datetime64) else length - 1
            high = low if length == 1 else low + more
            found = numpy.load(io.BytesIO(array.sel(**{dim: (in_utc(low), in_utc(high))})._npy(label)))
            return found if found.dtype.kind != "S" else numpy.array([text.decode("utf-8", "replace") for text in found.tolist()], object)
        return values

    @property
    def nbytes(self) -> int:
        """The size of all files of all fragments, in bytes."""
        return self._about("bytes", "tessera_array")[0][0]

    def _with(self, **options):
        return Array(self._connection, self.path, self._box, {**self._options, **options}, self._state)

    def select(self, *columns: str) -> Array:
        """Only these columns, in this order."""
        return self._with(columns=list(columns))

    def sel(self, *, method: str | None = None, tolerance: Any = None, **dims: Any) -> Array:
        """Cells whose coordinates are a value, are in a list, or are between two ends, both inclusive: day="2024-06-01", x=[1, 5, 9], y=(10, 20),
        z=slice(None, 5). numpy() returns the cells of a list in the order of the list, as often as it names them; streams return each cell once, in
        the order of the array.

        A second call narrows the first. You can use a dimension label in place of its dimension: lat=(45.2, 47.1). Along a falling label, a range
        may go downward, as in xarray: lat=slice(47.1, 45.2). Elsewhere a downward slice has no cells, and a downward pair is an error. method and
        tolerance are those of nearest().
        """
        if method is not None:
            lists = {name: value for name, value in dims.items() if isinstance(value, list) or getattr(value, "ndim", 0)}
            near = self.nearest(method=method, tolerance=tolerance, **{name: value for name, value in dims.items() if name not in lists})
            for name, values in lists.items():
                if getattr(values, "ndim", 1) != 1:
                    raise TypeError(f"{name}: coordinates are a list with one axis, not {values.ndim}")
                found = [self.nearest(method=method, tolerance=tolerance, **{name: value}) for value in values]
                near[self.labels.get(name, name)] = [coordinate for one in found for coordinate in one.values()]
            dims = near
        box = dict(self._box)
        for name, value in dims.items():
            self._expect("dimension or label", name, "dimension", "label")
            units = self._in_units(name, value)
            units = [one for one in units if not isinstance(one, Between)] if isinstance(units, list) else [] if isinstance(units, Between) else units
            given, value = value, coordinates_of(name, units)
            if isinstance(value, list) and value and self._goes_down(name, *value):
                falls = self._falls(name)
                if not falls and not isinstance(given, slice):
                    raise Range(f"sel({name}={given!r}): its low end is above its high end")
                value = value[::-1] if falls else []
            if isinstance(value, dict) and name not in self.dims:
                name, value = self._listed(name, value)
            box[name] = common_range(name, box[name], value) if name in box else value
        return Array(self._connection, self.path, self._joined(box), self._options, self._state)

    def _goes_down(self, name, first, last):
        """Whether the first end of a range is above the last: of two of a kind, others are left to the array."""
        if None in (first, last) or isinstance(first, str) != isinstance(last, str):
            return False
        digits = isinstance(first, str) and first.isdecimal() and last.isdecimal()
        if not digits and not (isinstance(first, (int, float)) and last < 0 <= first):
            return are_reversed(first, last) if isinstance(first, str) else first > last
        if ("UINT64",) not in self._about("datatype", "tessera_schema", f"name = {sql.text(name)}"):
            return first > last
        return digits and int(first) > int(last)   # -1 may be the greatest

    def _falls(self, name):
        """Whether `name` is a label that falls: then xarray takes ranges that go downward."""
        if name in self.dims:
            return False
        dim, bounds = self.labels.get(name), self.bounds
        if dim not in bounds:
            return False
        ends = [self._label_values(name)(end, 1)[0] for end in bounds[dim]]
        return bool(ends[0] > ends[1])

    def _listed(self, label, values):
        """Returns the dimension of a label, and the coordinates that have one of its values."""
        if label not in self.labels:
            raise Unknown(self._lacks("dimension or label", label, "dimension", "label"))
        dim = self.labels[label]
        found = [ends[0] for ends in (self._range(label, dim, [value, value]) for value in values["in"]) if ends]
        return dim, {"in": found} if found else []

    def _runs(self):
        """Returns Arrays without lists of coordinates that together have the cells of this one, in the order of the array; this one, if it has no list."""
        name = next((name for name, ends in self._box.items() if isinstance(ends, dict)), None)
        if name is None:
            return [self]
        runs = []
        for _, value in sorted({sort_key(value): value for value in self._box[name]["in"]}.items()):
            if runs and isinstance(value, int) and isinstance(runs[-1][1], int) and value == runs[-1][1] + 1:
                runs[-1][1] = value
            else:
                runs.append([value, value])
        parts = [Array(self._connection, self.path, {**self._box, name: run}, self._options, self._state) for run in runs]
        return [run for part in parts for run in part._runs()]

    def _along(self):
        """Returns the axis of the first list of coordinates, Arrays each of which has one run of it, in the order of the array, and for each coordinate of the
        list that has cells its place in what these runs have together."""
        name = next(name for name, ends in self._box.items() if isinstance(ends, dict))
        rest, axis = {other: ends for other, ends in self._box.items() if other != name}, self.dims.index(name)
        runs = Array(self._connection, self.path, {name: self._box[name]}, self._options, self._state)._runs()
        places, end = {}, 0
        for run in runs:
            low, high = run._box[name]
            present = range(low, high + 1) if low != high else [low]
            if run.shape[axis] != len(present):   # some lie outside of what was written
                present = [value for value in present if Array(self._connection, self.path, {name: [value, value]}, self._options, self._state).shape[axis]]
            places.update({sort_key(value): end + place for place, value in enumerate(present)})
            end += len(present)
        parts = [Array(self._connection, self.path, {**rest, **run._box}, self._options, self._state) for run in runs]
        return axis, parts, [places[sort_key(value)] for value in self._box[name]["in"] if sort_key(value) in places]

    def _has_lists(self):
        return any(isinstance(ends, dict) for ends in self._box.values())

    def _joined(self, box):
        """Where a dimension is bounded by several names, by its own and by labels, they become one range of the dimension."""
        labels = self.labels if len(box) > 1 and set(box) - set(self.dims) else {}
        for dim in set(labels.values()):
            names = [name for name in box if labels.get(name, name) == dim]
            if len(names) > 1:
                ranges = [self._range(name, dim, box.pop(name)) for name in names]
                box[dim] = functools.reduce(functools.partial(common_range, dim), ranges)
        return box

    def _range(self, name, dim, ends):
        """Returns the range of a dimension that belongs to a range of one of its labels; [] if no coordinate does."""
        if name == dim or ends == []:
            return ends
        try:
            low, high = Array(self._connection, self.path, {name: ends}, self._options, self._state)._resolved()[dim]
        except KeyError:   # all labels are on one side
            return []
        return [low, high] if sort_key(low) <= sort_key(high) else []

    def nearest(self, *, method: str = "nearest", tolerance: Any = None, **labels: Any) -> dict[str, Any]:
        """The coordinates whose labels are nearest to these values, by dimension: nearest(lat=46.9) is {"y": 172}. In a dense array you can also use
        a dimension: its coordinates are all those from the lowest to the highest of this Array.

        method: "nearest", "pad" (the next lower one) or "backfill" (the next higher one). tolerance: a number in the unit of the label, or a duration
        for instants. Raises KeyError if no label is within the tolerance.
        """
        if method not in _SIDES:
            raise ValueError(f"method {method!r}: expected one of {', '.join(_SIDES)}")
        known, found = {name: (kind, json.loads(dim)) for name, kind, dim in self._about("name, datatype, domain", "tessera_schema", "role = 'label'")}, {}
        for label, value in labels.items():
            if is_missing(value):
                raise ValueError(f"no coordinate is nearest to {value}")
            given, units = value, self._in_units(label, value)
            if label in self.dims:
                from .blocks import near
                within = tolerance if units is value or tolerance is None else exact_length(tolerance, self._about("datatype", "tessera_schema", f"name = {sql.text(label)}")[0][0])
                found[label] = near(self, label, units.exact if isinstance(units, Between) else coordinate_of(units), _SIDES[method], within)
                continue
            if label not in known:
                raise KeyError(f"array {self.path} has no label {label!r}; it has {', '.join(known) or 'none'}")
            kind, dim = known[label]
            within = tolerance_in_units(tolerance, label, kind)
            if isinstance(units, Between):
                index = self._nearest_between(label, units, _SIDES[method], within)
            else:
                value = coordinate_of(units)
                index = self._do("SELECT tessera_nearest(?, ?, ?, ?, ?)", self.path, label, value, _SIDES[method], within)[0][0]
            if index is None:
                raise KeyError(f"no label {label} is near {given!r}")
            found[dim] = index
        return found

    def _nearest_between(self, label, value, side, tolerance):
        """Returns the coordinate whose label is nearest to a duration that lies between two units, or None."""
        ends = self._do("SELECT tessera_nearest(?1, ?2, ?3, 'before'), tessera_nearest(?1, ?2, ?4, 'after')", self.path, label, value.low, value.low + 1)[0]
        values = self._label_values(label)
        far = [(abs(value.exact - int(values(end, 1).view("i8")[0])), end) for end, of in zip(ends, ("before", "after")) if end is not None and side in ("nearest", of)]
        distance, found = min(far, default=(None, None))
        return found if distance is None or tolerance is None or distance <= tolerance else None

    def where(self, attribute: str, operator: str, value: Any) -> Array:
        """Cells that satisfy a comparison: = < <= > >=, "in" with a list, "is" and "is not" with None. Several conditions must all hold. Enumerations
        compare by value.
        """
        if operator not in _OPERATORS:
            raise Mismatch(f"where({attribute!r}, {operator!r}, ...): expected one of {', '.join(_OPERATORS)}")
        if operator == "in" and (isinstance(value, (str, bytes)) or not hasattr(value, "__iter__")):
            raise Mismatch(f"where({attribute!r}, 'in', {value!r}): \"in\" needs a list of values")
        self._expect("column", attribute, "attribute", "dimension", "label")
        value = self._in_units(attribute, list(value) if operator == "in" else None if is_missing(value) else value, compares=True)
        if isinstance(value, Between):   # two values of the column
            operator, value = compared(operator, value)
        elif operator == "in":
            value = [one for one in value if not isinstance(one, Between)]
        return self._with(where=self._options.get("where", []) + [[attribute, "=" if operator == "==" else operator, value]])

    def _expect(self, what, name, *roles):
        """Raises an error if the array has no field of this name. Of an array in a bucket it would be a request: there the first read tells."""
        if "://" not in self.path and not self._about("1", "tessera_schema", f"name = {sql.text(name)}"):
            raise Unknown(self._lacks(what, name, *roles))

    def _durations(self):
        """The names of the fields that have durations."""
        return {key[len(DURATION):] for key, in self._rows("SELECT key FROM tessera_metadata(?, ?) WHERE key GLOB '__tessera_duration.*'", self.path, self._key())}

    def _zones(self):
        """The time zones that columns of instants had in a DataFrame, by name."""
        return {name: zone for name, zone in ((name, zone_of(dtype)) for name, dtype in self._dtypes().items()) if zone}

    def _in_units(self, name, value, compares=False):
        """Returns a value, or a list, tuple or slice of some, as the column has it: durations as numbers of its unit, instants as ISO text in UTC. Fails if
        the column's type can have no such value. compares: what lies between two values of the column is a Between; else only durations are."""
        value = listed_durations(value)
        parts = [value.start, value.stop] if isinstance(value, slice) else value if isinstance(value, (list, tuple)) else [value]
        plain = all(type(part) in (int, float, bool, type(None)) for part in parts)
        if plain and "://" in self.path:   # of an array in a bucket it would be a request
            return value
        found = self._about("datatype", "tessera_schema", f"name = {sql.text(name)} AND (cell_val_num = 1 OR role <> 'attribute' OR datatype IN ('ASCII', 'UTF8')) AND enumeration IS NULL")
        kind = found[0][0] if found else ""
        if getattr(value, "ndim", 0):
            if value.ndim != 1 or not kind:
                return value
            value = parts = list(value)
        durations = kind.startswith("TIME_") and name in self._durations()
        zone = self._zones().get(name) if kind.startswith("DATETIME_") and not plain else None
        parts = [self._in_column(name, kind, durations, zone, compares, scalar_of(part)) for part in parts]
        if not compares:
            parts = [part.exact if isinstance(part, Between) and not durations else part for part in parts]
        if isinstance(value, (slice, tuple)) and len(parts) == 2:   # the ends of a range
            parts = [part if not isinstance(part, Between) else part.low + (end == 0) for end, part in enumerate(parts)]
        return slice(*parts, value.step) if isinstance(value, slice) else type(value)(parts) if isinstance(value, (list, tuple)) else parts[0]

    def _in_column(self, name, kind, durations, zone, compares, value):
        """Returns one value for _in_units()."""
        if value is None or is_missing(value):
            return value
        if durations and isinstance(value, str) and not _UNITS_AS_TEXT.fullmatch(value):
            raise Mismatch(f"{name}={value!r}: {name} has durations: give pandas.Timedelta({value!r}), or a number of units")
        if durations:
            return count_units(value, kind) if is_duration(value) else value
        if _NUMBERS.match(kind):
            if compares and is_word(value):
                raise Mismatch(f"{name}: {value!r} is not a valid {kind}")
            return number(kind, plain_value(value))
        if kind == "BOOL":
            value = {"true": 1, "false": 0}.get(value.lower(), value) if isinstance(value, str) else plain_value(value)
            if value not in (0, 1):
                raise Mismatch(f"{name}: {value!r} is not a valid BOOL")
            return value
        if kind in _TEXTS and isinstance(value, bytes):
            return value.decode()
        if not kind.startswith(("DATETIME_", "TIME_")):
            return value
        if is_instant(value) and kind.startswith("DATETIME_"):
            if zone and getattr(value, "tzinfo", None) is None:
                raise TypeError(f"{name}={value!r}: {name} has the time zone {zone}, and this instant has none: pandas.Timestamp(..., tz={zone!r}) has it, and text without an offset "
                                "is read in it")
            given, zone = plain_value(value), None
            if not has_text(given) and not compares:   # of a year that has no text, which a box compares all the same
                return value
            value = given
        value = plain_value(value) if not isinstance(value, (int, float, str)) else value
        if isinstance(value, str):
            try:
                return time_of_day(name, kind, value) if kind.startswith("TIME_") else instant(name, kind, value, zone)
            except Refused:
                if compares:
                    raise
                return value   # what reads the box says why it is none
        if self._options.get("datetimes") in ("integer", *(["duration"] if kind.startswith("TIME_") else [])) or not compares and is_beyond_texts(value, kind):
            return value
        raise Mismatch(f"{name}={value!r}: {name} is {kind}, and this is a number: give a date, such as '2024-06-01', or open the array with datetimes='integer' to compare numbers of units")

    def order(self, *dims: str | tuple[str, str]) -> Array:
        """Sorts rows by these dimensions; (name, "desc") sorts in descending order."""
        for dim in dims:
            if isinstance(dim, str) and dim[:1] in ("-", "+") and dim[1:] in self.dims and dim not in self.dims:
                raise Unknown(f"order({dim!r}): write order(({dim[1:]!r}, {'desc' if dim[0] == '-' else 'asc'!r}))")
            if not isinstance(dim, str) and not (len(dim) == 2 and str(dim[1]).lower() in ("asc", "desc")):
                raise Mismatch(f"order({dim!r}): expected the name of a dimension, or (name, 'desc')")
        return self._with(order=[[dim] if isinstance(dim, str) else list(dim) for dim in dims])

    def partitions(self, n: int) -> list[Array]:
        """At most n parts of about equal work that share no row: dask.dataframe.from_map(read, array.partitions(8))."""
        if self._has_lists():
            parts = self._runs()
            if len(parts) > n:
                raise NotImplementedError(f"the lists of coordinates have {len(parts)} runs of neighbours, which are the least number of parts")
            return parts
        box = box_json(self._box)
        times = self._times()
        with self._checking():
            parts = self._rows("SELECT slice FROM tessera_partitions(?, ?, ?, ?, ?, ?, ?) ORDER BY part", self.path, n, box, *(times.get(name) for name in _LAST))
        labels = self.labels if set(self._box) - set(self.dims) else {}   # a part's own ranges are within those of a label
        inside = [(part, {name: ends for name, ends in self._box.items() if labels.get(name) not in part}) for part in (json.loads(text) for text, in parts)]
        return [Array(self._connection, self.path, {**box, **part}, self._options, self._state) for part, box in inside]

    def _stream(self):
        functions = functions_of(self.connection)
        if not self._has_lists():
            return functions, functions.take_new(self._token().encode())
        if "order" in self._options:
            raise NotImplementedError("rows of lists of coordinates come in the order of the array: leave order() out, and sort them afterwards")
        return Joined(self._runs())._stream()

    def df(self) -> Any:
        """The rows as a pandas DataFrame. Times are timedelta64, since they may be longer than a day."""
        frame = super().df()
        for name, dtype in frame.dtypes.items() if not len(frame) else ():   # a stream without rows has no dictionary
            if hasattr(dtype, "categories") and name in self.attributes:
                labels = type(dtype.categories)(self.categories(name), dtype=None if dtype.categories.dtype.kind == "O" else dtype.categories.dtype)
                frame[name] = frame[name].cat.set_categories(labels)
        frame.attrs.update(self._noted(ATTRS))
        return frame

    def pl(self) -> Any:
        """The rows as a polars DataFrame, with the time zones that columns had."""
        return self._in_zones(super().pl())

    def _in_zones(self, frame):
        """Returns a DataFrame of polars, of this array's stream, with the time zones that columns had."""
        from .results import library
        instants = [name for name, dtype in frame.schema.items() if type(dtype).__name__ == "Datetime"]
        zones = {name: zone for name, zone in self._zones().items() if name in instants} if instants else {}
        column = library("polars").col
        return frame.with_columns(column(name).dt.replace_time_zone("UTC").dt.convert_time_zone(zone) for name, zone in zones.items()) if zones else frame

    def arrow(self) -> Any:
        """The rows as a pyarrow Table, with the time zones that columns had."""
        from .results import library
        table, pyarrow = super().arrow(), library("pyarrow")
        instants = [field.name for field in table.schema if pyarrow.types.is_timestamp(field.type)]
        zones = self._zones() if instants else {}
        schema = [field.with_type(pyarrow.timestamp(field.type.unit, zones[field.name])) if field.name in instants and field.name in zones else field for field in table.schema]
        return table.cast(pyarrow.schema(schema)) if zones else table

    def _in_order(self):
        """Returns the rows of a dense array in the order of its dimensions, unless order() says another: a stream has them in the order that costs least, in
        which later writes change places."""
        if "order" in self._options or self.kind != "dense":
            return self
        return Joined([run.order(*self.dims) for run in self._runs()]) if self._has_lists() else self.order(*self.dims)

    def __arrow_c_schema__(self) -> Any:
        """Returns the schema of the streams in a capsule. No tile is read."""
        if self._has_lists():
            return self._runs()[0].__arrow_c_schema__()
        functions = functions_of(self.connection)
        schema = functions.take_schema(self._token().encode())
        if not schema:
            raise MemoryError("an Arrow schema")
        return make_capsule(schema, SCHEMA, functions.free_schema_capsule)

    def _token(self):
        box, options = (box_json(part) for part in (self._box, {**self._options, **self._times()}))
        with self._checking():
            return self._rows("SELECT tessera_stream(?, ?, ?)", self.path, box, options)[0][0]

    def _npy(self, attribute, **options):
        limits = {name: self._options[name] for name in ("memory_mb", "cache_mb", "threads") if name in self._options}
        box, options = box_json(self._box), box_json({**limits, **self._times(), **options})
        with self._checking():
            return self._rows("SELECT tessera_npy(?, ?, ?, ?)", self.path, attribute, box, options)[0][0]

    def _header(self, attribute):
        """Returns the header of the attribute's block as text, its shape and its numpy type; texts of variable length are objects."""
        if (attribute, None) in self._about("name, cell_val_num", "tessera_schema", "role = 'attribute'"):
            from .blocks import bounds_of
            return None, self._made_empty(tuple(length for _, length in bounds_of(self).values())), "|O"
        nothing = self._nothing()
        if nothing:   # the other axes keep their lengths
            rest = Array(self._connection, self.path, {name: ends for name, ends in self._cut_box().items() if ends != []}, self._options, self._state)
            text, shape, descr = rest._header(attribute)
            return text, tuple(0 if name in nothing else length for name, length in zip(self.dims, shape)) + shape[len(self.dims):], descr
        text = self._npy(attribute, header=True)
        header = ast.literal_eval(text)
        shape = header["shape"]
        if 0 in shape and set(self._box) - set(self.dims):   # the range of a label is empty; the other axes keep their lengths
            from .blocks import bounds_of
            shape = tuple(length for _, length in bounds_of(self).values()) + shape[len(self.dims):]
        return text, self._made_empty(shape) if 0 in shape else shape, header["descr"]

    def _made_empty(self, shape):
        """Returns the shape of the ndarrays of which an array without cells was made: no dimension of an array has the length 0."""
        lengths = self.metadata.get(LENGTHS) if shape and not any(shape[:len(self.dims)]) and not self._box else None
        return shape if lengths is None else (*(lengths if isinstance(lengths, list) else [lengths]), *shape[len(self.dims):])

    def numpy(self, attribute: str | None = None, out: Any = None, masked: bool = False) -> Any:
        """An attribute of the box as an ndarray, for dense arrays. Nulls and cells that were never written have the fill value, or None in texts,
        which are objects.

        attribute can be omitted if there is only one. out: an ndarray of this shape and type for the values. The values are decoded into the
        ndarray's own memory, on all threads. masked: returns a MaskedArray, which masks nulls and cells that were never written.
        """
        import numpy
        if set(self._options) & {"where", "order"}:
            raise NotImplementedError("numpy() knows boxes alone: where and order need a stream")
        if self.kind != "dense":
            raise TypeError(f"array {self.path} is sparse and has no blocks: use the stream, as pandas, polars and pyarrow do")
        attribute = self._only(attribute)
        if out is not None and not isinstance(out, numpy.ndarray):
            raise TypeError(f"out is a {type(out).__name__}, and values are decoded into the memory of an ndarray: numpy() without out makes one")
        if self._has_lists():
            axis, parts, places = self._along()
            block = (numpy.ma if masked else numpy).concatenate([part.numpy(attribute, masked=masked) for part in parts], axis)
            if places != list(range(block.shape[axis])):
                block = block.take(places, axis)
            if out is None:
                return block
            if out.shape != block.shape or out.dtype != block.dtype:
                raise ValueError(f"out is {out.dtype}{out.shape}, the block is {block.dtype}{block.shape}")
            out[...] = numpy.ma.getdata(block)
            return numpy.ma.MaskedArray(out, numpy.ma.getmaskarray(block)) if masked else out
        text, shape, descr = self._header(attribute)
        dtype = numpy.dtype(descr)
        if out is not None and (out.shape != shape or out.dtype != dtype):
            raise ValueError(f"out is {out.dtype}{out.shape}, the block is {dtype}{shape}")
        if 0 in shape:
            block, nulls = numpy.empty(shape, dtype), numpy.empty(shape, bool)
        elif text is None:
            from .blocks import read_objects
            block = read_objects(self, attribute)
            nulls = numpy.equal(block, None)
        else:
            fits = out is not None and out.flags.c_contiguous and out.flags.aligned and out.flags.writeable
            block = out if fits else numpy.empty(shape, dtype)
            nulls = self._fill(attribute, text, block, masked)
        if out is not None and block is not out:
            out[...] = block
            block = out
        return block if not masked else numpy.ma.MaskedArray(block, nulls)

    def _fill(self, attribute, header, block, masked):
        """Reads an attribute into an ndarray. Returns with `masked` an ndarray of its shape that tells where no value is."""
        import numpy
        nulls = numpy.zeros(block.shape[:len(self.dims)] if masked else (), bool)
        with contextlib.ExitStack() as lent:
            places = {"into": (block, header), **({"nulls": (nulls, "")} if masked else {})}
            self._npy(attribute, **{name: lent.enter_context(Lent(self.connection, *place)) for name, place in places.items()})
        return numpy.broadcast_to(nulls.reshape(nulls.shape + (1,) * (block.ndim - nulls.ndim)), block.shape) if masked else None

    def scipy(self, attribute: str | None = None) -> Any:
        """A sparse array with two integer dimensions as a scipy coo_array."""
        from .annotated import read_matrix
        return read_matrix(self, self._only(attribute))

    def dask(self, attribute: str | None = None) -> Any:
        """An attribute as a dask.array whose chunks are tiles. Its tasks pickle, so processes and other machines can run them."""
        import dask.array
        from .blocks import Block
        block = Block(self, self._only(attribute))
        name = f"tessera-{attribute}-{dask.base.tokenize(self.path, self._box, self._options, self._times(), attribute)}"
        return dask.array.from_array(block, chunks=block.chunks, name=name, asarray=False)

    def scan_polars(self) -> Any:
        """A polars LazyFrame that reads only what a query needs: the columns that it names, rows that satisfy its comparisons, and no more than
        its limit.
        """
        from .frames import scan
        return scan(self)

    def _only(self, attribute):
        """Returns the attribute; if none is named, the only one, or the only column that was chosen."""
        chosen = self._options.get("columns", self.attributes)
        names = [attribute] if attribute else [name for name in chosen if name not in self.dims] or chosen
        if len(names) != 1:
            raise ValueError(f"array {self.path} has {'the attributes ' + ', '.join(names) if names else 'no attributes'}: name one column")
        return names[0]

    def __array__(self, dtype=None, copy=None):
        found = self.numpy()
        return found if dtype is None else found.astype(dtype, copy=False)

    def write(self, attribute: str, block: Any, origin: dict | None = None) -> int:
        """Writes an ndarray into a dense array that has no other attribute, as one commit. origin: its lowest coordinates, by dimension.

        Masked cells become NULL, which is an error if the attribute cannot be NULL.
        """
        if "://" not in self.path and attribute in self.attributes and len(self.attributes) > 1:   # there it would be a request
            blocks = ", ".join(f"{name!r}: block" for name in self.attributes)
            raise Mismatch(f"write({attribute!r}, ...): array {self.path} has other attributes, too: write_all({{{blocks}}}) writes all of them as one commit")
        return self.write_all({attribute: block}, origin)

    def write_all(self, blocks: dict, origin: dict | None = None) -> int:
        """Writes an ndarray for each attribute, as one commit. Returns the number of cells. This Array and its parts then show what was written."""
        if not isinstance(origin, (dict, type(None))):
            raise Mismatch(f"origin: expected a dict such as {{{self.dims[0]!r}: 0}}, not {origin!r}")
        marks = ", ".join("?" * (2 * len(blocks) + 2))
        if "schema" in self._state:
            self._about("1", "tessera_schema")   # an error if another array has taken its place
        self._check_writable()
        import numpy
        blocks = {name: numpy.asanyarray(block) for name, block in blocks.items()}
        blocks = {name: block if numpy.ma.is_masked(block) else numpy.ma.getdata(block) for name, block in blocks.items()}
        if any(numpy.ma.is_masked(block) or block.dtype.kind in "OUST" for block in blocks.values()):   # a block has no nulls, and no values of variable length
            from .grids import write_rows
            return write_rows(self, blocks, origin or {})
        with contextlib.ExitStack() as lent:
            values = []
            for name, block in blocks.items():
                values += [name, lent.enter_context(Lent(self.connection, *described_block(block)))]
            cells = self._do(f"SELECT tessera_write_npy({marks})", self.path, *values, json.dumps(origin or {}, default=plain_value))[0][0]
        if "as_of" in self._state:
            self._now()
        return cells

    def write_label(self, label: str, values: Any, origin: Any = None) -> int:
        """Writes values of a dimension label, as one commit: numbers, instants or texts that strictly rise, or fall, along the dimension.

        origin: the coordinate of the first one; by default the low end of the domain. Returns the number of values.
        """
        import numpy
        from .grids import label_values
        values = label_values(values)
        dtype = numpy.dtype(ast.literal_eval(self._npy(label, header=True))["descr"])
        if dtype.kind == "S":   # texts of any length
            block = json.dumps(values.tolist())
        else:
            file, converted = io.BytesIO(), values.astype(dtype)
            if not numpy.array_equal(converted, values, equal_nan=values.dtype.kind in "fMm"):
                raise ValueError(f"label {label!r} has values of {dtype}, which not all of these are")
            numpy.save(file, converted)
            block = file.getvalue()
        if isinstance(origin, dict):
            origin = json.dumps(origin, default=plain_value)
        elif not isinstance(origin, (int, str, type(None))):
            origin = plain_value(origin)
        count = self._do("SELECT tessera_write_label(?, ?, ?, ?)", self.path, label, block, origin)[0][0]
        if "as_of" in self._state:
            self._now()
        return count

    def expand_domain(self, **dims: Any) -> None:
        """Expands the current domain of the array, so that you can write beyond it: expand_domain(day=(None, "2030-12-31")). It never exceeds the
        domain.
        """
        self._check_writable()
        self._do("SELECT tessera_expand_domain(?, ?)", self.path, box_json({name: coordinates_of(name, ends) for name, ends in dims.items()}))
        if "as_of" in self._state:
            self._now()

    def __getitem__(self, key: Any) -> Array:
        """a["temp"], a["day", "temp"], a[["day", "temp"]]: these columns. a[10:20, 5]: these coordinates, dimension by dimension; a slice of integers ends before its stop,
        as everywhere in Python, and one of texts or instants includes it. Coordinates are those of the array: they need not begin with 0."""
        keys = key if isinstance(key, tuple) else (key,)
        names, known = key if isinstance(key, list) else keys, {*self.attributes, *self.dims, *self.labels}
        strange = next((name for name in names if isinstance(name, str) and name not in known), None)
        if names and strange is None and all(isinstance(name, str) for name in names):
            return self.select(*names)
        dims = self.dims
        if strange is not None and all(isinstance(name, str) for name in names) and (type(key) in (str, list) or known & set(names)):   # more likely no column than a coordinate
            about = dict(self._about("name, datatype", "tessera_schema", "role = 'dimension'"))
            if isinstance(key, list) or any(about[dim] in _TEXTS for dim in dims[:len(keys)]):
                raise Unknown(self._lacks("column", strange, "attribute", "dimension", "label") + f"; sel({dims[0]}={strange!r}) takes coordinates")
        if Ellipsis in [k for k in keys if k is Ellipsis]:
            at = next(i for i, k in enumerate(keys) if k is Ellipsis)
            keys = (*keys[:at], *[slice(None)] * (len(dims) - len(keys) + 1), *keys[at + 1:])
        if len(keys) > len(dims):
            raise IndexError(f"array {self.path} has {len(dims)} dimensions, {', '.join(dims)}, and {len(keys)} indexes were given")
        return self.sel(**{name: self._index(name, k, strange) for name, k in zip(dims, keys) if not isinstance(k, slice) or k != slice(None)}) if keys else self

    def _index(self, name, key, strange):
        key = slice(scalar_of(key.start), scalar_of(key.stop), key.step) if isinstance(key, slice) else scalar_of(key)
        if isinstance(key, slice):
            if key.step not in (None, 1):
                raise IndexError(f"{name}: a slice of an array has no step")
            stop = key.stop - 1 if isinstance(key.stop, int) or hasattr(key.stop, "dtype") and key.stop.dtype.kind in "iu" else key.stop
            low = key.start
        else:
            low, stop = key, None
        domain, datatype = {of: about for of, *about in self._about("name, domain, datatype", "tessera_schema", "role = 'dimension'")}[name]
        word = next(filter(is_word, key if isinstance(key, list) else (low, stop)), None)
        if word is not None and _NUMBERS.match(datatype):
            raise Unknown(self._lacks("column", strange or word, "attribute", "dimension", "label") + f"; a coordinate of {name} is {datatype}")
        begins = json.loads(domain)[0] if domain else None
        if isinstance(begins, int) and begins >= 0 and any(isinstance(end, int) and end < 0 for end in (low, key.stop if isinstance(key, slice) else None)):
            raise IndexError(f"{name}: coordinates of {self.path} begin with {begins}, and indexes are coordinates: none is counted from the end")
        if isinstance(key, slice) and isinstance(low, int) and isinstance(stop, int) and stop < low:
            return []
        return (low, stop) if isinstance(key, slice) else key

    __iter__ = None   # rows come as streams: it has no order in which a loop would want them

    def __bool__(self):
        return True   # len() may have to count

    def __len__(self):
        """The number of cells of this part: the rows that its stream has."""
        return self._calculate("count(*)")

    def _calculate(self, *expressions, besides="1"):
        from .results import as_table
        connection = self.connection
        with as_table(self, connection) as (table, condition), working(connection, self._connection is None, self.path, 1000):
            text = sql.rows(connection, "SELECT tessera_sql(?)", (f"SELECT {', '.join(expressions)} FROM {table} WHERE {condition} AND {besides}",))[0][0]
            found = sql.rows(connection, text)[0]
        return found[0] if len(found) == 1 else found

    def _aggregate(self, function, attribute, by):
        attribute = self._only(attribute)
        if attribute not in (*self.attributes, *self.dims, *self.labels):
            raise Unknown(self._lacks("column", attribute, "attribute", "dimension", "label"))
        kind, several, enumeration = self._about("datatype, cell_val_num IS NOT 1, enumeration", "tessera_schema", f"name = {sql.text(attribute)}")[0]
        if function in ("sum", "avg") and (kind in _TEXTS or enumeration is not None and self._calculate(f"typeof(min({sql.name(attribute)}))") == "text"):
            raise Mismatch(f"{'mean' if function == 'avg' else function}({attribute!r}): the column has texts")
        if several or self._options.get("datetimes") == "integer" or function == "count":
            kind = ""
        if kind.startswith(("DATETIME_", "TIME_")):
            return self._aggregate_times(function, attribute, kind, by)
        large = kind == "UINT64" and (function in ("median", "stddev") or function == "sum" and by is not None) and self._is_past_signed(attribute)
        if large and function != "sum":
            return self._of_large(function, attribute, by)
        try:
            found = self._aggregate_plain(function, attribute, by, large)   # else a sum would be an integer in some groups, and a real number in others
        except Error as e:
            if "overflow" not in str(e) or function != "sum" or by is not None:
                raise
            high, low = self._calculate(f"sum({sql.name(attribute)} >> 32)", f"sum({sql.name(attribute)} & 4294967295)")
            return (high << 32) + low
        if kind == "BOOL" and by is None and function in ("min", "max") and found is not None:
            return bool(found)
        if kind == "UINT64" and by is None and function in ("min", "max", "sum"):
            return self._sum_exactly(attribute) if isinstance(found, float) else int(found) if isinstance(found, str) else found
        return found

    def _is_past_signed(self, name):
        """Whether the sum of a UINT64 attribute, and so perhaps some value, is past the integers of SQL: then numbers that it computes are real."""
        return isinstance(self._calculate(f"sum({sql.name(name)})"), float)

    def _of_large(self, function, name, by):
        """Returns the median or standard deviation of UINT64 past the integers of SQL, which the engine does not have: all values are read."""
        import numpy
        from .streamed import batches
        if by is not None:
            raise Range(f"{'std' if function == 'stddev' else function}({name!r}, by=...): values are past 2^63 - 1, and SQL has no such integers: group a DataFrame, .df().groupby(...)")
        values = [numpy.array([v for v in column if v is not None], "u8") for column, in batches(*self.select(name)._stream())]
        values = numpy.sort(numpy.concatenate(values))
        if function == "stddev":
            return float(values.std(ddof=1, dtype="f8")) if len(values) > 1 else None
        return (int(values[(len(values) - 1) // 2]) + int(values[len(values) // 2])) / 2

    def _sum_exactly(self, name):
        """Returns the sum of a UINT64 attribute past the integers of SQL, which sums such values as real numbers."""
        half, column = 10 ** 10, sql.name(name)   # a text has 20 digits
        high, low = self._calculate(*(f"sum(CASE typeof({column}) WHEN 'text' THEN CAST(substr({column}, {place}, 10) AS INTEGER) ELSE {column} {rest} END)"
                                      for place, rest in ((1, f"/ {half}"), (11, f"% {half}"))))
        return high * half + low

    def _aggregate_times(self, function, name, kind, by):
        """The same for datetimes and times, of which SQL shows texts: computed with the numbers that the array has."""
        from .times import refuse, shown, spread
        duration = kind.startswith("TIME_")
        numbers = self._with(datetimes="duration" if duration else "integer")
        if by is not None:
            if duration:
                return numbers._aggregate_plain(function, name, by)._with_times({name: LETTERS[kind[5:]]})
            if function in ("min", "max"):
                return self._aggregate_plain(function, name, by)
        refuse(function, name, kind, by)
        column, nat = sql.name(name), -2 ** 63
        calculate = functools.partial(numbers._calculate, besides=f"{column} > {nat}")
        low, high = calculate(f"min({column})", f"max({column})")
        if low is None:
            return None
        found = low if function == "min" else high if function == "max" else spread(function, column, calculate, low)
        made = shown(found, kind, function, not duration or name not in self._durations())
        return f"{made}Z" if isinstance(made, str) and not duration and name in self._zones() else made   # it is in UTC, and not in the zone of the DataFrame

    def _aggregate_plain(self, function, attribute, by, real=False):
        attribute = sql.name(attribute)
        value = f"{attribute} * 1.0" if real else attribute
        if by is None:
            return self._calculate(f"{function}({value})")
        from .results import sql as select
        names = ", ".join(sql.name("cells", name) for name in ([by] if isinstance(by, str) else by))   # a quoted name alone that is none would be a text
        cells = Array(self._connection, self.path, self._box, {name: value for name, value in self._options.items() if name != "columns"}, self._state)   # `by` need not be among them
        return select(f"SELECT {names}, {function}({value}) AS {attribute} FROM cells GROUP BY {names} ORDER BY {names}", connection=self._connection, cells=cells)

    def count(self, attribute: str | None = None, by: str | list[str] | None = None) -> Any:
        """The number of cells in which the attribute is neither NULL nor NaN."""
        return self._aggregate("count", attribute, by)

    def sum(self, attribute: str | None = None, by: str | list[str] | None = None) -> Any:
        """The sum of an attribute, computed over columns on all threads; None if there is no value. If there is only one attribute, you can omit its
        name.

        by: one or more names of dimensions, labels or attributes. You then get a Result with a row for each group: a.mean("temp", by="lat").df()
        """
        return self._aggregate("sum", attribute, by)

    def mean(self, attribute: str | None = None, by: str | list[str] | None = None) -> Any:
        """The mean, without NULL and NaN."""
        return self._aggregate("avg", attribute, by)

    def min(self, attribute: str | None = None, by: str | list[str] | None = None) -> Any:
        """The lowest value."""
        return self._aggregate("min", attribute, by)

    def max(self, attribute: str | None = None, by: str | list[str] | None = None) -> Any:
        """The highest value."""
        return self._aggregate("max", attribute, by)

    def std(self, attribute: str | None = None, by: str | list[str] | None = None) -> Any:
        """The standard deviation of a sample."""
        return self._aggregate("stddev", attribute, by)

    def median(self, attribute: str | None = None, by: str | list[str] | None = None) -> Any:
        """The median."""
        return self._aggregate("median", attribute, by)

    def to_pandas(self) -> Any:
        """The cells as a pandas DataFrame, with the coordinates as columns: what df() returns. Rows of a dense array are in the order of its dimensions;
        columns have the dtypes that they had in a DataFrame."""
        return self.df()

    def __repr__(self):
        from .cards import card
        try:
            return card(self)
        except Error as e:   # it was removed, or nobody may read it any more
            return f"<tessera.Array {self.path!r} {box_json({**self._box, **self._options})}: {e}>"

    def _repr_html_(self):
        from .cards import html_card
        return html_card(self)


def in_file(array):
    """Returns the file of the database in which an Array lies, and 'db:NAME', by which a connection to that file alone finds it.

    TypeError if there is no such file, or if other connections do not see all that the Array shows, because it is not committed.
    """
    why = f"the Array {array.path} cannot be pickled: "
    array.__arrow_c_schema__()   # an error if the transaction has rows for it
    *schema, name = sql.parts(array.path[3:])
    files = {place.lower(): file for _, place, file in array._rows("PRAGMA database_list")}
    places = [schema[0].lower()] if schema else sorted(files, key="temp".__ne__)   # SQL finds tables in temp first
    here = next(place for place in places if _declared(array, place, name))
    if not files[here] or not os.path.isfile(files[here]):
        raise TypeError(f"{why}its database ({here}) has no file that another process could open")
    alone = Array(None, f"db:{sql.name(name)}", None, None, {"database": os.path.abspath(files[here])})
    try:
        lacks = _declared(array, here, name) != _declared(alone, "main", name) or _stored(array, here, name) - _stored(alone, "main", name)
    except Exception as e:
        raise TypeError(f"{why}another connection cannot read {files[here]}: {e}") from e
    if lacks:
        raise TypeError(f"{why}the transaction that wrote it is open, and other processes see what is committed. Commit first")
    return alone._state["database"], alone.path


def _declared(array, schema, name):
    """Returns the declaration of a table, as a list of one; empty if there is no such table."""
    return array._rows(f"SELECT sql FROM {sql.name(schema)}.sqlite_schema WHERE type = 'table' AND name = ? COLLATE NOCASE", name)


def _stored(array, schema, name):
    """Returns the files of an array in a database, which never change; a table over a directory has none."""
    table = sql.name(schema, f"{name}_files")
    return set(array._rows(f"SELECT id, parent, name, size FROM {table}")) if _declared(array, schema, f"{name}_files") else set()


def exists(connection, path):
    """Returns what is at a path, "an array" or "a group", or None."""
    here = Array(connection, path)
    if path.startswith("db:"):
        *schema, name = sql.parts(path[3:])
        return "a table" if here._rows(f"SELECT 1 FROM {sql.name(*schema or ['main'])}.sqlite_schema WHERE name = ? COLLATE NOCASE", name) else None
    for what, table in (("an array", "tessera_array"), ("a group", "tessera_members")):
        try:
            here._rows(f"SELECT 1 FROM {table}(?)", path)
        except NotFound:
            continue
        except Denied:   # it is encrypted
            pass
        return what
    return "something" if "://" not in path and os.path.lexists(path) and not is_empty(path) else None


def is_empty(path):
    return os.path.isdir(path) and not os.listdir(path)


_OPTIONS = {"strings", "enums", "datetimes", "unwritten", "batch_rows", "memory_mb", "cache_mb", "threads"}


def open(path: str | os.PathLike, *, connection: Any = None, as_of: Any = None, since: Any = None, key: str | bytes | None = None,
         key_file: str | os.PathLike | None = None, storage: dict[str, Any] | None = None, **options: Any) -> Array:
    """Returns the Array at a path: a directory, a bucket's URL, or 'db:NAME', an array in the connection's database.

    connection: from sqlite3, apsw or pysqlite3; only 'db:NAME' needs it. tessera is loaded into it if necessary. as_of, since: show what was written
    between these times (datetimes, ISO text, milliseconds since 1970); without as_of, the current state, whatever is written later. key, key_file:
    the key of an encrypted array, or a file with it; with key_file the Array pickles. storage: the options of tessera_configure, for everything at
    this path. Further options are those of tessera_stream: strings, enums, datetimes, unwritten, batch_rows, and, also for numpy(), memory_mb,
    cache_mb, threads. There is one cache of decoded tiles for the array and the connection, or the thread.
    """
    for name in set(options) - _OPTIONS:
        raise TypeError(f"tessera.open() got an unexpected keyword argument {name!r}; options are {', '.join(sorted(_OPTIONS))}")
    as_of, since = (end if isinstance(end, (int, float, str, type(None))) else millisecond_of(end) for end in (as_of, since))
    given, path, key_file = {"as_of": as_of, "since": since, **options}, place_of(path), place_of(key_file) if key_file else None
    need_connection(connection, path)
    if connection is not None:
        functions_of(connection)
    if storage is not None and connection is None:
        configure(path, **storage)
    elif storage is not None:
        with plain_errors(path):
            sql.rows(connection, "SELECT tessera_configure(?, ?)", (path, json.dumps(storage)))
    state = {"past": as_of is not None or since is not None or None, "key": key.hex() if isinstance(key, bytes) else key, "key_file": os.path.abspath(key_file) if key_file else None}
    array = Array(connection, path, None, *({name: value for name, value in part.items() if value is not None} for part in (given, state)))
    if as_of is None:
        try:
            array._now()   # fails if there is no array
        except NotFound as e:
            if exists(connection, path) == "a group":
                e.args = (f"{e}: open one of its arrays, or all of them with xarray.open_dataset({path!r}, engine='tessera')",)
            raise
        return array
    array._state["schema"], = array._about("schema", "tessera_array")[0]
    return array


def drop(path: str | os.PathLike, *, connection: Any = None, members: bool = False) -> None:
    """Deletes an array with all of its states; for 'db:NAME', as DROP TABLE does. members: for a group, also deletes its members."""
    need_connection(connection, path)
    here = Array(connection, place_of(path))
    try:
        here._rows(*("SELECT tessera_drop(?, ?)", here.path, '{"members": true}') if members else ("SELECT tessera_drop(?)", here.path))
    except Error as e:
        e.args = (str(e).replace('the option "members":true drops', "members=True drops"),)
        raise


