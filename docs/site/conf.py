"""The documentation as a web site: `./run docs` runs Sphinx with this file on README.md and docs/**/*.md.

The pages are plain Markdown as GitHub shows it. This file adds what a site needs besides: the navigation, and pages
for the files of the repository that a page links to.
"""
import ast
import glob
import html
import itertools
import os
import re
import shutil
import struct

from docutils import nodes
from sphinx import addnodes
from sphinx.util import logging
from sphinx.util.osutil import relative_uri

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))
project = "tessera"
html_title = "tessera"
copyright = "the authors of tessera, MIT license"
root_doc = "README"
# Where the site will be, such as https://example.org/tessera/. Previews of links need whole addresses, and so does the page for missing ones.
SITE = html_baseurl = os.environ.get("TESSERA_SITE", "")
include_patterns = ["README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md", "ext/npm/README.md", "ext/wasm/README.md", "test/README.md", "docs/**.md"]
exclude_patterns = ["build", ".git", ".ci", "core", "sql"]

extensions = ["myst_parser", "sphinx_copybutton"]
copybutton_selector = "div:not(.highlight-text) > div.highlight pre"  # what is printed is not copied
myst_heading_anchors = 6
myst_enable_extensions = ["html_image", "strikethrough"]
# MyST's additions to Markdown that GitHub would show as text.
myst_disable_syntax = ["myst_line_comment", "myst_block_break", "myst_target", "myst_role", "colon_fence"]
smartquotes = False  # calls in docstrings have straight ones
highlight_language = "text"
suppress_warnings = ["misc.highlighting_failure"]  # commands of the sqlite3 shell are no SQL

html_theme = "furo"
html_static_path = ["static"]
templates_path = ["templates"]
html_css_files = ["site.css"]
html_theme_options = {"source_repository": "", "top_of_page_buttons": []}
# The page of the demo is a part of the site if `./run browser` has built its package and its database. Then the examples of the manual have
# buttons that run them, and the site must be served over HTTP for that.
LIVE = os.path.join(ROOT, "build", "browser", "site")
html_js_files = ["run.js"] if os.path.exists(os.path.join(LIVE, "package", "tessera.wasm")) else []
html_copy_source = False
html_use_index = False
html_show_sphinx = False
html_show_search_summary = False  # summaries are fetched from a server, and the site works without one
pygments_style = "a11y-high-contrast-light"
pygments_dark_style = "github-dark"
html_favicon = "static/tessera.svg"

# The navigation: the caption of a group and its pages, each with its title there. Pages that match a pattern keep their
# own titles. A page that is on no list is reported by Sphinx, which then fails.
NAVIGATION = [
    ("Start", ["Install <docs/install>", "Quickstart: SQL <docs/start/sql>", "Quickstart: xarray, pandas <docs/start/xarray>", "Quickstart: web, Node <docs/start/web>",
               "Quickstart: cells, variants <docs/start/soma-and-vcf>", "Tutorial <docs/tutorial>", "Tutorial: make arrays <docs/tutorial-write>", "Cheat sheet <docs/cheat-sheet>"]),
    ("Guides", ["Get data in <docs/get-data-in/README>", "Get data out <docs/get-data-out>", "Slice by labels and time <docs/guides/slice>", "Join <docs/guides/join>", "Zonal statistics <docs/guides/zonal-statistics>", "Rolling means, neighborhoods <docs/guides/rolling-and-neighbourhood>", "Plots and maps <docs/guides/plots-and-maps>", "Write and undo <docs/guides/write>", "Aggregate fast <docs/explained/fast-sql>", "Time travel <docs/explained/time-travel>", "What changed <docs/guides/what-changed>",
                "Python <docs/dataframes>", "Arrays in Python <docs/arrays-in-python>", "Datasets <docs/datasets>", "Command line <docs/command-line>", "In the browser <docs/in-the-browser>", "Upkeep <docs/guides/upkeep>", "Deploy on a server <docs/guides/server>",
                "Buckets <docs/object-stores>", "Several processes <docs/cluster>",
                "Other tools <docs/other-tools>", "How do I ...? <docs/recipes>"]),
    ("Look up", ["Reference <docs/reference/README>", "Questions and answers <docs/faq>", "Glossary <docs/words>", "Gallery <docs/gallery>", "Compare <docs/compare>"]),
    ("Coming from", ["DuckDB <docs/coming-from/duckdb>", "MyTile <docs/coming-from/mytile>",
                     "PostGIS raster <docs/coming-from/postgis-raster>", "scanpy, bcftools <docs/coming-from/scanpy-and-bcftools>", "TileDB-Py <docs/coming-from/tiledb-py>",
                     "xarray <docs/coming-from/xarray>", "docs/coming-from/*"]),
    ("Concepts", ["docs/explained/a-query", "docs/explained/queries", "docs/explained/query-rules", "docs/explained/a-commit", "docs/explained/*", "Performance <docs/performance>"]),
    ("Developers", ["Build, platforms <docs/building>", "Host languages <docs/hosts/README>", "The demo page <docs/browser/README>", "C API <docs/c-api>", "Design <docs/design>", "Commits <docs/commits>",
                    "File format <docs/format>", "Errata <docs/errata>", "Performance notes <docs/performance-notes>", "Requests to buckets <docs/bucket-requests>", "How it is tested <docs/how-it-is-tested>", "Tests <test/README>", "Glossary of the code <docs/glossary>", "Contributing <CONTRIBUTING>", "Security <SECURITY>", "Changelog <CHANGELOG>"]),
]
# Pages that the navigation shows below another page.
BELOW = {
    "docs/reference/README": [*(f"{page.replace('-', ' ').capitalize()} <docs/reference/{page}>" for page in (
        "tables", "labels", "pushdown", "tables-about-arrays", "tables-about-storage", "tables-about-work", "options", "new-arrays", "types", "comparing", "groups", "plain-sql", "python", "python-classes",
        "functions", "time", "writing", "transactions", "maintenance", "buckets", "security", "errors", "limits", "caveats")), "docs/reference/[!R]*"],
    "docs/reference/functions": [f"{title} <docs/reference/functions/{page}>" for title, page in (
        ("Compute over cells", "computing"), ("Blocks", "blocks"), ("Pictures", "pictures"), ("Arrow streams", "arrow"), ("Arrays from data", "create"),
        ("How rows become an array", "from-rows"), ("Schema, metadata", "schema"), ("Groups, deleting", "members"), ("Maintenance", "merging"),
        ("Copies, earlier states", "copies"), ("Hidden tables", "hidden-tables"), ("Keys and bounds", "access"), ("Miscellaneous", "miscellaneous"))],
    "docs/recipes": [f"{title} <docs/recipes/{page}>" for title, page in (
        ("Climate, weather", "climate"), ("Genomes, cells", "genomes"), ("Points, maps", "maps"), ("Writing, describing", "writing-and-describing"))],
    "docs/design": ["Six ways through the folders <docs/design-paths>", "The engine <docs/design-engine>", "docs/decisions/*"],
    "docs/commits": ["Beside merges, other writers <docs/commits-beside-merges>"],
    "docs/format": ["Schemas, metadata, groups <docs/format-schema>", "Commits, deletes <docs/format-commits>", "Fragments <docs/format-fragments>"],
    "docs/errata": ["Statistics, orders, filters <docs/errata-values>", "Names, order, conditions <docs/errata-more>"],
    "docs/performance-notes": ["Queries <docs/performance-workloads>", "Buckets, data, changes <docs/performance-data>", "First reads, filters <docs/performance-first-reads>", "The engine <docs/performance-engine>"],
    "docs/in-the-browser": ["Package for browsers <ext/wasm/README>"],
    "docs/start/web": ["Package for Node <ext/npm/README>"],
    "docs/get-data-in/README": [f"{title} <docs/get-data-in/{page}>" for title, page in (
        ("CSV", "csv"), ("DataFrames", "from-dataframes"), ("Parquet", "parquet"), ("NetCDF, Zarr", "netcdf"), ("GeoTIFF", "geotiff"), ("numpy", "numpy"),
        ("Single cells", "single-cells"), ("Variants", "variants"), ("Point clouds", "point-clouds"))],
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


PACKAGE = os.path.join(ROOT, "ext", "python", "tessera")


def signature(node):
    """How a function or method is called, without types."""
    for argument in [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs, node.args.vararg, node.args.kwarg]:
        if argument:
            argument.annotation = None
    words = ast.unparse(node.args)
    return re.sub(r"^self(, )?", "", words)


CLASSES = ("Array", "Result")  # which have a page of their own
MODULES = ("loading", "connections", "making", "arrays", "results")  # whose docstrings come first


def python_reference(classes):
    """The docstrings of the Python package as Markdown: what tessera.__all__ names, module by module; of CLASSES, or of all others."""
    with open(os.path.join(PACKAGE, "__init__.py"), encoding="utf-8") as f:
        package = ast.parse(f.read())
    listed = next(ast.literal_eval(node.value) for node in package.body if isinstance(node, ast.Assign) and node.targets[0].id == "__all__")
    lines, errors, unseen = [], [], set(listed)
    modules = {node.module for node in package.body if isinstance(node, ast.ImportFrom) and node.level and node.module}
    for module in sorted(modules, key=lambda name: (MODULES.index(name) if name in MODULES else len(MODULES), name)):
        with open(os.path.join(PACKAGE, module + ".py"), encoding="utf-8") as f:
            nodes_of = {node.name: node for node in ast.parse(f.read()).body if isinstance(node, (ast.FunctionDef, ast.ClassDef))}
        for name in [name for name in nodes_of if name in unseen]:
            node = nodes_of[name]
            unseen.remove(name)
            text = ast.get_docstring(node) or ""
            if (name in CLASSES) != classes:
                continue
            if module == "errors":
                errors.append(f"| `tessera.{name}` | {' '.join(text.split())} |")
                continue
            lines += [f"## {name}", *([f"```python\ntessera.{name}({signature(node)})\n```"] if isinstance(node, ast.FunctionDef) else []), text]
            for method in node.body if isinstance(node, ast.ClassDef) else ():
                if isinstance(method, ast.FunctionDef) and not method.name.startswith("_") and ast.get_docstring(method):
                    is_property = any(getattr(d, "id", getattr(d, "attr", "")) in ("property", "cached_property") for d in method.decorator_list)
                    call = f"{name}.{method.name}" + ("" if is_property else f"({signature(method)})")
                    lines += [f"### `{call}`", ast.get_docstring(method)]
    assert not unseen, f"docstrings of {unseen} were not found"
    table = "\n".join(["\n\n## Errors\n", "| class | when |", "|---|---|", *errors]) if errors else ""
    return "\n\n" + "\n\n".join(lines) + table + "\n"


def add_navigation(app, document, source):
    if document in ("docs/reference/python", "docs/reference/python-classes"):
        source[0] += python_reference(document.endswith("classes"))
    if document == root_doc:
        source[0] += "".join(toctree(caption, pages) for caption, pages in NAVIGATION)
    elif document in BELOW:
        source[0] += toctree(None, BELOW[document])


def describe(app, page, template, context, tree):
    """Tells search engines, and programs that show a preview of a link, what a page is about: its first paragraph. Adds site.js in the head, where it
    can delay the first rendering until there are tabs, so that nothing moves afterwards."""
    first = next((p.astext() for p in tree.findall(nodes.paragraph) if len(p.astext()) > 40), project) if tree else project
    text = html.escape(" ".join(first.split())[:200], quote=True)
    title = html.escape(context.get("title") or project, quote=True)
    image = (SITE or "../" * page.count("/")) + "_images/relief.png"
    context["metatags"] = context.get("metatags", "") + (
        f'<meta name="description" content="{text}">\n<meta property="og:title" content="{title}">\n<meta property="og:type" content="article">\n'
        f'<meta property="og:description" content="{text}">\n<meta property="og:image" content="{image}">\n<meta name="twitter:card" content="summary_large_image">\n')
    if SITE:
        context["metatags"] += f'<meta property="og:url" content="{SITE}{app.builder.get_target_uri(page)}">\n' + (f'<base href="{SITE}">\n' if page == "404" else "")
    context["metatags"] += f'<script defer blocking="render" src="{context["pathto"]("_static/site.js", 1)}"></script>\n'


def size_of(path):
    """Width and height of a PNG file; None of others."""
    with open(path, "rb") as f:
        head = f.read(24)
    return struct.unpack(">II", head[16:24]) if head[1:4] == b"PNG" else None


def size_images(app, page, template, context, tree):
    """Gives pictures their sizes, so that the text does not move when they arrive. The first of a page is fetched early, the others when they come into view."""
    files, count = {name: os.path.join(app.srcdir, path) for path, name in app.builder.images.items()}, itertools.count()

    def with_size(match):
        size = size_of(files[match[2]]) if match[2] in files else None
        return match[1] + (f' width="{size[0]}" height="{size[1]}"' if size else "") + (' fetchpriority="high"' if next(count) == 0 else ' loading="lazy"')

    if context.get("body"):
        context["body"] = re.sub(r'(<img [^>]*?src="[^"]*_images/([^"]+)")', with_size, context["body"])


def name_links(app, tree, page):
    """A link whose text is the name of a page's file says the page's title."""
    for node in tree.findall(nodes.reference):
        if not node.get("internal") or not node.astext().endswith(".md") or " " in node.astext():
            continue
        target = os.path.normpath(os.path.join(os.path.dirname(page), node.get("refuri", "").split("#")[0])).removesuffix(".html")
        if target in app.env.titles:
            node.children = [nodes.Text(app.env.titles[target].astext())]


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
    yield "404", {"title": "There is no such page", "body": MISSING, "toc": "", "display_toc": False}, "page.html"


MISSING = """<h1>There is no such page</h1>
<p>Perhaps it has moved. The <a href="index.html">first page</a> leads to all others, and the search finds each section.</p>"""


def make_index(app, exception):
    """The first page has the name that servers look for."""
    if not exception:
        shutil.copyfile(os.path.join(app.outdir, "README.html"), os.path.join(app.outdir, "index.html"))


def copy_page(app, exception):
    """Puts the page of the demo into the site, with the package and the database, if they are there."""
    if exception or "run.js" not in html_js_files:
        return
    place = os.path.join(app.outdir, "docs", "browser")
    for folder in [os.path.join(ROOT, "docs", "browser"), LIVE]:
        shutil.copytree(folder, place, dirs_exist_ok=True, ignore=shutil.ignore_patterns("*.md", "*.sql"))
    shutil.copy(os.path.join(ROOT, "sql", "data", "airports.csv"), place)  # examples load it


def mark_statements(app, doctree):
    """What has no language on GitHub is what an example prints, but also a statement that no test runs. On a phone such lines break, as those of
    other code do; tables, pictures and rows of a DataFrame keep theirs."""
    for block in doctree.findall(nodes.literal_block):
        if re.match(r"(SELECT|CREATE|INSERT|CASE|QUERY PLAN|tessera|statement|weather)\b|[\[({]", block.astext()):
            block["classes"].append("breaks")


def setup(app):
    app.connect("build-finished", make_index)
    app.connect("build-finished", copy_page)
    app.connect("html-page-context", describe)
    app.connect("html-page-context", size_images)
    app.connect("doctree-resolved", name_links)
    app.connect("source-read", add_navigation)
    app.connect("doctree-read", link_files, priority=100)
    app.connect("doctree-read", mark_statements)
    app.connect("html-collect-pages", file_pages)
