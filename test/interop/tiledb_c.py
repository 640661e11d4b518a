"""Calls libtiledb, the reference library that the package `tiledb` contains, from Python through its C interface.
Schemas and columns have the form of tessera_c.py."""
import ctypes as C
import glob
import os

import numpy as np

from cases import TILEDB_MEMORY
from tessera_c import CODE, FILTERS, NUMPY, ORDERS, SIZE, VARIABLE, value_bytes


class TileDBError(Exception):
    pass


class Range(C.Structure):
    _fields_ = [("low", C.c_void_p), ("low_size", C.c_uint64), ("high", C.c_void_p), ("high_size", C.c_uint64)]


def library():
    """Returns the path of libtiledb, or None if the package is not installed."""
    try:
        import tiledb
    except ImportError:
        return None
    package = os.path.dirname(tiledb.__file__)
    found = glob.glob(package + ".libs/libtiledb-*.so*") + glob.glob(package + "/libtiledb.so*") + glob.glob(package + "/libtiledb.dylib")
    return found[0] if found else None


def pointer(array):
    return C.c_void_p(array.ctypes.data)


def cells_of(field, is_dimension):
    return (VARIABLE if field["type"] == "ASCII" else 1) if is_dimension else field.get("values", 1)


class TileDB:
    def __init__(self, path, key=None):
        self.library = C.CDLL(path)
        config, error, context = C.c_void_p(), C.c_void_p(), C.c_void_p()
        assert self.library.tiledb_config_alloc(C.byref(config), C.byref(error)) == 0
        options = {"sm.compute_concurrency_level": "2", "sm.io_concurrency_level": "1", **TILEDB_MEMORY}
        if key:
            options.update({"sm.encryption_type": "AES_256_GCM", "sm.encryption_key": key.decode("latin-1")})
        for name, value in options.items():
            assert self.library.tiledb_config_set(config, name.encode(), value.encode("latin-1"), C.byref(error)) == 0
        self.config = config
        assert self.library.tiledb_ctx_alloc(config, C.byref(context)) == 0
        self.context = context

    def close(self):
        self.library.tiledb_ctx_free(C.byref(self.context))
        self.library.tiledb_config_free(C.byref(self.config))

    def call(self, name, *arguments):
        arguments = [a.encode() if isinstance(a, str) else a for a in arguments]
        if getattr(self.library, name)(self.context, *arguments) == 0:
            return
        error, text = C.c_void_p(), C.c_char_p()
        self.library.tiledb_ctx_get_last_error(self.context, C.byref(error))
        self.library.tiledb_error_message(error, C.byref(text))
        message = (text.value or b"").decode(errors="replace")
        self.library.tiledb_error_free(C.byref(error))
        raise TileDBError(f"{name}: {message}")

    def handle(self, name, *arguments):
        made = C.c_void_p()
        self.call(name, *arguments, C.byref(made))
        return made

    def get(self, kind, name, *arguments):
        value = kind()
        self.call(name, *arguments, C.byref(value))
        return value.value

    # ---- Schemas

    def filter_list(self, filters):
        made = self.handle("tiledb_filter_list_alloc")
        options = {"level": (0, C.c_int32), "factor": (4, C.c_double), "offset": (5, C.c_double), "bytewidth": (3, C.c_uint64)}
        for name, given in filters:
            one = self.handle("tiledb_filter_alloc", FILTERS[name])
            for option, value in given.items():
                number, kind = options.get(option, (1 if name == "bit_width_reduction" else 2, C.c_uint32))
                if option == "reinterpret":
                    number, kind, value = 9, C.c_uint8, CODE[value]
                stored = kind(value)
                self.call("tiledb_filter_set_option", one, number, C.byref(stored))
            self.call("tiledb_filter_list_add_filter", made, one)
        return made

    def schema(self, s):
        made = self.handle("tiledb_array_schema_alloc", 0 if s["dense"] else 1)
        domain = self.handle("tiledb_domain_alloc")
        for d in s["dims"]:
            ends = d.get("domain") and b"".join(value_bytes(v, d["type"]) for v in d["domain"])
            extent = None if d.get("extent") is None else value_bytes(d["extent"], d["type"])
            one = self.handle("tiledb_dimension_alloc", d["name"], CODE[d["type"]], ends, extent)
            if d["type"] == "ASCII":
                self.call("tiledb_dimension_set_cell_val_num", one, C.c_uint32(VARIABLE))
            if d.get("filters"):
                self.call("tiledb_dimension_set_filter_list", one, self.filter_list(d["filters"]))
            self.call("tiledb_domain_add_dimension", domain, one)
        self.call("tiledb_array_schema_set_domain", made, domain)
        self.call("tiledb_array_schema_set_cell_order", made, ORDERS[s.get("cell_order", "row")])
        self.call("tiledb_array_schema_set_tile_order", made, ORDERS[s.get("tile_order", "row")])
        self.call("tiledb_array_schema_set_capacity", made, C.c_uint64(s.get("capacity", 10000)))
        self.call("tiledb_array_schema_set_allows_dups", made, int(s.get("duplicates", False)))
        for kind in ("coords", "offsets", "validity"):
            self.call(f"tiledb_array_schema_set_{kind}_filter_list", made, self.filter_list(s.get(kind + "_filters", [])))
        for a in s["attrs"]:
            one = self.handle("tiledb_attribute_alloc", a["name"], CODE[a["type"]])
            self.call("tiledb_attribute_set_cell_val_num", one, C.c_uint32(a.get("values", 1)))
            self.call("tiledb_attribute_set_nullable", one, C.c_uint8(a.get("nullable", False)))
            self.call("tiledb_attribute_set_filter_list", one, self.filter_list(a.get("filters", [])))
            if "fill" in a and not a.get("nullable"):
                self.call("tiledb_attribute_set_fill_value", one, a["fill"], C.c_uint64(len(a["fill"])))
            self.call("tiledb_array_schema_add_attribute", made, one)
        self.call("tiledb_array_schema_check", made)
        return made

    def create(self, path, s):
        self.call("tiledb_array_create", path, self.schema(s))

    # ---- Queries

    def open(self, path, mode, times=None):
        array = self.handle("tiledb_array_alloc", path)
        if times:
            self.call("tiledb_array_set_open_timestamp_start", array, C.c_uint64(times[0]))
            self.call("tiledb_array_set_open_timestamp_end", array, C.c_uint64(times[1]))
        self.call("tiledb_array_open", array, mode)
        return array

    def close_array(self, array):
        self.call("tiledb_array_close", array)
        self.library.tiledb_array_free(C.byref(array))

    def add_box(self, query, array, box, dims):
        subarray = self.handle("tiledb_subarray_alloc", array)
        for i, (ends, d) in enumerate(zip(box, dims)):
            low, high = (np.frombuffer(value_bytes(v, d["type"]), "u1") for v in ends)
            self.call("tiledb_subarray_add_range", subarray, C.c_uint32(i), pointer(low), pointer(high), None)
        self.call("tiledb_query_set_subarray_t", query, subarray)

    def buffers(self, query, name, values, offsets, validity):
        sizes = (C.c_uint64 * 3)(values.nbytes, offsets.nbytes if offsets is not None else 0,
                                 validity.nbytes if validity is not None else 0)
        at = [C.c_void_p(C.addressof(sizes) + 8 * i) for i in range(3)]
        self.call("tiledb_query_set_data_buffer", query, name, pointer(values), at[0])
        if offsets is not None:
            self.call("tiledb_query_set_offsets_buffer", query, name, pointer(offsets), at[1])
        if validity is not None:
            self.call("tiledb_query_set_validity_buffer", query, name, pointer(validity), at[2])
        return sizes, values, offsets, validity

    def write(self, path, s, columns, box=None, time=None, layout=None):
        array = self.open(path, 1, (0, time) if time else None)
        query = self.handle("tiledb_query_alloc", array, 1)
        self.call("tiledb_query_set_layout", query, layout if layout is not None else 0 if s["dense"] else 3)
        if s["dense"]:
            self.add_box(query, array, box, s["dims"])
        kept = []
        for f in ([] if s["dense"] else s["dims"]) + s["attrs"]:
            values, offsets, validity = columns[f["name"]]
            data = np.frombuffer(values + b"\0", "u1")[:len(values)]
            kept.append(self.buffers(query, f["name"], data, offsets[:-1].copy() if offsets is not None else None, validity))
        self.call("tiledb_query_submit", query)
        self.call("tiledb_query_finalize", query)
        self.close_array(array)

    def read(self, path, s, cells, times=None, box=None):
        """Returns all cells, at most so many, as a dict of columns: of a dense array in row-major order of the box, of a sparse one in any order."""
        array = self.open(path, 0, times)
        query = self.handle("tiledb_query_alloc", array, 0)
        self.call("tiledb_query_set_layout", query, 0 if s["dense"] else 3)
        if box:
            self.add_box(query, array, box, s["dims"])
        kept = {}
        for i, f in enumerate(s["dims"] + s["attrs"]):
            per_cell = cells_of(f, i < len(s["dims"]))
            variable = per_cell == VARIABLE
            size = 640 if variable else SIZE[f["type"]] * per_cell
            kept[f["name"]] = self.buffers(query, f["name"], np.zeros(cells * size, "u1"), np.zeros(cells, "u8") if variable else None,
                                           np.zeros(cells, "u1") if f.get("nullable") else None)
        self.call("tiledb_query_submit", query)
        status = self.get(C.c_int, "tiledb_query_get_status", query)
        self.close_array(array)
        if status != 1:
            raise TileDBError(f"the read ended with status {status}")
        result = {}
        for name, (sizes, values, offsets, validity) in kept.items():
            if offsets is not None:
                offsets = np.append(offsets[:sizes[1] // 8], np.uint64(sizes[0]))
            result[name] = values[:sizes[0]].tobytes(), offsets, validity[:sizes[2]] if validity is not None else None
        return result

    # ---- Fragment information

    def fragments(self, path, s):
        """Returns (cells, dense, non-empty domain) of each fragment."""
        info = self.handle("tiledb_fragment_info_alloc", path)
        self.call("tiledb_fragment_info_load", info)
        found = []
        for i in range(self.get(C.c_uint32, "tiledb_fragment_info_get_fragment_num", info)):
            n = C.c_uint32(i)
            cells = self.get(C.c_uint64, "tiledb_fragment_info_get_cell_num", info, n)
            dense = self.get(C.c_int32, "tiledb_fragment_info_get_dense", info, n)
            version = self.get(C.c_uint32, "tiledb_fragment_info_get_version", info, n)
            start, end = C.c_uint64(), C.c_uint64()
            self.call("tiledb_fragment_info_get_timestamp_range", info, n, C.byref(start), C.byref(end))
            box = []
            for d, dim in enumerate(s["dims"]):
                if dim["type"] == "ASCII":
                    low, high = C.c_uint64(), C.c_uint64()
                    self.call("tiledb_fragment_info_get_non_empty_domain_var_size_from_index", info, n, C.c_uint32(d), C.byref(low), C.byref(high))
                    a, b = C.create_string_buffer(low.value + 1), C.create_string_buffer(high.value + 1)
                    self.call("tiledb_fragment_info_get_non_empty_domain_var_from_index", info, n, C.c_uint32(d), a, b)
                    box.append((a.raw[:-1], b.raw[:-1]))
                else:
                    ends = np.zeros(2, NUMPY[dim["type"]])
                    self.call("tiledb_fragment_info_get_non_empty_domain_from_index", info, n, C.c_uint32(d), pointer(ends))
                    box.append((ends[0], ends[1]))
            found.append({"cells": cells, "dense": bool(dense), "box": box, "version": version, "times": (start.value, end.value)})
        return found

    def consolidate(self, path, mode="fragments"):
        error = C.c_void_p()
        assert self.library.tiledb_config_set(self.config, b"sm.consolidation.mode", mode.encode(), C.byref(error)) == 0
        self.call("tiledb_array_consolidate", path, self.config)

    def vacuum(self, path):
        self.call("tiledb_array_vacuum", path, self.config)
