"""Files of other formats become arrays by one call: tessera.create("cube", "era5.nc"). A well-kept library reads each format; this file chooses it,
and hands on what it reads block by block, so that memory stays bounded whatever the size of the file.

- grids (NetCDF, Zarr, GeoTIFF) become dense arrays, whose coordinates are dimension labels;
- tables (Parquet, CSV), points (LAS) and variants (VCF) become Arrow streams, and those sparse arrays.
"""
from __future__ import annotations

import contextlib
import gzip
import importlib
import itertools
import json
import os
import sys
import time

from .described import take_schema, with_notes
from .errors import Constraint, Mismatch, NotFound, Unsupported
from .paths import place_of

__all__ = ["create_file", "csv_options"]

_POINTS = 1 << 20   # of a LAS file that are read at once
_ROWS = 65536       # of a batch of a table


def _library(file, *names):
    """Imports the libraries that read a file, and returns the first one's module."""
    modules = []
    for name in names:
        try:
            modules.append(importlib.import_module(name.replace("-", "_")))
        except ImportError as e:
            missing = " ".join(dict.fromkeys(name.partition(".")[0] for name in names))
            raise ModuleNotFoundError(f"{file}: reading it needs {missing}, and {e.name or name} is not installed: pip install {missing}", name=e.name) from e
    return modules[0]


# ---- Progress ------------------------------------------------------------------------------------------------------------

class _Bar:
    """A line on stderr that tells how much is done, once something takes longer than half a second. total: 0 if nobody knows it."""

    def __init__(self, name, shown):
        self._name, self._shown = name, sys.stderr.isatty() if shown is None else shown
        self._began, self._printed, self._width = time.monotonic(), 0.0, 0
        self.total = self._done = 0

    def add(self, amount):
        self._done += amount
        now = time.monotonic()
        if not self._shown or now - self._began < 0.5 or now - self._printed < 0.1 and self._done != self.total:
            return
        self._printed = now
        part = min(1, self._done / self.total) if self.total else 0
        left = f", {(now - self._began) * (1 - part) / part:.0f} s left" if 0 < part < 1 else ""
        line = f"{self._name} [{'#' * int(30 * part):<30}] {100 * part:3.0f} %{left}" if self.total else f"{self._name}: {self._done:,}"
        sys.stderr.write(f"\r{line:<{self._width}}")
        sys.stderr.flush()
        self._width = len(line)

    def close(self):
        if self._width:
            sys.stderr.write("\n")


def _counted(bar, batches, size=len):
    """Yields batches, and tells the bar how many rows they have."""
    for batch in batches:
        yield batch
        bar.add(size(batch))


@contextlib.contextmanager
def _blocks_counted(bar):
    """Tells the bar how many bytes of blocks are written within."""
    from . import grids   # here, since it needs numpy, which a CSV file does not
    counted = grids.written.set(bar.add)
    try:
        yield
    finally:
        grids.written.reset(counted)


# ---- Grids ---------------------------------------------------------------------------------------------------------------

def _dataset(file, bar, path, connection, if_exists, options):
    engine, needs = (("zarr", "zarr") if file.rstrip("/").endswith(".zarr") else (None, "netCDF4"))
    xarray = _library(file, "xarray", needs)
    from .datasets import create_dataset
    with xarray.open_dataset(file, engine=engine, cache=False) as data, _blocks_counted(bar):
        bar.total = sum(variable.nbytes for variable in data.variables.values())
        return create_dataset(path, data, connection, if_exists, options)


def _raster(file, bar, path, connection, if_exists, options):
    """A GeoTIFF, or another raster that GDAL reads: an attribute for each band. Where the file names a value that means "no data", such cells are
    NaN, and bands of integers become floats; masked=False keeps their numbers as they are."""
    rioxarray = _library(file, "rioxarray")
    from . import grids
    with rioxarray.open_rasterio(file, cache=False) as raster:
        masked = options.pop("masked", True) and raster.rio.nodata is not None
    with rioxarray.open_rasterio(file, masked=masked, cache=False) as raster, _blocks_counted(bar):
        names = _band_names(raster)
        blocks = {name: raster.variable[number] for number, name in enumerate(names)}
        axes = dict(zip(raster.dims[1:], raster.shape[1:]))
        labels = {name: (name, raster.coords[name].values) for name in axes if name in raster.coords and raster.coords[name].dims == (name,)}
        metadata = {"nodata": raster.rio.encoded_nodata if masked else raster.rio.nodata, "transform": list(raster.rio.transform())[:6]}
        if raster.rio.crs is not None:
            metadata["crs"] = raster.rio.crs.to_wkt()
        options["metadata"] = {**{key: value for key, value in metadata.items() if value is not None}, **options.get("metadata", {})}
        bar.total = sum(block.nbytes for block in blocks.values())
        options = {"dimensions": list(axes), "labels": labels, **options}
        return grids.create_grid(path, blocks, connection, if_exists, options)


def _band_names(raster):
    """Returns a name for each band: the band's own if they all differ; `value` for a single one; band_1 and so on."""
    given = raster.attrs.get("long_name")
    given = [given] if isinstance(given, str) else list(given or ())
    if len(given) == raster.shape[0] and len({name.lower() for name in given}) == len(given) and all(given) and not set(given) & set(raster.dims):
        return given
    return ["value"] if raster.shape[0] == 1 else [f"band_{i + 1}" for i in range(raster.shape[0])]


# ---- Tables --------------------------------------------------------------------------------------------------------------

def _stream(schema, batches, path, connection, if_exists, options, there=None):
    import pyarrow

    from .making import create
    try:
        return create(path, pyarrow.RecordBatchReader.from_batches(schema, batches), connection=connection, if_exists=if_exists, **options)
    except Exception:
        if there and there.found:   # an Arrow stream keeps the text of an error alone
            raise there.found from None
        raise


def _parquet(file, bar, path, connection, if_exists, options):
    """A file or a directory of files. What pandas wrote as the index are the dimensions, unless `dimensions` names others."""
    dataset = _library(file, "pyarrow.dataset", "pyarrow").dataset(file, format="parquet")
    bar.total = dataset.count_rows()
    columns, dims, counted, metadata = take_schema(dataset.schema, bar.total if len(dataset.files) == 1 else None)
    batches = (batch.rename_columns(columns) for batch in dataset.to_batches(batch_size=_ROWS))
    schema = dataset.schema.remove_metadata()
    for place, name in enumerate(columns):
        schema = schema.set(place, schema.field(place).with_name(name))
    if counted:
        schema, batches = _with_range(schema, batches, *counted)
    from .arrays import exists
    from .connections import own_connection
    if if_exists != "append" or not exists(connection or own_connection(), os.fspath(path)):
        options = with_notes(options, dims, metadata)
    return _stream(schema, _counted(bar, batches), path, connection, if_exists, options)


def _with_range(schema, batches, name, start, step):
    """Returns the schema and the batches with a first column that counts from `start` in steps of `step`."""
    import pyarrow
    schema = schema.insert(0, pyarrow.field(name, pyarrow.int64(), False))

    def counted():
        at = start
        for batch in batches:
            numbers = pyarrow.array(range(at, at + step * batch.num_rows, step), pyarrow.int64())
            at += step * batch.num_rows
            yield pyarrow.RecordBatch.from_arrays([numbers, *batch.columns], schema=schema)
    return schema, counted()


def _csv(file, bar, path, connection, if_exists, options):
    from .making import create_csv
    if file.endswith(".tsv") and "sep" not in options:
        options = {"delimiter": "\t", **options}
    return create_csv(path, file, connection=connection, if_exists=if_exists, **options)


def csv_options(file, options):
    """Returns the options of a CSV file; sep is pandas' name of the delimiter. Fails if its first line has another separator, and no comma."""
    options = dict(options)
    if "sep" in options:
        options["delimiter"] = options.pop("sep")
    if options.get("delimiter") or not os.path.isfile(file):
        return options
    with (gzip.open if file.endswith(".gz") else open)(file, "rb") as opened:
        head = opened.readline(1 << 16).decode(errors="replace")
    other = next((mark for mark in ";\t|" if mark in head), None)
    if other and "," not in head:
        raise Mismatch(f"{file}: its first line has {other!r} and no comma: say sep={other!r}, and decimal=',' if its numbers have commas")
    return options


def _packed_csv(file, bar, path, connection, if_exists, options):
    csv = _library(file, "pyarrow.csv", "pyarrow")
    options = csv_options(file, {"delimiter": "\t", **options} if file.endswith(".tsv.gz") and "sep" not in options else options)
    marks = csv.ParseOptions(delimiter=options.pop("delimiter", None) or ","), csv.ConvertOptions(decimal_point=options.pop("decimal", None) or ".")
    with csv.open_csv(file, parse_options=marks[0], convert_options=marks[1]) as reader:
        return _stream(reader.schema, _counted(bar, reader), path, connection, if_exists, options)


# ---- Records without a key -----------------------------------------------------------------------------------------------

class _Records:
    """What an array has already to which a file is appended. Variants and points have no key, so the same file twice would double them all without a
    word. A look at one record of each batch is enough for that, and costs nothing where the file is new."""

    def __init__(self, place, record, path, connection, if_exists, options):
        """place: the names of dimensions; record: those of the columns that make a record there one and the same."""
        from .arrays import exists, open
        from .connections import own_connection
        from .paths import secret
        there = if_exists == "append" and exists(connection or own_connection(), os.fspath(path))
        array = open(path, connection=connection, **secret(options)) if there else None
        known = bool(array) and set(place) <= set(array.dims) and set(record) <= {*array.dims, *array.attributes}   # made of such a file
        self._array, self._place, self._record, self.found = array if known else None, place, record, None

    def check(self, rows):
        """Fails if the array has one of these rows, which are at one place."""
        if not self._array or not rows:
            return
        import pyarrow
        place = {name: rows[0][name] for name in self._place}
        known = pyarrow.table(self._array.sel(**place).select(*self._record)).to_pylist()
        if any({name: row[name] for name in self._record} in known for row in rows):
            self.found = Constraint(f"{self._array.path} has the record at {', '.join(f'{name}={value!r}' for name, value in place.items())} of this file already: append what is "
                                    "new, or say if_exists='replace' for a new array")
            raise self.found


# ---- Points --------------------------------------------------------------------------------------------------------------

def _las(file, bar, path, connection, if_exists, options):
    """A LAS or LAZ file: points by x and y; several may be at one place. z, intensity, classification and the others are attributes."""
    laspy = _library(file, "laspy", "pyarrow", *(["lazrs"] if file.lower().endswith(".laz") else []))
    import numpy
    import pyarrow
    with laspy.open(file) as opened:
        header = opened.header
        fields = [name for name in header.point_format.dimension_names if name not in ("X", "Y", "Z")]

        def columns(points):
            made = {name: numpy.ascontiguousarray(getattr(points, name)) for name in ("x", "y", "z")}
            for name in fields:
                values = numpy.asarray(points[name])
                for part in range(values.shape[1] if values.ndim > 1 else 1):   # extra dimensions may have several values
                    made[name if values.ndim == 1 else f"{name}_{part}"] = numpy.ascontiguousarray(values if values.ndim == 1 else values[:, part])
            return pyarrow.RecordBatch.from_pydict(made)

        bar.total = header.point_count
        chunks = (columns(points) for points in opened.chunk_iterator(_POINTS))
        first = next(chunks, None)
        if first is None:
            first = columns(laspy.ScaleAwarePointRecord.zeros(0, header=header))
        there = _Records(["x", "y"], first.schema.names, path, connection, if_exists, options)

        def new(batches):
            for batch in batches:
                there.check(batch.slice(0, 1).to_pylist())
                yield batch
        made = {"dimensions": ["x", "y"], "duplicates": True, "cell_order": "hilbert"} if if_exists != "append" else {}
        with contextlib.suppress(Exception):   # a header may name a system that nobody here can parse
            crs = header.parse_crs()
            if crs is not None and if_exists != "append":
                made["metadata"] = {"crs": crs.to_wkt()}
        return _stream(first.schema, _counted(bar, new(_chain(first, chunks))), path, connection, if_exists, {**made, **options}, there)


def _chain(first, others):
    yield first
    yield from others


# ---- Variants ------------------------------------------------------------------------------------------------------------

_VCF_TYPES = {"Integer": "int32", "Float": "float", "String": "string", "Character": "string"}


def _vcf(file, bar, path, connection, if_exists, options):
    """A VCF or BCF file: a row for each record and sample, by contig, pos (from 1 on) and sample. INFO and FORMAT fields are columns info_X and fmt_X:
    numbers and texts where the header says that there is one, else JSON. Of two names that differ in case alone, the second gets _2."""
    cyvcf2 = _library(file, "cyvcf2", "pyarrow")
    import pyarrow
    source = cyvcf2.VCF(file)
    try:
        fields, taken = {"INFO": {}, "FORMAT": {}}, set()   # of each field: its column, and what is in it
        for line in source.header_iter():
            info = line.info(extra=True)
            if info.get("HeaderType") in fields and info["ID"] != "GT":
                kind = "bool" if info["Type"] == "Flag" else _VCF_TYPES[info["Type"]] if info["Number"] == "1" else "json"
                name = f"{'info' if info['HeaderType'] == 'INFO' else 'fmt'}_{info['ID']}"
                name = next(f"{name}{end}" for end in itertools.chain([""], map("_{}".format, itertools.count(2))) if f"{name}{end}".lower() not in taken)
                taken.add(name.lower())
                fields[info["HeaderType"]][info["ID"]] = name, kind
        samples = source.samples or [""]
        fixed = {"contig": "string", "pos": "int64", "sample": "string", "end": "int64", "id": "string", "ref": "string", "alt": "string", "qual": "float",
                 "filter": "string", "gt": "string", "phased": "bool"}
        kinds = {**fixed, **dict(fields["INFO"].values()), **dict(fields["FORMAT"].values())}
        types = {"string": pyarrow.string(), "json": pyarrow.string(), "int32": pyarrow.int32(), "int64": pyarrow.int64(), "float": pyarrow.float32(), "bool": pyarrow.bool_()}
        schema = pyarrow.schema([(name, types[kind]) for name, kind in kinds.items()])
        made = {"dimensions": ["contig", "pos", "sample"], "duplicates": True, "metadata": {"vcf_header": source.raw_header}} if if_exists != "append" else {}
        there = _Records(["contig", "pos"], ["sample", "ref", "alt"], path, connection, if_exists, options)
        batches = _vcf_batches(source, samples, fields, schema, there)
        return _stream(schema, _counted(bar, batches), path, connection, if_exists, {**made, **options}, there)
    finally:
        source.close()


def _vcf_batches(source, samples, fields, schema, there):
    import pyarrow
    rows = []
    for record in source:
        new = _vcf_rows(record, samples, fields)
        if not rows:   # one of each batch: whoever appends a file again meets it at the first one
            new = list(new)
            there.check(new)
        rows += new
        if len(rows) >= _ROWS // 4:
            yield pyarrow.RecordBatch.from_pylist(rows, schema)
            rows = []
    yield pyarrow.RecordBatch.from_pylist(rows, schema)


def _vcf_rows(record, samples, fields):
    shared = {"contig": record.CHROM, "pos": record.POS, "end": record.end, "id": record.ID, "ref": record.REF,
              "alt": json.dumps(record.ALT) if record.ALT else None, "qual": record.QUAL, "filter": ";".join(record.FILTERS) or None}
    shared.update({column: _vcf_value(record.INFO.get(name), kind) for name, (column, kind) in fields["INFO"].items()})
    genotypes = record.genotypes if record.gt_types.size else None
    formats = {name: record.format(name) for name in fields["FORMAT"] if name in record.FORMAT}
    for place, sample in enumerate(samples):
        row = {**shared, "sample": sample}
        if genotypes:
            *alleles, phased = genotypes[place]
            alleles = [allele for allele in alleles if allele > -2]   # -2 ends a call of fewer alleles than others have
            row.update(gt=("|" if phased else "/").join("." if allele < 0 else str(allele) for allele in alleles), phased=bool(phased))
        for name, values in formats.items():
            column, kind = fields["FORMAT"][name]
            row[column] = _vcf_value(_present(values[place]), kind)
        yield row


def _present(values):
    """Returns the values of a sample without htslib's marks: what is missing is None, and what follows the end is gone."""
    import numpy
    if isinstance(values, str):
        return None if values in ("", ".") else values
    values = numpy.atleast_1d(values)
    if values.dtype.kind == "i":
        low = numpy.iinfo(values.dtype).min
        listed = [None if v == low else int(v) for v in values if v != low + 1]
    else:
        bits = values.astype("f4").view("u4")
        listed = [None if bit == 0x7F800001 or v != v else float(v) for v, bit in zip(values, bits) if bit != 0x7F800002]
    return listed[0] if len(listed) == 1 else listed if any(v is not None for v in listed) else None


def _vcf_value(value, kind):
    if kind == "bool":
        return True if value else None
    if isinstance(value, (tuple, list)) and not value:   # cyvcf2's value of AF=.
        return None
    if value is None or kind not in ("json", "string"):
        return value if not isinstance(value, (tuple, list)) else next(iter(value), None)
    if kind == "string":
        return str(value)
    return json.dumps(value if isinstance(value, (list, tuple)) else value.split(",") if isinstance(value, str) else [value])


# ---- Single cells --------------------------------------------------------------------------------------------------------

def _h5ad(file, bar, path, connection, if_exists, options):
    anndata = _library(file, "anndata", "pyarrow")
    from .annotated import create_anndata
    data = anndata.read_h5ad(file, backed="r")   # X stays in the file
    try:
        with _blocks_counted(bar):
            return create_anndata(path, data, connection, if_exists, options)
    finally:
        data.file.close()


# ---- The kinds of files --------------------------------------------------------------------------------------------------

_READERS = {".nc": _dataset, ".nc4": _dataset, ".cdf": _dataset, ".zarr": _dataset, ".tif": _raster, ".tiff": _raster, ".parquet": _parquet, ".pq": _parquet,
            ".csv": _csv, ".tsv": _csv, ".csv.gz": _packed_csv, ".tsv.gz": _packed_csv, ".las": _las, ".laz": _las, ".vcf": _vcf, ".vcf.gz": _vcf, ".bcf": _vcf,
            ".h5ad": _h5ad}


def create_file(path, file, connection, if_exists, options):
    """Makes an array, or a group, of a file. The ending of its name tells what it is."""
    file = place_of(file)
    name = file.rstrip("/").lower()
    reader = next((_READERS[ending] for ending in sorted(_READERS, key=len, reverse=True) if name.endswith(ending)), None)
    if reader is None:
        raise Unsupported(f"{file}: create() does not know this kind of file; it reads {', '.join(_READERS)}")
    if "://" not in file and not os.path.exists(file):
        raise NotFound(f"{file}: no such file")
    bar = _Bar(os.path.basename(file.rstrip("/")), options.pop("progress", None))
    try:
        return reader(file, bar, path, connection, if_exists, options)
    finally:
        bar.close()
