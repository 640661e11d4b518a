"""skipped.py tells what ctest ran left out: of tests that were skipped, that passed and that failed, each reason once. What may leave something out
says why.

usage: skipped_test.py CTEST
"""
import os
import re
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
TESTS = {"fine": "echo done", "skipped/whole": "echo begins; echo SKIPPED: there is no network; exit 77", "skipped/part": "echo '  SKIPPED: polars is not installed'; echo SKIPPED: polars is not installed; echo done",
         "fails": "echo SKIPPED: no openssl >&2; echo so SKIPPED: is no reason; exit 1"}
EXPECTED = ["skipped: fails: no openssl", "skipped: skipped/part: polars is not installed", "skipped: skipped/whole: there is no network"]


def listed(log):
    return subprocess.run([sys.executable, os.path.join(HERE, "skipped.py"), log], stdout=subprocess.PIPE, text=True, check=True).stdout.splitlines()


for place, _, names in os.walk(HERE):
    for name in names:
        if name.endswith((".py", ".sh", ".mjs", ".c")) and name != os.path.basename(__file__):
            with open(os.path.join(place, name), encoding="utf-8") as f:
                text = f.read()
            if re.search(r"\b(?:exit|return)\b[ (]*77\b|\bskip\(\);", text) and "SKIPPED: " not in text:
                raise AssertionError(f"{os.path.join(place, name)} leaves something out without a line 'SKIPPED: reason'")

with tempfile.TemporaryDirectory() as folder:
    with open(os.path.join(folder, "CTestTestfile.cmake"), "w", encoding="utf-8") as f:
        for name, script in TESTS.items():
            f.write(f'add_test({name} sh -c [[{script}]])\nset_tests_properties({name} PROPERTIES SKIP_RETURN_CODE 77)\n')
    ran = subprocess.run([sys.argv[1]], cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert ran.returncode == 8, ran.stdout   # a test failed: the list hides nothing
    found = listed(os.path.join(folder, "Testing", "Temporary", "LastTest.log"))
    assert found == EXPECTED, found
    assert listed(os.path.join(folder, "none")) == []
print("what was left out is told")
