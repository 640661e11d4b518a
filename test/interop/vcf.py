"""Datasets in the layout of TileDB-VCF, versions 3 and 4, that TileDB writes here: tessera_vcf and tessera_attach show the records that were put in,
each once, and for every region those that overlap it.

usage: vcf.py SHELL EXTENSION      (77: the package `tiledb` is not installed)
"""
import base64
import json
import os
import random
import struct
import sys

from cases import Cases
from change import Failed, Session, equal

try:
    import numpy
    import tiledb
except ImportError:
    tiledb = None

GAP, LENGTH = 1000, 20000
CONTIGS = ("1", "chr2:b", "X")
SAMPLES = ("NA", "NA1", "NA12", "b.s", "z")
HEADER = """##fileformat=VCFv4.2
##FILTER=<ID=PASS,Description="All, filters = passed">
##INFO=<ID=DP,Number=1,Type=Integer,Description="Depth, ID=no">
##FILTER=<ID=q10,Description="5\\" low">
##INFO=<ID=AF,Number=A,Type=Float,Description="x">
##INFO=<ID=DB,Number=0,Type=Flag,Description="x">
##INFO=<ID=GENE,Number=1,Type=String,Description="the \\"gene\\">">
##INFO=<ID=TAGS,Number=.,Type=String,Description="x">
##FORMAT=<ID=GT,Number=1,Type=String,Description="x">
##FORMAT=<ID=AD,Number=R,Type=Integer,Description="x">
##FORMAT=<ID=GQ,Number=1,Type=Float,Description="x">
"""
MISSING, END = -2**31, -2**31 + 1


def header(sample):
    """One sample has numbers in its lines, as BCF does, and the others go by their order. As long as those of real references: thousands of contigs."""
    first, *lines = [*HEADER.splitlines(), '##FILTER=<ID=s50,Description="half">']
    if sample == "z":
        lines = [f"{line[:-1]},IDX={number}>" for number, line in enumerate(lines)][::-1]
    contigs = [f"##contig=<ID={c},length={LENGTH}>" for c in [*CONTIGS, *(f"chrUn_KI270{i:03}v1_decoy" for i in range(600))]]
    return "\n".join([first, *lines, *contigs, f"#CHROM\tPOS\tID\tREF\tALT\tQUAL\tFILTER\tINFO\tFORMAT\t{sample}"])


def value(kind, values):
    """Bytes of a value: a flag, integers, floats or text."""
    if kind == "flag":
        return struct.pack("<ii", 0, 0)
    if kind == "text":
        return struct.pack("<ii", 3, len(values)) + values.encode()
    code, letter = (1, "i") if kind == "int" else (2, "f")
    if kind == "float":
        return struct.pack("<ii", 2, len(values)) + b"".join(struct.pack("<I", 0x7F800001) if v is None else struct.pack("<f", v) for v in values)
    return struct.pack("<ii", code, len(values)) + struct.pack(f"<{len(values)}{letter}", *(MISSING if v is None else v for v in values))


def blob(values):
    return struct.pack("<I", len(values)) + b"".join(name.encode() + b"\0" + v for name, v in values.items())


def genotype(chance, alleles):
    """(stored, text, phased)"""
    called = [chance.choice([None, *range(alleles)]) for _ in range(chance.choice((1, 2, 2, 2, 3)))]
    phased = [chance.random() < 0.4 for _ in called]
    stored = [(0 if a is None else a + 1) << 1 | (p and i > 0) for i, (a, p) in enumerate(zip(called, phased))]
    text = "".join(("" if i == 0 else "|" if phased[i] else "/") + ("." if a is None else str(a)) for i, a in enumerate(called))
    return stored + [END] * chance.choice((0, 1)), text, int(len(called) > 1 and all(phased[1:]))


def records(chance, count):
    """What a VCF file would say: dicts by the names of columns, and `cell`, the attributes that are stored."""
    made = []
    for _ in range(count):
        contig, sample, start = chance.choice(CONTIGS), chance.choice(SAMPLES), chance.randrange(LENGTH - 6000)
        end = start + chance.choice((0, 0, 0, 3, 50, 999, 1000, 1001, 2000, 5500))
        alts = chance.sample(["C", "GT", "<DEL>", "*"], chance.choice((0, 1, 1, 2, 3)))
        stored, gt, phased = genotype(chance, 1 + len(alts))
        info, shown = {}, {"info_DP": None, "info_AF": None, "info_DB": None, "info_GENE": None, "info_TAGS": None, "fmt_AD": None, "fmt_GQ": None}
        if chance.random() < 0.7:
            depth = chance.choice((None, chance.randrange(100)))
            info["DP"], shown["info_DP"] = value("int", [depth] if depth is not None else [None, 5]), depth   # only the first one counts
        if alts:
            af = [chance.choice((None, 0.25, 0.5)) for _ in alts]
            info["AF"], shown["info_AF"] = value("float", af), None if af == [None] else af
        if chance.random() < 0.3:
            info["DB"], shown["info_DB"] = value("flag", None), 1
        if chance.random() < 0.5:
            gene = chance.choice((".", "BRCA1", "a,b \"q\""))
            info["GENE"], shown["info_GENE"] = value("text", gene), None if gene == "." else gene
            info["TAGS"], shown["info_TAGS"] = value("text", "x,.,z\0"), ["x", None, "z"]
        fmt = {"GT": value("int", stored)}
        if chance.random() < 0.6:
            ad = [chance.randrange(50) for _ in range(1 + len(alts))]
            fmt["AD"], shown["fmt_AD"] = value("int", ad + [END]), ad
            fmt["GQ"], shown["fmt_GQ"] = value("float", [12.5]), 12.5
        filters = chance.choice(([], ["PASS"], ["q10"], ["q10", "s50"]))
        # numbers by order: PASS 0, DP 1, q10 2, AF 3, DB 4, GENE 5, TAGS 6, GT 7, AD 8, GQ 9, s50 10
        numbers = [0 if f == "PASS" else 2 if f == "q10" else 10 for f in filters]
        qual = chance.choice((None, 30.5, 99.0))
        made.append({"contig": contig, "pos": start + 1, "end": end + 1, "sample": sample, "id": chance.choice((None, "rs1")), "ref": "A", "alt": alts or None, "qual": qual,
                     "filter": ";".join(filters) or None, "gt": gt, "phased": phased, **shown, "numbers": numbers, "info": info, "fmt": fmt})
    return made


def dimension(name, kind):
    if kind is None:
        return tiledb.Dim(name=name, domain=(None, None), tile=None, dtype="ascii")
    return tiledb.Dim(name=name, domain=(0, 2**32 - 2), tile=kind, dtype=numpy.uint32)


def objects(values):
    out = numpy.empty(len(values), dtype=object)
    for i, v in enumerate(values):
        out[i] = v
    return out


def write(folder, version, rows, extracted):
    """Writes a dataset. `extracted` are the values that have attributes of their own."""
    os.makedirs(folder)
    tiledb.group_create(folder)
    tiledb.group_create(folder + "/metadata")
    offsets = {c: i * LENGTH for i, c in enumerate(CONTIGS)}
    numbers = {s: i for i, s in enumerate(SAMPLES)}
    attributes = [tiledb.Attr(name=n, dtype=numpy.uint32) for n in ("real_start_pos", "end_pos")] + [tiledb.Attr(name="qual", dtype=numpy.float32)]
    attributes += [tiledb.Attr(name=n, dtype="ascii", var=True) for n in ("alleles", "id")] + [tiledb.Attr(name="filter_ids", dtype=numpy.int32, var=True)]
    attributes += [tiledb.Attr(name=n, dtype=numpy.uint8, var=True) for n in ("info", "fmt", *extracted)]
    dims = [dimension("contig", None), dimension("start_pos", 2**32 - 1), dimension("sample", None)] if version == 4 else [dimension("sample", 1), dimension("start_pos", 2**32 - 1)]
    tiledb.Array.create(folder + "/data", tiledb.ArraySchema(domain=tiledb.Domain(*dims), attrs=attributes, sparse=True, allows_duplicates=True, capacity=50))
    cells = []
    for r in rows:
        base = 0 if version == 4 else offsets[r["contig"]]
        real, end = r["pos"] - 1 + base, r["end"] - 1 + base
        cells += [(r, start, real, end) for start in range(real, end + 1, GAP)]
    data = {"real_start_pos": numpy.array([c[2] for c in cells], dtype=numpy.uint32), "end_pos": numpy.array([c[3] for c in cells], dtype=numpy.uint32),
            "qual": numpy.array([numpy.nan if c[0]["qual"] is None else c[0]["qual"] for c in cells], dtype=numpy.float32),
            "alleles": objects([",".join([c[0]["ref"], *(c[0]["alt"] or [])]).encode() + b"\0" for c in cells]),
            "id": objects([(c[0]["id"] or ".").encode() + b"\0" for c in cells]),
            "filter_ids": objects([numpy.array([len(c[0]["numbers"]), *c[0]["numbers"]], dtype=numpy.int32) for c in cells])}
    for name in ("info", "fmt"):
        data[name] = objects([numpy.frombuffer(c[0].get("damaged") or blob({k: v for k, v in c[0][name].items() if f"{name}_{k}" not in extracted}), dtype=numpy.uint8) for c in cells])
    for name in extracted:
        kind, key = name.split("_")
        data[name] = objects([numpy.frombuffer(c[0][kind].get(key, b"\0"), dtype=numpy.uint8) for c in cells])
    starts = numpy.array([c[1] for c in cells], dtype=numpy.uint32)
    with tiledb.open(folder + "/data", "w") as a:
        if version == 4:
            a[numpy.array([c[0]["contig"] for c in cells], dtype="S"), starts, numpy.array([c[0]["sample"] for c in cells], dtype="S")] = data
        else:
            a[numpy.array([numbers[c[0]["sample"]] for c in cells], dtype=numpy.uint32), starts] = data
        a.meta["anchor_gap"], a.meta["version"] = numpy.uint32(GAP), numpy.uint32(version)
        if version == 3:
            a.meta["contig_offsets"] = base64.b64encode(",".join(f"{c}\t{o}" for c, o in offsets.items()).encode()).decode()
            a.meta["sample_ids"] = base64.b64encode(",".join(f"{s}\t{n}" for s, n in numbers.items()).encode()).decode()
    by = dimension("sample", None if version == 4 else 1)   # version 3 numbers its samples here, too
    tiledb.Array.create(folder + "/metadata/vcf_headers", tiledb.ArraySchema(domain=tiledb.Domain(by), sparse=True, attrs=[tiledb.Attr(name="header", dtype="ascii", var=True)]))
    with tiledb.open(folder + "/metadata/vcf_headers", "w") as a:
        names = numpy.array(SAMPLES, dtype="S") if version == 4 else numpy.array([numbers[n] for n in SAMPLES], dtype=numpy.uint32)
        a[names] = {"header": objects([header(n).encode() for n in SAMPLES])}
    if version == 4:
        with tiledb.Group(folder, "w") as g:
            g.add("data", name="data", relative=True)
            g.add("metadata", name="metadata", relative=True)
            g.meta["dataset_type"] = "vcf"
        with tiledb.Group(folder + "/metadata", "w") as g:
            g.add("vcf_headers", name="vcf_headers", relative=True)


COLUMNS = ("contig", "pos", "end", "sample", "id", "ref", "alt", "qual", "filter", "gt", "phased", "info_DP", "info_AF", "info_DB", "info_GENE", "info_TAGS", "fmt_AD", "fmt_GQ")
JSON = ("alt", "info_AF", "info_TAGS", "fmt_AD")


def shown(s, where, source="variants"):
    values = ", ".join(f'json("{c}")' if c in JSON else f'"{c}"' for c in COLUMNS)
    rows = s(f"CREATE VIRTUAL TABLE variants USING tessera_vcf('{s.path('dataset/data')}')", f"SELECT json_array({values}) AS r FROM {source} WHERE {where}")
    return sorted((json.loads(row["r"]) for row in rows), key=repr)


def expected(rows, keep):
    return sorted(([r[c] for c in COLUMNS] for r in rows if keep(r)), key=repr)


def check(folder, shell, extension, version, extracted):
    chance, place = random.Random(version * 10 + len(extracted)), os.path.join(folder, "dataset")
    rows = records(chance, 300)
    write(place, version, rows, extracted)
    s = Session(shell, extension, folder)
    equal("all", shown(s, "1"), expected(rows, lambda r: True))
    fields = s(f"CREATE VIRTUAL TABLE f USING tessera_vcf_fields('{place}/data')", "SELECT group_concat(kind || ' ' || id || ' ' || number || ' ' || type || ' ' || description, '; ') AS f FROM f")
    equal("fields", fields, [{"f": "INFO DP 1 Integer Depth, ID=no; INFO AF A Float x; INFO DB 0 Flag x; INFO GENE 1 String the \"gene\">; INFO TAGS . String x; FORMAT GT 1 String x; FORMAT AD R Integer x; FORMAT GQ 1 Float x"}])
    samples = s(f"CREATE VIRTUAL TABLE samples USING tessera_vcf_samples('{place}/data')", "SELECT sample, header FROM samples")
    equal("samples", sorted((r["sample"], r["header"]) for r in samples), sorted((n, header(n)) for n in SAMPLES))
    equal("samples of the group", s(f"SELECT tessera_attach('{place}')", "SELECT sample FROM samples ORDER BY 1"), [{"sample": n} for n in sorted(SAMPLES)])
    for _ in range(25):
        contig, low = chance.choice(CONTIGS), chance.randrange(1, LENGTH - 5000)
        high = low + chance.choice((0, 10, 999, 1000, 4000))
        overlaps = lambda r, c, a, b: r["contig"] == c and r["pos"] <= b and r["end"] >= a
        equal(f"{contig}:{low}-{high}", shown(s, "1", f"variants('{contig}:{low}-{high}')"), expected(rows, lambda r: overlaps(r, contig, low, high)))
        other = chance.choice(CONTIGS), low + 1500, high + 2500
        both = f"{contig}:{low}-{high};{other[0]}:{other[1]}-{other[2]}"
        equal(both, shown(s, f"region = '{both}' AND sample = 'NA1'"),
              expected(rows, lambda r: r["sample"] == "NA1" and (overlaps(r, contig, low, high) or overlaps(r, *other))))
        equal("begin", shown(s, f"contig = '{contig}' AND pos BETWEEN {low} AND {high}"), expected(rows, lambda r: r["contig"] == contig and low <= r["pos"] <= high))
        equal("begin anywhere", shown(s, f"pos > {low} AND pos < {high} AND \"end\" > {high}"), expected(rows, lambda r: low < r["pos"] < high < r["end"]))
    equal("a contig", shown(s, "1", "variants('chr2:b')"), expected(rows, lambda r: r["contig"] == "chr2:b"))
    equal("several", shown(s, "1", "variants('[\"1\",\"X:1-1,000\"]')"), expected(rows, lambda r: r["contig"] == "1" or r["contig"] == "X" and r["pos"] <= 1000))
    equal("no sample", shown(s, "sample = 'N'"), [])
    for anything in ("pos < x'31'", "pos <= 'z'"):   # above all numbers
        equal(anything, len(shown(s, anything)), len(rows))
    for nothing in ("pos > x'31'", "pos = x'31'", "pos >= 'z'"):
        equal(nothing, shown(s, nothing), [])
    equal("depth", shown(s, "info_DP > 50"), expected(rows, lambda r: (r["info_DP"] or 0) > 50))
    for region, part in (("chr9", "no contig 'chr9' (1, chr2:b, X"), ("1:0-5", "from 1, both included"), ("1:5-4", "from 1, both included"), ("", "expected CONTIG:FROM-TO")):
        try:
            shown(s, "1", f"variants('{region}')")
        except Failed as e:
            equal(f"the words of {e}", part in str(e), True)
        else:
            raise Failed(f"no error: {region}")


def check_attach(folder, shell, extension):
    chance, place = random.Random(4), os.path.join(folder, "dataset")
    rows = records(chance, 50)
    write(place, 4, rows, ())
    stats = tiledb.ArraySchema(domain=tiledb.Domain(dimension("contig", None), dimension("pos", 2**32 - 1)), sparse=True, attrs=[tiledb.Attr(name="ac", dtype=numpy.int32)])
    tiledb.Array.create(place + "/variant_stats", stats)
    with tiledb.open(place + "/variant_stats", "w") as a:
        a[numpy.array(["1"], dtype="S"), numpy.array([rows[0]["pos"] - 1], dtype=numpy.uint32)] = {"ac": numpy.array([3], dtype=numpy.int32)}
    with tiledb.Group(place, "w") as g:
        g.add("variant_stats", name="variant_stats", relative=True)
    s = Session(shell, extension, folder)
    equal("positions from 0", s(f"SELECT tessera_attach('{place}')", "SELECT contig, pos0, ac FROM variant_stats"), [{"contig": "1", "pos0": rows[0]["pos"] - 1, "ac": 3}])
    got = s(f"SELECT tessera_attach('{place}')", "SELECT (SELECT group_concat(name || ' ' || semantics) FROM (SELECT * FROM tessera_attached ORDER BY 1)) AS names, "
            "(SELECT count(*) FROM variants) AS variants, (SELECT count(*) FROM samples) AS samples")
    equal("tables", got, [{"names": "samples vcf,variant_stats vcf,variants vcf,vcf_fields vcf", "variants": 50, "samples": len(SAMPLES)}])
    equal("fields", s(f"SELECT tessera_attach('{place}')", "SELECT id FROM vcf_fields WHERE type = 'Flag'"), [{"id": "DB"}])
    s.fails(f"CREATE VIRTUAL TABLE f USING tessera_vcf_fields('{place}')", "tessera_vcf_fields: ")
    s.fails(f"CREATE VIRTUAL TABLE v USING tessera_vcf('{place}/data', columns='pos')", "options columns, labels and rename")
    s.fails(f"CREATE VIRTUAL TABLE v USING tessera_vcf('{place}/metadata/vcf_headers')", "is not a TileDB-VCF data array: it has no attribute real_start_pos")
    for lists in ("real_start_pos", "end_pos"):   # positions are single numbers
        attributes = [tiledb.Attr(name=n, dtype=numpy.uint32, var=n == lists) for n in ("real_start_pos", "end_pos")]
        domain = tiledb.Domain(dimension("contig", None), dimension("start_pos", 2**32 - 1), dimension("sample", None))
        tiledb.Array.create(f"{place}/{lists}", tiledb.ArraySchema(domain=domain, attrs=attributes, sparse=True))
        s.fails(f"CREATE VIRTUAL TABLE v USING tessera_vcf('{place}/{lists}')", "its schema is not that of TileDB-VCF's version 3 or 4")


def check_damaged(folder, shell, extension):
    """A blob that does not decode is an error that names the record; other columns, and other records, can be read."""
    chance, place = random.Random(5), os.path.join(folder, "dataset")
    whole = blob({"DP": value("int", [7])})
    for turn, damaged in enumerate((whole[:-1], whole[:5], struct.pack("<I", 2**32 - 1) + whole[4:], whole.replace(struct.pack("<ii", 1, 1), struct.pack("<ii", 9, 1)),
                                    whole.replace(struct.pack("<ii", 1, 1), struct.pack("<ii", 1, 2**31 - 1)), b"\xff" * 40)):
        rows = records(chance, 5)
        rows[0].update(damaged=damaged, contig="X", sample="z", pos=77, end=77)
        write(f"{place}{turn}", 4, rows, ())
        s = Session(shell, extension, folder)
        create = f"CREATE VIRTUAL TABLE v USING tessera_vcf('{place}{turn}/data')"
        equal("rows", s(create, "SELECT count(*) AS n, max(ref) AS r FROM v"), [{"n": 5, "r": "A"}])
        for column in ("info", "fmt", "gt", "fmt_AD"):
            try:
                s(create, f"SELECT {column} FROM v")
            except Failed as e:
                equal(f"the words of {e}", "the record of sample z at X:77 has a damaged " in str(e), True)
            else:
                raise Failed(f"no error: {turn} {column}")


def check_gone(folder, shell, extension):
    """A table in a file whose dataset is gone says so, and can be dropped."""
    place, s = os.path.join(folder, "dataset"), Session(shell, extension, folder)
    write(place, 4, records(random.Random(6), 3), ())
    file = s.path("file.db")
    s(f"ATTACH '{file}' AS f", f"CREATE VIRTUAL TABLE f.v USING tessera_vcf('{place}/data')")
    equal("there", s(f"ATTACH '{file}' AS f", "SELECT count(*) AS n FROM v"), [{"n": 3}])
    s(f"ATTACH '{file}' AS f", f"CREATE VIRTUAL TABLE f.w USING tessera_vcf_fields('{place}/data')")
    os.rename(place, place + "-gone")
    s.fails(f"ATTACH '{file}' AS f; SELECT * FROM w", "tessera_vcf_fields: ")
    s(f"ATTACH '{file}' AS f", "DROP TABLE f.w")
    try:
        s(f"ATTACH '{file}' AS f", "SELECT count(*) AS n FROM v")
    except Failed as e:
        equal(f"the words of {e}", "tessera_vcf: " in str(e) and "not found" in str(e), True)
    else:
        raise Failed("no error")
    equal("dropped", s(f"ATTACH '{file}' AS f", "DROP TABLE f.v", "SELECT count(*) AS n FROM f.sqlite_schema"), [{"n": 0}])


def main():
    if tiledb is None:
        print("SKIPPED: the package tiledb is not installed")
        return 77
    tests = Cases("vcf")
    for version in (3, 4):
        for extracted in ((), ("fmt_GT", "info_DP", "info_TAGS")):
            tests.run(f"version {version}, {len(extracted)} attributes of values", check, *sys.argv[1:3], version, extracted)
    tests.run("attach", check_attach, *sys.argv[1:3])
    tests.run("damaged", check_damaged, *sys.argv[1:3])
    tests.run("gone", check_gone, *sys.argv[1:3])
    return tests.end()


if __name__ == "__main__":
    sys.exit(main())
