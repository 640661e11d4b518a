"""Every relative link of the documentation leads somewhere, and every page can be reached from README.md.

usage: links.py ROOT
Checks the Markdown of the root, docs/**/*.md, test/README.md and ext/**/README.md: the files and folders that they link to exist, under names of the same case, inside the
project; anchors name a heading of the page as GitHub makes them, or a line of a file (#L10). The pages in the navigation of the site, which
docs/site/conf.py lists, exist. First the test proves on pages of its own
that it finds each of these faults.
"""
import os
import posixpath
import re
import sys
import tempfile
import urllib.parse

import pages


def missing_case(root, path):
    """The name that exists instead if only the case of a path differs, "" if nothing exists, None if the path exists."""
    folder, right = root, []
    for name in path.split("/"):
        names = os.listdir(folder) if os.path.isdir(folder) else []
        same = [other for other in names if other.lower() == name.lower()]
        if not same:
            return ""
        right.append(name if name in same else same[0])
        folder = os.path.join(folder, right[-1])
    return None if right == path.split("/") else "/".join(right)


def check_link(root, page, target):
    """(the file that a link leads to, or None; what is wrong with it, or None)."""
    if re.match(r"[a-zA-Z][a-zA-Z0-9+.-]*:", target):
        return None, None if target.startswith(("https:", "http:", "mailto:")) else "a link of this kind works nowhere"
    name, _, anchor = target.partition("#")
    name = urllib.parse.unquote(name)
    if name.startswith("/"):
        return None, "the path begins with /, which is not the project's root everywhere"
    path = posixpath.normpath(posixpath.join(posixpath.dirname(page), name)) if name else page
    if path.split("/")[0] in ("..", "build"):
        return None, "it leads out of the project"
    other = missing_case(root, path) if path != "." else None
    if other is not None:
        return None, f"its name is {other}" if other else "no such file"
    if anchor and path.endswith(".md"):
        if urllib.parse.unquote(anchor) not in pages.anchors(pages.read(root, path)):
            return path, f"{path} has no heading for #{anchor}"
    elif anchor:
        line = re.fullmatch(r"L(\d+)(?:-L\d+)?", anchor)
        if not line or not os.path.isfile(os.path.join(root, path)) or int(line.group(1)) > pages.read(root, path).count("\n"):
            return path, f"{path} has no such line or anchor"
    return path, None


def check(root):
    """The faults of the documentation, and how many links it has."""
    faults, reached, waiting, count = [], {"README.md"}, ["README.md"], 0
    documents = pages.find(root, "README.md", "docs")
    leads = {}
    others = [name for name in sorted(os.listdir(root)) if name.endswith(".md") and name not in documents]
    others += [page for page in pages.find(root, "ext", "test/README.md") if os.path.basename(page).startswith("README")]
    for page in documents + others:
        found = pages.links(pages.read(root, page))
        count += len(found)
        leads[page] = set()
        for line, target in found:
            path, fault = check_link(root, page, target)
            if path and os.path.isdir(os.path.join(root, path)):
                path = posixpath.join(path, "README.md")
            leads[page].add(path)
            if fault:
                faults.append(f"{page}:{line}: ({target}): {fault}")
    while waiting:
        for path in leads[waiting.pop()]:
            if path in leads and path not in reached:
                reached.add(path)
                waiting.append(path)
    faults += [f"{page}: no chain of links leads there from README.md" for page in documents if page not in reached]
    faults += [f"{pages.SITE}: there is no page {page}.md" for page in navigation(root) if not os.path.isfile(os.path.join(root, page + ".md"))]
    return faults, count


def navigation(root):
    """The pages that the site's navigation names, without patterns."""
    groups, below = pages.navigation(root)
    entries = [entry for _, group in groups for entry in group] + [entry for group in below.values() for entry in group]
    return [*below, *(page for page in map(pages.page_of, entries) if "*" not in page)]


SOUND = """# One `code_span`, two!
[here](#one-code_span-two), [twice](#twice), [again](#twice-1), [a file](docs/data.txt#L2), [a folder](docs), [wrapped
over lines](docs/Page.md#deep), ![a picture](docs/data.txt "title"), `[code](nowhere)`, <https://example.org/nowhere>
```
[code](nowhere)
```
## Twice
## Twice
[definition]: docs/Page.md
"""
BROKEN = {
    "[a](docs/none.md)": "no such file",
    "[a](docs/page.md)": "its name is docs/Page.md",
    "[a](#nowhere)": "no heading for #nowhere",
    "[a](docs/Page.md#Deep)": "no heading for #Deep",
    "[a](docs/data.txt#L3)": "no such line",
    "[a](../outside.md)": "out of the project",
    "[a](/docs/Page.md)": "begins with /",
    "![a](docs/none.png)": "no such file",
    "[![a](docs/none.png)](docs/Page.md)": "no such file",
    "<img alt='' src=\"docs/none.svg\">": "no such file",
    "[a]: docs/none.md": "no such file",
    "text [a\nb](none) text": "README.md:12: (none): no such file",
    "[a](ftp://example.org)": "works nowhere",
}


def self_test():
    def faults_of(readme, **more):
        with tempfile.TemporaryDirectory() as root:
            for name, text in {"README.md": readme, "docs/Page.md": "## Deep\n", "docs/data.txt": "1\n2\n", **more}.items():
                os.makedirs(os.path.dirname(os.path.join(root, name)), exist_ok=True)
                with open(os.path.join(root, name), "w", encoding="utf-8") as f:
                    f.write(text)
            return check(root)[0]

    wrong = [f"self-test: sound pages have faults: {faults_of(SOUND)}"] if faults_of(SOUND) else []
    for text, fault in BROKEN.items():
        found = faults_of(SOUND + "\n" + text + "\n")
        if len(found) != 1 or fault not in found[0]:
            wrong.append(f"self-test: {text!r} should have the fault {fault!r}, but has {found}")
    lonely = faults_of(SOUND, **{"docs/a.md": "[b](b.md)", "docs/b.md": "[a](a.md)"})
    if len(lonely) != 2 or "no chain of links" not in lonely[0]:
        wrong.append(f"self-test: two pages that link only to each other: {lonely}")
    outside = faults_of(SOUND, **{"CHANGELOG.md": "[a](docs/none.md)"})
    if len(outside) != 1 or "CHANGELOG.md:1: (docs/none.md): no such file" not in outside[0]:
        wrong.append(f"self-test: a page beside README.md with a broken link has the faults {outside}")
    gone = faults_of(SOUND, **{pages.SITE: 'NAVIGATION = [("Start", ["Page <docs/Page>", "docs/gone/*"])]\nBELOW = {"docs/Page": [f"{name} <docs/{name}>" for name in ("data",)]}\n'})
    if gone != [f"{pages.SITE}: there is no page docs/data.md"]:
        wrong.append(f"self-test: a navigation to a page that is gone has the faults {gone}")
    return wrong


def main():
    faults, count = check(sys.argv[1])
    faults += self_test()
    print("\n".join([*faults, f"{count} links, {len(faults)} faults"]))
    return bool(faults) or not count


if __name__ == "__main__":
    sys.exit(main())
