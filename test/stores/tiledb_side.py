"""What TileDB does in a bucket, in a process of its own: makes and changes arrays of the cases of both_ways.py, and reads arrays.

usage: tiledb_side.py ORDER      # JSON; prints JSON
"""
import json
import os
import sys

os.environ["AWS_EC2_METADATA_DISABLED"] = "true"
import numpy as np
import tiledb


def context(order):
    there = f"http://127.0.0.1:{order['port']}"
    clouds = {"azure": {"vfs.azure.storage_account_name": order.get("account", ""), "vfs.azure.storage_account_key": order.get("account_key", ""),
                        "vfs.azure.blob_endpoint": f"{there}/{order.get('account', '')}"},
              "gcs": {"vfs.gcs.endpoint": f"http://127.0.0.1:{order.get('json_port') or order['port'] + 1}", "vfs.gcs.project_id": "p"}}
    settings = {"vfs.s3.endpoint_override": f"127.0.0.1:{order['port']}", "vfs.s3.scheme": "http", "vfs.s3.use_virtual_addressing": "false",
                "vfs.s3.region": "us-east-1", "vfs.s3.aws_access_key_id": order["key_id"], "vfs.s3.aws_secret_access_key": order["secret"],
                "sm.compute_concurrency_level": 2, "sm.io_concurrency_level": 2, "sm.mem.total_budget": 200_000_000} # of 10 GB it clears a part in each consolidation
    scheme = order["uri"].split("://")[0]
    if scheme in clouds:
        settings = {name: value for name, value in settings.items() if not name.startswith("vfs.s3")} | clouds[scheme]
    if order.get("key"):
        settings["sm.encryption_type"], settings["sm.encryption_key"] = "AES_256_GCM", order["key"]
    return tiledb.Ctx(settings)


def filters():
    return tiledb.FilterList([tiledb.ByteShuffleFilter(), tiledb.ZstdFilter(level=3)])


def make(order, ctx):
    uri, case = order["uri"], order["case"]
    if case == "dense":
        domain = tiledb.Domain(tiledb.Dim("y", domain=(0, 19), tile=5, dtype=np.int32, ctx=ctx), tiledb.Dim("x", domain=(-3, 6), tile=4, dtype=np.int32, ctx=ctx), ctx=ctx)
        attrs = [tiledb.Attr("v", dtype=np.float64, filters=filters(), ctx=ctx), tiledb.Attr("n", dtype=np.int16, nullable=True, ctx=ctx),
                 tiledb.Attr("s", dtype="U0", var=True, ctx=ctx)]
        tiledb.Array.create(uri, tiledb.ArraySchema(domain=domain, attrs=attrs, ctx=ctx), ctx=ctx)
        write_dense(order, ctx)
        return
    if case == "text":
        domain = tiledb.Domain(tiledb.Dim("k", domain=(None, None), tile=None, dtype="ascii", ctx=ctx), ctx=ctx)
    else:
        domain = tiledb.Domain(tiledb.Dim("x", domain=(0, 9999), tile=100, dtype=np.int64, ctx=ctx), ctx=ctx)
    attrs = [tiledb.Attr("v", dtype=np.float32, filters=filters(), ctx=ctx), tiledb.Attr("s", dtype="U0", var=True, nullable=True, ctx=ctx)]
    more = {}
    if case == "enumeration":
        more["enums"] = [tiledb.Enumeration("colors", False, ["red", "green", "blue"], ctx=ctx)]
        attrs.append(tiledb.Attr("e", dtype=np.int8, enum_label="colors", ctx=ctx))
    tiledb.Array.create(uri, tiledb.ArraySchema(domain=domain, attrs=attrs, sparse=True, capacity=7, ctx=ctx, **more), ctx=ctx)
    for i in range(order.get("fragments", 2)):
        write_sparse(dict(order, first=i * 10), ctx)


def write_dense(order, ctx):
    y, x = np.mgrid[0:20, -3:7]
    shift = order.get("shift", 0)
    with tiledb.open(order["uri"], "w", ctx=ctx) as array:
        array[:] = {"v": (y * 10 + x + shift).astype(np.float64),
                    "n": nullable((y + x + shift).astype(np.int16), (y + x) % 3 != 0),
                    "s": np.array([["t" * int((a + b) % 4) for a, b in zip(r, c)] for r, c in zip(y, x + 3)], dtype="O")}


def nullable(values, valid):
    return np.ma.MaskedArray(values, mask=~valid)


def write_sparse(order, ctx):
    first, case = order["first"], order["case"]
    numbers = np.arange(first, first + 10)
    texts = np.array([f"text {i} \u00fc" if i % 3 else None for i in numbers], dtype="O")
    values = {"v": numbers.astype(np.float32) / 2, "s": texts}
    if case == "enumeration":
        values["e"] = (numbers % 3).astype(np.int8)
    coordinates = np.array([f"key {i}" for i in numbers], dtype="S") if case == "text" else numbers.astype(np.int64)
    with tiledb.open(order["uri"], "w", ctx=ctx) as array:
        for name in order.get("without", ()):
            values.pop(name, None)
        for name in order.get("more", ()):
            values[name] = numbers.astype(np.int32) * 3
        array[coordinates] = values


def plain(value):
    if value is np.ma.masked or value is None:
        return None
    if isinstance(value, bytes):
        return value.decode()
    if isinstance(value, np.generic):
        value = value.item()
        return value.decode() if isinstance(value, bytes) else value
    return value


def read(order, ctx):
    with tiledb.open(order["uri"], ctx=ctx) as array:
        schema = array.schema
        dims = [schema.domain.dim(i).name for i in range(schema.domain.ndim)]
        attrs = [schema.attr(i).name for i in range(schema.nattr)]
        labels = {name: list(array.enum(schema.attr(name).enum_label).values()) for name in attrs if schema.attr(name).enum_label}
        data = array[:]
        columns = {}
        if not schema.sparse:
            ends = [schema.domain.dim(name).domain for name in dims]
            grids = np.meshgrid(*[np.arange(int(low), int(high) + 1) for low, high in ends], indexing="ij")
            columns.update((name, [int(v) for v in grid.reshape(-1)]) for name, grid in zip(dims, grids))
            data = data if isinstance(data, dict) else {attrs[0]: data}
        for name in (dims if schema.sparse else []) + attrs:
            values = data[name]
            mask = np.ma.getmaskarray(values).reshape(-1) if isinstance(values, np.ma.MaskedArray) else None
            flat = (values.data if mask is not None else np.asarray(values)).reshape(-1)
            columns[name] = [None if mask is not None and mask[i] else plain(flat[i]) for i in range(len(flat))]
        for name, each in labels.items():
            columns[name] = [None if code is None else plain(code if isinstance(code, str) else each[code]) for code in columns[name]]
        rows = [list(row) for row in zip(*columns.values())]
        meta = {key: plain(array.meta[key]) for key in array.meta}
        return {"columns": list(columns), "rows": sorted(rows, key=lambda row: json.dumps(row[:len(dims)]).zfill(40)), "meta": meta}


def evolve(order, ctx):
    evolution = tiledb.ArraySchemaEvolution(ctx=ctx)
    evolution.add_attribute(tiledb.Attr("b", dtype=np.int32, nullable=False, ctx=ctx))
    evolution.array_evolve(order["uri"])
    write_sparse(dict(order, first=40, more=["b"]), ctx)
    evolution = tiledb.ArraySchemaEvolution(ctx=ctx)
    evolution.drop_attribute("v")
    evolution.array_evolve(order["uri"])
    write_sparse(dict(order, first=50, more=["b"], without=["v"]), ctx)


def delete(order, ctx):
    with tiledb.open(order["uri"], "d", ctx=ctx) as array:
        array.query(cond=order["condition"]).submit()


def consolidate(order, ctx):
    config = ctx.config()
    for mode in order["modes"]:
        config["sm.consolidation.mode"], config["sm.vacuum.mode"] = mode, mode
        inner = tiledb.Ctx(config)
        tiledb.consolidate(order["uri"], ctx=inner, config=config)
        if order.get("vacuum"):
            tiledb.vacuum(order["uri"], ctx=inner, config=config)


def metadata(order, ctx):
    with tiledb.open(order["uri"], "w", ctx=ctx) as array:
        for key, value in order["values"].items():
            array.meta[key] = value


def group(order, ctx):
    tiledb.group_create(order["uri"], ctx=ctx)
    with tiledb.Group(order["uri"], "w", ctx=ctx) as made:
        for name, uri, relative in order["members"]:
            made.add(uri, name=name, relative=relative)
        made.meta["k"] = "v"


def members(order, ctx):
    with tiledb.Group(order["uri"], ctx=ctx) as found:
        return {"members": sorted((each.name, each.uri) for each in found), "meta": {key: plain(found.meta[key]) for key in found.meta}}


def main():
    order = json.loads(sys.argv[1])
    ctx = context(order)
    print(json.dumps(globals()[order["do"]](order, ctx)))
    sys.stdout.flush()
    os._exit(0) # the library's destructors may crash


if __name__ == "__main__":
    main()
