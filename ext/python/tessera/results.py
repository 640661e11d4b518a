"""tessera.sql(): a SELECT whose parts over arrays run over columns, and its rows in the forms that programs want.

tessera_sql (C) rewrites the text. This module finds what a name in FROM means if the database does not know it: what the call was given by keyword, or a
variable of the caller. Such a source goes in front of the text as a CTE; an Array becomes a table of temp, everything else an array in temp.
"""
from __future__ import annotations

import contextlib
import html
import numbers
import os
import re
import sys
import uuid
import weakref
from typing import Any, Iterator

from . import statements
from .arrays import Array, Stream, _connect, _functions, _plain, is_missing, rows
from .errors import Denied, Error, Unsupported, plain_errors

__all__ = ["Result", "as_table", "sql"]

_MISSING = re.compile(r"no such table: (.+)|no table and no array is called '(.+)'", re.DOTALL)
_READS = re.compile(r"(?:\s|--[^\n]*\n|/\*.*?\*/)*(SELECT|WITH(?:\s+RECURSIVE)?|VALUES)\b", re.IGNORECASE | re.DOTALL)
_SOURCES = 32   # in one text at most


# ---- Sources -------------------------------------------------------------------------------------------------------------

def literal(value):
    """Returns a value of a box or of where() as SQL has it."""
    value = value if isinstance(value, (int, float, str)) else _plain(value)
    if isinstance(value, bool):
        return str(int(value))
    if isinstance(value, str):
        return statements.text(value)
    return "9e999" if value == float("inf") else "-9e999" if value == float("-inf") else repr(value)


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


@contextlib.contextmanager
def as_table(array, connection):
    """Gives an Array a name in FROM of `connection`, as long as the context lasts: yields it, and the condition that its box and where() are."""
    times = [array._options.get("as_of", array._state.get("as_of")), array._options.get("since")]
    condition = " AND ".join(_conditions(array)) or "1"
    if array.path.startswith("db:") and array._connection is connection:
        given = ", ".join("NULL" if time is None else literal(time) for time in times)
        yield f"{statements.table(array.path[3:])}({given})", condition
        return
    options = [statements.text(array.path)] + [f"{name}={literal(time)}" for name, time in zip(("as_of", "since"), times) if time is not None]
    options += [f"{name}={literal(array._options[name])}" for name in ("enums", "datetimes", "unwritten", "memory_mb", "cache_mb", "threads") if name in array._options]
    options += [f"key_file={statements.text(array._state['key_file'])}"] if "key_file" in array._state else []
    if "key" in array._state:
        raise Unsupported(f"array {array.path} was opened with a key in memory: open it with key_file=, so that SQL can read it")
    if array.path.startswith("db:"):
        raise Unsupported(f"array {array.path} lies in another database than the connection's")
    name = f"temp.{statements.name('tessera_' + uuid.uuid4().hex)}"
    with plain_errors(array.path):
        statements.rows(connection, f"CREATE VIRTUAL TABLE {name} USING tessera({', '.join(options)})")
    try:
        yield name, condition
    finally:
        with contextlib.suppress(Exception):   # a statement is reading it; the connection drops it when it is closed
            statements.rows(connection, f"DROP TABLE {name}")


def _columns_of(array):
    """The columns that an Array shows, as a list for SELECT."""
    chosen = array._options.get("columns")
    return ", ".join(map(statements.name, chosen)) if chosen else "*"


@contextlib.contextmanager
def _copied(name, value, connection):
    """Makes an array in temp of a DataFrame or whatever else create() takes, as long as the context lasts."""
    from .making import create
    table = "tessera_" + uuid.uuid4().hex
    kind = type(value)
    given = value.to_dataset(name=value.name or "value") if kind.__module__.startswith("xarray") and hasattr(value, "to_dataset") else value
    create(f"db:temp.{table}", given, connection=connection)
    try:
        yield f"temp.{statements.name(table)}"
    finally:
        with contextlib.suppress(Exception):
            statements.rows(connection, f"DROP TABLE temp.{statements.name(table)}")


def _is_source(value):
    module = type(value).__module__.partition(".")[0]
    return isinstance(value, Stream) or hasattr(value, "__arrow_c_stream__") or module in ("pandas", "xarray", "polars") and hasattr(value, "shape")


# ---- The result ----------------------------------------------------------------------------------------------------------

class Result(Stream):
    """The rows of a SELECT, which runs when they are asked for. Names of columns are known from the beginning; nothing else has been read.

        tessera.sql("SELECT month, avg(temp) FROM 'cube' GROUP BY 1").df()
    """

    def __init__(self, connection, text, params, columnar):
        self._connection, self._text, self._params, self._columnar, self._arrow = connection, text, params, columnar, None
        self._values = _in_order(text, params)   # as tessera_sql wants them, which writes them into the text
        self.columns = [re.sub(r":\d+$", "", name) for name in self._described(self.sql)]

    def _described(self, text):
        """The names of the columns of a SELECT, without a row of it."""
        cursor, found = self._connection.cursor(), []
        try:
            with plain_errors(None):
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
        return self._params if self._columnar == "never" else ()

    def _ask(self, statement):
        """Returns the rows of a statement about the text and its values, which stand for the marks."""
        marks = ", ".join("?" * (1 + len(self._values)))
        with plain_errors(None):
            return statements.rows(self._connection, statement.replace("(?)", f"({marks})"), (self._text, *self._values))

    @property
    def sql(self) -> str:
        """The statement that runs: the text, in which parts over arrays are tables of their own."""
        return self._text if self._columnar == "never" else self._ask("SELECT tessera_sql(?)")[0][0]

    def _run(self):
        """Returns a cursor that runs the statement."""
        cursor = self._connection.cursor()
        if hasattr(cursor, "row_factory"):
            cursor.row_factory = None
        with plain_errors(None):
            cursor.execute(self.sql, self._bound())
        return cursor

    def __iter__(self) -> Iterator[tuple]:
        """Runs the statement, and gives its rows one after the other."""
        cursor = self._run()
        while True:
            with plain_errors(None):
                row = next(cursor, None)
            if row is None:
                return
            yield tuple(row)

    def fetchall(self) -> list[tuple]:
        """Runs the statement, and returns all rows as tuples."""
        return list(self)

    def fetchone(self) -> tuple | None:
        """Runs the statement, and returns the first row; None if there is none."""
        return next(iter(self), None)

    def fetchmany(self, n: int) -> list[tuple]:
        """Runs the statement, and returns the first n rows."""
        return [row for _, row in zip(range(n), self)]

    def _stream(self):
        if self._arrow is None:
            if self._bound():
                raise Unsupported("columnar='never' has no Arrow stream of a text with parameters: leave columnar out, or write the values into the text")
            self._arrow = rows(self._connection, self.sql)
        return self._arrow._stream()

    def arrow(self) -> Any:
        """A pyarrow.Table."""
        import pyarrow
        return pyarrow.table(self)

    def df(self) -> Any:
        """A DataFrame of pandas."""
        return to_pandas(self)

    def pl(self) -> Any:
        """A DataFrame of polars."""
        import polars
        return polars.DataFrame(self)

    def numpy(self, column: str | None = None) -> Any:
        """The values of a column as an ndarray; without a name those of the only one, or a dict of all."""
        frame = self.df()
        if column is not None or len(self.columns) == 1:
            return frame[column or self.columns[0]].to_numpy()
        return {name: frame[name].to_numpy() for name in frame.columns}

    def explain(self) -> None:
        """Prints how each SELECT of the text is evaluated, over columns or by rows and why, and SQLite's plan of the rest."""
        for part, text, evaluated, detail in self._ask("SELECT part, text, evaluated, detail FROM tessera_explain(?)"):
            print(f"{part}. {evaluated}: {detail}\n   {' '.join(text.split())}")
        with plain_errors(None):
            for *_, detail in statements.rows(self._connection, f"EXPLAIN QUERY PLAN {self.sql}", self._bound()):
                print(f"   {detail}")

    def show(self, limit: int = 20) -> None:
        """Prints the first rows."""
        print(self._table(limit))

    def _table(self, limit):
        found = self.fetchmany(limit + 1)
        cells = [self.columns] + [["NULL" if v is None else f"{v:.6g}" if isinstance(v, float) else f"<{len(v)} bytes>" if isinstance(v, bytes) else str(v) for v in row] for row in found[:limit]]
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
        body = "".join("<tr>" + "".join(f"<td>{'NULL' if v is None else html.escape(str(v))}</td>" for v in row) + "</tr>" for row in found[:10])
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>" + ("<p>...</p>" if len(found) > 10 else "")


def to_pandas(stream):
    """A DataFrame of whatever has Arrow streams."""
    import pandas
    if hasattr(pandas.DataFrame, "from_arrow"):
        with contextlib.suppress(ImportError):   # it needs pyarrow for some types
            return pandas.DataFrame.from_arrow(stream)
    try:
        import pyarrow
    except ImportError as e:
        raise ModuleNotFoundError("a DataFrame of pandas needs pyarrow: pip install pyarrow", name="pyarrow") from e
    return pyarrow.table(stream).to_pandas()


# ---- sql() ---------------------------------------------------------------------------------------------------------------

def _check_text(query):
    if not isinstance(query, str):
        raise TypeError(f"a SELECT is text, not {type(query).__name__}")
    found = _READS.match(query)
    if not found:
        raise Denied(f"tessera.sql reads: run this with connection.execute: {' '.join(query.split())[:60]!r}")
    return found


_TOKEN = re.compile(r"'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"|`(?:[^`]|``)*`|\[[^\]]*\]|--[^\n]*|/\*.*?\*/|([:@$]\w+)", re.DOTALL)


def _in_order(text, params):
    """Returns the values of parameters as a sequence, by the number that SQLite gives each name: that of its first place in the text."""
    if not isinstance(params, dict):
        return params
    names = dict.fromkeys(found[1] for found in _TOKEN.finditer(text) if found[1])
    missing = [name for name in names if name[1:] not in params and name not in params]
    if missing:
        raise KeyError(f"there is no value for {', '.join(missing)}")
    return tuple(_value(params[name[1:] if name[1:] in params else name]) for name in names)


_TEXTS = (numbers.Number, uuid.UUID, os.PathLike)   # whose str() is what they are


def _value(value):
    """Returns the value of a parameter as SQLite has it."""
    if isinstance(value, (bytearray, memoryview)):
        return bytes(value)
    if isinstance(value, (int, float, str, bytes, type(None))):
        return value
    dated = hasattr(value, "isoformat") or type(value).__name__ in ("datetime64", "timedelta", "Timedelta", "timedelta64")
    if not dated and not hasattr(value, "item") and not isinstance(value, _TEXTS) and not is_missing(value):
        raise TypeError(f"a {type(value).__name__} is no value of a parameter: expected a number, text, bytes, a date or a time")
    return _plain(value)


def _with_sources(query, sources):
    """Puts CTEs in front of a text."""
    ctes = ", ".join(f"{statements.name(name)} AS ({select})" for name, select in sources.items())
    if not ctes:
        return query
    found = _READS.match(query)
    if not found[1].upper().startswith("WITH"):
        return f"WITH {ctes} {query}"
    return f"{query[:found.start(1)]}{found[1]} {ctes}, {query[found.end(1):]}"


def sql(query: str, params: Any = (), *, connection: Any = None, columnar: str = "auto", **tables: Any) -> Result:
    """Returns the rows of a SELECT, WITH or VALUES as a Result. What reads arrays and aggregates runs over columns, the rest in SQLite; the rows are SQLite's.

        tessera.sql("SELECT station, max(temp) FROM 'data/cube' JOIN towns USING (station) GROUP BY 1", towns=frame).df()

    A name in FROM is a table of the connection; what `tables` or a variable of the caller has under that name: an Array, a DataFrame of pandas or polars, a
    Dataset, a Result, anything with Arrow streams; or a path of an array, in quotes. What is no Array is copied when sql() is called.
    params: a sequence, or a dict for names. connection: of sqlite3, apsw or pysqlite3; without one, this thread's own.
    columnar: "auto"; "never": SQLite's rows alone; "require": an error with the reason if no part runs over columns.
    """
    if columnar not in ("auto", "never", "require"):
        raise ValueError(f"columnar {columnar!r} is none of auto, never, require")
    _check_text(query)
    frame = sys._getframe(1)
    connection = connection if connection is not None else _connect()
    _functions(connection)
    if not isinstance(params, dict):
        params = tuple(map(_value, params))
    life, sources = contextlib.ExitStack(), {}
    try:
        for name, value in tables.items():
            if re.search(rf"\b{re.escape(name)}\b", query):
                _add(sources, life, name, value, connection)
        while True:
            text = _with_sources(query, sources)
            try:
                result = Result(connection, text, params, columnar)
                break
            except Error as e:
                found = _MISSING.search(str(e))
                name = found and (found[1] or found[2])
                if not name or name in sources or len(sources) >= _SOURCES:
                    raise
                value = tables.get(name, frame.f_locals.get(name, frame.f_globals.get(name)))
                if value is None:
                    raise
                _add(sources, life, name, value, connection)
        if columnar == "require":
            _require_columns(result)
    except BaseException:
        life.close()
        raise
    weakref.finalize(result, life.close)
    return result


def _add(sources, life, name, value, connection):
    if isinstance(value, Array):
        table, condition = life.enter_context(as_table(value, connection))
        sources[name] = f"SELECT {_columns_of(value)} FROM {table}" + (f" WHERE {condition}" if condition != "1" else "")
    elif isinstance(value, os.PathLike):
        sources[name] = f"SELECT * FROM {statements.text(os.fspath(value))}"
    elif _is_source(value):
        sources[name] = f"SELECT * FROM {life.enter_context(_copied(name, value, connection))}"
    else:
        raise TypeError(f"{name} is a {type(value).__name__}, which is no table")


def _require_columns(result):
    parts = result._ask("SELECT text, evaluated, detail FROM tessera_explain(?)")
    if not any(evaluated == "columns" for _, evaluated, _ in parts):
        raise Unsupported("no part of this runs over columns: " + "; ".join(f"{' '.join(text.split())[:60]!r}: {detail}" for text, _, detail in parts))
