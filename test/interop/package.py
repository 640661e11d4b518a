"""The Python package as a wheel installs it, in a folder of the test's: the module, the extension that is tested, and the entry point of xarray; and
what the tests of the module share.
"""
import importlib
import os
import sys
import tempfile

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from processes import end_with_this_process

SOURCE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "ext", "python", "tessera")


def install(folder, extension):
    """Makes the package in `folder`, and puts it in front of the path of this process and of those that it starts."""
    module, info = os.path.join(folder, "tessera"), os.path.join(folder, "sqlite_tessera-0.dist-info")
    os.makedirs(module)
    os.makedirs(info)
    for name in os.listdir(SOURCE):
        if name.endswith(".py"):
            os.symlink(os.path.join(os.path.abspath(SOURCE), name), os.path.join(module, name))
    os.symlink(os.path.abspath(extension), os.path.join(module, "tessera.so"))
    os.symlink(os.path.abspath(os.path.join(SOURCE, "..", "..", "..", "sql", "data")), os.path.join(module, "data"))
    with open(os.path.join(info, "METADATA"), "w", encoding="utf-8") as f:
        f.write("Metadata-Version: 2.1\nName: sqlite-tessera\nVersion: 0\n")
    with open(os.path.join(info, "entry_points.txt"), "w", encoding="utf-8") as f:
        f.write("[xarray.backends]\ntessera = tessera.xarray:Entrypoint\n")
    sys.path.insert(0, folder)
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [folder, os.environ.get("PYTHONPATH")]))
    sys.dont_write_bytecode = True


def library(name):
    """Returns a library. None if it is not installed: what needs it is left out, and `./run test` says so at its end."""
    try:
        return importlib.import_module(name)
    except ImportError:
        print(f"SKIPPED: {name} is not installed")
        return None


def libraries(*names):
    """Returns libraries without which nothing can be tried: if one is missing, the exit code is 77, which ctest takes for "skipped"."""
    found = [library(name) for name in names]
    if None in found:
        sys.exit(77)
    return found[0] if len(found) == 1 else found


def same(got, expected, what=""):
    if got != expected:
        raise AssertionError(f"{what}\n  got:      {got}\n  expected: {expected}")


def fails(kind, words, act):
    try:
        act()
    except kind as e:
        assert words in str(e), e
    else:
        raise AssertionError(f"{kind.__name__} with '{words}' was expected")


def run(names, says):
    """Runs the functions test_... of a script, `names`, in a folder of their own: SCRIPT EXTENSION [WORD ...]; words choose functions. The script gets
    the module as `tessera`."""
    end_with_this_process()
    with tempfile.TemporaryDirectory() as place:
        install(os.path.join(place, "package"), sys.argv[1])
        names["tessera"] = importlib.import_module("tessera")
        os.makedirs(os.path.join(place, "work"))
        os.chdir(os.path.join(place, "work"))
        for name, test in list(names.items()):
            if name.startswith("test_") and (len(sys.argv) < 3 or any(word in name for word in sys.argv[2:])):
                test()
        os.chdir("/")
    print(says)
