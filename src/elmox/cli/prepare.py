"""`elmox prepare`: text to a corpus directory, for training."""

import json
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from elmox.cli.model_options import Force, Json, Raw, Tokenized

if TYPE_CHECKING:
    from elmox.training.corpus.corpus import CorpusInfo, SplitInfo
    from elmox.training.corpus.prepare import OnProgress, Progress

_SECONDS_BETWEEN_LINES = 30.0


def command(
    texts: Annotated[
        list[str],
        typer.Argument(
            metavar="TEXT...",
            help="Files or patterns, plain, .gz, .xz, .bz2 or .zst; - for stdin. Running text, or "
            "with --tokenized a tokenized sentence per line; a blank line ends a document.",
            show_default=False,
        ),
    ],
    output: Annotated[
        Path, typer.Option("--out", help="The corpus directory to make.", show_default=False)
    ],
    tokenized: Tokenized = False,
    raw: Raw = False,
    tokenizer: Annotated[
        str | None,
        typer.Option(
            help="treebank (the default), treebank:hyphens, whitespace or spacy:LANG. With "
            "--tokenized: the tokenizer that the text was made with, which is only recorded.",
        ),
    ] = None,
    valid: Annotated[
        list[str] | None, typer.Option(help="Held-out text, as TEXT; may be given repeatedly.")
    ] = None,
    hold_out: Annotated[
        int | None, typer.Option(metavar="N", help="Hold out every N-th document instead.")
    ] = None,
    vocab_size: Annotated[
        int | None,
        typer.Option(help="Most words in the softmax vocabulary, with the special ones."),
    ] = None,
    min_count: Annotated[
        int | None,
        typer.Option(help="Its words occur so often; 3 by default, or 1 with --vocab-size."),
    ] = None,
    vocab: Annotated[
        Path | None,
        typer.Option(help="A vocabulary in bilm-tf's order to be taken as it stands."),
    ] = None,
    max_characters: Annotated[
        int, typer.Option(help="Of the model to come, to tell how many words it will cut.")
    ] = 50,
    shard_tokens: Annotated[int, typer.Option(help="About the size of a shard.")] = 2**22,
    workers: Annotated[int | None, typer.Option(help="Processes; one per core by default.")] = None,
    as_json: Json = False,
    force: Force = False,
) -> None:
    """Make a corpus directory of text: word ids, vocabulary, spellings, counts.

    Train on it with elmox train. The same text and options give the same bytes on any machine.
    """
    from elmox.training.corpus.prepare import PrepareOptions, prepare_corpus

    options = PrepareOptions(
        tokenized=tokenized,
        tokenizer=tokenizer,
        valid=tuple(valid or ()),
        hold_out=hold_out,
        vocab=vocab,
        vocab_size=vocab_size,
        min_count=min_count,
        max_characters=max_characters,
        shard_tokens=shard_tokens,
    )
    with _progress() as on_progress:
        info = prepare_corpus(
            texts, output, options, force=force, num_workers=workers, on_progress=on_progress
        )
    if as_json:
        typer.echo(json.dumps({"output": str(output), **info.to_dict()}))
        return
    for name, text in _summary(output, info).items():
        typer.echo(f"{name:<12}{text}")


def _summary(output: Path, info: "CorpusInfo") -> dict[str, str]:
    """What was made, for people."""
    too_long = f"longer than {info.max_characters - 2} bytes"
    return {
        "corpus": str(output),
        "train": _split(info.train),
        "valid": _split(info.valid) if info.valid is not None else "none",
        "words": f"{info.num_distinct_words:,} different ones in the training text",
        "vocabulary": f"{info.vocab_size:,} words, {output / 'vocab.txt'}",
        "tokenizer": info.tokenizer,
        "cut": f"{info.cut_share:.4%} of tokens, {info.cut_distinct_share:.4%} of words {too_long}",
        "digest": info.digest,
    }


def _split(split: "SplitInfo") -> str:
    replaced = (
        f", {split.num_boundary_words:,} literal <S> or </S> taken for <UNK>"
        if split.num_boundary_words
        else ""
    )
    numbers = {
        "token": split.num_tokens,
        "sentence": split.num_sentences,
        "document": split.num_documents,
        "shard": len(split.shards),
    }
    counted = (f"{n:,} {name}{'s' if n != 1 else ''}" for name, n in numbers.items())
    return f"{', '.join(counted)}; {split.unknown_share:.2%} unknown as targets{replaced}"


@contextmanager
def _progress() -> "Iterator[OnProgress]":
    """A bar where someone looks at it, else a line now and then."""
    if not sys.stderr.isatty():
        yield _Lines()
        return
    from tqdm import tqdm

    with tqdm(unit="B", unit_scale=True, desc="prepare", file=sys.stderr) as bar:

        def show(progress: "Progress") -> None:
            bar.total = progress.num_bytes
            bar.set_postfix_str(f"{progress.num_tokens / 1e6:.1f} M tokens", refresh=False)
            bar.update(progress.bytes_read - bar.n)

        yield show


class _Lines:
    """Progress for a log file."""

    def __init__(self) -> None:
        self._next = time.monotonic() + _SECONDS_BETWEEN_LINES

    def __call__(self, progress: "Progress") -> None:
        if time.monotonic() < self._next:
            return
        self._next = time.monotonic() + _SECONDS_BETWEEN_LINES
        share = f", {progress.bytes_read / progress.num_bytes:.0%}" if progress.num_bytes else ""
        typer.echo(f"elmox: {progress.num_tokens / 1e6:.1f} M tokens{share}", err=True)
