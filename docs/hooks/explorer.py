"""The explorer with a model, the bundled one by default, as a part of the site.

Its export is cached: the first build takes a minute longer. Without onnx the site has no explorer,
and its page does not link to one.
"""

import logging
import shutil
from importlib.util import find_spec
from pathlib import Path
from typing import Any

PAGE = "explore.md"
FOLDER = "explorer"
MARK = "<!-- the explorer, in the site -->"
log = logging.getLogger("mkdocs.hooks.explorer")


def available() -> bool:
    """Whether the packages of the extra `onnx` are installed."""
    return all(find_spec(name) for name in ("onnx", "onnxruntime"))


def on_page_content(html: str, page: Any, config: Any, files: Any) -> str:
    """Link to the explorer where the page has its mark."""
    if page.file.src_uri != PAGE or not available():
        return html
    link = (
        f'<a class="md-button md-button--primary" href="{FOLDER}/index.html">Open the explorer</a>'
    )
    assert MARK in html, f"{PAGE} has no place for the link"
    return html.replace(MARK, f"<p>{link}</p>")


def on_post_build(config: Any) -> None:
    """Write the folder of the explorer into the site."""
    if not available():
        log.info("onnx is not installed: the site has no explorer (pip install 'elmox[onnx]')")
        return
    write_explorer(config["extra"]["explorer"], Path(config["site_dir"]) / FOLDER)


def write_explorer(model: str, folder: Path) -> None:
    """Write the page and a model in `folder`."""
    from elmox import Elmo
    from elmox.explore.files import PAGE_JSON, browser_page_json, page_files
    from elmox.explore.folder import MODEL, cached_model

    exported, digest = cached_model(Elmo.from_pretrained(model))
    for name, path in page_files().items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, folder / name)
    shutil.copytree(exported, folder / MODEL, dirs_exist_ok=True)
    (folder / PAGE_JSON).write_bytes(browser_page_json(MODEL, digest, exported))
