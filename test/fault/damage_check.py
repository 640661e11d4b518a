"""Runs tessera_check on damage of every kind. Each case damages a copy of a sound array in one way and expects exactly
the findings for it. A last test damages arrays at random: the check must return rows or an SQLite error, and find
something whenever a scan of the array fails.

usage: damage_check.py EXTENSION CORPUS [PATTERN]
"""
import os
import random
import re
import shutil
import sqlite3
import struct
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "lib"), os.path.join(HERE, "..", "corpus")]
import arrays
import check
import read
import stored
from stored import change, listed, numbers, u64

CASES = []


def case(array, *expected, count=None):
    """Registers a function that damages a copy of `array`. `expected`: (severity, part of the file's path, regular expression for the
    message); as many findings must come, each as one of these says (count: another number of them; None of it: one each)."""
    def register(function):
        CASES.append((function.__name__, array, function, expected, count))
        return function
    return register


# ---- Helpers of the cases --------------------------------------------------------------------------------------------------------

class Copy:
    """A copy of an array, to be damaged."""
    def __init__(self, directory, description):
        self.directory, self.description = directory, description

    def path(self, *parts):
        return os.path.join(self.directory, *parts)

    def only(self, folder, suffix="", skip=()):
        """Returns the first file of a directory by name."""
        return self.path(folder, sorted(n for n in os.listdir(self.path(folder)) if n.endswith(suffix) and n.startswith("__") and n not in skip)[0])

    def fragment(self, number=0):
        folder = "__fragments" if os.path.isdir(self.path("__fragments")) else ""
        names = sorted(n for n in os.listdir(self.path(folder)) if re.match(r"__\w+_\w+$", n) and os.path.isdir(self.path(folder, n))
                       and re.search(r"\d+_\d+_|_\d+$", n) and n not in ("__fragments",))
        return self.path(folder, names[number])

    def file(self, name, fragment=0):
        return os.path.join(self.fragment(fragment), name)

    def metadata(self, fragment=0):
        return stored.Metadata(self.file("__fragment_metadata.tdb", fragment), self.description)

    def slot(self, field):
        return stored.Metadata.slot(None, self.description, field)


def contents(path):
    with open(path, "rb") as f:
        return f.read()


def put(path, data):
    with open(path, "wb") as f:
        f.write(data)


def flip(path, at):
    data = bytearray(contents(path))
    data[at] ^= 0x10
    put(path, data)


META = "__fragment_metadata.tdb"
SPARSE = "new/filter/dims_noop"      # seven dimensions, coordinates without filters; four tiles of 6, 6, 6 and 5 cells, then three
TREE = "new/sparse/rtree_deep"       # two dimensions; 300 tiles of two cells, four levels of boxes
DENSE = "new/dense/d2_row_row"
CONSOLIDATED = "new/consolidated/sparse_fragments"
EVERYTHING = "new/consolidated/sparse_everything"


# ---- Files -------------------------------------------------------------------------------------------------------------------------

@case(SPARSE, ("error", META, "missing: the fragment cannot be read"))
def metadata_missing(c):
    os.remove(c.file(META))


@case(SPARSE, ("error", "a0.tdb", "missing: it holds the values of field 'a'"))
def values_missing(c):
    os.remove(c.file("a0.tdb"))


@case(SPARSE, ("error", "a1.tdb", "missing: it holds the offsets of field 's'"))
def offsets_missing(c):
    os.remove(c.file("a1.tdb"))


@case(SPARSE, ("error", "a1_var.tdb", "missing: it holds the values of field 's'"))
def text_missing(c):
    os.remove(c.file("a1_var.tdb"))


@case(SPARSE, ("error", "a0_validity.tdb", "missing: it holds the validity of field 'a'"))
def validity_missing(c):
    os.remove(c.file("a0_validity.tdb"))


@case(SPARSE, ("error", "d3.tdb", "missing: it holds the values of field 'f32'"))
def dimension_missing(c):
    os.remove(c.file("d3.tdb"))


@case(SPARSE, ("error", "a0.tdb", r"\d+ bytes, but the fragment's metadata tells of \d+"))
def values_truncated(c):
    put(c.file("a0.tdb"), contents(c.file("a0.tdb"))[:-3])


@case(SPARSE, ("error", "a0.tdb", "0 bytes, but the fragment's metadata tells of"))
def values_emptied(c):
    put(c.file("a0.tdb"), b"")


@case(SPARSE, ("error", "d0.tdb", r"\d+ bytes, but the fragment's metadata tells of \d+"))
def dimension_extended(c):
    put(c.file("d0.tdb"), contents(c.file("d0.tdb")) + b"more")


@case(SPARSE, ("error", META, "footer"))
def metadata_truncated(c):
    put(c.file(META), contents(c.file(META))[:-20])


@case(SPARSE, ("error", META, "footer"))
def metadata_extended(c):
    put(c.file(META), contents(c.file(META)) + bytes(16))


@case(SPARSE, ("error", META, "footer"))
def metadata_emptied(c):
    put(c.file(META), b"")


@case(SPARSE, ("error", META, "bytes 0 to 6 belong to nothing|generic tile|belong to"), count=-1)
def metadata_shifted(c):
    put(c.file(META), bytes(7) + contents(c.file(META)))


@case(SPARSE, ("warning", "a9.tdb", "stray file"))
def stray_in_fragment(c):
    put(c.file("a9.tdb"), b"x")


@case(SPARSE, ("warning", "deeper", "stray directory"))
def stray_directory_in_fragment(c):
    os.mkdir(c.file("deeper"))


@case(SPARSE, ("warning", "notes.txt", "stray file"))
def stray_in_array(c):
    put(c.path("notes.txt"), b"x")


@case(SPARSE, ("warning", "__fragments/x", "stray file"))
def stray_in_fragments(c):
    put(c.path("__fragments", "x"), b"x")


@case(SPARSE, ("warning", "__commits/x.wrt2", "stray file"))
def stray_in_commits(c):
    put(c.path("__commits", "x.wrt2"), b"")


@case(SPARSE, ("warning", "__schema/x", "stray file"))
def stray_in_schemas(c):
    put(c.path("__schema", "x"), b"x")


@case("new/metadata/history", ("warning", "__meta/x", "stray file"))
def stray_in_metadata(c):
    put(c.path("__meta", "x"), b"x")


@case(EVERYTHING, ("warning", "__fragment_meta/x", "stray file"))
def stray_in_footers(c):
    put(c.path("__fragment_meta", "x"), b"x")


@case(SPARSE, ("note", "__commits/x.tmp", "left over"))
def unfinished_file(c):
    put(c.path("__commits", "x.tmp"), b"x")


# ---- Commits -----------------------------------------------------------------------------------------------------------------------

@case(SPARSE, ("note", "__fragments/__20_20", "not committed"))
def commit_missing(c):
    os.remove(c.path("__commits", os.path.basename(c.fragment(1)) + ".wrt"))


@case(SPARSE, ("note", "__fragments/__77_77", "not committed"))
def uncommitted_fragment(c):
    os.mkdir(c.path("__fragments", "__77_77_0123456789abcdef0123456789abcdef_22"))


@case(SPARSE, ("error", ".wrt", "fragment __20_20_\\w+ is committed, but missing"))
def fragment_missing(c):
    shutil.rmtree(c.fragment(1))


@case(SPARSE, ("error", "__commits/__77_77", "committed, but missing"))
def commit_of_nothing(c):
    put(c.path("__commits", "__77_77_0123456789abcdef0123456789abcdef_22.wrt"), b"")


@case(SPARSE, ("warning", ".wrt", "a commit file of 3 bytes"))
def commit_not_empty(c):
    put(c.path("__commits", os.path.basename(c.fragment()) + ".wrt"), b"abc")


@case(SPARSE, ("error", "__commits/once.wrt", "not a timestamped name"))
def commit_without_times(c):
    put(c.path("__commits", "once.wrt"), b"")


@case(SPARSE, ("note", ".pending", "prepared through a database"))
def pending_commit(c):
    put(c.path("__commits", "__77_77_0123456789abcdef0123456789abcdef_22.pending"), b"/a/database")


@case(EVERYTHING, ("error", ".con", "consolidated commits"), ("note", "__fragments/", "not committed"), count=-1)
def consolidated_commits_damaged(c):
    path = c.only("__commits", ".con")
    put(path, contents(path).replace(b".wrt", b".wxt", 1))


@case(EVERYTHING, ("error", ".con", "the file is cut, and nothing else commits fragment"), ("note", "__fragments/", "not committed"), count=-1)
def consolidated_commits_emptied(c):
    put(c.only("__commits", ".con"), b"")


@case(EVERYTHING, ("error", ".con", "fragment __77_77_0_22 is committed, but missing"))
def consolidated_commit_of_nothing(c):
    path = c.only("__commits", ".con")
    put(path, contents(path) + b"__commits/__77_77_0_22.wrt\n")


@case(EVERYTHING, ("error", ".meta", "of the same name, commits, and of no others"), ("note", "__fragments/", "not committed"))
def pair_that_differs(c):
    path = c.only("__commits", ".con")
    os.rename(c.only("__fragment_meta", ".meta"), c.path("__fragment_meta", os.path.basename(path)[:-len(".con")] + ".meta"))
    put(path, contents(path).split(b"\n", 1)[1])


@case(CONSOLIDATED, ("error", ".wrt", "is committed, but missing"), ("error", ".vac", "it hides 4 fragments, but __10_40_\\w+"))
def merged_fragment_missing(c):
    shutil.rmtree(c.path("__fragments", next(n for n in os.listdir(c.path("__fragments")) if n.startswith("__10_40_"))))


@case(CONSOLIDATED, ("error", ".vac", "list of names: line 1"))
def vacuum_file_damaged(c):
    put(c.only("__commits", ".vac"), b"///\n")


@case("new/metadata/consolidated", ("error", ".vac", "it hides \\d+ metadata files"))
def merged_metadata_missing(c):
    os.remove(c.only("__meta", ".vac")[:-4])


@case("new/consolidated/sparse_fragment_meta", ("error", ".meta", "the footer of fragment \\w+ differs from the fragment's own"))
def consolidated_footer_differs(c):
    path = c.only("__fragment_meta", ".meta")
    content = stored.decode_generic(contents(path))[0]
    put(path, stored.encode_generic(content[:-9] + bytes([content[-9] ^ 1]) + content[-8:]))


@case("new/consolidated/sparse_fragment_meta", ("error", ".meta", "generic tile"))
def consolidated_footers_damaged(c):
    path = c.only("__fragment_meta", ".meta")
    put(path, contents(path)[:-5])


@case("new/deletes/lt", ("error", ".del", "generic tile"))
def condition_damaged(c):
    path = c.only("__commits", ".del")
    flip(path, len(contents(path)) - 12)


@case("new/deletes/lt", ("error", ".del", "names 'zz', which no schema has"))
def condition_of_no_field(c):
    path = c.only("__commits", ".del")
    content = stored.decode_generic(contents(path))[0]
    name = b"\x01\x00\x00\x00" + c.description["attrs"][0]["name"].encode()
    assert name in content
    put(path, stored.encode_generic(content.replace(name, b"\x02\x00\x00\x00zz")))


# ---- Schemas, enumerations, metadata -------------------------------------------------------------------------------------------------

@case(SPARSE, ("error", "__schema", "the array has no schema"), ("error", META, "its schema \\w+ is missing"), count=3)
def schema_missing(c):
    os.remove(c.only("__schema"))


@case(SPARSE, ("error", "__schema/__", "generic tile"), ("note", "__fragments/", "its schema is damaged"), count=3)
def schema_damaged(c):
    flip(c.only("__schema"), 90)


@case(SPARSE, ("error", "__schema/__", "schema"), ("note", "__fragments/", "its schema is damaged"), count=3)
def schema_makes_no_sense(c):
    path = c.only("__schema")
    put(path, stored.encode_generic(change(stored.decode_generic(contents(path))[0], 5, b"\x07")))


@case(SPARSE, ("warning", "__schema/__", "5 bytes follow"))
def schema_extended(c):
    put(c.only("__schema"), contents(c.only("__schema")) + b"extra")


@case("new/enums/sparse", ("error", "__schema/__enumerations/", "missing: it holds the labels"))
def enumeration_missing(c):
    os.remove(c.only("__schema/__enumerations"))


@case("new/enums/sparse", ("error", "__schema/__enumerations/", "generic tile"))
def enumeration_damaged(c):
    flip(c.only("__schema/__enumerations"), 70)


@case("new/enums/sparse", ("note", "__schema/__enumerations/__abc_0", "no schema names it"))
def enumeration_of_no_schema(c):
    shutil.copy(c.only("__schema/__enumerations"), c.path("__schema/__enumerations/__abc_0"))


@case("new/metadata/history", ("error", "__meta/__", "generic tile"))
def metadata_file_damaged(c):
    flip(c.only("__meta"), 80)


@case("new/metadata/history", ("error", "__meta/__", "metadata entry"))
def metadata_entry_cut(c):
    path = c.only("__meta")
    put(path, stored.encode_generic(stored.decode_generic(contents(path))[0][:-1]))


@case("new/labels/string_label", ("error", "__labels/l0", "the array of dimension label"))
def label_missing(c):
    shutil.rmtree(c.path("__labels", "l0"))


# ---- Fragment metadata, rewritten consistently ------------------------------------------------------------------------------------

@case(SPARSE)
def metadata_written_anew(c):
    c.metadata().write()


@case(SPARSE, ("error", META, "bytes \\d+ to \\d+ belong to nothing"))
def metadata_gap(c):
    m = c.metadata()
    m.gap = bytes(40)
    m.write()


@case(SPARSE, ("error", META, "bytes \\d+ to \\d+ belong to two things"), ("error", META, "bytes \\d+ to \\d+ belong to nothing"),
      ("error", META, "'a'"), count=-1)
def metadata_offset_of_another(c):
    m = c.metadata()
    m.move["offsets", c.slot("a")] = lambda rows: rows[m.KINDS.index("offsets")][c.slot("u64")]
    m.write()


@case(SPARSE, ("error", META, "field 'a': sums"), ("error", META, "'a'.*sums|bytes"), count=-1)
def metadata_offset_into_a_tile(c):
    m = c.metadata()
    m.move["sum", c.slot("a")] = lambda rows: rows[m.KINDS.index("sum")][c.slot("a")] + 3
    m.write()


@case(SPARSE, ("error", META, "footer: metadata of 'a' should be at byte"))
def metadata_offset_beyond(c):
    m = c.metadata()
    m.move["sum", c.slot("a")] = 1 << 40
    m.write()


@case(SPARSE, ("error", "a0.tdb", r"\d+ bytes, but the fragment's metadata tells of"))
def file_size_wrong(c):
    m = c.metadata()
    m.sizes[0][c.slot("a")] += 1
    m.write()


@case(SPARSE, ("error", "a0.tdb", "field 'a', tile [12]: "), count=2)
def tile_offset_wrong(c):
    m = c.metadata()
    places = numbers(m.tiles["offsets"][c.slot("a")])
    places[2] += 4
    m.tiles["offsets"][c.slot("a")] = listed(places)
    m.write()


@case(SPARSE, ("error", META, "field 'a': the values of tile 0 begin at byte 4"), ("error", "a0.tdb", "field 'a', tile 0: "))
def first_tile_offset_wrong(c):
    m = c.metadata()
    places = numbers(m.tiles["offsets"][c.slot("a")])
    places[0] = 4
    m.tiles["offsets"][c.slot("a")] = listed(places)
    m.write()


@case(SPARSE, ("error", META, "'a': tile offsets: tile 1 begins at byte"))
def tile_offsets_fall(c):
    m = c.metadata()
    places = numbers(m.tiles["offsets"][c.slot("a")])
    places[1], places[2] = places[2], places[1]
    m.tiles["offsets"][c.slot("a")] = listed(places)
    m.write()


@case(SPARSE, ("error", META, "'a': tile offsets.*: 3 entries for 4 tiles"))
def tile_offset_lost(c):
    m = c.metadata()
    m.tiles["offsets"][c.slot("a")] = listed(numbers(m.tiles["offsets"][c.slot("a")])[:-1])
    m.write()


@case(SPARSE, ("error", META, "field 'a': tile offsets at byte \\d+: the sizes in it"))
def tile_offsets_extended(c):
    m = c.metadata()
    m.tiles["offsets"][c.slot("a")] += bytes(8)
    m.write()


@case(SPARSE, ("error", "a1_var.tdb", "field 's', tile 1: its chunks hold"))
def variable_size_wrong(c):
    m = c.metadata()
    sizes = numbers(m.tiles["var_sizes"][c.slot("s")])
    sizes[1] += 1
    m.tiles["var_sizes"][c.slot("s")] = listed(sizes)
    m.write()


@case(SPARSE, ("error", META, "the R-tree has 4 leaves, the fragment 3 tiles"), ("error", META, "more than the 32 bytes that can be here"),
      ("error", META, "minima|maxima|sums|null counts"), count=-1)
def tile_count_wrong(c):
    m = c.metadata()
    m.tile_count -= 1
    m.write()


@case(SPARSE, ("error", ".tdb", "field '\\w+', tile 3: "), ("error", ".tdb", "chunks hold \\d+ bytes, 4 cells take"), count=10)
def last_tile_cells_wrong(c):
    m = c.metadata()
    m.last_cells -= 1
    m.write()


@case(SPARSE, ("error", META, "footer: the last tile has 7 cells, a full one 6"))
def last_tile_cells_too_many(c):
    m = c.metadata()
    m.last_cells = 7
    m.write()


@case(SPARSE, ("error", META, "its schema __1_1_0 is missing"))
def fragment_of_no_schema(c):
    m = c.metadata()
    m.schema = b"__1_1_0"
    m.write()


@case(SPARSE, ("error", META, "the footer says version 21, the fragment's name 22"))
def version_wrong(c):
    m = c.metadata()
    m.version = 21
    m.write()


@case(SPARSE, ("error", META, "a dense fragment in a sparse array"))
def kind_wrong(c):
    m = c.metadata()
    m.dense = 1
    m.write()


@case(SPARSE, ("error", META, "processed conditions"))
def processed_conditions_damaged(c):
    m = c.metadata()
    m.processed = u64(3)
    m.write()


# ---- Boxes -------------------------------------------------------------------------------------------------------------------------

def with_tree(c, function):
    m = c.metadata()
    tree = stored.Tree(m.rtree, [stored.SIZES.get(d["type"], 8) for d in c.description["dims"]])
    assert [len(level) for level in tree.levels] == [1, 3, 30, 300] and tree.content() == m.rtree
    function(tree, m)
    m.rtree = tree.content()
    m.write()


def more(value, by):
    return (int.from_bytes(value, "little", signed=True) + by).to_bytes(len(value), "little", signed=True)


@case(TREE, ("error", META, r"R-tree: box \(MBR\) of tile 3, dimension '\w+': its low end is -?\d+, the cells have"))
def box_too_wide(c):
    def widen(tree, m):
        tree.levels[3][3][0][0] = more(tree.levels[3][3][0][0], -1)
    with_tree(c, widen)


@case(TREE, ("error", META, r"R-tree: box \(MBR\) of tile 5, dimension '\w+': its high end"))
def box_too_narrow(c):
    def narrow(tree, m):
        box = tree.levels[3][5][1]
        assert box[0] != box[1]
        box[1] = more(box[1], -1)
    with_tree(c, narrow)


@case(TREE, ("error", META, "R-tree level 2, box 7, dimension '\\w+': its low end"))
def inner_box_too_narrow(c):
    def narrow(tree, m):
        tree.levels[2][7][0][0] = more(tree.levels[2][7][0][0], 1)
    with_tree(c, narrow)


@case(TREE, ("error", META, "R-tree level 1, box 1, dimension '\\w+': its high end"))
def inner_box_too_wide(c):
    def widen(tree, m):
        tree.levels[1][1][1][1] = more(tree.levels[1][1][1][1], 1)
    with_tree(c, widen)


@case(TREE, ("error", META, "R-tree level 3, box 2, dimension '\\w+': the low end is above the high end"))
def box_inside_out(c):
    def turn(tree, m):
        tree.levels[3][2][0].reverse()
    with_tree(c, turn)


@case(TREE, ("error", META, "R-tree"))
def box_lost(c):
    def lose(tree, m):
        tree.levels[3].pop()
    with_tree(c, lose)


@case(TREE, ("error", META, "non-empty domain of dimension '\\w+': its high end"))
def domain_too_narrow(c):
    m = c.metadata()
    m.box[0] = (m.box[0][0], more(m.box[0][1], -1))
    m.write()


@case(TREE, ("error", META, "non-empty domain of dimension '\\w+': its low end"))
def domain_too_wide(c):
    m = c.metadata()
    m.box[1] = (more(m.box[1][0], -1), m.box[1][1])
    m.write()


@case("new/current_domain/sparse_2d", ("error", META, "beyond the current domain|non-empty domain"), count=-1)
def beyond_the_current_domain(c):
    m = c.metadata()
    width = len(m.box[0][0])
    m.box[0] = (m.box[0][0], int(c.description["dims"][0]["domain"][1]).to_bytes(width, "little", signed=True))
    m.write()


@case(DENSE, ("error", META, "'|tiles"), count=-1)
def dense_domain_wrong(c):
    m = c.metadata()
    low, high = (v.to_bytes(len(m.box[0][0]), "little", signed=v < 0) for v in c.description["dims"][0]["domain"])
    m.box[0] = (low, high) if m.box[0] != (low, high) else (low, low)
    m.write()


# ---- Statistics --------------------------------------------------------------------------------------------------------------------

def statistic(kind):
    def damage(c):
        m = c.metadata()
        slot = c.slot("a")
        content = m.tiles[kind][slot]
        at = 16 if kind in ("min", "max") else 8
        m.tiles[kind][slot] = change(content, at, bytes([content[at] ^ 1]))
        m.write()
    return damage


for kind, words in (("min", "minimum is said to be"), ("max", "maximum is said to be"), ("sum", "sum is said to be"),
                    ("null_count", "null count is said to be")):
    damage = statistic(kind)
    damage.__name__ = f"statistics_{kind}"
    case(SPARSE, ("error", META, f"statistics: field 'a', tile 0: the {words}"))(damage)


@case(DENSE, ("error", META, "statistics: field 'a', tile 0: the minimum is said to be"))
def dense_statistics_wrong(c):
    statistic("min")(c)


@case(SPARSE, ("error", META, "'a': minima"))
def statistics_of_too_few_tiles(c):
    m = c.metadata()
    content = m.tiles["min"][c.slot("a")]
    m.tiles["min"][c.slot("a")] = u64(len(content) - 20, 0) + content[20:]
    m.write()


def own_statistic(part):
    def damage(c):
        m = c.metadata()
        r = stored.Reader(m.statistics)  # attribute 'a' comes first
        at = {}
        size = r.u64()
        at["minimum"] = r.at
        r.take(size)
        size = r.u64()
        at["maximum"] = r.at
        r.take(size)
        at["sum"], at["null count"] = r.at, r.at + 8
        m.statistics = change(m.statistics, at[part], bytes([m.statistics[at[part]] ^ 1]))
        m.write()
    damage.__name__ = "fragment_" + part.replace(" ", "_")
    return damage


for part in ("minimum", "maximum", "sum", "null count"):
    case(SPARSE, ("error", META, f"fragment statistics: field 'a': the {part} is not that of its tiles"))(own_statistic(part))


@case(SPARSE, ("error", META, "fragment statistics at byte \\d+"))
def fragment_statistics_cut(c):
    m = c.metadata()
    m.statistics = m.statistics[:-8]
    m.write()


# ---- Cells -------------------------------------------------------------------------------------------------------------------------

def raw_tiles(c, field, file, part="offsets", fragment=0):
    """Returns the contents of the tiles of a file without filters."""
    m = c.metadata(fragment)
    data = contents(c.file(file, fragment))
    places = numbers(m.tiles[part][c.slot(field)]) + [len(data)]
    return [data[a + 20:b] for a, b in zip(places, places[1:])]


def put_tiles(c, file, tiles, fragment=0):
    old = contents(c.file(file, fragment))
    data = b"".join(map(stored.encode_tile, tiles))
    assert len(data) == len(old)
    put(c.file(file, fragment), data)


DIMENSIONS = ["i32", "u64", "i8", "f32", "f64", "day"]


@case(SPARSE, ("error", "__fragments/", "tile 1: out of order: cell 3 belongs before the one in front of it"))
def cells_out_of_order(c):
    for number, name in enumerate(DIMENSIONS):
        tiles = raw_tiles(c, name, f"d{number}.tdb")
        width = len(tiles[1]) // 6
        a, b = tiles[1][2 * width:3 * width], tiles[1][3 * width:4 * width]
        tiles[1] = change(change(tiles[1], 2 * width, b), 3 * width, a)
        put_tiles(c, f"d{number}.tdb", tiles)


@case(SPARSE, ("error", "__fragments/", "tile [123]: out of order: cell 0|tile [12]: out of order"),
      ("error", META, r"R-tree: box \(MBR\) of tile [12]"), count=-1)
def tiles_swapped(c):
    for number, name in enumerate(DIMENSIONS):
        tiles = raw_tiles(c, name, f"d{number}.tdb")
        tiles[1], tiles[2] = tiles[2], tiles[1]
        put_tiles(c, f"d{number}.tdb", tiles)


@case(SPARSE, ("error", "d2.tdb", "field 'i8', tile 0: cell 1 is 99, outside of the domain"), ("error", META, r"box \(MBR\) of tile 0, dimension 'i8'"),
      ("error", "__fragments/", "tile 0: out of order"), count=-1)
def cell_outside_the_domain(c):
    tiles = raw_tiles(c, "i8", "d2.tdb")
    tiles[0] = change(tiles[0], 1, b"\x63")
    put_tiles(c, "d2.tdb", tiles)


@case(TREE, ("error", "__fragments/", "."), count=-1)
def tile_of_another(c):
    places = numbers(c.metadata().tiles["offsets"][c.slot(c.description["dims"][0]["name"])])
    name = c.file("d0.tdb")
    data = contents(name)
    for i in range(len(places) - 1):
        size = places[i + 1] - places[i]
        for k in range(i + 1, len(places) - 1):
            if places[k + 1] - places[k] == size and data[places[i]:places[i + 1]] != data[places[k]:places[k + 1]]:
                put(name, change(data, places[k], data[places[i]:places[i + 1]]))
                return
    raise AssertionError("no two tiles of one size")


@case(SPARSE, ("warning", "a0_validity.tdb", "field 'a', tile 0: the validity of 1 cells is neither 0 nor 1"))
def validity_is_seven(c):
    tiles = raw_tiles(c, "a", "a0_validity.tdb", "validity_offsets")
    tiles[0] = change(tiles[0], tiles[0].index(1), b"\x07")
    put_tiles(c, "a0_validity.tdb", tiles)


def twin(c):
    """Makes cell 1 of tile 0 the same as cell 0, in every dimension but the string, whose two values are made one as well."""
    for number, name in enumerate(DIMENSIONS):
        tiles = raw_tiles(c, name, f"d{number}.tdb")
        width = len(tiles[0]) // 6
        tiles[0] = change(tiles[0], width, tiles[0][:width])
        put_tiles(c, f"d{number}.tdb", tiles)
    offsets, text = raw_tiles(c, "str", "d6.tdb"), raw_tiles(c, "str", "d6_var.tdb", "var_offsets")
    places = list(struct.unpack("<6Q", offsets[0]))
    places[1] = places[2] // 2 if places[2] % 2 == 0 else None
    if places[1] is None:  # an odd number of bytes: they are distributed anew over the first three strings
        places[2] -= 1
        places[1] = places[2] // 2
    offsets[0] = u64(*places)
    text[0] = change(text[0], places[1], text[0][:places[1]])
    put_tiles(c, "d6.tdb", offsets)
    put_tiles(c, "d6_var.tdb", text)


@case(SPARSE, ("error", "__fragments/", "tile 0: duplicates: cell 1 has the coordinates of the one before it"),
      ("error", META, r"box \(MBR\) of tile 0|R-tree level 0|non-empty domain"), ("error", "__fragments/", "out of order"), count=-1)
def cell_twice(c):
    twin(c)


@case("new/filter/attr_p_zstd_md5", ("error", ".tdb", "field '\\w+', tile 0: .*md5"))
def checksum_fails(c):
    damage_values(c)


@case("new/filter/attr_sha256", ("error", ".tdb", "field '\\w+', tile 0: .*sha256"))
def sha256_fails(c):
    damage_values(c)


def damage_values(c):
    """Changes a byte of the first attribute's first tile, in the middle of the data of its only chunk."""
    m = c.metadata()
    slot = 0
    places = numbers(m.tiles["offsets"][slot]) + [m.sizes[0][slot]]
    name = c.file("a0.tdb")
    flip(name, places[1] - 1)


@case("new/encrypted/sparse", ("error", "a0.tdb", "field '\\w+', tile 0: .*aes"))
def tag_fails(c):
    name = c.file("a0.tdb")
    flip(name, 20 + 16 + 12 + 16 + 3)


@case("new/encrypted/sparse", ("error", META, "generic tile.*(aes|tag|key)"))
def tag_of_metadata_fails(c):
    flip(c.file(META), 34 + 30 + 60)


@case("new/encrypted/sparse", ("error", "__schema/__", "(aes|tag|key)"), ("note", "__fragments/", "its schema is damaged"), count=-1)
def tag_of_schema_fails(c):
    path = c.only("__schema")
    flip(path, len(contents(path)) - 4)


@case("new/filter/attr_zstd_def", ("error", "a0.tdb", "field '\\w+', tile 0: .*zstd"))
def compressed_damaged(c):
    flip(c.file("a0.tdb"), 20 + 16)


@case("new/filter/attr_zstd_def", ("error", "a0.tdb", "field '\\w+', tile 0: "))
def chunk_count_damaged(c):
    put(c.file("a0.tdb"), change(contents(c.file("a0.tdb")), 0, u64(2)))


@case(SPARSE, ("error", "a1.tdb", "field 's', tile 0: offsets"))
def cell_offsets_fall(c):
    tiles = raw_tiles(c, "s", "a1.tdb")
    tiles[0] = change(tiles[0], 8, u64(1 << 40))
    put_tiles(c, "a1.tdb", tiles)


@case("new/timetravel/sparse", ("note", "__fragments/__1_1_", "not committed"), ("error", ".wrt", "is committed, but missing"))
def renamed_fragment(c):
    name = c.fragment()
    os.rename(name, os.path.join(os.path.dirname(name), "__1_1_" + os.path.basename(name).split("_", 4)[4]))


@case("new/deletes/consolidated_with_delmeta", ("error", "t.tdb", "a time outside of the fragment's"), count=-1)
def times_outside(c):
    name = next(n for n in os.listdir(c.path("__fragments")) if os.path.exists(c.path("__fragments", n, "t.tdb")))
    end = name.split("_")[3]
    other = name.replace(f"_{end}_", "_11_", 1) if name.split("_")[2] != end else None
    assert other
    os.rename(c.path("__fragments", name), c.path("__fragments", other))
    os.rename(c.path("__commits", name + ".wrt"), c.path("__commits", other + ".wrt"))
    if os.path.exists(c.path("__commits", name + ".vac")):
        os.rename(c.path("__commits", name + ".vac"), c.path("__commits", other + ".vac"))


# ---- Older versions ----------------------------------------------------------------------------------------------------------------

@case("old/lib1.6.3_py0.4.4/sparse2d", ("error", "__coords.tdb", "missing: it holds the values of __coords"))
def coordinates_missing(c):
    os.remove(c.file("__coords.tdb"))


@case("old/lib1.6.3_py0.4.4/sparse2d", ("note", "__", "not committed"))
def old_metadata_missing(c):
    os.remove(c.file(META))


@case("old/lib1.5_java0.1.3/sparse2d", ("error", META, "generic tile"))
def oldest_metadata_damaged(c):
    flip(c.file(META), 60)


@case("old/lib2.3_py0.9.5/sparse2d", ("error", ".ok", "is committed, but missing"))
def old_fragment_missing(c):
    shutil.rmtree(c.fragment())


@case("old/lib2.3_py0.9.5/sparse2d", ("note", "__", "not committed"))
def old_commit_missing(c):
    os.remove(c.fragment() + ".ok")


@case("old/lib2.3_py0.9.5/sparse2d", ("error", "__schema", "the array has no schema"), ("error", META, "its schema __array_schema.tdb is missing"), count=-1)
def old_schema_missing(c):
    os.remove(c.path("__array_schema.tdb"))
    os.mkdir(c.path("__commits"))


@case("old/lib2.3_py0.9.5/dense2d", ("error", "a0.tdb", "missing: it holds the values"))
def old_values_missing(c):
    os.remove(c.file("a0.tdb"))


# ---- Running them ------------------------------------------------------------------------------------------------------------------

def fits(finding, expected):
    return finding[0] == expected[0] and expected[1] in finding[1] and re.search(expected[2], finding[2])


def judge(findings, expected, count):
    for finding in findings:
        if not any(fits(finding, e) for e in expected):
            return f"not expected: {finding}"
    for e in expected[:1] if count == -1 else expected:
        if not any(fits(f, e) for f in findings):
            return f"missing: {e}; found: {findings[:5]}"
    wanted = len(expected) if count is None else count
    if count != -1 and len(findings) != wanted:
        return f"{len(findings)} findings instead of {wanted}: {findings[:5]}"
    return None


def run_case(db, corpus, folder, item):
    name, array, function, expected, count = item
    directory, description = next((d, j) for n, d, j in arrays.find(corpus, array) if n == array)
    copy = os.path.join(folder, "array")
    shutil.copytree(directory, copy)
    try:
        function(Copy(copy, description))
        return judge(check.check(db, copy, description.get("encryption_key")), expected, count)
    except Exception as e:  # an SQLite error, or the case does not fit its array
        return f"{type(e).__name__}: {e}"
    finally:
        shutil.rmtree(copy)


def expect_error(db, words, *arguments):
    try:
        db.execute(f"SELECT * FROM tessera_check({', '.join('?' * len(arguments))})", arguments).fetchall()
    except sqlite3.Error as e:
        return None if re.search(words, str(e)) else f"said '{e}' instead of '{words}'"
    return f"no error '{words}'"


def by_name(db, corpus):
    """An address db:TABLE runs the same check."""
    path = os.path.join(corpus, CONSOLIDATED)
    db.execute(f"CREATE VIRTUAL TABLE temp.t USING tessera({read.literal(path)})")
    found = check.check(db, "db:t", None)
    db.execute("DROP TABLE t")
    return f"{found}" if found else None


def interrupted(db, corpus):
    """The check polls the host for cancellation."""
    db.set_progress_handler(lambda: 1, 50)
    try:
        return expect_error(db, "interrupt", os.path.join(corpus, TREE))
    finally:
        db.set_progress_handler(None, 0)


def errors(db, corpus, folder):
    """A path without an array, or a wrong key, is an error and not a finding."""
    yield "by_name", by_name(db, corpus)
    yield "interrupted", interrupted(db, corpus)
    key = b"0" * 32
    yield "no_array", expect_error(db, "array not found", os.path.join(folder, "none"))
    os.mkdir(os.path.join(folder, "empty"))
    yield "empty_directory", expect_error(db, "array not found.*holds no schema", os.path.join(folder, "empty"))
    yield "key_missing", expect_error(db, "a key is needed", os.path.join(corpus, "new/encrypted/sparse"))
    yield "key_wrong", expect_error(db, "the key does not fit", os.path.join(corpus, "new/encrypted/sparse"), key)
    yield "key_not_needed", expect_error(db, "not encrypted", os.path.join(corpus, SPARSE), key)
    group = next(os.path.join(corpus, "new/groups", n) for n in sorted(os.listdir(os.path.join(corpus, "new/groups")))
                 if os.path.isdir(os.path.join(corpus, "new/groups", n, "__group")))
    yield "group", expect_error(db, "it is a group", group)


def at_random(extension, db, corpus, folder, pattern):
    """Random damage to any array: rows, or an error with a message. If a full scan says that the array is damaged, the check has a finding."""
    import damage
    done = 0
    for name, directory, description in arrays.find(corpus, pattern):
        if read.uses_webp(description) or not arrays.sampled(name):
            continue
        rng = random.Random(f"check {name}")
        copy = os.path.join(folder, "array")
        shutil.copytree(directory, copy)
        what = damage.damage(copy, rng)
        key = description.get("encryption_key")
        scan = scan_error(extension, copy, key, folder)
        try:
            findings = check.check(db, copy, key)
            assert all(f[0] in ("error", "warning", "note") and f[2] for f in findings), findings
            if scan and not any(f[0] == "error" for f in findings):
                yield f"random {name}", f"{what}: a scan fails ({scan}), the check finds {findings[:3]}"
        except sqlite3.Error as e:
            if not str(e).strip():
                yield f"random {name}", f"{what}: an error without a message"
        shutil.rmtree(copy)
        done += 1
    yield f"random damage of {done} arrays", None


def scan_error(extension, directory, key, folder):
    """Returns the message of a scan that finds the array damaged, else None."""
    db = check.connect(extension)
    db.text_factory = bytes
    options = ""
    if key:
        with open(os.path.join(folder, "key"), "wb") as f:
            f.write(key.encode())
        options = f", key_file={read.literal(os.path.join(folder, 'key'))}"
    try:
        db.execute(f"CREATE VIRTUAL TABLE t USING tessera({read.literal(directory)}, memory_mb=64, cache_mb=16{options})")
        cursor = db.execute("SELECT * FROM t")
        for _ in range(100):
            if not cursor.fetchmany(1000):
                break
    except sqlite3.DatabaseError as e:
        return str(e) if getattr(e, "sqlite_errorname", "") == "SQLITE_CORRUPT" else None
    finally:
        db.close()
    return None


def main():
    extension, corpus = sys.argv[1:3]
    pattern = sys.argv[3] if len(sys.argv) > 3 else ""
    passed = failed = 0
    db = check.connect(extension)
    with tempfile.TemporaryDirectory() as folder:
        def results():
            for item in CASES:
                if pattern in item[0]:
                    yield item[0], run_case(db, corpus, folder, item)
            if not pattern:
                yield from errors(db, corpus, folder)
                yield from at_random(extension, db, corpus, folder, "")
        for name, wrong in results():
            if wrong:
                failed += 1
                print(f"FAIL {name}: {wrong[:600]}")
            else:
                passed += 1
    db.close()
    print(f"damage_check: {passed} passed, {failed} failed")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
