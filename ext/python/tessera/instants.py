"""What a value that is compared with a column of instants, of times of day or of numbers means. Streams, and the tables of SQL on which len() and the
aggregates run, would judge some of them differently: SQL compares text that it cannot read as text. So the methods of an Array ask here once, for both.

Arrays keep instants in UTC. A column that had a time zone in a DataFrame takes texts without an offset as times of that zone, as pandas does."""
from __future__ import annotations

import datetime
import math
import re

from .errors import Mismatch

__all__ = ["ATTOSECONDS", "Between", "Refused", "compared", "has_text", "in_utc", "instant", "is_beyond_texts", "is_instant", "number", "time_of_day", "zone_of"]

_ISO = re.compile(r"([0-9]{4})(?:-([0-9]{2})(?:-([0-9]{2})(?:[T ]([0-9]{2})(?::([0-9]{2})(?::([0-9]{2})(?:\.([0-9]+))?)?)?)?)?)?(Z|[+-][0-9]{2}(?::?[0-9]{2})?)?")
ATTOSECONDS = {"WEEK": 604800 * 10 ** 18, "DAY": 86400 * 10 ** 18, "HR": 3600 * 10 ** 18, "MIN": 60 * 10 ** 18, "SEC": 10 ** 18, "MS": 10 ** 15, "US": 10 ** 12,
                "NS": 10 ** 9, "PS": 10 ** 6, "FS": 1000, "AS": 1}   # of a unit
_CLOCK = re.compile(r"([0-9]{2}):([0-9]{2})(?::([0-9]{2})(?:\.([0-9]+))?)?Z?")
_OFFSET = re.compile(r"(?:UTC|GMT)?([+-])([0-9]{2}):?([0-9]{2})?")
_NOTED = re.compile(r"(?:datetime64|timestamp)\[\w+, (?:tz=)?(.+?)\](?:\[pyarrow\])?")
_LENGTHS = {"YEAR": 4, "MONTH": 7, "WEEK": 10, "DAY": 10, "HR": 13, "MIN": 16, "SEC": 19, "MS": 23, "US": 26, "NS": 29, "PS": 32, "FS": 35, "AS": 38}   # of a text of that unit


class Refused(Mismatch):
    """A text that is no date or time of day."""


class Between:
    """A value that lies between one that a column can have, `low`, and the next one. exact: the value itself. low is None: it is less than the least value."""

    def __init__(self, low, exact, least=None):
        self.low, self.exact, self.least = low, exact, least


def zone_of(noted):
    """Returns the time zone of a dtype that metadata note; None if it has none."""
    found = _NOTED.fullmatch(noted) if isinstance(noted, str) else None
    return found and found[1]


def is_instant(value):
    """Whether a value is a date or an instant of Python, numpy or pandas."""
    return isinstance(value, datetime.date) or type(value).__name__ == "datetime64"


def in_utc(value):
    """Returns an instant of numpy as text that is one of UTC, whatever zone the column had; anything else as it is."""
    return f"{value}Z" if type(value).__name__ == "datetime64" else value


def is_beyond_texts(value, kind):
    """Whether a number of units is an instant outside of the years that have texts, which SQL shows as this number."""
    unit = kind.rpartition("_")[2]
    years = {"YEAR": 1, "MONTH": 12}.get(unit)
    low, high = (-1970 * years, 8030 * years) if years else (end * 10 ** 18 // ATTOSECONDS[unit] for end in (-62167219200, 253402300800))
    return kind.startswith("DATETIME_") and isinstance(value, int) and not low <= value < high


def _offset(text):
    """Returns how far an offset, or a zone that is one, is ahead of UTC; None if it is no offset."""
    found = _OFFSET.fullmatch(text)
    if not found:
        return datetime.timedelta() if text in ("Z", "UTC", "GMT") else None
    ahead = datetime.timedelta(hours=int(found[2]), minutes=int(found[3] or 0))
    if int(found[3] or 0) > 59 or ahead >= datetime.timedelta(days=1):
        return None
    return -ahead if found[1] == "-" else ahead


def _ahead(name, text, local, zone):
    """Returns how far a time zone is ahead of UTC at a local time."""
    fixed = _offset(zone)
    if fixed is not None:
        return fixed
    import zoneinfo
    try:
        place = zoneinfo.ZoneInfo(zone)
    except (ValueError, OSError, zoneinfo.ZoneInfoNotFoundError):
        raise Mismatch(f"{name}={text!r}: {name} has the time zone {zone}, which this machine does not know (pip install tzdata): give the offset, {text}+00:00 in UTC") from None
    first, second = (local.replace(tzinfo=place, fold=fold).utcoffset() for fold in (0, 1))
    if first != second:
        raise Mismatch(f"{name}={text!r}: the clocks of {zone} changed at that time, so that it is there {'twice' if first > second else 'not at all'}: give the offset, such as "
                       f"{text}+00:00 in UTC")
    return first


def instant(name, kind, text, zone=None):
    """Returns ISO text as that of an instant in UTC, or a Between if the datatype `kind` has no such instant. zone: the one of text without an offset."""
    found = _ISO.fullmatch(text)
    year, month, day, hour, minute, second = (int(part) if part else least for part, least in zip(found.groups(), (0, 1, 1, 0, 0, 0))) if found else (0, 0, 0, 0, 0, 0)
    cycles = 400 if year < 400 else 0   # Python's calendar begins with the year 1
    offset = found[8] if found else None
    try:
        local = datetime.datetime(year + cycles, month, day, hour, minute, second)
    except ValueError:
        local = None
    if local is None or offset and offset != "Z" and (not found[4] or _offset(offset) is None):
        raise Refused(f"{name}: {text!r} is not a valid {kind}: write it as '2024-06-01' or '2024-06-01T05:06:07', in {zone or 'UTC'}, or with an offset, '2024-06-01T05:06+02:00'")
    fraction = found[7] or ""
    if offset not in (None, "Z") or zone and offset is None:
        ahead = _offset(offset) if offset else _ahead(name, text, local, zone)
        try:
            local -= ahead
        except OverflowError:
            local = None
        if local is None or not 0 <= local.year - cycles <= 9999:
            raise Mismatch(f"{name}={text!r}: in UTC it is outside of the years 0000 to 9999")
        given = f"{local.year - cycles:04}-{local:%m-%dT%H:%M:%S}" + (f".{fraction}" if fraction else "")
    else:
        given = text.rstrip("Z")
    whole = f"{local.year - cycles:04}-{local:%m-%dT%H:%M:%S}.{fraction:0<18}"
    unit = kind.rpartition("_")[2]
    low = whole[:_LENGTHS[unit]].rstrip(".")
    if unit == "WEEK":
        days = local.toordinal() - datetime.date(1970, 1, 1).toordinal()
        start = local - datetime.timedelta(days=days % 7)
        low = f"{start.year - cycles:04}-{start:%m-%d}" if start.year >= cycles else low
    zero = {"YEAR": "-01-01T00:00:00.", "MONTH": "-01T00:00:00.", "HR": ":00:00.", "MIN": ":00.", "SEC": "."}.get(unit, "T00:00:00." if unit in ("WEEK", "DAY") else "")
    exact = whole.startswith(low) and (low + zero).ljust(len(whole), "0") == whole
    return given if exact else Between(low, given)


def time_of_day(name, kind, text):
    """Returns the text of a time of day, or a Between if the datatype `kind` has no such time."""
    found = _CLOCK.fullmatch(text)
    hour, minute, second = (int(part or 0) for part in found.groups()[:3]) if found else (24, 0, 0)
    if hour > 23 or minute > 59 or second > 59:
        raise Refused(f"{name}: {text!r} is not a valid {kind}: write it as '05:06' or '05:06:07'")
    whole = f"{hour:02}:{minute:02}:{second:02}.{found[4] or '':0<18}"
    unit = kind.rpartition("_")[2]
    low = whole[:2] + ":00" if unit == "HR" else whole[:max(_LENGTHS[unit] - 11, 5)].rstrip(".")
    rest = whole[3 if unit == "HR" else len(low):]
    return Between(low, text.rstrip("Z")) if rest.strip("0:.") else text.rstrip("Z")


def has_text(text):
    """Whether the text of an instant lies in the years that ISO text has."""
    return _ISO.fullmatch(text) is not None


def number(kind, value):
    """Returns a number that is compared with one of the datatype `kind`, or a Between."""
    size = re.fullmatch(r"(U?)INT([0-9]+)", kind)
    if not size or not isinstance(value, (int, float)) or value != value:
        return value
    low, high = (0, 2 ** int(size[2]) - 1) if size[1] else (-2 ** (int(size[2]) - 1), 2 ** (int(size[2]) - 1) - 1)
    if value < low:
        return Between(None, value, low)
    if value > high:
        return Between(high, value)
    return value if value == int(value) else Between(math.floor(value), value)


def compared(operator, value):
    """Returns an operator and a value of the column, or several, that say what a comparison with a Between does."""
    if operator in ("=", "==", "is"):
        return "in", []
    if value.low is None:   # less than all
        return ("in", []) if operator in ("<", "<=") else (">=" if operator in (">", ">=") else operator, value.least)
    return {"<": "<=", ">=": ">"}.get(operator, operator), value.low
