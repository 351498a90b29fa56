"""The page around its views: links, files, keys, messages, narrow screens."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from explorer_page import Explorer
from http_server import running

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Route

VIEWS = ("compare", "pairs", "map", "contexts", "surprise", "gap", "spelling", "edit")
KEY = "a-key-that-is-long-enough"


@pytest.fixture
def tab(browser: "Browser", static_url: str) -> Iterator[Explorer]:
    """The page with the model in the browser."""
    with Explorer.open(browser, static_url) as explorer:
        yield explorer


def test_a_link_reproduces_the_view(tab: Explorer, browser: "Browser", static_url: str) -> None:
    tab.show("compare")
    tab.figure()
    tab.page.get_by_role("button", name="All pairs").click()
    tab.type("Sentence A", "The cat, naïve & 天 = 100%")
    tab.page.get_by_role("group", name="Layer").get_by_text("Layer 1").click()
    rows = tab.rows()
    with Explorer.open(browser, static_url) as other:
        other.page.goto(tab.page.url)
        assert other.rows() == rows
    tab.page.go_back()
    tab.page.get_by_role("heading", name="One word, two sentences").wait_for()


def test_a_figure_as_a_file(tab: Explorer) -> None:
    tab.show("pairs", a="The cat", b="the, sat")
    contents = {}
    for kind in ("SVG", "PNG", "CSV"):
        with tab.page.expect_download() as download:
            tab.figure().get_by_role("button", name=kind).click()
        assert download.value.suggested_filename == f"pairs-2.{kind.lower()}"
        contents[kind] = Path(download.value.path()).read_bytes()
    heading, *rows = contents["CSV"].decode().splitlines()
    assert heading == 'A \\ B,the,",",sat'
    assert [row.split(",")[0] for row in rows] == ["The", "cat"]
    assert contents["PNG"].startswith(b"\x89PNG")
    assert contents["SVG"].startswith(b"<svg")
    assert contents["SVG"].count(b"<rect") == 7  # six cells and the background
    assert b"var(--" not in contents["SVG"]


def test_by_keyboard(tab: Explorer) -> None:
    tab.show("pairs", a="The cat", b="the sat .")
    tab.figure()
    tab.page.locator("svg.heatmap").focus()
    for key in ("ArrowDown", "ArrowDown", "ArrowRight", "ArrowDown"):
        tab.page.keyboard.press(key)
    readout = tab.page.locator(".readout").inner_text()
    assert readout.startswith("“cat” in A and “sat” in B: ")
    tab.page.get_by_role("radio", name="Layer 2").focus()
    tab.page.keyboard.press("ArrowLeft")
    tab.page.get_by_role("heading", name="Layer 1: similarity").wait_for()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_narrow_screens(browser: "Browser", static_url: str, scheme: str) -> None:
    """Nothing is wider than a phone, in any view."""
    size = {"width": 390, "height": 800}
    with Explorer.open(browser, static_url, viewport=size, color_scheme=scheme) as phone:
        for view in VIEWS:
            phone.show(view)
            phone.figure()
            width = phone.page.evaluate("document.documentElement.scrollWidth")
            assert width <= 390, view


@pytest.mark.parametrize(
    ("text", "message"),
    [("", "Type a sentence."), (" \n", "Type a sentence."), ("a " * 5000, "10,000 characters")],
)
def test_sentences_that_are_refused(tab: Explorer, text: str, message: str) -> None:
    tab.show("compare")
    tab.figure()
    tab.type("Sentence A", text)
    assert message in tab.message()
    tab.type("Sentence A", "The cat sat.")
    assert len(tab.rows()) == 4


def test_control_characters_are_shown(tab: Explorer) -> None:
    tab.show("pairs", a="a\x00b \x07 <b>", b="天")
    assert [word for word, _ in tab.rows()][:3] == ["a", "␀", "b"]
    assert "␇" in tab.figure().inner_text()


@pytest.mark.parametrize("name", ["page.json", "model/context.onnx", "onnx_worker.js", "app.js"])
def test_a_download_that_fails(tab: Explorer, name: str) -> None:
    """A message that names the trouble, and a second attempt that works."""
    tab.page.route(f"**/{name}", lambda route: route.abort())
    tab.show("compare")
    assert tab.message().strip()
    tab.page.unroute(f"**/{name}")
    if name == "app.js":
        tab.page.reload()
    else:
        tab.page.get_by_role("button", name="Try again").click()
    assert len(tab.rows()) == 4


def test_a_file_that_is_missing(tab: Explorer) -> None:
    tab.page.route("**/model/words.onnx", lambda route: route.fulfill(status=404))
    tab.show("compare")
    assert "model/words.onnx could not be downloaded: 404" in tab.message()


def test_without_webassembly(tab: Explorer) -> None:
    def without(route: "Route") -> None:
        text = route.fetch().text()
        route.fulfill(body=f"self.WebAssembly = undefined;{text}", content_type="text/javascript")

    tab.page.route("**/onnx_worker.js", without)
    tab.show("compare")
    assert "This browser has no WebAssembly" in tab.message()


def test_the_model_is_downloaded_once(tab: Explorer) -> None:
    """The second visit takes it from the browser's cache, and the softmax comes when it is used."""
    requested: list[str] = []
    tab.page.on("request", lambda request: requested.append(request.url.rpartition("/")[2]))
    tab.show("compare")
    tab.figure()
    assert {"words.onnx", "context.onnx"} <= set(requested)
    assert "softmax.onnx" not in requested
    requested.clear()
    tab.show("surprise", s="The cat sat.")
    tab.figure()
    assert "softmax.onnx" in requested
    assert not {"words.onnx", "context.onnx"} & set(requested)


def test_a_server_with_a_key(browser: "Browser", model: Path) -> None:
    with running(model, ELMOX_API_KEYS=KEY) as server, Explorer.open(browser, server.url) as page:
        page.show("spelling")
        assert "needs an API key" in page.message()
        page.page.get_by_label("API key").fill(KEY)
        page.page.get_by_role("button", name="Use this key").click()
        assert len(page.rows()) == 8
