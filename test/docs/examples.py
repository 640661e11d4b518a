"""Runs the SQL examples of a document, in the order in which they stand, in one session of the sqlite3 shell.

usage: examples.py SHELL EXTENSION DOCUMENT [--accept]
The session runs in a directory that looks like the project's root (see ../sql/run.py). What it prints must equal
NAME.expected beside this file, where each example stands under its heading; what differs from run to run (times, names of fragments)
is replaced. With --accept that file is written instead. Where a document shows an example's output, as a block without a language
right behind it, that must be what the example prints. Where it shows a picture of pictures/gallery, that must have the pixels of the one that the
session writes under this name.
"""
import os
import re
import struct
import sys
import zlib

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "sql"))
import run

BLOCK = re.compile(r"^( *)```(\w*)\n(.*?)^\1```\n", re.M | re.S)


def examples(text, language="sql"):
    """(title, code, the output that is shown or None) of each example."""
    found = []
    blocks = list(BLOCK.finditer(text))
    for i, block in enumerate(blocks):
        if block.group(2) != language:
            continue
        headings = re.findall(r"^#+ (.*)$", re.sub(BLOCK, "", text[: block.start()]), re.M)
        title = headings[-1] if headings else ""
        follower = blocks[i + 1] if i + 1 < len(blocks) else None
        shown = follower.group(3) if follower and not follower.group(2) and follower.start() == block.end() else None
        found.append((title, re.sub(rf"^{block.group(1)}", "", block.group(3), flags=re.M), shown))
    return found


def wrong_outputs(page, found, printed):
    """The number of blocks (title, code, what the page shows or None) that have printed something else than the page shows. Says which."""
    wrong = 0
    for (title, _, shown), output in zip(found, printed):
        if shown is not None and shown != output:
            print(f"{page}: {title}: the page shows\n{shown}but it prints\n{output}")
            wrong += 1
    return wrong


def steady(output):
    output = re.sub(r"__\d+_\d+_[0-9a-f]{32}(_\d+)?", "__FRAGMENT", output)
    output = re.sub(r"^\d{4,6}$", "SIZE", output, flags=re.M)   # of a compressed picture
    return re.sub(r"\b1[6-9]\d{11}\b", "MILLISECONDS", output)


def unpacked(png):
    """The chunks of a PNG file, the pixels decompressed: the compressed bytes differ between releases of zlib."""
    chunks, at = {}, 8
    while at < len(png):
        size, kind = struct.unpack(">I4s", png[at:at + 8])
        chunks[kind] = chunks.get(kind, b"") + png[at + 8:at + 8 + size]
        at += 12 + size
    return {**chunks, b"IDAT": zlib.decompress(chunks[b"IDAT"])} if chunks else None


def wrong_pictures(document, text, made, accept):
    """The number of pictures that a document shows and the session did not make."""
    wrong = 0
    for link in re.findall(r"\]\(((?:\.\./)*pictures/gallery/[\w-]+\.png)\)", text):
        path, name = os.path.join(os.path.dirname(document), link), os.path.basename(link)
        if accept and name in made:
            with open(path, "wb") as f:
                f.write(made[name])
        with open(path, "rb") as f:
            if name not in made or unpacked(made[name]) != unpacked(f.read()):
                print(f"{document}: {name} is not the picture that the example draws" if name in made else f"{document}: no example writes {name}")
                wrong += 1
    return wrong


def main():
    shell, extension, document = sys.argv[1:4]
    with open(document, encoding="utf-8") as f:
        text = f.read()
    found, pictures = examples(text), {}
    marks = [f"---- {i}. {title}" for i, (title, _, _) in enumerate(found, 1)]
    script = "".join(f".print '{mark}'\n{sql}\n" for mark, (_, sql, _) in zip(marks, found))
    output = run.run_text(shell, extension, script, "/nonexistent", pictures, demo=True)
    name = os.path.splitext(os.path.basename(document))[0]
    expected_file = os.path.join(os.path.dirname(os.path.abspath(__file__)), name + ".expected")
    wrong = wrong_pictures(document, text, pictures, "--accept" in sys.argv)
    for i, (mark, (_, _, shown)) in enumerate(zip(marks, found)):
        printed = output.split(mark + "\n", 1)[-1].split(marks[i + 1] + "\n")[0] if i + 1 < len(marks) else output.split(mark + "\n", 1)[-1]
        if shown is not None and printed != shown:
            print(f"{document}: {mark}: the document shows\n{shown}but it prints\n{printed}")
            wrong += 1
    output = steady(output)
    if "--accept" in sys.argv:
        with open(expected_file, "w", encoding="utf-8") as f:
            f.write(output)
    else:
        wrong += not run.same(document, output, expected_file)
    print(f"{len(found)} examples, {wrong} wrong")
    return wrong != 0 or not found


if __name__ == "__main__":
    sys.exit(main())
