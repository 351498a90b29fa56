"""The explorer in a real browser: what a reader types, clicks and reads."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Locator, Page

CHROMIUM = shutil.which("chromium")
PATIENCE = 60_000.0  # milliseconds for anything that takes far less on an idle machine


class Explorer:
    """A tab with the page.

    Attributes:
        page: the tab.
        problems: messages of scripts that failed.
    """

    def __init__(self, page: "Page", url: str) -> None:
        self.page, self._url = page, url
        self.problems: list[str] = []
        page.set_default_timeout(PATIENCE)
        page.on("pageerror", lambda error: self.problems.append(str(error)))

    @classmethod
    @contextmanager
    def open(cls, browser: "Browser", url: str, **options: Any) -> Iterator["Explorer"]:
        """Open a tab that shares nothing with others; in the end, no script may have failed."""
        context = browser.new_context(accept_downloads=True, **options)
        explorer = cls(context.new_page(), url)
        yield explorer
        context.close()
        assert explorer.problems == []

    def show(self, view: str, **state: str) -> None:
        """Go to a view by its link."""
        self.page.goto("about:blank")  # the same page with another fragment is not loaded again
        self.page.goto(f"{self._url}#{urlencode({'view': view, **state})}")

    def figure(self, number: int = 0) -> "Locator":
        """A figure that is complete."""
        self.page.locator("[aria-busy=true]").wait_for(state="detached")
        figure = self.page.locator("figure").nth(number)
        figure.locator("svg").first.wait_for()
        return figure

    def rows(self, number: int = 0) -> list[list[str]]:
        """The body of the table of a figure's numbers."""
        rows = self.figure(number).locator("tbody tr")
        cells: list[list[str]] = rows.evaluate_all(
            "rows => rows.map(row => [...row.cells].map(cell => cell.textContent))"
        )
        return cells

    def numbers(self, number: int = 0) -> list[list[float]]:
        """The same without the first column."""
        return [[float(cell) for cell in cells] for _, *cells in self.rows(number)]

    def type(self, label: str, text: str) -> None:
        """Replace the content of a field, and wait for what follows from it."""
        self.page.get_by_label(label, exact=True).fill(text)
        self.page.wait_for_timeout(150)  # longer than the page waits for another key

    def message(self) -> str:
        """The error that the page shows."""
        alert = self.page.get_by_role("alert").first
        alert.wait_for()
        return alert.inner_text()
