"""Counts the words of the pages for users: README.md and docs, without what the site shows under Developers.

usage: words.py ROOT
A word has a letter or a digit. Each page with its words outside of its code blocks, and with them, the longest first; at last the sums.
"""
import glob
import os
import re
import sys

import pages


def below(root, entries, tree):
    """The pages of entries of the navigation, with those below them."""
    for entry in entries:
        for path in sorted(glob.glob(os.path.join(root, pages.page_of(entry) + ".md"))):
            page = os.path.relpath(path, root)
            yield page
            yield from below(root, tree.get(page[:-3], ()), tree)


def words(text):
    return len([word for word in text.split() if re.search(r"\w", word)])


def main():
    root = sys.argv[1]
    groups, tree = pages.navigation(root)
    developers = {page for caption, entries in groups if caption == "Developers" for page in below(root, entries, tree)}
    counts = []
    for page in pages.find(root, "README.md", "docs"):
        if page not in developers:
            text = pages.read(root, page)
            code = sum(words(line) for kind, _, content in pages.blocks(text) if kind == "code" for line in content[1])
            counts.append((words(text) - code, words(text), page))
    for outside, all_words, page in sorted(counts, reverse=True):
        print(f"{outside:6} {all_words:6} {page}")
    print(f"{sum(c[0] for c in counts):6} {sum(c[1] for c in counts):6} of {len(counts)} pages, {len(developers)} pages for developers not counted")


if __name__ == "__main__":
    main()
