"""Makes one tessera.c and one tessera.h of core/ and ext/, for programs that would rather compile tessera than link it.

usage: amalgamate.py ROOT DIRECTORY

Headers come first, each once, then the sources. Static functions have bare names in the sources (docs/design.md, rule 2), so many
files have a `decode` or a `text_of` of their own; where two files give a name at file scope, both get the file's before it:
`filter_rle__decode`. A name is renamed everywhere in its file but where C has another name space for it: members of structures (after
`.` and `->`, where they are declared, in offsetof). So a local variable or parameter of that name is renamed, too, which changes nothing.
Macros end with their file. What this cannot see, a name that a macro makes of others, is refused here or by the compiler: then a name in
the sources has to change. test/static/amalgamation.sh compiles the result in every way in which it is meant to be.
"""
import os
import re
import sys

TOKEN = re.compile(r"""(?P<comment>//[^\n]*|/\*.*?\*/)
  | (?P<string>"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*')
  | (?P<name>[A-Za-z_]\w*)
  | (?P<number>\.?\d(?:[eEpP][+-]|[\w.])*)
  | (?P<space>(?:\\\n|[ \t])+)
  | (?P<line>\n)
  | (?P<mark>->|\.\.\.|\#\#|.)""", re.X | re.S)
TOP = """/* tessera.c: tessera {version}, all of it in one file: arrays in the TileDB format as SQLite tables. MIT license, see the end.
 * Made by ext/package/amalgamate.py from the sources, which are where to read and to change it.
 *
 * A loadable extension:
 *   cc -O2 -fno-strict-aliasing -shared -fPIC tessera.c -o tessera.so -lzstd -llz4 -lbz2 -lz -lmbedcrypto -lm -pthread -Wl,-z,nodelete
 * Part of a program that links SQLite, which then calls sqlite3_auto_extension((void (*)(void))sqlite3_tessera_init):
 *   cc -O2 -fno-strict-aliasing -DSQLITE_CORE -c tessera.c
 * The core alone, tessera.h without SQLite:
 *   cc -O2 -fno-strict-aliasing -DTESSERA_OMIT_SQLITE -c tessera.c
 */
"""
HIDE = """
/* Of all that is defined here, hosts see the entry point alone; with TSR_SHARED the functions of tessera.h, too. */
#pragma GCC visibility push(hidden)
#pragma GCC diagnostic ignored "-Wunused-parameter"
"""
UNHIDE = "\n#pragma GCC visibility pop\n"


class Fault(Exception):
    pass


def read(path):
    with open(path, encoding="utf-8") as f:
        return f.read()


class Source:
    """A file as tokens: [kind, text, in a directive]; `code` are the indexes of those that are neither blank nor comment."""

    def __init__(self, root, path):
        self.path, self.stem = path, os.path.splitext(os.path.basename(path))[0]
        self.tokens, directive, fresh = [], False, True
        for match in TOKEN.finditer(read(os.path.join(root, path))):
            kind, text = match.lastgroup, match.group()
            if kind == "mark" and text == "#" and fresh:
                directive = True
            self.tokens.append([kind, text, directive])
            if kind == "line":
                directive, fresh = False, True
            elif kind not in ("space", "comment"):
                fresh = False
        self.code = [i for i, t in enumerate(self.tokens) if t[0] in ("string", "name", "number", "mark")]

    def directives(self):
        """(index of the first token, index past the last, the words) of each."""
        i = 0
        while i < len(self.tokens):
            if self.tokens[i][2]:
                end = i
                while end < len(self.tokens) and self.tokens[end][2] and self.tokens[end][0] != "line":
                    end += 1
                yield i, end, [t[1] for t in self.tokens[i:end] if t[0] in ("string", "name", "number", "mark")]
                i = end
            i += 1

    def members(self):
        """Indexes of the tokens that name members; also macros' parameters and parts of names, which are names of nothing."""
        found, stack, before = set(), [], ["", ""]
        code = [i for i in self.code if not self.tokens[i][2]]
        text = [self.tokens[i][1] for i in code]
        for at, i in enumerate(code):
            word, previous, after = text[at], text[at - 1] if at else "", text[at + 1] if at + 1 < len(text) else ""
            if word == "{":
                head = text[max(0, at - 2):at]
                stack.append("struct" if any(w in ("struct", "union") for w in head) else "block")
            elif word in "([":
                stack.append(word)
            elif word in ")]}":
                stack.pop()
            if self.tokens[i][0] != "name":
                continue
            place = stack[-1] if stack else "file"
            if previous in (".", "->"):
                found.add(i)
            elif place == "struct" and after in (";", ",", "[", ":") and previous not in ("struct", "union", "enum"):
                found.add(i)
            elif place == "(" and len(stack) > 1 and stack[-2] == "struct" and previous == "*" and after == ")" and text[at - 2] == "(":
                found.add(i) # int (*member)(...)
            elif previous == "," and "offsetof" in text[max(0, at - 5):at] and place == "(":
                found.add(i)
        for first, end, words in self.directives():
            if words[1:2] != ["define"]:
                continue
            own = [i for i in self.code if first <= i < end]
            parameters = self.parameters(own)
            for previous, i in zip(own, own[1:]):
                near = self.tokens[previous][1]
                if self.tokens[i][1] in parameters or near in (".", "->", "##"):
                    found.add(i)
                if self.tokens[i][1] == "##": # a part of a name is none
                    found.add(previous)
        return found

    def parameters(self, own):
        """Of a macro, given the tokens of its definition: a parameter list begins right behind the name."""
        if len(own) < 4 or own[3] != own[2] + 1 or self.tokens[own[3]][1] != "(":
            return []
        names = []
        for i in own[4:]:
            if self.tokens[i][1] == ")":
                break
            if self.tokens[i][1] != ",":
                names.append(self.tokens[i][1])
        return names

    def defines(self):
        """Macros of this file that are still there at its end; {macro: which of its arguments it pastes or prints}."""
        alive, pasting = [], {}
        for first, end, words in self.directives():
            if words[1:2] == ["define"]:
                alive = [n for n in alive if n != words[2]] + [words[2]]
                parameters = self.parameters([i for i in self.code if first <= i < end])
                beside = {w for i, w in enumerate(words) if words[i - 1] in ("#", "##") or words[i + 1:i + 2] == ["##"]}
                if beside.intersection(parameters):
                    pasting[words[2]] = {n for n, p in enumerate(parameters) if p in beside}
            elif words[1:2] == ["undef"]:
                alive = [n for n in alive if n != words[2]]
        return alive, pasting

    def names(self):
        """What the file declares at file scope: functions and variables that are static, types, tags, constants."""
        found, chunk, depth, body = set(), [], 0, False
        for i in self.code:
            kind, word, directive = self.tokens[i]
            if directive:
                continue
            if word == "{" and depth == 0:
                body = bool(chunk) and chunk[-1][1] == ")" # of a function: no semicolon ends it
            depth -= word == "}"
            chunk.append((kind, word, depth))
            depth += word == "{"
            if depth == 0 and (word == ";" or (word == "}" and body)):
                self.declared(chunk, found)
                chunk = []
        return found

    def declared(self, chunk, found):
        top = [(k, w) for k, w, d in chunk if d == 0]
        words = [w for _, w in top]
        for at, word in enumerate(words):
            if word in ("struct", "union", "enum") and at + 2 < len(top) and top[at + 1][0] == "name" and words[at + 2] in ("{", ";"):
                found.add(words[at + 1])
        if "enum" in words:
            round_brackets, first = 0, True
            for kind, word, depth in chunk:
                if depth == 0:
                    continue
                round_brackets += (word == "(") - (word == ")")
                if kind == "name" and first:
                    found.add(word)
                first = word == "," and round_brackets == 0
        if "typedef" in words:
            top = top[words.index("typedef") + 1:]
        elif "static" in words:
            top = top[words.index("static") + 1:]
        else:
            return
        while any(w in ("__attribute__", "_Alignas") for _, w in top): # with what is in its brackets
            first = next(i for i, (_, w) in enumerate(top) if w in ("__attribute__", "_Alignas"))
            end, depth = first + 1, 0
            while depth or end == first + 1:
                depth += (top[end][1] == "(") - (top[end][1] == ")")
                end += 1
            top = top[:first] + top[end:]
        depth, wanted = 0, True
        for at, (kind, word) in enumerate(top): # each declarator of the list, up to its end
            if word == "(" and wanted and top[at + 1][1] == "*": # a pointer to a function, or an array of them
                found.add([w for k, w in top[at + 1:] if k == "name" and w != "const"][0])
                wanted = False
            elif word in ("(", "=", "[", ";", ",") and wanted and at and top[at - 1][0] == "name":
                found.add(top[at - 1][1])
                wanted = False
            depth += (word in "([") - (word in ")]")
            wanted = wanted or (word == "," and depth == 0)

    def rename(self, names, pasting):
        members = self.members()
        code = [i for i in self.code if not self.tokens[i][2]]
        for at, i in enumerate(code): # what a macro makes of its arguments would not be renamed alike
            if self.tokens[i][1] in pasting and at + 1 < len(code) and self.tokens[code[at + 1]][1] == "(":
                depth, argument = 0, 0
                for j in code[at + 1:]:
                    word = self.tokens[j][1]
                    depth += (word == "(") - (word == ")")
                    argument += word == "," and depth == 1
                    if word in names and argument in pasting[self.tokens[i][1]]:
                        raise Fault(f"{self.path}: {word} is an argument of {self.tokens[i][1]}, which pastes it: give it another name")
                    if depth == 0:
                        break
        for i in self.code:
            if self.tokens[i][0] == "name" and self.tokens[i][1] in names and i not in members:
                self.tokens[i][1] = f"{self.stem}__{self.tokens[i][1]}"

    def conditions(self):
        """The directives, each with the number of conditions around it, an include guard not counted."""
        depth = -1 if self.path.endswith(".h") else 0
        for first, end, words in self.directives():
            depth -= words[1] == "endif"
            yield first, end, words, depth
            depth += words[1] in ("if", "ifdef", "ifndef")

    def body(self):
        """The text without what stands at the head of all: the project's own headers, includes without a condition, features."""
        text, at = [], 0
        for first, end, words, conditions in self.conditions():
            end += 1 # the line's end
            if words[1] == "include" and not is_local(words) and not is_common(words, conditions):
                text += [t[1] for t in self.tokens[at:first]]
                text += ["#pragma GCC visibility push(default)\n", *(t[1] for t in self.tokens[first:end]), "#pragma GCC visibility pop\n"]
                at = end
            elif is_local(words) or is_common(words, conditions) or is_feature(words):
                text += [t[1] for t in self.tokens[at:first]]
                at = end
        return "".join(text + [t[1] for t in self.tokens[at:]])


def is_local(words):
    return words[1] == "include" and words[2].startswith('"') and not words[2].startswith('"sqlite3')


def is_common(words, conditions):
    return words[1] == "include" and words[2] == "<" and conditions <= 0


def is_feature(words):
    return words[1] in ("define", "undef") and re.match(r"_[A-Z]", words[2])


def version_of(root):
    return re.search(r'#define TSR_VERSION "([^"]+)"', read(f"{root}/core/tessera.h")).group(1)


def amalgamate(root):
    """The text of tessera.c, that of tessera.h, and how many names were given another."""
    paths = {kind: sorted(f"{d}/{n}" for d in ("core", "ext") for n in os.listdir(f"{root}/{d}") if n.endswith(kind)) for kind in (".c", ".h")}
    sources = [Source(root, p) for p in paths[".c"]]
    headers = {os.path.basename(p): Source(root, p) for p in paths[".h"]}
    public = ("tessera.h", "tessera_format.h")

    # Headers in an order in which each follows those that it includes.
    order = []
    def visit(name):
        for _, _, words in headers[name].directives():
            if is_local(words):
                visit(words[2].strip('"'))
        if name not in order:
            order.append(name)
    for name in sorted(headers):
        visit(name)
    private = [headers[n] for n in order if n not in public]

    taken = set()
    for header in headers.values():
        taken |= header.names()
    counts, declared = {}, {}
    for source in sources:
        declared[source.path] = source.names()
        for name in declared[source.path]:
            counts[name] = counts.get(name, 0) + 1
    pasting = {}
    for source in sources + list(headers.values()):
        pasting.update(source.defines()[1])
    renamed = 0
    for source in sources:
        clashing = {n for n in declared[source.path] if (counts[n] > 1 or n in taken) and not n.startswith(("tsr_", "tsx_"))}
        renamed += len(clashing)
        source.rename(clashing, pasting)

    text = [TOP.replace("{version}", version_of(root))]
    features, includes = {}, set()
    for source in private + sources:
        for _, _, words, conditions in source.conditions():
            if words[1] == "define" and is_feature(words):
                features[words[2]] = " ".join(["#define", *words[2:]])
            elif is_common(words, conditions):
                includes.add("".join(words[2:]))
    text += [f"#ifndef {name}\n{line}\n#endif\n" for name, line in sorted(features.items())]
    text += [f"#include {name}\n" for name in sorted(includes)]
    text += ['#include "tessera.h"\n', HIDE]

    def put(source, last):
        text.append(f"\n/* ==== {source.path} {'=' * (100 - len(source.path))} */\n")
        text.append(source.body())
        text.extend(f"#undef {name}\n" for name in last)

    for folder in ("core", "ext"):
        if folder == "ext":
            text.append("\n#ifndef TESSERA_OMIT_SQLITE\n")
        text.append('\n#pragma GCC diagnostic push /* not all that a header offers is wanted */\n#pragma GCC diagnostic ignored "-Wunused-function"\n')
        for header in private:
            if header.path.startswith(folder):
                put(header, [])
        text.append("\n#pragma GCC diagnostic pop\n")
        for source in sources:
            if source.path.startswith(folder):
                put(source, [n for n in source.defines()[0] if not re.match(r"_[A-Z]", n)])
    text += ["\n#endif /* TESSERA_OMIT_SQLITE */\n", UNHIDE]
    text.append("\n/*\n" + read(f"{root}/LICENSE").rstrip() + "\n*/\n")

    public_text = read(f"{root}/core/tessera.h").replace('#include "tessera_format.h"\n', read(f"{root}/core/tessera_format.h"))
    return "".join(text), public_text, renamed


def main():
    root, folder = sys.argv[1:3]
    try:
        source, header, renamed = amalgamate(root)
    except Fault as fault:
        print(f"amalgamate.py: {fault}", file=sys.stderr)
        return 1
    os.makedirs(folder, exist_ok=True)
    for name, text in (("tessera.c", source), ("tessera.h", header)):
        with open(os.path.join(folder, name), "w", encoding="utf-8") as f:
            f.write(text)
    print(f"tessera.c: {source.count(chr(10))} lines, {len(source)} bytes, {renamed} names given the name of their file; tessera.h: {len(header)} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
