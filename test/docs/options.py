"""The manual's tables of options are those of the extension: the same names, and the same limits of numbers.

usage: options.py EXTENSION ROOT
The extension says what it takes: the message about an unknown option lists all names, and that about a wrong number its limits. So each
place that takes options is also asked whether it has one wording for unknown, repeated and wrong options, and one limit for an option that
several places share.
"""
import os
import re
import sqlite3
import sys

RELIEF = "sql/data/relief"
# place: (a statement with %s for the options, the page or pages, the headings of its tables, names that other tables or text of the page explain)
CALLS = {
    "CREATE VIRTUAL TABLE": (f"CREATE VIRTUAL TABLE x USING tessera('{RELIEF}', %s)", ("options.md", "new-arrays.md"), ("Options of a table", "Options of a new array"), ()),
    "tessera_query": ("CREATE VIRTUAL TABLE x USING tessera_query(%s, SELECT count(*) FROM relief)", "../explained/queries.md", (), ("memory_mb", "threads")),
    "tessera_npy": (f"SELECT tessera_npy('{RELIEF}', 'elevation', '{{\"y\":1}}', '%s')", "functions/blocks.md", ("tessera_npy",), ()),
    "tessera_png": (f"SELECT tessera_png('{RELIEF}', 'elevation', NULL, '%s')", "functions/pictures.md", ("tessera_png",), ()),
    "tessera_make_overviews": ("SELECT tessera_make_overviews('db:dense', '%s')", "functions/pictures.md", ("tessera_make_overviews",), ()),
    "tessera_stream": (f"SELECT tessera_stream('{RELIEF}', NULL, '%s')", "functions/arrow.md", ("tessera_stream",), ()),
    "tessera_rows": ("SELECT tessera_rows('SELECT 1 AS a', '%s')", "functions/arrow.md", ("tessera_rows",), ()),
    "tessera_create_as": ("SELECT tessera_create_as('db:x', 'SELECT 1 AS a', '%s')", "functions/create.md", ("tessera_create_as",), ()),
    "tessera_create_csv": ("SELECT tessera_create_csv('db:x', 'sql/data/airports.csv', '%s')", "functions/create.md", ("tessera_create_as", "tessera_create_csv"), ()),
    "tessera_consolidate": ("SELECT tessera_consolidate('db:made', 'fragments', '%s')", "functions/merging.md", ("tessera_consolidate",), ()),
    "tessera_upkeep": ("SELECT tessera_upkeep('db:made', '%s')", "functions/merging.md", ("tessera_upkeep",), ()),
    "tessera_vacuum": ("SELECT tessera_vacuum('db:made', 'fragments', '%s')", "functions/merging.md", ("tessera_vacuum",), ()),
    "tessera_drop": ("SELECT tessera_drop('nothing', '%s')", "functions/members.md", ("tessera_drop",), ()),
    "tessera_recover": ("SELECT tessera_recover('db:made', '%s')", "functions/merging.md", ("tessera_recover",), ()),
    "tessera_ddl": ("SELECT tessera_ddl('db:made', '%s')", "functions/miscellaneous.md", ("tessera_ddl",), ()),
    "tessera_copy": (f"SELECT tessera_copy('{RELIEF}', 'db:x', '%s')", "functions/copies.md", ("tessera_copy",), ()),
    "tessera_regrid": (f"SELECT tessera_regrid('{RELIEF}', 'db:x', '{{\"y\":2}}', 'mean', '%s')", "functions/copies.md", ("tessera_regrid",), ()),
    "tessera_configure": ("SELECT tessera_configure('s3://bucket', '%s')", "buckets.md", ("Options",), ("provider", "key_id", "secret", "session_token", "key", "sas", "token", "tenant_id", "client_id",
                          "client_secret", "service_account", "service_account_file")),
}


def message(db, place, *options):
    """What the place says to options, each a name and a value."""
    sql = CALLS[place][0].startswith("CREATE")
    text = ", ".join(f"{name}={value}" for name, value in options) if sql else "{%s}" % ",".join(f'"{name}":{value}' for name, value in options)
    try:
        db.execute("SAVEPOINT s")
        db.execute(CALLS[place][0] % text).fetchall()
    except sqlite3.Error as error:
        return str(error)
    finally:
        db.execute("ROLLBACK TO s")
        db.execute("RELEASE s")
    return "no error"


def section(page, heading):
    """The text below a heading, up to the next heading of its depth or a lesser one."""
    found = re.search(rf"^(#+) {re.escape(heading)}\n(.*?)(?=^#{{1,3}} |\Z)", page, re.M | re.S)
    assert found, heading
    return found.group(2)


def documented(page, headings):
    """Names of options, and the first number range in the row of each, of the tables that begin with `| option`."""
    options = {}
    for heading in headings:
        for table in re.findall(r"^\| option \|.*\n((?:\|.*\n)+)", section(page, heading), re.M):
            for row in table.splitlines()[1:]:
                first, values = row.strip("| ").split(" | ")[:2] if " | " in row else (row, "")
                limits = re.match(r"(\d[\d,]*) to (\d[\d,]*)$", values.strip())
                for name in re.findall(r"`(\w+)`", first):
                    options[name] = tuple(int(end.replace(",", "")) for end in limits.groups()) if limits else None
    return options


def faults_of(db, place, pages):
    _, page, headings, others = CALLS[place]
    found = re.search(r"no option is called 'nothing': ([\w, ]+)", message(db, place, ("nothing", 1)))
    if not found:
        return [f"{place}: {message(db, place, ('nothing', 1))}"]
    names, told = set(found.group(1).split(", ")), documented(pages[page], headings)
    faults = [f"{page} lacks the option {name} of {place}" for name in sorted(names - set(told) - set(others))]
    faults += [f"{page} has the option {name}, which {place} does not" for name in sorted((set(told) | set(others)) - names)]
    faults += [f"{page} does not mention `{name}`, of {place}" for name in others if f"`{name}`" not in pages[page] and f'"{name}":' not in pages[page]]
    for name in sorted(names):
        twice = message(db, place, (name, "null"), (name, "null")) if not CALLS[place][0].startswith("CREATE") else None
        if twice is not None and f"the option '{name}' is given twice" not in twice:
            faults.append(f"{place}: {name} twice: {twice}")
        limits = re.search(rf"'{name}': expected an integer from (\d+) to (\d+)", message(db, place, (name, -1)))
        limits = limits and tuple(int(end) for end in limits.groups())
        if told.get(name) and told[name] != limits:
            faults.append(f"{page}: {name} of {place} from {told[name][0]} to {told[name][1]}, but the extension takes {limits}")
    return faults


SHARED = ("memory_mb", "cache_mb", "threads")


def shared_faults(db):
    """An option with one name has one limit and one wording, wherever it stands."""
    faults = []
    for name in SHARED:
        wordings = {}
        for place in [place for place in CALLS if "no option is called" not in message(db, place, (name, 1))]:
            for value in (-1, 0, 1.5, 2 ** 40, 2 ** 40 + 1, 256, 257, 10 ** 30):
                found = re.search(rf"'{name}': .*", message(db, place, (name, value)))
                wordings.setdefault(value, {}).setdefault(found.group(0) if found else "taken", []).append(place)
        faults += [f"{name}={value}: {texts}" for value, texts in wordings.items() if len(texts) > 1]
        assert wordings, name
    return faults


def main():
    extension, root = os.path.abspath(sys.argv[1]), sys.argv[2]
    os.chdir(root)
    db = sqlite3.connect(":memory:", isolation_level=None)
    db.enable_load_extension(True)
    db.load_extension(extension)
    db.execute(f"CREATE VIRTUAL TABLE relief USING tessera('{RELIEF}')")
    db.execute("CREATE VIRTUAL TABLE made USING tessera(x INT32 DIMENSION, a INT8)")
    db.execute("CREATE VIRTUAL TABLE dense USING tessera(kind=dense, y INT32 DIMENSION(0, 599, 100), x INT32 DIMENSION(0, 599, 100), v INT8)")
    pages = {}
    for page in {call[1] for call in CALLS.values()}:
        for name in (page,) if isinstance(page, str) else page:
            with open(os.path.join("docs/reference", name), encoding="utf-8") as f:
                pages[page] = pages.get(page, "") + f.read()
    faults = [fault for place in CALLS for fault in faults_of(db, place, pages)] + shared_faults(db)
    print("\n".join(faults + [f"{len(CALLS)} places, {len(faults)} faults"]))
    return len(faults) > 0


if __name__ == "__main__":
    sys.exit(main())
