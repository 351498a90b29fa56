"""ELMo's layers of a data set: computed once, kept on disk, read again by every run.

The biLM is frozen, so its layers depend on the model and the sentences alone. They are written by
`vectors/` (float16, in shards; an interrupted computation goes on) under a name made of both, and
reused across seeds, ablations and tasks.
"""

import hashlib
import json
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from elmox.elmo import Elmo
from elmox.errors import ElmoxError
from elmox.io.files import writing
from elmox.io.locks import locked
from elmox.tasks.data.texts import Sentence
from elmox.vectors.embed import embed_sentences
from elmox.vectors.files import Vectors, open_vectors
from elmox.vectors.job import fingerprint
from elmox.vectors.workspace import workspace_of


def cache_directory() -> Path:
    """Return the directory of cached layers: `ELMOX_CACHE`, otherwise the user's cache."""
    if directory := os.environ.get("ELMOX_CACHE"):
        return Path(directory)
    on_windows = sys.platform == "win32"
    if base := os.environ.get("LOCALAPPDATA" if on_windows else "XDG_CACHE_HOME"):
        return Path(base, "elmox")
    try:
        home = Path.home()
    except RuntimeError as error:  # no HOME, and a user without an entry, as in containers
        raise ElmoxError(
            "there is no home directory for the cache: set ELMOX_CACHE to a directory"
        ) from error
    return home / ("AppData/Local" if on_windows else ".cache") / "elmox"


def layers_path(elmo: Elmo, sentences: Sequence[Sentence], cache: Path) -> Path:
    """Return the folder of these sentences' layers, whether it exists or not."""
    digest = hashlib.blake2b(fingerprint(elmo).encode(), digest_size=16)
    for line in _lines(sentences):
        digest.update(line)
    return cache / f"layers-{digest.hexdigest()}"


def stored_layers(
    elmo: Elmo, sentences: Sequence[Sentence], path: Path, *, show_progress_bar: bool = False
) -> Vectors:
    """Return all layers of all sentences, one entry per sentence; compute them if missing.

    Args:
        elmo: the model.
        sentences: tokenized.
        path: the folder, as `layers_path` returns it.
        show_progress_bar: on stderr, if they are computed.
    """

    def compute() -> None:
        # The folder's name is a digest of the model and the sentences.
        embed_sentences(
            elmo,
            sentences,
            path,
            dtype="float16",
            job_id=path.name,
            show_progress_bar=show_progress_bar,
        )

    return kept_layers(path, len(sentences), compute)


def kept_layers(path: Path, num_sentences: int, compute: Callable[[], None]) -> Vectors:
    """Return the layers in a folder of the cache; compute them if missing.

    One process at a time computes, the others wait.

    Args:
        path: the folder.
        num_sentences: number of its entries.
        compute: creates the folder, completely or not at all.
    """
    if _is_to_be_made(path):
        with writing(path.parent, resumable=True):
            path.parent.mkdir(parents=True, exist_ok=True)
        with locked(path.parent, wait=True):
            if _is_to_be_made(path):  # another process may have made it meanwhile
                compute()
    try:
        vectors = open_vectors(path)
        if len(vectors) != num_sentences:
            raise ElmoxError(f"{path} has {len(vectors)} entries, expected {num_sentences}")
    except ElmoxError as error:
        raise ElmoxError(f"{error}: delete {path}, and it is computed again") from error
    return vectors


def size_of(path: Path) -> int:
    """Return the bytes of everything in a folder."""
    return sum(file.stat().st_size for file in path.rglob("*") if file.is_file())


def _is_to_be_made(path: Path) -> bool:
    """Return whether layers are missing, or a killed process left its workspace."""
    return not path.exists() or workspace_of(path).exists()


def _lines(sentences: Sequence[Sentence]) -> Iterator[bytes]:
    for sentence in sentences:
        yield json.dumps({"tokens": list(sentence)}).encode() + b"\n"
