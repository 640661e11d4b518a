"""The command `tessera`: ls, info, head, sql, upkeep, check, copy, demo, shell. Its import is cheap, so that a command starts fast.

Results go to stdout: a box on a terminal, CSV elsewhere, unless an option says otherwise. Errors are one line on stderr, and the exit status 2.
"""
from __future__ import annotations

import argparse
import csv
import json
import os
import sys

__all__ = ["main"]


def _connect(file=None):
    """Returns a connection with tessera: of sqlite3, or apsw where it cannot load extensions."""
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


def _box(columns, rows):
    cells = [[_shown(value).replace("\n", " ") for value in row] for row in rows]
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
        for number, row in enumerate(rows):
            cells = [v.hex() if isinstance(v, bytes) else v for v in row]
            print(("[" if number == 0 else ",\n ") + json.dumps(dict(zip(columns, cells)), ensure_ascii=False), end="")
            last = number
        print("]" if "last" in locals() else "[]")
    elif form == "markdown":
        print("| " + " | ".join(columns) + " |\n|" + "---|" * len(columns))
        for row in rows:
            print("| " + " | ".join(_shown(v).replace("|", "\\|").replace("\n", " ") for v in row) + " |")
    else:
        _box(columns, list(rows))


def _limited(rows, limit):
    return rows if limit is None else (row for _, row in zip(range(limit), rows))


# ---- Verbs ---------------------------------------------------------------------------------------------------------------

def _ls(args):
    connection = _connect()
    depth = "" if args.recursive else " AND instr(rtrim(substr(o.path, length(?1) + 2), '/'), '/') = 0"
    found = _rows(connection, f"SELECT o.path, o.kind FROM tessera_objects(?1) o WHERE 1{depth} ORDER BY o.path", (args.path.rstrip("/"),))
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
    connection = _connect()
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
    print(card(array).rpartition("\n")[0])   # its last line is for Python
    facts = array._about("format_version, capacity, cell_order, tile_order, duplicates", "tessera_array")[0]
    print(f"  format {facts[0]}, {facts[2]}-major cells, {facts[3]}-major tiles" + (f", capacity {facts[1]}" if array.kind == "sparse" else "") + (", duplicates" if facts[4] else ""))
    for key, value in array.metadata.items():
        text = " ".join(str(value).split())
        print(f"  metadata  {key}: {text if len(text) <= 100 else text[:97] + '...'}")
    for finding, detail in _rows(connection, "SELECT finding, detail FROM tessera_advise(?)", (args.path,)):
        print(f"  advice    {finding}: {detail}")
    return 0


def _sql(args):
    from .results import sql
    connection = _connect(args.database)
    for group in args.attach or ():
        _rows(connection, "SELECT tessera_attach(?)", (group,))
    params = {}
    for given in args.parameter or ():
        name, equals, value = given.partition("=")
        if not equals:
            raise ValueError(f"-p {given!r}: expected NAME=VALUE")
        params[name] = _literal(value)
    result = sql(sys.stdin.read() if args.text == "-" else args.text, params, connection=connection)
    if args.explain:
        result.explain()
    elif args.arrow:
        try:
            import pyarrow
            import pyarrow.ipc
        except ModuleNotFoundError:
            raise ModuleNotFoundError("--arrow needs pyarrow: pip install pyarrow") from None
        reader = pyarrow.RecordBatchReader.from_stream(result)
        with pyarrow.OSFile(args.arrow, "wb") as file, pyarrow.ipc.new_file(file, reader.schema) as out:
            for batch in reader:
                out.write_batch(batch)
    else:
        _print(args.form, result.columns, _limited(result, args.limit))
    return 0


def _literal(text):
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def _head(args):
    from . import statements
    from .results import sql
    limit = args.n if args.limit is None else args.limit
    where = f" WHERE {args.where}" if args.where else ""
    result = sql(f"SELECT * FROM {statements.text(args.path if '/' in args.path else './' + args.path)}{where} LIMIT {int(limit)}", connection=_connect())
    _print(args.form, result.columns, result)
    return 0


def _upkeep(args):
    options = {"seconds": args.seconds} if args.seconds is not None else {}
    print(_rows(_connect(), "SELECT tessera_upkeep(?, ?)", (args.path, json.dumps(options)))[0][0])
    return 0


def _check(args):
    rows = _rows(_connect(), "SELECT severity, file, message FROM tessera_check(?)", (args.path,))
    _print(args.form, ("severity", "file", "message"), _limited(rows, args.limit))
    return 1 if any(severity == "error" for severity, *_ in rows) else 0


def _copy(args):
    options = {}
    for given in args.set or ():
        name, equals, value = given.partition("=")
        if not equals:
            raise ValueError(f"--set {given!r}: expected NAME=VALUE")
        try:
            options[name] = json.loads(value)
        except ValueError:
            options[name] = value
    cells = _rows(_connect(), "SELECT tessera_copy(?, ?, ?)", (args.source, args.target, json.dumps(options)))[0][0]
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
    for group in args.attach or ():
        text = group.replace("'", "''")
        commands += ["-cmd", f"SELECT tessera_attach('{text}') || ' tables';"]
    try:
        os.execvp("sqlite3", ["sqlite3", *commands, args.file or args.database or ":memory:"])
    except FileNotFoundError:
        raise FileNotFoundError("the program sqlite3 is not installed: apt install sqlite3, or brew install sqlite") from None


# ---- The command ---------------------------------------------------------------------------------------------------------

def _add_output(parser, default):
    """Adds the options of output, which may stand before the verb and behind it."""
    forms = parser.add_mutually_exclusive_group()
    for form in ("json", "csv", "box", "markdown"):
        forms.add_argument(f"--{form}", dest="form", action="store_const", const=form, default=default, help=f"print rows as {form}")
    parser.add_argument("--limit", type=int, metavar="N", default=default, help="print at most N rows")


def _parser():
    from . import __version__
    parser = argparse.ArgumentParser("tessera", description="Arrays of TileDB's format as SQL tables.")
    parser.add_argument("--version", action="version", version=f"tessera {__version__}")
    _add_output(parser, None)
    verbs = parser.add_subparsers(dest="verb", metavar="VERB", required=True)

    def verb(name, run, says, *arguments):
        made = verbs.add_parser(name, help=says, description=says)
        _add_output(made, argparse.SUPPRESS)
        for words, options in arguments:
            made.add_argument(*words, **options)
        made.set_defaults(run=run)

    path = (("path",), {"help": "an array or a group: a directory, or s3://bucket/path, azure://container/path, gcs://bucket/path"})
    database = (("-d", "--database"), {"metavar": "FILE", "help": "a database file; without it one in memory"})
    attach = (("--attach",), {"metavar": "GROUP", "action": "append", "help": "show the arrays of a group as tables"})
    verb("ls", _ls, "list arrays and groups below a path", path, (("-r", "--recursive"), {"action": "store_true", "help": "at any depth"}))
    verb("info", _info, "show the schema, size, metadata and what could be better", path, (("--ddl",), {"action": "store_true", "help": "as CREATE VIRTUAL TABLE"}))
    verb("sql", _sql, "run a SELECT; paths in quotes are tables", (("text",), {"help": "the SELECT, or - for standard input"}), database, attach,
         (("-p", "--parameter"), {"metavar": "NAME=VALUE", "action": "append", "help": "the value of :NAME"}),
         (("--explain",), {"action": "store_true", "help": "say how it is evaluated"}), (("--arrow",), {"metavar": "FILE", "help": "write an Arrow file"}))
    verb("head", _head, "show the first rows", path, (("-n",), {"type": int, "default": 10}), (("--where",), {"metavar": "CONDITION"}))
    verb("upkeep", _upkeep, "merge small fragments and remove what was merged", path, (("--seconds",), {"type": float, "help": "stop after so many"}))
    verb("check", _check, "check all that is stored; the exit status is 1 if there are errors", path)
    verb("copy", _copy, "copy an array, or change its schema", (("source",), {"metavar": "FROM"}), (("target",), {"metavar": "TO"}),
         (("--set",), {"metavar": "NAME=VALUE", "action": "append", "help": "an option of tessera_copy"}))
    verb("demo", _demo, "copy the arrays of the manual into a folder", (("folder",), {"nargs": "?", "default": "demo"}))
    verb("shell", _shell, "start sqlite3 with tessera loaded", (("file",), {"metavar": "FILE", "nargs": "?", "help": "a database file, as -d"}), database, attach)
    return parser


def main(arguments: list[str] | None = None) -> int:
    """Runs the command, and returns its exit status."""
    from .errors import Error
    args = _parser().parse_args(arguments)
    try:
        status = args.run(args)
        sys.stdout.flush()
        return status
    except BrokenPipeError:   # `tessera sql ... | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except Exception as e:
        if not isinstance(e, (Error, OSError, ValueError, TypeError, KeyError, ImportError)) and type(e).__module__ not in ("sqlite3", "apsw"):
            raise
        text = e.args[0] if isinstance(e, KeyError) and e.args else str(e)   # a KeyError quotes its message
        print(f"tessera: {' '.join(str(text).split())}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
