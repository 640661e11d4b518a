"""Errors of tessera as classes: each is also the error of Python's that fits, and that of the SQLite module which it came from.

Which SQLite code means what: docs/reference/errors.md.
"""
import contextlib
import re

__all__ = ["Busy", "Constraint", "Corrupt", "Denied", "Error", "Exists", "Interrupted", "Memory", "Mismatch", "NotFound", "Range", "TooBig", "Unknown", "Unsupported", "plain_errors", "without_functions"]


class Error(Exception):
    """Any error of an array. `code` is SQLite's result code, `path` the array's."""

    code = path = None

    def __reduce__(self):   # the mixed classes have no name by which a pickle could find them
        ours = next(c for c in type(self).__mro__ if c.__module__ == __name__)
        return ours, self.args, {"code": self.code, "path": self.path}


class NotFound(Error, FileNotFoundError):
    """The array, table or file is missing."""


class Exists(Error, FileExistsError):
    """Something is at the path already."""


class Denied(Error, PermissionError):
    """A key is missing or wrong, the path is out of bounds, or the array is read-only."""


class Corrupt(Error):
    """The array is damaged."""


class Mismatch(Error, TypeError):
    """A value of the wrong kind."""


class Range(Error, ValueError):
    """A value outside its datatype or the domain."""


class Constraint(Error, ValueError):
    """An impossible schema, or rows that contradict each other."""


class Memory(Error, MemoryError):
    """The machine is out of memory."""


class TooBig(Error, MemoryError):
    """Beyond memory_mb, or a limit of SQLite or of the format."""


class Unknown(Error, KeyError):
    """The array has no dimension, label, attribute or column of this name."""

    __str__ = Exception.__str__   # KeyError's puts the message into quotes


class Unsupported(Error, NotImplementedError):
    """This version of tessera cannot do it."""


class Busy(Error):
    """Another process holds a lock, or a server does not answer: try again later."""


class Interrupted(Error):
    """The statement was interrupted."""


_CLASSES = {3: Denied, 5: Busy, 6: Busy, 7: Memory, 8: Denied, 9: Interrupted, 11: Corrupt, 14: NotFound, 18: TooBig, 19: Constraint, 20: Mismatch, 23: Denied, 25: Range}
_mixed = {}   # (class of ours, class of the module): both


def _both(ours, theirs):
    """Returns a class that is both, so that programs which catch the module's own errors still do."""
    if (ours, theirs) not in _mixed:
        try:
            _mixed[ours, theirs] = type(ours.__name__, (ours, theirs), {"__module__": "tessera", "__doc__": ours.__doc__})
        except TypeError:   # two layouts that cannot be one
            _mixed[ours, theirs] = ours
    return _mixed[ours, theirs]


_SQL_FUNCTIONS = re.compile(r"(?:tessera_\w+: (?:the SELECT: )?)+")


def without_functions(text):
    """Returns a message without the functions of SQL that raised it: a method has called them, and not who reads it."""
    return _SQL_FUNCTIONS.sub("", text, 1) if isinstance(text, str) and _SQL_FUNCTIONS.match(text) else text


@contextlib.contextmanager
def plain_errors(path):
    """Errors of sqlite3, apsw or pysqlite3 inside become those of this module."""
    try:
        yield
    except Exception as e:
        code = getattr(e, "sqlite_errorcode", None) or getattr(e, "extendedresult", None)
        if code is None:
            raise
        made = _both(_CLASSES.get(code & 255, Error), type(e))(*map(without_functions, e.args))
        made.code, made.path = code, path
        raise made from e
