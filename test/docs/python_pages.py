"""Runs the Python of the manual's pages, each in a folder of its own with the package and the demo arrays, and compares what is printed.

usage: python_pages.py EXTENSION PAGE ...
The blocks of a page are one program. If the page has SQL, the sqlite3 shell runs that first, in the same folder, with the database to which
the page connects. Where a block without a language stands right behind one, that must be what it prints. A page that needs a library which is
not installed is left out, and the test says so; if all are, the exit code is 77, which ctest takes for "skipped".
"""
import contextlib
import io
import os
import re
import shutil
import subprocess
import sys
import tempfile
import traceback

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.append(os.path.join(HERE, "..", "interop"))
import examples
import package


def run_page(page, extension):
    """What each Python block of the page prints. Raises ImportError for a library that is missing."""
    with open(page, encoding="utf-8") as f:
        text = f.read()
    found, statements = examples.examples(text, "python"), "".join(sql for _, sql, _ in examples.examples(text))
    printed, names, before = [], {"__name__": "__main__"}, os.getcwd()
    with tempfile.TemporaryDirectory() as place:
        os.makedirs(os.path.join(place, "page"))
        os.chdir(os.path.join(place, "page"))
        if "tessera" not in sys.modules:
            package.install(os.path.join(tempfile.mkdtemp(prefix="tessera-pages-"), "package"), extension)
        import tessera
        tessera.demo()
        try:
            if statements:
                os.symlink(extension, "tessera" + os.path.splitext(extension)[1])
                database = re.search(r'connect\("([\w-]+\.db)"\)', text) or [text, "page.db"]
                shell = [shutil.which("sqlite3"), "-batch", "-init", os.devnull, database[1]]
                subprocess.run(shell, input=statements.encode(), stdout=subprocess.DEVNULL, check=True)
                os.remove("tessera" + os.path.splitext(extension)[1])   # Python would import it
            for title, code, _ in found:
                with contextlib.redirect_stdout(io.StringIO()) as output:
                    exec(compile(code, f"{os.path.basename(page)}: {title}", "exec"), names)
                printed.append(output.getvalue())
        finally:
            os.chdir(before)
    return printed


def check(page, extension):
    """The number of faults of a page; None if it was left out."""
    try:
        printed = run_page(page, extension)
    except ImportError as e:
        print(f"SKIPPED: {page}: {e}")
        return None
    except Exception:
        print(f"{page}:\n{traceback.format_exc()}")
        return 1
    with open(page, encoding="utf-8") as f:
        found = examples.examples(f.read(), "python")
    return examples.wrong_outputs(page, found, printed) + (not found)


def main():
    extension, pages = os.path.abspath(sys.argv[1]), [os.path.abspath(p) for p in sys.argv[2:]]
    if len(pages) > 1:   # one process a page: what one imports and opens is not there for the next
        results = [subprocess.run([sys.executable, __file__, extension, page]).returncode for page in pages]
        print(f"{len(pages)} pages: {results.count(1)} wrong, {results.count(77)} left out")
        return 1 if any(r not in (0, 77) for r in results) else 77 if all(results) else 0
    faults = check(pages[0], extension)
    return 77 if faults is None else 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
