"""Datasets of xarray are written in the layout of TileDB-CF: a group, with an array for each variable, whose dimensions begin at 0. What describes a
variable is metadata `__tiledb_attr.NAME.KEY` of its array. An array without cells has metadata that tells its lengths, since no dimension of an
array has the length 0.

A name means in SQL and in sel() what it means in the Dataset: `lat` is the latitude. So a dimension that has a coordinate of its name is called
`lat_index`, and `lat` is a label of it in each array, if its values rise or fall. With labels=False dimensions have their own names, and no labels."""
from __future__ import annotations

import json
import os

import numpy
import pandas
import xarray

from .arrays import LENGTHS, Array, exists
from .connections import own_connection
from .paths import need_connection, secret
from .columns import check_names
from .errors import Constraint, Exists, Mismatch, Unsupported
from .grids import (POSITIONS, already, check_place, check_types, create_at, label_values, make_grid, new_place, place_grid, remove_place, rises_or_falls, set_metadata,
                    last_label, take_place, typed_metadata, write_placed)

__all__ = ["ATTRIBUTE", "COORDINATES", "DATASET", "PLACE", "SCALAR", "SCALARS", "NotKept", "create_dataset", "described_by", "variable_of"]

ATTRIBUTE = "__tiledb_attr."
DATASET = "__tessera_dataset"   # an array in a database that has all of a Dataset
COORDINATES = "__tessera_coordinates"   # of a group, or of an array with DATASET: which variables are coordinates, if CF cannot tell
PLACE = "__tessera_place"   # of an array in a group: which variable of the Dataset it was, from 0 on; a group names its members by the alphabet
SCALARS = "__tessera_scalar."   # there: the value of a coordinate without a dimension
SCALAR = "__scalar"   # the dimension of variables that have none
BEGUN = "__tessera_append"   # of a group, while an append goes on: where it begins and how long it is, along growing dimensions without labels
_ENDINGS = ("_", ".data", ".index")   # of an attribute whose variable has the name of a dimension
_MEANINGS = ("units", "calendar", "scale_factor", "add_offset", "_FillValue", "missing_value", "_Unsigned", "flag_values", "flag_masks", "flag_meanings")   # what tells what a number means
_LOST = ("units", "flag_values", "flag_masks", "flag_meanings")   # of these, what a computation with xarray may lose
_OPTIONS = {"labels", "domains", "extents", "filters", "cell_order", "tile_order", "format_version", "key_file", "grow"}


class NotKept(ValueError):
    """A coordinate for which an array in a database has no place."""


def described_by(name, metadata):
    """Returns what describes a variable."""
    prefix = f"{ATTRIBUTE}{name}."
    return {key[len(prefix):]: value for key, value in metadata.items() if key.startswith(prefix)}


def attribute_of(name, dims):
    """Returns what the attribute of a variable is called: no attribute has the name of a dimension, so it ends in `_` then. So does one whose name would be taken
    for such a one."""
    return f"{name}_" if _names_dimension(name, dims) else name


def variable_of(attribute, dims):
    """Returns the variable that an attribute is: its name lacks the ending by which TileDB-CF, or attribute_of(), tells it from a dimension."""
    ending = next((ending for ending in _ENDINGS if attribute.endswith(ending)), "")
    return attribute.removesuffix(ending) if ending and _names_dimension(attribute.removesuffix(ending), dims) else attribute


def _names_dimension(name, dims):
    """Whether a name is that of a dimension, perhaps with such endings."""
    return name in dims or any(name.endswith(ending) and _names_dimension(name.removesuffix(ending), dims) for ending in _ENDINGS)


def _labels(data, asked, grow):
    """Returns for each dimension its labels, [(name, values)], and the name that it has in the arrays."""
    labels, renamed = {}, {}
    for name, coordinate in data.coords.items() if asked is not False else ():
        if coordinate.ndim != 1 or asked and asked is not True and name in asked:
            continue
        dim, = coordinate.dims
        if dim in grow and dim in data.coords and name != dim:   # what rises so far, such as the month, need not go on to rise
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
        if dim in data.coords and data.coords[dim].ndim == 1 and asked is not False:   # another one has no value for a position
            renamed.setdefault(dim, f"{dim}{POSITIONS}")
    named = [renamed.get(dim, dim) for dim in data.dims]
    several = {name for name in named if named.count(name) > 1}
    if several:
        raise ValueError(f"two dimensions would be called {', '.join(sorted(several))}: rename one, or say labels={{coordinate: dimension}}")
    return labels, renamed


def _has_dates(variable):
    """Whether the values are dates of cftime, which are of other calendars than numpy's."""
    return variable.dtype.kind == "O" and _first_date(variable) is not None


def _first_date(variable):
    first = next((value for value in variable.values.flat if value is not None and value == value), None)
    return first if type(first).__module__.startswith("cftime") else None


def _encoded(variable):
    """Dates of other calendars are numbers, whose units xarray decodes again."""
    return xarray.conventions.encode_cf_variable(variable) if _has_dates(variable) else variable


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
    attribute = attribute_of(name, lengths)
    made = {label: (renamed.get(dim, dim), values) for dim in dims for label, values in labels.get(dim, ()) if label not in (*lengths, attribute)}
    mine = {key: value for key, value in options.items() if key not in ("labels", "filters")}
    mine["extents"] = _extents(variable, lengths, options)
    mine["domains"] = {name: ends for name, ends in options.get("domains", {}).items() if name in lengths}
    mine["filters"] = {attribute: options["filters"][name]} if name in options.get("filters", {}) else {}
    mine["grow"] = [name for name in options.get("grow", ()) if name in lengths]
    mine["metadata"] = {f"{ATTRIBUTE}{attribute}.{key}": value for key, value in variable.attrs.items()}
    if not all(lengths.values()):
        mine["metadata"][LENGTHS] = list(lengths.values())
    return {attribute: block}, lengths, made, mine


def _checked(data):
    """Returns a Dataset as it is written. Fails if something of it would be lost, or come back as something else: names, indexes, attributes."""
    several = [str(name) for name, index in data.xindexes.items() if type(index).__name__ == "PandasMultiIndex"]
    if several:
        raise NotImplementedError(f"coordinates {', '.join(several)} are a MultiIndex: reset_index() makes arrays of them")
    for name in (*data.variables, *data.dims):
        if not isinstance(name, str):
            raise TypeError(f"the name {name!r} is {type(name).__name__}, and names are texts: rename({{{name!r}: {str(name)!r}}})")
        if name.startswith("__"):
            raise ValueError(f"the name {name!r} begins with '__', as what the format keeps for itself does: rename it")
    for owner, attrs in (("the Dataset", data.attrs), *((f"variable {name!r}", variable.attrs) for name, variable in data.variables.items())):
        for key, value in attrs.items():
            _check_attribute(owner, key, value)
    for name, variable in data.variables.items():
        if not isinstance(variable.dtype, numpy.dtype) and not hasattr(variable.dtype, "categories"):
            raise TypeError(f"variable {name!r} has the dtype {variable.dtype} of pandas, which no block has: astype(float), or another one of numpy")
    data = data.copy(deep=False)
    for variable in data.variables.values():   # what a file said of coordinates that have changed since
        variable.encoding.pop("coordinates", None)
    return data


def _check_attribute(owner, key, value):
    """Fails if an attribute has no form in metadata, which have texts, bytes, numbers, instants, and lists of texts or of numbers."""
    if not isinstance(key, str) or not key:
        raise TypeError(f"{owner} has an attribute {key!r}, and names of attributes are texts")
    listed = value if isinstance(value, (list, tuple, numpy.ndarray)) else [value]
    try:
        values = numpy.asarray(value)
    except ValueError:   # lists of several lengths
        values = numpy.empty(0, object)
    texts = values.dtype.kind in "UT" and all(isinstance(text, str) for text in (listed.ravel().tolist() if isinstance(listed, numpy.ndarray) else listed))
    if values.ndim > 1 or not (texts or values.dtype.kind == "S" and not values.ndim or values.dtype.kind in "biufM" and values.dtype.itemsize <= 8):
        raise TypeError(f"{owner} has the attribute {key!r}, a {type(value).__name__}, for which metadata have no form: make it a text, a number, or a list of texts or of numbers, or leave it out")


def _split(data):
    """Returns the variables of a Dataset and its attributes, which tell what coordinates are, as CF has it. It has no words for names with blanks: the others
    are listed in COORDINATES then."""
    if any(name.split() != [name] for name in data.coords) or any("coordinates" in variable.attrs for variable in (data, *data.variables.values())):
        return dict(data.variables), {**data.attrs, COORDINATES: json.dumps(sorted(data.coords))}
    return xarray.conventions.encode_dataset_coordinates(data)


def create_dataset(path, data, connection, if_exists, options):
    """Makes a group of arrays of a Dataset or DataArray; in a database one array, which the variables must fit. Returns the Arrays by variable."""
    path = os.fspath(path)
    unknown = set(options) - _OPTIONS
    if unknown:
        raise TypeError(f"a Dataset has no option {', '.join(sorted(unknown))}")
    data = data.to_dataset(name=data.name or "value") if isinstance(data, xarray.DataArray) else data
    check_names(data.variables)
    need_connection(connection, path)
    data = _checked(data)
    for option in ("domains", "extents", "grow"):
        unknown = set(options.get(option, ())) - set(data.dims) - set(options["labels"].values() if isinstance(options.get("labels"), dict) else ())
        if unknown:
            raise KeyError(f"{option!r}: the Dataset has no dimension {', '.join(sorted(map(str, unknown)))}")
    if if_exists not in ("fail", "append", "replace"):
        raise ValueError(f"if_exists {if_exists!r}: expected fail, append or replace")
    there = exists(connection, path)
    check_place(path, there)
    if there and if_exists == "append":
        return (_append_in_database if path.startswith("db:") else _append)(path, data, connection or own_connection(), options)
    labels, renamed = _labels(data, options.get("labels"), options.get("grow", ()))
    for option in {"domains", "extents"} & set(options):
        options = {**options, option: {renamed.get(name, name): given for name, given in options[option].items()}}
    if "grow" in options:
        options = {**options, "grow": [renamed.get(name, name) for name in options["grow"]]}
    if path.startswith("db:"):
        return _in_database(path, data, labels, renamed, connection, if_exists, options)
    if there and if_exists == "fail":
        raise Exists(already(path, there, "append", "replace"))
    variables, attributes = _split(data)
    for name in map(str, variables):
        if name in ("", ".", "..", "__group", "__meta") or "/" in name or os.sep in name:
            raise ValueError(f"variable {name!r}: its array would have the directory {path}/{name}, which is not its own: rename it")
    connection, place = connection or own_connection(), new_place(path)
    if there and place == path:
        raise Unsupported(f"{path}: in a bucket a group is not replaced")
    group, members = Array(connection, place), {str(name): f"{place}/{name}" for name in variables}
    try:
        if place != path:
            os.makedirs(place)
        for name, variable in variables.items():
            blocks, lengths, its_labels, mine = _one(str(name), variable, labels, renamed, options)
            if list(members) != sorted(members):
                mine["metadata"][PLACE] = list(members).index(str(name))
            make_grid(members[str(name)], None, blocks, lengths, its_labels, mine, connection)
        group._rows("SELECT tessera_create_group(?)", place)   # last: in a bucket it makes a Dataset of the arrays
        for key, value in attributes.items():
            set_metadata(group, key, value)
        for name, member in members.items():
            group._rows("SELECT tessera_add_member(?, ?, ?)", place, member, name)
        take_place(place, path, if_exists)
    except BaseException:
        remove_place(connection, place, *members.values())
        raise
    return {name: Array(connection, f"{path}/{name}", state=secret(options))._now() for name in members}


def _append(path, data, connection, options):
    """Adds a Dataset to a group, along the dimensions that grow: it replaces the coordinates that are there already, and adds others behind the last one.
    Each array is a commit of its own: after an error, the same call again ends what the first one began. What does not grow must be the same.
    A coordinate of the growing dimension tells what is there. Without one the group's metadata does (BEGUN), since the arrays have different lengths by then."""
    group = Array(connection, path)
    arrays = {name: Array(connection, f"{path}/{name}", state=secret(options))._now() for name, kind in group._rows("SELECT name, kind FROM tessera_members(?)", path) if kind == "array"}
    _check_variables(path, arrays, data, "group")
    data = _as_stored(path, data, {name: (_dtype_of(array), described_by(array.attributes[0], typed_metadata(array))) for name, array in arrays.items()})
    labels = {label: dim for array in arrays.values() for label, dim in array.labels.items()}
    renamed = _names_there(path, data, {dim for array in arrays.values() for dim in array.dims}, labels)
    ends = {name: _ends(array) for name, array in arrays.items()}
    grows = {dim for has in ends.values() for dim, (_, _, grows) in has.items() if grows}
    stored = {name: array.numpy(array.attributes[0]) for name, array in arrays.items() if len(array.dims) == 1 and (name in data.dims or name in labels)}
    at, lasts, coordinates = {}, {}, {}
    for dim, name in renamed.items():
        coordinate = next((label for label in (dim, *labels) if label in stored and arrays[label].dims == (name,)), None)
        if name not in grows:
            length = max(array.shape[array.dims.index(name)] for array in arrays.values() if name in array.dims)
            data = _aligned(path, data, dim, stored.get(dim), length)
        elif coordinate is not None:
            begin = ends[coordinate][name][0]
            at[name] = [begin + place for place in _continued(path, coordinate, stored[coordinate], data[coordinate].values, coordinate in labels)]
            lasts[name], coordinates[name] = begin + len(stored[coordinate]) - 1, coordinate
    variables, _ = _split(data)
    places = _places(path, {name: data.sizes[dim] for dim, name in renamed.items() if name in grows and name not in at}, arrays, ends, group)
    parts = []
    for name, variable in ((str(name), variable) for name, variable in variables.items()):
        array = arrays[name]
        blocks, lengths, _, mine = _one(name, variable, {}, renamed, options)
        if not grows & set(lengths):
            _check_equal(path, name, array, blocks, lengths)
            continue
        if not all(lengths.values()):
            continue
        check_types(array, blocks)
        for dim in at.keys() & lengths.keys():
            _check_end(path, name, array, ends[name][dim][1], lasts[dim], coordinates[dim], dict(zip(at[dim], label_values(data[coordinates[dim]].values).tolist())))
        known = {dim: at[dim] for dim in lengths if dim in at}
        known.update({dim: list(range(begin, begin + length)) for dim, (begin, length) in places.items() if dim in lengths})
        made = _labels_of(path, name, array, data, {label: dim for label, dim in array.labels.items() if dim in grows or label not in arrays})
        parts.append((array, blocks, lengths, made, {**{key: mine[key] for key in ("key_file",) if key in mine}, "dimensions": list(lengths)}, known))
    placed = [place_grid(*part) for part in parts]
    if places and placed:
        set_metadata(group, BEGUN, json.dumps(places))
    for part in placed:
        write_placed(*part)
    if places and placed:
        group._do("SELECT tessera_set_metadata(?, ?, NULL)", path, BEGUN)
    return {name: array._now() for name, array in arrays.items()}


def _dtype_of(array, name=None):
    """Returns the dtype of the cells, or of a label; that of texts is object."""
    if name is not None and name in array.labels:
        return array._label_values(name)(array.bounds[array.labels[name]][0], 1).dtype if array.bounds else numpy.dtype(object)
    return numpy.dtype(array._header(name or array.attributes[0])[2])


def _labels_of(path, name, array, data, labels):
    """Returns the values that a Dataset has for labels of an array, with their dimensions."""
    for label in labels:
        if label not in data.variables or data[label].ndim != 1:
            raise Constraint(f"{path}: the Dataset lacks the label {label!r} of variable {name!r}: a coordinate of this name that rises or falls")
    return {label: (dim, label_values(data[label].values)) for label, dim in labels.items()}


def _check_variables(path, there, data, what):
    """Fails if a group, or an array in a database, and a Dataset have not the same variables."""
    for name in map(str, data.variables):
        if name not in there:
            raise Constraint(f"{path}: the {what} has no variable {name!r}, which the Dataset has: drop_vars({name!r}) leaves it out")
    lacking = set(there) - set(map(str, data.variables))
    if lacking:
        raise Constraint(f"{path}: the Dataset has no variable {', '.join(sorted(lacking))}, which the {what} has")


def _check_equal(path, name, array, blocks, lengths):
    """Fails if a variable that does not grow is not the one that is there."""
    (attribute, block), = blocks.items()
    values, stored = numpy.asarray(getattr(block, "values", block)), array.numpy(attribute)
    if set(lengths) == set(array.dims):
        values = values.transpose([list(lengths).index(dim) for dim in array.dims])
    if values.shape != stored.shape or set(lengths) != set(array.dims):
        words = f"it is {dict(lengths)}, and there {dict(zip(array.dims, stored.shape))}"
    elif not _equal(stored, values):
        place = tuple(int(axis[0]) for axis in numpy.nonzero(~_same(stored, values)))
        words = f"at {dict(zip(array.dims, place))} it is {_shown(values[place])}, and there {_shown(stored[place])}"
    else:
        return
    raise Constraint(f"{path}: variable {name!r} has no dimension that grows, and differs from the one in the group: {words}. An append leaves such a variable as it is: give it the values "
                     f"that are there, or change them first: tessera.open({array.path!r}).write()")


def _as_stored(path, data, there):
    """Returns a Dataset whose dates and durations have the form in which the arrays have them: numbers of their units, or instants of their precision. Fails if
    the attributes that tell what a number means differ. there: for each variable its dtype and its attributes."""
    for name, (dtype, described) in there.items():
        variable = data.variables[name]
        since = "since" in str(described.get("units", "")).split()
        if "units" not in variable.attrs and variable.size and (_has_dates(variable) or variable.dtype.kind == "M"):
            if since:
                variable = _numbered(path, name, variable, dtype, described)
            elif _has_dates(variable):
                raise Mismatch(f"{path}: {name!r} has dates of the calendar {_first_date(variable).calendar!r}, and in the group {dtype}")
        for key in _MEANINGS:
            _check_meaning(path, name, key, described.get(key), variable.attrs.get(key), key in _LOST and not since)
        if variable.dtype.kind in "mM" and dtype.kind == variable.dtype.kind and dtype != variable.dtype and variable.size:
            exact = variable.astype(dtype)
            if not _equal(exact.astype(variable.dtype).values, variable.values):
                raise Mismatch(f"{path}: {name!r} is {variable.dtype}, and the group has {dtype}, which would cut its values: astype({dtype.str!r}) rounds them")
            variable = exact
        if variable is not data.variables[name]:
            data = data.assign_coords({name: variable}) if name in data.coords else data.assign({name: variable})
    return data


def _numbered(path, name, variable, dtype, described):
    """Returns dates as numbers of the units and the calendar that a group has."""
    units, calendar = described["units"], described.get("calendar", "standard")
    own = _first_date(variable).calendar if _has_dates(variable) else "proleptic_gregorian"
    if own != calendar and not {own, calendar} <= {"standard", "gregorian", "proleptic_gregorian"}:
        raise Constraint(f"{path}: {name!r} has the calendar {own!r}, and in the group {calendar!r}: convert_calendar({calendar!r}) converts a Dataset")
    made = xarray.conventions.encode_cf_variable(xarray.Variable(variable.dims, variable.values, variable.attrs, {"units": units, "calendar": calendar}))
    numbers = made.astype(dtype) if made.dtype != dtype and dtype.kind in "iuf" else made
    if not _equal(numbers.values, made.values):
        raise Mismatch(f"{path}: {name!r} has dates that are no whole numbers of {units!r}, which the group has")
    attributes = {key: described[key] for key in ("units", "calendar") if key in described}
    return xarray.Variable(numbers.dims, numbers.values, {**variable.attrs, **attributes})   # as written there: encoding adds hours


def _check_meaning(path, name, key, there, given, may_lack):
    """Fails if an attribute that tells what a number means differs. may_lack: the Dataset need not have it, as a computation loses it."""
    if given is None and (there is None or may_lack):
        return
    if there is None or given is None or not _equal(numpy.asarray(there), numpy.asarray(given)):
        there, given = ("none" if value is None else repr(value.tolist() if hasattr(value, "tolist") else value) for value in (there, given))
        raise Constraint(f"{path}: variable {name!r} has the attribute {key}={given}, and in the group {there}: convert the values and the attribute first, since an append mixes them with those "
                         "that are there")


def _names_there(path, data, dims, labels):
    """Returns the name that each dimension of a Dataset has in arrays that are there."""
    renamed = {dim: next((name for name in (dim, labels.get(dim), f"{dim}{POSITIONS}") if name in dims), None) for dim in data.dims}
    for dim, name in renamed.items():
        if name is None:
            raise Constraint(f"{path}: no array has the dimension {dim!r} of the Dataset: there are {', '.join(sorted(dims))}")
    return renamed


def _ends(array):
    """Returns for each dimension of an array the ends of its current domain, and whether it grows."""
    found = {}
    for dim, current, domain in array._about("name, current_domain, domain", "tessera_schema", "role = 'dimension'"):
        low, high = json.loads(current or domain)
        found[dim] = low, high, current not in (None, domain)
    return found


def _aligned(path, data, dim, stored, length):
    """Returns a Dataset in the order that a dimension has in a group which does not grow along it: as xarray does, values are brought together by coordinates."""
    if stored is None or dim not in data.coords:
        if data.sizes[dim] != length:
            raise Constraint(f"{path}: the Dataset has {data.sizes[dim]} cells along {dim!r}, and the group {length}: it does not grow along {dim!r}. To grow, make the group with grow=[{dim!r}]")
        return data
    given = data[dim].values
    if _equal(stored, given):
        return data
    has, wants = pandas.Index(given), pandas.Index(stored)
    for ours, theirs, words in ((wants, has, "the Dataset lacks {}, which the group has"), (has, wants, "the Dataset has {}, which the group lacks")):
        lacking = ours[~ours.isin(theirs)]
        if len(lacking):
            raise Constraint(f"{path}: coordinate {dim!r}: {words.format(_shown(lacking[0]))}, and {dim!r} does not grow: select from the Dataset, or reindex it: "
                             f"data.reindex({dim}=xarray.open_dataset({path!r}, engine='tessera')[{dim!r}]). To grow along it, make the group with grow=[{dim!r}]")
    if not (has.is_unique and wants.is_unique):
        raise Constraint(f"{path}: coordinate {dim!r} has a value twice, and its order differs from the group's, so nothing tells which cell is which")
    return data.isel({dim: has.get_indexer(wants)})


def _shown(value):
    return repr(value) if isinstance(value, str) else str(value)


def _continued(path, dim, stored, given, labelled):
    """Returns where the values of a coordinate lie along its dimension, which grows: where they are already, or behind the last one. labelled: the order of the
    values is that of a label, which rises or falls."""
    kinds = {numpy.asarray(values).dtype.kind for values in (stored, given) if len(values)}
    if len(kinds) > 1 and kinds & set("Mm") and kinds <= set("Mmiuf"):
        raise Mismatch(f"{path}: coordinate {dim!r} is {given.dtype}, and in the group {stored.dtype}: an append has values of the same kind")
    there, new = pandas.Index(stored), pandas.Index(given)
    for index, whose in ((new, "the Dataset"), (there, "the group")):
        if index.isna().any() and whose == "the Dataset":
            raise Constraint(f"{path}: coordinate {dim!r} of {whose} has no value at some places, so nothing tells where they go: dropna({dim!r}) leaves them out")
        twice = index[index.duplicated() & index.isin(new)]
        if len(twice):
            raise Constraint(f"{path}: coordinate {dim!r} of {whose} has {_shown(twice[0])} twice, so nothing tells which of them is meant: drop_duplicates({dim!r}) leaves one")
    at = there.get_indexer(new)
    added = numpy.flatnonzero(at < 0)
    if labelled and len(added) and len(stored):
        rises = len(stored) < 2 or stored[0] < stored[-1]
        added = added[numpy.argsort(given[added], kind="stable")[::1 if rises else -1]]
        if (given[added[0]] < stored[-1]) == rises:
            raise Constraint(f"{path}: coordinate {dim!r}: {_shown(new[added[0]])} is new, and does not continue the group's, whose last value is {_shown(there[-1])}: an append replaces what is there, "
                             f"and adds to it behind that. To insert something, write all of it again: xarray.concat(), sortby({dim!r}), and if_exists='replace'")
    at[added] = len(stored) + numpy.arange(len(added))
    return at.tolist()


def _places(path, lengths, arrays, ends, group):
    """Returns where blocks go along growing dimensions without coordinates, and how long they are: behind the last cell of all arrays, or where an append that has
    not ended began."""
    begun = json.loads(group.metadata.get(BEGUN, "{}"))
    found = {}
    for dim, length in lengths.items():
        place, before = begun.get(dim) or (min(ends[name][dim][1] + 1 if array.bounds else ends[name][dim][0] for name, array in arrays.items() if dim in ends[name]), 0)
        if length < before:
            raise Constraint(f"{path}: an append of {before} cells along {dim!r} has begun and not ended: make that call again, or append as many")
        if length:
            found[dim] = place, length
    return found


def _check_end(path, name, array, high, last, coordinate, planned):
    """Fails if an array is shorter or longer than the coordinate of its dimension, whose last place is `last`, as after an append that has not ended, and
    this one does not end it. planned: the values that this one writes, by place."""
    same = all(place in planned for place in range(high + 1, last + 1))
    if high > last and array.bounds and coordinate in array.labels:
        labelled = last_label(array, coordinate)
        has = array._label_values(coordinate)(last + 1, max(0, min(high, labelled) - last)).tolist() if labelled is not None else []
        same = same and all(planned.get(last + 1 + place) == value for place, value in enumerate(has))
    if not same:
        raise Constraint(f"{path}: an append along {coordinate!r} has begun and not ended, and array {name!r} has other steps than the group: make that call again")


def _same(one, other):
    return (one == other) | (one != one) & (other != other)


def _equal(one, other):
    return one.shape == other.shape and bool(numpy.all(_same(one, other)))


def _in_database(path, data, labels, renamed, connection, if_exists, options):
    """One array: the variables are its attributes. Coordinates are labels, or attributes if they have all dimensions, or metadata if they have none."""
    dims = next((variable.dims for variable in data.data_vars.values() if variable.dims), None)
    if dims is None:
        raise ValueError("the Dataset has no variable with a dimension")
    variables, attributes = _split(data)
    blocks, made, metadata = {}, {}, {**attributes, DATASET: 1}
    mine = {key: value for key, value in options.items() if key not in ("labels", "filters")}
    lengths = {renamed.get(dim, dim): data.sizes[dim] for dim in dims}
    filters = options.get("filters", {})
    mine["filters"] = {}
    for name, variable in variables.items():
        name, variable, key = str(name), _encoded(variable), str(name)
        label = next((label for label in labels.get(variable.dims[0], ()) if label[0] == name), None) if variable.ndim == 1 else None
        if name in data.coords and label and set(variable.dims) <= set(dims):
            made[name] = renamed.get(variable.dims[0], variable.dims[0]), label[1]
        elif set(variable.dims) == set(dims):
            attribute = key = attribute_of(name, lengths)
            blocks[attribute] = _block(variable.transpose(*dims))
            mine["filters"].update({attribute: filters[name]} if name in filters else {})
            if name in data.data_vars:
                mine.setdefault("extents", {}).update({key: extent for key, extent in _extents(variable, lengths, options).items() if key not in mine["extents"]})
        elif name in data.coords and not variable.dims:
            variable = variable if variable.dtype.kind != "m" else xarray.conventions.encode_cf_variable(variable)
            metadata[f"{SCALARS}{name}"] = variable.values[()]
        elif name in data.coords:
            raise NotKept(_not_kept(name, variable, data))
        else:
            raise ValueError(f"a database takes a Dataset as one array, but {name!r} has other dimensions than {next(iter(data.data_vars))!r}")
        metadata.update({f"{ATTRIBUTE}{key}.{named}": value for named, value in variable.attrs.items()})
        several = next((other for other in variables if str(other).startswith(f"{key}.")), None)
        if several is not None:
            raise ValueError(f"variables {name!r} and {several!r}: in a database nothing would tell attributes of the one from those of the other: rename one")
    mine["metadata"] = metadata if all(lengths.values()) else {**metadata, LENGTHS: list(lengths.values())}
    create_at(path, blocks, lengths, made, connection, if_exists, mine)
    array = Array(connection, path, state=secret(options))._now()
    return {str(name): array.select(str(name)) for name in data.data_vars}


def _append_in_database(path, data, connection, options):
    """Adds a Dataset to an array in a database, as _append() does to a group. The attributes of the Dataset stay those of the first one."""
    array = Array(connection, path, state=secret(options))._now()
    metadata, labels = typed_metadata(array), array.labels
    if DATASET not in metadata:
        raise Constraint(f"{path}: it was not made of a Dataset: append a DataFrame, or ndarrays")
    attributes = {variable_of(attribute, array.dims): attribute for attribute in array.attributes}
    scalars = {key[len(SCALARS):]: value for key, value in metadata.items() if key.startswith(SCALARS)}
    _check_variables(path, {*attributes, *labels, *scalars}, data, "array")
    for name, there in scalars.items():
        given = data.variables[name]
        given = (given if given.dtype.kind != "m" else xarray.conventions.encode_cf_variable(given)).values[()]
        if not _equal(numpy.asarray(there), numpy.asarray(given)):
            raise Constraint(f"{path}: coordinate {name!r} is {_shown(given)}, and in the array {_shown(there)}, for all of its cells: give it a dimension, or drop_vars({name!r}) before the first call")
    there = {name: (_dtype_of(array, attributes.get(name, name)), described_by(attributes.get(name, name), metadata)) for name in (*attributes, *labels)}
    data = _as_stored(path, data, there)
    renamed, ends = _names_there(path, data, set(array.dims), labels), _ends(array)
    for dim, name in renamed.items():
        stored = array._label_values(dim)(array.bounds[name][0], array.bounds[name][1] - array.bounds[name][0] + 1) if dim in labels and array.bounds else None
        if ends[name][2] and stored is not None:
            _continued(path, dim, stored, label_values(data[dim].values), True)
        elif not ends[name][2]:
            data = _aligned(path, data, dim, stored, array.shape[array.dims.index(name)])
    blocks = {attribute: _block(_encoded(data.variables[name].transpose(*data.variables[next(iter(data.data_vars))].dims))) for name, attribute in attributes.items()}
    check_types(array, blocks)
    lengths = {renamed[dim]: data.sizes[dim] for dim in data.variables[next(iter(data.data_vars))].dims}
    mine = {key: options[key] for key in ("key_file",) if key in options}
    create_at(path, blocks, lengths, _labels_of(path, path, array, data, labels), connection, "append", {**mine, "dimensions": list(lengths)})
    array._now()
    return {str(name): array.select(str(name)) for name in data.data_vars}


def _not_kept(name, variable, data):
    """Says what to do with a coordinate for which an array in a database has no place."""
    if variable.ndim == 1 and len(numpy.unique(variable.values)) == variable.size:
        return f"coordinate {name!r} neither rises nor falls, so it cannot be a label of an array in a database: sortby({name!r}), or drop_vars() it"
    return (f"coordinate {name!r} with {', '.join(map(str, variable.dims))} cannot be a label of an array in a database (labels rise or fall strictly) "
            "and has not all dimensions: drop_vars() it, or take a directory, which keeps all coordinates")
