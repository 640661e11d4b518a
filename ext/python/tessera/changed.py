"""What changed in a table between two times, as an Arrow stream."""
from __future__ import annotations

from typing import Any

from . import statements as sql
from .arrays import DURATION
from .errors import plain_errors
from .loading import load
from .streams import Rows, Stream
from .values import millisecond_of

__all__ = ["changes"]


def _types_of_changes(connection, words, name):
    """The datatypes of columns of tessera_changes that show datetimes, times and large UINT64, of which rows have texts and integers."""
    path, shown = f"db:{sql.name(*words)}", dict(sql.rows(connection, "SELECT name, type FROM pragma_table_xinfo(?)", (sql.parts(name)[0],)))
    try:
        marked = {key[len(DURATION):] for key, in sql.rows(connection, "SELECT key FROM tessera_metadata(?) WHERE key GLOB '__tessera_duration.*'", (path,))}
        fields = sql.rows(connection, "SELECT name, role, datatype FROM tessera_schema(?) WHERE cell_val_num = 1 AND enumeration IS NULL", (path,))
    except Exception as e:
        if "commit first" not in str(e):
            raise
        return {}   # the table has rows that are not committed: the values decide
    found = {}
    for field, role, kind in fields:
        if kind.startswith(("DATETIME_", "TIME_")) or kind == "UINT64":
            of = f"{kind} DURATION" if field in marked else kind
            names = (f"old_{field}", f"new_{field}") if role == "attribute" else (field,)
            found.update({column: of for column in names if column in shown and (kind != "UINT64" or not shown[column])})   # it has a type with uint64=signed
    return found


def changes(connection: Any, table: str, before: Any, after: Any = None, mode: str | None = None, *, columns: list[str] | None = None, where: str | None = None,
            **options: Any) -> Stream:
    """Returns what changed in a table between two times, as Arrow streams: pandas.DataFrame.from_arrow(tessera.changes(db, "weather", "2026-01-01")).

    The columns are change ('insert', 'update', 'delete'), the dimensions, old_A and new_A for each attribute A, and changed_at, the time of the
    commit in milliseconds. before, after: times (datetimes, ISO text, milliseconds since 1970), 'committed', or tokens of tessera_token, for a feed
    of 'write' and 'delete'; after is now by default. mode 'every' shows the changes of each commit. columns: the attributes to compare. where: a
    condition in SQL on these columns; a condition on dimensions limits what is read. Further options are those of tessera_rows.

    It makes a temporary table "changes of TABLE". The statement runs once, when a library first asks for the rows.
    """
    words = sql.parts(table[3:] if table.startswith("db:") else table)
    name = sql.name(f"changes of {'.'.join(words)}{' ' + ','.join(columns) if columns is not None else ''}")
    chosen = f", columns={sql.text(','.join(columns))}" if columns is not None else ""
    load(connection)
    with plain_errors(None):
        sql.rows(connection, f"DROP TABLE IF EXISTS temp.{name}")   # the table it was made for may be another by now
        sql.rows(connection, f"CREATE VIRTUAL TABLE temp.{name} USING tessera_changes({sql.name(*words)}{chosen})")
    times = [time if isinstance(time, (int, float, str, type(None))) else millisecond_of(time) for time in (before, after)]
    options["types"] = {**_types_of_changes(connection, words, name), **options.get("types", {})}
    return Rows(connection, f"SELECT * FROM temp.{name}(?1, ?2, ?3){f' WHERE {where}' if where else ''}", options, (*times, mode))
