"""Makes one tessera.c and one tessera.h of core/ and ext/, for programs that would rather compile tessera than link it.

usage: amalgamate.py ROOT DIRECTORY

Headers come first, each once, then the sources in the order of CMakeLists.txt, as they stand: names at file scope, static ones and macros too,
are unique in the whole tree (test/lint/lint.py checks that), so that nothing is renamed. Includes of the project's own headers go, those of
the system are collected at the top. test/static/amalgamation.sh compiles the result in every way in which it is meant to be.
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

    def macros(self):
        """The macros of this file that are still defined at its end."""
        alive = []
        for _, _, words in self.directives():
            if words[1:2] == ["define"]:
                alive = [n for n in alive if n != words[2]] + [words[2]]
            elif words[1:2] == ["undef"]:
                alive = [n for n in alive if n != words[2]]
        return alive

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
    """The text of tessera.c, and that of tessera.h."""
    sources = [Source(root, p) for p in re.findall(r"\b(?:core|ext)/\w+/\w+\.c\b", read(f"{root}/CMakeLists.txt"))]
    public = ("tessera.h", "tessera_format.h")
    headers = {name: Source(root, f"core/{name}") for name in public}
    for folder in dict.fromkeys(os.path.dirname(source.path) for source in sources):
        for name in sorted(os.listdir(f"{root}/{folder}")):
            if name.endswith(".h"):
                headers[f"{os.path.basename(folder)}/{name}"] = Source(root, f"{folder}/{name}")

    # Headers in an order in which each follows those that it includes.
    order = []
    def visit(name):
        for _, _, words in headers[name].directives():
            if is_local(words):
                visit(words[2].strip('"'))
        if name not in order:
            order.append(name)
    for name in headers:
        visit(name)
    private = [headers[n] for n in order if n not in public]

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

    def put(source):
        text.append(f"\n/* ==== {source.path} {'=' * (100 - len(source.path))} */\n")
        text.append(source.body())

    for folder in ("core", "ext"):
        if folder == "ext":
            text.append("\n#ifndef TESSERA_OMIT_SQLITE\n")
        text.append('\n#pragma GCC diagnostic push /* not all that a header offers is wanted */\n#pragma GCC diagnostic ignored "-Wunused-function"\n')
        for header in private:
            if header.path.startswith(folder):
                put(header)
        text.append("\n#pragma GCC diagnostic pop\n")
        for source in sources:
            if source.path.startswith(folder):
                put(source)
    text += ["\n#endif /* TESSERA_OMIT_SQLITE */\n", UNHIDE]
    text.append("\n/*\n" + read(f"{root}/LICENSE").rstrip() + "\n*/\n")

    public_text = read(f"{root}/core/tessera.h").replace('#include "tessera_format.h"\n', read(f"{root}/core/tessera_format.h"))
    return "".join(text), public_text


def main():
    root, folder = sys.argv[1:3]
    source, header = amalgamate(root)
    os.makedirs(folder, exist_ok=True)
    for name, text in (("tessera.c", source), ("tessera.h", header)):
        with open(os.path.join(folder, name), "w", encoding="utf-8") as f:
            f.write(text)
    print(f"tessera.c: {source.count(chr(10))} lines, {len(source)} bytes; tessera.h: {len(header)} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
