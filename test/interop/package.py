"""The Python package as a wheel installs it, in a folder of the test's: the module, the extension that is tested, and the entry point of xarray."""
import os
import sys

SOURCE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "ext", "package", "python", "tessera")


def install(folder, extension):
    """Makes the package in `folder`, and puts it in front of the path of this process and of those that it starts."""
    module, info = os.path.join(folder, "tessera"), os.path.join(folder, "sqlite_tessera-0.dist-info")
    os.makedirs(module)
    os.makedirs(info)
    for name in os.listdir(SOURCE):
        if name.endswith(".py"):
            os.symlink(os.path.join(os.path.abspath(SOURCE), name), os.path.join(module, name))
    os.symlink(os.path.abspath(extension), os.path.join(module, "tessera.so"))
    with open(os.path.join(info, "METADATA"), "w", encoding="utf-8") as f:
        f.write("Metadata-Version: 2.1\nName: sqlite-tessera\nVersion: 0\n")
    with open(os.path.join(info, "entry_points.txt"), "w", encoding="utf-8") as f:
        f.write("[xarray.backends]\ntessera = tessera.xarray:Entrypoint\n")
    sys.path.insert(0, folder)
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [folder, os.environ.get("PYTHONPATH")]))
    sys.dont_write_bytecode = True
