"""`elmox prepare`: text to a corpus directory (see `corpus` for its files).

    sources   files to blocks of lines
    blocks    lines to words, numbered within the block: on all cores (`parallel`)
    splits    documents to the training text or the held-out text
    lexicon   words to provisional ids, and their counts
    shards    ids to disk, and final ids once all words are counted

The text is read once. Only its distinct words are held in memory. The result depends neither on the
size of the blocks nor on the number of processes.
"""

import os
import re
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path

import numpy as np

from elmox.errors import Argument, ArgumentError, ElmoxError, NothingHeldOut, require_at_least
from elmox.io.files import atomic_directory, refuse_existing, to_json
from elmox.io.text_files import text_name
from elmox.text.tokenize import get_tokenizer
from elmox.text.vocab import SPECIAL_WORDS
from elmox.training.corpus.blocks import NumberedBlock, number_block
from elmox.training.corpus.info import INFO_FILE, OFFSETS_FILE, CorpusInfo
from elmox.training.corpus.lexicon import WordCounts, read_fixed_vocab, write_lexicon
from elmox.training.corpus.parallel import map_in_order, num_cores
from elmox.training.corpus.shards import SHARD_TOKENS
from elmox.training.corpus.sources import BLOCK_BYTES, Source, find_sources, read_blocks
from elmox.training.corpus.splits import Documents, Split, provisional_ids

MIN_COUNT = 3  # the 1 Billion Word Benchmark's
MAX_CHARACTERS = 50

_CORPUS_FILES = re.compile(
    r"corpus\.json|vocab\.txt|words\.bin|words\.npy|counts\.npy|(train|valid)-\d{5,}\.npy"
)


@dataclass(frozen=True)
class PrepareOptions:
    """Options of `prepare_corpus`.

    Attributes:
        tokenized: each line is a sentence of words separated by white space. By default the text is
            running text, which is split into sentences and words.
        tokenizer: name of the tokenizer; None for `treebank`, or `whitespace` if the text is
            tokenized. For tokenized text it is only recorded.
        valid: files of held-out text, instead of `hold_out`.
        hold_out: N, to hold out every N-th document of the text.
        vocab: a vocabulary file in bilm-tf's order, used unchanged as the softmax vocabulary.
        vocab_size: maximum number of words in the softmax vocabulary, with special words.
        min_count: minimum count of its words in the training text; None for 1 with `vocab_size`
            and 3 without.
        max_characters: of the future model, only to report how many words it will cut.
        shard_tokens: approximate size of a shard.
    """

    tokenized: bool = False
    tokenizer: str | None = None
    valid: tuple[str, ...] = ()
    hold_out: int | None = None
    vocab: Path | None = None
    vocab_size: int | None = None
    min_count: int | None = None
    max_characters: int = MAX_CHARACTERS
    shard_tokens: int = SHARD_TOKENS

    def __post_init__(self) -> None:
        for name, least in (
            ("hold_out", 2),
            ("vocab_size", len(SPECIAL_WORDS) + 1),
            ("min_count", 1),
            ("max_characters", 3),
            ("shard_tokens", 1),
        ):
            require_at_least(least, name, getattr(self, name))
        if self.valid and self.hold_out is not None:
            raise ArgumentError(
                "{} and {} are both given: choose one of them",
                Argument("valid"),
                Argument("hold_out"),
            )
        if self.vocab is not None and (self.vocab_size or self.min_count):
            raise ArgumentError(
                "{} is used unchanged: leave out {} and {}",
                *map(Argument, ("vocab", "vocab_size", "min_count")),
            )
        # A tokenizer that is only recorded need not be installed here.
        if not self.tokenized or not self.tokenizer_name.startswith("spacy:"):
            get_tokenizer(self.tokenizer_name)

    @property
    def tokenizer_name(self) -> str:
        """The tokenizer that the text was split with."""
        return self.tokenizer or ("whitespace" if self.tokenized else "treebank")


@dataclass(frozen=True)
class Progress:
    """Progress of the reading.

    Attributes:
        bytes_read: bytes read from disk, before decompression.
        num_bytes: size of all files; None if stdin is among them.
        num_tokens: number of words so far.
    """

    bytes_read: int
    num_bytes: int | None
    num_tokens: int


OnProgress = Callable[[Progress], None]


def prepare_corpus(
    texts: Sequence[str],
    output: Path,
    options: PrepareOptions | None = None,
    *,
    force: bool = False,
    num_workers: int | None = None,
    block_bytes: int = BLOCK_BYTES,
    on_progress: OnProgress = lambda progress: None,
) -> CorpusInfo:
    """Make a corpus directory from text; it appears when it is complete.

    A blank line ends a document, and so does the end of a file. Workers are spawned processes, so a
    script must call this under `if __name__ == "__main__"`.

    Args:
        texts: the training text: files, patterns, or `-` for stdin.
        output: the directory to make.
        options: how to split the text, and the vocabulary.
        force: replace an existing corpus.
        num_workers: number of processes; None for one per core.
        block_bytes: size of the blocks that workers process.
        on_progress: called after every block.
    """
    options = options or PrepareOptions()
    num_workers = num_cores() if num_workers is None else num_workers
    require_at_least(1, "num_workers", num_workers)
    _check_output(output, force)
    sources, valid_sources = _find_both(texts, options.valid)
    words = WordCounts(None if options.vocab is None else read_fixed_vocab(options.vocab))
    tokenizer = None if options.tokenized else options.tokenizer_name
    read = partial(_read, tokenizer=tokenizer, num_workers=num_workers, block_bytes=block_bytes)
    with atomic_directory(output) as folder:
        train = Split(folder, "train", options.shard_tokens, words)
        valid = Split(folder, "valid", options.shard_tokens)
        meter = _Meter([*sources, *valid_sources], (train, valid), on_progress)
        with closing(train), closing(valid):
            with closing(read(sources)) as blocks:
                _write(meter.watch(blocks), words, train, valid, options.hold_out)
            with closing(read(valid_sources)) as blocks:
                _write(meter.watch(blocks), words, valid)
        _check_content(texts, options, train, valid)
        info = _finish(folder, options, words, train, valid)
        (folder / INFO_FILE).write_bytes(to_json(info.to_dict()))
    return info


def _find_both(
    texts: Sequence[str], valid_texts: Sequence[str]
) -> tuple[list[Source], list[Source]]:
    """Return the files of the training text and of the held-out text; none may be both."""
    sources, valid_sources = find_sources(texts), find_sources(valid_texts)
    paths = {os.path.realpath(source.path) for source in sources}
    for source in valid_sources:
        if os.path.realpath(source.path) in paths:
            raise ArgumentError(
                "{} is training text and held-out text ({}): leave it out of one",
                text_name(source.path),
                Argument("valid"),
            )
    return sources, valid_sources


def _check_output(output: Path, force: bool) -> None:
    """Refuse to replace anything without `force`, and anything except a corpus with it."""
    refuse_existing(output, force)
    if not output.exists():
        return
    if not output.is_dir():
        raise ElmoxError(f"{output} is not a directory: choose another name for the corpus")
    others = [path.name for path in output.iterdir() if not _CORPUS_FILES.fullmatch(path.name)]
    if others:
        raise ElmoxError(
            f"{output} contains {min(others)}, which is not part of a corpus: choose another name"
        )


def _read(
    sources: Sequence[Source], tokenizer: str | None, num_workers: int, block_bytes: int
) -> Generator[NumberedBlock, None, None]:
    """Yield the blocks of all sources in order, numbered on all cores."""
    blocks = chain.from_iterable(read_blocks(source, block_bytes) for source in sources)
    return map_in_order(partial(number_block, tokenizer=tokenizer), blocks, num_workers)


def _write(
    blocks: Iterable[NumberedBlock],
    words: WordCounts,
    split: Split,
    held_out: Split | None = None,
    every: int | None = None,
) -> None:
    """Write blocks to a split, but every N-th document to `held_out`."""
    documents = Documents()
    for block in blocks:
        ids, numbers = documents.join(block)
        table = provisional_ids(block, words)
        if held_out is not None and every is not None:
            is_held_out = numbers % every == every - 1
            held_out.add(ids[is_held_out], table)
            ids = ids[~is_held_out]
        split.add(ids, table)


def _check_content(
    texts: Sequence[str], options: PrepareOptions, train: Split, valid: Split
) -> None:
    if not train.num_tokens:
        names = ", ".join(texts[:3]) + (", ..." if len(texts) > 3 else "")
        raise ElmoxError(f"no words in {names}: give text to train on")
    if options.hold_out is not None and not valid.num_documents:
        raise NothingHeldOut(options.hold_out, train.num_documents)


def _finish(
    folder: Path, options: PrepareOptions, words: WordCounts, train: Split, valid: Split
) -> CorpusInfo:
    """Write the lexicon and the final ids of the shards, and describe the corpus."""
    least = options.min_count or (MIN_COUNT if options.vocab_size is None else 1)
    ranking = words.ranking(least, options.vocab_size)
    files = write_lexicon(folder, ranking)
    train_info = train.finish(ranking)
    assert train_info is not None
    first = len(SPECIAL_WORDS)
    counts = ranking.counts[first:]
    is_cut = np.diff(np.load(folder / OFFSETS_FILE))[first:] > options.max_characters - 2
    num_distinct = int(np.count_nonzero(counts))
    return CorpusInfo(
        tokenizer=options.tokenizer_name,
        vocab_size=ranking.vocab_size,
        num_words=len(ranking.words),
        num_distinct_words=num_distinct,
        max_characters=options.max_characters,
        cut_share=int(counts[is_cut].sum()) / train.num_tokens,
        cut_distinct_share=int(np.count_nonzero(counts[is_cut])) / max(num_distinct, 1),
        train=train_info,
        valid=valid.finish(ranking),
        lexicon=files,
    )


class _Meter:
    """Reports progress while blocks are written."""

    def __init__(
        self, sources: Sequence[Source], splits: Sequence[Split], on_progress: OnProgress
    ) -> None:
        sizes = [source.size for source in sources]
        self._num_bytes = None if None in sizes else sum(size or 0 for size in sizes)
        self._splits = splits
        self._on_progress = on_progress
        self._bytes_before = 0  # of files that are complete

    def watch(self, blocks: Iterable[NumberedBlock]) -> Iterator[NumberedBlock]:
        """Yield the blocks, and report progress after each."""
        for block in blocks:
            yield block
            num_tokens = sum(split.num_tokens for split in self._splits)
            num_read = self._bytes_before + block.position
            self._on_progress(Progress(num_read, self._num_bytes, num_tokens))
            if block.ends_file:
                self._bytes_before = num_read
