"""The built site in a browser: `./run docs check`.

usage: browser.py SITE BROWSER [FOLDER FOR PICTURES [PAGE ...]]
Opens each page of the site in Chromium without a window, from its file, at the width of a desktop and of a phone. A page must have no
messages of errors on the console, no broken pictures, and nothing that makes it scroll sideways; on a phone, lines of code break. One for users has at most six screens. Its
links must lead to pages and anchors that exist. The search must find `tessera_png`. On the first page each example has a button that copies it, and a chosen tab stays chosen.
With a folder, it gets pictures of the given pages at both widths.
The page of the demo, if the site has it, works only over HTTP, so a server on this machine shows it.
At last a broken page proves that these faults are found.
"""
import base64
import functools
import http.server
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import threading
import time
import urllib.parse

WIDTHS = {"desktop": (1280, 900, False), "phone": (390, 844, True)}
QUERY = "tessera_png"
SERVED = "docs/browser/index.html" # the page of the demo
SCREENS = 6  # of a desktop, that a page for users may take
SHORT = tuple(f"docs/{name}" for name in ("start/", "guides/", "get-data", "reference/", "explained/", "recipes", "coming-from/", "tutorial", "dataframes", "arrays-in", "datasets", "gallery", "faq", "broken"))
READY = "document.documentElement.dataset.opened !== undefined"
# Pictures that the page loads when they come into view are loaded now.
LOAD = """Promise.all([...document.images].map((image) => {
  image.loading = 'eager';
  return image.complete || new Promise((resolve) => { image.onload = image.onerror = resolve; });
})).then(() => true)"""
LOOK = """(() => ({
  width: document.documentElement.scrollWidth, height: document.documentElement.scrollHeight,
  wide: [...document.querySelectorAll('article *')].filter(e => e.getBoundingClientRect().right > %d && !e.closest('.table-wrapper, pre'))
    .slice(0, 3).map(e => e.outerHTML.slice(0, 100)),
  code: [...document.querySelectorAll('article .highlight pre')].filter(e => (!e.closest('.highlight-text') || e.closest('.breaks')) && e.scrollWidth > e.clientWidth + 1)
    .slice(0, 3).map(e => e.textContent.slice(0, 60)),
  broken: [...document.images].filter(i => !i.complete || !i.naturalWidth).map(i => i.currentSrc || i.src),
  links: [...document.querySelectorAll('a[href]')].map(a => a.href),
  ids: [...document.querySelectorAll('[id]')].map(e => e.id),
}))()"""


class Browser:
    """Chromium, driven by the DevTools protocol over two pipes, which it reads and writes as its files 3 and 4."""

    def __init__(self, program, profile):
        there, self.writer = os.pipe()
        self.reader, back = os.pipe()
        sandbox = ["--no-sandbox"] if os.geteuid() == 0 else []
        self.process = subprocess.Popen(
            ["bash", "-c", f'exec "$@" 3<&{there} 4>&{back}', "bash", program, "--headless=new", *sandbox, "--disable-gpu", "--no-first-run",
             "--disable-dev-shm-usage", "--hide-scrollbars", f"--user-data-dir={profile}", "--remote-debugging-pipe", "about:blank"],
            pass_fds=(there, back), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(there)
        os.close(back)
        self.buffer, self.last, self.session, self.events = b"", 0, None, []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def read(self):
        while b"\0" not in self.buffer:
            part = os.read(self.reader, 1 << 20)
            if not part:
                sys.exit("the browser has ended")
            self.buffer += part
        message, self.buffer = self.buffer.split(b"\0", 1)
        return json.loads(message)

    def call(self, method, **parameters):
        self.last += 1
        message = {"id": self.last, "method": method, "params": parameters, **({"sessionId": self.session} if self.session else {})}
        os.write(self.writer, json.dumps(message).encode() + b"\0")
        while True:
            answer = self.read()
            if answer.get("id") == self.last:
                if "error" in answer:
                    sys.exit(f"{method}: {answer['error']}")
                return answer["result"]
            self.events.append(answer)

    def evaluate(self, script):
        return self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)["result"].get("value")

    def open(self, address, kind):
        """Opens a page and waits until it is loaded."""
        width, height, mobile = WIDTHS[kind]
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=mobile)
        self.events.clear()
        self.call("Page.navigate", url=address)
        while not any(event.get("method") == "Page.loadEventFired" for event in self.events):
            self.events.append(self.read())

    def messages(self):
        """The errors and warnings on the console since the page was opened."""
        for event in self.events:
            method, facts = event.get("method"), event.get("params", {})
            if method == "Runtime.exceptionThrown":
                yield facts["exceptionDetails"].get("exception", {}).get("description") or facts["exceptionDetails"]["text"]
            elif method == "Runtime.consoleAPICalled" and facts["type"] in ("error", "warning", "assert"):
                yield " ".join(str(argument.get("value", argument.get("description"))) for argument in facts["args"])
            elif method == "Log.entryAdded" and facts["entry"]["level"] in ("error", "warning"):
                yield f"{facts['entry']['text']} {facts['entry'].get('url', '')}"
            elif method == "Network.loadingFailed" and not facts.get("canceled"):
                yield f"not loaded: {facts['errorText']}"

    def picture(self, path):
        with open(path, "wb") as f:
            f.write(base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"]))

    def close(self):
        os.close(self.writer)
        self.process.wait(timeout=30)


def wait(browser, script):
    """Returns the value of a script as soon as it has one that is neither false nor empty; what it has after 20 seconds otherwise."""
    end = time.monotonic() + 20
    while not (value := browser.evaluate(script)) and time.monotonic() < end:
        time.sleep(0.1)
    return value


class Files(http.server.SimpleHTTPRequestHandler):
    """A server of files that knows ranges."""

    def do_GET(self):
        path, wanted = self.translate_path(self.path), re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", ""))
        if not wanted or not os.path.isfile(path):
            return super().do_GET()
        with open(path, "rb") as f:
            whole = f.read()
        part = whole[int(wanted[1]):int(wanted[2] or len(whole)) + 1]
        self.send_response(206)
        for name, value in (("ETag", '"a"'), ("Content-Length", len(part)), ("Content-Range", f"bytes {wanted[1]}-{int(wanted[1]) + len(part) - 1}/{len(whole)}")):
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(part)

    def log_message(self, *_):
        pass


class Server(http.server.ThreadingHTTPServer):
    """Says nothing of connections that the browser closes when it leaves a page."""

    def handle_error(self, request, client_address):
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)


def serve(site):
    """Serves the site to this machine until the program ends. Returns its address."""
    server = Server(("127.0.0.1", 0), functools.partial(Files, directory=str(site)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return f"http://127.0.0.1:{server.server_port}"


def search(browser, site):
    """What is wrong with the search."""
    browser.open(f"{site.as_uri()}/search.html?q={QUERY}", "desktop")
    found = wait(browser, "[...document.querySelectorAll('#search-results ul.search li a')].map(a => a.href)") or []
    wrong = [f"search.html: {message}" for message in browser.messages()]
    pages = {urllib.parse.unquote(urllib.parse.urlsplit(address).path) for address in found}
    right = [page for page in pages if os.path.isfile(page) and QUERY in pathlib.Path(page).read_text(encoding="utf-8")]
    if not right:
        wrong.append(f"the search finds {QUERY} nowhere; it finds {sorted(pages)}")
    return wrong, len(right)


CONTROLS = """(() => ({
  code: [...document.querySelectorAll('article .highlight pre')].filter(e => !e.closest('.highlight-text')).length,
  copy: document.querySelectorAll('article .highlight button.copybtn').length,
  labels: [...document.querySelectorAll('.tabs:not(.of-sections) [role=tab]')].map(e => e.textContent),
  chosen: [...document.querySelectorAll('.tabs:not(.of-sections) [role=tab][aria-selected=true]')].map(e => e.textContent),
  panels: [...document.querySelectorAll('.tabs:not(.of-sections) [role=tabpanel]:not([hidden])')].length,
}))()"""


def controls(browser, address):
    """What is wrong with the buttons that copy, and with the tabs, of which the chosen one stays chosen on other pages."""
    browser.open(address, "desktop")
    look = browser.evaluate(CONTROLS)
    if not look["code"] or look["copy"] != look["code"]:
        yield f"{address}: {look['copy']} buttons copy {look['code']} examples"
    if len(look["labels"]) < 2:
        yield f"{address}: there are no tabs"
        return
    browser.evaluate(f"[...document.querySelectorAll('.tabs [role=tab]')].find(e => e.textContent === {json.dumps(look['labels'][-1])}).click()")
    browser.open(address, "desktop")
    look = browser.evaluate(CONTROLS)
    if look["labels"][-1] not in look["chosen"] or look["panels"] != len(look["chosen"]):
        yield f"{address}: the tab {look['labels'][-1]} does not stay chosen"


BROKEN = """<!DOCTYPE html><img src="none.png"><div style="width:3000px;height:9000px">wide</div><a href="none.html"></a><a href="#none"></a>
<article><div class="highlight"><pre style="width:99px;overflow:auto">SELECT_without_an_end_of_the_line</pre></div></article>
<script>console.error("on the console"); throw new Error("thrown")</script>"""
FAULTS = ("screens, and a page has", "buttons copy", "no tabs", "thrown", "on the console", "broken picture", "pixels wide on a screen", "code scrolls sideways", "none.html, which does not exist", "#none: no such anchor")


def check(browser, site, folder=None, wanted=()):
    """The faults of the pages of a site, and how many pages it has. Pictures of the wanted pages go to a folder."""
    faults, ids, links, address = [], {}, {}, serve(site)
    documents = sorted(path for path in site.rglob("*.html") if "_static" not in path.parts and path != site / "index.html")
    for path in documents:
        name = str(path.relative_to(site))
        for kind, (width, height, _) in WIDTHS.items():
            browser.open(f"{address}/{name}" if name == SERVED else path.as_uri(), kind)
            if name == SERVED and not wait(browser, READY):
                faults.append(f"{name}: {kind}: the database does not open")
            browser.evaluate(LOAD)
            look = browser.evaluate(LOOK % width)
            faults += [f"{name}: {kind}: {message}" for message in browser.messages()]
            faults += [f"{name}: {kind}: broken picture {picture}" for picture in look["broken"]]
            if look["width"] > width:
                faults.append(f"{name}: {kind}: {look['width']} pixels wide on a screen of {width}: {look['wide']}")
            if kind == "phone" and look["code"]:
                faults.append(f"{name}: {kind}: code scrolls sideways: {look['code']}")
            if kind == "desktop" and name.startswith(SHORT) and look["height"] > SCREENS * height:
                faults.append(f"{name}: {look['height'] / height:.1f} screens, and a page has at most {SCREENS}")
            ids[str(path)], links[name] = set(look["ids"]), look["links"]
            if folder and name in wanted:
                os.makedirs(folder, exist_ok=True)
                browser.picture(os.path.join(folder, f"{name.replace('/', '-')[:-5]}-{kind}.png"))
    for name, targets in links.items():
        for target in sorted(set(targets)):
            parts = urllib.parse.urlsplit(target.replace(address, site.as_uri(), 1))
            path, anchor = urllib.parse.unquote(parts.path), urllib.parse.unquote(parts.fragment)
            if parts.scheme == "file" and not os.path.isfile(path):
                faults.append(f"{name}: a link to {target}, which does not exist")
            elif parts.scheme == "file" and anchor and anchor not in ids.get(path, ()):
                faults.append(f"{name}: a link to {target}: no such anchor")
    return faults, len(documents)


def self_test(browser):
    with tempfile.TemporaryDirectory() as folder:
        page = pathlib.Path(folder).resolve() / "docs" / "broken.html"
        page.parent.mkdir()
        page.write_text(BROKEN, encoding="utf-8")
        found = check(browser, page.parent.parent)[0] + [*controls(browser, page.as_uri())]
    return [f"self-test: a broken page has no fault {fault!r}" for fault in FAULTS if not any(fault in text for text in found)]


def main():
    site, program = pathlib.Path(sys.argv[1]).resolve(), sys.argv[2]
    folder, wanted = (sys.argv[3] if len(sys.argv) > 3 else None), sys.argv[4:]
    with tempfile.TemporaryDirectory() as profile:
        browser = Browser(program, profile)
        faults, count = check(browser, site, folder, wanted)
        faults += controls(browser, f"{serve(site)}/index.html")
        wrong, found = search(browser, site)
        if folder:
            os.makedirs(folder, exist_ok=True)
            browser.picture(os.path.join(folder, "search.png"))
        faults += wrong + self_test(browser)
        browser.close()
    print("\n".join([*faults, f"{count} pages at {len(WIDTHS)} widths; the search finds {found} pages; {len(faults)} faults"]))
    return bool(faults) or not count


if __name__ == "__main__":
    sys.exit(main())
