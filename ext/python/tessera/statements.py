"""SQL as text, and its rows. Names come from arrays and files of strangers: whatever becomes part of a statement goes through name(), table() or
text(), and every other value is a parameter."""
import contextlib
import re
import threading

__all__ = ["name", "parts", "rows", "table", "text"]

_IDENTIFIER = r'"(?:[^"]|"")+"|`(?:[^`]|``)+`|\'(?:[^\']|\'\')+\'|\[[^\]]+\]|[^\s."`\'\[][^\s.]*'
_TABLE = re.compile(rf"(?:({_IDENTIFIER})\.)?({_IDENTIFIER})")
_lock = threading.RLock()


def name(*words):
    """Returns a name, or one with what qualifies it: name("main", "t") is "main"."t"."""
    return ".".join('"' + str(word).replace('"', '""') + '"' for word in words)


def text(value):
    """Returns a literal."""
    return "'" + str(value).replace("'", "''") + "'"


def parts(given):
    """Returns the names in what follows db: in a path, TABLE or SCHEMA.TABLE, without their quotes; as ext/sql/names.c reads it."""
    found = _TABLE.fullmatch(given)
    if not found:
        raise ValueError(f"{given!r} names no table: expected TABLE or SCHEMA.TABLE, a name with blanks in double quotes")
    return [_bare(word) for word in found.groups() if word is not None]


def _bare(word):
    if word[0] == "[":
        return word[1:-1]
    return word[1:-1].replace(word[0] * 2, word[0]) if word[0] in "\"`'" else word


def table(given):
    """Returns what follows db: in a path as a statement has it."""
    return name(*parts(given))


def rows(connection, statement, values=()):
    """Returns the rows of a statement as tuples, and its texts as str, whatever the connection makes of rows and texts for its own program."""
    cursor = connection.cursor()
    if hasattr(cursor, "row_factory"):   # of sqlite3 and pysqlite3; apsw has a trace
        cursor.row_factory = None
    elif hasattr(cursor, "setrowtrace"):
        cursor.setrowtrace(None)
    try:
        with _plain_texts(connection):
            return cursor.execute(statement, values).fetchall()
    finally:
        cursor.close()


@contextlib.contextmanager
def _plain_texts(connection):
    if getattr(connection, "text_factory", str) is str:
        yield
        return
    with _lock:   # two threads must not take each other's str for what the program has set
        given = connection.text_factory
        connection.text_factory = str
        try:
            yield
        finally:
            connection.text_factory = given
