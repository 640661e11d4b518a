"""Runs one SQL script through the sqlite3 shell and compares what it prints with what it must print.

usage: run.py SHELL EXTENSION ARRAYS SCRIPT [--accept]
The script runs in a directory that looks like the project's root: EXTENSION is ./tessera there, sql/data is there, and the corpus as
arrays/. Its output, errors included, must equal SCRIPT with the suffix .expected; with --accept that file is written instead.
"""
import os
import re
import shutil
import subprocess
import sys
import tempfile


def run_text(shell, extension, text, arrays, pictures=None, demo=False):
    """What the shell prints, errors included, with the lines they stand in as all its releases would tell them. The dict `pictures` gets the PNG files
    that the script leaves, by name. With `demo`, the demo arrays are there as `tessera demo` copies them."""
    with tempfile.TemporaryDirectory() as folder:
        root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
        os.mkdir(os.path.join(folder, "sql"))
        os.symlink(os.path.join(root, "sql", "data"), os.path.join(folder, "sql", "data"))
        if demo:
            shutil.copytree(os.path.join(root, "sql", "data"), os.path.join(folder, "demo"))   # a copy: examples may write there
        os.symlink(os.path.abspath(arrays), os.path.join(folder, "arrays"))
        os.symlink(os.path.abspath(extension), os.path.join(folder, "tessera" + os.path.splitext(extension)[1]))
        environment = dict(os.environ, ASAN_OPTIONS=os.environ.get("ASAN_OPTIONS", "") + ":detect_leaks=1")  # of the shell: Python itself leaks
        result = subprocess.run([shell, "-batch", "-init", os.devnull, "t.db"], input=text.encode(), env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, cwd=folder)
        output = result.stdout.decode("utf-8", "replace").replace(folder, ".")
        # Releases of the shell differ in how they introduce an error.
        output = re.sub(r"^(?:Runtime error|Parse error|Error:)(?:,? near line|:? near line)? (\d+): (.*?)(?: \(\d+\))?$", r"Error in line \1: \2", output, flags=re.M)
        for name in [name for name in os.listdir(folder) if name.endswith(".png")] if pictures is not None else ():
            with open(os.path.join(folder, name), "rb") as f:
                pictures[name] = f.read()
        if result.returncode < 0:
            output += f"killed by signal {-result.returncode}\n"
        return output


def same(what, output, expected_file):
    with open(expected_file, encoding="utf-8") as f:
        expected = f.read()
    if output == expected:
        return True
    got, want = output.splitlines(), expected.splitlines()
    for i in range(max(len(got), len(want))):
        a, b = (lines[i] if i < len(lines) else "(nothing)" for lines in (got, want))
        if a != b:
            print(f"{what}: line {i + 1} of the output\n  printed:  {a}\n  expected: {b}")
            break
    print("----- all that was printed\n" + output)
    return False


def main():
    shell, extension, arrays, script = sys.argv[1:5]
    with open(script, encoding="utf-8") as f:
        output = run_text(shell, extension, f.read(), arrays)
    expected_file = os.path.splitext(script)[0] + ".expected"
    if "--accept" in sys.argv:
        with open(expected_file, "w", encoding="utf-8") as f:
            f.write(output)
        return 0
    return 0 if same(script, output, expected_file) else 1


if __name__ == "__main__":
    sys.exit(main())
