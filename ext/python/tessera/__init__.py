"""tessera, the SQLite extension that opens TileDB-format arrays as SQL tables, for Python.

    import sqlite3, tessera
    db = sqlite3.connect("my.db")
    tessera.load(db)
    db.execute("CREATE VIRTUAL TABLE relief USING tessera('data/relief')")
"""
from . import accessor as _accessor
from .arrays import Array, drop, open
from .changed import changes
from .connections import configure
from .streams import Stream, rows
from .errors import (Busy, Constraint, Corrupt, Denied, Error, Exists, Interrupted, Memory, Mismatch, NotFound, Range, TooBig, Unknown, Unsupported)
from .loading import demo, load, loadable_path
from .making import create, create_as, create_csv, to_anndata
from .results import Result, sql

__version__ = "@VERSION@"
__all__ = ["Array", "Busy", "Constraint", "Corrupt", "Denied", "Error", "Exists", "Interrupted", "Memory", "Mismatch", "NotFound", "Range", "Stream", "TooBig", "Unknown", "Unsupported",
           "Result", "changes", "configure", "create", "create_as", "create_csv", "demo", "drop", "load", "loadable_path", "open", "rows", "sql", "to_anndata"]
