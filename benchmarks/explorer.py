"""How long a reader of the explorer waits, in a headless Chromium, with the model in the browser.

The page is opened once with empty caches and then again from the browser's cache. Times count from
the start of the navigation: until the first text is painted, and until the first similarities are
drawn. After that sentences are typed, and the time from the last key until the picture has changed
is measured; the page itself waits 30 ms of that for another key.

    python benchmarks/explorer.py

It needs Playwright and Debian's Chromium.
"""

import argparse
import os
import shutil
import statistics
import threading
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, NamedTuple

from machine import RESULTS, cpu_name, running_english

from elmox import Elmo
from elmox.config import BUNDLED
from elmox.explore.folder import cached_model
from elmox.explore.web_server import PageServer
from elmox.text.sentences import split_sentences

if TYPE_CHECKING:
    from playwright.sync_api import BrowserContext, Page

WORDS = 12  # per typed sentence
PATIENCE = 120_000.0
FIRST_FIGURE = """
new MutationObserver((_, observer) => {
  if (!document.querySelector("figure svg")) return;
  observer.disconnect();
  requestAnimationFrame(() => { window.firstFigure = performance.now(); });
}).observe(document, { childList: true, subtree: true });
"""
TYPE = """
(text) => new Promise((resolve) => {
  const field = document.getElementById("sentence-a");
  const figure = document.querySelector("figure tbody");
  const began = performance.now();
  new MutationObserver((_, observer) => {
    observer.disconnect();
    resolve(performance.now() - began);
  }).observe(figure, { characterData: true, childList: true, subtree: true });
  field.value = text;
  field.dispatchEvent(new Event("input", { bubbles: true }));
})
"""


class Times(NamedTuple):
    """Milliseconds of one visit."""

    first_paint: float
    first_vectors: float
    sentences: list[float]


def visit(context: "BrowserContext", url: str, sentences: list[str]) -> Times:
    """Open the page in a new tab, and type sentences into it."""
    page = context.new_page()
    page.set_default_timeout(PATIENCE)
    page.add_init_script(FIRST_FIGURE)
    page.goto(url)
    page.wait_for_selector("figure svg")
    page.wait_for_timeout(200)
    times = Times(
        page.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime"),
        page.evaluate("window.firstFigure"),
        [_typed(page, sentence) for sentence in sentences],
    )
    page.close()
    return times


def _typed(page: "Page", sentence: str) -> float:
    page.wait_for_timeout(200)  # until everything of the last sentence is drawn
    milliseconds: float = page.evaluate(TYPE, sentence)
    return milliseconds


def sentences_of(text: str, number: int) -> list[str]:
    """The first sentences of a text, cut to the same number of words."""
    words = (sentence.split() for sentence in split_sentences(text))
    return [" ".join(sentence[:WORDS]) for sentence in words if len(sentence) >= WORDS][:number]


def measure(model: str, folder: Path, visits: int, sentences: list[str]) -> list[Times]:
    """Visit the page of a model; the first visit finds empty caches."""
    from playwright.sync_api import sync_playwright

    export, digest = cached_model(Elmo.from_pretrained(model, device="cpu"), folder / "cache")
    with PageServer(export, digest, 0) as server, sync_playwright() as playwright:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        context = playwright.chromium.launch_persistent_context(
            str(folder / "profile"),
            executable_path=shutil.which("chromium"),
            headless=True,
            args=["--no-sandbox"],
        )
        times = [visit(context, server.url, sentences) for _ in range(visits)]
        context.close()
        server.shutdown()
    return times


def table(times: list[Times]) -> list[str]:
    """The first visit, and the median of the others."""
    first, *others = times
    sentences = [milliseconds for visit in others for milliseconds in visit.sentences]
    later = [
        statistics.median(visit.first_paint for visit in others),
        statistics.median(visit.first_vectors for visit in others),
        statistics.median(sentences),
    ]
    lines = ["| | first visit, ms | from the cache, ms |", "|---|---|---|"]
    names = ("first paint", "first similarities", f"a typed sentence of {WORDS} words")
    firsts = (first.first_paint, first.first_vectors, statistics.median(first.sentences))
    for name, before, after in zip(names, firsts, later, strict=True):
        lines.append(f"| {name} | {before:,.0f} | {after:,.0f} |")
    return lines


def main() -> None:
    """Measure and write the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--model", default=BUNDLED)
    parser.add_argument("--visits", type=int, default=6)
    parser.add_argument("--sentences", type=int, default=20)
    parser.add_argument("--out", type=Path, default=RESULTS / "explorer.md")
    options = parser.parse_args()
    sentences = sentences_of(running_english(), options.sentences)
    with TemporaryDirectory() as folder:
        times = measure(options.model, Path(folder), options.visits, sentences)
    heading = f"{cpu_name()}, {os.cpu_count()} cores, Chromium, {options.visits} visits. Made by"
    lines = ["# The explorer", "", f"{heading} `python benchmarks/explorer.py`.", "", *table(times)]
    options.out.write_text("\n".join(lines) + "\n", "utf-8")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
