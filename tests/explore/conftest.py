"""A browser, a tiny model, and the page with both of its back ends."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from explorer_page import CHROMIUM, Explorer
from http_server import running
from language_models import tiny_lm
from tagged_files import NAMES, write_columns
from task_files import write_task_files
from treebank_data import write_treebank

from elmox.elmo import Elmo
from elmox.explore.folder import export_page
from elmox.tasks.fit.api import fit

if TYPE_CHECKING:
    from playwright.sync_api import Browser

SMALL = [
    *("words.dim=4", "words.filters=4", "words.min_count=1", "words.dropout=0", "elmo.dropout=0"),
    *("fit.lr=0.02", "fit.batch_size=4", "fit.patience=8", "fit.least_updates=1"),
]


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny random model with a softmax."""
    folder = tmp_path_factory.mktemp("explored")
    tiny_lm(folder).elmo().save_pretrained(folder / "tiny")
    return folder / "tiny"


@pytest.fixture(scope="session")
def elmo(model: Path) -> Elmo:
    """The same model in this process."""
    return Elmo.from_pretrained(model, device="cpu")


@pytest.fixture(scope="module")
def browser() -> Iterator["Browser"]:
    """Debian's Chromium."""
    playwright = pytest.importorskip("playwright.sync_api")
    if CHROMIUM is None:
        pytest.skip("no chromium: apt-get install chromium")
    with playwright.sync_playwright() as driver:
        arguments = ["--no-sandbox"]  # the tests may run as root
        browser = driver.chromium.launch(executable_path=CHROMIUM, headless=True, args=arguments)
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def static_url(elmo: Elmo, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """`elmox export --page` on a web host that knows nothing of elmox."""
    folder = tmp_path_factory.mktemp("host") / "page"
    export_page(elmo, folder)
    with _web_host(folder) as url:
        yield url


@pytest.fixture(scope="session")
def taggers(model: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Tiny task models by their names."""
    folder = tmp_path_factory.mktemp("taggers")
    names = write_columns(folder / "names.txt", NAMES)
    trees = write_treebank(folder, 8)["train"]
    write_task_files(folder)
    files = {"ner": names, "pos": trees, "parse": trees, "srl": folder / "roles.jsonl"}
    for task, path in files.items():
        settings = [*SMALL, f"fit.epochs={8 if task == 'ner' else 1}"]  # names must be found
        options: dict[str, Any] = {
            "elmo": model,
            "settings": settings,
            "cache": folder,
            "device": "cpu",
        }
        fit(task, path, path, out=folder / task, **options)
    return {task: folder / task / "seed-0" / "model" for task in files}


@pytest.fixture(scope="session")
def server_url(model: Path, taggers: dict[str, Path]) -> Iterator[str]:
    """`elmox serve` with task models."""
    options = [part for name, path in taggers.items() for part in ("--tagger", f"{name}={path}")]
    with running(f"tiny={model}", *options) as server:
        yield f"{server.url}/"


@pytest.fixture(params=["static", "server"])
def url(request: pytest.FixtureRequest) -> str:
    """The page's address, with either back end."""
    address: str = request.getfixturevalue(f"{request.param}_url")
    return address


@pytest.fixture
def explorer(browser: "Browser", url: str) -> Iterator[Explorer]:
    """The page in a tab of its own, with empty caches."""
    with Explorer.open(browser, url) as explorer:
        yield explorer


class _QuietHandler(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        pass


@contextmanager
def _web_host(folder: Path) -> Iterator[str]:
    handler = partial(_QuietHandler, directory=str(folder))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}/"
        server.shutdown()
