"""./run coverage: which lines and branches of core/ and ext/ have the tests executed? Reads what gcov knows of the objects in BUILD, adds up the objects
that share a source, and writes BUILD/index.html, which shows each file's lines and branches that were never executed, and BUILD/uncovered.txt, the same
as text. Prints a table by folder in Markdown.

A branch is one of the ways out of a condition, as gcov counts them: `if (a && b)` has four. A function that a macro makes for several types counts once
for each type. "Tries" are branches of TSR_TRY and TSX_TRY: a call that never failed in a test. What a killed process executed is not counted.

usage: coverage.py BUILD ROOT [NOTE]    the note says which tests have run
"""
import collections
import html
import json
import os
import re
import subprocess
import sys

TRY = re.compile(r"\bTS[RX]_TRY\(|\btsr_try_\b")


class File:
    """What was executed in one source. lines: {number: count}; branches: {(number, function): [count, ...]}."""

    def __init__(self, path, text):
        self.path, self.text = path, text
        self.lines, self.branches = collections.Counter(), {}

    def add(self, line):
        number = line["line_number"]
        self.lines[number] += line["count"]
        counts = [branch["count"] for branch in line["branches"]]
        if counts:
            key = number, line.get("function_name")
            before = self.branches.get(key, [])
            longer = counts if len(counts) > len(before) else before
            self.branches[key] = [a + b for a, b in zip(counts, before)] + longer[min(len(counts), len(before)):]

    def source(self, number):
        return self.text[number - 1].strip() if number <= len(self.text) else ""

    def missing_lines(self):
        return [number for number in sorted(self.lines) if not self.lines[number]]

    def missing_branches(self):
        """Yields (number, function, how many branches were never taken, of how many) for lines that were executed."""
        for (number, function), counts in sorted(self.branches.items(), key=lambda item: (item[0][0], item[0][1] or "")):
            if self.lines[number] and 0 in counts:
                yield number, function, counts.count(0), len(counts)

    def count(self):
        """Returns Counter(lines, lines_met, branches, branches_met, tries, tries_met). Branches of lines that were not executed count as not taken."""
        sums = collections.Counter(lines=len(self.lines), lines_met=sum(1 for count in self.lines.values() if count))
        for (number, _), counts in self.branches.items():
            kinds = ["branches", "tries"] if TRY.search(self.source(number)) else ["branches"]
            for kind in kinds:
                sums[kind] += len(counts)
                sums[f"{kind}_met"] += sum(1 for count in counts if count)
        return sums


def read(build, root):
    """Returns {path: File} of the sources in core/ and ext/."""
    files = {}
    notes = [os.path.join(base, name) for base, _, names in os.walk(build) for name in names if name.endswith(".gcno")]
    notes = [note for note in sorted(notes) if "/test/" not in note[len(build):]]
    for at in range(0, len(notes), 40):
        # The working directory of gcov is where paths begin that the compiler was given as relative ones; CMake gives it none.
        shown = subprocess.run(["gcov", "--json-format", "--stdout", "--branch-probabilities", *notes[at:at + 40]], cwd=build, stdout=subprocess.PIPE,
                               stderr=subprocess.DEVNULL, check=True).stdout
        for line in shown.decode().splitlines():
            for entry in json.loads(line)["files"] if line else []:
                path = os.path.relpath(os.path.join(build, entry["file"]), root)
                if not path.startswith(("core/", "ext/")):
                    continue
                if path not in files:
                    with open(f"{root}/{path}", encoding="utf-8") as f:
                        files[path] = File(path, f.read().splitlines())
                for one in entry["lines"]:
                    files[path].add(one)
    return {path: file for path, file in sorted(files.items()) if file.lines}


def percent(sums, kind):
    return f"{100 * sums[kind + '_met'] / sums[kind]:.1f}" if sums[kind] else "-"


def spans(numbers, known):
    """Groups numbers of lines that follow each other, but for lines without code."""
    out = []
    for number in numbers:
        if out and not any(n in known for n in range(out[-1][1] + 1, number)):
            out[-1][1] = number
        else:
            out.append([number, number])
    return out


def describe(file):
    """Yields (the place, what is there) for each line and branch that was never executed."""
    for first, last in spans(file.missing_lines(), file.lines):
        yield f"{first}" if first == last else f"{first}-{last}", "never executed", file.source(first)
    for number, function, missing, of in file.missing_branches():
        yield f"{number}", f"{missing} of {of} branches never taken" + (f" in {function}" if function else ""), file.source(number)


PAGE = """<!doctype html><meta charset="utf-8"><title>Coverage of tessera's tests</title>
<style>body{{font:15px/1.4 system-ui,sans-serif;max-width:72em;margin:2em auto;padding:0 1em}}table{{border-collapse:collapse}}
td,th{{padding:.1em .8em;text-align:right}}td:first-child,th:first-child{{text-align:left}}summary{{cursor:pointer;margin:.2em 0}}
code{{font:13px ui-monospace,monospace}}li{{margin:.1em 0}}.few{{color:#b00}}</style>
<h1>Coverage of tessera's tests</h1><p>{note}</p>
<table><tr><th>folder<th>lines<th>executed<th>%<th>branches<th>taken<th>%<th>tries, taken %</tr>{rows}</table>{folders}"""


def row(name, sums):
    cells = [name, sums["lines"], sums["lines_met"], percent(sums, "lines"), sums["branches"], sums["branches_met"], percent(sums, "branches"), percent(sums, "tries")]
    return "<tr>" + "".join(f"<td>{html.escape(str(cell))}" for cell in cells) + "</tr>"


def main():
    build, root = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
    files = read(build, root)
    if not files or not any(any(file.lines.values()) for file in files.values()):
        sys.exit(f"{build}: no object has counts: has a test run?")
    folders = collections.defaultdict(list)
    for path, file in files.items():
        folders["/".join(path.split("/")[:2]) if path.count("/") > 1 else path.split("/")[0]].append(file)
    sums = {folder: sum((file.count() for file in inside), collections.Counter()) for folder, inside in folders.items()}
    whole = sum(sums.values(), collections.Counter())
    shown = []
    with open(f"{build}/uncovered.txt", "w", encoding="utf-8") as text:
        for folder, inside in folders.items():
            shown.append(f"<h2>{folder}</h2>")
            for file in inside:
                own, places = file.count(), list(describe(file))
                text.writelines(f"{file.path}:{place}: {what}: {source}\n" for place, what, source in places)
                shown.append(f"<details><summary>{file.path}: {percent(own, 'lines')} % of {own['lines']} lines, {percent(own, 'branches')} % of {own['branches']} branches"
                             f"</summary><ul>" + "".join(f"<li>{place}: {what}: <code>{html.escape(source)}</code>" for place, what, source in places) + "</ul></details>")
    with open(f"{build}/index.html", "w", encoding="utf-8") as page:
        rows = "".join(row(folder, counts) for folder, counts in [*sums.items(), ("all", whole)])
        page.write(PAGE.format(note=html.escape(" ".join(sys.argv[3:])), rows=rows, folders="".join(shown)))
    print("| folder | lines | % | branches | % |\n|---|---|---|---|---|")
    for folder, counts in [*sums.items(), ("all", whole)]:
        print(f"| `{folder}` | {counts['lines']} | {percent(counts, 'lines')} | {counts['branches']} | {percent(counts, 'branches')} |".replace("`all`", "all"))
    print(f"\nOf the {whole['branches'] - whole['branches_met']} branches that were never taken, {whole['tries'] - whole['tries_met']} are errors of calls that never failed.")


if __name__ == "__main__":
    main()
