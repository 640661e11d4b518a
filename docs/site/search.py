"""Makes the index of the site's search with Pagefind: `./run docs` runs it with the Python that has Pagefind.

usage: search.py SITE
Pagefind finds the sections of a page by headings with ids; Sphinx gives the ids to what is around the headings. So the index is made of a copy.
"""
import os
import re
import subprocess
import sys
import tempfile


def main():
    site = sys.argv[1]
    with tempfile.TemporaryDirectory() as copy:
        for folder, folders, names in os.walk(site):
            folders[:] = [name for name in folders if name not in ("files", "_static", "_sources", "_images", "browser", "pagefind")]
            for name in names:
                if not name.endswith(".html") or name in ("search.html", "404.html", "README.html") and folder == site:
                    continue
                with open(os.path.join(folder, name), encoding="utf-8") as f:
                    text = f.read()
                target = os.path.join(copy, os.path.relpath(folder, site), name)
                os.makedirs(os.path.dirname(target), exist_ok=True)
                with open(target, "w", encoding="utf-8") as f:
                    f.write(re.sub(r'<section id="([^"]+)">\s*<h([1-6])>', r'<section><h\2 id="\1">', text))
        subprocess.run([sys.executable, "-m", "pagefind", "--site", copy, "--output-path", os.path.join(site, "pagefind"), "--root-selector", "article",
                        "--exclude-selectors", ".headerlink", "--quiet"], check=True)


if __name__ == "__main__":
    main()
