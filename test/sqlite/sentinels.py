"""No name in an array's files leads a read or a removal out of the array: names with '/' and '..', absolute names, and
symbolic links, in every kind of file that holds names. Beside each array lies a sentinel, which must not change.

usage: sentinels.py EXTENSION CORPUS [WORDS IN TESTS' NAMES]
"""
import os
import shutil
import struct
import sys
import tempfile
import time

import host
from host import Database, Error, literal, same

UUID = "0123456789abcdef0123456789abcdef"
NAME = f"__1_1_{UUID}_22"


def tree(folder):
    found = {}
    for directory, directories, files in os.walk(folder):
        for name in directories + files:
            path = os.path.join(directory, name)
            found[os.path.relpath(path, folder)] = open(path, "rb").read() if os.path.isfile(path) else None
    return found


class Place:
    """A directory with an array of two fragments in it, `array`, and beside it `outside` with directories that are named as fragments,
    metadata and schemas are, all of them old."""

    def __init__(self, columns="x INT DIMENSION(0, 100), a INT, e TEXT ENUM('p', 'q')", merged=False):
        self.folder = tempfile.mkdtemp(dir=host.FOLDER)
        self.array, self.outside = os.path.join(self.folder, "array"), os.path.join(self.folder, "outside")
        self.db = Database(os.path.join(self.folder, "t.db"))
        self.db.query(f"CREATE VIRTUAL TABLE t USING tessera({literal(self.array)}, {columns})")
        self.db.query("INSERT INTO t VALUES(1, 1, 'p')")
        self.db.query("INSERT INTO t VALUES(2, 2, 'q')")
        self.db.query("SELECT tessera_set_metadata('db:t', 'k', 1)")
        self.db.query("SELECT tessera_set_metadata('db:t', 'k', 2)")
        if merged:
            self.db.query("SELECT tessera_consolidate('db:t')")
        for name in (NAME, "__meta", "__fragments", "__commits", "__schema"):
            os.makedirs(os.path.join(self.outside, name))
            for inner in ("a0.tdb", NAME, "__fragment_metadata.tdb", "secret"):
                self.put(os.path.join(self.outside, name, inner), "not yours")
        self.put(os.path.join(self.outside, NAME + ".wrt"), "not yours")
        self.age(self.outside)
        self.before = tree(self.outside)

    def put(self, path, text):
        with open(path, "w") as f:
            f.write(text)

    def age(self, folder):
        old = time.time() - 3 * 86400
        for directory, directories, files in os.walk(folder):
            for name in directories + files:
                os.utime(os.path.join(directory, name), (old, old), follow_symlinks=False)
        os.utime(folder, (old, old))

    def path(self, *parts):
        return os.path.join(self.array, *parts)

    def try_all(self, what):
        """Reads, inspects, checks, consolidates, vacuums and drops. Errors are allowed, rows of other arrays are not."""
        db = Database(os.path.join(self.folder, "t.db"))
        said = []
        for sql in ("SELECT x, a FROM t", "SELECT * FROM tessera_fragments('db:t')", "SELECT * FROM tessera_metadata('db:t')",
                    "SELECT * FROM tessera_check('db:t')", "SELECT tessera_consolidate('db:t')", "SELECT tessera_consolidate('db:t', 'commits')",
                    "SELECT tessera_consolidate('db:t', 'fragment_meta')", "SELECT tessera_consolidate('db:t', 'array_meta')",
                    "SELECT tessera_vacuum('db:t')", "SELECT x, a FROM t"):
            try:
                rows = db.query(sql)
                assert "not yours" not in repr(rows), (what, sql, rows)
                if sql.startswith("SELECT x"):
                    assert set(rows) <= {(1, 1), (2, 2)}, (what, rows)
            except Error as e:
                said.append(e.text)
                assert "not yours" not in e.text, (what, e.text)
        same(tree(self.outside), self.before, f"{what}: {said}")
        db.close()

    def drop(self, what):
        db = Database()
        try:
            db.query(f"SELECT tessera_drop({literal(self.array)})")
        except Error:
            pass
        db.close()
        same(tree(self.outside), self.before, what)
        self.db.close()
        shutil.rmtree(self.folder)


def hostile(place):
    """Returns names that lead to the sentinel beside the array."""
    return (f"../outside/{NAME}", f"/../outside/{NAME}", f"__fragments/../../outside/{NAME}", f"/__fragments/../../outside/{NAME}", f"{place.outside}/{NAME}",
            f"file://{place.outside}/{NAME}", f"//{place.outside}/{NAME}", f"__fragments/{NAME}/../../../outside/{NAME}")


def test_names_in_vacuum_files():
    """Vacuum files of fragments, whose merged fragment is committed, and of metadata."""
    for merged in (False, True):
        place = Place(merged=merged)
        committed = sorted(n[:-4] for n in os.listdir(place.path("__commits")) if n.endswith(".wrt"))[-1]
        lines = "".join(f"{name}\n" for name in hostile(place))
        place.put(place.path("__commits", committed + ".vac"), lines)
        meta = sorted(os.listdir(place.path("__meta")))[-1]
        place.put(place.path("__meta", meta + ".vac"), lines.replace(NAME, f"__meta/{NAME}"))
        place.try_all("names in .vac")
        place.drop("names in .vac")


def test_names_in_commits():
    """Names in .con and .ign files and in markers of prepared commits."""
    for suffix, form in ((".con", "{}.wrt\n"), (".ign", "{}.wrt\n"), (".pending", "{}.wrt\n{}\n\n" + "/elsewhere.db\n"), (".vac.new", "{}\n")):
        place = Place()
        for i, name in enumerate(hostile(place)):
            text = form.format(name, name) if form.count("{}") == 2 else form.format(name)
            file = f"__{i + 2}_{i + 2}_{UUID}_22{suffix}"
            place.put(place.path("__commits", ("." if suffix == ".vac.new" else "") + file), text)
        place.try_all(f"names in {suffix}")
        place.drop(f"names in {suffix}")


def test_recovery_of_a_marker():
    """A marker with this database's id names paths outside of the array. Recovery removes commits that were not committed."""
    place = Place()
    for i, name in enumerate(hostile(place)):
        commit = f"__commits/__{i + 2}_{i + 2}_{UUID}_22.wrt"
        place.put(place.path("__commits", f"__{i + 2}_{i + 2}_{UUID}_22.pending"), f"{commit}\n{name}\n\n{os.path.join(place.folder, 't.db')}\n")
        place.put(place.path("__commits", f"__{i + 42}_{i + 42}_{UUID}_22.pending"), f"{name}.wrt\n{name}\n\n{os.path.join(place.folder, 't.db')}\n")
    db = Database(os.path.join(place.folder, "t.db"))
    for sql in ("SELECT tessera_recover('db:t')", "INSERT INTO t VALUES(1, 1, 'p')"):
        try:
            db.query(sql)
        except Error:
            pass
        same(tree(place.outside), place.before, sql)
    db.close()
    place.drop("markers")


def test_names_in_groups():
    """Members outside of the group's directory are listed, and never opened."""
    place = Place()
    group = os.path.join(place.folder, "group")
    db = Database()
    db.query("SELECT tessera_create_group(?)", (group,))
    db.query("SELECT tessera_add_member(?, ?, 'm')", (group, place.array))
    same([(r[0], r[1]) for r in db.query("SELECT name, kind FROM tessera_members(?)", (group,))], [("m", "array")])
    db.query("SELECT tessera_consolidate(?)", (group,)), db.query("SELECT tessera_vacuum(?)", (group,))
    db.query("SELECT tessera_drop_member(?, 'm')", (group,))
    assert os.path.isdir(place.path("__schema"))
    same(tree(place.outside), place.before)
    db.close()
    place.drop("groups")


def group_file(members):
    """Returns the bytes of a group's file with members (uri, name or None, relative, is_array)."""
    content = struct.pack("<IQ", 2, len(members))
    for uri, name, relative, is_array in members:
        uri, name = os.fsencode(uri), None if name is None else os.fsencode(name)
        content += struct.pack("<IBBQ", 2, 2 if is_array else 1, relative, len(uri)) + uri
        content += b"\0" if name is None else struct.pack("<BQ", 1, len(name)) + name
        content += b"\0"   # not deleted
    tile = struct.pack("<QIII", 1, len(content), len(content), 0) + content
    pipeline = struct.pack("<II", 65536, 0)
    return struct.pack("<IQQBQBI", 22, len(tile), len(content), 4, 1, 0, len(pipeline)) + pipeline + tile


def test_members_that_lead_out():
    """URIs with '..', with other schemes, absolute ones, links: they are listed as stored, and no operation on the group follows them."""
    place = Place()
    group = os.path.join(place.folder, "group")
    db = Database()
    db.query("SELECT tessera_create_group(?)", (group,))
    os.symlink(place.outside, os.path.join(group, "link"))
    os.symlink(".", os.path.join(group, "self"))
    uris = hostile(place) + ("file:///etc", "file:///etc/passwd", "/etc/passwd", "../../x", "..", ".", "/", "link", "link/__schema", "self", "self/self/self",
                             "s3://bucket/x", "file://../x", "group", "a//b", "a/./b", "link/../..", "\n", "%2e%2e/x")
    members = [(uri, f"m{i}{r}", r, i % 2) for i, uri in enumerate(uris) for r in (0, 1)]
    with open(os.path.join(group, "__group", f"__5_5_{UUID}_2"), "wb") as f:
        f.write(group_file(members))
    rows = db.query("SELECT name, path, kind FROM tessera_members(?)", (group,))
    same(sorted(r[0] for r in rows), sorted(m[1] for m in members))
    by_name = {m[1]: m for m in members}
    for name, path, kind in rows:
        uri, _, relative, is_array = by_name[name]
        told = uri[7:] if uri.startswith("file:///") and not relative else os.path.join(group, "") + uri if relative else uri
        same(path, told, uri)
        if not relative or ".." in uri or uri.startswith("/"):   # not opened: the kind is the one in the file
            same(kind, "array" if is_array else "group", uri)
    for sql in ("SELECT * FROM tessera_metadata(?)", "SELECT * FROM tessera_objects(?)", "SELECT * FROM tessera_check(?)", "SELECT tessera_consolidate(?)", "SELECT tessera_vacuum(?)",
                "SELECT tessera_drop_member(?, 'm00')", "SELECT tessera_drop_member(?, 'm151')"):
        try:
            db.query(sql, (group,))
        except Error as e:
            assert "not yours" not in e.text, e.text
        same(tree(place.outside), place.before, sql)
    assert os.path.isdir(place.path("__schema"))
    db.close()
    place.drop("members that lead out")


def test_circles_of_groups_end():
    """A group that is a member of itself, two that are members of each other, and directories that are endless because of links."""
    place = Place()
    a, b = (os.path.join(place.folder, name) for name in "ab")
    db = Database()
    for group in (a, b):
        db.query("SELECT tessera_create_group(?)", (group,))
    for group, other in ((a, b), (b, a)):
        os.symlink(other, os.path.join(group, "other"))
        with open(os.path.join(group, "__group", f"__5_5_{UUID}_2"), "wb") as f:
            f.write(group_file([(".", "itself", 1, 0), (group, "absolute", 0, 0), (other, "partner", 0, 0), ("other", "inside", 1, 0), ("other/other/other", "deep", 1, 0)]))
    for group in (a, b):
        same(db.query("SELECT name, kind FROM tessera_members(?)", (group,)),
             [("absolute", "group"), ("deep", "group"), ("inside", "group"), ("itself", "group"), ("partner", "group")])
        same(db.query("SELECT count(*) FROM tessera_objects(?)", (group,)), [(1,)])   # the other group, once
        db.query("SELECT tessera_consolidate(?)", (group,)), db.query("SELECT tessera_vacuum(?)", (group,))
    same(sorted(os.path.basename(p) for p, in db.query("SELECT path FROM tessera_objects(?) WHERE kind = 'group'", (place.folder,))), ["a", "b"])
    db.close()
    place.drop("groups in circles")


def test_links_to_fragments():
    """A fragment that is a link is read, since users link their data. A vacuum removes the link, and nothing behind it."""
    place = Place()
    fragments = sorted(os.listdir(place.path("__fragments")))
    real = os.path.join(place.outside, "linked")
    shutil.move(place.path("__fragments", fragments[0]), real)
    os.symlink(real, place.path("__fragments", fragments[0]))
    inner = os.path.join(place.outside, "a0.tdb")
    shutil.move(place.path("__fragments", fragments[1], "a0.tdb"), inner)
    os.symlink(inner, place.path("__fragments", fragments[1], "a0.tdb"))
    place.before = tree(place.outside)
    same(sorted(Database(os.path.join(place.folder, "t.db")).query("SELECT x, a FROM t")), [(1, 1), (2, 2)])
    place.try_all("linked fragments")
    assert not os.path.lexists(place.path("__fragments", fragments[0])), "the link has been vacuumed"
    place.drop("linked fragments")


def test_links_to_directories():
    """A directory of the array is a link to a directory with another array's fragments, which this array has not committed. A vacuum must not remove them."""
    for name in ("__fragments", "__commits", "__meta"):
        place = Place()
        elsewhere = os.path.join(place.outside, "elsewhere")
        shutil.move(place.path(name), elsewhere)
        os.symlink(elsewhere, place.path(name))
        os.makedirs(os.path.join(elsewhere, NAME), exist_ok=True)
        place.put(os.path.join(elsewhere, NAME, "a0.tdb"), "not yours")
        place.put(os.path.join(elsewhere, "." + NAME), "not yours")
        place.age(elsewhere)
        kept = tree(elsewhere)
        db = Database(os.path.join(place.folder, "t.db"))
        for what in ("fragments", "commits", "fragment_meta", "array_meta"):
            for function in ("consolidate", "vacuum"):
                try:
                    db.query(f"SELECT tessera_{function}('db:t', '{what}')")
                except Error as e:
                    assert "symbolic link" in e.text, e.text
        db.close()
        now = tree(elsewhere)
        same({k: v for k, v in now.items() if k in kept}, kept, name)
        place.before = tree(place.outside)
        place.drop(name)


def test_links_and_drop():
    place = Place()
    os.symlink(place.outside, place.path("link"))
    os.symlink(place.outside, place.path("__fragments", NAME))
    os.symlink(os.path.join(place.outside, NAME, "secret"), place.path("__schema", "file"))
    os.symlink("../..", place.path("__meta", "up"))
    place.drop("links below a dropped array")


def test_a_link_to_an_array_is_not_dropped():
    """The path of a drop is itself a symbolic link: neither the link nor the array behind it changes, restricted or not."""
    for restricted in (False, True):
        place = Place()
        before = tree(place.array)
        link = os.path.join(place.folder, "link")
        os.symlink("array", link)
        db = Database(":memory:")
        if restricted:
            db.query("SELECT tessera_restrict(?)", (place.folder,))
        for path in (link, link + "/"):
            try:
                db.query("SELECT tessera_drop(?)", (path,))
                raise AssertionError("a link was dropped")
            except Error as e:
                assert "it is a symbolic link: drop the array by the path to which the link leads" in e.text, e.text
        db.close()
        same(tree(place.array), before, "the array behind the link")
        assert os.path.islink(link)


def test_names_of_schemas_and_enumerations():
    """Bytes of files whose names are replaced by others of the same length: an array whose fragment names a schema outside, and whose
    schema names such a file of labels."""
    for directory, wanted in (("__fragments", "__schema"), ("__schema", "__enumerations")):
        place = Place("x INT DIMENSION(0, 100), a INT, e TEXT ENUM('p', 'q'), coords_filters=(none), offsets_filters=(none)")
        names = sorted(os.listdir(place.path("__schema")))
        schema = [n for n in names if n != "__enumerations"][0]
        labels = os.listdir(place.path("__schema", "__enumerations"))[0]
        target = (schema if directory == "__fragments" else labels).encode()
        changed = 0
        for folder, _, files in os.walk(place.path(directory)):
            for file in files:
                path = os.path.join(folder, file)
                with open(path, "rb") as f:
                    content = f.read()
                if target in content:
                    evil = (b"../../outside/" + NAME.encode() + b"/secret" + b"x" * 200)[:len(target)]
                    with open(path, "wb") as f:
                        f.write(content.replace(target, evil))
                    changed += 1
        if directory == "__fragments":
            assert changed, "the footers name their schema"
        place.try_all(f"names of {wanted}")
        place.drop(f"names of {wanted}")


if __name__ == "__main__":
    host.main(sys.modules[__name__])
