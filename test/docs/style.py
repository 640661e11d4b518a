"""The style of the pages for users, as far as a program can judge it.

usage: style.py ROOT [PAGE ...]
- A line has at most 120 columns, unless it is a row of a table, or one long URL.
- A sentence has at most 30 words. EXCEPTIONS has those that may be longer.
- The headings of a page differ.
- A page with blocks of ```sql is in the list of documents in test/CMakeLists.txt, so a test runs them.
First the test proves that it can tell where sentences end, and that it finds each of these faults.
"""
import os
import re
import sys
import tempfile

import pages

PLACES = ("README.md", "docs/tutorial.md", "docs/recipes.md", "docs/recipes", "docs/reference", "docs/coming-from", "docs/explained", "docs/building.md",
          "docs/performance.md", "docs/performance-notes.md", "docs/cluster.md", "docs/hosts", "docs/in-the-browser.md", "docs/dataframes.md", "docs/arrays-in-python.md", "docs/datasets.md", "docs/install.md", "docs/start",
          "docs/get-data-in", "docs/get-data-out.md", "docs/guides", "docs/cheat-sheet.md", "docs/command-line.md", "docs/other-tools.md", "docs/words.md", "docs/faq.md", "docs/compare.md", "docs/gallery.md")
COLUMNS = 120
WORDS = 30

# Page and beginning of each sentence that may be longer.
EXCEPTIONS = []


def documents_that_run(root):
    """The pages whose examples test/CMakeLists.txt runs."""
    found = re.findall(r"foreach\(document\s+([^)]*)\)", pages.read(root, "test/CMakeLists.txt"))
    return [name for names in found for name in names.split()]


def check_lines(page, text):
    in_table = {number for kind, number, _ in pages.blocks(text) if kind == "table"}
    for number, line in enumerate(text.split("\n"), 1):
        rest = re.sub(r"^\s*([-*+>]|\d+\.)\s+", "", line).strip()
        is_url = re.fullmatch(r"\S*(://|\]\()\S*", rest)
        if len(line) > COLUMNS and number not in in_table and not is_url:
            yield f"{page}:{number}: {len(line)} columns"


def check_sentences(page, text, exceptions):
    for kind, number, content in pages.blocks(text):
        if kind == "code":
            continue
        for part in content if kind == "table" else [content[1] if kind == "heading" else content]:
            for sentence in pages.sentences(part):
                count = len(pages.words(sentence))
                allowed = [e for e in exceptions if e[0] == page and sentence.startswith(e[1])]
                if count > WORDS and allowed:
                    exceptions.remove(allowed[0])
                elif count > WORDS:
                    yield f"{page}:{number}: {count} words: {sentence}"


def check_headings(page, text):
    seen = set()
    for kind, number, content in pages.blocks(text):
        if kind == "heading":
            if pages.slug(content[1]) in seen:
                yield f"{page}:{number}: there are two headings {content[1]!r}"
            seen.add(pages.slug(content[1]))


def check_examples(page, text, run):
    first = next((number for kind, number, content in pages.blocks(text) if kind == "code" and content[0] == "sql"), None)
    if first and page not in run:
        yield f"{page}:{first}: no test runs the examples: test/CMakeLists.txt does not list the page"


def check(root, places=PLACES, exceptions=()):
    faults, unused, run = [], list(exceptions), documents_that_run(root)
    documents = pages.find(root, *places)
    for page in documents:
        text = pages.read(root, page)
        faults += [*check_lines(page, text), *check_sentences(page, text, unused), *check_headings(page, text),
                   *check_examples(page, text, run)]
    names = [os.path.basename(page) for page in run]
    faults += [f"{page}: another page whose examples run has the same name, so both have one file in test/docs"
               for page in run if names.count(os.path.basename(page)) > 1]
    faults += [f"EXCEPTIONS: no long sentence of {page} begins with {begin!r}" for page, begin in unused if page in documents]
    return faults, len(documents)


# Texts, and the sentences of each, with | between them.
SPLITS = [
    ("One. Two! Three? Four", "One.|Two!|Three?|Four"),
    ("Use it, e.g. For this, i.e. that, etc. and so on, vs. others. tessera reads.",
     "Use it, e.g. For this, i.e. that, etc. and so on, vs. others.|tessera reads."),
    ("Lists, tables, etc. Then more.", "Lists, tables, etc.|Then more."),
    ("Is it no. 5? No. It is fig. 6. It costs 5 ms. More.", "Is it no. 5?|No.|It is fig. 6.|It costs 5 ms.|More."),
    ("Version 2.30 of a.b costs 0.5 ms. See file.md.", "Version 2.30 of a.b costs 0.5 ms.|See file.md."),
    ("A `WHERE a = 'x. Y'. B`. C.", "A `WHERE\u00b7a\u00b7=\u00b7'x\u00b7\u00b7Y'\u00b7\u00b7B`.|C."),
    ("It is (really.) Yes. \u201cNo.\u201d **Bold.** End.", "It is (really.)|Yes.|\u201cNo.\u201d|Bold.|End."),
    ("See [the page. It](a.md#b. c) there. End.", "See [the page.|It](a.md#b.|c) there.|End."),
    ("See [the page](a.md) there. End.", "See the page there.|End."),
    ("D. Knuth wrote it. So do I. You too.", "D. Knuth wrote it.|So do I.|You too."),
    ("Wait ... and go. Stop... Then\ngo on.", "Wait ... and go.|Stop...|Then go on."),
]
LONG = " ".join(["a"] * 31)
FAULTS = [
    (LONG + ".", "31 words"),
    (LONG[4:].replace("a a", "a `b c d e f g h i j k l m n o p q r s`, \u2014 a", 1), None),
    ("- item\n- " + LONG, "31 words"),
    ("- " + " ".join(["word"] * 20) + "\n- " + " ".join(["word"] * 20), None),
    ("| a | b |\n|---|---|\n| word | " + LONG + " |", "31 words"),
    ("| " + " ".join(["word"] * 20) + " | " + " ".join(["word"] * 20) + " |", None),
    ("# " + LONG, "31 words"),
    ("```\n" + LONG.replace(" ", ".\n") + "\n" + "-" * 121 + "\n```", "121 columns"),
    ("> " + LONG, "31 words"),
    (" ".join(["word"] * 20) + ":\n```\ncode\n```\n" + " ".join(["word"] * 20), None),
    ("long " * 23 + "12345", None),
    ("wide\u00a0" * 24 + "xx", "122 columns"),
    ("| " + "-" * 121 + " |", None),
    ("- <https://example.org/" + "-" * 121 + ">", None),
    ("see https://example.org/" + "-" * 121, "columns"),
    ("# One\n## Two\n## One", "two headings"),
    ("```sql\nSELECT 1;\n```", "no test runs"),
    ("```python\n1\n```\n~~~\n```sql\n~~~", None),
]


def self_test():
    wrong = []
    for text, expected in SPLITS:
        found = "|".join(pages.sentences(text))
        if found != expected:
            wrong.append(f"self-test: the sentences of {text!r} should be {expected!r}, but are {found!r}")
    with tempfile.TemporaryDirectory() as root:
        os.mkdir(os.path.join(root, "test"))
        with open(os.path.join(root, "test", "CMakeLists.txt"), "w", encoding="utf-8") as f:
            f.write("foreach(document other.md)\nforeach(document docs/this.md)\n")
        for text, fault in FAULTS:
            with open(os.path.join(root, "README.md"), "w", encoding="utf-8") as f:
                f.write(text + "\n")
            found = check(root)[0]
            if len(found) != (fault is not None) or fault and fault not in found[0]:
                wrong.append(f"self-test: {text!r} should have the fault {fault!r}, but has {found}")
        if len(check(root, exceptions=[("README.md", "a")])[0]) != 1:
            wrong.append("self-test: an exception without its sentence is no fault")
        with open(os.path.join(root, "test", "CMakeLists.txt"), "a", encoding="utf-8") as f:
            f.write("foreach(document docs/deeper/other.md)\n")
        if len([text for text in check(root)[0] if "has the same name" in text]) != 2:
            wrong.append("self-test: two pages of one name are no fault")
    return wrong


def main():
    root, *places = sys.argv[1:]
    documents = pages.find(root, *PLACES)
    faults, count = check(root, places or documents, EXCEPTIONS)
    faults += self_test()
    print("\n".join([*faults, f"{count} pages, {len(faults)} faults"]))
    return bool(faults) or not count


if __name__ == "__main__":
    sys.exit(main())
