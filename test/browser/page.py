"""The page docs/browser in Chromium: pixels, requests, bytes, widths, keys. all.py calls check()."""
import json
import os
import time

import small_png

WIDTHS = {"desktop": (1280, 900, False), "tablet": (820, 1100, True), "phone": (390, 844, True), "small": (320, 640, True)}
# The colour of the map at a longitude and latitude, as [red, green, blue].
PIXEL = """((lon, lat) => {
  const c = document.getElementById('canvas'), p = window.tesseraMap.point(lon, lat), r = c.width / c.clientWidth;
  return [...c.getContext('2d').getImageData(Math.round(p[0] * r), Math.round(p[1] * r), 1, 1).data].slice(0, 3);
})(%s, %s)"""
READY = "document.getElementById('canvas').dataset.ready === 'yes' && !document.getElementById('meter-size').textContent.includes('–')"
LOOK = """(() => ({
  wide: document.documentElement.scrollWidth,
  tiny: [...document.querySelectorAll('button, input, textarea, label.check, .segments span')].filter(e => e.offsetParent && !e.closest('#queries') && e.type !== 'radio' && e.type !== 'checkbox')
    .filter(e => { const b = e.getBoundingClientRect(); return b.width < 24 || b.height < 14; }).map(e => e.outerHTML.slice(0, 80)),
  unnamed: [...document.querySelectorAll('button, input, textarea, canvas')].filter(e => !(e.textContent.trim() || e.getAttribute('aria-label') || e.closest('label')))
    .map(e => e.outerHTML.slice(0, 80)),
}))()"""


class Page:
    def __init__(self, browser, server, fault, wait_for):
        self.browser, self.server, self.fault, self.wait_for = browser, server, fault, wait_for

    def open(self, kind, query="", scheme="light"):
        width, height, mobile = WIDTHS[kind]
        self.browser.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}, {"name": "prefers-reduced-motion", "value": "reduce"}])
        self.browser.call("Emulation.setTouchEmulationEnabled", enabled=mobile)
        self.evaluate("fetch('/-/log').then((r) => r.text())")
        import browser as devtools
        devtools.WIDTHS[kind] = WIDTHS[kind]
        self.browser.open("about:blank", kind)
        self.browser.open(f"{self.server.here}/{query}", kind)
        return self.wait_for(self.browser, READY, f"{kind} {query}: the map is drawn")

    def evaluate(self, script):
        return self.browser.evaluate(script)

    def log(self):
        return [entry for entry in json.loads(self.evaluate("fetch('/-/log').then((r) => r.text())")) if entry["path"] == "/demo.db"]

    def pixel(self, lon, lat):
        return self.evaluate(PIXEL % (lon, lat))

    def key(self, key, code=0):
        for kind in ("keyDown", "keyUp"):
            self.browser.call("Input.dispatchKeyEvent", type=kind, key=key, code=key, text=key if len(key) == 1 else "", windowsVirtualKeyCode=code)

    def settle(self, what):
        time.sleep(0.3)
        self.wait_for(self.browser, READY, what)

    def run(self, sql):
        """Runs SQL in the console. Returns the text of the result."""
        self.evaluate(f"document.getElementById('result').textContent = ''; document.getElementById('sql').value = {json.dumps(sql)}; document.getElementById('ask').requestSubmit()")
        self.wait_for(self.browser, "!document.querySelector('#ask button').disabled && document.getElementById('result').textContent !== '' || document.querySelector('#result img')", f"an answer to {sql[:40]}")
        return self.evaluate("document.getElementById('result').innerText")


def is_blue(p):
    return p and p[2] > p[0] + 20


def is_land(p):
    return p and p[0] > p[2] - 10


def check(browser, server, folder, fault, wait_for, pictures):
    page = Page(browser, server, fault, wait_for)
    shots = f"{folder}/shots"
    os.makedirs(shots, exist_ok=True)
    size = os.path.getsize(f"{folder}/demo.db")

    # The first view: colours, requests and bytes, counted by the server and by the page.
    page.open("desktop")
    log = page.log()
    requests, read = len(log), sum(entry["bytes"] for entry in log)
    print(f"  the first view: {requests} requests, {read} bytes of {size}; open after {page.evaluate('document.documentElement.dataset.opened')} ms")
    if any(entry["status"] != 206 for entry in log):
        fault(f"not all answers are ranges: {log}")
    if requests > 12 or read > size / 4:
        fault(f"the first view takes {requests} requests and {read} bytes")
    meter = page.evaluate("document.getElementById('meter').innerText")
    if f"{requests} requests" not in meter:
        fault(f"the page says {meter!r}, the server had {requests} requests")
    for name, lon, lat, right in (("Pacific", -150, 10, is_blue), ("Atlantic", -30, 30, is_blue), ("Sahara", 10, 25, is_land), ("Brazil", -50, -10, is_land)):
        if not right(page.pixel(lon, lat)):
            fault(f"the colour of {name} is {page.pixel(lon, lat)}")
    browser.picture(f"{shots}/desktop.png")

    # Zooming in asks for finer tiles, by ranges; coming back asks for nothing.
    page.evaluate("[...document.querySelectorAll('#places button')].find((b) => b.textContent === 'Himalaya').click()")
    page.settle("the Himalaya")
    log = page.log()
    print(f"  the Himalaya: {len(log)} requests, {sum(e['bytes'] for e in log)} bytes")
    if not 1 <= len(log) <= 12:
        fault(f"the Himalaya takes {len(log)} requests")
    snow, plain = page.pixel(87, 28), page.pixel(80, 26.5)
    if not (min(snow) > 120 and plain[1] >= plain[2]):
        fault(f"the colours of the Himalaya and of the plain are {snow} and {plain}")
    browser.picture(f"{shots}/himalaya.png")
    page.evaluate("document.getElementById('home').click()")
    page.settle("back at home")
    if page.log():
        fault("coming back asks the server again")

    # A cell under the pointer.
    browser.call("Input.dispatchMouseEvent", type="mouseMoved", x=640, y=400)
    wait_for(browser, "/ m/.test(document.getElementById('cell').textContent)", "the height under the pointer")

    # The keyboard alone: focus, pan, zoom, a cell.
    before = page.evaluate("document.getElementById('canvas').focus(), JSON.stringify(window.tesseraMap.view)")
    for key, code in (("+", 187), ("+", 187), ("ArrowRight", 39), ("ArrowUp", 38)):
        page.key(key, code)
    if before == page.evaluate("JSON.stringify(window.tesseraMap.view)"):
        fault("keys do not move the map")
    page.evaluate("document.getElementById('cell').textContent = ''")
    page.key("Enter", 13)
    wait_for(browser, "/°/.test(document.getElementById('cell').textContent)", "the cell in the middle, by Enter")

    # Time travel: the slider's months differ, each is an as_of of the array.
    page.evaluate("document.getElementById('home').click(); document.querySelector('[value=sst]').click()")
    page.settle("the sea")
    january = page.pixel(-70, 38)
    log = page.log()
    print(f"  the sea of one month: {len(log)} requests, {sum(e['bytes'] for e in log)} bytes")
    page.evaluate("document.getElementById('month').value = 8; document.getElementById('month').dispatchEvent(new Event('input'))")
    page.settle("August")
    time.sleep(0.6)
    if january == page.pixel(-70, 38):
        fault(f"the Gulf Stream has one colour in January and in August: {january}")
    asked = page.evaluate("document.getElementById('queries').innerText")
    if "FROM sea(" not in asked:
        fault("no query travels in time")
    browser.picture(f"{shots}/sea.png")

    # The console: all examples, and errors.
    count = page.evaluate("document.querySelectorAll('#examples button').length")
    for i in range(count):
        page.evaluate(f"document.getElementById('result').textContent = ''; document.querySelectorAll('#examples button')[{i}].click()")
        wait_for(browser, "!document.querySelector('#ask button').disabled && document.getElementById('result').children.length > 0", f"example {i}")
        if page.evaluate("document.querySelectorAll('#result .error').length"):
            fault(f"example {i}: {page.evaluate('document.getElementById(`result`).innerText')}")
    for sql, words in (("SELECT 1 + 1 AS two", "2"), ("SELECT * FROM nowhere", "no such table"), ("SELECT count(*) AS n FROM relief WHERE y = 0", "1080"), ("INSERT INTO states VALUES('a','b')", "readonly"),
                       ("SELECT NULL AS none", "NULL"), ("SELECT '<b>x</b>' AS html", "<b>x</b>"), ("CREATE TEMP TABLE own(x); INSERT INTO own VALUES(7); SELECT x FROM own", "7")):
        text = page.run(sql)
        if words not in text:
            fault(f"{sql}: {text!r}")
    messages = [m for m in browser.messages() if "favicon" not in m and "willReadFrequently" not in m]
    if messages:
        fault(f"the console of the browser has {messages}")

    # Widths and schemes: nothing is wider than the screen, everything has a name and can be touched.
    for kind in WIDTHS:
        for scheme in ("light", "dark"):
            page.open(kind, scheme=scheme)
            look = page.evaluate(LOOK)
            if look["wide"] > WIDTHS[kind][0]:
                fault(f"{kind}: {look['wide']} pixels wide on a screen of {WIDTHS[kind][0]}")
            if look["unnamed"] or look["tiny"]:
                fault(f"{kind}: without a name {look['unnamed']}, too small {look['tiny']}")
            browser.picture(f"{shots}/{kind}-{scheme}.png")

    # What goes wrong is said on the page.
    for query, words in (("?db=none.db", "not found"), ("?db=as/no-ranges/p1/demo.db", "ignores Range"), ("?db=page.js", "not a database")):
        browser.open("about:blank", "desktop")
        browser.open(f"{server.here}/{query}", "desktop")
        wait_for(browser, f"document.getElementById('note')?.textContent.includes({json.dumps(words)})", f"{query}: a note that says {words!r}", 20)

    if pictures:
        take_pictures(page, pictures)


def take_pictures(page, folder):
    """The pictures of the manual, as small files."""
    for name, query, kind, scheme in (("browser-relief", "#28.5,86,17", "desktop", "light"), ("browser-sea", "#12,0,0,sst,8", "desktop", "dark")):
        page.open(kind, query, scheme)
        time.sleep(1)
        page.browser.picture(f"{folder}/{name}.png")
        small_png.make_small(f"{folder}/{name}.png")
