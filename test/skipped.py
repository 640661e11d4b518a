"""What a run of ctest left out, and why: ctest names the tests that it skipped, but not the reason, and counts a test that left out a part as passed. A
test that leaves something out prints a line `SKIPPED: reason`; this prints `skipped: TEST: reason` for each of them.

usage: skipped.py LOG      the file Testing/Temporary/LastTest.log of the build
"""
import re
import sys

_HEAD = re.compile(r"\d+/\d+ Test: (.+)")   # of the output of a test, which ends with <end of output>
_REASON = re.compile(r"\s*SKIPPED: (.+?)\s*")


def skipped(lines):
    """Returns (test, reason) of what was left out, by the names of the tests."""
    found, test = {}, None
    for line in map(str.rstrip, lines):
        head, reason = _HEAD.fullmatch(line), _REASON.fullmatch(line)
        if head:
            test = head[1]
        elif line == "<end of output>":
            test = None
        elif reason and test:
            found[test, reason[1]] = None
    return sorted(found)


def main():
    try:
        with open(sys.argv[1], encoding="utf-8", errors="replace") as log:
            found = skipped(log)
    except FileNotFoundError:   # no test was started
        return
    for test, reason in found:
        print(f"skipped: {test}: {reason}")


if __name__ == "__main__":
    main()
