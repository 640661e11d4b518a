"""Makes soma.tar.xz: single-cell experiments by tiledbsoma, with what tiledbsoma and pandas say of them.

usage: make_soma.py FOLDER     (with tiledbsoma and scipy; then: tar cJf soma.tar.xz -C FOLDER soma)
"""
import json
import os
import sys

import numpy
import pyarrow
import scipy.sparse
import tiledbsoma

TYPES = ["B", "T", "NK", "mono"]


def frame(place, name, columns):
    table = pyarrow.table(columns)
    made = place.add_new_dataframe(name, schema=table.schema, index_column_names=["soma_joinid"], domain=[[0, max(len(table) - 1, 0)]])
    if len(table):
        with tiledbsoma.DataFrame.open(made.uri, "w") as now:   # `made` writes at the time at which the experiment was opened: its new texts come later
            now.write(table)
    return table.to_pandas()


def matrix(place, name, shape, chance):
    made = place.add_new_sparse_ndarray(name, type=pyarrow.float32(), shape=[max(n, 1) for n in shape])
    cells = scipy.sparse.random(*shape, density=0.3, format="coo", random_state=chance, dtype=numpy.float32)
    if cells.nnz:
        made.write(pyarrow.SparseCOOTensor.from_scipy(cells))
    return cells


def experiment(path, cells, genes, measurements, layers):
    """Writes an experiment. Returns for each measurement and layer count and sum of the values by cell type, for all genes and for one."""
    chance, said = numpy.random.RandomState(cells), {}
    types = chance.randint(0, len(TYPES), cells)
    with tiledbsoma.Experiment.create(path) as made:
        obs = frame(made, "obs", {
            "soma_joinid": pyarrow.array(range(cells), pyarrow.int64()), "obs_id": pyarrow.array([f"cell{i}" for i in range(cells)], pyarrow.large_string()),
            "cell_type": pyarrow.DictionaryArray.from_arrays(pyarrow.array(types, pyarrow.int8()), TYPES),
            "batch": pyarrow.array([f"b{i % 3}" for i in range(cells)], pyarrow.large_string()), "mean": pyarrow.array(chance.rand(cells))})
        ms = made.add_new_collection("ms")
        for m in measurements:
            inner = ms.add_new_collection(m, tiledbsoma.Measurement)
            var = frame(inner, "var", {
                "soma_joinid": pyarrow.array(range(genes), pyarrow.int64()),
                "var_id": pyarrow.array([f"{m}-g{i}" for i in range(genes)], pyarrow.large_string()), "mean": pyarrow.array(chance.rand(genes))})
            x = inner.add_new_collection("X")
            for layer in layers:
                values = matrix(x, layer, (cells, genes), chance)
                table = obs[["soma_joinid", "cell_type"]].merge(pd(values), on="soma_joinid").merge(
                    var[["soma_joinid", "var_id"]].rename(columns={"soma_joinid": "gene"}), on="gene") if cells else []
                said[f"{m}/{layer}"] = {which: [[str(t), int(g["value"].count()), float(g["value"].sum())] for t, g in part.groupby("cell_type", observed=True)]
                                        for which, part in (("all", table), ("one", table[table["var_id"] == f"{m}-g3"]))} if cells else {"all": [], "one": []}
            obsm = inner.add_new_collection("obsm")
            pca = obsm.add_new_dense_ndarray("pca", type=pyarrow.float32(), shape=(max(cells, 1), 2))
            if cells:
                pca.write((slice(None), slice(None)), pyarrow.Tensor.from_numpy(chance.rand(cells, 2).astype("float32")))
            matrix(inner.add_new_collection("obsp"), "distances", (cells, cells), chance)
    return said


def pd(values):
    import pandas
    return pandas.DataFrame({"soma_joinid": values.row.astype("int64"), "gene": values.col.astype("int64"), "value": values.data.astype("float64")})


if __name__ == "__main__":
    folder = os.path.join(sys.argv[1], "soma")
    os.makedirs(folder)
    said = {"one": experiment(folder + "/one", 60, 20, ["RNA"], ["data"]),
            "three": experiment(folder + "/three", 30, 10, ["RNA", "ADT", "HTO"], ["data", "raw"]),
            "zero": experiment(folder + "/zero", 0, 0, ["RNA"], ["data"])}
    with open(folder + "/said.json", "w", encoding="utf-8") as f:
        json.dump(said, f, indent=1)
