"""Sums, means and the like of datetimes and durations, computed with the numbers that an array has, and shown as what they are."""
from __future__ import annotations

from fractions import Fraction
from typing import Any

from .instants import ATTOSECONDS
from .values import LETTERS
from .errors import Error

__all__ = ["refuse", "shown", "spread"]
_NAMES = {"avg": "mean", "stddev": "std"}   # of the methods, where SQL has others


def refuse(function: str, name: str, kind: str, by: Any) -> None:
    """Fails if instants have no such aggregate."""
    method = _NAMES.get(function, function)
    if not kind.startswith("DATETIME_"):
        return
    if function in ("sum", "stddev"):
        raise TypeError(f"{method}({name!r}): instants have no {method}: subtract one of them from all, in a DataFrame, and you have durations")
    if by is not None:
        raise TypeError(f"{method}({name!r}, by=...): SQL shows instants as texts: open the array with datetimes='integer', and it is a number of units since 1970; "
                        "or group a DataFrame")
    if function in ("avg", "median") and kind in ("DATETIME_YEAR", "DATETIME_MONTH"):
        raise TypeError(f"{method}({name!r}): {kind[9:].lower()}s differ in length: make instants of them, in a DataFrame")


def spread(function: str, column: str, calculate: Any, low: int) -> Fraction:
    """Returns a sum, mean, median or standard deviation in units. Differences to the lowest value keep all digits."""
    if function == "sum":
        return Fraction(calculate(f"sum({column})"))
    above = f"({column} + {-low})" if low < 0 else f"({column} - {low})"
    if function == "avg":
        try:
            count, total = calculate(f"count({column})", f"sum({above})")
            return low + Fraction(total) / count   # the sum is a real number if it is beyond 64 bits
        except Error as e:
            if "overflow" not in str(e):
                raise
    found = calculate(f"{function}({above})")
    return found if found is None else Fraction(found) + (0 if function == "stddev" else low)


def shown(found: Any, kind: str, function: str, as_text: bool) -> Any:
    """Returns a number of units as timedelta64; of instants and times of day as the text that a column shows, finer if it lies between two values."""
    import numpy
    if found is None:
        return None
    unit = kind.rpartition("_")[2]
    if kind.startswith("TIME_"):
        whole = round(found)
        if not as_text or function in ("sum", "stddev"):
            return numpy.timedelta64(whole, LETTERS[unit])
        return _clock(whole, unit)
    if unit in ("YEAR", "MONTH") or found == int(found):
        return _instant(numpy.datetime64(int(found), LETTERS[unit]))
    fine = unit if ATTOSECONDS[unit] < ATTOSECONDS["US"] else "US"
    text = _instant(numpy.datetime64(int(found * ATTOSECONDS[unit] // ATTOSECONDS[fine]), LETTERS[fine]))
    return text.rstrip("0").rstrip(".")


def _instant(value):
    return str(value.astype("M8[D]") if value.dtype == "M8[W]" else value).replace("T", " ")


def _clock(count, unit):
    """A time of day as a column shows it; the number of units, if it is none."""
    seconds, rest = divmod(count * ATTOSECONDS[unit], 10 ** 18)
    if not 0 <= seconds < 86400:
        return count
    text = f"{seconds // 3600:02}:{seconds // 60 % 60:02}"
    digits = 18 - len(str(ATTOSECONDS[unit])) + 1
    return text if unit in ("HR", "MIN") else f"{text}:{seconds % 60:02}" + (f".{rest:018}"[:digits + 1] if digits else "")
