"""`elmox prepare`: text to a corpus directory, for training."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from elmox.cli.options import (
    FILES_HELP,
    Force,
    HeldOutText,
    OutDirectory,
    PrintOptions,
    TextOptions,
)
from elmox.cli.verb import verb

if TYPE_CHECKING:
    from elmox.training.corpus.info import CorpusInfo, SplitInfo
    from elmox.training.corpus.prepare import OnProgress, Progress

_SECONDS_BETWEEN_LINES = 30.0


@verb(
    "elmox prepare text.txt --out data/mine --min-count 1",
    "elmox prepare domain.txt --out data/domain --hold-out 4 --vocab-size 50000",
)
def command(
    texts: Annotated[
        list[str],
        typer.Argument(
            metavar="TEXT...",
            help=f"Files or patterns of running text, {FILES_HELP}; - for stdin. A blank line ends "
            "a document.",
        ),
    ],
    out: OutDirectory,
    tokenizer: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="treebank (default), treebank:hyphens, whitespace or spacy:LANG. With --tokenized "
            "it is only recorded in the corpus.",
        ),
    ] = None,
    valid: HeldOutText = None,
    hold_out: Annotated[int | None, "Hold out every N-th document."] = None,
    vocab_size: Annotated[int | None, "Maximum size of the vocabulary."] = None,
    min_count: Annotated[
        int | None, "Minimum count of its words; 3, or 1 with --vocab-size."
    ] = None,
    vocab: Annotated[Path | None, "Use this vocabulary, in the order of bilm-tf."] = None,
    max_characters: Annotated[
        int, "Characters per word of the future model, to count truncated words."
    ] = 50,
    shard_tokens: Annotated[int, "Approximate tokens per shard."] = 2**22,
    workers: Annotated[int | None, "Processes; one per core by default."] = None,
    force: Force = False,
    *,
    lines: TextOptions,
    show: PrintOptions,
) -> None:
    """Prepare text for training: word ids, vocabulary, spellings and counts.

    Train on the result with elmox train. The same text and options give the same bytes on every
    machine.
    """
    from elmox.training.corpus.prepare import PrepareOptions, prepare_corpus

    options = PrepareOptions(
        tokenized=lines.tokenized,
        tokenizer=tokenizer,
        valid=tuple(valid or ()),
        hold_out=hold_out,
        vocab=vocab,
        vocab_size=vocab_size,
        min_count=min_count,
        max_characters=max_characters,
        shard_tokens=shard_tokens,
    )
    with _progress(show) as on_progress:
        info = prepare_corpus(
            texts, out, options, force=force, num_workers=workers, on_progress=on_progress
        )
    rows = _summary(out, info)
    show.result(
        {"output": str(out), **info.to_dict()},
        (f"{name:<12}{text}" for name, text in rows.items()),
    )


def _summary(out: Path, info: "CorpusInfo") -> dict[str, str]:
    """Describe a corpus for people."""
    too_long = f"longer than {info.max_characters - 2} bytes"
    return {
        "corpus": str(out),
        "train": _split(info.train),
        "valid": _split(info.valid) if info.valid is not None else "none",
        "words": f"{info.num_distinct_words:,} distinct words in the training text",
        "vocabulary": f"{info.vocab_size:,} words, {out / 'vocab.txt'}",
        "tokenizer": info.tokenizer,
        "cut": f"{info.cut_share:.4%} of tokens, {info.cut_distinct_share:.4%} of words {too_long}",
        "digest": info.digest,
    }


def _split(split: "SplitInfo") -> str:
    replaced = (
        f", {split.num_boundary_words:,} literal <S> or </S> read as <UNK>"
        if split.num_boundary_words
        else ""
    )
    numbers = {
        "token": split.num_tokens,
        "sentence": split.num_sentences,
        "document": split.num_documents,
        "shard": len(split.shards),
    }
    counts = (f"{n:,} {name}{'s' if n != 1 else ''}" for name, n in numbers.items())
    return f"{', '.join(counts)}; {split.unknown_share:.2%} unknown as targets{replaced}"


@contextmanager
def _progress(show: PrintOptions) -> "Iterator[OnProgress]":
    """Show a bar on a terminal, otherwise log a line now and then."""
    if not show.show_progress_bar:
        yield _ProgressLog(show)
        return
    from tqdm import tqdm

    with tqdm(unit="B", unit_scale=True, desc="prepare", file=sys.stderr) as bar:

        def update(progress: "Progress") -> None:
            bar.total = progress.num_bytes
            bar.set_postfix_str(f"{progress.num_tokens / 1e6:.1f} M tokens", refresh=False)
            bar.update(progress.bytes_read - bar.n)

        yield update


class _ProgressLog:
    """Progress for a log file."""

    def __init__(self, show: PrintOptions) -> None:
        self._show = show
        self._next = time.monotonic() + _SECONDS_BETWEEN_LINES

    def __call__(self, progress: "Progress") -> None:
        if time.monotonic() < self._next:
            return
        self._next = time.monotonic() + _SECONDS_BETWEEN_LINES
        share = f", {progress.bytes_read / progress.num_bytes:.0%}" if progress.num_bytes else ""
        self._show.log(f"{progress.num_tokens / 1e6:.1f} M tokens{share}")
