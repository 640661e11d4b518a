"""Builds the WebAssembly module of the npm package with emscripten: SQLite, tessera and the codecs.

usage: build.py FOLDER

FOLDER gets the package sqlite-tessera-wasm: tessera.wasm, tessera-module.js (emscripten's part), and the files beside this one. Objects go to
FOLDER-objects; what has not changed since the last build is not compiled again. emcc must be installed (Debian's emscripten 3.1.6 will do).

Speed and size: the functions that a query spends its time in are compiled for speed, without unrolled loops, all others for size. So are
the parts of the codecs that compress, because a page reads far more than it writes.
"""
import concurrent.futures
import glob
import hashlib
import json
import os
import shutil
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "package"))
import amalgamate
import command
import sources
from command import Fault

ROOT = os.path.dirname(os.path.dirname(HERE))
PACKAGE = ("*.js", "*.d.ts", "README.md", "package.json", "sqlite3_wasm_extra_init.c") # of the files beside this one
# Sources that are compiled for speed, one by one: their loops pass over cells and bytes. All others are compiled for size, as one file.
FAST = ("core/base/sort.c", *(f"core/query/{name}.c" for name in ("accumulate", "batch", "evaluate", "groups", "kernels", "keys", "passes")),
        *(f"core/filter/{name}.c" for name in ("bitwidth", "checksum", "delta", "dictionary", "rle", "scale", "shuffle", "xor")),
        "core/format/tile.c", "core/read/predicate.c", "core/read/version_merge.c")
SPEED = ("-O2", "-fno-unroll-loops") # unrolled loops gain little in WebAssembly, and are a sixth of what is compiled for speed
GLUE = ("module", "host_vfs", "no_buckets", "no_streams", "no_variants") # these and the sources for speed are always compiled: they include headers of core/ and ext/
LEFT_OUT = ("core/remote/", "core/store/store_bucket.c", "core/store/prefetch.c", "core/store/upload.c", # buckets: no_buckets.c stands for them
            "core/arrow/", "core/ingest/arrow.c", "ext/call/lend.c", "ext/data/rows.c", "ext/data/streams.c", # Arrow streams: no_streams.c
            "ext/front/vcf") # TileDB-VCF datasets: no_variants.c
SQLITE = ("SQLITE_THREADSAFE=0", "SQLITE_OMIT_LOAD_EXTENSION", "SQLITE_ENABLE_FTS5", "SQLITE_ENABLE_RTREE", "SQLITE_ENABLE_MATH_FUNCTIONS",
          "SQLITE_ENABLE_DBSTAT_VTAB", "SQLITE_DEFAULT_MEMSTATUS=0", "SQLITE_TEMP_STORE=2", "SQLITE_OMIT_DEPRECATED", "SQLITE_OMIT_SHARED_CACHE",
          "SQLITE_OMIT_TRACE", "SQLITE_DQS=0", "SQLITE_OMIT_WAL", "SQLITE_UNTESTABLE", "SQLITE_MAX_MMAP_SIZE=0", "SQLITE_OMIT_TCL_VARIABLE",
          "SQLITE_OMIT_COMPILEOPTION_DIAGS", "SQLITE_ENABLE_LOCKING_STYLE=0", "SQLITE_OMIT_GET_TABLE", "SQLITE_OMIT_AUTHORIZATION")
MBEDTLS = ("MBEDTLS_AES_FEWER_TABLES", "MBEDTLS_SHA256_SMALLER")
ZLIB = ("DYNAMIC_CRC_TABLE", "BUILDFIXED") # tables are made when they are first used: no compression makes those of a checksum smaller
# Of zstd's ways to compress, those of levels 1 to 4; higher levels compress about as level 4 does. All frames are decompressed.
ZSTD = ("ZSTD_DISABLE_ASM", "ZSTD_EXCLUDE_GREEDY_BLOCK_COMPRESSOR", "ZSTD_EXCLUDE_LAZY_BLOCK_COMPRESSOR", "ZSTD_EXCLUDE_LAZY2_BLOCK_COMPRESSOR", "ZSTD_EXCLUDE_BTLAZY2_BLOCK_COMPRESSOR", "ZSTD_EXCLUDE_BTOPT_BLOCK_COMPRESSOR",
        "ZSTD_EXCLUDE_BTULTRA_BLOCK_COMPRESSOR",
        "ZSTD_FORCE_DECOMPRESS_SEQUENCES_SHORT") # the other way to decode is for windows larger than a cache
# What compresses is made of templates, a copy for each case. Without inlining there is one copy, which is slower and a fifth as large.
ONE_COPY = {"zstd": ("/compress/", "-DZSTD_NO_INLINE"), "lz4": ("/lz4hc.c", "-DLZ4_FORCE_INLINE=static")}
# wasm-opt sorts functions by their calls, and leaves zeros out between data. Both make the module smaller, and what is sent of it larger: functions
# of one source have much in common, and gzip finds it if they are neighbours. Each -Oz finds what the one before it has made possible.
WASM_OPT = ("--post-emscripten", "-Oz", "-Oz", "-Oz", "--skip-pass=reorder-functions", "--skip-pass=memory-packing", "--low-memory-unused", "--zero-filled-memory",
            "--strip-debug", "--strip-producers", "--strip-target-features", "--enable-bulk-memory", "--enable-sign-ext", "--enable-nontrapping-float-to-int")
# The last three are instructions of WebAssembly that every browser has had since 2021, as it has BigInt for 64 bits (WASM_BIGINT); they make the
# module smaller.
FLAGS = ("-std=gnu11", "-fno-strict-aliasing", "-fno-trapping-math", "-fno-math-errno", "-ffp-contract=off", "-Wno-unused-command-line-argument",
         "-Wno-pass-failed", # passes.c asks for vectors, which this module does without
         "-mbulk-memory", "-msign-ext", "-mnontrapping-fptoint")
EXPORTS = ("malloc free sqlite3_malloc sqlite3_free sqlite3_open_v2 sqlite3_close_v2 sqlite3_errmsg sqlite3_extended_errcode sqlite3_errstr "
           "sqlite3_extended_result_codes sqlite3_prepare_v2 sqlite3_step sqlite3_reset sqlite3_clear_bindings sqlite3_finalize sqlite3_stmt_readonly "
           "sqlite3_bind_parameter_count sqlite3_bind_parameter_index sqlite3_bind_null sqlite3_bind_double sqlite3_column_count sqlite3_column_name "
           "sqlite3_column_value sqlite3_value_type sqlite3_value_double sqlite3_value_text sqlite3_value_blob sqlite3_value_bytes "
           "sqlite3_result_null sqlite3_result_double sqlite3_result_error sqlite3_changes sqlite3_total_changes sqlite3_get_autocommit "
           "sqlite3_libversion sqlite3_interrupt sqlite3_error_offset sqlite3_complete sqlite3_db_config").split()


def emcc(*words):
    """Runs emscripten's compiler and shows what it says."""
    environment = dict(os.environ, NODE_PATH=os.environ.get("NODE_PATH", "/usr/share/nodejs")) # Debian keeps emscripten's acorn there
    print(command.run(["emcc", *words], env=environment), end="")


def amalgamation(folder):
    """Writes tessera.c without buckets and without what is compiled for speed, and tessera.h. Returns the path of tessera.c, and those of
    the sources for speed."""
    os.makedirs(folder, exist_ok=True)
    fast = []
    def around(path):
        if path.startswith(FAST):
            fast.append(path)
        return None if path.startswith(LEFT_OUT + FAST) else ("", "")
    for name, text in zip(("tessera.c", "tessera.h"), amalgamate.amalgamate(ROOT, around)):
        path = f"{folder}/{name}"
        if not os.path.exists(path) or amalgamate.read(path) != text:
            with open(path, "w", encoding="utf-8") as f:
                f.write(text)
    return f"{folder}/tessera.c", fast


def optimization(name, path):
    """Returns how a file of a library is compiled, as flags."""
    place, flag = ONE_COPY.get(name, ("", None))
    return [*level(name, path)] + [flag] * bool(flag and place in path)


def level(name, path):
    if name == "SQLite":
        return ("-Oz",)
    if name == "zstd" and "/decompress/" in path or name == "zlib" and os.path.basename(path) in ("inffast.c", "inflate.c", "crc32.c") or \
            name == "lz4" and path.endswith("/lz4.c"):
        return SPEED
    return ("-Oz",)


def compile_all(work, objects):
    """Compiles what has changed: a list of (name of the object, source, flags). Returns the objects' paths."""
    def one(job):
        name, source, flags = job
        target = f"{objects}/{name}.o"
        with open(source, "rb") as f:
            stamp = hashlib.sha256(json.dumps([name, *flags]).replace(objects, "").replace(ROOT, "").encode() + f.read()).hexdigest()
        if name in GLUE or name.startswith("core-") or not (os.path.exists(target) and os.path.exists(target + ".stamp") and amalgamate.read(target + ".stamp") == stamp):
            emcc(*flags, "-c", source, "-o", target)
            with open(target + ".stamp", "w", encoding="utf-8") as f:
                f.write(stamp)
        return target

    os.makedirs(objects, exist_ok=True)
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        return list(pool.map(one, work))


def build_module(folder):
    """Builds tessera.wasm and tessera-module.js in the folder."""
    objects, place = folder + "-objects", f"{ROOT}/build/sources"
    sources.fetch(place)
    tessera, fast = amalgamation(f"{objects}/amalgamation")
    headers = [f"-I{path}" for path in sources.includes(place)] + [f"-I{objects}/amalgamation"]
    libraries = [f"-D{d}" for d in sources.definitions()]
    work = [("tessera", tessera, ["-Oz", *FLAGS, "-DSQLITE_CORE", *libraries, *headers])]
    work += [(f"core-{os.path.basename(path)[:-2]}", f"{ROOT}/{path}", [*SPEED, *FLAGS, *libraries, *headers, f"-I{ROOT}/core"]) for path in fast]
    for name in sources.LIBRARIES:
        definitions = sources.definitions((name,)) + list({"SQLite": SQLITE, "zstd": ZSTD, "zlib": ZLIB, "mbedTLS": MBEDTLS}.get(name, ()))
        for path in sources.files(place, name):
            work.append((f"{name}-{os.path.basename(path)[:-2]}", path, [*optimization(name, path), *FLAGS, *[f"-D{d}" for d in definitions], *headers]))
    for name in GLUE:
        work.append((name, f"{HERE}/{name}.c", ["-Os", *FLAGS, "-Wall", "-Wextra", "-Wno-unused-parameter", "-Wno-missing-field-initializers", "-DSQLITE_CORE", *headers, f"-I{ROOT}/core", f"-I{ROOT}/ext"]))
    linked = compile_all(work, objects)
    settings = ["ALLOW_MEMORY_GROWTH=1", "MODULARIZE=1", "EXPORT_ES6=1", "USE_ES6_IMPORT_META=0", "ENVIRONMENT=web,worker", "TOTAL_STACK=4194304",
                "INITIAL_MEMORY=16777216", "MALLOC=emmalloc", "SUPPORT_LONGJMP=0", "DISABLE_EXCEPTION_CATCHING=1", "ALLOW_TABLE_GROWTH=0",
                "WASM_BIGINT=1", # without it, each type of a function with 64 bits has two stubs in the module and one in JavaScript
                "EXPORTED_RUNTIME_METHODS=FS,UTF8ToString", "INCOMING_MODULE_JS_API=instantiateWasm,print,printErr", "STRICT=0",
                "EXPORTED_FUNCTIONS=" + ",".join("_" + name for name in EXPORTS)]
    # -Oz takes the small ones of emscripten's libraries; the last level counts for the module, and -O1 leaves all of the optimizing to minify()
    emcc("-Oz", "-O1", "-g0", "-mbulk-memory", "-msign-ext", "-mnontrapping-fptoint", *linked, "--js-library", f"{HERE}/minify/file_system.js",
         "-o", f"{folder}/tessera-module.js", *[f"-s{s}" for s in settings])
    wasm = f"{folder}/tessera-module.wasm"
    os.replace(wasm, f"{folder}/tessera.wasm")


def copy_files(folder):
    for path in sorted(path for pattern in PACKAGE for path in glob.glob(f"{glob.escape(HERE)}/{pattern}")):
        with open(f"{folder}/{os.path.basename(path)}", "w", encoding="utf-8") as f:
            f.write(amalgamate.read(path).replace("@VERSION@", amalgamate.version_of(ROOT)))
    shutil.copy(f"{ROOT}/LICENSE", f"{folder}/LICENSE")
    with open(f"{folder}/NOTICES", "w", encoding="utf-8") as f:
        f.write(sources.notices(f"{ROOT}/build/sources"))


def minifiers():
    """Returns the folder of terser's and binaryen's packages. Installs them into build/minify the first time, and again when the list of versions
    and hashes has changed."""
    place, lists = f"{ROOT}/build/minify", ("package.json", "package-lock.json")
    wanted = "".join(amalgamate.read(f"{HERE}/minify/{name}") for name in lists)
    stamp = f"{place}/installed.txt"
    if not os.path.exists(stamp) or amalgamate.read(stamp) != wanted:
        if not shutil.which("npm"):
            raise Fault("npm is not installed: it brings terser and binaryen, which make the package small")
        os.makedirs(place, exist_ok=True)
        for name in lists:
            shutil.copy(f"{HERE}/minify/{name}", place)
        command.run(["npm", "ci", "--silent", "--no-audit", "--no-fund", "--ignore-scripts"], cwd=place)
        with open(stamp, "w", encoding="utf-8") as f:
            f.write(wanted)
    return f"{place}/node_modules"


def minify(folder):
    """Optimizes the module, with a newer binaryen than emscripten's. Takes comments, blanks and long local names out of the package's JavaScript;
    the sources beside this file keep them."""
    place, wasm = minifiers(), f"{folder}/tessera.wasm"
    command.run(["node", f"{place}/binaryen/bin/wasm-opt", *WASM_OPT, wasm, "-o", wasm])
    for name in sorted(os.listdir(folder)):
        if name.endswith(".js"):
            command.run(["node", f"{place}/terser/bin/terser", f"{folder}/{name}", "--module", "--ecma", "2020", "--compress", "passes=2", "--mangle", "--output", f"{folder}/{name}"])


def build(folder):
    """Makes the package in the folder. Raises Fault."""
    if not shutil.which("emcc"):
        raise Fault("emcc is not installed: install the package emscripten")
    folder = os.path.abspath(folder)
    shutil.rmtree(folder, ignore_errors=True) # a file that is the package's no more would hide that another one is missing
    os.makedirs(folder)
    build_module(folder)
    copy_files(folder)
    minify(folder)


def main():
    if len(sys.argv) != 2:
        print(__doc__.split("\n\n")[1], file=sys.stderr)
        return 2
    return command.main("build.py", build, sys.argv[1])


if __name__ == "__main__":
    sys.exit(main())
