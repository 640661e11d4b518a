"""The reference has each name that the extension registers: the index of docs/reference/README.md and the list of functions in functions.md
have functions, modules and names that several of them share; a column of a table, or an option, filter or error, is in the entry that lists
its kind. A row of the index is in alphabetical order. No file but the changelog has a name that was given up.

usage: index.py EXTENSION ROOT
The names come from the extension itself: SQLite's lists of functions and modules, the columns of the tessera_* tables, the
counters, and the messages that list all options of a table, of a function, and all filters. The error codes come from
ext/connection/errors.c.
"""
import os
import re
import sqlite3
import sys

import pages

RELIEF = "sql/data/relief"
LISTS = [  # statements whose message lists all names of a kind, and what stands around the list
    (f"CREATE VIRTUAL TABLE x USING tessera('{RELIEF}', nothing=1)", r"'nothing': (.*)"),
    (f"SELECT tessera_copy('{RELIEF}', 'db:x', '{{\"filters\":{{\"elevation\":\"nothing\"}}}}')", r"\(filters are (.*)\)"),
    (f"SELECT tessera_copy('{RELIEF}', 'db:x', '{{\"nothing\":1}}')", r"'nothing': (.*)"),
    (f"SELECT tessera_consolidate('db:made', 'fragments', '{{\"nothing\":1}}')", r"'nothing': (.*)"),
    (f"SELECT tessera_consolidate('db:made', 'nothing')", r"expected (.*)"),
    (f"SELECT tessera_vacuum('db:made', 'fragments', '{{\"nothing\":1}}')", r"'nothing': (.*)"),
    (f"SELECT tessera_recover('db:made', '{{\"nothing\":1}}')", r"'nothing': (.*)"),
    (f"SELECT tessera_drop('nothing', '{{\"nothing\":1}}')", r"'nothing': (.*)"),
    (f"SELECT tessera_ddl('db:made', '{{\"nothing\":1}}')", r"'nothing': (.*)"),
    (f"SELECT tessera_png('{RELIEF}', 'elevation', NULL, '{{\"nothing\":1}}')", r"'nothing': (.*)"),
    (f"SELECT tessera_png('{RELIEF}', 'elevation', NULL, '{{\"colormap\":\"nothing\"}}')", r"'nothing': (.*)"),
]


# Names of 0.1, and what says the same now: CHANGELOG.md has the whole table.
GONE = {
    r"tessera_(export|import)\b": "tessera_sync(from, to)",
    r"tessera_drop_array\b": "tessera_drop",
    r"tessera_delete_metadata\b": "tessera_set_metadata(path, key, NULL)",
    r"tessera_remove_member\b": "tessera_drop_member",
    r"(?<!key = ')tessera_overviews(\(|\]|', '\{|$)|#tessera_overviews\b": "tessera_make_overviews",
    r"tessera_s3\b": "tessera_configure",
    r"tessera_recover\([^()]*, ?'disown'": "tessera_recover(path, '{\"disown\":true}')",
    r"\barg[1-4] (BLOB|=)|\bWHERE _(key|schema)\b|tessera_(array|schema|fragments|tiles|check|aggregate)\([^()]*\) WHERE (key|schema) ": "attribute, array_key ...: the names of hidden columns",
    r"\"enums\\?\": ?\[[\\\"]|\benums=\[": "enumerate",
    r"\"header\\?\": ?\[|\bheader=\[": "names",
}
PLACES = ("core", "docs", "ext", "sql", "test", "README.md", "CONTRIBUTING.md", "SECURITY.md", "run")


def gone():
    """The lines with a name that was given up."""
    found = []
    every = re.compile("|".join(f"({pattern})" for pattern in GONE), re.M)
    for place in PLACES:
        paths = [os.path.join(folder, name) for folder, _, names in os.walk(place) for name in names] or [place]
        for path in sorted(paths):
            try:
                with open(path, encoding="utf-8") as f:
                    text = f.read()
            except (UnicodeDecodeError, OSError):
                continue
            if not every.search(text) or os.path.samefile(path, __file__):
                continue
            for pattern, now in GONE.items():
                found += [f"{path}:{text.count(chr(10), 0, match.start()) + 1}: {match.group(0)} is now {now}" for match in re.finditer(pattern, text, re.M)]
    return found


def message(db, statement):
    try:
        db.execute(statement).fetchall()
    except sqlite3.Error as error:
        return str(error)
    raise AssertionError(f"{statement} has no error")


def registered(extension, root):
    """Each name, with the tables and functions whose entries may document it instead of the index."""
    db = sqlite3.connect(":memory:")
    db.enable_load_extension(True)
    db.load_extension(extension)
    os.chdir(root)
    db.execute(f"CREATE VIRTUAL TABLE relief USING tessera('{RELIEF}', labels=no)")
    db.execute("CREATE VIRTUAL TABLE made USING tessera(x INT32 DIMENSION, a INT8)")
    names = {row[0] for row in db.execute("SELECT DISTINCT name FROM pragma_function_list WHERE name LIKE 'tessera%'")}
    modules = [row[0] for row in db.execute("SELECT name FROM pragma_module_list WHERE name LIKE 'tessera_%'")]
    assert len(names) > 20 and len(modules) > 10, (names, modules)
    names = {name: set() for name in names}
    for table in modules:
        names.setdefault(table, set())
        columns = {row[0] for row in db.execute("SELECT name FROM pragma_table_xinfo(?)", (table,))}
        for name in columns:
            if not re.fullmatch(r"[cv]\d+", name) or name.endswith("1") and len(name) == 2:  # c1 stands for c1 to c64
                names.setdefault(name, set()).add(table)
    names.update({row[0]: set() for row in db.execute("SELECT name FROM pragma_table_xinfo('relief') WHERE hidden")})
    names.update({row[0]: {"tessera_stats"} for row in db.execute("SELECT name FROM tessera_stats")})
    for statement, pattern in LISTS:
        found = re.search(pattern, message(db, statement))
        assert found, statement
        place = "Filters" if "filters are" in pattern else re.search(r"SELECT (tessera_\w+)|CREATE VIRTUAL TABLE", statement)
        for name in re.split(r", | or ", found.group(1)):
            names.setdefault(name, set()).add(place if isinstance(place, str) else place.group(1) or place.group(0))
    with open("ext/connection/errors.c", encoding="utf-8") as f:
        translation = f.read().split("int tsx_core_code")[0]
    names.update((code, {"All codes"}) for code in re.findall(r"return (SQLITE_\w+)", translation) if code not in ("SQLITE_OK", "SQLITE_CORRUPT_VTAB"))
    return names


def index_rows():
    """The names of each row of the index: its code spans, or the texts of its links where the row links each name."""
    with open("docs/reference/README.md", encoding="utf-8") as f:
        rows = re.findall(r"^\| (.*) \| (.*) \|$", f.read().split("\n## Index\n")[1], re.M)
    tables = re.findall(r"^\[(tessera_\w+)\]", "\n".join(first for first, _ in rows), re.M)
    return [tables, *(re.findall(r"`([^`]+)`", second) or re.findall(r"\[([^\]]+)\]\(", second) for _, second in rows)]


def functions_listed():
    """The functions on the page that lists all of them."""
    with open("docs/reference/functions.md", encoding="utf-8") as f:
        return set(re.findall(r"\[(tessera_\w+)\]\([^)]*#", f.read().split("\n## All functions\n")[1]))


def entries():
    """The words in code of the entry of each table and function: what follows its heading, up to the next one of its level."""
    found = {}
    for page in pages.find(".", "docs/reference"):
        for part in re.split(r"^## ", pages.read(".", page), flags=re.M)[1:]:
            heading = part.split("\n")[0]
            heading = "CREATE VIRTUAL TABLE" if heading in ("Options of a table", "Options of a new array") else heading
            found.setdefault(heading, set()).update(word for span in pages.CODE_SPAN.findall(part) for word in re.findall(r"\w+", span[1]))
    return found


def undocumented(names, listed, found):
    """What the reference lacks: a name that the index does not have needs a place in each entry that it belongs to."""
    for name, places in sorted(names.items()):
        if name not in listed:
            lacking = [place for place in sorted(places) if name not in found.get(place, set()) | found["What they share"]]
            yield from (f"docs/reference has no {name} in the entry {place}" for place in lacking)
            if not places:
                yield f"docs/reference/README.md does not have {name}"


def main():
    extension, root = os.path.abspath(sys.argv[1]), sys.argv[2]
    names = registered(extension, root)
    rows = index_rows()
    listed = {name for row in rows for name in row} | functions_listed()
    faults = list(undocumented(names, listed, entries()))
    for row in rows:
        keys = [name.lower().lstrip("_") for name in row]
        faults += [f"docs/reference/README.md has {b} behind {a}" for a, b in zip(keys, keys[1:]) if a >= b]
    faults += gone()
    print("\n".join(faults + [f"{len(names)} names, {len(listed)} in the index, {len(faults)} faults"]))
    return len(faults) > 0


if __name__ == "__main__":
    sys.exit(main())
