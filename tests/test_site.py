"""The site: built strictly from `docs/`, its links, and its pages in a real browser."""

import os
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from html.parser import HTMLParser
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

import pytest
from explorer_page import CHROMIUM
from language_models import tiny_lm

from elmox.cli.main import VERBS

if TYPE_CHECKING:
    from playwright.sync_api import Browser

ROOT = Path(__file__).resolve().parents[1]
RESOURCES = {"script": "src", "link": "href", "img": "src", "iframe": "src", "source": "src"}
SHOWN = ("index", "background/elmo", "reference/cli", "tutorials/senses", "explorer/index")
SIZES = {"wide": (1400, 900), "narrow": (390, 800)}

pytest.importorskip("material", reason="needs mkdocs-material")


class Page(HTMLParser):
    """Content of a page, and its references."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.ids: set[str] = set()
        self.links: list[str] = []
        self.resources: list[str] = []
        self.feed(path.read_text("utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        self.ids |= {name for name in (values.get("id"), values.get("name")) if name}
        if tag == "a" and (link := values.get("href")):
            self.links.append(link)
        if resource := values.get(RESOURCES.get(tag, "")):
            self.resources.append(resource)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, with a tiny model in its explorer."""
    folder = tmp_path_factory.mktemp("site")
    tiny_lm(folder / "lm").elmo().save_pretrained(folder / "model")
    environment = os.environ | {
        "ELMOX_SITE_MODEL": str(folder / "model"),
        "ELMOX_CACHE": str(folder / "cache"),
        "NO_MKDOCS_2_WARNING": "1",
    }
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", folder / "html"],
        cwd=ROOT, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return folder / "html"


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[Path, Page]:
    """All pages by their paths."""
    return {path: Page(path) for path in sorted(site.rglob("*.html"))}


@pytest.fixture(scope="module")
def address(site: Path) -> Iterator[str]:
    """The site on a web server."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=str(site)))
    Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        """Print nothing."""


def test_links_lead_to_pages_and_anchors(pages: dict[Path, Page], site: Path) -> None:
    broken = []
    for path, page in pages.items():
        for link in [*page.links, *page.resources]:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = path
            if parts.path:
                start = site / "404.html" if parts.path.startswith("/") else path
                target = (start.parent / unquote(parts.path).lstrip("/")).resolve()
            target = target / "index.html" if target.is_dir() else target
            if not target.exists():
                broken.append(f"{path.relative_to(site)}: {link} does not exist")
            elif parts.fragment and unquote(parts.fragment) not in pages[target].ids:
                broken.append(f"{path.relative_to(site)}: {link} has no such anchor")
    assert not broken, "\n".join(broken)


def test_nothing_is_loaded_from_another_host(pages: dict[Path, Page], site: Path) -> None:
    outside = [
        f"{path.relative_to(site)}: {resource}"
        for path, page in pages.items()
        for resource in page.resources
        if urlsplit(resource).netloc
    ]
    styles = [
        f"{path.relative_to(site)}: a style sheet loads from another host"
        for path in site.rglob("*.css")
        if "url(http" in path.read_text("utf-8") or "@import" in path.read_text("utf-8")
    ]
    assert not outside + styles


def test_the_page_of_the_command_line_has_all_verbs(pages: dict[Path, Page], site: Path) -> None:
    ids = pages[site / "reference" / "cli.html"].ids
    assert {f"elmox-{verb}" for verbs in VERBS.values() for verb in verbs} <= ids


def test_the_python_pages_have_all_public_names(pages: dict[Path, Page]) -> None:
    import elmox

    ids = {name.rpartition(".")[2] for page in pages.values() for name in page.ids}
    assert set(elmox.__all__) - {"__version__"} <= ids


@pytest.fixture(scope="module")
def browser() -> Iterator["Browser"]:
    """Chromium."""
    sync_api = pytest.importorskip("playwright.sync_api")
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium")
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", SIZES)
def test_pages_in_chromium(browser: "Browser", address: str, size: str, scheme: str) -> None:
    """No errors, nothing from elsewhere, nothing wider than the screen."""
    width, height = SIZES[size]
    tab = browser.new_page(
        viewport={"width": width, "height": height},
        color_scheme="dark" if scheme == "dark" else "light",
    )
    problems: list[str] = []
    requests: list[str] = []
    tab.on("pageerror", lambda error: problems.append(str(error)))
    tab.on("console", lambda text: problems.append(text.text) if text.type == "error" else None)
    tab.on("request", lambda request: requests.append(request.url))
    for name in SHOWN:
        tab.goto(f"{address}/{name}.html", wait_until="networkidle")
        assert tab.locator("h1").first.is_visible()
        overflow = tab.evaluate("document.documentElement.scrollWidth - innerWidth")
        assert overflow <= 0, f"{name} is {overflow} pixels too wide"
        if not name.startswith("explorer"):
            shown = tab.locator("body").get_attribute("data-md-color-scheme")
            assert shown == ("slate" if scheme == "dark" else "default")
    tab.close()
    assert not problems
    assert all(url.startswith((address, "data:", "blob:")) for url in requests)
