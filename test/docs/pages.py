"""Markdown as the tests of the documentation need it: the pages, their blocks, headings, anchors, links and sentences."""
import ast
import os
import re

FENCE = re.compile(r"^ {0,3}(?:> ?)*\s*(`{3,}|~{3,})\s*([\w+-]*)")
HEADING = re.compile(r"^ {0,3}(#{1,6})\s+(.*?)(?:\s+#+)?\s*$")
ITEM = re.compile(r"^\s*(?:[-*+]|\d+[.)])\s+")
CODE_SPAN = re.compile(r"(?<!`)(`+)(?!`)(.+?)(?<!`)\1(?!`)", re.S)
LINK = re.compile(r"!?\[((?:[^\[\]]|\[[^\[\]]*\])*)\]\(\s*<?([^()\s>]*(?:\([^()\s]*\)[^()\s>]*)*)>?(?:\s+(?:\"[^\"]*\"|'[^']*'))?\s*\)")
DEFINITION = re.compile(r"^ {0,3}\[[^\]]+\]:\s+<?(\S+?)>?(?:\s|$)", re.M)
HTML_LINK = re.compile(r"<(?:img|a|source)\b[^>]*?\s(?:src|href|srcset)\s*=\s*[\"']([^\"']+)", re.I | re.S)
COMMENT = re.compile(r"<!--.*?-->", re.S)


def find(root, *places):
    """The Markdown files at these places, relative to the root: files, or folders with all that lies below."""
    found = []
    for place in places:
        if os.path.isfile(os.path.join(root, place)):
            found.append(place)
        for folder, folders, names in os.walk(os.path.join(root, place)):
            folders.sort()
            found += [os.path.relpath(os.path.join(folder, name), root) for name in sorted(names) if name.endswith(".md")]
    return found


SITE = "docs/site/conf.py"


def navigation(root):
    """NAVIGATION and BELOW of the site: groups of entries with their captions, and the entries below a page. Neither of a root without a site."""
    if not os.path.isfile(os.path.join(root, SITE)):
        return [], {}
    values = {node.targets[0].id: node.value for node in ast.parse(read(root, SITE)).body if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)}
    return tuple(eval(compile(ast.Expression(values[name]), SITE, "eval"), {}) for name in ("NAVIGATION", "BELOW"))  # literals, and lists of f-strings


def page_of(entry):
    """The page of an entry of the navigation, without .md; it may have a pattern."""
    return entry.split("<")[-1].rstrip(">")


def read(root, page):
    with open(os.path.join(root, page), encoding="utf-8") as f:
        return f.read()


def blocks(text):
    """(kind, line number, content) of each block. A "code" block's content is (language, lines), a "heading"'s its level and text; a
    "table" has its cells; "text" is a paragraph or an item of a list."""
    found, paragraph, start = [], [], 0
    text = COMMENT.sub(lambda match: "\n" * match.group().count("\n"), text)
    lines, i = text.split("\n"), 0

    def end_paragraph():
        if paragraph:
            found.append(("text", start, "\n".join(paragraph)))
            paragraph.clear()

    while i < len(lines):
        line, number = lines[i], i + 1
        fence = FENCE.match(line)
        if fence:
            end_paragraph()
            code = []
            closing = re.compile(r"^\s*(?:> ?)*\s*" + re.escape(fence.group(1)) + fence.group(1)[0] + r"*\s*$")
            i += 1
            while i < len(lines) and not closing.match(lines[i]):
                code.append(lines[i])
                i += 1
            found.append(("code", number, (fence.group(2), code)))
        elif HEADING.match(line):
            end_paragraph()
            found.append(("heading", number, (len(HEADING.match(line).group(1)), HEADING.match(line).group(2))))
        elif line.lstrip().startswith("|"):
            end_paragraph()
            found.append(("table", number, [] if re.fullmatch(r"[\s|:-]+", line) else cells(line)))
        elif not line.strip():
            end_paragraph()
        else:
            line = re.sub(r"^ {0,3}(?:> ?)+", "", line)
            if ITEM.match(line):
                end_paragraph()
                line = ITEM.sub("", line, count=1)
            if not paragraph:
                start = number
            paragraph.append(line.strip())
        i += 1
    end_paragraph()
    return found


def cells(row):
    """The cells of a row of a table. A | within a code span divides cells, too, unless it is escaped: so does GitHub."""
    parts = re.split(r"(?<!\\)\|", row.strip().removeprefix("|"))
    if not parts[-1].strip():
        parts.pop()
    return [part.strip().replace("\\|", "|") for part in parts]


def visible(text):
    """The text that a reader sees of Markdown: no marks, and of a link its words."""
    spans = []

    def hide(match):
        span = match.group(2)
        spans.append(span[1:-1] if span.strip() and span[0] == span[-1] == " " else span)
        return f"\0{len(spans) - 1}\0"

    text = CODE_SPAN.sub(hide, text)
    while LINK.search(text):
        text = LINK.sub(r"\1", text)
    text = re.sub(r"</?[a-zA-Z][^>]*>", "", text)
    text = re.sub(r"(\*\*|__|~~)(?=\S)(.+?)(?<=\S)\1", r"\2", text, flags=re.S)
    text = re.sub(r"(?<!\w)([*_])(?=\S)(.+?)(?<=\S)\1(?!\w)", r"\2", text, flags=re.S)
    text = re.sub(r"\\([!-/:-@\[-`{-~])", r"\1", text)
    return re.sub("\0(\\d+)\0", lambda match: spans[int(match.group(1))], text)


def slug(heading):
    """The anchor that GitHub gives a heading."""
    return re.sub(r"[^\w\- ]", "", visible(heading).lower()).replace(" ", "-")


def anchors(text):
    """The anchors of a page: those of its headings, numbered if several headings have one text, and the ids of its HTML."""
    found, used = set(), {}
    for kind, _, content in blocks(text):
        if kind == "heading":
            base = slug(content[1])
            count = used.get(base, 0)
            used[base] = count + 1
            found.add(f"{base}-{count}" if count else base)
    return found | set(re.findall(r"<\w+[^>]*?\s(?:id|name)=[\"']([^\"']+)", without_code(text)))


def without_code(text):
    """The text with blanks in the place of code blocks, code spans and comments; lines keep their numbers."""
    lines = COMMENT.sub(lambda match: "\n" * match.group().count("\n"), text).split("\n")
    for kind, number, content in blocks(text):
        if kind == "code":
            lines[number - 1:number + 1 + len(content[1])] = [""] * len(lines[number - 1:number + 1 + len(content[1])])

    # A code span ends at the latest with its paragraph.
    paragraphs = re.split(r"(\n\s*\n)", "\n".join(lines))
    return "".join(CODE_SPAN.sub(lambda match: re.sub(r"[^\n]", " ", match.group()), part) for part in paragraphs)


def links(text):
    """(line number, target) of each link and picture of a page."""
    text = without_code(text)
    found, outer = [], text
    for match in LINK.finditer(text):
        found.append((match.start(2), match.group(2)))
        found += [(match.start(1) + inner.start(2), inner.group(2)) for inner in LINK.finditer(match.group(1))]
    found += [(match.start(1), match.group(1)) for pattern in (DEFINITION, HTML_LINK) for match in pattern.finditer(outer)]
    return sorted((text.count("\n", 0, position) + 1, target) for position, target in found)


# After these a sentence goes on, whatever follows.
ABBREVIATIONS = {"e.g", "i.e", "cf", "vs", "viz", "approx", "resp", "dr", "mr", "mrs", "prof", "st"}
# After these it goes on if a number follows.
BEFORE_NUMBERS = {"no", "nos", "fig", "figs", "vol", "ch", "p", "pp", "ca"}
# After these it goes on if a small letter or a number follows.
OFTEN_LAST = {"etc", "inc", "al", "u.s", "a.m", "p.m"}
END = re.compile(r"[.!?\u2026]+[)\]\"'\u201d\u2019*_]*(?=\s|$)")


def sentences(text):
    """The sentences of a paragraph, an item of a list or a cell of a table. A code span counts as one word."""
    text = CODE_SPAN.sub(lambda match: "`" + re.sub(r"[\s.!?]", "\u00b7", match.group(2)) + "`", text)
    text = re.sub(r"\s+", " ", visible_but_code(text)).strip()
    found, begin = [], 0
    for match in END.finditer(text):
        before = re.sub(r"^[(\[\"'*_\u201c]+", "", text[begin:match.start()].split(" ")[-1]).lower()
        after = text[match.end():].lstrip()
        marks = match.group()
        if marks == ".":
            if before in ABBREVIATIONS and after:
                continue
            if before in BEFORE_NUMBERS and after[:1].isdigit():
                continue
            if before in OFTEN_LAST and after and not after[0].isupper():
                continue
            if len(before) == 1 and before.isalpha() and before != "i" and after[:1].isupper() and text[match.start() - 1].isupper():
                continue  # an initial
            if before.isdigit() and match.start() - begin == len(before) and after:
                continue  # "1. " at the beginning
        if marks.startswith(("...", "\u2026")) and after and not after[0].isupper():
            continue
        found.append(text[begin:match.end()].strip())
        begin = match.end()
    if text[begin:].strip():
        found.append(text[begin:].strip())
    return found


def visible_but_code(text):
    """As visible(), but code spans keep their marks, which make a word of each."""
    return visible(CODE_SPAN.sub(lambda match: f"`` `{match.group(2)}` ``", text))


def words(sentence):
    return [word for word in sentence.split() if re.search(r"\w|`", word)]
