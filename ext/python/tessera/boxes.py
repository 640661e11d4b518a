"""The coordinates that bound an Array: from what callers give, in the form of a box, and the JSON of one."""
from __future__ import annotations

import contextlib
import json
import re

from .instants import ATTOSECONDS
from .values import is_missing, nanoseconds_of, plain_value, scalar_of

__all__ = ["are_reversed", "box_json", "common_range", "coordinate_of", "coordinates_of", "ends_of", "is_word", "sort_key", "tolerance_in_units"]

_INSTANT = re.compile(r"\d{4}-\d\d(-\d\d([T ]\d\d(:\d\d(:\d\d(\.\d*)?)?)?)?)?")
_FIRST = "0000-01-01T00:00:00.000000000000000000"   # of a year, as precise as an instant can be


def box_json(value):
    """Returns JSON, in which infinity is a number: SQLite reads 9e999 as such."""
    return json.dumps(_marked(value)).replace('"\\u0000inf"', "9e999").replace('"\\u0000-inf"', "-9e999")


def _marked(value):
    if isinstance(value, dict):
        return {name: _marked(part) for name, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [_marked(part) for part in value]
    if not isinstance(value, (bool, int, float, str, type(None))):
        value = plain_value(value)
    if isinstance(value, float) and value != value:
        raise ValueError("a comparison with NaN finds nothing")
    return f"\0{value}" if value in (float("inf"), float("-inf")) else value


def coordinates_of(name, value):
    """Returns what bounds a dimension, as a box has it: one coordinate, a list of two ends, {"in": a list}, or [] for nothing."""
    if isinstance(value, slice):
        if value.step is not None:
            raise ValueError("a slice of an array has no step")
        value = (value.start, value.stop)
    if isinstance(value, list) or getattr(value, "ndim", 0):
        if getattr(value, "ndim", 1) != 1:
            raise TypeError(f"{name}: coordinates are a list with one axis, not {value.ndim}")
        ends = [coordinate_of(end) for end in value]
        return {"in": ends} if ends else []
    return [None if end is None else coordinate_of(end) for end in value] if isinstance(value, tuple) else coordinate_of(value)


def ends_of(ends):
    """The coordinates in what coordinates_of() returned."""
    return ends["in"] if isinstance(ends, dict) else ends if isinstance(ends, list) else [ends]


def is_word(value):
    """Whether a coordinate is a text that no dimension of numbers has."""
    if not isinstance(value, str):
        return False
    with contextlib.suppress(ValueError):
        float(value)
        return False
    return True


def coordinate_of(value):
    """Returns a coordinate as a box has it: a number or text of Python. Instants, dates and times of day are ISO text."""
    if is_missing(value):
        raise ValueError(f"{value} is not a coordinate: None leaves the end of a range open")
    value = scalar_of(value)
    if isinstance(value, bytes):
        return value.decode()
    return value if type(value) in (int, float, str, bool, type(None)) else plain_value(value)


def tolerance_in_units(duration, label, kind):
    """Returns a duration in the unit of a label's datatype; a number stays what it is."""
    duration = scalar_of(duration)
    if type(duration).__name__ not in ("timedelta", "Timedelta", "timedelta64"):
        return duration if duration is None else coordinate_of(duration)
    unit = ATTOSECONDS.get(kind.rpartition("_")[2]) if kind.startswith(("DATETIME_", "TIME_")) else None
    if unit is None:
        raise ValueError(f"tolerance={duration}: the label {label} is {kind}, which no duration measures: give a number in its unit")
    return nanoseconds_of(duration) * 10 ** 9 / unit


def common_range(name, one, other):
    """Returns the range that two ranges of a dimension have in common; [] if there is none."""
    if [] in (one, other):
        return []
    for listed, rest in ((other, one), (one, other)):   # the order is that of the list that was given last
        if isinstance(listed, dict):
            among = set(map(sort_key, rest["in"])) if isinstance(rest, dict) else ()
            inside = [value for value in listed["in"] if (sort_key(value) in among if isinstance(rest, dict) else common_range(name, value, rest) != [])]
            return {"in": inside} if inside else []
    ends = []
    for choose, at in ((max, 0), (min, 1)):
        given = [part[at] if isinstance(part, list) else part for part in (one, other)]
        given = [part for part in given if part is not None]
        if len(given) == 2 and isinstance(given[0], str) != isinstance(given[1], str):
            given = [int(part) if isinstance(part, str) and part.isdecimal() else part for part in given]   # JSON has large integers as text
            if isinstance(given[0], str) != isinstance(given[1], str):
                raise ValueError(f"{name} was bounded by {given[0]!r}, and now by {given[1]!r}: one is text, one a number")
        ends.append(choose(given, key=sort_key, default=None))
    return [] if None not in ends and sort_key(ends[0]) > sort_key(ends[1]) else ends


def are_reversed(low, high):
    """A year alone may be a number or text: that is left to what follows."""
    return not (len(high) == 4 and high.isdecimal() and low.startswith(high)) and sort_key(low) > sort_key(high)


def sort_key(end):
    """Returns what a coordinate sorts by. Instants that are text sort by time: they have one sign between date and time of day, and the same precision."""
    return end.replace(" ", "T", 1) + _FIRST[len(end):] if isinstance(end, str) and _INSTANT.fullmatch(end) else end
