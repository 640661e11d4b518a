"""Runs one SQL script through the sqlite3 shell and compares what it prints with what it must print.

usage: run.py SHELL EXTENSION ARRAYS SCRIPT [--accept]
The script runs in a directory that looks like the project's root: EXTENSION is ./tessera there, sql/data is there, and the corpus as
arrays/. Its output, errors included, must equal SCRIPT with the suffix .expected; with --accept that file is written instead.
"""
import os
import re
import subprocess
import sys
import tempfile


def run(shell, extension, arrays, script):
    with tempfile.TemporaryDirectory() as folder:
        root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
        os.mkdir(os.path.join(folder, "sql"))
        os.symlink(os.path.join(root, "sql", "data"), os.path.join(folder, "sql", "data"))
        os.symlink(os.path.abspath(arrays), os.path.join(folder, "arrays"))
        os.symlink(os.path.abspath(extension), os.path.join(folder, "tessera" + os.path.splitext(extension)[1]))
        with open(script, encoding="utf-8") as f:
            text = f.read()
        environment = dict(os.environ, ASAN_OPTIONS="detect_leaks=1")  # of the shell: Python itself leaks
        result = subprocess.run([shell, "-batch", "-init", os.devnull, "t.db"], input=text.encode(), env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, cwd=folder)
        output = result.stdout.decode("utf-8", "replace").replace(folder, ".")
        # Releases of the shell differ in how they introduce an error.
        output = re.sub(r"^(?:Runtime error|Parse error|Error:)(?:,? near line|:? near line)? (\d+): (.*?)(?: \(\d+\))?$", r"Error in line \1: \2", output, flags=re.M)
        if result.returncode < 0:
            output += f"killed by signal {-result.returncode}\n"
        return output


def main():
    shell, extension, arrays, script = sys.argv[1:5]
    output = run(shell, extension, arrays, script)
    expected_file = os.path.splitext(script)[0] + ".expected"
    if "--accept" in sys.argv:
        with open(expected_file, "w", encoding="utf-8") as f:
            f.write(output)
        return 0
    with open(expected_file, encoding="utf-8") as f:
        expected = f.read()
    if output == expected:
        return 0
    got, want = output.splitlines(), expected.splitlines()
    for i in range(max(len(got), len(want))):
        a, b = (lines[i] if i < len(lines) else "(nothing)" for lines in (got, want))
        if a != b:
            print(f"{script}: line {i + 1} of the output\n  printed:  {a}\n  expected: {b}")
            break
    print("----- all that was printed\n" + output)
    return 1


if __name__ == "__main__":
    sys.exit(main())
