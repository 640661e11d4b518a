"""Dataset.to_tessera("path") and DataArray.to_tessera("path"): registered with xarray as soon as both modules are imported, in either order. This module
does not import xarray, which takes half a second that other programs need not spend."""
import importlib.abc
import importlib.util
import sys

__all__ = []


def _register(xarray):
    for kind, register in (("Dataset", xarray.register_dataset_accessor), ("DataArray", xarray.register_dataarray_accessor)):
        if hasattr(getattr(xarray, kind), "to_tessera"):
            continue

        @register("to_tessera")
        class Writer:
            def __init__(self, data):
                self._data = data

            def __call__(self, path, *, connection=None, if_exists="fail", **options):
                """Writes it as tessera.create(path, data) does."""
                from .making import create
                return create(path, self._data, connection=connection, if_exists=if_exists, **options)


class _WhenImported(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name != "xarray":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec and spec.loader:
            run = spec.loader.exec_module

            def exec_module(module):
                run(module)
                _register(module)
            spec.loader.exec_module = exec_module
        return spec


if hasattr(sys.modules.get("xarray"), "register_dataset_accessor"):
    _register(sys.modules["xarray"])
else:
    sys.meta_path.insert(0, _WhenImported())
