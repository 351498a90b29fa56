"""The files of the page, and page.json, which tells the page where its model is."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

PAGE = Path(__file__).parent / "page"
PAGE_JSON = "page.json"
NODE_ONLY = {"package.json"}  # makes Node read the files as modules
TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".txt": "text/plain; charset=utf-8",
    ".json": "application/json",
    ".svg": "image/svg+xml",
}
# What the page may load is stated in the page itself; these are for the browser's other guesses.
HEADERS = {
    "cache-control": "no-cache",  # the browser asks again; the model has a cache of its own
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
}


def page_files() -> dict[str, Path]:
    """Return the files of the page by their paths in a URL."""
    paths = {path.relative_to(PAGE).as_posix(): path for path in PAGE.rglob("*") if path.is_file()}
    return {name: path for name, path in sorted(paths.items()) if name not in NODE_ONLY}


def media_type(name: str) -> str:
    """Return the media type of a file, independent of what is installed on the machine."""
    return TYPES.get(Path(name).suffix, "application/octet-stream")


def browser_page_json(model: str, digest: str, folder: Path) -> bytes:
    """Return page.json for a model that runs in the browser.

    Args:
        model: path of the model's folder, relative to the page, with a final slash.
        digest: name of this version of the model, for the browser's cache.
        folder: the model's folder.
    """
    sizes = {path.name: path.stat().st_size for path in sorted(folder.iterdir())}
    files = {f"{model}{name}": size for name, size in sizes.items()}
    runtime = {
        name: path.stat().st_size for name, path in page_files().items() if name[-3:] == ".gz"
    }
    return _to_json(
        {
            "backend": "onnx",
            "model": model,
            "digest": digest,
            "frequentWords": True,
            "files": files | runtime,
        }
    )


def server_page_json(api: str, digest: str) -> bytes:
    """Return page.json for a model behind `elmox serve`.

    Args:
        api: path of the server's endpoints, relative to the page, with a final slash.
        digest: name of this version of the model.
    """
    return _to_json({"backend": "http", "api": api, "digest": digest, "frequentWords": True})


def _to_json(values: Mapping[str, Any]) -> bytes:
    return json.dumps(values, separators=(",", ":")).encode("ascii")
