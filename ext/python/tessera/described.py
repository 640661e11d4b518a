"""What pandas says of a DataFrame in the schema of a table of Arrow, as in a Parquet file: its index, its dtypes and its attrs."""
from __future__ import annotations

import json

from .arrays import ATTRS, DTYPES
from .dtypes import dictionary_note, note_schema

__all__ = ["take_schema", "taken_table", "with_notes"]


def take_schema(schema, rows):
    """Returns the names that the columns have in an array; the names of those that are its dimensions; name, start and step of a RangeIndex that is no column, or
    None; and metadata that note the rest. rows: how many there are, None if nobody knows."""
    described = (schema.pandas_metadata or {}).get("index_columns", [])
    index = [name for name in described if isinstance(name, str)]
    columns = [_unnamed(name, index) for name in schema.names]
    counted = _range_of(described, rows)
    counted = counted if counted and counted[0] not in columns else None
    dims = [counted[0]] if counted else [_unnamed(name, index) for name in index]
    attrs = (schema.pandas_metadata or {}).get("attributes")
    dtypes = {columns[schema.names.index(name)]: dtype for name, dtype in note_schema(schema, index).items()}
    return columns, dims, counted, {key: json.dumps(value) for key, value in ((DTYPES, dtypes), (ATTRS, attrs)) if value}


def taken_table(table, options):
    """Returns a table of pyarrow as an array takes it, and the options for a new array: its index becomes dimensions, as that of a DataFrame does."""
    import pyarrow
    if not hasattr(table, "combine_chunks"):   # a batch
        table = pyarrow.Table.from_batches([table])
    columns, dims, counted, metadata = take_schema(table.schema, table.num_rows)
    given = options.get("dimensions") or dims
    categories = {name: dictionary_note(table.column(place)) for place, name in enumerate(columns) if name in given and pyarrow.types.is_dictionary(table.schema.field(place).type)}
    if any(categories.values()):
        metadata[DTYPES] = json.dumps({**json.loads(metadata.get(DTYPES, "{}")), **{name: note for name, note in categories.items() if note}})
    if counted:
        name, start, step = counted
        numbers = pyarrow.array(range(start, start + step * table.num_rows, step), pyarrow.int64())
        table = table.rename_columns(columns).add_column(0, pyarrow.field(name, pyarrow.int64(), False), numbers)
    elif columns != table.column_names:
        table = table.rename_columns(columns)
    return table, with_notes(options, dims, metadata)


def with_notes(options, dims, metadata):
    """Returns options with dimensions, if they name none, and metadata."""
    options = {**options, "metadata": {**metadata, **(options.get("metadata") or {})}} if metadata else options
    return {**options, "dimensions": dims} if dims and "dimensions" not in options else options


def _range_of(described, rows):
    """Returns the name, start and step of a RangeIndex, which pandas describes but does not write; None if it only counts the rows, as without a name from 0 on."""
    if len(described) != 1 or not isinstance(described[0], dict) or described[0].get("kind") != "range":
        return None
    name, start, stop, step = (described[0].get(key) for key in ("name", "start", "stop", "step"))
    if not all(isinstance(number, int) for number in (start, stop, step)) or step == 0 or len(range(start, stop, step)) != rows or (name is None and (start, step) == (0, 1)):
        return None
    return "index" if name is None else str(name), start, step


def _unnamed(name, index):
    """pandas calls levels without a name __index_level_0__ in files; here they have the names that reset_index() gives them."""
    if name not in index or not name.startswith("__index_level_"):
        return name
    return "index" if len(index) == 1 else f"level_{index.index(name)}"
