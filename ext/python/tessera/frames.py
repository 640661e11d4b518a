"""LazyFrames of polars over an Array: what a query needs is all that is read."""
from __future__ import annotations

import datetime
import json
import math

__all__ = ["scan"]

_OPERATORS = {"Eq": "=", "Lt": "<", "LtEq": "<=", "Gt": ">", "GtEq": ">="}
_TURNED = {"=": "=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
_ROWS = 262144   # of a part that is read at once
_EPOCH = datetime.datetime(1970, 1, 1)


def _literal(node):
    """Returns the value of a literal; None if it is of no kind that is pushed down."""
    (kind, value), = node["Literal"].get("Scalar", node["Literal"].get("Dyn", {"": None})).items()
    if kind == "Date":
        return (_EPOCH + datetime.timedelta(days=value)).date().isoformat()
    if kind == "Datetime":
        us = value[0] * {"Milliseconds": 1000, "Microseconds": 1}.get(value[1], 0)
        return (_EPOCH + datetime.timedelta(microseconds=us)).isoformat() + ("Z" if value[2] is not None else "") if us else None
    return value if isinstance(value, (int, float, str)) and not isinstance(value, bool) else None


def _comparisons(node):
    """The comparisons of a column with a literal that all rows of a predicate pass: (column, operator, value)."""
    if "BinaryExpr" in node:
        left, op, right = (node["BinaryExpr"][name] for name in ("left", "op", "right"))
        if op == "And":
            return _comparisons(left) + _comparisons(right)
        if "Column" in left and "Literal" in right and op in _OPERATORS:
            return [(left["Column"], _OPERATORS[op], _literal(right))]
        if "Column" in right and "Literal" in left and op in _OPERATORS:
            return [(right["Column"], _TURNED[_OPERATORS[op]], _literal(left))]
    if "Function" in node:
        inputs, function = node["Function"]["input"], node["Function"]["function"]
        if function.get("Boolean", {}) == {"IsBetween": {"closed": "Both"}} and "Column" in inputs[0] and all("Literal" in i for i in inputs[1:]):
            return [(inputs[0]["Column"], ">=", _literal(inputs[1])), (inputs[0]["Column"], "<=", _literal(inputs[2]))]
    return []


def _narrowed(array, predicate, schema):
    """Returns the part of the array in which all rows that pass the predicate lie, or None if no row passes. polars filters again."""
    import polars
    try:
        found = _comparisons(json.loads(predicate.meta.serialize(format="json")))
    except Exception:   # the form of expressions is polars' own, and changes
        return array
    bounds, ranges = array.bounds, {}
    for column, operator, value in found:
        dtype = schema.get(column)
        if value is None or dtype is None or isinstance(value, str) != (dtype == polars.String or dtype.is_temporal()):
            continue
        if column in bounds:
            low, high = ranges.get(column, bounds[column])
            low, high = (int(end) if dtype.is_integer() and isinstance(end, str) else end for end in (low, high))   # JSON has large integers as text
            if column in array._box or low is None or high is None or isinstance(low, str) and dtype.is_temporal():
                continue   # an end that nobody knows, or ISO text of another unit
            if dtype.is_integer():
                low, high = (max(low, math.ceil(value)) if operator in (">", ">=", "=") else low), (min(high, math.floor(value)) if operator in ("<", "<=", "=") else high)
            else:
                low, high = (max(low, value) if operator in (">", ">=", "=") else low), (min(high, value) if operator in ("<", "<=", "=") else high)
            if low > high:
                return None
            ranges[column] = low, high
        elif column not in array.dims and not (dtype.is_float() and operator in (">", ">=")):   # to polars NaN is greater than all numbers
            array = array.where(column, operator, value)
    return array.sel(**ranges)


def scan(array):
    import polars
    from polars.io.plugins import register_io_source

    schema = array._in_zones(polars.DataFrame(schema=polars.Schema(array))).schema

    def read(columns, predicate, n_rows, batch_size):
        part = array if predicate is None else _narrowed(array, predicate, schema)
        wanted = list(schema) if columns is None else list(columns)
        if predicate is not None:
            wanted += [name for name in predicate.meta.root_names() if name not in wanted]
        empty = True
        parts = [] if part is None else _parts(part)
        for one in parts:
            frame = array._in_zones(polars.DataFrame(one.select(*(wanted or list(schema)[:1]))))
            if predicate is not None:
                frame = frame.filter(predicate)
            if columns is not None:
                frame = frame.select(columns) if columns else frame.select(list(schema)[:1])
            if n_rows is not None:
                frame = frame.head(n_rows)
                n_rows -= frame.height
            empty = False
            yield frame
            if n_rows == 0:
                return
        if empty:
            yield polars.DataFrame(schema=schema).select(columns if columns is not None else list(schema))

    return register_io_source(read, schema=schema)


def _parts(array):
    """Parts that are read one after the other, so that a limit ends early; in one part if the rows have an order."""
    if "order" in array._options or array._has_lists():
        return [array]
    cells = array._about("cells", "tessera_array")[0][0] or 0
    return array.partitions(max(1, min(1000, cells // _ROWS)))
