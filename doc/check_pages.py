"""Check built pages: links, other hosts, sizes and, with a browser, the layout.

    python doc/check_pages.py FOLDER [--browser]

Without ``--browser`` the files are read: every internal link and every file that a page
loads has to be there, anchors too; nothing may be loaded from another host; no page,
and no file of its own that it loads, may have more than 2 MB. With ``--browser``
Chromium, where it is installed, also opens some of the pages, at the widths of a
telephone and of a desktop: nothing may be written to the console as an error, and no
page may be wider than the window.
"""

import argparse
import functools
import http.server
import json
import re
import shutil
import subprocess
import sys
import tempfile
import threading
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

LIMIT = 2_000_000
WIDTHS = (390, 1400)
#: Attributes that make a browser load something.
LOADED = {
    ("script", "src"),
    ("img", "src"),
    ("source", "src"),
    ("iframe", "src"),
    ("video", "src"),
    ("object", "data"),
}
LOADED_RELATIONS = {"stylesheet", "icon", "preload", "modulepreload", "manifest"}
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-extensions",
)


class Page(HTMLParser):
    """The links, the loaded files and the anchors of a page."""

    def __init__(self, path):
        super().__init__()
        self.links, self.loaded, self.anchors = [], [], set()
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attrs):
        """Note what a tag links to or loads."""
        values = dict(attrs)
        self.anchors.update(values[key] for key in ("id", "name") if values.get(key))
        for key, value in attrs:
            if not value:
                continue
            if (tag, key) in LOADED:
                self.loaded.append(value)
            elif key == "srcset":
                self.loaded += [part.split()[0] for part in value.split(",")]
            elif tag == "link" and key == "href":
                relations = set((values.get("rel") or "").split())
                if relations & LOADED_RELATIONS:
                    self.loaded.append(value)
                elif "canonical" not in relations:
                    self.links.append(value)
            elif tag == "a" and key == "href":
                self.links.append(value)


def is_elsewhere(address):
    """Return whether an address is not a path."""
    parts = urlsplit(address)
    return bool(parts.scheme or parts.netloc)


def target_of(root, page, address):
    """Return the file and the anchor that an internal address means."""
    parts = urlsplit(address)
    if not parts.path:
        return page, unquote(parts.fragment)
    base = root if parts.path.startswith("/") else page.parent
    path = (base / unquote(parts.path).lstrip("/")).resolve()
    if path.is_dir():
        path = path / "index.html"
    return path, unquote(parts.fragment)


def style_sheets_elsewhere(root):
    """Yield the faults of style sheets: what they load from other hosts."""
    for path in sorted(root.rglob("*.css")):
        text = path.read_text(encoding="utf-8", errors="replace")
        for address in re.findall(r"""url\(\s*["']?((?:https?:)?//[^"')]+)""", text):
            yield f"{path.relative_to(root)}: loads {address}"


def faults_of_files(root):
    """Yield the faults that can be seen without a browser."""
    pages = {path.resolve(): Page(path) for path in sorted(root.rglob("*.html"))}
    yield from style_sheets_elsewhere(root)
    for path, page in pages.items():
        name = path.relative_to(root)
        if "_static" in name.parts:
            continue
        size = path.stat().st_size
        for address in page.loaded:
            if address.startswith("data:"):
                continue
            if is_elsewhere(address):
                yield f"{name}: loads {address}"
                continue
            file, _ = target_of(root, path, address)
            if not file.exists():
                yield f"{name}: {address} is missing"
            elif file.stat().st_size > LIMIT:
                yield f"{name}: {address} has {file.stat().st_size / 1e6:.1f} MB"
        if size > LIMIT:
            yield f"{name}: has {size / 1e6:.1f} MB"
        for address in page.links:
            if is_elsewhere(address) or address.startswith("mailto:"):
                continue
            file, anchor = target_of(root, path, address)
            if not file.exists():
                yield f"{name}: broken link {address}"
            elif name.parts[0] == "_modules":
                continue  # viewcode takes anchors by the names of re-exports
            elif anchor and file in pages and anchor not in pages[file].anchors:
                yield f"{name}: no such anchor {address}"


# --- With a browser

#: A page that shows another one in a frame of some width and writes down how wide its
#: content is. Headless Chromium has no windows narrower than 500 pixels.
FRAME = """<!doctype html><title>measure</title>
<iframe id="f" src="{page}" style="width:{width}px;height:900px;border:0"></iframe>
<script>
document.getElementById("f").addEventListener("load", () => setTimeout(() => {{
  const root = document.getElementById("f").contentDocument.documentElement;
  const report = document.createElement("pre");
  report.id = "report";
  const wide = [...root.querySelectorAll("body *")]
    .filter(e => e.getBoundingClientRect().right > root.clientWidth + 1)
    .slice(0, 5).map(e => e.tagName + "." + e.className);
  // A heading or a parameter that is cut off makes no page wider.
  const headings = [...root.querySelectorAll("h1, h2, h3")]
    .filter(e => e.scrollWidth > e.clientWidth + 1 && e.clientWidth > 0);
  const parameters = [...root.querySelectorAll("dl.field-list dd dt")]
    .filter(e => e.getBoundingClientRect().right > root.clientWidth + 1);
  const cut = [...headings, ...parameters.slice(0, 3)].map(e => e.textContent);
  report.textContent = JSON.stringify(
    {{scroll: root.scrollWidth, client: root.clientWidth, wide: wide, cut: cut}});
  document.body.append(report);
}}, 1500));
</script>"""


class QuietHandler(http.server.SimpleHTTPRequestHandler):
    """Serves files without a log, and the measuring page from memory."""

    def log_message(self, *arguments):
        """Say nothing."""

    def do_GET(self):  # noqa: N802
        """Answer a request."""
        match = re.fullmatch(r"/measure/(\d+)/(.+)", self.path)
        if not match:
            super().do_GET()
            return
        width, page = match.groups()
        body = FRAME.format(page=f"/{page}", width=width).encode("utf-8")
        self.send_response(200)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.end_headers()
        self.wfile.write(body)


def open_page(browser, address):
    """Return the tree of a page after its scripts, and the console's errors."""
    with tempfile.TemporaryDirectory() as profile:
        result = subprocess.run(
            [
                browser,
                *FLAGS,
                f"--user-data-dir={profile}",
                "--window-size=1500,1000",
                "--virtual-time-budget=8000",
                "--enable-logging=stderr",
                "--dump-dom",
                address,
            ],
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
    errors = [
        line.strip()
        for line in result.stderr.splitlines()
        if ":CONSOLE" in line and re.search(r"Uncaught|Failed|ERROR|Refused", line)
    ]
    return result.stdout, errors


def shown_pages(root):
    """Return the pages to look at: one of each kind, and those with wide content."""
    names = [
        "index.html",
        "api.html",
        "faq.html",
        "benchmarks.html",
        "related_projects.html",
        "coming_from/saemix.html",
        "user_guide/gaussian_mixture.html",
        "user_guide/deformable_template.html",
        "user_guide/boltzmann.html",
        "user_guide/mixed_effects.html",
        "user_guide/recipes.html",
        "api/sktem.StochasticEMGaussianMixture.html",
        "api/sktem.NonlinearMixedEffectsRegressor.html",
        "auto_examples/index.html",
        "auto_examples/plot_deformable_template.html",
    ]
    return [name for name in names if (root / name).exists()]


def faults_in_browser(root, browser):
    """Yield errors of the console, and pages that are wider than the window."""
    handler = functools.partial(QuietHandler, directory=root)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        base = f"http://127.0.0.1:{server.server_port}"
        for name in shown_pages(root):
            for width in WIDTHS:
                tree, errors = open_page(browser, f"{base}/measure/{width}/{name}")
                yield from (f"{name}: console: {line}" for line in errors)
                match = re.search(r'<pre id="report">(.*?)</pre>', tree)
                if not match:
                    yield f"{name}: could not be measured"
                    continue
                found = json.loads(match[1])
                for text in found["cut"]:
                    yield f"{name}: cut off at {width} pixels: {text}"
                if found["scroll"] > found["client"]:
                    yield (
                        f"{name}: {found['scroll']} pixels wide in a window of "
                        f"{found['client']}: {', '.join(found['wide'])}"
                    )
        server.shutdown()


def main():
    """Check the pages that the command line names."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, help="folder of the built pages")
    parser.add_argument("--browser", action="store_true", help="open pages, too")
    arguments = parser.parse_args()
    root = arguments.folder.resolve()
    if not (root / "index.html").exists():
        sys.exit(f"{root} has no index.html")
    faults = list(faults_of_files(root))
    if arguments.browser:
        browser = next(filter(None, map(shutil.which, BROWSERS)), None)
        if browser is None:
            print("no Chromium here: pages were not opened")
        else:
            faults += faults_in_browser(root, browser)
    for fault in faults:
        print(fault)
    number = sum(1 for _ in root.rglob("*.html"))
    print(f"{number} pages, {len(faults)} faults")
    sys.exit(bool(faults))


if __name__ == "__main__":
    main()
