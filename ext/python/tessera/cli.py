"""The command `tessera`: ls, info, head, sql, upkeep, check, copy, demo, shell. Its import is cheap, so that a command starts fast.

Results go to stdout: a box on a terminal, CSV elsewhere, unless an option says otherwise. Errors are one line on stderr, and the exit status 2.
"""
from __future__ import annotations

import argparse
import contextlib
import csv
import itertools
import json
import os
import re
import sys
import time

__all__ = ["main"]


_BUCKET = re.compile(r"(?:^|(?<=['\"`\[]))(?:s3|azure|az|gcs|gs)://[^/'\"`\]?\s]+")   # at the beginning of a path, or of a name in quotes


def _connect(args, *texts, file=None):
    """Returns a connection with tessera, whose statements Ctrl-C ends: of sqlite3, or apsw where it cannot load extensions. SQLite would make a file that
    is missing. The buckets that the texts name are declared, with the options of --storage: without any, their keys are found as the cloud's own tools
    find them."""
    if file and not os.path.exists(file):
        raise FileNotFoundError(f"{file}: there is no such database")
    connection = _open(file)
    connection.set_progress_handler(_go_on, 1000)
    options = _options("--storage", args.storage)
    for bucket in dict.fromkeys(bucket for text in texts for bucket in _BUCKET.findall(text)):
        _rows(connection, "SELECT tessera_configure(?, ?)", (bucket, json.dumps(options)))
    return connection


def _options(option, texts):
    """Returns what an option NAME=VALUE was given, as a dict of values of JSON, or of texts that are none."""
    given = {}
    for text in texts or ():
        name, equals, value = text.partition("=")
        if not equals:   # the text may be a secret
            raise ValueError(f"{option}: expected NAME=VALUE")
        try:
            given[name] = json.loads(value)
        except ValueError:
            given[name] = value
    return given


def _go_on():
    """SQLite calls it during long work, so that Python runs the handlers of signals."""
    return 0


def _open(file):
    from .loading import load
    try:
        import sqlite3
        connection = sqlite3.connect(file or ":memory:", isolation_level=None)
        load(connection)
    except (ImportError, RuntimeError):
        try:
            import apsw
        except ImportError:
            raise SystemExit("tessera: this Python's sqlite3 loads no extensions: pip install apsw") from None
        connection = apsw.Connection(file or ":memory:")
        load(connection)
    return connection


def _rows(connection, statement, values=()):
    from . import statements
    from .errors import plain_errors
    with plain_errors(None):
        return statements.rows(connection, statement, values)


# ---- Output --------------------------------------------------------------------------------------------------------------

def _shown(value):
    if value is None:
        return "NULL"
    return f"x'{value.hex()}'" if isinstance(value, bytes) else str(value)


def _line(text):
    """Returns a text that a terminal shows in one line: names and metadata of strangers may have control characters in them."""
    return re.sub("[\x00-\x1f\x7f-\x9f\u2028\u2029]", lambda found: " " if found[0] == "\n" else repr(found[0])[1:-1], str(text))


def _unique(columns):
    """Returns the names of columns as keys, none twice: the second of one name gets the suffix _2, as in tessera_select."""
    keys = []
    for name in columns:
        key, number = name, 1
        while key in keys or number > 1 and key in columns:
            number += 1
            key = f"{name}_{number}"
        keys.append(key)
    return keys


def _json(value):
    if isinstance(value, float) and value in (float("inf"), float("-inf")):
        return "9e999" if value > 0 else "-9e999"   # JSON has no infinity, and everybody reads this as one
    return json.dumps(value.hex() if isinstance(value, bytes) else value, ensure_ascii=False)


def _box(columns, rows):
    columns, cells = list(map(_line, columns)), [[_line(_shown(value)) for value in row] for row in rows]
    widths = [max([len(name)] + [len(row[i]) for row in cells]) for i, name in enumerate(columns)]
    right = [bool(rows) and all(isinstance(row[i], (int, float, type(None))) for row in rows) for i in range(len(columns))]

    def line(left, middle, end):
        return left + middle.join("─" * (width + 2) for width in widths) + end
    print(line("┌", "┬", "┐"))
    for number, row in enumerate([columns, *cells]):
        print("│" + "│".join(f" {cell:>{width}} " if number and r else f" {cell:<{width}} " for cell, width, r in zip(row, widths, right)) + "│")
        if number == 0:
            print(line("├", "┼", "┤"))
    print(line("└", "┴", "┘"))


def _print(form, columns, rows):
    """Prints rows as they come, but for a box, whose widths all rows decide."""
    form = form or ("box" if sys.stdout.isatty() else "csv")
    if form == "csv":
        out = csv.writer(sys.stdout, lineterminator="\n")
        out.writerow(columns)
        out.writerows(["" if v is None else _shown(v) if isinstance(v, bytes) else v for v in row] for row in rows)
    elif form == "json":
        keys, number = [json.dumps(name, ensure_ascii=False) for name in _unique(columns)], -1
        for number, row in enumerate(rows):
            print(("[" if number == 0 else ",\n ") + "{" + ", ".join(f"{key}: {_json(value)}" for key, value in zip(keys, row)) + "}", end="")
        print("]" if number >= 0 else "[]")
    elif form == "markdown":
        for number, row in enumerate(itertools.chain([columns], rows)):
            print("| " + " | ".join(_line(_shown(v)).replace("|", "\\|") for v in row) + " |" + ("\n|" + "---|" * len(columns) if number == 0 else ""))
    else:
        _box(columns, list(rows))


def _limited(rows, limit):
    return rows if limit is None else (row for _, row in zip(range(limit), rows))


# ---- Verbs ---------------------------------------------------------------------------------------------------------------

def _ls(args):
    connection = _connect(args, args.path)
    depth = "" if args.recursive else " AND instr(trim(substr(o.path, length(?1) + 1), '/'), '/') = 0"
    from .arrays import exists
    from .paths import spelled
    root = spelled(args.path).rstrip("/") or "/"
    found = _rows(connection, f"SELECT o.path, o.kind FROM tessera_objects(?1) o WHERE 1{depth} ORDER BY o.path", (root,))
    if not found and exists(connection, args.path) == "an array":
        found = [(args.path, "array")]
    rows = []
    for path, kind in found:
        facts = (None, None, None)
        if kind == "array":
            facts = _rows(connection, "SELECT kind, cells, bytes FROM tessera_array(?)", (path,))[0]
        rows.append((path, kind if kind != "array" else f"{facts[0]} array", facts[1], facts[2]))
    if not rows and not os.path.isdir(args.path) and "://" not in args.path:
        raise FileNotFoundError(f"{args.path}: no such directory")
    _print(args.form, ("path", "kind", "cells", "bytes"), _limited(rows, args.limit))
    return 0


def _info(args):
    connection = _connect(args, args.path)
    if args.ddl:
        print(_rows(connection, "SELECT tessera_ddl(?)", (args.path,))[0][0])
        return 0
    from .arrays import exists
    from .arrays import open as open_array
    from .cards import card
    from .errors import NotFound
    try:
        array = open_array(args.path, connection=connection)
    except NotFound:
        if exists(connection, args.path) != "a group":
            raise
        args.recursive = True   # of a group, the arrays in it
        return _ls(args)
    print("\n".join(map(_line, card(array).split("\n")[:-1])))   # the last line is for Python
    facts = array._about("format_version, capacity, cell_order, tile_order, duplicates", "tessera_array")[0]
    print(f"  format {facts[0]}, {facts[2]}-major cells, {facts[3]}-major tiles" + (f", capacity {facts[1]}" if array.kind == "sparse" else "") + (", duplicates" if facts[4] else ""))
    for key, value in array.metadata.items():
        text = " ".join(str(value).split())
        print(f"  metadata  {_line(key)}: {_line(text if len(text) <= 100 else text[:97] + '...')}")
    for finding, detail in _rows(connection, "SELECT finding, detail FROM tessera_advise(?)", (args.path,)):
        print(f"  advice    {finding}: {_line(detail)}")
    return 0


def _sql(args):
    from .errors import Denied
    from .results import sql
    if args.text == "-" and sys.stdin is None:
        raise ValueError("there is no standard input")
    text = sys.stdin.read() if args.text == "-" else args.text
    connection = _connect(args, text, *args.attach or (), file=args.database)
    for group in args.attach or ():
        _rows(connection, "SELECT tessera_attach(?)", (group,))
    params = {}
    for given in args.parameter or ():
        name, equals, value = given.partition("=")
        if not equals:
            raise ValueError(f"-p {given!r}: expected NAME=VALUE")
        params[name] = _literal(value)
    if args.arrow and args.limit is not None:
        raise ValueError("--arrow writes all rows: say LIMIT in the SELECT")
    try:
        result = sql(text, params, connection=connection)
    except Denied as e:
        raise Denied(str(e).replace("tessera.sql reads: run this with connection.execute: ", "sql reads: tessera shell FILE changes tables, which CREATE VIRTUAL TABLE t USING tessera('PATH') makes: ")) from None
    except Exception as e:
        if "no such table" not in str(e) or not args.database or not _keeps(connection):
            raise
        _rows(connection, "SELECT tessera_attach()")
        result = sql(text, params, connection=connection)
    if args.explain:
        result.explain()
    elif args.arrow:
        try:
            import pyarrow
            import pyarrow.ipc
        except ModuleNotFoundError:
            raise ModuleNotFoundError("--arrow needs pyarrow: pip install pyarrow") from None
        reader = pyarrow.RecordBatchReader.from_stream(result)
        part = f"{args.arrow}.{os.getpid()}"   # renamed when it is whole
        try:
            with pyarrow.OSFile(part, "wb") as file, pyarrow.ipc.new_file(file, reader.schema) as out:
                for batch in reader:
                    out.write_batch(batch)
            os.replace(part, args.arrow)
        finally:
            with contextlib.suppress(FileNotFoundError):
                os.remove(part)
    else:
        _print(args.form, result.columns, _limited(result, args.limit))
    return 0


def _keeps(connection):
    """Whether the database remembers tables that tessera_attach() makes: those of groups, and hidden ones."""
    cursor = connection.cursor()
    if not cursor.execute("SELECT 1 FROM main.sqlite_schema WHERE type = 'table' AND name = 'tessera_kept'").fetchall():
        return False
    return bool(cursor.execute("SELECT 1 FROM main.tessera_kept LIMIT 1").fetchall())


def _literal(text):
    """Returns the value of a parameter: a number if SQL would write it so. 007, nan and 1_000 are texts."""
    if re.fullmatch(r"-?(0|[1-9][0-9]*)", text) and -2**63 <= int(text) < 2**63:
        return int(text)
    return float(text) if re.fullmatch(r"-?(0|[1-9][0-9]*)(\.[0-9]*)?([eE][-+]?[0-9]+)?", text) and not text.lstrip("-").isdigit() else text


def _head(args):
    from . import statements
    from .results import sql
    limit = args.n if args.limit is None else args.limit
    where = f" WHERE ({args.where}\n)" if args.where else ""
    result = sql(f"SELECT * FROM {statements.text(args.path if '/' in args.path else './' + args.path)}{where} LIMIT {limit}", connection=_connect(args, args.path))
    _print(args.form, result.columns, result)
    return 0


def _arrays_of_group(connection, path):
    """Returns the paths of the arrays below a group; None if there is none at `path`."""
    from .arrays import exists
    if exists(connection, path) != "a group":
        return None
    return [found for found, in _rows(connection, "SELECT path FROM tessera_objects(?) WHERE kind = 'array' ORDER BY path", (path.rstrip("/"),))]


def _upkeep(args):
    connection = _connect(args, args.path)
    arrays, end = _arrays_of_group(connection, args.path), None if args.seconds is None else time.monotonic() + args.seconds
    for array in [args.path] if arrays is None else arrays:
        options = {} if end is None else {"seconds": args.seconds if arrays is None else max(0, end - time.monotonic())}
        done = _rows(connection, "SELECT tessera_upkeep(?, ?)", (array, json.dumps(options)))[0][0]
        print(done if arrays is None else f"{_line(array)}: {done}")
    return 0


def _check(args):
    connection = _connect(args, args.path)
    arrays, select = _arrays_of_group(connection, args.path), "SELECT severity, {} AS file, message FROM tessera_check(?1)"
    rows = _rows(connection, select.format("file"), (args.path,)) if arrays is None else [row for array in arrays for row in _rows(connection, select.format("?1 || '/' || file"), (array,))]
    _print(args.form, ("severity", "file", "message"), _limited(rows, args.limit))
    return 1 if any(severity == "error" for severity, *_ in rows) else 0


def _copy(args):
    options = _options("--set", args.set)
    cells = _rows(_connect(args, args.source, args.target), "SELECT tessera_copy(?, ?, ?)", (args.source, args.target, json.dumps(options)))[0][0]
    print(f"{cells} cells" if cells is not None else "copied")
    return 0


def _demo(args):
    from .loading import demo
    folder = demo(args.folder)
    print(f"{folder}: relief, climate, airports. Try: tessera sql \"SELECT max(elevation) FROM '{os.path.join(folder, 'relief')}'\"")
    return 0


def _shell(args):
    from .loading import loadable_path
    if args.file and args.database:
        raise ValueError(f"shell opens one database, not two: {args.file} and {args.database}")
    commands = ["-cmd", f".load '{loadable_path()}'"]
    file = args.file or args.database
    if file and os.path.exists(file):
        with contextlib.suppress(Exception), contextlib.closing(_open(file)) as connection:   # sqlite3 tells what is wrong with the file
            if _keeps(connection):
                commands += ["-cmd", f".output {os.devnull}", "-cmd", "SELECT tessera_attach();", "-cmd", ".output"]
    for group in args.attach or ():
        text = group.replace("'", "''")
        commands += ["-cmd", f"SELECT tessera_attach('{text}') || ' tables';"]
    try:
        os.execvp("sqlite3", ["sqlite3", *commands, file or ":memory:", *args.statements])
    except FileNotFoundError:
        raise FileNotFoundError("the program sqlite3 is not installed: apt install sqlite3, or brew install sqlite") from None


# ---- The command ---------------------------------------------------------------------------------------------------------

def _add_output(parser, default):
    """Adds the options of output, which may stand before the verb and behind it."""
    forms = parser.add_mutually_exclusive_group()
    for form in ("json", "csv", "box", "markdown"):
        forms.add_argument(f"--{form}", dest="form", action="store_const", const=form, default=default, help=f"print rows as {form}")
    parser.add_argument("--limit", type=_count, metavar="N", default=default, help="print at most N rows")


def _count(text):
    if not re.fullmatch("[0-9]{1,18}", text):
        raise argparse.ArgumentTypeError(f"{text!r} is no number of rows")
    return int(text)


class _Parser(argparse.ArgumentParser):
    """A parser whose errors are one line, with what a mistyped word may have meant. A beginning of an option is no option: a later one may begin in the same way."""

    def __init__(self, *words, **options):
        super().__init__(*words, **options, allow_abbrev=False)

    def error(self, message):
        if message.endswith("required: VERB"):
            message = f"expected a verb: {', '.join(self.verbs)}; tessera --help says what they do"
        self.exit(2, f"{self.prog}: {_line(message)}\n")

    def _check_value(self, action, value):   # the parser of verbs
        if action.choices is not None and value not in action.choices:
            raise argparse.ArgumentError(None, _strange_verb(value, list(action.choices)))


_OTHER_VERBS = {"list": "ls", "dir": "ls", "tree": "ls", "describe": "info", "desc": "info", "schema": "info", "show": "info", "query": "sql", "select": "sql", "cat": "head", "cp": "copy", "consolidate": "upkeep",
                "vacuum": "upkeep", "verify": "check"}


def _like(word, words):
    import difflib
    return next(iter(difflib.get_close_matches(word, words, 1)), None)


def _strange_verb(word, verbs):
    """Returns the message about a word in the place of the verb."""
    if re.match(r"\s*(SELECT|WITH|VALUES)\s", word, re.IGNORECASE):
        hint = "say sql before a SELECT"
    elif "/" in word or os.path.exists(word):
        hint = f"say a verb before the path, as in `tessera info {word}`"
    elif word == "help":
        hint = "say --help, also behind a verb"
    else:
        like = _OTHER_VERBS.get(word.lower()) or _like(word.lower(), verbs)
        hint = f"did you mean {like}?" if like else "tessera --help says what they do"
    return f"{word!r} is no verb: {', '.join(verbs)}; {hint}"


def _check_rest(parser, args, rest):
    """Fails if arguments are left that no option of the verb takes."""
    if not rest:
        return
    options = sorted(option for option in parser.verbs[args.verb]._option_string_actions if option.startswith("--"))
    word = next((word for word in rest if word.startswith("-")), None)
    if word is None:
        parser.error(f"{args.verb}: {rest[0]!r} is one argument too many: a text with blanks is in quotes")
    like = _like(word.partition("=")[0], options)
    parser.error(f"{args.verb} has no option {word.partition('=')[0]}" + (f": did you mean {like}?" if like else f": it has {', '.join(options)}"))


def _parser():
    from . import __version__
    parser = _Parser("tessera", description="Arrays of TileDB's format as SQL tables.")
    parser.add_argument("--version", action="version", version=f"tessera {__version__}")
    _add_output(parser, None)
    parser.verbs = {}
    verbs = parser.add_subparsers(dest="verb", metavar="VERB", required=True)

    def verb(name, run, says, *arguments):
        made = parser.verbs[name] = verbs.add_parser(name, help=says, description=says)
        _add_output(made, argparse.SUPPRESS)
        for words, options in arguments:
            made.add_argument(*words, **options)
        made.set_defaults(run=run)

    path = (("path",), {"help": "an array or a group: a directory, or s3://bucket/path, azure://container/path, gcs://bucket/path"})
    storage = (("--storage",), {"metavar": "NAME=VALUE", "action": "append", "help": "an option of tessera_configure for the buckets that the command names"})
    database = (("-d", "--database"), {"metavar": "FILE", "help": "a database file; without it one in memory"})
    attach = (("--attach",), {"metavar": "GROUP", "action": "append", "help": "show the arrays of a group as tables"})
    verb("ls", _ls, "list arrays and groups below a path", path, storage, (("-r", "--recursive"), {"action": "store_true", "help": "at any depth"}))
    verb("info", _info, "show the schema, size, metadata and what could be better", path, storage, (("--ddl",), {"action": "store_true", "help": "as CREATE VIRTUAL TABLE"}))
    verb("sql", _sql, "run a SELECT; paths in quotes are tables", (("text",), {"help": "the SELECT, or - for standard input"}), database, attach, storage,
         (("-p", "--parameter"), {"metavar": "NAME=VALUE", "action": "append", "help": "the value of :NAME"}),
         (("--explain",), {"action": "store_true", "help": "say how it is evaluated"}), (("--arrow",), {"metavar": "FILE", "help": "write an Arrow file"}))
    verb("head", _head, "show the first rows", path, storage, (("-n",), {"type": _count, "metavar": "N", "default": 10, "help": "so many; 10 by default"}),
         (("--where",), {"metavar": "CONDITION", "help": "those that satisfy it, as behind WHERE"}))
    verb("upkeep", _upkeep, "merge small fragments and remove what was merged, in an array or in those of a group", path, storage, (("--seconds",), {"type": float, "help": "stop after so many"}))
    verb("check", _check, "check all that an array or a group stores; the exit status is 1 if there are errors", path, storage)
    verb("copy", _copy, "copy an array, or change its schema", (("source",), {"metavar": "FROM"}), (("target",), {"metavar": "TO"}), storage,
         (("--set",), {"metavar": "NAME=VALUE", "action": "append", "help": "an option of tessera_copy"}))
    verb("demo", _demo, "copy the arrays of the manual into a folder", (("folder",), {"nargs": "?", "default": "demo"}))
    verb("shell", _shell, "start sqlite3 with tessera loaded", (("file",), {"metavar": "FILE", "nargs": "?", "help": "a database file, as -d"}),
         (("statements",), {"metavar": "SQL", "nargs": "*", "help": "run these, and end"}), database, attach)
    return parser


def main(arguments: list[str] | None = None) -> int:
    """Runs the command, and returns its exit status."""
    from .errors import Error, Interrupted
    if sys.stdout is None:   # it was closed: `tessera ... >&-`
        sys.stdout = open(os.devnull, "w")
    for stream in (sys.stdout, sys.stderr):   # a name that is no UTF-8 is printed as the bytes that it has
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="surrogateescape" if (stream.encoding or "").lower().replace("-", "") == "utf8" else "backslashreplace")
    parser = _parser()
    args, rest = parser.parse_known_args(arguments)
    _check_rest(parser, args, rest)
    try:
        status = args.run(args)
        sys.stdout.flush()
        return status
    except BrokenPipeError:   # `tessera sql ... | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except Interrupted:   # Ctrl-C: what the handler of the signal raises is lost in SQLite
        return 130
    except Exception as e:
        if "interrupted" in str(e) and type(e).__module__ in ("sqlite3", "apsw"):
            return 130
        if not isinstance(e, (Error, OSError, ValueError, TypeError, KeyError, ImportError, ArithmeticError, NotImplementedError)) and type(e).__module__ not in ("sqlite3", "apsw"):
            raise
        text = e.args[0] if isinstance(e, KeyError) and e.args else str(e)   # a KeyError quotes its message
        if isinstance(e, UnicodeEncodeError):
            text = f"{e.object!r} is no UTF-8, in which SQL has texts and paths"
        print(f"tessera: {_line(' '.join(str(text).split()))}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
