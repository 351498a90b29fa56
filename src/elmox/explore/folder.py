"""A folder with the page and its model; and the cached model that `elmox explore` shows."""

import shutil
from dataclasses import replace
from pathlib import Path

from elmox import __version__
from elmox.elmo import Elmo
from elmox.explore.files import PAGE_JSON, browser_page_json, page_files
from elmox.explore.words import frequent_words, word_files, word_vectors
from elmox.export import ExportReport, export_onnx
from elmox.export.graph import Weights
from elmox.io.files import atomic_directory, refuse_existing
from elmox.io.locks import locked
from elmox.tasks.fit.layers import cache_directory

MODEL = "model/"


def export_page(
    elmo: Elmo, out: str | Path, *, weights: Weights | None = None, force: bool = False
) -> ExportReport:
    """Write the explorer with a model, as a folder that any web host serves.

    Args:
        elmo: the model. Views that predict words need its softmax.
        out: the folder to make; it appears whole or not at all.
        weights: see `export_onnx`.
        force: replace `out` if it exists.

    Returns:
        The report of the model's export, with the page's path and files.
    """
    out = Path(out)
    refuse_existing(out, force)
    with atomic_directory(out) as folder:
        for name, path in page_files().items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, folder / name)
        report = _write_model(elmo, folder / MODEL, weights)
        digest = f"{elmo.digest()}-{report.weights}"
        (folder / PAGE_JSON).write_bytes(browser_page_json(MODEL, digest, folder / MODEL))
        paths = sorted(path for path in folder.rglob("*") if path.is_file())
        files = {path.relative_to(folder).as_posix(): path.stat().st_size for path in paths}
    return replace(report, path=str(out), files=files)


def cached_model(elmo: Elmo, cache: Path | None = None) -> tuple[Path, str]:
    """Return the folder of a model's export in the cache, and its digest; export it if missing.

    Args:
        elmo: the model.
        cache: the cache; by default `ELMOX_CACHE`, or the user's.
    """
    directory = cache_directory() if cache is None else cache
    directory.mkdir(parents=True, exist_ok=True)
    digest = f"{elmo.digest()}-{__version__}"
    folder = directory / f"explore-{digest}"
    with locked(directory, wait=True):  # one process exports, the others wait for it
        if not folder.is_dir():
            _write_model(elmo, folder, None)
    return folder, digest


def _write_model(elmo: Elmo, folder: Path, weights: Weights | None) -> ExportReport:
    has_softmax = elmo.checkpoint().softmax is not None
    words = frequent_words(elmo)
    with atomic_directory(folder) as temporary:
        inner = temporary / "onnx"
        report = export_onnx(elmo, inner, softmax=has_softmax, weights=weights)
        for path in inner.iterdir():
            path.rename(temporary / path.name)
        inner.rmdir()
        for name, content in word_files(words, word_vectors(elmo, words)).items():
            (temporary / name).write_bytes(content)
    return report
