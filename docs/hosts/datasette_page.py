"""Datasette: a page of the relief, opened in a real browser without a window. usage: datasette_page.py EXTENSION DATA BROWSER FOLDER

Datasette serves a database whose tables are arrays; the browser opens a page of its own and what the page shows is printed. FOLDER
gets the database, and a picture of the page.
"""
import html
import os
import re
import signal
import socket
import sqlite3
import subprocess
import sys
import tempfile
import time
import urllib.parse
import urllib.request

QUERY = """SELECT a.iata, a.name, r.elevation FROM airports a
  JOIN relief r ON r.y = CAST(a.lat * 3 + 270 AS INTEGER) - 270 AND r.x = CAST(a.lon * 3 + 540 AS INTEGER) - 540
 WHERE r.elevation > 3000 ORDER BY r.elevation DESC"""
SLICE = "SELECT y, x, elevation FROM relief WHERE y BETWEEN 0 AND 89 AND x BETWEEN -20 AND 69 ORDER BY elevation DESC LIMIT 5"


def make_database(extension, data, path):
    db = sqlite3.connect(path)
    db.enable_load_extension(True)
    db.load_extension(extension)
    for name in ("relief", "airports"):
        db.execute(f"CREATE VIRTUAL TABLE IF NOT EXISTS {name} USING tessera('{data}/{name}')")
    db.commit()
    db.close()


def browse(browser, url, folder):
    """The page as the browser has it after its scripts, and a picture."""
    quiet = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update",
             "--disable-sync", "--disable-dev-shm-usage", "--timeout=60000"]
    pages = []
    for what in ("--dump-dom", f"--screenshot={folder}/page.png"):
        with tempfile.TemporaryDirectory() as profile:
            result = subprocess.run([browser, *quiet, f"--user-data-dir={profile}", "--window-size=1200,900", what, url], capture_output=True, text=True, timeout=300)
            if result.returncode:
                sys.exit(f"{browser} ended with {result.returncode}: {result.stderr[-2000:]}")
            pages.append(result.stdout)
    return pages[0]


def rows_of(page):
    """The cells of the table's rows, as text; - for an empty one."""
    rows = re.findall(r"<tr>(.*?)</tr>", page, re.S)
    cells = [[html.unescape(re.sub(r"<[^>]*>", "", c)).strip() or "-" for c in re.findall(r"<td[^>]*>(.*?)</td>", row, re.S)] for row in rows]
    return [" ".join(row) for row in cells if row]


def main():
    extension, data, browser, folder = sys.argv[1:5]
    database = os.path.join(folder, "earth.db")
    make_database(os.path.abspath(extension), os.path.abspath(data), database)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with open(os.path.join(folder, "datasette.log"), "w", encoding="utf-8") as log:
        server = subprocess.Popen([os.path.join(os.path.dirname(sys.executable), "datasette"), "serve", database, "--host", "127.0.0.1", "--port", str(port),
                                   "--load-extension", os.path.abspath(extension), "--setting", "sql_time_limit_ms", "20000"], stdout=log, stderr=log)
    try:
        for _ in range(600):
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{port}/-/versions.json", timeout=60).read()
                break
            except OSError:
                if server.poll() is not None:
                    sys.exit(f"datasette ended with {server.returncode}: {open(os.path.join(folder, 'datasette.log')).read()[-2000:]}")
                time.sleep(0.2)
        page = browse(browser, f"http://127.0.0.1:{port}/earth?" + urllib.parse.urlencode({"sql": SLICE}), folder)
        print("a page of the relief:")
        print("\n".join(rows_of(page)) or page[:3000])
        page = browse(browser, f"http://127.0.0.1:{port}/earth?" + urllib.parse.urlencode({"sql": QUERY}), folder)
        print("joined with the airports:")
        print("\n".join(rows_of(page)) or page[:3000])
        # The page of a table selects the rowid and all columns by their names, the hidden ones too.
        page = browse(browser, f"http://127.0.0.1:{port}/earth/airports?iata__exact=ASE", folder)
        print("the page of the table of airports:")
        print("\n".join(rows_of(page)) or page[:3000])
    finally:
        server.send_signal(signal.SIGINT)
        server.wait(30)


if __name__ == "__main__":
    main()
