"""./run coverage: which lines and branches of core/ and ext/ have the tests executed? Reads what gcov knows of the objects in BUILD, adds up the objects
that share a source, and writes BUILD/index.html, which shows each file's lines and branches that were never executed, and BUILD/uncovered.txt, the same
as text. Prints a table by folder in Markdown.

A branch is one of the ways out of a condition, as gcov counts them: `if (a && b)` has four, a `switch` has one for each case. A function that a macro makes
for several types counts once for each type, an inline function of a header once, however many files include it; of a line with several of them, branches are
counted for each. All branches count: those of a line that was never executed, those of the few assertions, and errors that are passed on. Code that this build
leaves out does not exist here: other operating systems, other versions of libraries, and what TSR_ALWAYS and TSR_NEVER say cannot be. What a killed process
executed is not counted.

Branches that were never taken are of four kinds, by the text of their line: `memory` (an allocation that never failed), `call` (another call that never
failed, in TSR_TRY or TSX_TRY), `result` (a code that was never an error, or never a success), `condition` (all others).

usage: coverage.py BUILD ROOT [NOTE]    the note says which tests have run
"""
import collections
import html
import json
import os
import re
import subprocess
import sys

MEMORY = re.compile(r"TSR_(RE)?ALLOC|tsr__(arena|buffer)_|TSR_ARENA|sqlite3_(m|re)alloc|\bNOMEM\b|_NOMEM\b|out_of_memory")
TRY = re.compile(r"\bTS[RX]_TRY\(")
RESULT = re.compile(r"\b(rc|code|result|made|found|read) *(<=?|>=?|==|!=) *(0|TSR_OK|SQLITE_OK|SQLITE_ROW|SQLITE_DONE)\b")
KINDS = ("memory", "call", "result", "condition")


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

    def kind(self, number):
        """Returns the kind of the branches of a line: its text, with what it does if it is a condition of its own."""
        text = self.source(number)
        then = f"{text} {self.source(number + 1)}" if text.startswith("if (") and "return" not in text else text
        return "memory" if MEMORY.search(then) else "call" if TRY.search(text) else "result" if RESULT.search(text) else "condition"

    def missing_lines(self):
        return [number for number in sorted(self.lines) if not self.lines[number]]

    def missing_branches(self):
        """Yields (number, function, how many branches were never taken, of how many) for lines that were executed."""
        for (number, function), counts in sorted(self.branches.items(), key=lambda item: (item[0][0], item[0][1] or "")):
            if self.lines[number] and 0 in counts:
                yield number, function, counts.count(0), len(counts)

    def count(self):
        """Returns Counter(lines, lines_met, branches, branches_met, and the branches never taken of each kind). Branches of lines that were not executed
        count as not taken."""
        sums = collections.Counter(lines=len(self.lines), lines_met=sum(1 for count in self.lines.values() if count))
        for (number, _), counts in self.branches.items():
            missing = counts.count(0)
            sums["branches"] += len(counts)
            sums["branches_met"] += len(counts) - missing
            sums[self.kind(number)] += missing
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
<table><tr><th>folder<th>lines<th>executed<th>%<th>branches<th>taken<th>%{kinds}</tr>{rows}</table>{folders}"""


def row(name, sums):
    cells = [name, sums["lines"], sums["lines_met"], percent(sums, "lines"), sums["branches"], sums["branches_met"], percent(sums, "branches"), *(sums[kind] for kind in KINDS)]
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
        page.write(PAGE.format(note=html.escape(" ".join(sys.argv[3:])), rows=rows, kinds="".join(f"<th>never: {kind}" for kind in KINDS), folders="".join(shown)))
    print(f"| folder | lines | % | branches | % | {' | '.join(KINDS)} |\n|---|---|---|---|---|{'---|' * len(KINDS)}")
    for folder, counts in [*sums.items(), ("all", whole)]:
        cells = [f"`{folder}`".replace("`all`", "all"), counts["lines"], percent(counts, "lines"), counts["branches"], percent(counts, "branches"), *(counts[kind] for kind in KINDS)]
        print(f"| {' | '.join(map(str, cells))} |")


if __name__ == "__main__":
    main()
