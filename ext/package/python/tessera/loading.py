"""Where the extension lies, and how it is loaded into a connection."""
import os
import sys

__all__ = ["load", "loadable_path"]


def loadable_path():
    """Returns the path of the extension, for programs that load it themselves: `connection.load_extension(tessera.loadable_path())`."""
    folder = os.path.dirname(os.path.abspath(__file__))
    for name in ("tessera.so", "tessera.dylib"):
        if os.path.exists(os.path.join(folder, name)):
            return os.path.join(folder, name)
    raise FileNotFoundError(f"the tessera extension is not in {folder}: install sqlite-tessera again")


def load(connection):
    """Loads tessera into a connection of sqlite3 or apsw. Afterwards extension loading is disabled again, as it is by default."""
    if not hasattr(connection, "enable_load_extension"):
        raise RuntimeError(
            f"tessera cannot be loaded: the {type(connection).__module__} module of {sys.executable} was built without loadable extensions "
            "(its connections have no enable_load_extension). Use a Python that was built with them (Debian's, Ubuntu's, Homebrew's and conda's "
            "are; pyenv: PYTHON_CONFIGURE_OPTS=--enable-loadable-sqlite-extensions), or apsw: `pip install apsw`, "
            "`tessera.load(apsw.Connection(...))`")
    connection.enable_load_extension(True)
    try:
        connection.load_extension(loadable_path())
    finally:
        connection.enable_load_extension(False)
