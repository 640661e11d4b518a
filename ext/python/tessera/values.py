"""Values of Python, numpy and pandas as those that SQL and streams take: numbers, ISO texts, and durations in the units of columns."""
from __future__ import annotations

import datetime
import fractions
import re

from .instants import ATTOSECONDS, Between

__all__ = ["LETTERS", "attoseconds_of", "count_units", "exact_length", "is_duration", "is_missing", "listed_durations", "millisecond_of", "nanoseconds_of", "plain_value", "scalar_of"]

LETTERS = {"YEAR": "Y", "MONTH": "M", "WEEK": "W", "DAY": "D", "HR": "h", "MIN": "m", "SEC": "s", "MS": "ms", "US": "us", "NS": "ns", "PS": "ps", "FS": "fs",
            "AS": "as"}   # numpy's name of a unit


def scalar_of(value):
    """Returns the value of an ndarray or DataArray without axes; what is none of them as it is."""
    if getattr(value, "ndim", None) != 0 or not hasattr(value, "dtype") or type(value).__name__ == "MaskedConstant":
        return value
    import numpy
    if isinstance(value, numpy.generic):
        return value
    return (value if isinstance(value, numpy.ndarray) else numpy.asarray(value))[()]   # a masked one is `masked`


def is_missing(value):
    """Whether a value stands for none: of pandas, of instants, of masked ndarrays."""
    value = scalar_of(value)
    return type(value).__name__ in ("NAType", "NaTType", "MaskedConstant") or type(value).__name__ in ("datetime64", "timedelta64") and value != value


def plain_value(value):
    """Returns a date as ISO text, a time of day too, a number of numpy as Python's. ValueError if the value is missing."""
    value = scalar_of(value)
    if is_missing(value):
        raise ValueError(f"{value} cannot be compared: where(name, 'is', None) finds what is missing")
    if type(value).__name__ == "datetime64":
        text = str(value)
        return text if len(text) > 7 else str(value.astype("M8[D]"))   # a year alone would be a number
    if type(value).__name__ in ("timedelta", "Timedelta", "timedelta64"):
        return _time_of_day(value)
    if getattr(value, "tzinfo", None) is not None and hasattr(value, "astimezone"):
        value = value.astimezone(datetime.timezone.utc).replace(tzinfo=None)   # arrays have no time zones: instants are UTC
    if hasattr(value, "isoformat"):
        return value.isoformat()
    value = value.item() if hasattr(value, "item") else value
    return value if isinstance(value, (int, float, str, bytes)) else float(value) if hasattr(value, "dtype") else str(value)   # item() of a long double is one


def millisecond_of(instant):
    """Returns the millisecond in which an instant lies: commits have no finer times."""
    text = plain_value(instant)
    return re.sub(r"(\.\d{3})\d+$", r"\1", text) if isinstance(text, str) else text   # a number of numpy is milliseconds


def _time_of_day(value):
    """Returns a duration as the text of a time of day."""
    seconds, rest = divmod(nanoseconds_of(value), 10 ** 9)
    if not 0 <= seconds < 86400:
        raise ValueError(f"{value} is not a time of day, from 0 to 24 hours: give it as an integer in the unit of the array")
    return f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}" + (f".{rest:09}".rstrip("0") if rest else "")


def nanoseconds_of(duration):
    if type(duration).__name__ == "timedelta64":
        return int(duration.astype("timedelta64[ns]").astype("int64"))
    return duration.value if hasattr(duration, "value") else duration // datetime.timedelta(microseconds=1) * 1000


def is_duration(value):
    value = scalar_of(value)
    return type(value).__name__ in ("timedelta", "Timedelta", "timedelta64") and not is_missing(value)


def listed_durations(value):
    """Returns the durations of an ndarray, an Index, a Series or the like as a list; anything else as it is."""
    durations = getattr(getattr(value, "dtype", None), "kind", "") == "m" or type(value).__module__.startswith("pyarrow") and str(getattr(value, "type", "")).startswith("duration")
    if not durations or getattr(value, "ndim", 1) != 1:
        return value
    import numpy
    return list(numpy.asarray(value))


def attoseconds_of(duration):
    """Returns a duration of any length, exactly."""
    duration = scalar_of(duration)
    if isinstance(duration, datetime.timedelta) and not hasattr(duration, "to_timedelta64"):
        return duration // datetime.timedelta(microseconds=1) * ATTOSECONDS["US"]
    import numpy
    duration = duration.to_timedelta64() if hasattr(duration, "to_timedelta64") else duration
    letters, count = numpy.datetime_data(duration.dtype)
    unit = next((name for name, letter in LETTERS.items() if letter == letters), None)
    if unit not in ATTOSECONDS:
        raise ValueError(f"{duration!r} has no length: give it a unit from weeks to attoseconds")
    return int(duration.astype("i8")) * count * ATTOSECONDS[unit]


def count_units(duration, kind):
    """Returns a duration as a number of the unit of a datatype."""
    unit = ATTOSECONDS[kind.rpartition("_")[2]]
    whole, rest = divmod(attoseconds_of(duration), unit)
    if not -2 ** 63 < whole < 2 ** 63:   # no column has it, and SQLite no such integer
        return Between(-2 ** 63 + 1 if whole < 0 else 2 ** 63 - 2, fractions.Fraction(rest, unit) + whole)
    return Between(whole, fractions.Fraction(rest, unit) + whole) if rest else whole


def exact_length(tolerance, kind):
    """Returns a duration exactly in the unit of a datatype; a number stays what it is."""
    return fractions.Fraction(attoseconds_of(tolerance), ATTOSECONDS[kind.rpartition("_")[2]]) if is_duration(tolerance) else tolerance
