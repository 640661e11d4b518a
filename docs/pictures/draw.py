"""Draws the SVG pictures of the manual from the descriptions beside this file.

usage: draw.py [--check]

Each NAME.txt becomes NAME.svg. With --check nothing is written: the program fails if a description and its picture differ.
It needs nothing but Python. A picture has a light ground of its own, so that it is readable on white and on dark pages.

The first line of a description is its kind and its title, such as "sequence: ..." or "grid: ...". The second,
"about: ...", is the text for readers who do not see the picture. Empty lines and lines that begin with "--" are skipped.

sequence    actors: A | B | C       the columns
            A -> B: text            an arrow; with --> dashed, for an answer
            A: text                 a note on A's line
            phase: text             a band over all columns
grid        row: ..##               a row of tiles, from the top
            across: name | low | high, down: name | top | bottom        the axes
            box: left top width height | label                          a frame, measured in tiles
            legend: # | text        what a letter of the rows means
timeline    at: 10 | title | text           something written at a time from 0 to 100
            gone: 80 | title | text         the same, a deletion
            over: 10 80 | title | text      something that spans two times
            moment: 30 | title | line | ... a vertical line, and what a reader sees there
bars        series: A | B | C       the names of the bars of each group
            even: text              what stands at the line of 1, from which all bars begin
            bar: text | 368 | 0.1 | 1.2     a group: its name, and a factor for each series; the scale is logarithmic, from 0.01 to 1000
"""
import glob
import html
import math
import os
import re
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
WIDTH, MARGIN, LINE, LETTER = 760, 24, 17, 6.7     # pixels: picture, its edge, a line of text, a letter on average
GROUND, INK, FAINT, BLUE, PALE, YELLOW, GOLD, RED, ROSE = (
    "#fbfaf6", "#1f2a36", "#8a94a0", "#2f6690", "#dce8f2", "#fff3cc", "#b98b12", "#b3432b", "#f7ddd5")


class Picture:
    """Collects the elements of one SVG."""

    def __init__(self, title, about):
        self.title, self.about, self.parts = title, about, []

    def add(self, text):
        self.parts.append(text)

    def text(self, x, y, words, anchor="middle", color=INK, bold=False):
        weight = ' font-weight="bold"' if bold else ""
        self.add(f'<text x="{number(x)}" y="{number(y)}" text-anchor="{anchor}" fill="{color}"{weight}>{html.escape(words, quote=False)}</text>')

    def lines(self, x, y, texts, anchor="middle", **more):
        for i, words in enumerate(texts):
            self.text(x, y + i * LINE, words, anchor, **more)

    def box(self, x, y, width, height, fill, edge, radius=5):
        self.add(f'<rect x="{number(x)}" y="{number(y)}" width="{number(width)}" height="{number(height)}" rx="{radius}" fill="{fill}" stroke="{edge}"/>')

    def stroke(self, x1, y1, x2, y2, color=INK, dashes="", width=1.3):
        dashed = f' stroke-dasharray="{dashes}"' if dashes else ""
        self.add(f'<path d="M{number(x1)} {number(y1)}L{number(x2)} {number(y2)}" stroke="{color}" stroke-width="{width}"{dashed}/>')

    def head(self, x, y, way):
        self.add(f'<path d="M{number(x)} {number(y)}l{-9 * way} -4.5v9z" fill="{INK}"/>')

    def svg(self, height):
        names = html.escape(self.title, quote=False), html.escape(self.about, quote=False)
        return "\n".join([
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {number(height)}" width="{WIDTH}" height="{number(height)}" '
            'font-family="Helvetica, Arial, sans-serif" font-size="13" role="img">',
            f"<title>{names[0]}</title>", f"<desc>{names[1]}</desc>",
            f'<rect width="{WIDTH}" height="{number(height)}" rx="8" fill="{GROUND}"/>',
            *self.parts, "</svg>", ""])


def number(value):
    return f"{value:.1f}".rstrip("0").rstrip(".")


def wrapped(words, width):
    """Breaks a text into lines of at most that many pixels."""
    lines = [""]
    for word in words.split():
        if lines[-1] and (len(lines[-1]) + 1 + len(word)) * LETTER > width:
            lines.append("")
        lines[-1] = f"{lines[-1]} {word}".strip()
    return lines


def fields(text):
    return [part.strip() for part in text.split("|")]


def widest(lines):
    return max(len(line) for line in lines) * LETTER


# ---- Sequences ------------------------------------------------------------------------------------------------------

def sequence(picture, entries):
    actors = next(fields(text) for key, text in entries if key == "actors")
    step = (WIDTH - 2 * 90) / (len(actors) - 1)
    column = {actor: 90 + i * step for i, actor in enumerate(actors)}
    y, first = 64, len(picture.parts)
    for key, text in entries:
        if key == "actors":
            continue
        arrow = re.fullmatch(r"(.+?) (-->|->) (.+)", key)
        if key == "phase":
            y = phase(picture, y, text)
        elif arrow:
            y = message(picture, y, column[arrow[1]], column[arrow[3]], text, arrow[2] == "-->", step)
        else:
            y = note(picture, y, column[key], text, step)
    lifelines = Picture("", "")
    for actor, x in column.items():
        lifelines.stroke(x, 46, x, y, FAINT, "3 4", 1)
        width = len(actor) * LETTER * 1.1 + 24
        lifelines.box(x - width / 2, 18, width, 28, PALE, BLUE)
        lifelines.text(x, 37, actor, bold=True)
    picture.parts[first:first] = lifelines.parts
    return y + 14


def phase(picture, y, text):
    picture.box(MARGIN, y + 4, WIDTH - 2 * MARGIN, 24, "#ece9e0", "#ece9e0", 3)
    picture.text(WIDTH / 2, y + 20, text, color="#4c5663", bold=True)
    return y + 36


def message(picture, y, start, end, text, is_answer, step):
    lines = wrapped(text, max(abs(end - start), step) - 26)
    y += 4
    for i, words in enumerate(lines):
        y += LINE
        half = len(words) * LETTER / 2 + 3
        picture.add(f'<rect x="{number((start + end) / 2 - half)}" y="{y - 13}" width="{number(2 * half)}" height="{LINE}" fill="{GROUND}"/>')
        picture.text((start + end) / 2, y, words)
    y += 8
    way = 1 if end > start else -1
    picture.stroke(start, y, end - 8 * way, y, dashes="6 4" if is_answer else "")
    picture.head(end, y, way)
    return y + 6


def note(picture, y, x, text, step):
    lines = wrapped(text, max(step, 190) - 10)
    width = widest(lines) + 20
    left = min(max(x - width / 2, MARGIN), WIDTH - MARGIN - width)
    picture.box(left, y + 8, width, len(lines) * LINE + 10, YELLOW, GOLD)
    picture.lines(left + width / 2, y + 25, lines)
    return y + len(lines) * LINE + 22


# ---- Grids ----------------------------------------------------------------------------------------------------------

def grid(picture, entries):
    rows = [text for key, text in entries if key == "row"]
    side, left, top = 32, 84, 44
    wide, high = side * len(rows[0]), side * len(rows)
    colors = {"#": (YELLOW, GOLD), "+": (PALE, BLUE)}
    for r, row in enumerate(rows):
        for c, letter in enumerate(row):
            fill, edge = colors.get(letter, ("#f1efe8", "#cfd3d6"))
            picture.box(left + c * side + 1, top + r * side + 1, side - 2, side - 2, fill, edge, 2)
    x = left + wide + 24
    y = top + 12
    for key, text in entries:
        parts = fields(text)
        if key == "across":
            picture.text(left, top - 10, parts[1], "start", FAINT)
            picture.text(left + wide / 2, top - 10, parts[0])
            picture.text(left + wide, top - 10, parts[2], "end", FAINT)
        elif key == "down":
            picture.text(left - 10, top + 14, parts[1], "end", FAINT)
            picture.text(left - 10, top + high / 2, parts[0], "end")
            picture.text(left - 10, top + high - 4, parts[2], "end", FAINT)
        elif key == "legend":
            fill, edge = colors.get(parts[0], ("#f1efe8", "#cfd3d6"))
            picture.box(x, y, 16, 16, fill, edge, 2)
            lines = wrapped(parts[1], WIDTH - MARGIN - x - 24)
            picture.lines(x + 24, y + 13, lines, "start")
            y += len(lines) * LINE + 12
        elif key == "box":
            at_x, at_y, width, height = (float(value) * side for value in parts[0].split())
            picture.add(f'<rect x="{number(left + at_x)}" y="{number(top + at_y)}" width="{number(width)}" height="{number(height)}" '
                        f'fill="{RED}" fill-opacity="0.55" stroke="{RED}" stroke-width="2"/>')
            lines = wrapped(parts[1], WIDTH - MARGIN - x - 24)
            picture.add(f'<rect x="{x}" y="{number(y)}" width="16" height="16" fill="{RED}" fill-opacity="0.55" stroke="{RED}" stroke-width="2"/>')
            picture.lines(x + 24, y + 13, lines, "start")
            y += len(lines) * LINE + 12
    return top + high + 20


# ---- Timelines ------------------------------------------------------------------------------------------------------

def timeline(picture, entries):
    left, right = 60, WIDTH - 60

    def place(value):
        return left + (right - left) * float(value) / 100
    y, moments, marks = 22, [], []
    first = len(picture.parts)
    for key, text in entries:
        when, title, *rest = fields(text)
        if key == "moment":
            moments.append((place(when), title, rest))
            continue
        ends = [place(value) for value in when.split()]
        fill, edge = (ROSE, RED) if key == "gone" else (YELLOW, GOLD) if key == "over" else (PALE, BLUE)
        lines = [title, *rest]
        width = max(widest(lines) + 22, len(title) * LETTER * 1.15 + 22, ends[-1] - ends[0] + 12)
        x = min(ends[0] - 6, right + 36 - width)
        picture.box(x, y, width, len(lines) * LINE + 10, fill, edge)
        picture.text(x + 11, y + 17, title, "start", bold=True)
        picture.lines(x + 11, y + 17 + LINE, rest, "start")
        y += len(lines) * LINE + 20
        marks += [(end, y - 10) for end in ends]
    picture.stroke(left - 20, y, right + 30, y)
    picture.head(right + 38, y, 1)
    picture.text(right + 38, y + 20, "time", "end", FAINT)
    under = y
    behind = Picture("", "")
    tallest = 0
    for x, bottom in marks:
        behind.stroke(x, bottom, x, under, FAINT, "2 3", 1)
        picture.stroke(x, under - 4, x, under + 4)
    for x, title, lines in moments:
        behind.stroke(x, 12, x, under, RED, "5 4", 1.2)
        picture.add(f'<circle cx="{number(x)}" cy="{number(under)}" r="4" fill="{RED}"/>')
        picture.text(x, under + 24, title, color=RED, bold=True)
        picture.lines(x, under + 24 + LINE, lines)
        tallest = max(tallest, len(lines) + 1)
    picture.parts[first:first] = behind.parts
    return under + 24 + tallest * LINE


def bars(picture, entries):
    """Draws factors on a logarithmic scale. Returns the height."""
    values = dict(entry for entry in entries if entry[0] != "bar")
    names, groups = fields(values["series"]), [fields(text) for kind, text in entries if kind == "bar"]
    left, thick, tones = 190, 13, ((BLUE, INK), (GOLD, INK), (FAINT, INK))
    per_ten = (WIDTH - MARGIN - 50 - left) / 5      # from 0.01 to 1000

    def place(value):
        return left + (math.log10(value) + 2) * per_ten

    x = left
    for name, (tone, _) in zip(names, tones):
        picture.box(x, 22, 12, 12, tone, tone, 2)
        picture.text(x + 18, 32, name, "start")
        x += 18 + widest([name]) + 24
    y = 74
    end = y + len(groups) * (len(names) * thick + 14)
    for value in (0.01, 0.1, 1, 10, 100, 1000):
        picture.stroke(place(value), y - 8, place(value), end, INK if value == 1 else FAINT, "" if value == 1 else "2 4", 1)
        picture.text(place(value), y - 16, f"{value:g}", color=INK if value == 1 else FAINT)
    for name, *factors in groups:
        picture.text(left - 16, y + len(names) * thick / 2 + 3, name, "end")
        for factor, (tone, ink) in zip(map(float, factors), tones):
            low, high = sorted((place(1), place(factor)))
            picture.box(low, y, max(high - low, 1), thick - 3, tone, tone, 1)
            picture.text(high + 6 if factor >= 1 else low - 6, y + 9, f"{factor:g}", "start" if factor >= 1 else "end", ink)
            y += thick
        y += 14
    picture.text(place(1), end + 20, values["even"])
    return end + 34


KINDS = {"sequence": sequence, "grid": grid, "timeline": timeline, "bars": bars}


def drawn(path):
    """Returns the SVG of a description."""
    with open(path, encoding="utf-8") as file:
        lines = [line.strip() for line in file if line.strip() and not line.startswith("--")]
    entries = [tuple(part.strip() for part in line.split(": ", 1)) for line in lines]
    (kind, title), (about, description), *entries = entries
    if kind not in KINDS or about != "about":
        raise SystemExit(f"{path}: the first lines must be a kind ({', '.join(KINDS)}) with a title, and 'about: ...'")
    picture = Picture(title, description)
    return picture.svg(KINDS[kind](picture, entries))


def main():
    wrong = 0
    for path in sorted(glob.glob(os.path.join(HERE, "*.txt"))):
        target, made = path[:-4] + ".svg", drawn(path)
        old = None
        if os.path.exists(target):
            with open(target, encoding="utf-8") as file:
                old = file.read()
        if "--check" in sys.argv and old != made:
            print(f"{os.path.basename(target)} is not what {os.path.basename(path)} describes: run docs/pictures/draw.py")
            wrong += 1
        elif old != made:
            with open(target, "w", encoding="utf-8") as file:
                file.write(made)
            print(os.path.basename(target))
    return wrong != 0


if __name__ == "__main__":
    sys.exit(main())
