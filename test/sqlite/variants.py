"""tessera_vcf and its companions over datasets that tessera itself writes in TileDB-VCF's layout, well-formed and hostile: each kind of value, each condition
that xFilter takes, schemas and metadata that do not fit, and headers that try to take much memory. `interop/vcf` has the same of TileDB's own datasets.

usage: variants.py EXTENSION ARRAYS
"""
import base64
import itertools
import json
import os
import struct
import sys

from host import Database, check_contains, main, memory_used, same
import host

GAP, LENGTH = 1000, 20000
ERROR, TOOBIG, MISMATCH, CORRUPT = 1, 18, 20, 11
MISSING, END = -2**31, -2**31 + 1
FLOAT_MISSING, FLOAT_END = 0x7F800001, 0x7F800002
NUMBER = itertools.count()
DIMENSIONS = {4: "contig TEXT DIMENSION, start_pos UINT32 DIMENSION(0, 4294967294), sample TEXT DIMENSION",
              3: "sample UINT32 DIMENSION(0, 4294967294), start_pos UINT32 DIMENSION(0, 4294967294)"}
ATTRIBUTES = "real_start_pos UINT32 NOT NULL, end_pos UINT32 NOT NULL"
REST = "qual FLOAT32, alleles ASCII, id ASCII, filter_ids INT32[], info BLOB, fmt BLOB"
HEADER = """##fileformat=VCFv4.2
##INFO=<ID=DP,Number=1,Type=Integer,Description="Depth">
##INFO=<ID=AF,Number=A,Type=Float,Description="x">
##INFO=<ID=T1,Number=1,Type=String,Description="x">
##INFO=<ID=TN,Number=.,Type=String,Description="x">
##INFO=<ID=F1,Number=1,Type=Float,Description="x">
##INFO=<ID=dp,Number=1,Type=Integer,Description="a name that differs in case">
##FORMAT=<ID=GT,Number=1,Type=String,Description="x">
##FORMAT=<ID=AD,Number=R,Type=Integer,Description="x">
##FILTER=<ID=q10,Description="x">
##contig=<ID=1>
##contig=<ID=a:b>
##contig=<ID=2>
##contig=<ID=3>
#CHROM"""


def ints(*values):
    return struct.pack(f"<ii{len(values)}i", 1, len(values), *values)


def floats(*values):
    return struct.pack("<ii", 2, len(values)) + b"".join(struct.pack("<I", v) if isinstance(v, int) else struct.pack("<f", v) for v in values)


def text(value):
    return struct.pack("<ii", 3, len(value)) + value


def blob(values):
    return struct.pack("<I", len(values)) + b"".join(name.encode() + b"\0" + v for name, v in values.items())


def path(*names):
    return os.path.join(host.FOLDER, *names).replace(os.sep, "/")


class Dataset:
    """A dataset of a version, whose array of data has other columns if the caller says so."""

    def __init__(self, version, columns=None, header=HEADER, samples=("NA", "NA1", "z"), metadata=None, headers_columns=None):
        self.db, self.version, self.place = Database(), version, path(f"dataset{next(NUMBER)}")
        self.offsets, self.numbers = {"1": 0, "a:b": LENGTH, "2": 2 * LENGTH, "3": 3 * LENGTH}, {s: 3 * i for i, s in enumerate(samples)}
        os.makedirs(self.place + "/metadata")
        self.db.query(f"CREATE VIRTUAL TABLE d USING tessera('{self.place}/data', {columns or ', '.join((DIMENSIONS[version], ATTRIBUTES, REST))}, duplicates=yes)")
        given = {"anchor_gap": GAP}
        if version == 3:
            given.update(contig_offsets=self.encoded(self.offsets), sample_ids=self.encoded(self.numbers))
        for key, value in {**given, **(metadata or {})}.items():
            if value is not None:
                self.db.query(f"SELECT tessera_set_metadata('{self.place}/data', ?, ?, ?)", (key, value, "UINT32" if isinstance(value, int) else "UTF8"))
        by = headers_columns or ("sample TEXT DIMENSION, header ASCII" if version == 4 else "sample UINT32 DIMENSION(0, 4294967294), header ASCII")
        self.db.query(f"CREATE VIRTUAL TABLE h USING tessera('{self.place}/metadata/vcf_headers', {by})")
        if not headers_columns:
            for i, sample in enumerate(samples):
                self.db.query("INSERT INTO h(sample, header) VALUES(?, ?)", (sample if version == 4 else self.numbers[sample], header(i) if callable(header) else header + f"\t{sample}"))

    @staticmethod
    def encoded(numbers):
        return base64.b64encode(",".join(f"{name}\t{number}" for name, number in numbers.items()).encode()).decode()

    def add(self, contig, pos, end, sample, **cell):
        """Adds a record: the cell at its start, and anchors."""
        base = 0 if self.version == 4 else self.offsets[contig]
        real, last = pos - 1 + base, end - 1 + base
        names = ["start_pos", "sample", "real_start_pos", "end_pos", *cell] + (["contig"] if self.version == 4 else [])
        for start in range(real, last + 1, GAP):
            values = [start, sample if self.version == 4 else self.numbers[sample], real, last, *cell.values()] + ([contig] if self.version == 4 else [])
            self.db.query(f"INSERT INTO d({', '.join(names)}) VALUES({', '.join('?' * len(values))})", values)

    def open(self, options=""):
        self.db.query(f"CREATE VIRTUAL TABLE v USING tessera_vcf('{self.place}/data'{options})")
        return self.db

    def refuses(self, part, code=None, options=""):
        e = self.db.error(f"CREATE VIRTUAL TABLE v USING tessera_vcf('{self.place}/data'{options})")
        check_contains(e.text, part)
        if code is not None and e.code is not None:
            same(e.code, code, e.text)


def test_values():
    for version in (3, 4):
        data = Dataset(version)
        data.add("1", 5, 5, "NA", alleles="A,C,G", id="rs1;rs2", qual=2.5, filter_ids="[1, 0]", fmt=blob({"GT": ints(2, 5, 0), "AD": ints(1, MISSING, END, 9)}),
                 info=blob({"DP": ints(7, 8), "AF": floats(0.5, FLOAT_MISSING, float("inf"), -float("inf"), float("nan"), FLOAT_END, 3.0), "T1": text(b"a,b\0\0"),
                            "TN": text(b"x,.,"), "F1": floats(0.25), "dp": ints(1), "more": ints(1, 2), "FL": struct.pack("<ii", 0, 0)}))
        data.add("1", 6, 6, "NA1", alleles="A", id=".", filter_ids="[2, 0, 77]", info=blob({"DP": ints(MISSING), "AF": floats(FLOAT_MISSING), "T1": text(b"."),
                 "TN": text(b"\x07"), "F1": floats(FLOAT_END)}), fmt=blob({"GT": ints(2), "AD": ints(END)}))
        data.add("1", 7, 7, "z", alleles="A,.", filter_ids="[0]", info=blob({"TN": text(b"."), "F1": floats(float("-inf")), "AF": floats(FLOAT_MISSING, 1.0)}), fmt=blob({"AD": text(b"q")}))
        db = data.open()
        rows = db.query("SELECT pos, id, ref, alt, qual, filter, gt, phased, info_DP, info_AF, info_T1, info_TN, info_F1, fmt_AD FROM v ORDER BY pos")
        same(rows[0][:8], (5, "rs1;rs2", "A", '["C","G"]', 2.5, "PASS", "0|1/.", 0), version)
        same(rows[0][8:], (7, "[0.5,null,9e999,-9e999,null]", "a,b", '["x",null,""]', 0.25, "[1,null]"), version)
        same(rows[1], (6, None, "A", None, None, "PASS;#77", "0", 0, None, None, None, None, None, None), version)
        same(rows[2], (7, None, "A", None, None, None, None, None, None, "[null,1.0]", None, None, -float("inf"), '["q"]'), version)
        info = db.query("SELECT info, fmt FROM v ORDER BY pos")
        same(info[0][0], '{"DP":7,"AF":[0.5,null,9e999,-9e999,null],"T1":"a,b","TN":["x",null,""],"F1":0.25,"dp":1,"more":[1,2],"FL":1}')
        same(info[0][1], '{"GT":2,"AD":[1,null]}')
        same(json.loads(info[1][0]), {"DP": None, "AF": [None], "T1": None, "TN": None, "F1": None})
        same(info[1][1], '{"GT":2,"AD":null}')
        same(json.loads(info[2][0]), {"TN": None, "F1": float("-inf"), "AF": [None, 1.0]})
        names = [row[1] for row in db.query("SELECT * FROM pragma_table_info('v')")]
        same([n for n in names if n.startswith("info_")], ["info_DP", "info_AF", "info_T1", "info_TN", "info_F1"], "names of columns differ without case")
        same(len(set(row[0] for row in db.query("SELECT rowid FROM v"))), 3)


def test_empty_cells():
    data = Dataset(4)
    data.add("1", 1, 1, "NA")
    db = data.open()
    row = db.query("SELECT * FROM v")[0]
    same(row[:4], ("1", 1, 1, "NA"))
    same(set(row[4:]), {None})
    bare = Dataset(4, ", ".join((DIMENSIONS[4], ATTRIBUTES)))
    bare.add("1", 1, 1, "NA")
    same(set(bare.open().query("SELECT * FROM v")[0][4:]), {None}, "without the attributes")


def test_conditions():
    for version in (3, 4):
        data = Dataset(version)
        places = [(contig, pos, sample) for contig in ("1", "a:b", "3") for pos in (1, 700, 5000) for sample in ("NA", "z")]
        for contig, pos, sample in places:
            data.add(contig, pos, pos + 2500, sample)
        db = data.open()

        def shown(where, source="v"):
            return sorted(db.query(f"SELECT contig, pos, sample FROM {source} WHERE {where}"))

        for where, keep in (("1", lambda c, p, s: True), ("contig = 'a:b'", lambda c, p, s: c == "a:b"), ("contig = '2'", lambda *_: False), ("contig = 'q'", lambda *_: False),
                            ("contig = '1' AND pos = 700", lambda c, p, s: c == "1" and p == 700), ("pos = 700.5", lambda *_: False), ("pos >= 699.5", lambda c, p, s: p >= 699.5),
                            ("contig = '3' AND pos > 700 AND pos < 1e300", lambda c, p, s: c == "3" and p > 700), ("contig = '3' AND pos <= 700 AND pos > -5", lambda c, p, s: c == "3" and p <= 700),
                            ("pos > 5e9", lambda *_: False), ("pos < 1", lambda *_: False), ("contig = '1' AND pos > 6000 AND pos < 5", lambda *_: False),
                            ("sample = 'z' AND pos = 1", lambda c, p, s: s == "z" and p == 1), ("sample = 'nobody'", lambda *_: False), ("sample = NULL", lambda *_: False),
                            ("contig = NULL AND pos = 1", lambda *_: False), ("sample = 'Z' COLLATE NOCASE", lambda c, p, s: s == "z"), ("contig = 'A:B' COLLATE NOCASE", lambda c, p, s: c == "a:b"),
                            ("contig = CAST('1' || char(0) AS TEXT)", lambda *_: False), ("pos IN (1, 5000) AND contig = '3'", lambda c, p, s: c == "3" and p in (1, 5000)),
                            ("contig IN ('1', '3') AND sample IN ('NA')", lambda c, p, s: c != "a:b" and s == "NA")):
            same(shown(where), sorted(p for p in places if keep(*p)), f"{version}: {where}")
        overlaps = lambda c, low, high: lambda contig, pos, sample: contig == c and pos <= high and pos + 2500 >= low
        for region, keep in (("1:1-700", overlaps("1", 1, 700)), (" 1:3,199-3,200 ", overlaps("1", 3199, 3200)), ("3:3201-", overlaps("3", 3201, 10**9)), ("a:b:7000", overlaps("a:b", 7000, 7000)),
                             ("a:b", overlaps("a:b", 1, 10**9)), ("2", lambda *_: False), ("1:99999999999-99999999999", lambda *_: False),
                             ("1:1-10;1:5-20;1:21-30;3:1-1", lambda c, p, s: overlaps("1", 1, 30)(c, p, s) or overlaps("3", 1, 1)(c, p, s)),
                             ("3:7000-9000;3:100-200;3:5000-", lambda c, p, s: overlaps("3", 100, 200)(c, p, s) or overlaps("3", 5000, 10**9)(c, p, s))):
            same(shown("1", f"v('{region}')"), sorted(p for p in places if keep(*p)), f"{version}: {region}")
        same(shown("region = '[]'"), [])
        same(shown("region = NULL"), [])
        same(shown("v.region IN ('1:1-1', '3:1-1') AND v.sample = 'NA'"), [("1", 1, "NA"), ("3", 1, "NA")])
        joined = "(SELECT '1:1-1' AS r UNION ALL SELECT NULL UNION ALL SELECT '3:7000-7000') AS w"
        same(db.query(f"SELECT count(*) FROM {joined} JOIN v ON v.region = w.r"), [(4,)])
        same(db.query("SELECT count(*) FROM v AS a JOIN v AS b ON b.contig = a.contig AND b.pos = a.pos AND b.sample > a.sample"), [(9,)])
        for region, part in (("[1]", "region: expected texts, not 1"), ("[", "JSON"), (" ", "expected CONTIG:FROM-TO"), (";1", "expected CONTIG:FROM-TO"), ("1:", "expected CONTIG:FROM-TO"), ("1:x", "from 1"),
                             ("1:5x", "from 1"), ("1:0", "from 1"), ("1:9-8", "from 1"), ("1:9-x", "from 1"), (":5", "no contig ':5' (1, a:b, 2 ...)"), ("q:5", "no contig 'q'")):
            check_contains(db.error(f"SELECT * FROM v('{region}')").text, part)


def test_headers_need_not_list_contigs():
    data = Dataset(4, header="##INFO=<ID=DP,Number=1,Type=Integer>\n#CHROM")
    data.add("1", 5, 5, "NA")
    data.add("x:1", 5, 5, "NA")
    data.add("y", 9, 9, "NA", filter_ids="[6, 0, 1, 2, 3, 4, 5]")
    db = data.open()
    for region, rows in (("1", 1), ("1:5", 1), ("1:4", 0), ("1:3-4", 0), ("1:3-5", 1), ("1:6", 0), ("x:1", 0), ("x:1:5", 1), ("q", 0)):
        same(len(db.query(f"SELECT * FROM v('{region}')")), rows, region)
    same(db.query("SELECT filter FROM v('y')"), [("PASS;DP;#2;#3;#4;#5",)], "the header names one")
    check_contains(Dataset(3, metadata={"contig_offsets": ""}).open().error("SELECT * FROM v('1')").text, "no contig '1' (it has none)")


def test_what_does_not_fit_is_refused():
    dims, unsupported = DIMENSIONS[4], "its schema is not that of TileDB-VCF's version 3 or 4"
    for columns, part in ((f"{dims}, end_pos UINT32", "is not a TileDB-VCF data array: it has no attribute real_start_pos"), (f"{dims}, real_start_pos UINT32", unsupported),
                          ("contig TEXT DIMENSION, sample TEXT DIMENSION, real_start_pos UINT32, end_pos UINT32", unsupported),
                          ("contig TEXT DIMENSION, start_pos UINT32 DIMENSION(0, 10), real_start_pos UINT32, end_pos UINT32", unsupported),
                          ("sample UINT32 DIMENSION(0, 10), end_pos UINT32 DIMENSION(0, 10), real_start_pos UINT32", "version 2: ingest it again"),
                          (f"{dims}, real_start_pos UINT64, end_pos UINT32", unsupported), (f"{dims}, real_start_pos UINT32, end_pos INT32", unsupported),
                          (f"{dims}, more INT32 DIMENSION, {ATTRIBUTES}", unsupported),
                          (f"contig TEXT DIMENSION, start_pos UINT64 DIMENSION(0, 10), sample TEXT DIMENSION, {ATTRIBUTES}", unsupported),
                          (f"contig UINT32 DIMENSION(0, 10), start_pos UINT32 DIMENSION(0, 10), sample TEXT DIMENSION, {ATTRIBUTES}", unsupported),
                          (f"contig TEXT DIMENSION, start_pos UINT32 DIMENSION(0, 10), sample UINT32 DIMENSION(0, 10), {ATTRIBUTES}", unsupported),
                          (f"contig TEXT DIMENSION, s UINT32 DIMENSION(0, 10), sample TEXT DIMENSION, start_pos UINT32, {ATTRIBUTES}", unsupported),
                          (f"contig TEXT DIMENSION, start_pos UINT32 DIMENSION(0, 10), s TEXT DIMENSION, sample TEXT, {ATTRIBUTES}", unsupported),
                          (f"c TEXT DIMENSION, start_pos UINT32 DIMENSION(0, 10), sample TEXT DIMENSION, contig TEXT, {ATTRIBUTES}", unsupported),
                          (f"sample INT32 DIMENSION(0, 10), start_pos UINT32 DIMENSION(0, 10), {ATTRIBUTES}", unsupported),
                          (f"{dims}, {ATTRIBUTES}, qual FLOAT64", unsupported), (f"{dims}, {ATTRIBUTES}, qual FLOAT32[]", unsupported), (f"{dims}, {ATTRIBUTES}, info UINT8", unsupported),
                          (f"{dims}, {ATTRIBUTES}, fmt INT32[]", unsupported), (f"{dims}, {ATTRIBUTES}, filter_ids INT64[]", unsupported), (f"{dims}, {ATTRIBUTES}, filter_ids INT32", unsupported)):
        Dataset(4, columns).refuses(part)
    for gap in (None, 0, "x"):
        Dataset(4, metadata={"anchor_gap": gap}).refuses("it has no metadata anchor_gap")
    for columns in ("sample TEXT DIMENSION, other ASCII", "sample TEXT DIMENSION, header INT32", "sample TEXT DIMENSION, header INT32[]", "sample TEXT DIMENSION, x INT32 DIMENSION, header ASCII",
                    "sample UINT32 DIMENSION(0, 10), header ASCII", "sample INT32 DIMENSION(0, 10), header ASCII"):
        Dataset(4, headers_columns=columns).refuses("is not TileDB-VCF's array of headers")
    Dataset(3, headers_columns="sample INT32 DIMENSION(0, 10), header ASCII").refuses("is not TileDB-VCF's array of headers")
    for key in ("contig_offsets", "sample_ids"):
        Dataset(3, metadata={key: "?"}).refuses(f"the metadata '{key}' are not base64", CORRUPT)
    data = Dataset(4)
    for options, part in ((", columns='pos'", "options columns, labels and rename"), (", x INT32 DIMENSION(0, 9)", "tessera_vcf makes no arrays"), (", nothing=1", "nothing"), (", key_file='away'", "away")):
        data.refuses(part, options=options)
    check_contains(data.db.error("CREATE VIRTUAL TABLE v USING tessera_vcf()").text, "expected the path")
    os.rename(data.place + "/metadata", data.place + "/away")
    data.refuses("metadata/vcf_headers")


def test_an_attribute_of_another_kind_is_passed_over():
    data = Dataset(4, ", ".join((DIMENSIONS[4], ATTRIBUTES, REST, "info_DP INT32, info_AF BLOB, info_T1 BLOB, fmt_AD BLOB")))
    data.add("1", 1, 1, "NA", info=blob({"DP": ints(3)}), info_DP=9, info_AF=floats(0.5), fmt_AD=b"\0")
    data.add("1", 2, 2, "NA", info_AF=b"\1\0\0", info_T1=text(b"x"), info=blob({"T1": text(b"of the blob")}))
    db = data.open()
    same(db.query("SELECT info_DP, info_AF, info_T1, fmt_AD, info, fmt FROM v WHERE pos = 1"), [(3, "[0.5]", None, None, '{"DP":3,"AF":[0.5]}', None)])
    same(db.query("SELECT info_T1 FROM v WHERE pos = 2"), [("x",)])
    for column in ("info_AF", "info"):
        e = db.error(f"SELECT {column} FROM v WHERE pos = 2")
        check_contains(e.text, "the record of sample NA at 1:2 has a damaged AF")


def test_damaged_blobs():
    whole = blob({"DP": ints(7)})
    for damaged in (whole[:-1], whole[:5], whole[:2], struct.pack("<I", 2**32 - 1) + whole[4:], whole.replace(struct.pack("<ii", 1, 1), struct.pack("<ii", 4, 1)),
                    whole.replace(struct.pack("<ii", 1, 1), struct.pack("<ii", 1, -1)), b"\xff" * 40):
        for version in (3, 4):
            data = Dataset(version)
            data.add("a:b", 77, 77, "NA1", info=damaged, fmt=damaged)
            db = data.open()
            for column in ("info", "fmt", "gt", "phased", "fmt_AD", "info_AF"):
                e = db.error(f"SELECT {column} FROM v")
                check_contains(e.text, f"the record of sample NA1 at a:b:77 has a damaged {'info' if 'info' in column else 'fmt'}")
                same(e.code in (CORRUPT, None), True)
            same(db.value("SELECT ref IS NULL AND sample = 'NA1' FROM v"), 1, "other columns can be read")
    data = Dataset(4)
    data.add("1", 1, 1, "NA", filter_ids="[3, 0]")
    for number, ids in enumerate(("[]", "[1]", "[0, 1]", "[-1, 1]")):
        data.add("1", 2 + number, 2 + number, "NA", filter_ids=ids)
    db = data.open()
    check_contains(db.error("SELECT filter FROM v WHERE pos = 1").text, "has a damaged filter_ids")
    same(db.query("SELECT filter FROM v WHERE pos > 1"), [(None,)] * 4)


def test_numbers_that_no_metadata_name():
    data = Dataset(3, metadata={"contig_offsets": Dataset.encoded({"2": 40000, "1": 20000}), "sample_ids": Dataset.encoded({"NA1": 3})})
    data.add("1", 5, 5, "NA1")   # position 4 is in no contig
    db = data.open()
    for column in ("contig", "pos", '"end"'):
        check_contains(db.error(f"SELECT {column} FROM v").text, "position 4 is in no contig")
    check_contains(db.error("SELECT info FROM v UNION ALL SELECT contig FROM v").text, "position 4")
    db.query("INSERT INTO d(start_pos, sample, real_start_pos, end_pos, filter_ids, info) VALUES(20004, 5, 20004, 20005, '[1, 0]', x'ffffff')")
    for column in ("sample", "filter"):
        check_contains(db.error(f"SELECT {column} FROM v WHERE contig = '1'").text, "sample number 5 has no name")
    check_contains(db.error("SELECT info FROM v WHERE contig = '1'").text, "the record of sample ? at 1:5 has a damaged info")
    same(db.query("SELECT pos, \"end\" FROM v WHERE contig = '1'"), [(5, 6)])
    db.query(f"CREATE VIRTUAL TABLE samples USING tessera_vcf_samples('{data.place}/data')")
    same(sorted((name or "", header.splitlines()[-1]) for name, header in db.query("SELECT sample, header FROM samples")), [("", "#CHROM\tNA"), ("", "#CHROM\tz"), ("NA1", "#CHROM\tNA1")])
    same(db.query("SELECT rowid FROM samples"), [(1,), (2,), (3,)])
    for offsets in ({"1": 50, "2": 50}, {"1": 2**40, "2": 2**63}, {"1": 2**32 - 1}):   # contigs without a position
        data = Dataset(3, metadata={"contig_offsets": Dataset.encoded(offsets)})
        data.offsets = {"1": 50}
        data.add("1", 5, 5, "NA1")
        same(len(data.open().query(f"SELECT rowid FROM v('{';'.join(offsets)}')")) <= 1, True, offsets)
    odd = base64.b64encode(b"1\t0,broken").decode()
    data = Dataset(3, metadata={"contig_offsets": odd})
    data.add("1", 5, 5, "NA1")
    same(data.open().query("SELECT contig, pos FROM v"), [("1", 5)], "what is no name and number ends the list")


def test_headers():
    lines = ['##INFO=<ID=A,Number=0,Type=Flag,Description="a \\\\ \\" b">', "##INFO=<ID=B,Description=bare,Number=2>", "##INFO=<Number=1>", "##INFO=<ID=>", "##INFO=<", "##INFO=<ID=A,Type=Float>",
             '##INFO=<Description="no, ID=x",ID=C>', '##FORMAT=<ID=A,Number=1,Type=Float,Description="open', "##FILTER=<ID=f3,IDX=9>", "##FILTER=<ID=f4,IDX=9>", "##FILTER=<ID=far,IDX=99999999999999999999>",
             "##FILTER=<ID=odd,IDX=x>", "##contig=<ID=1>", "##contig=<ID=1>", "nonsense", ""]
    data = Dataset(4, header="\n".join(lines) + "\n#CHROM")
    data.add("1", 1, 1, "NA", filter_ids="[5, 1, 9, 8, 1000, 100000]")
    db = data.open()
    db.query(f"CREATE VIRTUAL TABLE f USING tessera_vcf_fields('{data.place}/data')")
    same(db.query("SELECT * FROM f"), [("INFO", "A", "0", "Flag", 'a \\ " b'), ("INFO", "B", "2", "String", "bare"), ("INFO", "C", "", "String", "no, ID=x"), ("FORMAT", "A", "1", "Float", "open")])
    same(db.query("SELECT max(rowid), count(*) FROM f"), [(4, 4)])
    same(db.value("SELECT filter FROM v"), "A;f3;#8;#1000;#100000")
    same(len(Dataset(4, header="").open().query("SELECT * FROM pragma_table_info('v')")), 13, "headers without lines")


def test_headers_take_bounded_memory():
    """A line of a header may give a name any number, and each of these headers has a numbering of its own."""
    few, many = (Dataset(4, samples=[f"s{i}" for i in range(count)], header=lambda i: f"##FILTER=<ID=n{i},IDX=99999>\n#CHROM") for count in (3, 50))
    same(few.open().query("SELECT count(*) FROM v"), [(0,)])
    before = memory_used()
    many.refuses("the headers have too many names", TOOBIG)
    same(memory_used() - before < 4 << 20, True, "nothing is kept")


def test_a_dataset_that_is_gone():
    data = Dataset(4)
    data.add("1", 1, 1, "NA")
    db = Database(path("file.db"))
    for name, module in (("v", "tessera_vcf"), ("f", "tessera_vcf_fields"), ("s", "tessera_vcf_samples")):
        db.query(f"CREATE VIRTUAL TABLE {name} USING {module}('{data.place}/data')")
    db.close()
    os.rename(data.place, data.place + "-gone")
    db = Database(path("file.db"))
    for name, module in (("v", "tessera_vcf"), ("f", "tessera_vcf_fields"), ("s", "tessera_vcf_samples")):
        check_contains(db.error(f"SELECT * FROM {name}").text, module + ": ")
        db.query(f"DROP TABLE {name}")
    same(db.query("SELECT name FROM sqlite_schema"), [])
    for module in ("tessera_vcf", "tessera_vcf_fields", "tessera_vcf_samples"):
        check_contains(db.error(f"CREATE VIRTUAL TABLE x USING {module}('{data.place}/data', nothing=1)").text, "nothing")
        check_contains(db.error(f"SELECT * FROM {module}").text, "no such table")


if __name__ == "__main__":
    sys.exit(main(sys.modules[__name__]))
