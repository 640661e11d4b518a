"""Files of other formats become arrays by one call, and what has a way back comes back the same: NetCDF, Zarr, GeoTIFF, Parquet, CSV, LAS, VCF, h5ad.
TileDB-SOMA and xarray read what was made. Libraries that are missing leave out their tests, and these say so.

usage: files.py EXTENSION
"""
import contextlib
import importlib
import importlib.util
import io
import os
import subprocess
import sys
import warnings

from package import fails, libraries, run, same

np, pd, pa, xr = libraries("numpy", "pandas", "pyarrow", "xarray")

missing = set()


def needs(*names):
    """Leaves a test out if one of the libraries is not installed."""
    def decide(test):
        lacking = [name for name in names if importlib.util.find_spec(name) is None]
        missing.update(lacking)
        return (lambda: None) if lacking else test
    return decide


def cube():
    values = np.random.default_rng(1).normal(280, 9, (40, 21, 31)).round(2).astype("f4")
    values[3, 4, 5] = np.nan
    return xr.Dataset({"temp": (("time", "lat", "lon"), values, {"units": "K"}), "land": (("lat", "lon"), (values[0] > 280).astype("i1"))},
                      {"time": pd.date_range("2024-01-01", periods=40), "lat": np.linspace(10, -10, 21), "lon": np.linspace(0, 30, 31)}, {"title": "a cube"})


def in_parts(most):
    """Blocks of files are written in parts of at most so many bytes."""
    return contextlib.ExitStack() if most is None else _Patched(importlib.import_module("tessera.grids"), "_WRITE_BYTES", most)


class _Patched:
    def __init__(self, module, name, value):
        self.module, self.name, self.value = module, name, value

    def __enter__(self):
        self.before = getattr(self.module, self.name)
        setattr(self.module, self.name, self.value)

    def __exit__(self, *_):
        setattr(self.module, self.name, self.before)


@needs("netCDF4")
def test_netcdf():
    cube().to_netcdf("x.nc", encoding={"temp": {"dtype": "i4", "scale_factor": 0.01, "_FillValue": -999}})
    for number, most in enumerate((None, 5000)):   # whole, and in many parts: the same cells
        with in_parts(most):
            made = tessera.create(f"cube{number}", "x.nc", extents={"time": 10})
        same(sorted(made), ["land", "lat", "lon", "temp", "time"], "an array for each variable")
        with xr.open_dataset(f"cube{number}", engine="tessera") as back, xr.open_dataset("x.nc") as file:
            xr.testing.assert_allclose(back.load(), file.load())
            same(back.attrs, {"title": "a cube"}, "attributes")
        same(made["temp"]._about("fragments", "tessera_array")[0][0] > 1, most is not None, "one commit, or several")
    fails(tessera.Exists, "if_exists", lambda: tessera.create("cube0", "x.nc"))
    tessera.create("cube0", "x.nc", if_exists="replace")


@needs("netCDF4")
def test_a_file_is_read_part_by_part():
    """No variable of a file is read whole, if its block is larger than a part: along the later axes, too."""
    cube().to_netcdf("parts.nc")
    largest, grids = 0, importlib.import_module("tessera.grids")
    values = grids._values

    def watched(block):
        nonlocal largest
        found = values(block)
        largest = max(largest, found.nbytes)
        return found
    with in_parts(3000), _Patched(grids, "_values", watched):
        made = tessera.create("parts", "parts.nc", extents={"time": 4, "lat": 7, "lon": 8})
    assert 0 < largest <= 3000, largest   # 0: a variable was read whole, before it came to parts
    np.testing.assert_array_equal(made["temp"].numpy(), cube().temp.values)


@needs("zarr")
def test_zarr():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        cube().to_zarr("x.zarr")
    made = tessera.create("from_zarr", "x.zarr/")
    np.testing.assert_array_equal(made["temp"].numpy(), cube().temp.values)


@needs("rioxarray")
def test_geotiff():
    import rasterio
    from rasterio.transform import from_origin
    shape = {"driver": "GTiff", "height": 20, "width": 30, "crs": "EPSG:32633", "transform": from_origin(5e5, 5e6, 10, 10)}
    heights = np.arange(600, dtype="i2").reshape(20, 30)
    heights[2, 3] = -9999
    with rasterio.open("dem.tif", "w", count=1, dtype="int16", nodata=-9999, **shape) as file:
        file.write(heights, 1)
    dem = tessera.create("dem", "dem.tif")
    same((dem.dims, dem.labels, dem.attributes), (("y_index", "x_index"), {"y": "y_index", "x": "x_index"}, ("value",)), "names")
    expected = heights.astype("f4")
    expected[2, 3] = np.nan
    np.testing.assert_array_equal(dem.numpy(), expected)
    same(dem.sel(y=(4999955, 4999995), x=500005).numpy().ravel().tolist(), [0, 30, 60, 90, 120], "by coordinates of the map")
    assert "32633" in dem.metadata["crs"] and dem.metadata["nodata"] == -9999, dem.metadata
    raw = tessera.create("raw", "dem.tif", masked=False)
    same((raw.numpy().dtype, raw.numpy()[2, 3]), (np.dtype("i2"), -9999), "masked=False")
    with rasterio.open("rgb.tif", "w", count=3, dtype="uint8", **shape) as file:
        for band, name in enumerate(("red", "green", "blue"), 1):
            file.write(np.full((20, 30), band, "u1"), band)
            file.set_band_description(band, name)
    with in_parts(1000):
        rgb = tessera.create("rgb", "rgb.tif")
    same([(name, rgb.numpy(name).dtype.str, rgb.numpy(name).mean()) for name in rgb.attributes], [("red", "|u1", 1.0), ("green", "|u1", 2.0), ("blue", "|u1", 3.0)], "bands")


def test_tables():
    frame = pd.DataFrame({"station": ["a", "b", "c"], "day": pd.to_datetime(["2024-01-01", "2024-01-02", "2024-01-03"]), "t": [1.5, None, 3]})
    frame.set_index(["station", "day"]).to_parquet("indexed.parquet")
    frame.to_parquet("plain.parquet")
    frame.to_csv("t.csv", index=False)
    frame.to_csv("t.tsv", index=False, sep="\t")
    frame.to_csv("t.csv.gz", index=False)
    for name in ("commas.csv", "commas.csv.gz"):
        frame.to_csv(name, index=False, sep=";", decimal=",")
    made = tessera.create("indexed", "indexed.parquet")
    same((made.dims, made.attributes), (("station", "day"), ("t",)), "the index of pandas")
    same(pa.table(made)["t"].to_pylist(), [1.5, None, 3.0], "values")
    frame.set_index(frame.station).drop(columns="station").rename_axis(None).to_parquet("unnamed.parquet")
    same(tessera.create("unnamed", "unnamed.parquet").dims, ("index",), "an index without a name")
    # pandas describes a RangeIndex and does not write it
    for start, stop, step, name in (2023, 2026, 1, "year"), (5, 11, 2, None), (0, 3, 1, None), (0, 3, 1, "k"), (9, 3, -2, "k"):
        numbered = frame.drop(columns="day").set_index(pd.RangeIndex(start, stop, step, name=name))
        numbered.to_parquet("numbered.parquet")
        with _Patched(importlib.import_module("tessera.files"), "_ROWS", 2):
            made = tessera.create("numbered", "numbered.parquet", if_exists="replace")
        given = tessera.create("given", numbered, if_exists="replace")
        same((made.dims, pa.table(made).to_pylist()), (given.dims, pa.table(given).to_pylist()), f"range({start}, {stop}, {step}) as {name}")
    os.makedirs("several")
    for number in range(3):
        frame.assign(station=frame.station + str(number)).to_parquet(f"several/{number}.parquet")
    os.rename("several", "several.parquet")
    same(pa.table(tessera.create("several", "several.parquet", dimensions=["station"])).num_rows, 9, "a directory of files")
    for name in ("plain.parquet", "t.csv", "t.tsv", "t.csv.gz"):
        same(pa.table(tessera.create(f"of_{name}", name, dimensions=["station"]))["t"].to_pylist(), [1.5, None, 3.0], name)
    for name in ("commas.csv", "commas.csv.gz"):
        same(pa.table(tessera.create(f"of_{name}", name, dimensions=["station"], sep=";", decimal=","))["t"].to_pylist(), [1.5, None, 3.0], name)
    same(pa.table(tessera.create("of_t.csv", "t.csv", if_exists="replace", dimensions="station")).num_rows, 3, "replaced")


@needs("laspy")
def test_las():
    import laspy
    random, las = np.random.default_rng(2), laspy.create(point_format=3, file_version="1.2")
    las.header.scales = [0.01] * 3
    las.x, las.y, las.z = random.random(5000).round(2) * 100, random.random(5000).round(2) * 100, random.random(5000).round(2)
    las.intensity = np.arange(5000)
    las.write("p.las")
    with _Patched(importlib.import_module("tessera.files"), "_POINTS", 1999):
        made = tessera.create("points", "p.las")
    same((made.dims, made.attributes[:2]), (("x", "y"), ("z", "intensity")), "names")
    found, expected = pa.table(made.select("x", "y", "z", "intensity")).to_pandas(), pd.DataFrame({name: np.asarray(las[name]) for name in ("x", "y", "z", "intensity")})
    pd.testing.assert_frame_equal(found.sort_values("intensity").reset_index(drop=True), expected, check_dtype=False)
    fails(tessera.Constraint, "points has the record at x=", lambda: tessera.create("points", "p.las", if_exists="append"))
    las.intensity = np.arange(5000) + 5000   # other points at these places
    las.write("p.las")
    same(pa.table(tessera.create("points", "p.las", if_exists="append")).num_rows, 10000, "further points")
    laspy.create(point_format=0, file_version="1.2").write("none.las")
    fails(tessera.Constraint, "the domain must be given", lambda: tessera.create("none", "none.las"))


VARIANTS = """##fileformat=VCFv4.2
##contig=<ID=1>
##INFO=<ID=DP,Number=1,Type=Integer,Description="d">
##INFO=<ID=AF,Number=A,Type=Float,Description="d">
##INFO=<ID=DB,Number=0,Type=Flag,Description="d">
##FORMAT=<ID=GT,Number=1,Type=String,Description="d">
##FORMAT=<ID=GQ,Number=1,Type=Integer,Description="d">
##FORMAT=<ID=AD,Number=R,Type=Integer,Description="d">
##FORMAT=<ID=FT,Number=1,Type=String,Description="d">
#CHROM\tPOS\tID\tREF\tALT\tQUAL\tFILTER\tINFO\tFORMAT\ts1\ts2
1\t100\trs1\tA\tG,T\t50\tPASS\tDP=10;AF=0.5,0.25;DB\tGT:GQ:AD:FT\t0/1:99:5,4,1:PASS\t1|2:.:3,.,2:.
1\t200\t.\tAT\tA\t.\t.\tDP=.;AF=.\tGT:GQ\t./.:.\t1:7
"""


@needs("cyvcf2")
def test_vcf():
    with open("v.vcf", "w", encoding="utf-8") as file:
        file.write(VARIANTS)
    rows = pa.table(tessera.create("variants", "v.vcf")).to_pylist()
    first = {"contig": "1", "pos": 100, "end": 100, "id": "rs1", "ref": "A", "alt": '["G", "T"]', "qual": 50.0, "filter": "PASS", "info_DP": 10,
             "info_AF": "[0.5, 0.25]", "info_DB": True}
    second = {"contig": "1", "pos": 200, "end": 201, "id": None, "ref": "AT", "alt": '["A"]', "qual": None, "filter": None, "info_DP": None, "info_AF": None, "info_DB": None}
    same(rows, [{**first, "sample": "s1", "gt": "0/1", "phased": False, "fmt_GQ": 99, "fmt_AD": "[5, 4, 1]", "fmt_FT": "PASS"},
                {**first, "sample": "s2", "gt": "1|2", "phased": True, "fmt_GQ": None, "fmt_AD": "[3, null, 2]", "fmt_FT": None},
                {**second, "sample": "s1", "gt": "./.", "phased": False, "fmt_GQ": None, "fmt_AD": None, "fmt_FT": None},
                {**second, "sample": "s2", "gt": "1", "phased": True, "fmt_GQ": 7, "fmt_AD": None, "fmt_FT": None}], "rows")
    fails(tessera.Constraint, "variants has the record at contig='1', pos=100 of this file already", lambda: tessera.create("variants", "v.vcf", if_exists="append"))
    for text, count in ((VARIANTS.replace("s1", "s3").replace("s2", "s4"), 8), (VARIANTS.replace("A\tG,T", "A\tC,T").replace("AT\tA", "AT\tG"), 12)):   # other samples, other alleles
        with open("v.vcf", "w", encoding="utf-8") as file:
            file.write(text)
        same(pa.table(tessera.create("variants", "v.vcf", if_exists="append")).num_rows, count, "further records")
    with open("v.vcf", "w", encoding="utf-8") as file:
        file.write(VARIANTS.replace("1\t100", "1\t50"))   # the first is new, the second is not
    with _Patched(importlib.import_module("tessera.files"), "_ROWS", 4):
        fails(tessera.Constraint, "pos=200 of this file already", lambda: tessera.create("variants", "v.vcf", if_exists="append"))
    same(pa.table(tessera.open("variants")).num_rows, 12, "after errors")
    with open("cases.vcf", "w", encoding="utf-8") as file:
        file.write(VARIANTS.replace("#CHROM", '##INFO=<ID=dp,Number=1,Type=Integer,Description="Depth">\n#CHROM').replace("DP=10", "DP=10;dp=11"))
    same([(row["info_DP"], row["info_dp_2"]) for row in pa.table(tessera.create("vcf-cases", "cases.vcf")).to_pylist()][0], (10, 11), "fields whose names differ in case alone")


@needs("scipy")
def test_sparse_matrices():
    import scipy.sparse as sparse
    for kind in ("csr", "csc", "coo"):
        matrix = sparse.random(50, 40, 0.1, format=kind, random_state=1)
        with _Patched(importlib.import_module("tessera.annotated"), "_CELLS", 300):
            made = tessera.create(f"matrix_{kind}", matrix)
        same((made.kind, made.dims, made.attributes, made.scipy().shape), ("sparse", ("row", "col"), ("value",), (50, 40)), "names and shape")
        same((made.scipy().tocsr() != matrix.tocsr()).nnz, 0, "cells")
        same((made.sel(row=(10, 19)).scipy().tocsr() != matrix.tocsr()[10:20]).nnz, 0, "a part")
    same(tessera.create("full", sparse.csr_matrix(np.ones((2, 3), "f4"))).kind, "sparse", "however full it is")
    fails(TypeError, "a matrix of complex128", lambda: tessera.create("complex", sparse.csr_matrix([[1j]])))
    same(tessera.create("nothing", sparse.csr_matrix((3, 4))).scipy().toarray().tolist(), np.zeros((3, 4)).tolist(), "no cells")
    for shape in ((3, 0), (0, 3), (0, 0)):
        made = tessera.create(f"length {shape}", sparse.csr_matrix(shape))
        same((made.scipy().shape, tessera.open(f"length {shape}").scipy().shape), (shape, shape), "lengths of 0, which no domain has")


@needs("anndata")
def test_anndata():
    import anndata
    import scipy.sparse as sparse
    random, x = np.random.default_rng(0), sparse.random(100, 30, 0.2, format="csr", random_state=2, dtype="f4")
    data = anndata.AnnData(x, pd.DataFrame({"cell_type": pd.Categorical(random.choice(["T", "B"], 100)), "n": np.arange(100)}, [f"c{i}" for i in range(100)]),
                           pd.DataFrame({"mean": np.arange(30.0)}, [f"g{i}" for i in range(30)]))
    data.obsm["X_pca"], data.varm["PCs"], data.obsp["dist"], data.layers["counts"] = random.random((100, 5)), random.random((30, 5)), sparse.random(100, 100, 0.05, format="csr"), x * 2
    data.uns = {"k": 1, "d": {"a": np.arange(3), "s": "t"}}
    data.write_h5ad("p.h5ad")
    with _Patched(importlib.import_module("tessera.annotated"), "_CELLS", 300):
        tessera.create("pbmc", "p.h5ad")
    tessera.create("memory", data)
    for path in ("pbmc", "memory"):
        back = tessera.to_anndata(path)
        pd.testing.assert_frame_equal(back.obs, data.obs, check_index_type=False, check_names=False, check_categorical=False)
        same((list(back.obs_names), list(back.var_names)), (list(data.obs_names), list(data.var_names)), "names")
        for one, other in ((back.X, data.X), (back.layers["counts"], data.layers["counts"]), (back.obsp["dist"], data.obsp["dist"])):
            same((one != other).nnz, 0, "cells")
        np.testing.assert_array_equal(back.obsm["X_pca"], data.obsm["X_pca"])
        np.testing.assert_array_equal(back.uns["d"]["a"], data.uns["d"]["a"])
    data.uns = {"odd": pd.DataFrame({"a": [1]}), "kept": 2}
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        tessera.create("odd", data)
    assert any("'odd' is not kept" in str(w.message) for w in warned), [str(w.message) for w in warned]
    data.uns = {"numbers as keys": {1: 2, "1": 3}, "mixed": np.array([1, "a", None], object), "texts": np.array(["a", "b"], object), "kept": {"a": [1, None]}}
    data.obs.index.name, data.obs["nothing"] = "barcode", pd.Series([None] * 100, dtype=object, index=data.obs.index)
    data.obsm["frame"] = pd.DataFrame({"one": np.arange(100.0)}, index=data.obs.index)
    data.layers["full"] = np.ones((100, 30), "f4")
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        arrays = tessera.create("odder", data)
    said = " ".join(str(w.message) for w in warned)
    assert "'numbers as keys', 'mixed' is not kept" in said and "obsm['frame']: the names of its columns are not kept: one" in said, said
    same({array.kind for name, array in arrays.items() if "obsm" not in name and "varm" not in name}, {"sparse"}, "SOMA's tables and matrices are sparse, however full")
    back = tessera.to_anndata("odder")
    same((back.obs.index.name, back.obs["nothing"].isna().all(), list(back.uns["texts"]), back.uns["kept"], float(back.layers["full"].sum())), ("barcode", True, ["a", "b"], {"a": [1, None]}, 3000.0), "what is kept")
    empty = anndata.AnnData(np.zeros((0, 3), "f4"), var=pd.DataFrame(index=["a", "b", "c"]))
    tessera.create("empty", empty)
    same(tessera.to_anndata("empty").shape, (0, 3), "no cells")
    gaps = anndata.AnnData(np.eye(2, dtype="f4"), pd.DataFrame({"n": pd.array([1, None], "Int16"), "b": pd.array([None, True], "boolean"), "u": pd.array([2 ** 64 - 1, None], "UInt64")}, index=["a", "b"]),
                           obsm={"none": np.zeros((2, 0)), "frame": pd.DataFrame(index=["a", "b"])})
    tessera.create("gaps", gaps)
    back = tessera.to_anndata("gaps")
    same(({name: str(dtype) for name, dtype in back.obs.dtypes.items()}, back.obs["u"].iloc[0]), ({"n": "Int16", "b": "boolean", "u": "UInt64"}, 2 ** 64 - 1), "numbers with gaps")
    same((back.obsm["none"].shape, back.obsm["frame"].shape), ((2, 0), (2, 0)), "matrices without columns")
    fails(ValueError, "columns 'Batch' and 'batch' differ in the case of letters alone", lambda: tessera.create("cases", anndata.AnnData(np.eye(2, dtype="f4"), pd.DataFrame({"Batch": [1, 2], "batch": [1, 2]}, index=["a", "b"]))))
    data.obsm["frame"] = pd.DataFrame({"one": ["x"] * 100}, index=data.obs.index)
    fails(TypeError, "obsm['frame']", lambda: tessera.create("texts", data))
    del data.obsm["frame"]
    data.obsm["a/b"] = data.obsm["X_pca"]
    fails(tessera.Constraint, "'a/b'", lambda: tessera.create("slash", data))
    assert not os.path.exists("slash"), "all of it or nothing"


@needs("anndata", "tiledbsoma")
def test_soma_reads_it():
    code = ("import tiledbsoma\nwith tiledbsoma.open('pbmc') as e:\n"
            "    print(len(e.obs.read().concat()), e.ms['RNA'].X['data'].shape, e.ms['RNA'].X['data'].read().tables().concat().num_rows)")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)   # TileDB in a process of its own
    same(done.stdout.strip(), "100 (100, 30) 600", done.stderr)


def test_accessor():
    for order in ("import tessera, xarray as xr", "import xarray as xr, tessera"):
        code = f"{order}\nprint(sorted(xr.Dataset({{'a': ('x', [1.0, 2.0])}}).to_tessera('acc', if_exists='replace')), xr.DataArray([1.0], dims='x', name='v').to_tessera('one', if_exists='replace'))"
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
        assert done.stdout.startswith("['a']"), done.stderr
    assert "xarray" not in subprocess.run([sys.executable, "-c", "import sys, tessera; print([m for m in sys.modules if m == 'xarray'])"], capture_output=True, text=True).stdout


def test_errors():
    fails(tessera.Unsupported, ".parquet", lambda: tessera.create("n", "x.foo"))
    fails(tessera.NotFound, "no such file", lambda: tessera.create("n", "nothing.nc"))
    open("lacking.las", "w").close()
    code = "import sys, tessera\nsys.modules['laspy'] = None\ntessera.create('n', 'lacking.las')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "pip install laspy" in done.stderr and "ModuleNotFoundError" in done.stderr, done.stderr
    assert not os.path.exists("n")


def test_progress():
    files, shown = importlib.import_module("tessera.files"), io.StringIO()
    bar = files._Bar("x.nc", True)
    bar._began -= 10
    bar.total = 1000
    with contextlib.redirect_stderr(shown):
        bar.add(500)
        bar.add(500)
        bar.close()
    assert "x.nc [###############               ]  50 %" in shown.getvalue() and "100 %" in shown.getvalue(), shown.getvalue()
    quiet = files._Bar("x.nc", None)   # stderr is no terminal here
    assert not quiet._shown


run(globals(), "files become arrays and come back")
if missing:
    print(f"SKIPPED: not installed: {', '.join(sorted(missing))}")
