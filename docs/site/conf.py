"""The documentation as a web site: `./run docs` runs Sphinx with this file on README.md and docs/**/*.md.

The pages are plain Markdown as GitHub shows it. This file adds what a site needs besides: the navigation, and pages
for the files of the repository that a page links to.
"""
import glob
import html
import os
import shutil

from docutils import nodes
from sphinx import addnodes
from sphinx.util import logging
from sphinx.util.osutil import relative_uri

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))
project = "tessera"
html_title = "tessera"
copyright = "the authors of tessera, MIT license"
root_doc = "README"
include_patterns = ["README.md", "docs/**.md"]
exclude_patterns = ["build", ".git", ".ci", "core", "ext", "sql", "test"]

extensions = ["myst_parser"]
myst_heading_anchors = 6
myst_enable_extensions = ["html_image", "strikethrough"]
# MyST's additions to Markdown that GitHub would show as text.
myst_disable_syntax = ["myst_line_comment", "myst_block_break", "myst_target", "myst_role", "colon_fence"]
highlight_language = "text"
suppress_warnings = ["misc.highlighting_failure"]  # commands of the sqlite3 shell are no SQL

html_theme = "furo"
html_static_path = ["static"]
templates_path = ["templates"]
html_css_files = ["site.css"]
# The page of the demo is a part of the site if `./run browser` has built its package and its database. Then the examples of the manual have
# buttons that run them, and the site must be served over HTTP for that.
LIVE = os.path.join(ROOT, "build", "browser", "site")
html_js_files = ["run.js"] if os.path.exists(os.path.join(LIVE, "package", "tessera.wasm")) else []
html_copy_source = False
html_use_index = False
html_show_sphinx = False
html_show_search_summary = False  # summaries are fetched from a server, and the site works without one
pygments_style = "tango"

# The navigation: the caption of a group and its pages, each with its title there. Pages that match a pattern keep their
# own titles. A page that is on no list is reported by Sphinx, which then fails.
NAVIGATION = [
    ("Learn", ["Tutorial <docs/tutorial>", "Recipes <docs/recipes>", "Zonal statistics <docs/zonal-statistics>", "DataFrames <docs/dataframes>", "Command line <docs/command-line>", "In the browser <docs/in-the-browser>", "Other tools <docs/other-tools>"]),
    ("Look up", ["Reference <docs/reference/README>"]),
    ("Coming from", ["DuckDB <docs/coming-from/duckdb>", "MyTile <docs/coming-from/mytile>",
                     "PostGIS raster <docs/coming-from/postgis-raster>", "scanpy, bcftools <docs/coming-from/scanpy-and-bcftools>", "TileDB-Py <docs/coming-from/tiledb-py>",
                     "xarray <docs/coming-from/xarray>", "docs/coming-from/*"]),
    ("Understand", ["docs/explained/a-query", "docs/explained/queries", "docs/explained/fast-sql", "docs/explained/a-commit", "docs/explained/time-travel", "docs/explained/*",
                    "Performance <docs/performance>"]),
    ("Install and embed", ["Building <docs/building>", "Host languages <docs/hosts/README>", "Several processes <docs/cluster>", "Arrays in buckets <docs/object-stores>"]),
    ("Develop", ["Design <docs/design>", "Commits <docs/commits>", "File format <docs/format>", "Errata <docs/errata>",
                 "Testing <docs/testing>", "C API <docs/c-api>", "Glossary <docs/glossary>"]),
]
# Pages that the navigation shows below another page.
BELOW = {
    "docs/reference/README": [*(f"{page.capitalize()} <docs/reference/{page}>" for page in (
        "tables", "options", "types", "groups", "functions", "time", "writing", "transactions", "maintenance", "security", "errors", "limits",
        "caveats")), "docs/reference/[!R]*"],
    "docs/design": ["docs/decisions/*"],
    "docs/in-the-browser": ["docs/browser/README"],
}


def entries(pages):
    """The pages, with patterns replaced by the pages that match them and were not named before."""
    found, seen = [], set()
    for page in pages:
        name = page.split("<")[-1].rstrip(">")
        paths = sorted(glob.glob(os.path.join(ROOT, name + ".md")))
        for document in [os.path.relpath(path, ROOT)[:-3] for path in paths] if "*" in name else [name]:
            if document not in seen:
                seen.add(document)
                found.append(page.replace(name, "/" + document))
    return found


def toctree(caption, pages):
    lines = [f":caption: {caption}"] if caption else []
    return "\n".join(["\n```{toctree}", ":hidden:", *lines, "", *entries(pages), "```\n"])


def add_navigation(app, document, source):
    if document == root_doc:
        source[0] += "".join(toctree(caption, pages) for caption, pages in NAVIGATION)
    elif document in BELOW:
        source[0] += toctree(None, BELOW[document])


def link_files(app, tree):
    """Links to files and folders of the repository lead to pages that show them."""
    document = app.env.current_document.docname
    for node in [*tree.findall(addnodes.download_reference), *tree.findall(addnodes.pending_xref)]:
        target = node["reftarget"].split("#")[0]
        path = os.path.relpath(os.path.join(ROOT, os.path.dirname(document), target), ROOT)
        is_file = isinstance(node, addnodes.download_reference)
        if path.startswith("..") or not (is_file or not node.get("refdomain") and os.path.isdir(os.path.join(ROOT, path))):
            continue
        app.env.metadata[document].setdefault("files", []).append(path)
        uri = relative_uri(app.builder.get_target_uri(document), app.builder.get_target_uri("files/" + path))
        node.replace_self(nodes.reference("", "", *node.children, internal=True, refuri=uri))


def file_pages(app):
    """A page for each file that is linked to, and one for each folder, with links to its files."""
    logger = logging.getLogger(__name__)
    linked = {path for facts in app.env.metadata.values() for path in facts.get("files", [])}
    folders = {path for path in linked if os.path.isdir(os.path.join(ROOT, path))}
    for folder in folders:
        linked |= {os.path.join(folder, name) for name in os.listdir(os.path.join(ROOT, folder))
                   if os.path.isfile(os.path.join(ROOT, folder, name))}
    for path in sorted(linked):
        if path in folders:
            names = sorted(name for name in os.listdir(os.path.join(ROOT, path)) if os.path.join(path, name) in linked)
            here = app.builder.get_target_uri("files/" + path)
            links = [(relative_uri(here, app.builder.get_target_uri(f"files/{path}/{name}")), name) for name in names]
            body = "<ul>" + "".join(f'<li><a href="{uri}">{html.escape(name)}</a></li>' for uri, name in links) + "</ul>"
        else:
            try:
                with open(os.path.join(ROOT, path), encoding="utf-8") as f:
                    text = f.read()
            except UnicodeDecodeError:
                logger.warning("%s is linked to, but it is not text", path)
                continue
            language = {"sql": "sql", "py": "python", "c": "c", "h": "c", "js": "js", "go": "go", "rs": "rust",
                        "java": "java", "json": "json", "sh": "bash"}.get(path.rsplit(".", 1)[-1], "text")
            body = app.builder.highlighter.highlight_block(text, language, location=path)
        yield "files/" + path, {"title": path, "body": f"<h1>{html.escape(path)}</h1>\n{body}", "toc": "", "display_toc": False}, "page.html"
    yield "index", {"title": project}, "index.html"


def copy_page(app, exception):
    """Puts the page of the demo into the site, with the package and the database, if they are there."""
    if exception or not html_js_files:
        return
    place = os.path.join(app.outdir, "docs", "browser")
    for folder in [os.path.join(ROOT, "docs", "browser"), LIVE]:
        shutil.copytree(folder, place, dirs_exist_ok=True, ignore=shutil.ignore_patterns("*.md", "*.sql"))


def setup(app):
    app.connect("build-finished", copy_page)
    app.connect("source-read", add_navigation)
    app.connect("doctree-read", link_files, priority=100)
    app.connect("html-collect-pages", file_pages)
