"""The dtypes of pandas that an array does not tell apart, such as Int64 and int64: metadata note them when a DataFrame becomes an array, and
to_pandas() gives them back. Anybody may write metadata, and columns change: what is noted holds as far as the values of a column have it."""
from __future__ import annotations

import json
import re

__all__ = ["NULLABLE", "dictionary_note", "is_noted", "note", "note_schema", "restore"]

NULLABLE = {*(f"{sign}Int{bits}" for sign in ("", "U") for bits in (8, 16, 32, 64)), "Float32", "Float64", "boolean"}   # which say that a gap is possible
_UNIT = "(?:s|ms|us|ns)"
_CATEGORIES = "categories "   # and JSON: the categories of a dimension
_NOTED = re.compile(rf"(?:string\[(?:python|pyarrow)\]|float16|datetime64\[{_UNIT}(?:, (?!dateutil)[A-Za-z+][\w+:/-]*)?\]|Sparse\[\w+, [-+\w.]+\]|[^\x00]{{1,200}}\[pyarrow\])")


def note(frame, days, dims=()):
    """Returns the names of the dtypes of a DataFrame that an array does not have, by column. days: the columns whose instants become days. dims: those that become
    dimensions."""
    found = {str(name): _name(dtype, place in days) for place, (name, dtype) in enumerate(frame.dtypes.items())}
    for place, (name, dtype) in enumerate(frame.dtypes.items()):
        if dtype.kind == "O" and found[str(name)] is None and not hasattr(dtype, "categories"):
            found[str(name)] = _zone_of_objects(frame.iloc[:, place])
        elif str(name) in dims and hasattr(dtype, "categories"):
            found[str(name)] = _categories(dtype.categories.tolist(), dtype.ordered)
    return {name: dtype for name, dtype in found.items() if dtype is not None}


def _zone_of_objects(series):
    """Returns the dtype of objects that are instants with a time zone; with several zones that of UTC."""
    zones = {str(value.tzinfo) for value in series if getattr(value, "tzinfo", None) is not None and hasattr(value, "astimezone")}
    text = f"datetime64[us, {zones.pop()}]" if len(zones) == 1 else ""
    return text if _NOTED.fullmatch(text) else "datetime64[us, UTC]" if zones or text else None


def _categories(values, ordered):
    """Returns what notes the categories of a dimension, which has no enumeration; None if JSON has not these values."""
    plain = all(type(value) in (str, int, float) and value == value for value in values)
    return _CATEGORIES + json.dumps({"categories": values, "ordered": bool(ordered)}) if plain else None


def dictionary_note(column):
    """The same of a column of a table of pyarrow that has a dictionary."""
    column = column.unify_dictionaries()
    return _categories(column.chunk(0).dictionary.to_pylist(), column.type.ordered) if column.num_chunks else None


def note_schema(schema, dims):
    """Returns the same of a schema of pyarrow: time zones, and what pandas has noted in its metadata."""
    import pyarrow
    columns = (schema.pandas_metadata or {}).get("columns", [])
    noted = {column.get("field_name"): column.get("numpy_type") for column in columns if isinstance(column, dict)}
    found = {}
    for field in schema:
        kind, text = field.type, str(noted.get(field.name))
        inner = kind.value_type if pyarrow.types.is_dictionary(kind) else kind
        zone = f"datetime64[{inner.unit}, {inner.tz}]" if pyarrow.types.is_timestamp(inner) and inner.tz else None
        if inner is not kind:
            text = zone and f"category[{zone}]"
        elif text == "string":
            text = "string[pyarrow]" if _family(kind) == "text" else None
        elif text.endswith("[pyarrow]"):
            text = text if _NOTED.fullmatch(text) else None
        elif text not in NULLABLE and text != "float16":
            text = zone if zone and _NOTED.fullmatch(zone) else None
        if text:
            found[field.name] = text
    return found


def is_noted(text):
    """Whether restore() takes a name of a dtype."""
    return _NOTED.fullmatch(text) is not None


def _name(dtype, days=False):
    kind, text = type(dtype).__name__, str(dtype)
    if kind == "CategoricalDtype":
        inner = _name(dtype.categories.dtype)
        return inner and f"category[{inner}]"
    if kind == "StringDtype":
        text = f"string[{dtype.storage}]" if type(dtype.na_value).__name__ == "NAType" else ""   # else it is what a text is anyway
    elif kind == "ArrowDtype":
        text = "utf8[pyarrow]" if text == "string[pyarrow]" else text   # which is the name of a StringDtype, too
    elif not days and kind not in ("DatetimeTZDtype", "SparseDtype") and text != "float16":
        return text if text in NULLABLE else None
    return text if _NOTED.fullmatch(text) else None


def restore(column, series, noted):
    """Returns a column of a table of pyarrow, which is `series` in pandas, with the dtype that was noted; as it is, if its values are of another kind by now,
    or have no place in it."""
    import pyarrow
    try:
        made = _restored(column, series, noted)
    except (pyarrow.ArrowException, ArithmeticError, LookupError, NotImplementedError, TypeError, ValueError):
        return series
    return series if made is None else made


def _restored(column, series, noted):
    import pandas
    import pyarrow
    if noted.startswith(_CATEGORIES):
        about = json.loads(noted[len(_CATEGORIES):])
        labels = pandas.Index(about["categories"]).astype(series.dtype)
        kept = series.isin(labels) | series.isna()
        return pandas.Series(pandas.Categorical(series, labels, bool(about["ordered"])), series.index, name=series.name) if kept.all() else None
    if noted.startswith("category[") and hasattr(series.dtype, "categories"):
        labels = series.cat.categories
        made = _restored(pyarrow.chunked_array([pyarrow.array(labels)]), pandas.Series(labels), noted[9:-1])
        return None if made is None else series.cat.rename_categories(pandas.Index(made))
    if noted in NULLABLE:
        return _nullable(column)
    if not _NOTED.fullmatch(noted):
        return None
    if noted.endswith("[pyarrow]") and not noted.startswith("string[p"):
        return _of_arrow(column, series, noted)
    dtype = _sparse(noted) if noted.startswith("Sparse[") else pandas.api.types.pandas_dtype(noted)
    if noted.startswith("string["):
        return pandas.Series(dtype.__from_arrow__(column), series.index, name=series.name) if _family(column.type) == "text" else None
    if noted.startswith("datetime64[") and series.dtype.kind == "M" and getattr(series.dtype, "tz", None) is None:
        if getattr(dtype, "tz", None) is not None:
            return series.dt.tz_localize("UTC").dt.tz_convert(dtype.tz).astype(dtype)
        return series.astype(dtype) if column.type == pyarrow.date32() else None
    if noted == "float16" and series.dtype == "float32" or noted.startswith("Sparse[") and series.dtype == dtype.subtype:
        return series.astype(dtype)
    return None


def _sparse(noted):
    """Returns a Sparse dtype: pandas reads its name only if it has the fill value of the subtype."""
    import pandas
    subtype, fill = noted[7:-1].split(", ")
    return pandas.SparseDtype(subtype, fill == "True" if subtype == "bool" else int(fill) if "int" in subtype else float(fill))


def nullable_types():
    """Returns pandas' nullable dtypes by the types of Arrow."""
    import pandas
    import pyarrow
    found = {getattr(pyarrow, f"{sign}int{bits}")(): getattr(pandas, f"{sign.upper()}Int{bits}Dtype")() for sign in ("", "u") for bits in (8, 16, 32, 64)}
    return {**found, pyarrow.bool_(): pandas.BooleanDtype(), pyarrow.float32(): pandas.Float32Dtype(), pyarrow.float64(): pandas.Float64Dtype()}


def _nullable(column):
    types = nullable_types()
    return column.to_pandas(types_mapper=types.get) if column.type in types else None


def _family(kind):
    """Returns what the values of a type of Arrow are: between types of a family a cast says the same."""
    import pyarrow.types as of
    families = {"text": (of.is_string, of.is_large_string), "bytes": (of.is_binary, of.is_large_binary), "instant": (of.is_timestamp, of.is_date), "span": (of.is_duration, of.is_time),
                "number": (of.is_integer, of.is_floating), "list": (of.is_list, of.is_large_list, of.is_fixed_size_list)}
    return next((family for family, tests in families.items() if any(test(kind) for test in tests)), str(kind))


def _of_arrow(column, series, noted):
    """A column with a dtype of Arrow's. Names of nested types cannot be read: those have the type of the column."""
    import pandas
    import pyarrow
    try:
        wanted = pandas.ArrowDtype.construct_from_string(noted).pyarrow_dtype
    except (NotImplementedError, TypeError):
        wanted = column.type
    if _family(wanted) != _family(column.type):
        wanted = column.type
    if pyarrow.types.is_time(wanted) and pyarrow.types.is_duration(column.type):
        column = column.cast(pyarrow.int64())
        column = column.cast(pyarrow.int32()) if wanted.bit_width == 32 else column
    return pandas.Series(pandas.arrays.ArrowExtensionArray(column.cast(wanted)), series.index, name=series.name)
