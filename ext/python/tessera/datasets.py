"""Datasets of xarray are written in the layout of TileDB-CF: a group, with an array for each variable, whose dimensions begin at 0. What describes a
variable is metadata `__tiledb_attr.NAME.KEY` of its array. An array without cells has metadata that tells its lengths, since no dimension of an
array has the length 0.

A name means in SQL and in sel() what it means in the Dataset: `lat` is the latitude. So a dimension that has a coordinate of its name is called
`lat_index`, and `lat` is a label of it in each array, if its values rise or fall. With labels=False dimensions have their own names, and no labels."""
from __future__ import annotations

import json
import os

import numpy
import xarray

from .arrays import LENGTHS, Array, _connect, exists, need_connection, secret
from .columns import check_names
from .errors import Constraint, Exists, NotFound, Unsupported
from .grids import (POSITIONS, already, check_types, create_at, label_values, make_grid, new_place, place_grid, remove_place, rises_or_falls, set_metadata,
                    take_place, write_placed)

__all__ = ["ATTRIBUTE", "DATASET", "SCALAR", "SCALARS", "create_dataset"]

ATTRIBUTE = "__tiledb_attr."
DATASET = "__tessera_dataset"   # an array in a database that has all of a Dataset
SCALARS = "__tessera_scalar."   # there: the value of a coordinate without a dimension
SCALAR = "__scalar"   # the dimension of variables that have none
BEGUN = "__tessera_append"   # of a group, while an append goes on: where it begins and how long it is, along growing dimensions without labels
_OPTIONS = {"labels", "domains", "extents", "filters", "cell_order", "tile_order", "format_version", "key_file", "grow"}


def _labels(data, asked):
    """Returns for each dimension its labels, [(name, values)], and the name that it has in the arrays."""
    labels, renamed = {}, {}
    for name, coordinate in data.coords.items() if asked is not False else ():
        if coordinate.ndim != 1 or asked and asked is not True and name in asked:
            continue
        values = label_values(_encoded(coordinate.variable).values)
        if rises_or_falls(values):
            labels.setdefault(coordinate.dims[0], []).append((str(name), values))
    for label, name in (asked if isinstance(asked, dict) else {}).items():
        if label not in data.coords or data[label].ndim != 1:
            raise KeyError(f"'labels': the Dataset has no coordinate {label!r} with one dimension")
        values, (dim,) = label_values(_encoded(data[label].variable).values), data[label].dims
        if not rises_or_falls(values):
            raise ValueError(f"'labels': coordinate {label!r} does not rise or fall strictly")
        labels.setdefault(dim, []).insert(0, (label, values))
        renamed[dim] = name
    for dim in data.dims:   # the name of a dimension is that of its coordinate, so the positions have another one
        if dim in data.coords and asked is not False:
            renamed.setdefault(dim, f"{dim}{POSITIONS}")
    named = [renamed.get(dim, dim) for dim in data.dims]
    several = {name for name in named if named.count(name) > 1}
    if several:
        raise ValueError(f"two dimensions would be called {', '.join(sorted(several))}: rename one, or say labels={{coordinate: dimension}}")
    return labels, renamed


def _encoded(variable):
    """Dates of other calendars are numbers, whose units xarray decodes again."""
    if variable.dtype.kind == "O" and variable.size and type(variable.values.flat[0]).__module__.startswith("cftime"):
        return xarray.conventions.encode_cf_variable(variable)
    return variable


def _extents(variable, lengths, options):
    """The chunks of a chunked source, if they are of a size for tiles; what the options say goes before them."""
    chunks = variable.chunks and [max(part) for part in variable.chunks] or variable.encoding.get("chunks") or variable.encoding.get("chunksizes")
    asked = {name: extent for name, extent in options.get("extents", {}).items() if name in lengths}
    if chunks and len(chunks) == len(lengths) and 1000 <= numpy.prod(chunks, dtype=float) <= 1 << 24:
        return {**{name: int(chunk) for name, chunk in zip(lengths, chunks)}, **asked}
    return asked


def _block(variable):
    """Returns the ndarray of a variable in memory; another is read part by part."""
    if variable.chunks is not None or not getattr(variable, "_in_memory", True):   # of a file; `data` would read all of it
        return variable
    return variable.data if isinstance(variable.data, numpy.ndarray) else variable


def _one(name, variable, labels, renamed, options):
    """Returns what create_grid needs of a variable: blocks, lengths, labels, options; and the metadata."""
    variable = _encoded(variable)
    dims = variable.dims or (SCALAR,)
    block = _block(variable) if variable.dims else variable.values.reshape(1)
    lengths = {renamed.get(dim, dim): length for dim, length in zip(dims, variable.shape or (1,))}
    attribute = f"{name}_" if name in lengths else name
    made = {label: (renamed.get(dim, dim), values) for dim in dims for label, values in labels.get(dim, ()) if label not in (*lengths, attribute)}
    mine = {key: value for key, value in options.items() if key not in ("labels", "filters")}
    mine["extents"] = _extents(variable, lengths, options)
    mine["domains"] = {name: ends for name, ends in options.get("domains", {}).items() if name in lengths}
    mine["filters"] = {attribute: options["filters"][name]} if name in options.get("filters", {}) else {}
    mine["grow"] = [name for name in options.get("grow", ()) if name in lengths]
    mine["metadata"] = {f"{ATTRIBUTE}{attribute}.{key}": value for key, value in variable.attrs.items() if value is not None}
    if not all(lengths.values()):
        mine["metadata"][LENGTHS] = list(lengths.values())
    return {attribute: block}, lengths, made, mine


def create_dataset(path, data, connection, if_exists, options):
    """Makes a group of arrays of a Dataset or DataArray; in a database one array, which the variables must fit. Returns the Arrays by variable."""
    path = os.fspath(path)
    unknown = set(options) - _OPTIONS
    if unknown:
        raise TypeError(f"a Dataset has no option {', '.join(sorted(unknown))}")
    data = data.to_dataset(name=data.name or "value") if isinstance(data, xarray.DataArray) else data
    check_names(data.variables)
    need_connection(connection, path)
    for option in ("domains", "extents", "grow"):
        unknown = set(options.get(option, ())) - set(data.dims) - set(options["labels"].values() if isinstance(options.get("labels"), dict) else ())
        if unknown:
            raise KeyError(f"{option!r}: the Dataset has no dimension {', '.join(sorted(map(str, unknown)))}")
    several = [str(name) for name, index in data.xindexes.items() if type(index).__name__ == "PandasMultiIndex"]
    if several:
        raise NotImplementedError(f"coordinates {', '.join(several)} are a MultiIndex: reset_index() makes arrays of them")
    labels, renamed = _labels(data, options.get("labels"))
    for option in {"domains", "extents"} & set(options):
        options = {**options, option: {renamed.get(name, name): given for name, given in options[option].items()}}
    if "grow" in options:
        options = {**options, "grow": [renamed.get(name, name) for name in options["grow"]]}
    if path.startswith("db:"):
        return _in_database(path, data, labels, renamed, connection, if_exists, options)
    there = exists(connection, path)
    if if_exists not in ("fail", "append", "replace"):
        raise ValueError(f"if_exists {if_exists!r}: expected fail, append or replace")
    if there and if_exists == "fail":
        raise Exists(already(path, there, "append", "replace"))
    if there and if_exists == "append":
        return _append(path, data, labels, renamed, connection or _connect(), options)
    variables, attributes = xarray.conventions.encode_dataset_coordinates(data)
    for name in map(str, variables):
        if name in ("", ".", "..", "__group", "__meta") or "/" in name or os.sep in name:
            raise ValueError(f"variable {name!r}: its array would have the directory {path}/{name}, which is not its own: rename it")
    connection, place = connection or _connect(), new_place(path)
    if there and place == path:
        raise Unsupported(f"{path}: in a bucket a group is not replaced")
    group, members = Array(connection, place), {str(name): f"{place}/{name}" for name in variables}
    try:
        if place != path:
            os.makedirs(place)
        for name, variable in variables.items():
            blocks, lengths, its_labels, mine = _one(str(name), variable, labels, renamed, options)
            make_grid(members[str(name)], None, blocks, lengths, its_labels, mine, connection)
        group._rows("SELECT tessera_create_group(?)", place)   # last: in a bucket it makes a Dataset of the arrays
        for key, value in attributes.items():
            if value is not None:
                set_metadata(group, key, value)
        for name, member in members.items():
            group._rows("SELECT tessera_add_member(?, ?, ?)", place, member, name)
        take_place(place, path, if_exists)
    except BaseException:
        remove_place(connection, place, *members.values())
        raise
    return {name: Array(connection, f"{path}/{name}", state=secret(options))._now() for name in members}


def _append(path, data, labels, renamed, connection, options):
    """Adds a Dataset to a group behind what is there, along the dimensions that grow; where it has coordinates that are there already, it replaces them.
    Each array is a commit of its own: after an error, the same call again ends what the first one began. Variables that do not grow must be the same.
    Labels tell what of it is there already. Without labels, the group's metadata does (BEGUN), since the arrays have different lengths by then."""
    variables, _ = xarray.conventions.encode_dataset_coordinates(data)
    arrays, parts, places, group = {}, [], {}, Array(connection, path)
    begun = json.loads(group.metadata.get(BEGUN, "{}"))
    for name, variable in map(lambda item: (str(item[0]), item[1]), variables.items()):
        try:
            array = arrays[name] = Array(connection, f"{path}/{name}", state=secret(options))._now()
        except NotFound:
            raise Constraint(f"{path}: the group has no variable {name!r}, which the Dataset has") from None
        blocks, lengths, made, mine = _one(name, variable, labels, renamed, options)
        domains = {dim: (current, domain) for dim, current, domain in array._about("name, current_domain, domain", "tessera_schema", "role = 'dimension'")}
        growing = [dim for dim, (current, domain) in domains.items() if current not in (None, domain)]
        origin = {}
        if not growing:
            (attribute, block), = blocks.items()
            if array.shape != tuple(lengths.values()) or not _equal(array.numpy(attribute), numpy.asarray(getattr(block, "values", block))):
                raise Constraint(f"{path}: variable {name!r} differs from the one in the group, and has no dimension that grows: say grow=[...] when the group is made")
            continue
        if not all(lengths.get(dim, 1) for dim in growing):
            continue
        check_types(array, blocks)
        made = {label: its for label, its in made.items() if label in array.labels}   # a part of a coordinate may rise where the whole does not
        for label, dim in array.labels.items():
            if label not in made:
                raise Constraint(f"{path}: the Dataset lacks the label {label!r} of variable {name!r}: a coordinate of this name that rises or falls")
        for dim in growing:
            if not any(its == dim for its, _ in made.values()):
                place, length = begun.get(dim) or (_behind(array, name, dim, domains[dim][0], data, renamed), 0)
                if lengths.get(dim, 0) < length:
                    raise Constraint(f"{path}: an append of {length} cells along {dim!r} has begun and not ended: make that call again, or append as many")
                origin[dim] = place
                places[dim] = min(places.get(dim, (place,))[0], place), lengths.get(dim, 0)
        parts.append((array, blocks, lengths, made, {**{key: mine[key] for key in ("key_file",) if key in mine}, "dimensions": list(lengths), "origin": origin}))
    lacking = {name for name, in group._rows("SELECT name FROM tessera_members(?)", path)} - set(arrays)
    if lacking:
        raise Constraint(f"{path}: the Dataset has no variable {', '.join(sorted(lacking))}, which the group has")
    for part in parts:
        part[-1]["origin"] = {dim: places[dim][0] for dim in part[-1]["origin"]}
    placed = [place_grid(*part) for part in parts]
    if places:
        set_metadata(group, BEGUN, json.dumps(places))
    for part in placed:
        write_placed(*part)
    if places:
        group._do("SELECT tessera_set_metadata(?, ?, NULL)", path, BEGUN)
    return {name: array._now() for name, array in arrays.items()}


def _behind(array, name, dim, current, data, renamed):
    """Returns where a variable that has no label of the growing dimension `dim` goes on: behind its last cell, or, the coordinate itself, where it has
    these values already."""
    low, high = json.loads(current)
    if renamed.get(name, name) == dim or dim == f"{name}{POSITIONS}":
        stored, values = array.numpy(array.attributes[0]), _encoded(data[name].variable).values
        starts = numpy.flatnonzero(stored == values[0]) if values.size else []
        if len(starts) and _equal(stored[starts[0]:starts[0] + values.size], values):
            return low + int(starts[0])
    return high + 1


def _equal(one, other):
    return one.shape == other.shape and bool(((one == other) | (one != one) & (other != other)).all())


def _in_database(path, data, labels, renamed, connection, if_exists, options):
    """One array: the variables are its attributes. Coordinates are labels, or attributes if they have all dimensions, or metadata if they have none."""
    dims = next((variable.dims for variable in data.data_vars.values() if variable.dims), None)
    if dims is None:
        raise ValueError("the Dataset has no variable with a dimension")
    variables, attributes = xarray.conventions.encode_dataset_coordinates(data)
    blocks, made, metadata = {}, {}, {**attributes, DATASET: 1}
    mine = {key: value for key, value in options.items() if key not in ("labels", "filters")}
    lengths = {renamed.get(dim, dim): data.sizes[dim] for dim in dims}
    filters = options.get("filters", {})
    mine["filters"] = {}
    for name, variable in variables.items():
        name, variable = str(name), _encoded(variable)
        label = next((label for label in labels.get(variable.dims[0], ()) if label[0] == name), None) if variable.ndim == 1 else None
        if name in data.coords and label and set(variable.dims) <= set(dims):
            made[name] = renamed.get(variable.dims[0], variable.dims[0]), label[1]
        elif set(variable.dims) == set(dims):
            attribute = f"{name}_" if name in lengths else name
            blocks[attribute] = _block(variable.transpose(*dims))
            mine["filters"].update({attribute: filters[name]} if name in filters else {})
            if name in data.data_vars:
                mine.setdefault("extents", {}).update({key: extent for key, extent in _extents(variable, lengths, options).items() if key not in mine["extents"]})
        elif name in data.coords and not variable.dims:
            variable = variable if variable.dtype.kind != "m" else xarray.conventions.encode_cf_variable(variable)
            metadata[f"{SCALARS}{name}"] = variable.values[()]
        elif name in data.coords:
            raise ValueError(_not_kept(name, variable, data))
        else:
            raise ValueError(f"a database takes a Dataset as one array, but {name!r} has other dimensions than {next(iter(data.data_vars))!r}")
        metadata.update({f"{ATTRIBUTE}{name}.{key}": value for key, value in variable.attrs.items() if value is not None})
    mine["metadata"] = {key: value for key, value in metadata.items() if value is not None}
    create_at(path, blocks, lengths, made, connection, if_exists, mine)
    array = Array(connection, path, state=secret(options))._now()
    return {str(name): array.select(str(name)) for name in data.data_vars}


def _not_kept(name, variable, data):
    """Says what to do with a coordinate for which an array in a database has no place."""
    if variable.ndim == 1 and len(numpy.unique(variable.values)) == variable.size:
        return f"coordinate {name!r} neither rises nor falls, so it cannot be a label of an array in a database: sortby({name!r}), or drop_vars() it"
    return (f"coordinate {name!r} with {', '.join(map(str, variable.dims))} cannot be a label of an array in a database (labels rise or fall strictly) "
            "and has not all dimensions: drop_vars() it, or take a directory, which keeps all coordinates")
