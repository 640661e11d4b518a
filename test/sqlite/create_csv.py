"""tessera_create_csv: the lines of a CSV file become an array: quotes, line ends, types by all lines, nulls, and lines that are not sound.

usage: create_csv.py EXTENSION CORPUS [WORDS IN TESTS' NAMES]
"""
import csv
import json
import os
import random

import host
from host import Database, check_contains, same


def database():
    os.chdir(host.FOLDER)
    return Database()


def make(db, text, path="t", **options):
    """Makes an array of a file with this text, and returns the result."""
    with open("f.csv", "wb") as f:
        f.write(text if isinstance(text, bytes) else text.encode())
    return db.value("SELECT tessera_create_csv(?, 'f.csv', ?)", (path, json.dumps(options)))


def refused(db, part, text, **options):
    try:
        make(db, text, "refused", **options)
    except host.Error as e:
        check_contains(e.text, part)
    else:
        raise AssertionError(f"no error, but expected: {part}")
    assert not os.path.exists("refused"), os.listdir("refused")


def rows(db, path="t"):
    db.query("DROP TABLE IF EXISTS shown")
    db.table("shown", path)
    return db.query("SELECT * FROM shown ORDER BY 1")


def types(db, path="t"):
    return [r[0] for r in db.query("SELECT datatype FROM tessera_schema(?)", (path,))][1:]


def test_lines_that_end_with_a_carriage_return():
    """A file of an old Macintosh is one line of names; fields of texts may have a CR."""
    db = database()
    for text in (b"a,b\r1,2\r3,4\r", b"a,b\r\r\n1,2\r\r\n"):
        for options in {}, {"types": {"a": "TEXT"}}, {"on_error": "skip"}:
            refused(db, "line 1: a CR without LF in the names: lines end with LF or CR LF", text, **options)
    same(make(db, b'"a\r",b\n1,x\ry\n'), 1)
    same(rows(db), [(0, 1, "x\ry")])


def test_types_by_all_lines():
    db = database()
    same(make(db, "i,f,t,z,n\n1,1,a,01,\n-0,2.5e3,,2,7\n9223372036854775807,nan,\"1\",3,\n"), 3)
    same(types(db), ["INT64", "FLOAT64", "UTF8", "UTF8", "INT64"])
    same(rows(db), [(0, 1, 1.0, "a", "01", None), (1, 0, 2500.0, "", "2", 7), (2, 9223372036854775807, None, "1", "3", None)])
    for field, datatype in (("9223372036854775808", "UINT64"), ("-9223372036854775808", "INT64"), ("+1", "UTF8"), ("1.", "UTF8"), (".5", "UTF8"), ("00.5", "UTF8"), ("1e5", "FLOAT64"),
                            ("0x10", "UTF8"), ("2024-01-01", "UTF8"), (" 1", "UTF8"), ("inf", "UTF8"), ("1_000", "UTF8"), ("-", "UTF8"), ("1e", "UTF8")):
        make(db, f"a\n5\n{field}\n", "one" + field.replace(".", "_"))
        same(types(db, "one" + field.replace(".", "_")), [datatype], field)


def test_integers_keep_all_digits():
    """No integer is rounded, unless `types` says so."""
    db = database()
    same(make(db, "h\n12345678901234567890\n9223372036854775807\n-0\n18446744073709551615\n"), 4)
    same(types(db), ["UINT64"])
    same([r[1] for r in rows(db)], ["12345678901234567890", 9223372036854775807, 0, "18446744073709551615"])
    for text, part in (("h\n0.5\n9007199254740993\n", "line 3: column 'h': the integer 9007199254740993 is past 2^53, and the column has REALs: \"types\":{\"h\":\"FLOAT64\"} rounds it"),
                       ("h\n-9007199254740993\n0.5\n", "line 2: column 'h': the integer -9007199254740993"), ("h\n12345678901234567890\n\n1e3\n", "line 2: column 'h'"),
                       ("h\n-1\n9223372036854775808\n", "line 3: column 'h': the integer 9223372036854775808 is past 2^53, and the column's integers fit neither INT64 nor UINT64"),
                       ("h\n1\n18446744073709551616\n", "line 3: column 'h'"), ("h\n100000000000000000000000000000\n", "line 2: column 'h'")):
        refused(db, part, text)
    same(make(db, "h\n9007199254740992\n-9007199254740992\n0.5\n1e30\n", "exact"), 4)
    same([r[1] for r in rows(db, "exact")], [2.0**53, -2.0**53, 0.5, 1e30])
    same(make(db, "h\n9007199254740993\n0.5\n", "rounded", types={"h": "FLOAT64"}), 2)
    same([r[1] for r in rows(db, "rounded")], [2.0**53, 0.5])
    got = json.loads(make(db, "h\n0.5\n9007199254740993\n1\n", "skipped", on_error="skip"))
    same((got["rows"], got["skipped"], got["lines"]), (2, 1, [3]))


def test_times_with_an_offset_become_utc():
    db = database()
    text = "time,v\n2024-03-31T01:50:00+01:00,1\n2024-03-31T03:00:00+02:00,2\n2024-03-31 01:10:00 -0010,3\n2024-03-31T03:30+02,4\n2024-03-31T01:40Z,5\n2024-03-31 01:50,6\n"
    same(make(db, text, dimensions=["time"], types={"time": "DATETIME_SEC"}), 6)
    same(rows(db), [(f"2024-03-31 {clock}", v) for clock, v in (("00:50:00", 1), ("01:00:00", 2), ("01:20:00", 3), ("01:30:00", 4), ("01:40:00", 5), ("01:50:00", 6))])
    refused(db, "line 2: column 'time': '2024-03-31T01:50+01:00' is not a valid DATETIME_DAY: it is finer than the unit", "time,v\n2024-03-31T01:50+01:00,1\n", types={"time": "DATETIME_DAY"})
    refused(db, "'2024-03-31T01:50+24:00' is not a valid DATETIME_SEC: the hour of the offset is not 00 to 23", "time,v\n2024-03-31T01:50+24:00,1\n", types={"time": "DATETIME_SEC"})
    refused(db, "have the coordinates of an earlier row", "time,v\n2024-03-31T01:00Z,1\n2024-03-31T03:00+02:00,1\n", dimensions=["time"], types={"time": "DATETIME_SEC"})
    same(make(db, "time,v\n2024-03-31T02:00+01:00,7\n", if_exists="append"), 1)
    same(rows(db)[1], ("2024-03-31 01:00:00", 7))
    same(db.value("SELECT tessera_create_as('rows', 'SELECT ''2024-03-31T03:00+02:00'' AS time, 1 AS v', '{\"types\":{\"time\":\"DATETIME_SEC\"}}')"), 1)
    same([r[1] for r in rows(db, "rows")], ["2024-03-31 01:00:00"])


def test_decimal_commas():
    db = database()
    text = "station;lat;v;w;name\na;47,5;1,5;;1,5 m\nb;47,25;-2;3;x\nc;-0,5;1e2;4,0;y\n"
    same(make(db, text, delimiter=";", decimal=","), 3)
    same(types(db), ["UTF8", "FLOAT64", "FLOAT64", "FLOAT64", "UTF8"])
    same(rows(db), [(0, "a", 47.5, 1.5, None, "1,5 m"), (1, "b", 47.25, -2.0, 3.0, "x"), (2, "c", -0.5, 100.0, 4.0, "y")])
    same(make(db, text, "typed", delimiter=";", decimal=",", types={"v": "FLOAT32"}), 3)
    same(types(db, "typed")[2], "FLOAT32")
    same(make(db, "lat;v\n47,5;1,5\n47,25;2\n", "labelled", delimiter=";", decimal=",", labels={"lat": "y"}, types={"v": "FLOAT32"}), 2)
    db.table("labelled_rows", "labelled")
    same(db.query("SELECT y, lat, v FROM labelled_rows ORDER BY y"), [(0, 47.5, 1.5), (1, 47.25, 2.0)])
    same(make(db, 'lat;v\n"47,5";1\n47,25;2\n', "texts", delimiter=";", decimal=",", labels={"lat": "y"}), 2)
    db.table("text_rows", "texts")
    same(db.query("SELECT lat FROM text_rows ORDER BY y"), [("47,5",), ("47,25",)])
    same(make(db, "v\n1.5\n", "points", delimiter=";", decimal=","), 1)
    same(types(db, "points"), ["UTF8"])
    refused(db, "line 2: column 'v': '1.5' is not a number", "v\n1.5\n", delimiter=";", decimal=",", types={"v": "FLOAT64"})
    for given in ({}, {"delimiter": ","}):
        refused(db, "'decimal': the comma separates the fields: give 'delimiter', too", "a\n1\n", decimal=",", **given)
    for given in ("", ";", "..", 1):
        refused(db, "'decimal'", "a\n1\n", delimiter="|", decimal=given)


def test_quotes_and_line_ends():
    db = database()
    same(make(db, b'\xef\xbb\xbfname,"va""lue"\r\n"a, ""b""\r\nc",1\r\n,2\r\n"",3'), 3)
    same(rows(db), [(0, 'a, "b"\r\nc', 1), (1, "", 2), (2, "", 3)])
    same([r[0] for r in db.query("SELECT name FROM tessera_schema('t')")], ["row", "name", 'va"lue'])
    same(make(db, "a;b\n1;2\n", "semicolons", delimiter=";"), 1)
    same(make(db, "1,x\n\n2,y\n", "named", names=["k", "v"]), 2)
    same(rows(db, "named"), [(0, 1, "x"), (1, 2, "y")])
    same(make(db, "a\n\n5\n", "single"), 2)
    same(rows(db, "single"), [(0, None), (1, 5)])


def test_lines_that_are_not_sound():
    db = database()
    for text, part in (("a,b\n1,2\n3\n", "line 3: 1 fields, but 2 columns are named"), ("a,b\n1,2,3\n", "line 2: 3 fields"), ('a,b\n1,"x"y\n', "line 2: text behind a closing quote"),
                       ('a,b\n1,x"y\n', "line 2: a quote within a field"), ('a,b\n"1\n2",3\n4,"x\n', "line 4: a quote that is opened and not closed"), ("", "is empty"), ("a,,b\n1,2,3\n", "column 2 has no name"),
                       ("a,A\n1,2\n", "two columns are called 'A'")):
        refused(db, part, text)
    refused(db, "line 3: column 'a': 'x' is not a valid INT8", "a\n1\nx\n", types={"a": "INT8"})
    refused(db, "line 2: column 'a': 'x' is not a number", "a\nx\n", types={"a": "FLOAT32"})
    got = json.loads(make(db, 'a,b\n1,2\nbad\n3,4\n5,"x"y\n6,"7\n8,9\n', on_error="skip"))
    same((got["rows"], got["skipped"], got["lines"]), (3, 3, [3, 5, 6]))
    check_contains(got["first"], "line 3: 1 fields")
    same(rows(db), [(0, 1, 2), (1, 3, 4), (2, 8, 9)])
    got = json.loads(make(db, "a\n" + "x\n" * 30 + "1\n", "many", types={"a": "INT8"}, on_error="skip"))
    same((got["rows"], got["skipped"], got["lines"]), (1, 30, list(range(2, 22))))


def test_lines_outside_of_a_domain():
    db = database()
    text = "a,v\n1,1\n12,2\n3,3\n-1,4\n"
    refused(db, "line 3: dimension 'a': 12 is outside the domain, 0 to 9", text, dimensions=["a"], domains={"a": [0, 9]})
    for k, (fields, options, kept) in enumerate(((text, {"domains": {"a": [0, 9]}}, [1, 3]), (text, {"domains": {"a": [0, 9]}, "types": {"a": "UINT8"}}, [1, 3]), (text.replace("3,3", "3.5,3"), {"domains": {"a": [0, 9]}}, [1.0, 3.5]),
                                                 ("a,v\n1,1\n18446744073709551615,2\n3,3\n9223372036854775808,4\n", {"domains": {"a": [0, 9]}}, [1, 3]))):
        got = json.loads(make(db, fields, f"kept{k}", dimensions=["a"], on_error="skip", **options))
        same((got["rows"], got["skipped"], got["lines"]), (2, 2, [3, 5]))
        same([r[0] for r in rows(db, f"kept{k}")], kept)


def test_domains_past_int64():
    db = database()
    text, most = "x,v\n1,1\n18446744073709551610,2\n", 2**64 - 2
    for name, ends, given in (("both", [0, most], text), ("texts", ["0", str(most)], text), ("small values", [0, most], "x,v\n1,1\n2,2\n")):
        same(make(db, given, name, dimensions=["x"], domains={"x": ends}), 2)
        same(db.value("SELECT datatype || ' ' || domain FROM tessera_schema(?)", (name,)), f'UINT64 [0,"{most}"]', name)
    refused(db, "line 2: dimension 'x': 1 is outside the domain, 9223372036854775808 to 18446744073709551614", text, dimensions=["x"], domains={"x": [2**63, most]})
    got = json.loads(make(db, text, "less", dimensions=["x"], domains={"x": [0, 2**63 + 1]}, on_error="skip"))
    same((got["rows"], got["lines"]), (1, [3]))
    same(make(db, "x,v\n1.5,1\n", "real", dimensions=["x"], domains={"x": [0, most]}), 1)
    refused(db, "its domain may not take all of UINT64", text, dimensions=["x"], domains={"x": [0, most + 1]})
    refused(db, "the high end of the domain, 18446744073709551614, does not fit INT64", "x,v\n-1,1\n", dimensions=["x"], domains={"x": [0, most]})


def test_a_header_alone():
    db = database()
    for text in ("a,b\n", "a,b", "a,b\nbad\n"):
        refused(db, "column 'a': no line determines its type: give it in types", text, on_error="skip")
    refused(db, "column 'b': no line determines its type: give it in types", "a,b\n", types={"a": "INT8"})
    same(make(db, "a,b\n", dimensions=["a"], domains={"a": [0, 9]}, types={"a": "INT8", "b": "TEXT"}), 0)
    same(make(db, "b,a\n", if_exists="append"), 0)
    same(make(db, "b,a\nx,3\n", if_exists="append"), 1)
    same([r for r in rows(db) if r[1] is not None], [(3, "x")])
    same(make(db, "a,b\n1,\n", "empty"), 1)
    same(rows(db, "empty"), [(0, 1, "")], "a column of empty fields is text")


def test_skipped_lines_at_the_coordinates_of_others():
    """The first line at a coordinate stays. Their numbers are those of the file, in ascending order among those of other faults."""
    db = database()
    text = 'x,y,name\n1,2,"a\nb"\n1,3,c\nbad\n\n1,2,d\n1,4,\n1,2,e\nbad\n1,4,f\n'
    got = json.loads(make(db, text, dimensions=["x", "y"], on_error="skip"))
    same(got, {"rows": 3, "skipped": 5, "lines": [5, 7, 9, 10, 11], "first": "line 5: 1 fields, but 3 columns are named"})
    same(rows(db), [(1, 2, "a\nb"), (1, 3, "c"), (1, 4, "")])
    same(db.value("SELECT kind FROM tessera_array('t')"), "dense")
    got = json.loads(make(db, "x,v\n1,1\n1,2\n2,x\n", "first", types={"v": "INT8"}, dimensions=["x"], on_error="skip"))
    same(got, {"rows": 1, "skipped": 2, "lines": [3, 4], "first": "line 3: an earlier row has the coordinates (1)"})
    got = json.loads(make(db, "x,v\n" + "".join(f"{i % 30},{i}\n" + "bad\n" * (i % 7 == 0) for i in range(60)), "many", dimensions=["x"], on_error="skip"))
    lines, line = [], 1
    for i in range(60):
        line += 1
        if i >= 30:
            lines.append(line)
        if i % 7 == 0:
            line += 1
            lines.append(line)
    same((got["rows"], got["skipped"], got["lines"]), (30, len(lines), lines[:20]))
    same(rows(db, "many"), [(i, i) for i in range(30)])


def test_text_is_utf8():
    db = database()
    latin = "name,v\nBern,1\nZürich,2\nGenève,3\n"
    refused(db, "line 3: column 'name': byte 2 of the field, 0xFC, is not UTF-8: convert the file to UTF-8", latin.encode("latin-1"))
    for options in ({"enumerate": ["name"]}, {"types": {"name": "ASCII"}}, {"dimensions": ["name"]}):
        refused(db, "line 3: column 'name': byte 2", latin.encode("latin-1"), **options)
    refused(db, "line 1: the name of column 2: byte 1 of the field, 0xE9", "a,été\n1,2\n".encode("latin-1"))
    got = json.loads(make(db, latin.encode("latin-1"), on_error="skip"))
    same((got["rows"], got["skipped"], got["lines"]), (1, 2, [3, 4]))
    same(rows(db), [(0, "Bern", 1)])
    same(make(db, latin, "utf8"), 3)
    same([r[1] for r in rows(db, "utf8")], ["Bern", "Zürich", "Genève"])
    same(make(db, latin.encode("latin-1"), "left", columns=["v"]), 3)
    for encoding, mark in (("utf-16-le", b"\xff\xfe"), ("utf-16-be", b"\xfe\xff")):
        for options in ({}, {"names": ["a", "b"]}, {"on_error": "skip"}, {"names": ["a", "b"], "on_error": "skip"}):
            refused(db, "the file is UTF-16, which is not read", mark + latin.encode(encoding), **options)


def test_nulls():
    db = database()
    make(db, "a,t\nNA,NA\n1,\n", **{"null": "NA"})
    same(rows(db), [(0, None, None), (1, 1, "")])
    make(db, "a,t,q\nNA,NA,\n,x,1\n2.5,\"NA\",NA\n", "both", **{"null": "NA"}) # an empty field among numbers is NULL beside it
    same(rows(db, "both"), [(0, None, None, None), (1, None, "x", 1), (2, 2.5, "NA", None)])
    refused(db, "line 3: column 'a': NULL in a dimension", "a,v\n1,2\n,3\n", dimensions=["a"])
    make(db, "e,v\n,1\nx,2\n", "labels", enumerate=["e"])
    same(rows(db, "labels"), [(0, None, 1), (1, "x", 2)])


def test_options():
    db = database()
    same(make(db, "day,station,temp,ok\n2024-01-02,7,-3.5,true\n2024-01-01,9,1,false\n", dimensions=["day", "station"], types={"day": "DATETIME_DAY", "temp": "FLOAT32", "ok": "BOOL"}), 2)
    same(rows(db), [("2024-01-01", 9, 1.0, 0), ("2024-01-02", 7, -3.5, 1)])
    check_contains(db.error("SELECT tessera_create_as('x', 'SELECT 1 AS a', '{\"delimiter\":\";\"}')").text, "no option is called 'delimiter'")
    refused(db, "expected one ASCII character", "a\n1\n", delimiter=";;")
    refused(db, "a delimiter that CSV uses itself", "a\n1\n", delimiter='"')
    check_contains(make(db, "a\n1\n", "explained", explain=True), "a INT64 FILTERS")
    check_contains(db.error("SELECT tessera_create_csv('x', 'missing.csv')").text, "missing.csv")
    check_contains(db.error("SELECT tessera_create_csv('x', '.')").text, "regular file")


def test_a_restricted_connection():
    db = database()
    os.mkdir("inside")
    make(db, "a\n1\n", "other")
    db.query("SELECT tessera_restrict('inside')")
    assert db.error("SELECT tessera_create_csv('inside/t', 'f.csv')")
    os.rename("f.csv", "inside/f.csv")
    same(db.value("SELECT tessera_create_csv('inside/t', 'inside/f.csv')"), 1)


def test_random_files():
    db, generator = database(), random.Random(int(os.environ.get("SEED", "1")))
    for k in range(30):
        width = generator.randint(2, 4)
        table = [["".join(generator.choice('ab,"\n\r 0') for _ in range(generator.randint(0, 6))) + "t" for _ in range(width)] for _ in range(generator.randint(1, 40))]
        with open("f.csv", "w", newline="") as f:
            writer = csv.writer(f, lineterminator=generator.choice(["\n", "\r\n"]))
            writer.writerow([f"c{i}" for i in range(width)])
            writer.writerows(table)
        same(db.value("SELECT tessera_create_csv(?, 'f.csv')", (f"t{k}",)), len(table))
        same([list(row[1:]) for row in rows(db, f"t{k}")], table)


def test_a_large_file():
    db = database()
    with open("f.csv", "w") as f:
        f.write("i,v,name\n")
        f.writelines(f'{i},{i / 4},"name, {i % 100}"\n' for i in range(200000))
    same(db.value("SELECT tessera_create_csv('t', 'f.csv', '{\"memory_mb\":16}')"), 200000)
    db.table("t", "t")
    same(db.query("SELECT count(*), sum(i), sum(v), count(DISTINCT name) FROM t"), [(200000, 19999900000, 4999975000.0, 100)])


def test_many_columns():
    db = database()
    names = [f"c{i}" for i in range(32767)]
    same(make(db, ",".join(names) + "\n" + ",".join("1" for _ in names) + "\n", columns=["c9", "c32766"]), 1)
    same(rows(db), [(0, 1, 1)])
    refused(db, "two columns are called 'C0'", ",".join([*names[:-1], "C0"]) + "\n")
    refused(db, "the source has 100000 columns; an array may have 32767", ",".join(f"c{i}" for i in range(100000)) + "\n")


if __name__ == "__main__":
    host.main(__import__("__main__"))
