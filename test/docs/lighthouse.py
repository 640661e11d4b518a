"""Lighthouse's four scores of pages of the built site: `./run docs check`.

usage: lighthouse.py SITE LIGHTHOUSE BROWSER [PAGE ...]
A server on this machine shows the site as a web server would, compressed. Each score must be at least 95 of 100.

Performance does not depend on what else the machine does. Lighthouse simulates the network from fixed figures, but it takes the durations of the
page's tasks from the clock. The trace also has their processor time: the ratio is the share of a core that the page had, and becomes the factor
by which Lighthouse multiplies durations (its cpuSlowdownMultiplier, which it recommends to calibrate for the machine). The time that the server
takes to answer is given, too. What is left of the load, such as the moments of the screenshots, can only lower a score: a page that is too slow is
measured again, at most TRIES times, and the best score counts.
At last a page without a title and a language, and one that computes for a second, prove that the check can fail.
"""
import functools
import gzip
import http.server
import json
import os
import subprocess
import sys
import tempfile
import threading

PAGES = ("index.html", "docs/install.html", "docs/start/sql.html", "docs/start/xarray.html", "docs/tutorial.html", "docs/get-data-in/README.html", "docs/cheat-sheet.html",
         "docs/faq.html", "docs/gallery.html", "docs/reference/README.html")
SCORES = ("performance", "accessibility", "best-practices", "seo")
LEAST = 95
TRIES = 4
ANSWER_MS = 10  # what a web server takes to answer, beside the network
BROKEN = {
    "/broken.html": b"<html><body><img src=none.png><p style='color:#ccc'>no title",
    "/slow.html": b"<!DOCTYPE html><html lang=en><meta name=viewport content='width=device-width'><title>Slow</title><p>It computes for long."
                  b"<script>for (let turn = 0, x = 0; turn < 5; turn++) setTimeout(() => { for (let i = 0; i < 1e7; i++) x = (x + i * i) % 7919; document.title = x; }, 50)</script>",
}


class Handler(http.server.SimpleHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_GET(self):
        path = self.translate_path(self.path)
        path = os.path.join(path, "index.html") if os.path.isdir(path) else path
        if self.path in BROKEN:
            body, kind = BROKEN[self.path], "text/html"
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


def share_of_a_core(trace):
    """The processor time of the page's main thread as a part of the time that its tasks took by the clock."""
    with open(trace, encoding="utf-8") as f:
        events = json.load(f)["traceEvents"]
    main = {(e["pid"], e["tid"]) for e in events if e["name"] == "thread_name" and e["args"]["name"] == "CrRendererMain"}
    tasks = [e for e in events if (e["pid"], e["tid"]) in main and e["name"].endswith("RunTask") and "tdur" in e]
    clock = sum(e["dur"] for e in tasks)
    return min(sum(e["tdur"] for e in tasks) / clock, 1) if clock else 1


def measure(lighthouse, browser, url):
    """Lighthouse's report of a page, and the share of a core that the page had: gathers, then audits as if the page had had a core for itself."""
    with tempfile.TemporaryDirectory() as folder:
        data, given = os.path.join(folder, "artifacts"), os.path.join(folder, "given.json")
        origin = url[:url.index("/", 8)]
        with open(given, "w", encoding="utf-8") as f:
            json.dump({"additionalRttByOrigin": {origin: 0}, "serverResponseTimeByOrigin": {origin: ANSWER_MS}}, f)
        command = [lighthouse, url, "--quiet", "--output=json", f"--only-categories={','.join(SCORES)}", "--preset=desktop", f"--precomputed-lantern-data-path={given}",
                   "--chrome-flags=--headless=new --no-sandbox --disable-gpu --disable-dev-shm-usage"]
        environment = dict(os.environ, CHROME_PATH=browser)
        for turn in range(TRIES):  # on a busy machine the browser may answer too late
            done = subprocess.run([*command, f"--gather-mode={data}"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment)
            if not done.returncode and os.path.exists(os.path.join(data, "trace.json")):
                break
        else:
            sys.exit(f"Lighthouse cannot load {url}: {done.stdout}")
        share = share_of_a_core(os.path.join(data, "trace.json"))
        with open(os.path.join(data, "artifacts.json"), encoding="utf-8") as f:
            artifacts = json.load(f)
        artifacts["settings"]["throttling"]["cpuSlowdownMultiplier"] = share
        with open(os.path.join(data, "artifacts.json"), "w", encoding="utf-8") as f:
            json.dump(artifacts, f)
        command += [f"--audit-mode={data}", f"--throttling.cpuSlowdownMultiplier={share}"]
        return json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True, env=environment).stdout), share


def scores(lighthouse, browser, url, tries=TRIES):
    """The scores of a page, what it lacks, and a remark if it was measured more than once."""
    best, remark = None, ""
    for turn in range(1, tries + 1):
        report, share = measure(lighthouse, browser, url)
        found = {name: round(100 * (report["categories"][name]["score"] or 0)) for name in SCORES}
        if not best or found["performance"] > best[0]["performance"]:
            best = found, [audit["title"] for audit in report["audits"].values() if audit.get("score") is not None and audit["score"] < 0.9]
        remark = f" (with {100 * share:.0f} % of a core{f', in turn {turn}' if turn > 1 else ''})"
        if best[0]["performance"] >= LEAST:
            break
    return *best, remark


def main():
    site, lighthouse, browser, *pages = sys.argv[1:]
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Handler, directory=site))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    address = f"http://127.0.0.1:{server.server_address[1]}/"
    wrong = 0
    for page in pages or PAGES:
        found, faults, remark = scores(lighthouse, browser, address + page)
        low = min(found.values()) < LEAST
        print(f"{page}: {', '.join(f'{name} {score}' for name, score in found.items())}{remark}{' -- ' + '; '.join(faults) if low else ''}", flush=True)
        wrong += low
    for page, lacking in (("broken.html", "accessibility"), ("slow.html", "performance")):
        found = scores(lighthouse, browser, address + page, 1)[0]
        if found[lacking] >= LEAST:
            print(f"{page} has {lacking} {found[lacking]}: the check does not work")
            wrong += 1
    return wrong != 0


if __name__ == "__main__":
    sys.exit(main())
