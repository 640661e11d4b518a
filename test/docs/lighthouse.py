"""Lighthouse's four scores of pages of the built site: `./run docs check`.

usage: lighthouse.py SITE LIGHTHOUSE BROWSER [PAGE ...]
A server on this machine shows the site as a web server would, compressed. Each score must be at least 95 of 100. At last a page without a
title and a language proves that the check can fail.
"""
import functools
import gzip
import http.server
import json
import os
import subprocess
import sys
import threading

PAGES = ("index.html", "docs/install.html", "docs/start/sql.html", "docs/start/xarray.html", "docs/tutorial.html", "docs/get-data-in/README.html", "docs/cheat-sheet.html",
         "docs/faq.html", "docs/gallery.html", "docs/reference/README.html")
SCORES = ("performance", "accessibility", "best-practices", "seo")
LEAST = 95


class Handler(http.server.SimpleHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_GET(self):
        path = self.translate_path(self.path)
        path = os.path.join(path, "index.html") if os.path.isdir(path) else path
        if self.path == "/broken.html":
            body, kind = b"<html><body><img src=none.png><p style='color:#ccc'>no title", "text/html"
        elif os.path.exists(path):
            with open(path, "rb") as f:
                body, kind = f.read(), self.guess_type(path)
        else:
            self.send_error(404)
            return
        packed = kind.startswith("text/") or "javascript" in kind or "svg" in kind
        body = gzip.compress(body) if packed else body
        self.send_response(200)
        self.send_header("Content-Type", kind + ("; charset=utf-8" if packed else ""))
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "max-age=31536000")
        if packed:
            self.send_header("Content-Encoding", "gzip")
        self.end_headers()
        self.wfile.write(body)


def scores(lighthouse, browser, url):
    command = [lighthouse, url, "--quiet", "--output=json", f"--only-categories={','.join(SCORES)}", "--preset=desktop",
               "--chrome-flags=--headless=new --no-sandbox --disable-gpu --disable-dev-shm-usage"]
    result = subprocess.run(command, stdout=subprocess.PIPE, check=True, env=dict(os.environ, CHROME_PATH=browser))
    report = json.loads(result.stdout)
    faults = [audit["title"] for audit in report["audits"].values() if audit.get("score") is not None and audit["score"] < 0.9]
    return {name: round(100 * (report["categories"][name]["score"] or 0)) for name in SCORES}, faults


def main():
    site, lighthouse, browser, *pages = sys.argv[1:]
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Handler, directory=site))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    address = f"http://127.0.0.1:{server.server_address[1]}/"
    wrong = 0
    for page in pages or PAGES:
        found, faults = scores(lighthouse, browser, address + page)
        low = min(found.values()) < LEAST
        print(f"{page}: {', '.join(f'{name} {score}' for name, score in found.items())}{' -- ' + '; '.join(faults) if low else ''}", flush=True)
        wrong += low
    if min(scores(lighthouse, browser, address + "broken.html")[0].values()) >= LEAST:
        print("a page without title, language and contrast has good scores: the check does not work")
        wrong += 1
    return wrong != 0


if __name__ == "__main__":
    sys.exit(main())
