"""Where the files of the package are: the extension, and how it is loaded into a connection; the demo arrays."""
import atexit
import contextlib
import os
import shutil
import sys
import tempfile

__all__ = ["demo", "load", "loadable_path"]
_adapted = set()   # modules that take numpy's scalars
_copies = {}   # (process, module of a connection): the copy of the extension that serves its SQLite


def loadable_path():
    """Returns the path of the extension, for programs that load it themselves: `connection.load_extension(tessera.loadable_path())`."""
    folder = os.path.dirname(os.path.abspath(__file__))
    for name in ("tessera.so", "tessera.dylib", "tessera.dll"):
        if os.path.exists(os.path.join(folder, name)):
            return os.path.join(folder, name)
    raise FileNotFoundError(f"the tessera extension is not in {folder}: install sqlite-tessera again")


def _adapt_duration(value):
    """A column of durations is a number of its own unit, which a parameter does not know; a text would be greater than all of them."""
    if value == value:
        raise TypeError(f"a parameter is the duration {value}, and SQL compares numbers of the column's unit: give the number, value // numpy.timedelta64(1, 'us') for one of "
                        "microseconds, or a text such as '05:06:07' for a time of day")


def _adapt_scalars(connection):
    """Registers adapters for numpy's scalars, if numpy is installed."""
    module = next((m for m in (sys.modules.get(base.__module__.partition(".")[0]) for base in type(connection).__mro__) if hasattr(m, "register_adapter")), None)
    if module is None or module in _adapted:   # apsw has no adapters
        return
    _adapted.add(module)
    try:
        import numpy
    except ImportError:
        return
    from .values import is_missing, plain_value
    adapters = {numpy.dtype(letter).type: type_ for letters, type_ in (("?bhilqBHILQ", int), ("efg", float)) for letter in letters}
    adapters[numpy.datetime64] = lambda value: None if is_missing(value) else plain_value(value)
    adapters[numpy.timedelta64] = _adapt_duration
    for kind, adapter in adapters.items():
        if (kind, module.PrepareProtocol) not in getattr(module, "adapters", ()):
            module.register_adapter(kind, adapter)


def load(connection):
    """Loads tessera into a connection from sqlite3, apsw or pysqlite3, and disables extension loading again, as it is by default.

    A process may use several of these modules at once: each gets a copy of the extension. sqlite3 and pysqlite3 pass numpy's scalars to SQLite as
    bytes; after this call they pass numbers, text and NULL, on all connections, and refuse durations, whose unit SQL does not know. Adapters that the
    program has registered stay.
    """
    if not hasattr(connection, "enable_load_extension"):
        raise RuntimeError(
            f"tessera cannot be loaded: the {type(connection).__module__} module of {sys.executable} was built without loadable extensions "
            "(its connections have no enable_load_extension). Use a Python that was built with them (Debian's, Ubuntu's, Homebrew's and conda's "
            "are; pyenv: PYTHON_CONFIGURE_OPTS=--enable-loadable-sqlite-extensions), or apsw: `pip install apsw`, "
            "`tessera.load(apsw.Connection(...))`")
    _adapt_scalars(connection)
    driver = type(connection).__module__.partition(".")[0]   # each brings its SQLite, and one copy of the extension serves one SQLite
    connection.enable_load_extension(True)
    try:
        try:
            connection.load_extension(_copies.get((os.getpid(), driver)) or loadable_path())
        except Exception as e:
            if "serves another SQLite" not in str(e):
                raise
            folder = tempfile.mkdtemp(prefix="tessera-")
            atexit.register(shutil.rmtree, folder, ignore_errors=True)
            copy = shutil.copy(loadable_path(), os.path.join(folder, os.path.basename(loadable_path())))
            connection.load_extension(copy)
            _copies[os.getpid(), driver] = copy
    finally:
        connection.enable_load_extension(False)


def _remove(path):
    """Removes a file or a directory, if it is there."""
    with contextlib.suppress(OSError):
        shutil.rmtree(path) if os.path.isdir(path) else os.remove(path)


def demo(folder="demo"):
    """Copies the arrays of the manual into a folder, and returns its path: `relief` (elevations of the Earth), `climate` (the sea, month by month)
    and `airports` (points), with `airports.csv`. Existing files stay as they are.
    """
    source = os.path.join(os.path.dirname(os.path.abspath(__file__)), "data")
    if not os.path.isdir(source):
        raise FileNotFoundError(f"the demo arrays are not in {source}: install sqlite-tessera again")
    folder = os.path.expanduser(folder)
    os.makedirs(folder, exist_ok=True)
    for name in sorted(os.listdir(source)):
        target = os.path.join(folder, name)
        if os.path.exists(target):
            continue
        part = f"{target}.{os.getpid()}"   # renamed when it is whole: a copy that was interrupted is made again
        try:
            if os.path.isdir(os.path.join(source, name)):
                shutil.copytree(os.path.join(source, name), part)
            else:
                shutil.copyfile(os.path.join(source, name), part)
            os.rename(part, target)
        except OSError:
            if not os.path.exists(target):   # else another process was faster
                raise
        finally:
            _remove(part)
    return folder
