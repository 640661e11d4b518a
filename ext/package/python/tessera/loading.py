"""Where the extension lies, and how it is loaded into a connection."""
import atexit
import os
import shutil
import sys
import tempfile

__all__ = ["load", "loadable_path"]
_copies = {}   # (process, module of a connection): the copy of the extension that serves its SQLite


def loadable_path():
    """Returns the path of the extension, for programs that load it themselves: `connection.load_extension(tessera.loadable_path())`."""
    folder = os.path.dirname(os.path.abspath(__file__))
    for name in ("tessera.so", "tessera.dylib", "tessera.dll"):
        if os.path.exists(os.path.join(folder, name)):
            return os.path.join(folder, name)
    raise FileNotFoundError(f"the tessera extension is not in {folder}: install sqlite-tessera again")


def load(connection):
    """Loads tessera into a connection of sqlite3, apsw or pysqlite3. Afterwards extension loading is disabled again, as it is by default.

    A process may use several of these modules at once: each gets a copy of the extension.
    """
    if not hasattr(connection, "enable_load_extension"):
        raise RuntimeError(
            f"tessera cannot be loaded: the {type(connection).__module__} module of {sys.executable} was built without loadable extensions "
            "(its connections have no enable_load_extension). Use a Python that was built with them (Debian's, Ubuntu's, Homebrew's and conda's "
            "are; pyenv: PYTHON_CONFIGURE_OPTS=--enable-loadable-sqlite-extensions), or apsw: `pip install apsw`, "
            "`tessera.load(apsw.Connection(...))`")
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
