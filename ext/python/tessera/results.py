"""tessera.sql(): a SELECT whose parts over arrays run over columns, and its rows in the forms that programs want.

tessera_sql (C) rewrites the text. This module finds what a name in FROM means if the database does not know it: what the call was given by keyword, or a
variable of the caller. An Array becomes a table of temp, everything else an array in temp, and the table takes the name's place in FROM, with the name as its
alias: so a SELECT from a variable is one from a table, which runs over columns wherever a table does.
"""
from __future__ import annotations

import contextlib
import html
import importlib
import itertools
import json
import numbers
import operator
import os
import re
import sys
import uuid
import weakref
from typing import Any, Iterator

from . import statements
from .arrays import Array
from .connections import functions_of, own_connection, users, working
from .streams import Rows, Stream
from .values import is_duration, is_missing, plain_value
from .errors import Denied, Error, Unsupported, plain_errors
from .structures import run_stream

__all__ = ["Result", "as_table", "sql"]

_MISSING = re.compile(r"no such table: (.+?)(?:; (?:a path in FROM is in quotes|there are|a list is a JSON array)\b.*)?$|no table and no array is called '(.+)'", re.DOTALL)
_READS = re.compile(r"(?:\s|--[^\n]*\n|/\*.*?\*/)*(SELECT|WITH(?:\s+RECURSIVE)?|VALUES)\b", re.IGNORECASE | re.DOTALL)
_SOURCES = 32   # in one text at most
_numbers = itertools.count(1)   # of the tables that sources become


# ---- Sources -------------------------------------------------------------------------------------------------------------

def literal(value):
    """Returns a value of a box or of where() as SQL has it."""
    value = value if isinstance(value, (int, float, str)) else plain_value(value)
    if isinstance(value, bool):
        return str(int(value))
    if isinstance(value, str):
        return statements.text(value)
    if not isinstance(value, float):
        return str(int(value)) if -2 ** 63 <= value < 2 ** 63 else statements.text(int(value))   # SQLite would round it; a UINT64 takes digits
    return "9e999" if value == float("inf") else "-9e999" if value == float("-inf") else repr(float(value))


def _conditions(array):
    """The box and the comparisons of an Array as terms of WHERE."""
    for name, ends in array._box.items():
        column = statements.name(name)
        if ends == []:
            yield "0"
        elif isinstance(ends, dict):
            yield f"{column} IN ({', '.join(map(literal, ends['in']))})"
        elif not isinstance(ends, list):
            yield f"{column} = {literal(ends)}"
        else:
            yield from (f"{column} {op} {literal(end)}" for op, end in zip((">=", "<="), ends) if end is not None)
    for name, op, value in array._options.get("where", ()):
        if op == "in":
            yield f"{statements.name(name)} IN ({', '.join(map(literal, value))})"
        else:
            yield f"{statements.name(name)} {op.upper()} {'NULL' if value is None else literal(value)}"


def _table_name(name):
    """Returns a table of temp for a source, which no program and no other source has: `frame@7` for `frame`, as explain() and messages show it."""
    return f"{name}@{next(_numbers)}"


@contextlib.contextmanager
def as_table(array, connection, name="array", limits=None):
    """Makes an Array a table of `connection`, as long as the context lasts: yields it as FROM has it, and the condition that its box and where() are.
    limits: memory_mb and threads of the table, in the place of the Array's."""
    times = [array._options.get("as_of", array._state.get("as_of")), array._options.get("since")]
    condition = " AND ".join(_conditions(array)) or "1"
    datetimes = {"integer": "integer", "duration": "duration"}.get(array._options.get("datetimes"))   # a stream's timestamps are a table's texts
    if array.path.startswith("db:") and array._connection is connection and not datetimes:
        given = ", ".join("NULL" if time is None else literal(time) for time in times)
        table = f"{statements.table(array.path[3:])}({given})"
        _check_columns(array, connection, table)
        yield table, condition
        return
    options = [statements.text(array.path)] + [f"{name}={literal(time)}" for name, time in zip(("as_of", "since"), times) if time is not None]
    given = {**array._options, **(limits or {})}
    options += [f"datetimes={datetimes}"] if datetimes else []
    options += [f"{name}={literal(given[name])}" for name in ("enums", "unwritten", "memory_mb", "cache_mb", "threads") if name in given]
    options += [f"key_file={statements.text(array._state['key_file'])}"] if "key_file" in array._state else []
    if "key" in array._state:
        raise Unsupported(f"array {array.path} was opened with a key in memory: open it with key_file=, so that SQL can read it")
    if array.path.startswith("db:") and array._connection is not connection:
        raise Unsupported(f"the Array {name} is {array.path} of another connection: say connection=, the one that it was opened with")
    table = statements.name("temp", _table_name(name))
    with plain_errors(array.path):
        statements.rows(connection, f"CREATE VIRTUAL TABLE {table} USING tessera({', '.join(options)})")
    try:
        _check_columns(array, connection, table)
        yield table, condition
    finally:
        with contextlib.suppress(Exception):   # a statement is reading it; the connection drops it when it is closed
            statements.rows(connection, f"DROP TABLE {table}")


def _check_columns(array, connection, table):
    """Fails if the Array was given a name that its table does not have. A quoted name that is none would be a text to SQLite."""
    names = {*array._box, *array._options.get("columns", ()), *(name for name, *_ in array._options.get("where", ()))}
    if names:
        try:
            with plain_errors(array.path):
                statements.rows(connection, f"SELECT {', '.join(statements.name('t', name) for name in sorted(names))} FROM {table} AS t LIMIT 0")
        except Error as e:
            if "no such column" in str(e):
                array.check_names()
            raise
    array.check_coordinates()
    array.check_comparisons()


def _columns_of(array):
    """The columns that an Array shows, as a list for SELECT."""
    chosen = array._options.get("columns")
    return ", ".join(map(statements.name, chosen)) if chosen else "*"


@contextlib.contextmanager
def _copied(name, value, connection):
    """Makes an array in temp of a DataFrame or whatever else create() takes, as long as the context lasts: yields it as FROM has it, and the names of its
    columns if the array has one more: the number of the row, its dimension."""
    from .making import create, without_index
    table = statements.name("temp", _table_name(name))
    if type(value).__name__ == "DataArray":
        value = value.to_dataset(name=value.name or "value")
    elif type(value).__module__.startswith("pandas"):   # an index may have gaps and say things twice, which dimensions must not
        value = without_index(value if hasattr(value, "columns") else value.to_frame(value.name if value.name is not None else "value"), {})[0].reset_index(drop=True)
    try:
        made = create(f"db:{table}", value, connection=connection)
    except ValueError as e:
        if type(e).__name__ != "NotKept":
            raise
        made = create(f"db:{table}", _rows_of(value), connection=connection)
    try:
        yield table, made.attributes if isinstance(made, Array) and made.dims == ("row",) else None
    finally:
        with contextlib.suppress(Exception):
            statements.rows(connection, f"DROP TABLE {table}")


def _rows_of(dataset):
    """A DataFrame with a row for each cell of a Dataset, whose coordinates are columns in whatever order they come."""
    scalars = [name for name, coordinate in dataset.coords.items() if not coordinate.dims]
    return dataset.drop_vars(scalars).to_dataframe().reset_index()


def _is_source(value):
    module = type(value).__module__.partition(".")[0]
    if module == "xarray" and type(value).__name__ == "Dataset":
        return bool(value.dims) and all(set(variable.dims) == set(value.dims) for variable in value.data_vars.values()) and bool(value.data_vars)
    return isinstance(value, Stream) or hasattr(value, "__arrow_c_stream__") or module in ("pandas", "xarray") and hasattr(value, "shape")


# ---- The result ----------------------------------------------------------------------------------------------------------

def _row_count(method, n):
    n = operator.index(n)
    if n < 0:
        raise ValueError(f"{method}: expected 0 rows or more, not {n}")
    return n


class Result(Stream):
    """The rows of a SELECT, which runs when you ask for them. The column names are known before that; nothing else is read.

        tessera.sql("SELECT month, avg(temp) FROM 'cube' GROUP BY 1").df()
    """

    def __init__(self, connection, own, text, params, columnar, limits=None):
        self._connection, self._own, self._text, self._params, self._columnar, self._arrow = connection, own, text, params, columnar, None
        self._times = {}   # the columns that are durations, and numpy's names of their units
        self._limits = limits or {}   # memory_mb and threads of the parts that run over columns
        self._values = _in_order(text, params)   # as tessera_sql wants them, which writes them into the text
        self.columns = []
        for name in self._described(self.sql):   # inside a subquery SQLite calls a second column `v` `v:1`
            first = re.sub(r":\d+$", "", name)
            self.columns.append(first if first in self.columns else name)

    def _working(self):
        return working(self._connection, self._own, steps=1000)

    def __reduce__(self):
        raise TypeError("a Result cannot be pickled or copied: it runs on its connection. What .df() or .arrow() returns can be")

    def _described(self, text):
        """The names of the columns of a SELECT, without a row of it."""
        cursor, found = self._connection.cursor(), []
        try:
            with self._working():
                if not hasattr(cursor, "setexectrace"):
                    return [column[0] for column in cursor.execute(f"SELECT * FROM ({text}\n) LIMIT 0", self._bound()).description]
                import apsw   # it describes a statement before its first step, and not after the last one

                def describe(cursor, *_):
                    found.extend(column[0] for column in cursor.getdescription())
                    return False
                cursor.setexectrace(describe)
                with contextlib.suppress(apsw.ExecTraceAbort):
                    cursor.execute(f"SELECT * FROM ({text}\n)", self._bound())
                return found
        finally:
            cursor.close()

    def _bound(self):
        """What is still to be bound when the statement runs."""
        return self._values if self._columnar == "never" else ()

    def _ask(self, statement):
        """Returns the rows of a statement about the text and its values, which stand for the marks."""
        marks = ", ".join("?" * (1 + len(self._values)))
        with self._working():
            return statements.rows(self._connection, statement.replace("?)", f"{marks})"), (self._text, *self._values))

    @property
    def sql(self) -> str:
        """The statement that runs: the text, with tables in place of the parts that read arrays."""
        if self._columnar == "never":
            return self._text
        within = f"tessera_sql_within({statements.text(json.dumps(self._limits))}, " if self._limits else "tessera_sql("
        return self._ask(f"SELECT {within}?)")[0][0]

    def _chunks(self, sizes):
        """Runs the statement, and yields lists of so many rows, until there are no more."""
        text, cursor = self.sql, self._connection.cursor()
        if hasattr(cursor, "row_factory"):
            cursor.row_factory = None
        elif hasattr(cursor, "setrowtrace"):
            cursor.setrowtrace(None)
        try:
            with self._working():
                cursor.execute(text, self._bound())
            for size in sizes:
                with self._working():
                    found = list(itertools.islice(cursor, size))
                yield found
                if len(found) < size:
                    return
        finally:
            cursor.close()

    def __iter__(self) -> Iterator[tuple]:
        """Runs the statement, and gives its rows one after the other."""
        return itertools.chain.from_iterable(self._chunks(min(2 ** n, 1024) for n in itertools.count()))

    def fetchall(self) -> list[tuple]:
        """Runs the statement, and returns all rows as tuples."""
        return list(self)

    def fetchone(self) -> tuple | None:
        """Runs the statement, and returns the first row; None if there is none."""
        return next(iter(self.fetchmany(1)), None)

    def fetchmany(self, n: int) -> list[tuple]:
        """Runs the statement, and returns the first n rows."""
        n = _row_count("fetchmany", n)
        with contextlib.closing(self._chunks([n])) as chunks:
            return next(chunks)

    def _stream(self):
        """Returns a stream of the rows. The statement runs here, so that its errors are those of this module, and Ctrl-C ends it."""
        if self._arrow is None:
            try:
                made = Rows(self._connection, self.sql, {}, tuple(map(_value, self._bound())))
                with self._working():
                    run_stream(made._first)
            except Error as e:
                e.args = (str(e).replace(": give the type in types", ": CAST them to one type, or take fetchall()"),)
                raise
            self._arrow = made
        return self._arrow._stream()

    def _with_times(self, times):
        """Says which columns have numbers that are durations, by numpy's names of their units. Rows in a loop have the numbers."""
        self._times = {name: unit for name, unit in times.items() if unit not in ("ps", "fs", "as")}   # Arrow has no such units
        return self

    def arrow(self) -> Any:
        table = super().arrow()
        pyarrow = library("pyarrow")
        for name, unit in self._times.items():
            if pyarrow.types.is_duration(table.column(name).type):   # min and max show what the column has
                continue
            step, unit = {"h": (3600, "s"), "m": (60, "s")}.get(unit, (1, unit))
            values = [None if value is None else round(value) * step for value in table.column(name).to_pylist()]
            table = table.set_column(table.column_names.index(name), name, pyarrow.array(values, pyarrow.duration(unit)))
        return table

    def pl(self) -> Any:
        return library("polars").from_arrow(self.arrow()) if self._times else super().pl()

    def df(self) -> Any:
        """A pandas DataFrame. Without pyarrow it is made from rows, which takes longer."""
        try:
            return to_pandas(self.arrow() if self._times else self)
        except ModuleNotFoundError as e:
            if e.name != "pyarrow":
                raise
            import numpy
            import pandas
            frame = pandas.DataFrame.from_records(self.fetchall(), columns=self.columns)
            for name, unit in self._times.items():
                frame[name] = numpy.array([None if value is None else round(value) for value in frame[name].tolist()], f"m8[{unit}]")
            return frame

    def numpy(self, column: str | None = None) -> Any:
        """The values of a column as an ndarray. Without a name, those of the only column, or a dict of all."""
        if column is not None and column not in self.columns:
            raise KeyError(f"the result has no column {column!r}; it has {', '.join(self.columns)}")
        frame = self.df()
        if column is not None or len(self.columns) == 1:
            return frame[self.columns[0] if column is None else column].to_numpy()
        return {name: frame[name].to_numpy() for name in frame.columns}

    def explain(self) -> None:
        """Prints how each SELECT of the text is evaluated, over columns or by rows and why, and SQLite's plan of the rest."""
        for part, text, evaluated, detail in self._ask("SELECT part, text, evaluated, detail FROM tessera_explain(?)"):
            print(f"{part}. {evaluated}: {detail}\n   {' '.join(text.split())}")
        text = self.sql
        with self._working():
            for *_, detail in statements.rows(self._connection, f"EXPLAIN QUERY PLAN {text}", self._bound()):
                print(f"   {detail}")

    def show(self, limit: int = 20) -> None:
        """Prints the first rows."""
        print(self._table(_row_count("show", limit)))

    def _table(self, limit):
        found = self.fetchmany(limit + 1)
        cells = [list(map(_shown, row)) for row in ([*self.columns], *found[:limit])]
        widths = [max(len(row[i]) for row in cells) for i in range(len(self.columns))]
        right = [all(isinstance(row[i], (int, float, type(None))) for row in found) for i in range(len(self.columns))]
        lines = ["  ".join(cell.rjust(width) if number else cell.ljust(width) for cell, width, number in zip(row, widths, right)).rstrip() for row in cells]
        lines.insert(1, "  ".join("-" * width for width in widths))
        return "\n".join(lines + (["..."] if len(found) > limit else []))

    def __repr__(self):
        return self._table(10)

    def _repr_html_(self):
        found = self.fetchmany(11)
        head = "".join(f"<th>{html.escape(name)}</th>" for name in self.columns)
        body = "".join("<tr>" + "".join(f"<td>{html.escape(_shown(v))}</td>" for v in row) + "</tr>" for row in found[:10])
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>" + ("<p>...</p>" if len(found) > 10 else "")


def _shown(value, width=80):
    """A value as show() prints it: on one line, and not longer than a terminal is wide."""
    if value is None:
        return "NULL"
    if isinstance(value, bytes):
        return f"<{len(value)} bytes>"
    text = f"{value:.10g}" if isinstance(value, float) else " ".join(str(value)[:10 * width].split("\n"))
    return text if len(text) <= width else text[:width - 3] + "..."


def library(name):
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as e:
        raise ModuleNotFoundError(f"this needs {name}: pip install {name}", name=name) from e


def to_pandas(stream, gaps=False, dtypes=None):
    """A DataFrame of whatever has Arrow streams. Booleans with gaps are of pandas' nullable type, and integers where a float would round them; with gaps,
    all integers that have some. dtypes: those that columns had in a DataFrame, as they are noted."""
    pandas = library("pandas")
    pyarrow = library("pyarrow")   # for pandas, too
    from .dtypes import nullable_types, restore
    schema, reader = None, pyarrow.RecordBatchReader.from_stream(stream)
    times = {field.name: pyarrow.duration(field.type.unit) for field in reader.schema if pyarrow.types.is_time(field.type)}   # which may be longer than a day
    if times:
        schema = pyarrow.schema([field.with_type(times.get(field.name, field.type)) for field in reader.schema])
        reader = pyarrow.RecordBatchReader.from_stream(stream, schema=schema)
    table = reader.read_all()
    shown = table
    for place, field in enumerate(table.schema):
        if field.type == pyarrow.date32():   # instants in pandas: as dates they would have no .dt, and end with the year 9999
            shown = shown.set_column(place, field.with_type(pyarrow.timestamp("ms")), shown.column(place).cast(pyarrow.timestamp("ms")))
    frame = pandas.DataFrame.from_arrow(shown) if hasattr(pandas.DataFrame, "from_arrow") else shown.to_pandas()
    types = nullable_types()
    for place, (name, column) in enumerate(zip(table.column_names, table.columns)):
        whole = pyarrow.types.is_integer(column.type) and column.null_count
        wide = whole and column.type in (pyarrow.int64(), pyarrow.uint64()) and not frame.iloc[:, place].abs().max() < 2 ** 53
        if wide or whole and gaps or column.type == pyarrow.bool_() and column.null_count:   # else they were floats or objects
            frame.isetitem(place, column.to_pandas(types_mapper=types.get))
        if name in (dtypes or {}):
            frame.isetitem(place, restore(column, frame.iloc[:, place], dtypes[name]))
    return frame


# ---- sql() ---------------------------------------------------------------------------------------------------------------

_OTHERS = frozenset("ALTER ANALYZE ATTACH BEGIN COMMIT CREATE DELETE DETACH DROP END EXPLAIN INSERT PRAGMA REINDEX RELEASE REPLACE ROLLBACK SAVEPOINT UPDATE VACUUM".split())


def _checked(query):
    """Returns the text of a SELECT without the semicolon at its end."""
    if not isinstance(query, str):
        raise TypeError(f"a SELECT is text, not {type(query).__name__}")
    words = _words(query)
    shown = repr(" ".join(query.split())[:60])
    if words and words[0][2] in _OTHERS:
        raise Denied(f"tessera.sql reads: run this with connection.execute: {shown}")
    if not _READS.match(query):
        raise ValueError(f"expected a SELECT, WITH or VALUES, not {shown}")
    last = next((place for place in range(len(words), 0, -1) if words[place - 1][2] != ";"), 0)
    return query[:words[last][0]] if last < len(words) else query


_TOKEN = re.compile(r"'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"|`(?:[^`]|``)*`|\[[^\]]*\]|--[^\n]*|/\*.*?\*/|(?P<name>[:@$]\w+)|(?P<mark>\?\d*)", re.DOTALL)


def _in_order(text, params):
    """Returns the values of parameters as a sequence, by the number that SQLite gives each name: that of its first place in the text."""
    if isinstance(params, (str, bytes)) or not hasattr(params, "__iter__"):
        raise TypeError(f"params is a list of values, or a dict for names, not a {type(params).__name__}: say params=[{params!r}]")
    tokens = [found for found in _TOKEN.finditer(text) if found.lastgroup]
    if not isinstance(params, dict):
        values = tuple(map(_value, params))
        if tokens and not values:
            raise ValueError(f"the text has parameters, {tokens[0][0]} is one, and params has no values")
        return values
    if any(found.lastgroup == "mark" for found in tokens):
        raise ValueError("params is a dict, and the text has ?: give a list, or names such as :least in the text")
    names = dict.fromkeys(found[0] for found in tokens)
    missing = [name for name in names if name[1:] not in params and name not in params]
    if missing:
        raise KeyError(f"there is no value for {', '.join(missing)}")
    return tuple(_value(params[name[1:] if name[1:] in params else name]) for name in names)


_TEXTS = (uuid.UUID, os.PathLike)   # whose str() is what they are


def _value(value):
    """Returns a parameter as SQLite takes it: dates and times of day as text, scalars of numpy as numbers, and NULL for what pandas has instead of None."""
    if isinstance(value, (bytearray, memoryview)):
        return bytes(value)
    if isinstance(value, int) and not -2 ** 63 <= value < 2 ** 63:
        raise OverflowError(f"a parameter is {value}, which SQLite has no integer for: compare a UINT64 with its digits, '{value}'")
    if isinstance(value, (int, float, str, bytes, type(None))):
        return value
    if is_missing(value):
        return None
    if is_duration(value):   # a text would be greater than all of a column of durations, in silence
        raise TypeError(f"a parameter is the duration {value}, and SQL has numbers of a column's unit for durations: give duration // pandas.Timedelta('1us') for "
                        "one of microseconds, or datetime.time for a time of day")
    if isinstance(value, _TEXTS):
        return str(value)
    if isinstance(value, numbers.Number) and not isinstance(value, numbers.Complex) or isinstance(value, numbers.Rational) and not hasattr(value, "item"):
        return float(value)   # a Decimal or Fraction
    if getattr(value, "ndim", 0) or isinstance(value, complex) or getattr(getattr(value, "dtype", None), "kind", "") == "c" or not any(hasattr(value, name) for name in ("isoformat", "item", "total_seconds")):
        raise TypeError(f"a parameter is one value, a number, text, bytes, date or None, not a {type(value).__name__}")
    return plain_value(value)


_WORD = re.compile(r"(?P<blank>\s+|--[^\n]*|/\*.*?(?:\*/|$))|(?P<name>\"(?:[^\"]|\"\")*\"|`(?:[^`]|``)*`|\[[^\]]*\])|(?P<bare>[^\W\d][\w$]*)|(?P<other>'(?:[^']|'')*'|\d[\w.]*|.)",
                   re.DOTALL)
_AFTER_TABLE = frozenset("CROSS EXCEPT FULL GROUP HAVING INDEXED INNER INTERSECT JOIN LEFT LIMIT NATURAL NOT ON ORDER OUTER RIGHT UNION USING WHERE WINDOW".split())
_ENDS_FROM = frozenset("EXCEPT GROUP HAVING INTERSECT LIMIT ORDER SELECT UNION VALUES WHERE WINDOW".split())


def _words(text):
    """Returns the words of a statement without blanks and comments: (where it begins, where it ends, the word in capitals, the name that it would be)."""
    found = []
    for word in _WORD.finditer(text):
        kind, said = word.lastgroup, word[0]
        if kind != "blank":
            name = said if kind == "bare" else said[1:-1].replace(said[-1] * 2, said[-1]) if kind == "name" else None
            found.append((word.start(), word.end(), said.upper() if kind != "name" else "", name))
    return found


def _named_tables(text):
    """Yields (where it begins, where it ends, the name, whether it has an alias, whether it stands after IN) of each table that no schema qualifies."""
    words, levels, before = _words(text), [[False, False]], ""   # of each bracket: in FROM, and a table is next
    for place, (start, end, word, name) in enumerate(words):
        level, (_, _, following, alias) = levels[-1], words[place + 1] if place + 1 < len(words) else (0, 0, "", None)
        if word == "(":
            levels.append([level[1], level[1]])   # a join in brackets, or a subquery, whose SELECT ends FROM
            level[1] = False
        elif word == ")":
            if len(levels) > 1:
                levels.pop()
        elif word in ("FROM", "JOIN") and before != "DISTINCT":
            level[:] = True, True
        elif word == "," and level[0]:
            level[1] = True
        elif word in _ENDS_FROM:
            level[:] = False, False
        elif level[1] or before == "IN":
            if name is not None and following not in (".", "("):
                yield start, end, name, following == "AS" or alias is not None and following not in _AFTER_TABLE, not level[1]
            level[1] = False
        before = word


def _has_cte(text, name):
    """Whether the text itself says what the name is: `name AS (...`, also with columns."""
    said = f"(?:{re.escape(name)}|{re.escape(statements.name(name))})"
    return re.search(rf"(?:\bWITH|\bRECURSIVE|,)\s*{said}\s*(?:\([^()]*\)\s*)?AS\s*(?:NOT\s+)?(?:MATERIALIZED\s*)?\(", text, re.IGNORECASE)


_STAR = re.compile(r"(?:\bSELECT|\bDISTINCT|\bALL|,|\.)\s*\*|\bNATURAL\b", re.IGNORECASE)   # takes the columns as they are, without their names


def _in_place(text, name, source, stars):
    """Puts a source where FROM has its name, and keeps the name as its alias."""
    made, done = [], 0
    for start, end, found, has_alias, is_set in _named_tables(text):
        if found.lower() == name.lower():
            said = stars if stars and (is_set or _STAR.search(text)) else source
            made += [text[done:start], f"({said})" if said.startswith("SELECT") else said, "" if has_alias or is_set else f" AS {statements.name(name)}"]
            done = end
    return "".join(made) + text[done:]


def _with_sources(query, sources):
    """Puts sources into a text: in place of their names, or, where the text has a CTE of that name or names it elsewhere, as CTEs in front of it."""
    ctes, text = [], query
    for name, (source, stars, in_front) in sources.items():
        if in_front or _has_cte(query, name):
            ctes.append(f"{statements.name(name)} AS ({next(said if said.startswith('SELECT') else f'SELECT * FROM {said}' for said in (stars, source) if said)})")
        else:
            text = _in_place(text, name, source, stars)
    if not ctes:
        return text
    found = _READS.match(text)
    if not found[1].upper().startswith("WITH"):
        return f"WITH {', '.join(ctes)} {text}"
    return f"{text[:found.start(1)]}{found[1]} {', '.join(ctes)}, {text[found.end(1):]}"


def sql(query: str, params: Any = (), *, connection: Any = None, columnar: str = "auto", memory_mb: int | None = None, threads: int | None = None, **tables: Any) -> Result:
    """Returns the rows of a SELECT, WITH or VALUES as a Result. Parts that read arrays and aggregate run over columns, the rest in SQLite, with the
    same rows.

        tessera.sql("SELECT station, max(temp) FROM 'data/cube' JOIN towns USING (station) GROUP BY 1", towns=frame).df()

    A name in FROM is a table of the connection; or the entry of `tables`, or the caller's variable, of that name: an Array, a pandas or
    polars DataFrame, a DataArray, a Dataset whose variables have the same dimensions, a Result, anything that exports Arrow streams; or the path of an array, in
    quotes. Everything except Arrays is copied when you call sql(). params: a sequence, or a dict for names. connection: of sqlite3, apsw or
    pysqlite3; by default this thread's own. columnar: "auto"; "never": leave everything to SQLite; "require": an error with the reason if no part
    runs over columns. memory_mb, threads: limits for each part that runs over columns, and each read of an Array or a path; by default those of the
    Array or table, or 1024 MiB and all cores. A part that needs more memory runs by rows, which tessera_stats counts.
    """
    if columnar not in ("auto", "never", "require"):
        raise ValueError(f"columnar {columnar!r}: expected auto, never or require")
    query = _checked(query)
    limits = {name: operator.index(value) for name, value in (("memory_mb", memory_mb), ("threads", threads)) if value is not None}
    frame = sys._getframe(1)
    own = connection is None
    connection = own_connection() if own else connection
    functions_of(connection)
    life, sources = contextlib.ExitStack(), {}
    try:
        named = {name.lower() for _, _, name, _, _ in _named_tables(query)}
        for name, value in tables.items():
            if name.lower() in named:
                _add(sources, life, name, value, connection, limits)
            elif not isinstance(value, Array) and not _is_source(value):
                raise TypeError(f"sql() got an unexpected keyword argument {name!r}: keywords are params, connection, columnar, memory_mb, threads, and tables that the text names")
        while True:
            text = _with_sources(query, sources)
            try:
                result = Result(connection, own, text, params, columnar, limits)
                break
            except Exception as e:   # before Python 3.11 an error of sqlite3 has no code, and is no Error
                found = _MISSING.search(str(e))
                name = found and (found[1] or found[2])
                if not name or len(sources) >= _SOURCES or name in sources and sources[name][2]:
                    raise
                if name in sources:
                    sources[name] = *sources[name][:2], True
                    continue
                value = frame.f_locals.get(name, frame.f_globals.get(name))
                if value is None:
                    _say_where(e, name, frame, columnar)
                    raise
                _add(sources, life, name, value, connection, limits)
        if columnar == "require":
            _require_columns(result)
    except BaseException:
        life.close()
        raise
    weakref.finalize(result, life.close)
    users.add(result)
    return result


def _say_where(error, name, frame, columnar):
    """Adds to an error what else has that name: a path, or a variable of a function further out. Python hands an inner function only what its own code uses."""
    if os.path.isdir(name) and "/" in name and columnar == "never":
        error.args = (f"{error.args[0]}: columnar='never' leaves the text to SQLite, which knows no paths: leave it out, or make a table: CREATE VIRTUAL TABLE t USING "
                      f"tessera({statements.text(name)})", *error.args[1:])
        return
    if os.path.isdir(name) and "/" in name:
        error.args = (f"{error.args[0]}: the directory is no array; `tessera ls {name}` lists those in it", *error.args[1:])
        return
    if os.path.isdir(name) and "in quotes" not in str(error):
        error.args = (f"{error.args[0]}; a path in FROM is in quotes, and has a slash: {statements.text('./' + name)}", *error.args[1:])
        return
    while frame.f_back is not None:
        frame = frame.f_back
        if isinstance(frame.f_locals.get(name), Array) or _is_source(frame.f_locals.get(name)):
            error.args = (f"{error.args[0]}; {frame.f_code.co_name} has such a variable, but the function that calls sql() does not use it: say {name}={name}", *error.args[1:])
            return


def _add(sources, life, name, value, connection, limits):
    """Makes a source of a value: what FROM has; what it has where `*` or IN takes all columns; and whether it stands in front of the text as a CTE."""
    stars = None
    if isinstance(value, Array):
        table, condition = life.enter_context(as_table(value, connection, name, limits))
        whole = condition == "1" and "columns" not in value._options
        made = table if whole else f"SELECT {_columns_of(value)} FROM {table}" + (f" WHERE {condition}" if condition != "1" else "")
    elif isinstance(value, os.PathLike):
        made = statements.text("./" + os.fspath(value) if os.sep not in os.fspath(value) else os.fspath(value))
    elif _is_source(value):
        made, columns = life.enter_context(_copied(name, value, connection))
        stars = columns and f"SELECT {', '.join(map(statements.name, columns))} FROM {made}"
    else:
        hint = {"Dataset": f"it would be one if all of its variables had the same dimensions: name one of them, {name}=dataset[...]", "LazyFrame": f"say {name}={name}.collect()"}.get(type(value).__name__, "make a DataFrame of it")
        longer = statements.rows(connection, "SELECT name FROM pragma_table_list WHERE type <> 'shadow' AND lower(substr(name, 1, length(?1) + 1)) = lower(?1) || '_' ORDER BY name", (name,))
        if longer:   # of an experiment with layers, whose matrix someone looks for in X
            hint = f"the connection has tables {', '.join(found for found, in longer[:8])}"
        raise TypeError(f"{name} is a {type(value).__name__}, not a table: {hint}")
    sources[name] = made, stars, False


def _require_columns(result):
    parts = result._ask("SELECT text, evaluated, detail FROM tessera_explain(?)")
    if not any(evaluated == "columns" for _, evaluated, _ in parts):
        raise Unsupported("no part of this runs over columns: " + "; ".join(f"{' '.join(text.split())[:60]!r}: {detail}" for text, _, detail in parts))
