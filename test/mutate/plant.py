"""Plants mutants: copies the tree and rewrites its sources so that one build has all mutants, of which a process runs one.

Each place where a small change would alter the program becomes `(TSR_MUTANT(n) ? changed : original)`. TSR_MUTANT also notes that the place was
reached, in a file that all processes of a test share, so one run of each test says which mutants it can see. clang's parser finds the places.
"""
import collections
import json
import multiprocessing
import os
import re
import shutil
import subprocess

import clang.cindex as cindex

COMPARE = {"<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "=="}
ARITHMETIC = {"+": "-", "-": "+"}
# Calls whose absence only wastes memory or changes a message. What lies within their arguments is not mutated either.
SILENT = re.compile(r"free|release|_close|wipe|fail|error|printf|message|reason|describe|progress|count$|_stat|abort|assert|annotate|lock|interrupt", re.I)
KIND = cindex.CursorKind
HEADER = """#ifndef TSR_MUTANT
extern int tsr_mutant; /* the mutant that runs; 0: none */
extern unsigned char *tsr_mutants_seen; /* one byte for each mutant: whether a process has reached it */
#define TSR_MUTANT(n) (tsr_mutants_seen[TSR_MUTANTS_BEFORE + n] = 1, __builtin_expect(tsr_mutant == TSR_MUTANTS_BEFORE + n, 0))
#define TSR_TRY_UNLESS(n, call) do { int tsr_try_ = (call); if (tsr_try_ < 0 && !TSR_MUTANT(n)) return tsr_try_; } while (0)
#endif
"""
RUNTIME = """
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>
int tsr_mutant;
static unsigned char own_seen[%(count)d];
unsigned char *tsr_mutants_seen = own_seen;
__attribute__((constructor)) static void choose_mutant(void) {
  const char *mutant = getenv("TESSERA_MUTANT"), *seen = getenv("TESSERA_MUTANTS_SEEN");
  if (mutant) tsr_mutant = atoi(mutant);
  const int file = seen ? open(seen, O_RDWR) : -1;
  if (file < 0) return;
  void *map = mmap(NULL, %(count)d, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (map != MAP_FAILED) tsr_mutants_seen = map;
  close(file);
}
"""


class Site:
    """A range of a source, and what stands there instead. `build` gets the number and a function that renders a range of the original."""

    def __init__(self, first, end, line, function, kind, before, after, build):
        self.first, self.end, self.line, self.function, self.kind, self.before, self.after, self.build = first, end, line, function, kind, before, after, build


class Finder:
    """Finds the sites of one source."""

    def __init__(self, path, unit):
        self.source = open(path, "rb").read()
        self.path, self.sites = path, []
        own = lambda c: c.location.file and c.location.file.name == path
        self.macros = [(c.extent.start.offset, c.extent.end.offset) for c in unit.cursor.get_children() if c.kind == KIND.MACRO_INSTANTIATION and own(c)]
        for cursor in unit.cursor.get_children():
            if cursor.kind == KIND.FUNCTION_DECL and cursor.is_definition() and own(cursor):
                body = list(cursor.get_children())[-1]
                if body.kind == KIND.COMPOUND_STMT and not self.in_macro(body):
                    self.function = cursor.spelling
                    self.visit(body)
                    self.find_tries(body)

    def text(self, first, end):
        return self.source[first:end].decode()

    def in_macro(self, cursor):
        first, end = cursor.extent.start.offset, cursor.extent.end.offset
        return any(m[0] <= first and end <= m[1] for m in self.macros)

    def add(self, cursor, kind, before, after, build, end=None):
        self.sites.append(Site(cursor.extent.start.offset, end or cursor.extent.end.offset, cursor.extent.start.line, self.function, kind, before, after, build))

    def visit(self, cursor):
        children = list(cursor.get_children())
        if cursor.kind in (KIND.CXX_UNARY_EXPR, KIND.StmtExpr):  # sizeof
            return
        if cursor.kind == KIND.CASE_STMT:
            children = children[1:]  # constants stay
        if cursor.kind == KIND.VAR_DECL:
            if cursor.storage_class == cindex.StorageClass.STATIC:
                return
            if cursor.type.kind in (cindex.TypeKind.CONSTANTARRAY, cindex.TypeKind.INCOMPLETEARRAY, cindex.TypeKind.VARIABLEARRAY):
                children = [child for child in children if child.kind == KIND.INIT_LIST_EXPR]
        if cursor.kind == KIND.CALL_EXPR and SILENT.search(cursor.spelling or ""):
            return
        if not self.in_macro(cursor):
            first, end = cursor.extent.start.offset, cursor.extent.end.offset
            if cursor.kind == KIND.BINARY_OPERATOR and len(children) == 2:
                self.find_operator(cursor, *children)
            elif cursor.kind == KIND.IF_STMT:
                self.find_condition(children[0])
            elif cursor.kind == KIND.COMPOUND_STMT:
                self.find_statements(children)
            elif cursor.kind == KIND.CALL_EXPR and "sync" in (cursor.spelling or "") and cursor.type.kind == cindex.TypeKind.INT:
                self.add(cursor, "no sync", self.text(first, end), "0", lambda n, render: f"(TSR_MUTANT({n}) ? 0 : {render(first, end)})")
        for child in children:
            self.visit(child)

    def find_operator(self, cursor, left, right):
        first, end = cursor.extent.start.offset, cursor.extent.end.offset
        left_end, right_first = left.extent.end.offset, right.extent.start.offset
        operator = self.text(left_end, right_first).strip()
        a, b = self.text(first, left_end), self.text(right_first, end)
        pointer = any(c.type.get_canonical().kind == cindex.TypeKind.POINTER for c in (cursor, left))

        def replace(kind, changed):
            self.add(cursor, kind, f"{a} {operator} {b}", changed,
                     lambda n, render: f"(TSR_MUTANT({n}) ? ({changed}) : ({render(first, left_end)} {operator} {render(right_first, end)}))")

        if operator in COMPARE:
            replace("compare", f"{a} {COMPARE[operator]} {b}")
        elif operator in ("&&", "||"):
            replace("drop condition", f"({a}) ? 1 : 0")
        elif operator in ARITHMETIC and not pointer:
            if b.strip("uUlL ") == "1":
                replace("off by one", a)
            else:
                replace("arithmetic", f"{a} {ARITHMETIC[operator]} {b}")

    def find_condition(self, cursor):
        plain = cursor
        while plain.kind in (KIND.UNEXPOSED_EXPR, KIND.PAREN_EXPR) and len(list(plain.get_children())) == 1:
            plain = list(plain.get_children())[0]
        if plain.kind == KIND.BINARY_OPERATOR or self.in_macro(cursor):
            return
        first, end = cursor.extent.start.offset, cursor.extent.end.offset
        before = self.text(first, end)
        self.add(cursor, "negate", before, f"!({before})", lambda n, render: f"(TSR_MUTANT({n}) ? !({before}) : !!({render(first, end)}))")

    def is_call(self, cursor):
        return cursor is not None and cursor.kind == KIND.CALL_EXPR and cursor.spelling and not SILENT.search(cursor.spelling) and not self.in_macro(cursor)

    def find_statements(self, children):
        for child, after in zip(children, [*children[1:], None]):
            if not self.is_call(child):
                continue
            f, e = child.extent.start.offset, child.extent.end.offset
            a = self.text(f, e)
            self.add(child, "drop call", a, "", lambda n, render, f=f, e=e: f"(TSR_MUTANT({n}) ? (void)0 : (void)({render(f, e)}))")
            if self.is_call(after) and self.text(e, after.extent.start.offset).strip() == ";":
                g, h = after.extent.start.offset, after.extent.end.offset
                b = self.text(g, h)
                self.add(child, "swap", f"{a}; {b}", f"{b}; {a}", lambda n, render, f=f, e=e, g=g, h=h, a=a, b=b:
                         f"if (TSR_MUTANT({n})) {{ (void)({b}); (void)({a}); }} else {{ (void)({render(f, e)}); (void)({render(g, h)}); }}", end=h)

    def find_tries(self, body):
        """TSR_TRY(call): the code of the call is ignored."""
        first, end = body.extent.start.offset, body.extent.end.offset
        for match in re.finditer(rb"\bTSR_TRY\(", self.source[first:end]):
            at = first + match.start()
            if b"#define" in self.source[self.source.rfind(b"\n", 0, at):at]:
                continue
            before = self.source[at:self.source.find(b"\n", at)].decode()
            self.sites.append(Site(at, at + len("TSR_TRY("), self.source.count(b"\n", 0, at) + 1, self.function, "ignore code", before, "goes on",
                                   lambda n, render: f"TSR_TRY_UNLESS({n}, "))

    def rewrite(self, chosen):
        """Returns (text, mutants), numbered from 1. A site that crosses another one is left out. The text has those mutants whose numbers are in `chosen`,
        or all."""
        self.sites.sort(key=lambda s: (s.first, -s.end, s.kind != "swap"))
        kept, ends = [], []
        for site in self.sites:
            while ends and ends[-1] <= site.first:
                ends.pop()
            if not ends or site.end <= ends[-1]:
                kept.append(site)
                ends.append(site.end)

        def render(first, end, outer=-1):
            out, at, i = [], first, outer + 1
            while i < len(kept) and kept[i].first < end:
                site = kept[i]
                if at <= site.first and site.end <= end and (chosen is None or i + 1 in chosen):
                    out += [self.text(at, site.first), site.build(i + 1, lambda f, e, i=i: render(f, e, i))]
                    at = site.end
                i += 1
            return "".join([*out, self.text(at, end)])

        flat = lambda text: " ".join(text.split())
        return render(0, len(self.source)), [{"number": i + 1, "file": self.path, "line": s.line, "function": s.function, "kind": s.kind, "before": flat(s.before), "after": flat(s.after)}
                                             for i, s in enumerate(kept)]


def rewrite(job):
    path, arguments, chosen = job
    unit = cindex.Index.create().parse(path, args=arguments, options=cindex.TranslationUnit.PARSE_DETAILED_PROCESSING_RECORD)
    return path, *Finder(path, unit).rewrite(chosen)


def plant(root, place, sources, choose=None):
    """Copies what git knows of `root` to place/tree and plants mutants into `sources`: all, or those that `choose` picks from the list of all. Writes
    place/mutants.json with all; returns their number."""
    tree = f"{place}/tree"
    shutil.rmtree(tree, ignore_errors=True)
    for path in subprocess.run(["git", "-C", root, "ls-files"], capture_output=True, text=True, check=True).stdout.splitlines():
        if os.path.isfile(f"{root}/{path}"):
            os.makedirs(os.path.dirname(f"{tree}/{path}"), exist_ok=True)
            shutil.copy2(f"{root}/{path}", f"{tree}/{path}")
    resources = subprocess.run(["clang", "-print-resource-dir"], capture_output=True, text=True, check=True).stdout.strip()
    arguments = ["-std=gnu11", "-Icore", "-Iext", "-DTSR_SHARED", f"-isystem{resources}/include"]
    os.chdir(tree)
    with multiprocessing.Pool() as pool:
        done = pool.map(rewrite, [(path, arguments, None) for path in sources], chunksize=4)
        mutants, before = [], {}
        for path, _, made in done:
            before[path] = len(mutants)
            mutants += [dict(mutant, number=len(mutants) + mutant["number"]) for mutant in made]
        if choose:
            chosen = collections.defaultdict(set)
            for mutant in choose(mutants):
                chosen[mutant["file"]].add(mutant["number"] - before[mutant["file"]])
            done = pool.map(rewrite, [(path, arguments, numbers) for path, numbers in chosen.items()], chunksize=4)
    for path, text, _ in done:
        with open(path, "w", encoding="utf-8") as f:
            f.write(f"#define TSR_MUTANTS_BEFORE {before[path]}\n{text}\n#undef TSR_MUTANTS_BEFORE\n")
    with open("core/base/error.c", "a", encoding="utf-8") as f:
        f.write(RUNTIME % {"count": len(mutants) + 1})
    for name, text in ((f"{tree}/mutant.h", HEADER), (f"{place}/mutants.json", json.dumps(mutants))):
        with open(name, "w", encoding="utf-8") as f:
            f.write(text)
    return len(mutants)
