"""The style of the pages for users, as far as a program can judge it.

usage: style.py ROOT [PAGE ...]
- A line has at most 120 columns, unless it is a row of a table, or one long URL.
- An entry of the reference of functions, which is a heading and what follows, has at most 150 words outside of its tables and examples.
- A page of the manual has at most 6 screens of 33 lines, and a quickstart at most 450 words with its examples.
- No page has one of the PHRASES that a native writer would not use. Whether the rest reads well, a reader must judge.
- The headings of a page differ.
- The lines around code stand alone: a paragraph or an item has none, which would swallow the code.
- A page with blocks of ```sql is in the list of documents in test/CMakeLists.txt, so a test runs them.
First the test proves that it can tell where sentences end, and that it finds each of these faults.
"""
import os
import re
import sys
import tempfile

import pages

PLACES = ("README.md", "docs/tutorial.md", "docs/tutorial-write.md", "docs/recipes.md", "docs/recipes", "docs/reference", "docs/coming-from", "docs/explained", "docs/building.md",
          "docs/performance.md", "docs/performance-notes.md", "docs/performance-workloads.md", "docs/performance-data.md", "docs/performance-first-reads.md", "docs/performance-engine.md", "docs/object-stores.md", "docs/cluster.md", "docs/hosts", "docs/in-the-browser.md", "docs/dataframes.md", "docs/arrays-in-python.md", "docs/datasets.md", "docs/install.md", "docs/start",
          "docs/get-data-in", "docs/get-data-out.md", "docs/guides", "docs/cheat-sheet.md", "docs/command-line.md", "docs/other-tools.md", "docs/words.md", "docs/faq.md", "docs/compare.md", "docs/gallery.md")
COLUMNS = 120
ENTRIES, WORDS = "docs/reference/functions/", 150
QUICKSTARTS, QUICKSTART_WORDS = "docs/start/", 450
LINES = 6 * 33
DEVELOPERS = ("docs/building.md", "docs/performance-", "docs/hosts")
PHRASES = (r"(no|some)body", r"says? so", r"no row comes", r"anew", r"(lie|stand)s", r"(colour|behaviour|favour|honour|neighbour)\w*", r"(centre|metre)[ds]?", r"(after|to)wards", r"(?<!there )(is|are) no (array|dimension|number|text|table|condition)s?")


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


def parts_of(text):
    """(line number, text) of what a page says outside of its examples: paragraphs, items, headings and cells of tables."""
    for kind, number, content in pages.blocks(text):
        if kind != "code":
            for part in content if kind == "table" else [content[1] if kind == "heading" else content]:
                yield number, part


def check_phrases(page, text):
    for number, part in parts_of(text):
        plain = " ".join(pages.visible(pages.CODE_SPAN.sub("", part)).split())
        for phrase in PHRASES:
            found = re.search(rf"\b{phrase}\b", plain, re.I)
            if found:
                yield f"{page}:{number}: {found.group()!r} is not what a native would write: {plain[max(found.start() - 30, 0):found.end() + 30]}"


def check_entries(page, text):
    """Entries of the functions: the second level of headings. A subject of the third level counts by itself."""
    name, count = None, 0
    for kind, number, content in [*pages.blocks(text), ("heading", 0, (1, ""))] if page.startswith(ENTRIES) else ():
        if kind == "heading":
            if name and count > WORDS:
                yield f"{page}:{name[0]}: {count} words in the entry {name[1]}"
            name, count = (number, content[1]) if content[0] > 1 else None, 0
        elif kind == "text":
            count += len(content.split())


def check_length(page, text):
    """A reader sees at a glance what a page has. Only words count that have a letter or a digit: not the lines around an output."""
    lines, count = text.count("\n"), len([word for word in text.split() if re.search(r"\w", word)])
    if lines > LINES and not page.startswith(DEVELOPERS):
        yield f"{page}: {lines} lines, and a page has at most {LINES}"
    if page.startswith(QUICKSTARTS) and count > QUICKSTART_WORDS:
        yield f"{page}: {count} words, and a quickstart has at most {QUICKSTART_WORDS}"


def check_headings(page, text):
    seen = set()
    for kind, number, content in pages.blocks(text):
        if kind == "heading":
            if pages.slug(content[1]) in seen:
                yield f"{page}:{number}: there are two headings {content[1]!r}"
            seen.add(pages.slug(content[1]))


def check_fences(page, text):
    for number, part in parts_of(text):
        if "```" in part:
            yield f"{page}:{number}: the code is within a paragraph"


def check_examples(page, text, run):
    first = next((number for kind, number, content in pages.blocks(text) if kind == "code" and content[0] == "sql"), None)
    if first and page not in run:
        yield f"{page}:{first}: no test runs the examples: test/CMakeLists.txt does not list the page"


def check(root, places=PLACES):
    faults, run = [], documents_that_run(root)
    documents = pages.find(root, *places)
    for page in documents:
        text = pages.read(root, page)
        faults += [*check_lines(page, text), *check_phrases(page, text), *check_entries(page, text), *check_length(page, text),
                   *check_headings(page, text), *check_fences(page, text), *check_examples(page, text, run)]
    names = [os.path.basename(page) for page in run]
    faults += [f"{page}: another page whose examples run has the same name, so both have one file in test/docs"
               for page in run if names.count(os.path.basename(page)) > 1]
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
FAULTS = [
    ("Nobody knows.", "'Nobody'"),
    ("- An item that\n  says so.", "'says so'"),
    ("| a | b |\n|---|---|\n| what is no array | c |", "'is no array'"),
    ("There is no array of this name, `nobody` says.", None),
    ("The colours of a cell.", "'colours'"),
    ("What [lies](lie.md) below.", "'lies'"),
    ("Its [frame](centre.md) is `centre`.", None),
    ("\n" * 197, None),
    ("\n" * 198, "199 lines"),
    ("```\nnobody\n" + "-" * 121 + "\n```", "121 columns"),
    ("long " * 23 + "12345", None),
    ("wide\u00a0" * 24 + "xx", "122 columns"),
    ("| " + "-" * 121 + " |", None),
    ("- <https://example.org/" + "-" * 121 + ">", None),
    ("see https://example.org/" + "-" * 121, "columns"),
    ("# One\n## Two\n## One", "two headings"),
    ("It goes towards zero.", "'towards'"),
    ("- An item: ``` 1\n  ```", "within a paragraph"),
    ("- An item:\n  ```\n  1\n  ```", None),
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
        os.makedirs(os.path.join(root, ENTRIES))
        for words, faults in ((150, 0), (151, 1)):
            with open(os.path.join(root, ENTRIES, "entry.md"), "w", encoding="utf-8") as f:
                f.write("# Page\n" + "word\n" * 200 + "## One\n" + "word\n" * words + "\n| cell |\n```\ncode\n```\n## Two\nword\n")
            if len([text for text in check(root)[0] if "in the entry One" in text]) != faults:
                wrong.append(f"self-test: an entry of {words} words has {1 - faults} faults")
        os.makedirs(os.path.join(root, QUICKSTARTS))
        for words, faults in ((450, 0), (451, 1)):
            with open(os.path.join(root, QUICKSTARTS, "quick.md"), "w", encoding="utf-8") as f:
                f.write("word\n" * 100 + "word " * (words - 100) + "| -- |\n")
            if len([text for text in check(root)[0] if "a quickstart has at most" in text]) != faults:
                wrong.append(f"self-test: a quickstart of {words} words has {1 - faults} faults")
        with open(os.path.join(root, "test", "CMakeLists.txt"), "a", encoding="utf-8") as f:
            f.write("foreach(document docs/deeper/other.md)\n")
        if len([text for text in check(root)[0] if "has the same name" in text]) != 2:
            wrong.append("self-test: two pages of one name are no fault")
    return wrong


def main():
    root, *places = sys.argv[1:]
    documents = pages.find(root, *PLACES)
    faults, count = check(root, places or documents)
    faults += self_test()
    print("\n".join([*faults, f"{count} pages, {len(faults)} faults"]))
    return bool(faults) or not count


if __name__ == "__main__":
    sys.exit(main())
