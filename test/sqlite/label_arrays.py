"""Attributes of other arrays as label columns (labels='dimension=path'), other names for columns (rename=), in both evaluators.

usage: label_arrays.py EXTENSION CORPUS [WORDS IN TESTS' NAMES]
"""
import os
import random
import shutil
import sys
import tempfile

import host
from host import Database, check_contains, literal, same

CELLS, GENES = 60, 25
TYPES = ("B", "T", "NK", "mono")


def make(db, kind, chance, gaps=True):
    """A matrix x of cells and genes, and arrays obs and var with one row for each of most of them. Returns the folder, and ordinary tables
    named p_obs and p_var have the same rows."""
    folder = tempfile.mkdtemp(dir=host.FOLDER)
    dense = ", kind=dense" if kind == "dense" else ""
    db.query(f"CREATE VIRTUAL TABLE obs USING tessera({literal(folder + '/obs')}{dense}, id INT64 DIMENSION({-3 if kind == 'sparse' else 0}, 1000, 16), "
             "cell_type TEXT ENUM('B', 'T', 'NK', 'mono') NULL, depth INT32, mean FLOAT64 NULL, note TEXT)")
    db.query(f"CREATE VIRTUAL TABLE var USING tessera({literal(folder + '/var')}, n INT64 DIMENSION(0, 1000, 16), gene TEXT, mean FLOAT64, id INT32, born DATETIME_DAY)")
    db.query(f"CREATE VIRTUAL TABLE plain_x USING tessera({literal(folder + '/x')}, obs_joinid INT64 DIMENSION(-3, 1000, 8), "
             "var_joinid INT64 DIMENSION(0, 1000, 4), value FLOAT32, capacity=64)")
    db.query("CREATE TABLE p_obs(id INTEGER PRIMARY KEY, cell_type, depth, mean, note)")
    db.query("CREATE TABLE p_var(n INTEGER PRIMARY KEY, gene, mean, id, born)")
    low = -3 if kind == "sparse" else 0
    obs = [(i, chance.choice(TYPES + (None,)), chance.randrange(5), chance.choice([None, 0.5, 1.5, float(i)]), f"n{i % 7}")
           for i in range(low, CELLS) if not gaps or chance.random() < 0.8]
    var = [(n, f"g{n * 7 % GENES}", n / 4, GENES - n, f"20{10 + n % 9}-01-02") for n in range(GENES) if not gaps or chance.random() < 0.8]
    for name, rows in (("obs", obs), ("var", var)):
        marks = ", ".join("?" * 5)
        for table in (name, "p_" + name):
            db.query("BEGIN")
            for row in rows:
                db.query(f"INSERT INTO {table} VALUES({marks})", row)
            db.query("COMMIT")
    db.query("BEGIN")
    for i in range(low, CELLS):
        for n in range(GENES):
            if chance.random() < 0.4:
                db.query("INSERT INTO plain_x VALUES(?, ?, ?)", (i, n, (i * 31 + n * 17) % 50))
    db.query("COMMIT")
    db.query("CREATE TABLE p_x AS SELECT * FROM plain_x")
    return folder


def opened(kind="sparse", seed=1, gaps=True):
    db = Database()
    folder = make(db, kind, random.Random(seed), gaps)
    db.query(f"CREATE VIRTUAL TABLE x USING tessera({literal(folder + '/x')}, labels='obs_joinid=../obs, var_joinid=../var')")
    db.query("CREATE VIEW joined AS SELECT x.*, o.cell_type, o.depth, o.mean AS obs_mean, o.note, v.gene, v.mean AS var_mean, v.id, v.born FROM p_x x "
             "LEFT JOIN p_obs o ON o.id = x.obs_joinid LEFT JOIN p_var v ON v.n = x.var_joinid")
    return db, folder


LABELS = {"cell_type": TYPES + ("A", "Z"), "depth": range(-1, 6), "obs_mean": (None, 0.5, 1.5, 7.0), "note": ("n1", "n3", "n", "zz", ""),
          "gene": ("g1", "g7", "g13", "g"), "var_mean": (0.0, 1.25, 3.0), "id": range(0, 30, 3), "born": ("2012-01-02", "2015-01-02", "2014")}


def comparison(chance):
    label = chance.choice(list(LABELS))
    a, b = (chance.choice(list(LABELS[label])) for _ in range(2))
    quoted = [("NULL" if v is None else literal(v) if isinstance(v, str) else str(v)) for v in (a, b)]
    form = chance.choice(["{l} = {a}", "{l} > {a}", "{l} >= {a}", "{l} < {a}", "{l} <= {a}", "{l} BETWEEN {a} AND {b}", "{l} IN ({a}, {b})", "{l} <> {a}",
                          "{l} IS NULL", "{l} IS NOT NULL", "{l} IS {a}", "{l} IS NOT {a}", "{l} LIKE 'n%'", "{l} GLOB 'g1*'", "{l} IN ({a})"])
    if label == "born" and "2014" in (a, b) and "IN" not in form and "=" not in form:
        return comparison(chance)   # the year is its first day as an instant, but another text
    return form.format(l=label, a=quoted[0], b=quoted[1])


def test_columns():
    """All attributes are hidden columns; a name that two arrays have gets the last part of the path before it."""
    for kind in ("sparse", "dense"):
        db, _ = opened(kind)
        names = "obs_joinid, var_joinid, value, cell_type, depth, obs_mean, note, gene, var_mean, id, born"
        same(db.query(f"SELECT {names} FROM x ORDER BY 1, 2"), db.query(f"SELECT {names} FROM joined ORDER BY 1, 2"), kind)
        same(db.query("SELECT * FROM x ORDER BY 1, 2"), db.query("SELECT * FROM p_x ORDER BY 1, 2"))
        assert "no such column: mean" in db.error("SELECT mean FROM x").text
        made = "obs_joinid, var_joinid, cell_type, note, born"
        db.query(f"SELECT tessera_create_as('db:made', 'SELECT {made} FROM x', '{{\"dimensions\":[\"obs_joinid\",\"var_joinid\"],\"kind\":\"sparse\"}}')")
        same(db.query(f"SELECT {made} FROM made ORDER BY 1, 2"), db.query(f"SELECT {made} FROM joined ORDER BY 1, 2"), "an array of labels")
        same(db.query("SELECT name FROM tessera_schema('db:made') WHERE enumeration IS NOT NULL"), [("cell_type",)])
        db.close()


def test_comparisons():
    """Comparisons of labels, by rows and by columns, keep the rows of ordinary joins."""
    for kind in ("sparse", "dense"):
        for seed in (1, 2):
            chance = random.Random(seed)
            db, _ = opened(kind, seed, gaps=seed == 1)
            for turn in range(80):
                where = " AND ".join(comparison(chance) for _ in range(chance.choice((1, 1, 2))))
                rows = "SELECT obs_joinid, var_joinid, value FROM {} WHERE " + where + " ORDER BY 1, 2"
                expected = db.query(rows.format("joined"))
                same(db.query(rows.format("x")), expected, where)
                grouped = "SELECT {}, count(*) AS n, sum(value) AS s FROM {} WHERE " + where + " GROUP BY 1 ORDER BY 1"
                key = chance.choice(list(LABELS))
                db.query(f"CREATE VIRTUAL TABLE temp.q{turn} USING tessera_query({grouped.format(key, 'x')})")
                got = db.query(f"SELECT * FROM q{turn} ORDER BY 1")
                same(got, db.query(grouped.format(key, "joined")), f"{key}: {where}")
            db.close()


def test_tiles():
    """A comparison of a label reads the tiles that the same comparison of the coordinates reads, on both dimensions at once."""
    db, _ = opened(gaps=False)
    def tiles(where):
        db.query("SELECT tessera_reset_stats()")
        db.query(f"SELECT sum(value) FROM x WHERE {where}")
        return db.value("SELECT sum(value) FROM tessera_stats WHERE name IN ('tiles_read', 'tiles_cached')")
    db.query("SELECT count(*) FROM x WHERE gene = 'g7' AND obs_mean > 40")   # the labels are read
    number = db.value("SELECT n FROM p_var WHERE gene = 'g7'")
    cells = ", ".join(str(i) for i, in db.query("SELECT id FROM p_obs WHERE mean > 40"))
    same(tiles("gene = 'g7'"), tiles(f"var_joinid = {number}"))
    same(tiles("gene = 'g7' AND obs_mean > 40"), tiles(f"var_joinid = {number} AND obs_joinid IN ({cells})"))
    assert tiles("gene = 'g7' AND obs_mean > 40") < tiles("gene = 'g7'")
    check_contains(db.plan("SELECT * FROM x WHERE gene = 'g7'"), "var_joinid(gene)=?")
    db.close()


def test_coordinates_in_an_attribute():
    """PATH.attribute uses that attribute as the coordinate; two equal ones are an error that names the value."""
    db, folder = opened(gaps=False)
    db.query(f"CREATE VIRTUAL TABLE y USING tessera({literal(folder + '/x')}, labels='var_joinid=../var.id')")
    same(db.query("SELECT var_joinid, gene, value FROM y ORDER BY obs_joinid, var_joinid"),
         db.query("SELECT x.var_joinid, v.gene, x.value FROM p_x x LEFT JOIN p_var v ON v.id = x.var_joinid ORDER BY x.obs_joinid, x.var_joinid"))
    same(db.value("SELECT count(*) FROM y WHERE gene = 'g7'"), db.value("SELECT count(*) FROM p_x WHERE var_joinid = (SELECT id FROM p_var WHERE gene = 'g7')"))
    assert "no such column: id" in db.error("SELECT id FROM y").text
    same(db.query("SELECT var_joinid, n FROM y WHERE n BETWEEN 3 AND 9 ORDER BY obs_joinid, var_joinid"), db.query("SELECT x.var_joinid, v.n FROM p_x x JOIN p_var v "
         "ON v.id = x.var_joinid WHERE v.n BETWEEN 3 AND 9 ORDER BY x.obs_joinid, x.var_joinid"))   # the other array's dimension is a label then
    db.query(f"CREATE VIRTUAL TABLE names USING tessera({literal(folder + '/names')}, gene TEXT DIMENSION, n INT64, size INT32)")
    db.query("INSERT INTO names SELECT gene, n, n * 2 FROM p_var")
    db.query(f"CREATE VIRTUAL TABLE by_name USING tessera({literal(folder + '/x')}, labels='var_joinid=../names.n')")
    same(db.query("SELECT var_joinid, gene, size FROM by_name WHERE gene >= 'g2' ORDER BY obs_joinid, var_joinid"),
         db.query("SELECT x.var_joinid, v.gene, v.n * 2 FROM p_x x JOIN p_var v ON v.n = x.var_joinid WHERE v.gene >= 'g2' ORDER BY x.obs_joinid, x.var_joinid"))
    db.query(f"CREATE VIRTUAL TABLE z USING tessera({literal(folder + '/x')}, labels='obs_joinid=../obs.depth')")
    check_contains(db.error("SELECT note FROM z").text, "two rows of its array have 'depth' ")
    for option, part in (("var_joinid=../var.gene", "'gene' is of UTF8, 'var_joinid' is of INT64"), ("var_joinid=../var.nothing", "has no attribute nothing"),
                         ("var_joinid=../nothing", "nothing"), ("gene=../var", "has no dimension gene"), ("var_joinid=../x", "2 dimensions, not 1"),
                         ("var_joinid=db:var", "a table of this database"), ("var_joinid=", "'labels': expected"), ("yes, no", "one word only"),
                         ("perhaps", "'labels': expected yes, no, group or hidden, not perhaps"), ("yes,", "'labels': expected")):
        check_contains(db.error(f"CREATE VIRTUAL TABLE w USING tessera({literal(folder + '/x')}, labels={literal(option)})").text, part)
    db.close()


def test_changes_of_the_other_array():
    """A statement sees the present rows of the other array, or those at the table's as_of; new texts of enumerations; a dropped attribute is an error."""
    db, folder = opened(gaps=False)
    same(db.value("SELECT DISTINCT note FROM x WHERE obs_joinid = 5"), "n5")
    time = db.value(f"SELECT last_write FROM tessera_array({literal(folder + '/obs')})")
    db.query("UPDATE obs SET note = 'other', cell_type = NULL WHERE id = 5")
    same(db.query("SELECT DISTINCT note, cell_type FROM x WHERE obs_joinid = 5"), [("other", None)])
    same(db.query("SELECT DISTINCT obs_joinid FROM x WHERE note = 'other'"), [(5,)])
    last = db.value("SELECT last_write FROM tessera_array('db:x')")
    assert time < last
    db.query(f"CREATE VIRTUAL TABLE before USING tessera({literal(folder + '/x')}, labels='obs_joinid=../obs', as_of={last})")
    same(db.query("SELECT DISTINCT note, cell_type FROM before WHERE obs_joinid = 5"), db.query("SELECT note, cell_type FROM p_obs WHERE id = 5"))
    db.query("SELECT tessera_extend_enumeration('db:obs', 'cell_type', 'new')")
    other = Database()
    other.query(f"CREATE VIRTUAL TABLE obs USING tessera({literal(folder + '/obs')})")
    other.query("UPDATE obs SET cell_type = 'new' WHERE id = 6")
    other.close()
    same(db.query("SELECT DISTINCT obs_joinid FROM x WHERE cell_type = 'new'"), [(6,)])
    check_contains(db.error("INSERT INTO x(obs_joinid, gene, value) VALUES(1, 'g7', 1)").text, "x.gene: the values of another array can be read")
    db.query("SELECT tessera_drop_attribute('db:obs', 'depth')")
    check_contains(db.error("SELECT depth FROM x").text, "the attribute depth has been dropped")
    db.close()


def test_rows_of_the_transaction():
    """Labels do not show rows that are not committed: a statement that uses them fails while there are some."""
    db, folder = opened()
    one = "SELECT sum(value) FROM x WHERE gene = 'g7'"
    before, time = db.value(one), db.value(f"SELECT last_write FROM tessera_array({literal(folder + '/x')})")
    query = "CREATE VIRTUAL TABLE temp.q USING tessera_query(SELECT gene, count(*) FROM x GROUP BY 1)"
    db.query(query)
    db.query("BEGIN")
    same(db.value(one), before)
    db.query("INSERT INTO x(obs_joinid, var_joinid, value) VALUES(900, 900, 1)")   # rows of the labelled array are shown as ever
    same(db.value("SELECT count(*) FROM x WHERE obs_joinid = 900 AND gene IS NULL"), 1)
    db.query("SAVEPOINT s")
    db.query("INSERT INTO var VALUES(900, 'g900', 1, 1, '2011-01-02')")
    for sql in (one, "SELECT gene FROM x LIMIT 1", "SELECT value FROM x ORDER BY gene LIMIT 1", "SELECT * FROM q"):
        check_contains(db.error(sql).text, "the transaction has rows for ")
        check_contains(db.error(sql).text, "commit first")
    same(db.value("SELECT count(*) FROM x WHERE obs_joinid = 900"), 1)   # this uses no label
    assert db.query("SELECT cell_type FROM x LIMIT 1")   # and this none of that array
    same(db.value(one.replace("WHERE", "WHERE as_of = ? AND"), (time,)), before)
    db.query("ROLLBACK TO s")
    same(db.value(one), before)
    db.query("INSERT INTO var VALUES(900, 'g900', 1, 1, '2011-01-02')")
    db.query("COMMIT")
    same(db.query("SELECT value FROM x WHERE gene = 'g900'"), [(1.0,)])
    db.close()


def test_rename():
    """rename= gives columns other names, all at once; labels= and columns= use the new ones."""
    db, folder = opened()
    x = literal(folder + "/x")
    db.query(f"CREATE VIRTUAL TABLE r USING tessera({x}, rename='obs_joinid=cell, VAR_JOINID=\"gene, no\", value=v', labels='cell=../obs')")
    same(db.query('SELECT cell, "gene, no", v, note FROM r ORDER BY 1, 2'), db.query("SELECT obs_joinid, var_joinid, value, note FROM joined ORDER BY 1, 2"))
    check_contains(db.plan("SELECT * FROM r WHERE note = 'n1'"), "cell(note)=?")
    db.query(f"CREATE VIRTUAL TABLE s USING tessera({x}, rename='obs_joinid=var_joinid, var_joinid=obs_joinid', columns='var_joinid, value')")
    same(db.query("SELECT * FROM s ORDER BY 1, 2"), db.query("SELECT obs_joinid, value FROM p_x ORDER BY 1, 2"))
    db.query("CREATE VIRTUAL TABLE temp.q USING tessera_query(SELECT cell, max(v) AS m FROM r GROUP BY cell)")
    same(db.query("SELECT * FROM q ORDER BY 1"), db.query("SELECT obs_joinid, max(value) FROM p_x GROUP BY 1 ORDER BY 1"))
    db.query("INSERT INTO r(cell, \"gene, no\", v) VALUES(900, 900, 1)")
    same(db.query("SELECT cell, v FROM r WHERE \"gene, no\" = 900"), [(900, 1.0)])
    for option, part in (("a=b", "has no column a"), ("value=obs_joinid", "two columns of "), ("value=a, value=b", "value has two new names"),
                         ("value", "expected old=new, not value"), ("value=", "'rename': expected old=new"), ("=v", "'rename': expected old=new")):
        check_contains(db.error(f"CREATE VIRTUAL TABLE w USING tessera({x}, rename={literal(option)})").text, part)
    db.close()


def test_sizes_of_sets():
    """A comparison may keep no coordinate, one, half of them, or all."""
    db, _ = opened(gaps=False)
    for where in ("depth > 100", "note = 'n1' AND gene = 'g7'", "depth IN (0, 2)", "depth >= 0", "gene >= ''", "gene <> 'g7'"):
        same(db.query(f"SELECT count(*), sum(value) FROM x WHERE {where}"), db.query(f"SELECT count(*), sum(value) FROM joined WHERE {where}"), where)
    db.close()


def test_restrict():
    """A label's array outside of the directory of tessera_restrict is refused, also if it was open before."""
    db, folder = opened()
    inside = tempfile.mkdtemp(dir=host.FOLDER)
    shutil.copytree(folder + "/x", inside + "/x")
    db.query(f"CREATE VIRTUAL TABLE inner USING tessera({literal(inside + '/x')}, labels={literal('var_joinid=' + folder + '/var')})")
    db.query("SELECT gene FROM inner LIMIT 1")
    db.query(f"SELECT tessera_restrict({literal(inside)})")
    same(db.value("SELECT count(*) FROM inner"), db.value("SELECT count(*) FROM p_x"))
    assert db.error("SELECT gene FROM inner LIMIT 1")
    db.close()


def test_more_labels_than_sqlite_has_columns():
    db, folder = opened()
    arrays = ", ".join(["obs_joinid=../obs"] * 5)
    limit = db.raw.limit if hasattr(db.raw, "limit") else db.raw.setlimit
    limit(2, 20)   # SQLITE_LIMIT_COLUMN
    check_contains(db.error(f"CREATE VIRTUAL TABLE many USING tessera({literal(folder + '/x')}, labels='{arrays}')").text,
                   "has 3 columns and more than 14 labels, SQLite shows at most 17 of both")
    db.query(f"CREATE VIRTUAL TABLE few USING tessera({literal(folder + '/x')}, labels='{', '.join(['obs_joinid=../obs'] * 3)}')")


if __name__ == "__main__":
    sys.exit(host.main(sys.modules[__name__]))
