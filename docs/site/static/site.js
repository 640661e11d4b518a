// site.js: tabs for languages, the search by sections, and the live demo on the first page.
(() => {
  const root = new URL("../", document.currentScript.src);

  // ---- Tabs: paragraphs that are one bold word, each with what follows up to the next one, become tabs. The choice stays for all pages. ----

  const isLabel = (e) => e?.tagName === "P" && e.children.length === 1 && e.firstElementChild.tagName === "STRONG"
    && e.textContent.trim() === e.firstElementChild.textContent && e.nextElementSibling?.matches("[class*=highlight-]");

  function remembered() {
    try { return localStorage.getItem("tab"); } catch { return null; }
  }

  function choose(label) {
    try { localStorage.setItem("tab", label); } catch { /* a page from a file */ }
    for (const list of document.querySelectorAll(".tabs")) {
      const buttons = [...list.querySelectorAll("[role=tab]")];
      if (!buttons.some((b) => b.textContent === label)) continue;
      for (const button of buttons) {
        const chosen = button.textContent === label;
        button.setAttribute("aria-selected", chosen);
        button.tabIndex = chosen ? 0 : -1;
        document.getElementById(button.getAttribute("aria-controls")).hidden = !chosen;
      }
    }
  }

  function makeTabs(labels, number) {
    const list = document.createElement("div");
    list.className = "tabs";
    const bar = document.createElement("div");
    bar.setAttribute("role", "tablist");
    labels[0].before(list);
    list.append(bar);
    labels.forEach((label, k) => {
      const panel = document.createElement("div");
      panel.id = `tab-${number}-${k}`;
      panel.setAttribute("role", "tabpanel");
      for (let e = label.nextElementSibling; e && e.matches("[class*=highlight-]");) {
        const next = e.nextElementSibling;
        panel.append(e);
        e = next;
      }
      const button = document.createElement("button");
      button.type = "button";
      button.setAttribute("role", "tab");
      button.setAttribute("aria-controls", panel.id);
      button.textContent = label.textContent.trim();
      button.onclick = () => choose(button.textContent);
      button.onkeydown = (event) => {
        const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
        const buttons = [...bar.children];
        if (step) {
          const other = buttons[(k + step + buttons.length) % buttons.length];
          other.focus();
          choose(other.textContent);
        }
      };
      bar.append(button);
      list.append(panel);
      label.remove();
    });
    choose(labels[0].textContent.trim());
  }

  function findTabs() {
    const kept = remembered();
    const groups = [];
    for (const label of [...document.querySelectorAll("article p")].filter(isLabel)) {
      let before = label.previousElementSibling;
      while (before?.matches("[class*=highlight-]")) before = before.previousElementSibling;
      const group = groups.find((g) => g[g.length - 1] === before);
      if (group) group.push(label);
      else groups.push([label]);
    }
    groups.filter((g) => g.length > 1).forEach(makeTabs);
    if (kept) choose(kept);
  }

  // ---- Tabs of sections: on the page that says how to install, one for each program. A link to one of these sections opens its tab. ----

  const SECTIONS = ["python", "the-sqlite3-shell", "node", "a-web-page", "c-go-rust-java"];

  function sectionTabs() {
    if (!/\/docs\/install\.html$/.test(location.pathname)) return;
    const sections = SECTIONS.map((id) => document.getElementById(id));
    if (sections.some((section) => section?.tagName !== "SECTION")) return;
    const bar = document.createElement("div");
    bar.setAttribute("role", "tablist");
    const list = document.createElement("div");
    list.className = "tabs of-sections";
    sections[0].before(list);
    list.append(bar);
    const buttons = sections.map((section) => {
      const heading = section.querySelector("h2");
      const button = Object.assign(document.createElement("button"), { type: "button", textContent: heading.firstChild.textContent.replace(/^The /, "") });
      button.setAttribute("role", "tab");
      button.setAttribute("aria-controls", section.id);
      section.setAttribute("role", "tabpanel");
      bar.append(button);
      list.append(section);
      return button;
    });
    const show = (k) => sections.forEach((section, i) => {
      section.hidden = i !== k;
      buttons[i].setAttribute("aria-selected", i === k);
      buttons[i].tabIndex = i === k ? 0 : -1;
    });
    const keep = (k) => { try { localStorage.setItem("install", SECTIONS[k]); } catch { /* a page from a file */ } };
    const follow = () => {
      const k = SECTIONS.indexOf(location.hash.slice(1));
      if (k >= 0) { show(k); list.scrollIntoView(); }
      return k >= 0;
    };
    buttons.forEach((button, k) => {
      button.onclick = () => { show(k); keep(k); };
      button.onkeydown = (event) => {
        const other = (k + ({ ArrowRight: 1, ArrowLeft: -1 }[event.key] ?? 0) + buttons.length) % buttons.length;
        if (other !== k) { buttons[other].focus(); show(other); keep(other); }
      };
    });
    let kept = null;
    try { kept = localStorage.getItem("install"); } catch { /* a page from a file */ }
    show(Math.max(SECTIONS.indexOf(kept), 0));
    addEventListener("hashchange", follow);
    follow();
  }

  // ---- Search: over HTTP by Pagefind's index, with the sections of each page and what they say. From files Sphinx's own search works. ----

  async function search() {
    const words = new URLSearchParams(location.search).get("q");
    const shown = document.getElementById("search-results");
    if (!shown || !words || !/^https?:$/.test(location.protocol)) return;
    let found;
    try {
      const pagefind = await import(new URL("pagefind/pagefind.js", root));
      found = await pagefind.search(words);
    } catch { return; }
    const pages = await Promise.all(found.results.slice(0, 20).map((r) => r.data()));
    const list = document.createElement("div");
    list.className = "found";
    list.append(Object.assign(document.createElement("h1"), { textContent: `${found.results.length} pages about \u201c${words}\u201d` }));
    for (const page of pages) {
      list.append(Object.assign(document.createElement("h2"), { innerHTML: `<a href="${page.url}"></a>` }));
      list.lastChild.firstChild.textContent = page.meta.title;
      for (const part of page.sub_results.slice(0, 4)) {
        const item = document.createElement("p");
        const link = Object.assign(document.createElement("a"), { href: part.url, textContent: part.title });
        const text = Object.assign(document.createElement("span"), { innerHTML: ` ${part.excerpt}` });   // Pagefind's own text, with <mark>
        item.append(link, text);
        list.append(item);
      }
    }
    shown.replaceChildren(list);
    new MutationObserver(() => shown.firstChild !== list && shown.replaceChildren(list)).observe(shown, { childList: true });
  }

  // ---- The first page: the demo, in the page, if the site has it. ----

  function offerDemo() {
    const picture = document.querySelector("article img[src*=relief]");
    if (!document.querySelector("script[src*='run.js']") || !picture || !/^https?:$/.test(location.protocol) || !/(\/|index\.html|README\.html)$/.test(location.pathname)) return;
    const button = Object.assign(document.createElement("button"), { className: "live", type: "button", textContent: "Try it: run the demo in this page" });
    button.onclick = () => {
      const frame = Object.assign(document.createElement("iframe"), { src: new URL("docs/browser/index.html", root), title: "The demo of tessera, in this page" });
      frame.className = "live";
      (picture.closest("a, p") ?? picture).replaceWith(frame);
      button.remove();
    };
    (picture.closest("p") ?? picture).after(button);
  }

  for (const caption of document.querySelectorAll("p.caption[role=heading]")) caption.setAttribute("aria-level", 2);
  sectionTabs();
  findTabs();
  search();
  offerDemo();
})();
