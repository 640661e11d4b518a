"""Connections for Arrays that were given none, and the functions of the extension that Python calls itself.

Each thread of each process has connections of its own, so that Arrays can be shared by threads, pickled, and used after a fork: to an empty database,
or to the file of a database in which a pickled Array lies, which they only read.
"""
from __future__ import annotations

import contextlib
import ctypes
import json
import os
import sys
import threading
import urllib.parse
import weakref

from . import statements as sql
from .errors import Interrupted, Unsupported, plain_errors
from .loading import load

__all__ = ["configure", "functions_of", "own_connection", "users", "working"]

_libraries = {}                 # path of a loaded extension: its functions
_idle = {}                      # (process, file, inode of the file): connections of threads that have ended, for those to come
_kept = []                      # (process, connection): all of this module, as a stream may outlive the thread that made it
_locks = {}                     # id of a connection of this module: its lock
users = weakref.WeakSet()       # Results, which keep the connection of the thread that made them
_IDLE = 2                       # so many of a name stay open; the others are closed as soon as nobody reads their streams
_scopes = {}                    # scope of tessera_configure: its options, for all connections of this module
_lock = threading.RLock()
_thread = threading.local()     # .connections: those of this thread


def _after_fork():   # another thread of the parent may have held the lock
    global _lock
    _lock = threading.RLock()
    _locks.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def _go_on():
    """SQLite calls it during long work. So Python runs the handlers of signals, and Ctrl-C ends the work."""
    return 0


@contextlib.contextmanager
def working(connection, own, path=None, steps=20):
    """Errors inside become those of this module. own: the connection is this module's, so that Ctrl-C ends the work; steps: of SQLite, between two looks.

    Threads that share a Result take turns: SQLite's lock and Python's, which the handler needs, would otherwise wait for each other.
    """
    if not own:
        with plain_errors(path):
            yield
        return
    with _turns(connection):
        heeds = threading.current_thread() is threading.main_thread()   # Python runs the handlers of signals in no other
        try:
            with plain_errors(path):
                if heeds:
                    connection.set_progress_handler(_go_on, steps)
                yield
        except Interrupted as e:   # nobody else interrupts it: what the handler of a signal raised is lost in SQLite
            raise KeyboardInterrupt from e
        finally:
            if heeds:
                connection.set_progress_handler(None, steps)


def _turns(connection):
    """Returns the lock of a connection of this module."""
    with _lock:
        return _locks.setdefault(id(connection), threading.RLock())


class _Connections(dict):
    """The connections of a thread, by process, file, and inode of the file. It goes when the thread ends."""

    def __del__(self):
        with contextlib.suppress(Exception):
            for name, connection in self.items():
                if name[0] == os.getpid() and not sys.is_finalizing():   # those of a parent are never closed
                    _leave(name, connection)


def own_connection(file=None):
    """Returns the connection that this thread of this process has for Arrays without one: to an empty database, or to a database's file, read only."""
    if not hasattr(_thread, "connections"):
        _thread.connections = _Connections()
    name = (os.getpid(), file, os.stat(file).st_ino if file else None)   # another file may have taken its place
    if name not in _thread.connections:
        with _lock:
            idle = _idle.get(name)
            _thread.connections[name] = idle.pop() if idle else _new_connection(file)
    return _thread.connections[name]


def _leave(name, connection):
    """Takes the connection of a thread that has ended. It waits for another thread, or is closed when nobody reads its streams."""
    with _lock:
        idle = _idle.setdefault(name, [])
        idle.append(connection)
        for one in idle[:-_IDLE]:
            if not sql.rows(one, "SELECT tessera_stream()")[0][0] and not any(user._connection is one for user in users):
                idle.remove(one)
                _kept.remove((name[0], one))
                _locks.pop(id(one), None)
                one.close()
                with contextlib.suppress(AttributeError, OSError, TypeError):   # glibc keeps what the ended thread has freed
                    ctypes.CDLL(None).malloc_trim(0)


def _new_connection(file):
    place = _read_only(file) if file else ":memory:"
    try:
        import sqlite3
        connection = sqlite3.connect(place, check_same_thread=False, isolation_level=None, uri=bool(file))
        load(connection)
    except (ImportError, RuntimeError) as e:
        try:
            import apsw
        except ImportError:
            raise e from None   # it tells of apsw
        connection = apsw.Connection(place, flags=apsw.SQLITE_OPEN_URI | (apsw.SQLITE_OPEN_READONLY if file else apsw.SQLITE_OPEN_READWRITE))
        connection.setbusytimeout(5000)   # as sqlite3 waits
        load(connection)
    _quote_names(connection)
    for scope, options in _scopes.items():
        sql.rows(connection, "SELECT tessera_configure(?, ?)", (scope, options))
    _kept.append((os.getpid(), connection))
    return connection


def _quote_names(connection):
    """A name in double quotes that is none is an error, where the module of the connection can ask SQLite for that: sqlite3 from Python 3.12 on, and apsw. SQLite
    would take it for a text."""
    with contextlib.suppress(AttributeError):   # an older module
        if hasattr(connection, "setconfig"):
            import sqlite3
            for config in (sqlite3.SQLITE_DBCONFIG_DQS_DML, sqlite3.SQLITE_DBCONFIG_DQS_DDL):
                connection.setconfig(config, False)
        elif hasattr(connection, "config"):
            import apsw
            for config in (apsw.SQLITE_DBCONFIG_DQS_DML, apsw.SQLITE_DBCONFIG_DQS_DDL):
                connection.config(config, 0)


def _read_only(file):
    """Returns the URI by which SQLite opens a file that it only reads."""
    file = file.replace(os.sep, "/")
    return f"file://{'' if file.startswith('/') else '/'}{urllib.parse.quote(file, safe='/:')}?mode=ro"


def configure(scope, **options):
    """Sets how Arrays without a connection reach a bucket: configure("s3://climate", provider="anonymous", region="eu-central-1"),
    configure("azure://climate", account="weather", sas="..."), configure("gcs://climate", provider="profile").

    Options are those of tessera_configure. They apply to this process; a pickled Array does not contain them.
    """
    text = json.dumps(options)
    with plain_errors(scope):
        sql.rows(own_connection(), "SELECT tessera_configure(?, ?)", (scope, text))
        with _lock:
            _scopes[scope] = text
            for process, connection in _kept:
                if process == os.getpid() and type(connection).__module__ == "sqlite3":
                    sql.rows(connection, "SELECT tessera_configure(?, ?)", (scope, text))


class _Functions(ctypes.Structure):   # tessera_functions of tessera_arrow.h
    _fields_ = [("version", ctypes.c_int),
                ("library_version", ctypes.c_char_p),
                ("take", ctypes.c_void_p),
                ("take_new", ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_char_p)),
                ("free_stream", ctypes.CFUNCTYPE(None, ctypes.c_void_p)),
                ("use_capsules", ctypes.CFUNCTYPE(None, ctypes.c_void_p)),
                ("free_capsule", ctypes.c_void_p),
                ("put", ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p)),
                ("lend", ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_uint64, ctypes.c_char_p, ctypes.c_char_p)),
                ("take_back", ctypes.CFUNCTYPE(None, ctypes.c_char_p)),
                ("take_schema", ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_char_p)),
                ("free_schema_capsule", ctypes.c_void_p),
                ("again", ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)),
                ("request", ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)),
                ("join", ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint64))]


def functions_of(connection):
    """Returns the functions of the copy of the extension that this connection has loaded; if it has none, this module's is loaded."""
    if not hasattr(connection, "cursor") or not (hasattr(connection, "total_changes") or hasattr(connection, "totalchanges")):
        raise TypeError(f"a connection is one of sqlite3, apsw or pysqlite3, not a {type(connection).__name__}: connection=sqlite3.connect('my.db')")
    try:
        path = sql.rows(connection, "SELECT tessera_library()")[0][0]
    except Exception as e:
        if "no such function" not in str(e):
            raise
        load(connection)
        try:
            path = sql.rows(connection, "SELECT tessera_library()")[0][0]
        except Exception:
            raise Unsupported("this connection has loaded an older tessera, which has no Arrow streams: update it") from None
    if path not in _libraries:
        try:
            library = ctypes.CDLL(path)
            library.tessera_api.restype = ctypes.POINTER(_Functions)
            library.tessera_api.argtypes = [ctypes.c_int]
            table = library.tessera_api(1)
        except (AttributeError, OSError, TypeError) as e:   # an old copy, or one that is linked into the program
            raise Unsupported(f"the tessera of this connection, {path}, has no tessera_api: load the one of tessera.loadable_path()") from e
        if not table:
            raise Unsupported(f"{path} is of another version than this module")
        table.contents.use_capsules(ctypes.cast(ctypes.pythonapi.PyCapsule_GetPointer, ctypes.c_void_p))
        _libraries[path] = table.contents
    return _libraries[path]
